//! Four messages by one call, each with a completion.

use crate::facts::Run;
use crate::verdict::{Verdict, wrong};
use crate::words::words;

/// How many.
const MESSAGES: usize = 4;

/// The lesson's checker.
pub fn check(run: &Run) -> Verdict {
    let sends = run.sends(run.student);
    let entries = sends.iter().map(|(index, _)| *index);
    let count = sends.len();
    if count < MESSAGES {
        return wrong(
            words!("only {count} sends were posted", "只提交了 {count} 个发送请求"),
            entries,
        );
    }
    if count > MESSAGES {
        let what = words!(
            "{count} sends were posted: the list has no end",
            "提交了 {count} 个发送请求：链表没有结尾"
        );
        return wrong(what, entries.take(MESSAGES + 1));
    }
    if !run.is_strict() && run.lists(run.student).len() > 1 {
        return wrong(
            words!(
                "the sends were not posted by one call: the first was with the adapter \
                 before the last was there",
                "发送请求不是用一次调用提交的：第一个已经交给网卡，最后一个还没有提交"
            ),
            entries,
        );
    }
    sends.iter().try_for_each(|send| run.is_complete(*send))
}
