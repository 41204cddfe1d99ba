//! Four messages by one call, each with a completion.

use crate::facts::Run;
use crate::verdict::{Verdict, wrong};

/// How many.
const MESSAGES: usize = 4;

/// The lesson's checker.
pub fn check(run: &Run) -> Verdict {
    let sends = run.sends(run.student);
    let entries = sends.iter().map(|(index, _)| *index);
    if sends.len() < MESSAGES {
        return wrong(format!("only {} sends were posted", sends.len()), entries);
    }
    if sends.len() > MESSAGES {
        let what = format!("{} sends were posted: the list has no end", sends.len());
        return wrong(what, entries.take(MESSAGES + 1));
    }
    if !run.is_strict() && run.lists(run.student).len() > 1 {
        return wrong(
            "the sends were not posted by one call: the first was with the adapter before the last was \
             there",
            entries,
        );
    }
    sends.iter().try_for_each(|send| run.is_complete(*send))
}
