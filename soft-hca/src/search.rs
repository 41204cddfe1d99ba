//! The choices by which a run with a seed fails.

use std::time::Instant;

use soft_hca_core::config::Strict;
use soft_hca_verbs::{Choice, Choices, RequestSpan};

use super::Error;
use super::posted::Posted;

/// How often a run is repeated to see whether it always fails.
const REPETITIONS: u32 = 3;

/// Exit statuses of programs that somebody has interrupted, or ended.
const INTERRUPTED: [u8; 2] = [130, 143];

/// The outcome of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It does not fail each time: with these choices so often, of [`REPETITIONS`].
    Sometimes(Strict, u32),
    /// It fails each time with these, and did not without one of the kinds, or with fewer requests.
    Needed(Strict),
    /// The time was over when others may not have been needed.
    InPart(Strict),
    /// The time was over before it had been repeated.
    TooLate,
    /// Somebody has interrupted it.
    Interrupted,
}

/// Why a search ends before it has found all.
enum Stop {
    /// The time is over: so much was found.
    Late(Strict),
    Interrupted,
    Failed(Error),
}

/// Runs of a search: with the same seed, until a time.
struct Search<R> {
    /// The exit status of the run that has failed.
    failed: u8,
    until: Instant,
    again: R,
}

impl<R: FnMut(Strict) -> Result<u8, Error>> Search<R> {
    /// Whether it fails with these choices as it did. `found` is what is known to fail.
    fn fails(&mut self, strict: Strict, found: Strict) -> Result<bool, Stop> {
        if Instant::now() >= self.until {
            return Err(Stop::Late(found));
        }
        let status = (self.again)(strict).map_err(Stop::Failed)?;
        match status == self.failed {
            false if INTERRUPTED.contains(&status) => Err(Stop::Interrupted),
            fails => Ok(fails),
        }
    }

    /// How often it fails with these choices, of [`REPETITIONS`].
    fn often(&mut self, strict: Strict) -> Result<u32, Stop> {
        let mut count = 0;
        for _ in 0..REPETITIONS {
            count += u32::from(self.fails(strict, strict)?);
        }
        Ok(count)
    }

    /// Leaves out the kinds without which it fails, too.
    fn fewer_kinds(&mut self, mut found: Strict) -> Result<Strict, Stop> {
        let without_all = Strict { choices: Choices::NONE, ..found };
        if self.fails(without_all, found)? {
            return Ok(without_all);
        }
        for choice in found.choices.iter() {
            let without = Strict { choices: found.choices.without(choice), ..found };
            if self.fails(without, found)? {
                found = without;
            }
        }
        Ok(found)
    }

    /// Leaves out the requests at the end, and then those at the beginning, without which it fails, too. A queue pair
    /// has `most` at most.
    fn fewer_requests(&mut self, mut found: Strict, most: u32) -> Result<Strict, Stop> {
        let first = found.requests.first();
        let (mut low, mut high) = (first, found.requests.last().min(most));
        while low < high {
            let middle = low + (high - low) / 2;
            match self.fails_from(first, middle, found)? {
                Some(fewer) => (found, high) = (fewer, middle),
                None => low = middle + 1,
            }
        }
        let last = high;
        let mut low = first;
        while low < high {
            let middle = high - (high - low) / 2;
            match self.fails_from(middle, last, found)? {
                Some(fewer) => (found, low) = (fewer, middle),
                None => high = middle - 1,
            }
        }
        Ok(found)
    }

    /// The choices about requests from one number to another, if it fails with these.
    fn fails_from(&mut self, first: u32, last: u32, found: Strict) -> Result<Option<Strict>, Stop> {
        let Some(requests) = RequestSpan::new(first, last) else { return Ok(None) };
        let fewer = Strict { requests, ..found };
        Ok(self.fails(fewer, found)?.then_some(fewer))
    }

    fn find(&mut self, all: Strict, most: u32) -> Result<Found, Stop> {
        let count = self.often(all)?;
        if count < REPETITIONS {
            return Ok(Found::Sometimes(all, count));
        }
        let kinds = self.fewer_kinds(all)?;
        if kinds.choices.iter().any(Choice::is_of_request) {
            let found = self.fewer_requests(kinds, most)?;
            if self.often(found)? == REPETITIONS {
                return Ok(Found::Needed(found));
            }
        }
        Ok(match self.often(kinds)? {
            REPETITIONS => Found::Needed(kinds),
            count => Found::Sometimes(kinds, count),
        })
    }
}

/// Looks for the choices by which a run has failed with a status, until a time. `most` send work requests were posted
/// to a queue pair of it, and `again` runs it.
pub(super) fn search(
    strict: Strict,
    most: u32,
    failed: u8,
    until: Instant,
    again: impl FnMut(Strict) -> Result<u8, Error>,
) -> Result<Found, Error> {
    match (Search { failed, until, again }).find(strict, most) {
        Ok(found) => Ok(found),
        Err(Stop::Late(found)) if found == strict => Ok(Found::TooLate),
        Err(Stop::Late(found)) => Ok(Found::InPart(found)),
        Err(Stop::Interrupted) => Ok(Found::Interrupted),
        Err(Stop::Failed(error)) => Err(error),
    }
}

