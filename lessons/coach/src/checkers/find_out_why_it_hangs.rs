//! A question, an answer, and a program that wakes up. The coach does not say what is wrong: to find that
//! is the lesson.

use crate::facts::Run;
use crate::verdict::{Verdict, wrong};

/// The lesson's checker.
pub fn check(run: &Run) -> Verdict {
    if run.is_stopped() {
        return wrong("it hangs", []);
    }
    run.is_complete(run.only_send(run.student)?)?;
    let receives = run.receives(run.student);
    match receives.first() {
        Some((index, _)) => run.is_received(*index),
        None => wrong("no receive was posted for the answer", []),
    }
}
