//! The text of `soft-hca ls --why`: which threads wait, for what, and why that does not come. A line for each, as of
//! now; a record knows how it has come to that.

use std::fmt::Write;
use std::time::Duration;

use soft_hca_record::hang::{Finding, Hang, Moment};

use crate::fabric::Fabric;
use crate::snapshot;
use crate::ucma::Cm;

/// All that waits, a line each. Unless somebody asks, requests that wait are left out, which are told of otherwise,
/// and events that nobody fetches are told of only if somebody waits for them.
pub(crate) fn text(fabric: &Fabric, cm: &Cm, is_asked: bool, now: u64) -> String {
    let run = snapshot::run(fabric, cm, now);
    let moment = Moment { run: &run, t: now, is_now: true, is_asked };
    let mut out = String::new();
    let mut line = |process: u32, what: &str, cause: &str| {
        let _ = writeln!(out, "{} {what}; usual cause: {cause}", run.name(process));
    };
    let mut tell = |Finding { process, what, cause }| line(process, &what, cause);
    moment.stopped().for_each(&mut tell);
    for Hang { thread: (process, _), since, what, why, cause, .. } in moment.blocked(|_, _| true) {
        let waited = Duration::from_nanos(now.saturating_sub(since)).as_secs_f64();
        let what = format!("{what} for {waited:.1} s: {why}");
        tell(Finding { process, what, cause });
    }
    moment.stalled().filter(|_| is_asked).for_each(&mut tell);
    moment.unread().for_each(tell);
    out
}