impl Found {
    /// Says so on standard error, with the requests that are meant.
    pub(super) fn say(self, posted: &Posted) {
        match self {
            Self::Sometimes(strict, count) => eprintln!(
                "soft-hca: with {strict} it fails in {count} of {REPETITIONS} repetitions: not only the \
                 seed decides"
            ),
            Self::Needed(strict @ Strict { choices: Choices::NONE, .. }) => eprintln!(
                "soft-hca: with {strict} it fails, too: it is enough that requests take a while"
            ),
            Self::Needed(strict) => {
                eprintln!("soft-hca: with {strict} it fails, too, and not without one of them:");
                say_each(strict, posted);
            }
            Self::InPart(strict) => {
                eprintln!(
                    "soft-hca: with {strict} it fails, too; --search SECONDS looks longer for what \
                     is not needed:"
                );
                say_each(strict, posted);
            }
            Self::TooLate => {
                eprintln!(
                    "soft-hca: --search SECONDS looks longer for the choices by which it fails"
                );
            }
            Self::Interrupted => {}
        }
    }
}

fn say_each(strict: Strict, posted: &Posted) {
    let Strict { choices, requests, .. } = strict;
    for choice in choices.iter() {
        eprintln!("    {choice}: {}", Choice::words(choice));
    }
    if requests != RequestSpan::ALL {
        eprint!("{}", posted.name(requests));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const STRICT: Strict = Strict { seed: 7, choices: Choices::ALL, requests: RequestSpan::ALL };

    fn with(choices: &str, requests: &str) -> Strict {
        let (choices, requests) = (choices.parse().unwrap(), requests.parse().unwrap());
        Strict { choices, requests, ..STRICT }
    }

    /// The outcome if a program of so many requests that is given these choices and the number of the run ends with
    /// a status.
    fn found(most: u32, status: impl Fn(Strict, u32) -> u8) -> (Found, u32) {
        let mut runs = 0;
        let until = Instant::now() + Duration::from_secs(1000);
        let again = |strict: Strict| {
            assert_eq!(strict.seed, STRICT.seed);
            runs += 1;
            Ok(status(strict, runs))
        };
        let found = search(STRICT, most, 2, until, again).unwrap();
        (found, runs)
    }

    #[test]
    fn kinds_that_are_needed_are_left() {
        let fails = |strict: Strict| {
            [Choice::Poll, Choice::Event].iter().all(|choice| strict.choices.has(*choice))
        };
        let (by_two, runs) = found(100, |strict, _| if fails(strict) { 2 } else { 0 });
        assert_eq!((by_two, runs), (Found::Needed(with("poll,event", "1-")), 18));
        assert_eq!(found(100, |_, _| 2), (Found::Needed(with("none", "1-")), 7));
        // Another failure is not the same.
        let other = |strict: Strict, _| if strict == STRICT { 2 } else { 3 };
        assert_eq!(found(1, other).0, Found::Needed(STRICT));
    }

    #[test]
    fn requests_that_are_needed_are_left() {
        for (needed, span) in
            [([37, 37], "37"), ([1, 100], "1-"), ([3, 40], "3-40"), ([100; 2], "100")]
        {
            let fails = |strict: Strict| {
                let has = |number: u32| strict.requests.has(number - 1);
                strict.choices.has(Choice::Landing) && needed.into_iter().all(has)
            };
            let (by, runs) = found(100, |strict, _| if fails(strict) { 2 } else { 0 });
            assert_eq!(by, Found::Needed(with("landing", span)), "{span}");
            assert!(runs <= 32, "{span}: {runs} runs");
        }
    }

    #[test]
    fn runs_that_do_not_fail_each_time_are_told() {
        let at_first = |_, run| if run == 2 { 0 } else { 2 };
        assert_eq!(found(1, at_first), (Found::Sometimes(STRICT, 2), 3));
        let at_last = |_, run| if run == 7 { 0 } else { 2 };
        assert_eq!(found(1, at_last).0, Found::Sometimes(with("none", "1-"), 2));
        assert_eq!(found(1, |_, run| if run == 5 { 130 } else { 2 }), (Found::Interrupted, 5));
        // With fewer requests it fails now and then, with these kinds always.
        let by_chance = |strict: Strict, run| match strict {
            Strict { requests: RequestSpan::ALL, choices, .. } if choices.has(Choice::Early) => 2,
            Strict { requests: RequestSpan::ALL, .. } => 0,
            _ => 2 * u8::from(run % 2 == 0),
        };
        assert_eq!(found(100, by_chance).0, Found::Needed(with("early", "1-")));
    }

    #[test]
    fn no_time_finds_nothing() {
        let again = |_| -> Result<u8, Error> { unreachable!("there is no time") };
        assert_eq!(search(STRICT, 1, 2, Instant::now(), again).unwrap(), Found::TooLate);
    }
}
