//! Limits of shared receive queues: each gives one event, and is armed anew by `ibv_modify_srq`.

use std::collections::BTreeMap;
use std::sync::Arc;

use soft_hca_verbs::{EventType, WcStatus};

use crate::arguments::{number, srq};
use crate::check::found::{Found, Lookout, Scene};
use crate::check::rule::{Advice, Rule};
use crate::entry::{Completion, ReceiveQueue, What};
use crate::model::Run;
use crate::place::Place;
use crate::value::Name;

pub(in crate::check) const ADVICE: Advice = Advice {
    why: "the limit of a shared receive queue gives one event: without another call of ibv_modify_srq nobody is told \
         when receives run out again, and peers get a NAK (receiver not ready)",
    cure: "call ibv_modify_srq with IBV_SRQ_LIMIT once more when the event was taken and receives were posted",
};

/// A limit that was set, and its place.
#[derive(Debug, Default)]
struct Limit {
    limit: u64,
    source: Option<Arc<Place>>,
    state: State,
}

/// The state of a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Armed,
    /// It has given its event.
    Reached,
    /// After that, as many receives were posted as the limit says, or more.
    Refilled,
    /// After that, there were fewer once more, since this time.
    Missed(u64),
}

/// Limits of shared receive queues.
#[derive(Debug, Default)]
pub(in crate::check) struct SrqLimit(BTreeMap<u32, Limit>);

impl SrqLimit {
    /// Judges the end of a queue. A limit may be armed late, after its receives were posted.
    fn ends(&mut self, number: u32, run: &Run) -> Option<Found> {
        let Limit { limit, source, state: State::Missed(t) } = self.0.remove(&number)? else {
            return None;
        };
        let srq = run.srq(number).filter(|srq| !srq.receives.some_are_late)?;
        Some(Found {
            rule: Rule::SrqLimit,
            process: srq.process,
            place: format!("srq {number}"),
            what: format!(
                "its limit, {limit}, was reached and not armed again, and once more there are fewer receives"
            ),
            t,
            source,
            needs_polls: false,
        })
    }

    fn all_end(&mut self, run: &Run, is_meant: impl Fn(u32) -> bool) -> Vec<Found> {
        let numbers: Vec<u32> = self.0.keys().copied().filter(|srq| is_meant(*srq)).collect();
        numbers.into_iter().filter_map(|number| self.ends(number, run)).collect()
    }
}

impl Lookout for SrqLimit {
    fn entry(&mut self, scene: Scene<'_>, found: &mut Vec<Found>) {
        let waiting = |srq: u32| scene.run.srq(srq).map_or(0, |srq| srq.receives.waiting());
        match &scene.entry.what {
            What::ReceivePosted(posted) => {
                let ReceiveQueue::Srq(number) = posted.queue else { return };
                let Some(limit) = self.0.get_mut(&number) else { return };
                if limit.state == State::Reached && waiting(number) >= limit.limit {
                    limit.state = State::Refilled;
                }
            }
            What::Completion(Completion { qp, opcode, status, .. })
                if *status == WcStatus::SUCCESS && opcode.is_receive() =>
            {
                let Some(number) = scene.run.live_qp(*qp).and_then(|qp| qp.srq) else { return };
                let Some(limit) = self.0.get_mut(&number) else { return };
                if limit.state == State::Refilled && waiting(number) < limit.limit {
                    limit.state = State::Missed(scene.entry.t);
                }
            }
            What::AsyncEvent { event, element: Some(Name::Srq(srq)), .. }
                if *event == EventType::SRQ_LIMIT_REACHED =>
            {
                if let Some(limit) = self.0.get_mut(srq) {
                    limit.state = State::Reached;
                }
            }
            What::ProcessEnded { .. } => {
                let process = scene.entry.process;
                let is_its = |srq| scene.run.srq(srq).is_some_and(|srq| srq.process == process);
                found.extend(self.all_end(scene.run, is_its));
            }
            _ => {}
        }
        match scene.call() {
            Some(("ibv_modify_srq", args, _)) => {
                let (Some(srq), Some(limit)) = (srq(args, "srq"), number(args, "srq_limit")) else {
                    return;
                };
                let source = scene.effect.source.clone();
                self.0.insert(srq, Limit { limit, source, state: State::Armed });
            }
            Some(("ibv_destroy_srq", args, _)) => {
                found.extend(srq(args, "srq").and_then(|srq| self.ends(srq, scene.run)));
            }
            _ => {}
        }
    }

    fn end(&mut self, run: &Run, found: &mut Vec<Found>) {
        found.extend(self.all_end(run, |_| true));
    }

    fn needs_all(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::check::Rule;
    use crate::check::tests::findings;
    use crate::testing::{CLIENT, Run};

    /// A shared queue for eight receives, with a limit of four; its owner posts at the limit event, and arms it or not.
    fn limited(arms_again: bool, is_late: bool) -> Vec<String> {
        let mut run = Run::new();
        let given = json!([["srq", {"srq": 3}]]);
        run.call(CLIENT, "ibv_create_srq", json!([["max_wr", 8], ["max_sge", 1]]), given);
        let args = json!([["srq", {"srq": 3}], ["send_cq", {"cq": 2}], ["recv_cq", {"cq": 2}]]);
        run.call(CLIENT, "ibv_create_qp", args, json!([["qp_num", {"qp": 18}]]));
        let limit = |run: &mut Run| {
            let args = json!([["srq", {"srq": 3}], ["srq_limit", 4]]);
            run.call(CLIENT, "ibv_modify_srq", args, json!([]));
        };
        let posts = |run: &mut Run, count: u64| {
            for number in 0..count {
                let members = json!({
                    "queue": {"srq": 3}, "wr_id": number, "length": 8, "sges": [], "seen": "at_post",
                });
                run.put(10, CLIENT, "receive_posted", members);
            }
        };
        let takes = |run: &mut Run| {
            for number in 0..6 {
                let completion = json!({
                    "cq": 2, "qp": 18, "wr_id": number, "opcode": "IBV_WC_RECV", "status": "IBV_WC_SUCCESS",
                    "length": 8,
                });
                run.put(10, CLIENT, "completion", completion);
            }
        };
        posts(&mut run, 8);
        limit(&mut run);
        takes(&mut run);
        let event = json!({"event": "IBV_EVENT_SRQ_LIMIT_REACHED", "element": {"srq": 3}});
        run.put(10, CLIENT, "async_event", event);
        posts(&mut run, 6);
        if arms_again && !is_late {
            limit(&mut run);
        }
        takes(&mut run);
        if arms_again && is_late {
            limit(&mut run);
        }
        run.call(CLIENT, "ibv_destroy_srq", json!([["srq", {"srq": 3}]]), json!([]));
        let found = findings(&run).into_iter();
        found.filter(|found| found.rule == Rule::SrqLimit).map(|found| found.place).collect()
    }

    #[test]
    fn a_limit_that_is_not_armed_again() {
        assert_eq!(limited(false, false), ["srq 3"]);
        assert_eq!(limited(true, false), [""; 0]);
        assert_eq!(limited(true, true), [""; 0], "late, but it is");
    }
}
