//! Trying a lesson's program: it is run as it is and, if nothing is wrong with that run, once more
//! with no more than the specification promises (`soft-hca run --strict`).

use std::fs;

use crate::error::Error;
use crate::facts::Run;
use crate::lesson::Again;
use crate::play::Play;
use crate::verdict::{Verdict, judge};

/// Runs a program once or twice. Before the second run, which has this seed, it calls
/// `before_again`. Returns the last run; the record at the place that `play` names is that run's,
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
    let again = play.strictly(seed);
    let run = again.run()?;
    let found = judge(play.lesson, &run);
    if found.is_err() {
        fs::rename(&again.record, &play.record).map_err(Error::write(&play.record))?;
    } else {
        // The first run's record is the more useful one to keep, as it has no delays.
        let _ = fs::remove_file(&again.record);
    }
    Ok((run, found))
}
