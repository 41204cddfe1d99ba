//! The choices by which a run with a seed fails.

use std::ops::RangeInclusive;
use std::time::Instant;

use soft_hca_core::config::Strict;
use soft_hca_verbs::{Choice, Choices, NumberSpan};

use super::Error;
use super::subjects::Subjects;

/// How often a run is repeated to see whether it always fails.
const REPETITIONS: u32 = 3;

/// Exit statuses of programs that somebody has interrupted, or ended.
const INTERRUPTED: [u8; 2] = [130, 143];

/// The outcome of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It does not fail each time: with these choices so often, of [`REPETITIONS`].
    Sometimes(Strict, u32),
    /// It fails each time with these, and did not without one of the kinds, or with fewer numbers of one.
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
    fn fewer_kinds(&mut self, all: Strict) -> Result<Strict, Stop> {
        let without_all = Strict { choices: Choices::NONE, ..all };
        if self.fails(without_all, all)? {
            return Ok(without_all);
        }
        let mut found = all;
        for (choice, _) in all.choices.iter() {
            let without = Strict { choices: found.choices.without(choice), ..found };
            if self.fails(without, found)? {
                found = without;
            }
        }
        Ok(found)
    }

    /// Leaves out the numbers at the end, and then those at the beginning, without which it fails, too. There is none above
    /// `most`.
    fn fewer_numbers(
        &mut self,
        mut found: Strict,
        (choice, numbers): (Choice, NumberSpan),
        most: u32,
    ) -> Result<Strict, Stop> {
        let first = numbers.first();
        let (mut low, mut high) = (first, numbers.last().min(most));
        while low < high {
            let middle = low + (high - low) / 2;
            match self.fails_from(choice, first..=middle, found)? {
                Some(fewer) => (found, high) = (fewer, middle),
                None => low = middle + 1,
            }
        }
        let last = high;
        let mut low = first;
        while low < high {
            let middle = high - (high - low) / 2;
            match self.fails_from(choice, middle..=last, found)? {
                Some(fewer) => (found, low) = (fewer, middle),
                None => high = middle - 1,
            }
        }
        Ok(found)
    }

    /// The choices with only some numbers of a kind, if it fails with these.
    fn fails_from(
        &mut self,
        choice: Choice,
        numbers: RangeInclusive<u32>,
        found: Strict,
    ) -> Result<Option<Strict>, Stop> {
        let Some(numbers) = NumberSpan::new(*numbers.start(), *numbers.end()) else {
            return Ok(None);
        };
        let choices = found.choices.with(choice, Some(numbers));
        let fewer = Strict { choices, ..found };
        Ok(self.fails(fewer, found)?.then_some(fewer))
    }

    fn find(&mut self, all: Strict, most: impl Fn(Choice) -> u32) -> Result<Found, Stop> {
        let count = self.often(all)?;
        if count < REPETITIONS {
            return Ok(Found::Sometimes(all, count));
        }
        let kinds = self.fewer_kinds(all)?;
        let mut found = kinds;
        for kind in kinds.choices.iter() {
            found = self.fewer_numbers(found, kind, most(kind.0))?;
        }
        if found != kinds && self.often(found)? == REPETITIONS {
            return Ok(Found::Needed(found));
        }
        Ok(match self.often(kinds)? {
            REPETITIONS => Found::Needed(kinds),
            count => Found::Sometimes(kinds, count),
        })
    }
}

/// Looks for the choices by which a run has failed with a status, until a time. They were about these subjects, and
/// `again` runs it.
pub(super) fn search(
    strict: Strict,
    subjects: &Subjects,
    failed: u8,
    until: Instant,
    again: impl FnMut(Strict) -> Result<u8, Error>,
) -> Result<Found, Error> {
    match (Search { failed, until, again }).find(strict, |choice| subjects.most(choice)) {
        Ok(found) => Ok(found),
        Err(Stop::Late(found)) if found == strict => Ok(Found::TooLate),
        Err(Stop::Late(found)) => Ok(Found::InPart(found)),
        Err(Stop::Interrupted) => Ok(Found::Interrupted),
        Err(Stop::Failed(error)) => Err(error),
    }
}

