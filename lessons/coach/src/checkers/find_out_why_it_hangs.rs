//! A question, an answer, and a program that wakes up. The coach does not say what is wrong: to find that
//! is the lesson.

use crate::facts::Run;
use crate::verdict::{Verdict, wrong};
use crate::words::words;

/// The lesson's checker.
pub fn check(run: &Run) -> Verdict {
    if run.is_stopped() {
        return wrong(words!("it hangs", "它卡住了"), []);
    }
    run.is_complete(run.only_send(run.student)?)?;
    let receives = run.receives(run.student);
    match receives.first() {
        Some((index, _)) => run.is_received(*index),
        None => wrong(words!("no receive was posted for the answer", "没有为回答提交接收请求"), []),
    }
}
