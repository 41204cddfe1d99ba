//! The message is sent, the connection ended, and all destroyed, in an order that nothing is in the way of.

use soft_hca_record::check::{Checker, Rule};

use crate::facts::Run;
use crate::verdict::{Verdict, wrong};
use crate::words::{Words, words};

/// The lesson's checker.
pub fn check(run: &Run) -> Verdict {
    let send = run.only_send(run.student)?;
    run.is_complete(send)?;
    run.all_went_well(run.student)?;
    if run.calls(run.student, "rdma_disconnect").is_empty() {
        return wrong(
            words!(
                "your program never hangs up: rdma_disconnect was not called",
                "你的程序一直没有断开连接：没有调用 rdma_disconnect"
            ),
            [],
        );
    }
    let mut checker = Checker::new();
    run.entries.iter().for_each(|entry| checker.entry(entry));
    let is_it = |process, rule| process == run.student && rule == Rule::Leaked;
    let found: Vec<_> =
        checker.end().into_iter().filter(|finding| is_it(finding.process, finding.rule)).collect();
    if let Some(first) = found.first() {
        let places: Vec<&str> = found.iter().map(|finding| finding.place.as_str()).collect();
        let more = first.others + found.len() as u64 - 1;
        let more = if more > 0 {
            words!(", and {more} other objects", "，还有 {more} 个别的对象")
        } else {
            Words::default()
        };
        let (what, places) = (&first.what, places.join(", "));
        return wrong(
            words!(
                "leaked: {what}{more} when the program ended ({places})",
                "程序结束时有遗留：{what}{more}（{places}）",
                [more]
            ),
            [],
        );
    }
    Ok(())
}
