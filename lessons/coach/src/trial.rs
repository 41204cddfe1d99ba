//! A lesson's program on trial: it is run as it is and, if nothing is wrong with that, once more with no more than
//! the specification promises (`soft-hca run --strict`).

use std::fs;

use crate::error::Error;
use crate::facts::Run;
use crate::lesson::Again;
use crate::play::Play;
use crate::verdict::{Verdict, judge};

/// Runs it once or twice, the second time with this seed, and after a call of `before_again`. Gives the last run,
/// whose record is where `play` has it unless both were right.
///
/// # Errors
/// A run that does not come about.
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
        // That of the first run says more: it has no delays.
        let _ = fs::remove_file(&again.record);
    }
    Ok((run, found))
}
