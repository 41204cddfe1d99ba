//! Timers that never end, where nothing else notices that the peer has gone.

use std::collections::BTreeMap;

use soft_hca_roce::transport::timers::ack_timeout_ns;

use crate::arguments::{number, qp};
use crate::check::found::{Found, Lookout, Scene};
use crate::check::rule::{Advice, Rule};
use crate::model::{Run, Stop};
use crate::time::duration;

pub(in crate::check) const ADVICE: Advice = Advice {
    why: "with timeout 0 or rnr_retry 7 a request to a peer that is gone, or does not receive, never ends",
    cure: "use a timeout of 14 or so and a limited rnr_retry (`soft-hca explain --timers timeout=14 retry_cnt=7` says how \
           long they take), or have somebody watch the peer",
};

/// The `timeout` that is proposed.
const TIMEOUT: u8 = 14;

/// The times after which a request fails with that, if the peer is gone: each try takes one to four timeouts (IBTA
/// volume 1, 9.7.6.1.3).
fn limited(retry_cnt: Option<u64>) -> String {
    let retry_cnt = retry_cnt.unwrap_or(7);
    let least = ack_timeout_ns(TIMEOUT).unwrap_or(0) * (retry_cnt + 1);
    let [least, most] = [least, 4 * least].map(duration);
    format!(
        "; with timeout {TIMEOUT} and retry_cnt {retry_cnt} a request fails after {least} to {most}"
    )
}

/// By queue pairs, the first setting of such a timer.
#[derive(Debug, Default)]
pub(in crate::check) struct Timers(BTreeMap<u32, Found>);

impl Timers {
    /// A queue pair ends. Whether the connection manager has connected it is known by then.
    fn ends(&mut self, number: u32, run: &Run) -> Option<Found> {
        let setting = self.0.remove(&number)?;
        let is_managed = run.qps.get(&number).is_none_or(|qp| qp.is_managed);
        (!is_managed).then_some(setting)
    }
}

impl Lookout for Timers {
    fn entry(&mut self, scene: Scene<'_>, found: &mut Vec<Found>) {
        for stopped in &scene.effect.stopped {
            if matches!(stopped.how, Stop::Destroyed | Stop::ProcessEnded) {
                found.extend(self.ends(stopped.qp, scene.run));
            }
        }
        let Some(("ibv_modify_qp", args, _)) = scene.call() else { return };
        let Some(qp) = qp(args, "qp").filter(|qp| scene.run.live_qp(*qp).is_some()) else { return };
        let (timer, limited) = match (number(args, "timeout"), number(args, "rnr_retry")) {
            (Some(0), _) => ("timeout 0", limited(number(args, "retry_cnt"))),
            (_, Some(7)) if !self.0.contains_key(&qp) => ("rnr_retry 7", String::new()),
            _ => return,
        };
        let what =
            format!("{timer}, and no connection manager that notices the peer's end{limited}");
        self.0.insert(qp, scene.finds(Rule::Timers, format!("qp {qp}"), what));
    }

    fn end(&mut self, run: &Run, found: &mut Vec<Found>) {
        let numbers: Vec<u32> = self.0.keys().copied().collect();
        found.extend(numbers.into_iter().filter_map(|number| self.ends(number, run)));
    }
}
