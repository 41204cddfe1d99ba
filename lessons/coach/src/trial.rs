//! Trying a lesson's program: it is run as it is and, if nothing is wrong with that run, once more
//! with no more than the specification promises (`soft-hca run --strict`).

use std::fs;

use crate::error::Error;
use crate::facts::Run;
use crate::lesson::Again;
use crate::play::Play;
use crate::verdict::{Verdict, judge};

/// Strict runs at most: one in which a datagram is lost on purpose says nothing of the program.
const STRICT_RUNS: u64 = 3;

/// Runs a program once or twice. Before the second run, which has this seed, it calls
/// `before_again`. If `--strict` loses a datagram in that run, the run is repeated with the next seed: the lessons'
/// programs do not send again. Returns the last run; the record at the place that `play` names is that run's,
/// or the first run's if both were right.
///
/// # Errors
/// A program could not be started, or a file could not be read or written.
pub fn tried(play: &Play, seed: u64, before_again: impl FnOnce()) -> Result<(Run, Verdict), Error> {
    let run = play.run()?;
    let found = judge(play.lesson, &run);
    if found.is_err() || play.lesson.again == Again::Never {
        return Ok((run, found));
    }
    before_again();
    let (again, run) = without_loss(seed, |seed| {
        let again = play.strictly(seed);
        let run = again.run()?;
        Ok((run.loses_on_purpose(), (again, run)))
    })?;
    let found = judge(play.lesson, &run);
    if found.is_err() {
        fs::rename(&again.record, &play.record).map_err(Error::write(&play.record))?;
    } else {
        // The first run's record is the more useful one to keep, as it has no delays.
        let _ = fs::remove_file(&again.record);
    }
    Ok((run, found))
}

/// Returns the result of the first run in which nothing is lost on purpose, or of the last one. `run` is given its seed,
/// and says first whether something was lost.
fn without_loss<T>(
    seed: u64,
    mut run: impl FnMut(u64) -> Result<(bool, T), Error>,
) -> Result<T, Error> {
    let mut seeds = seed..seed.saturating_add(STRICT_RUNS);
    loop {
        let (is_lost, result) = run(seeds.next().unwrap_or(seed))?;
        if !is_lost || seeds.is_empty() {
            return Ok(result);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;

    #[test]
    fn runs_that_lose_are_repeated_with_the_next_seed() {
        let seeds_until = |lost: u64| {
            let mut seeds = Vec::new();
            let last = without_loss(7, |seed| {
                seeds.push(seed);
                Ok((seed < lost, seed))
            });
            assert_eq!(last.unwrap(), *seeds.last().unwrap());
            seeds
        };
        assert_eq!(seeds_until(7), [7]);
        assert_eq!(seeds_until(8), [7, 8]);
        assert_eq!(seeds_until(u64::MAX), [7, 8, 9]);
    }
}
