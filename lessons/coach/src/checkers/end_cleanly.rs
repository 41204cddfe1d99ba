//! The message is sent, the connection ended, and all destroyed, in an order that nothing is in the way of.

use soft_hca_record::check::{Checker, Rule};

use crate::facts::Run;
use crate::verdict::{Verdict, wrong};

/// The lesson's checker.
pub fn check(run: &Run) -> Verdict {
    let send = run.only_send(run.student)?;
    run.is_complete(send)?;
    run.all_went_well(run.student)?;
    if run.calls(run.student, "rdma_disconnect").is_empty() {
        return wrong("your program never hangs up: rdma_disconnect was not called", []);
    }
    let mut checker = Checker::new();
    run.entries.iter().for_each(|entry| checker.entry(entry));
    let is_it = |process, rule| process == run.student && rule == Rule::Leaked;
    let found: Vec<_> =
        checker.end().into_iter().filter(|finding| is_it(finding.process, finding.rule)).collect();
    if let Some(first) = found.first() {
        let places: Vec<&str> = found.iter().map(|finding| finding.place.as_str()).collect();
        let more = first.others + found.len() as u64 - 1;
        let more = if more > 0 { format!(", and {more} other objects") } else { String::new() };
        return wrong(
            format!("leaked: {}{more} when the program ended ({})", first.what, places.join(", ")),
            [],
        );
    }
    Ok(())
}