impl Found {
    /// Says so on standard error, with the entries that are meant.
    pub(super) fn say(self, subjects: &Subjects) {
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
                say_each(strict, subjects);
            }
            Self::InPart(strict) => {
                eprintln!(
                    "soft-hca: with {strict} it fails, too; --search SECONDS looks longer for what \
                     is not needed:"
                );
                say_each(strict, subjects);
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

fn say_each(strict: Strict, subjects: &Subjects) {
    for (choice, numbers) in strict.choices.iter() {
        eprint!("{}", subjects.name(choice, numbers));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const STRICT: Strict = Strict { seed: 7, choices: Choices::ALL, skips_sleeps: false };

    fn with(choices: &str) -> Strict {
        Strict { choices: choices.parse().unwrap(), ..STRICT }
    }

    /// The outcome if a program with so many things of each kind that is given these choices and the number of the run ends
    /// with a status.
    fn found(most: u32, status: impl Fn(Strict, u32) -> u8) -> (Found, u32) {
        let mut runs = 0;
        let until = Instant::now() + Duration::from_secs(1000);
        let again = |strict: Strict| {
            assert_eq!(strict.seed, STRICT.seed);
            runs += 1;
            Ok(status(strict, runs))
        };
        let found = search(STRICT, &Subjects::so_many(most), 2, until, again).unwrap();
        (found, runs)
    }

    #[test]
    fn kinds_that_are_needed_are_left() {
        let fails = |strict: Strict| {
            let is_all = |choice| strict.choices.of(choice) == Some(NumberSpan::ALL);
            [Choice::Poll, Choice::Event].into_iter().all(is_all)
        };
        let (by_two, _) = found(100, |strict, _| if fails(strict) { 2 } else { 0 });
        assert_eq!(by_two, Found::Needed(with("poll,event")));
        assert_eq!(found(100, |_, _| 2), (Found::Needed(with("none")), 7));
        // Another failure is not the same.
        let other = |strict: Strict, _| if strict == STRICT { 2 } else { 3 };
        assert_eq!(found(1, other).0, Found::Needed(STRICT));
    }

    #[test]
    fn numbers_that_are_needed_are_left() {
        for (needed, span) in
            [([37, 37], ":37"), ([1, 100], ""), ([3, 40], ":3-40"), ([100; 2], ":100")]
        {
            let fails = |strict: Strict| {
                let has = |number: u32| strict.choices.has(Choice::Landing, number - 1);
                strict.choices.has(Choice::Poll, 6) && needed.into_iter().all(has)
            };
            let (by, runs) = found(100, |strict, _| if fails(strict) { 2 } else { 0 });
            assert_eq!(by, Found::Needed(with(&format!("landing{span},poll:7"))), "{span}");
            assert!(runs <= 48, "{span}: {runs} runs");
        }
    }

    #[test]
    fn runs_that_do_not_fail_each_time_are_told() {
        let at_first = |_, run| if run == 2 { 0 } else { 2 };
        assert_eq!(found(1, at_first), (Found::Sometimes(STRICT, 2), 3));
        let at_last = |_, run| if run == 7 { 0 } else { 2 };
        assert_eq!(found(1, at_last).0, Found::Sometimes(with("none"), 2));
        assert_eq!(found(1, |_, run| if run == 5 { 130 } else { 2 }), (Found::Interrupted, 5));
        // With fewer numbers it fails now and then, with this kind always.
        let by_chance = |strict: Strict, run| match strict.choices.of(Choice::Early) {
            Some(NumberSpan::ALL) => 2,
            Some(_) => 2 * u8::from(run % 2 == 0),
            None => 0,
        };
        assert_eq!(found(100, by_chance).0, Found::Needed(with("early")));
    }

    #[test]
    fn no_time_finds_nothing() {
        let again = |_| -> Result<u8, Error> { unreachable!("there is no time") };
        assert_eq!(
            search(STRICT, &Subjects::so_many(1), 2, Instant::now(), again).unwrap(),
            Found::TooLate
        );
    }
}
