//! Which kinds of choices a run with a seed fails by.

use std::time::Instant;

use soft_hca_core::config::Strict;
use soft_hca_verbs::{Choice, Choices};

use super::Error;

/// How often a run is repeated to see whether it always fails.
const REPETITIONS: u32 = 3;

/// Exit statuses of programs that somebody has interrupted, or ended.
const INTERRUPTED: [u8; 2] = [130, 143];

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It does not fail each time: with these choices so often, of [`REPETITIONS`].
    Sometimes(Choices, u32),
    /// It fails each time with these, and did not without one of them.
    Needed(Choices),
    /// The time was over when others may not have been needed.
    InPart(Choices),
    /// The time was over before it had been repeated.
    TooLate,
    /// Somebody has interrupted it.
    Interrupted,
}

/// Why a search ends before it has found anything.
enum Stop {
    Interrupted,
    Failed(Error),
}

/// Runs of a search: with the same seed, until a time.
struct Search<R> {
    strict: Strict,
    /// The exit status of the run that has failed.
    failed: u8,
    until: Instant,
    again: R,
}

impl<R: FnMut(Strict) -> Result<u8, Error>> Search<R> {
    fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    /// Whether it fails with these choices as it did.
    fn fails(&mut self, choices: Choices) -> Result<bool, Stop> {
        let status = (self.again)(Strict { choices, ..self.strict }).map_err(Stop::Failed)?;
        match status == self.failed {
            false if INTERRUPTED.contains(&status) => Err(Stop::Interrupted),
            fails => Ok(fails),
        }
    }

    /// How often it fails with these choices, of [`REPETITIONS`]; none if there was no time for that.
    fn often(&mut self, choices: Choices) -> Result<Option<u32>, Stop> {
        let mut count = 0;
        for _ in 0..REPETITIONS {
            if self.is_over() {
                return Ok(None);
            }
            count += u32::from(self.fails(choices)?);
        }
        Ok(Some(count))
    }

    fn find(&mut self) -> Result<Found, Stop> {
        let all = self.strict.choices;
        match self.often(all)? {
            None => return Ok(Found::TooLate),
            Some(count) if count < REPETITIONS => return Ok(Found::Sometimes(all, count)),
            Some(_) => {}
        }
        let mut needed = all;
        if !self.is_over() && self.fails(Choices::NONE)? {
            needed = Choices::NONE;
        }
        for choice in needed.iter() {
            if self.is_over() {
                return Ok(Found::InPart(needed));
            }
            if self.fails(needed.without(choice))? {
                needed = needed.without(choice);
            }
        }
        Ok(match self.often(needed)? {
            None => Found::InPart(needed),
            Some(REPETITIONS) => Found::Needed(needed),
            Some(count) => Found::Sometimes(needed, count),
        })
    }
}

/// Looks for the kinds by which a run has failed with a status, until a time. `again` runs it.
pub(super) fn search(
    strict: Strict,
    failed: u8,
    until: Instant,
    again: impl FnMut(Strict) -> Result<u8, Error>,
) -> Result<Found, Error> {
    match (Search { strict, failed, until, again }).find() {
        Ok(found) => Ok(found),
        Err(Stop::Interrupted) => Ok(Found::Interrupted),
        Err(Stop::Failed(error)) => Err(error),
    }
}

impl Found {
    /// Says so on standard error.
    pub(super) fn say(self, strict: Strict) {
        let with = |choices| Strict { choices, ..strict };
        match self {
            Self::Sometimes(choices, count) => {
                let often = format!("{count} of {REPETITIONS} repetitions");
                eprintln!(
                    "soft-hca: with {} it fails in {often}: not only the seed decides",
                    with(choices)
                );
            }
            Self::Needed(Choices::NONE) => eprintln!(
                "soft-hca: with {} it fails, too: it is enough that requests take a while",
                with(Choices::NONE)
            ),
            Self::Needed(choices) => {
                eprintln!(
                    "soft-hca: with {} it fails, too, and not without one of them:",
                    with(choices)
                );
                say_each(choices);
            }
            Self::InPart(choices) => {
                eprintln!(
                    "soft-hca: it fails by some of these choices; --search SECONDS looks longer:"
                );
                say_each(choices);
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

fn say_each(choices: Choices) {
    for choice in choices.iter() {
        eprintln!("    {choice}: {}", Choice::words(choice));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const STRICT: Strict = Strict { seed: 7, choices: Choices::ALL };

    /// What is found if a program that is given this kinds of choices and the number of the run ends with a status.
    fn found(status: impl Fn(Choices, u32) -> u8) -> (Found, u32) {
        let mut runs = 0;
        let until = Instant::now() + Duration::from_secs(1000);
        let again = |strict: Strict| {
            assert_eq!(strict.seed, STRICT.seed);
            runs += 1;
            Ok(status(strict.choices, runs))
        };
        let found = search(STRICT, 2, until, again).unwrap();
        (found, runs)
    }

    #[test]
    fn kinds_that_are_needed_are_left() {
        let needed: Choices = "landing,poll".parse().unwrap();
        let fails = |choices: Choices| needed.iter().all(|choice| choices.has(choice));
        let (by_two, runs) = found(|choices, _| if fails(choices) { 2 } else { 0 });
        assert_eq!((by_two, runs), (Found::Needed(needed), 18));
        assert_eq!(found(|_, _| 2), (Found::Needed(Choices::NONE), 7));
        // Another failure is not the same.
        let other = |choices: Choices, _| if choices == Choices::ALL { 2 } else { 3 };
        assert_eq!(found(other).0, Found::Needed(Choices::ALL));
    }

    #[test]
    fn runs_that_do_not_fail_each_time_are_told() {
        let at_first = |_, run| if run == 2 { 0 } else { 2 };
        assert_eq!(found(at_first), (Found::Sometimes(Choices::ALL, 2), 3));
        let at_last = |_, run| if run == 7 { 0 } else { 2 };
        assert_eq!(found(at_last).0, Found::Sometimes(Choices::NONE, 2));
        assert_eq!(found(|_, run| if run == 5 { 130 } else { 2 }), (Found::Interrupted, 5));
    }

    #[test]
    fn no_time_finds_nothing() {
        let again = |_| -> Result<u8, Error> { unreachable!("there is no time") };
        assert_eq!(search(STRICT, 2, Instant::now(), again).unwrap(), Found::TooLate);
    }
}
