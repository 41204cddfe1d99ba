//! Limits of shared receive queues: each gives one event, and is armed anew by `ibv_modify_srq`.

use std::collections::HashMap;
use std::sync::Arc;

use soft_hca_verbs::{EventType, WcStatus};

use super::{Found, Rule, done, source};
use crate::arguments::{self, number, qp};
use crate::entry::{Call, Completion, Entry, ReceivePosted, ReceiveQueue, Seen, What};
use crate::place::Place;
use crate::value::Name;

/// A shared receive queue that is there.
#[derive(Debug, Default)]
struct Queue {
    process: u32,
    /// Receives that no message has taken.
    receives: u64,
    /// Whether there may be more receives, as some were not seen when they were posted.
    may_have_more: bool,
    /// The limit that was set last, and its place.
    limit: u64,
    source: Option<Arc<Place>>,
    state: State,
}

/// The state of a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// It is armed, or was never set.
    #[default]
    Armed,
    /// It has given its event.
    Reached,
    /// After that, as many receives were posted as the limit says, or more.
    Refilled,
    /// After that, there were fewer once more, since this time.
    Missed(u64),
}

impl Queue {
    fn posted(&mut self) {
        self.receives += 1;
        if self.state == State::Reached && self.receives >= self.limit {
            self.state = State::Refilled;
        }
    }

    fn taken(&mut self, t: u64) {
        self.receives = self.receives.saturating_sub(1);
        if self.state == State::Refilled && self.receives < self.limit {
            self.state = State::Missed(t);
        }
    }

    /// Judges the end of the queue. A limit may be armed late, after its receives were posted.
    fn ends(&self, number: u32) -> Option<Found> {
        let State::Missed(t) = self.state else { return None };
        (!self.may_have_more).then(|| Found {
            rule: Rule::SrqLimit,
            process: self.process,
            place: format!("srq {number}"),
            what: format!(
                "its limit, {}, was reached and not armed again, and once more there are fewer receives",
                self.limit
            ),
            t,
            source: self.source.clone(),
        })
    }
}

/// All shared receive queues of a record.
#[derive(Debug, Default)]
pub(super) struct Limits {
    queues: HashMap<u32, Queue>,
    /// The shared queue of each queue pair that has one.
    of: HashMap<u32, u32>,
}

impl Limits {
    pub(super) fn entry(&mut self, entry: &Entry, found: &mut Vec<Found>) {
        match &entry.what {
            What::Call(call) => found.extend(self.call(entry, call)),
            What::ReceivePosted(ReceivePosted { queue: ReceiveQueue::Srq(srq), seen, .. }) => {
                if let Some(queue) = self.queues.get_mut(srq) {
                    queue.may_have_more |= *seen != Seen::AtPost;
                    queue.posted();
                }
            }
            What::Completion(Completion { qp, opcode, status, .. })
                if *status == WcStatus::SUCCESS && opcode.is_receive() =>
            {
                let srq = self.of.get(qp).and_then(|srq| self.queues.get_mut(srq));
                srq.into_iter().for_each(|queue| queue.taken(entry.t));
            }
            What::AsyncEvent { event, element: Some(Name::Srq(srq)), .. }
                if *event == EventType::SRQ_LIMIT_REACHED =>
            {
                let queue = self.queues.get_mut(srq);
                queue.into_iter().for_each(|queue| queue.state = State::Reached);
            }
            What::ProcessEnded { .. } => {
                let is_its = |queue: &Queue| queue.process == entry.process;
                found.extend(self.ends(is_its));
                self.queues.retain(|_, queue| !is_its(queue));
            }
            _ => {}
        }
    }

    fn call(&mut self, entry: &Entry, call: &Call) -> Option<Found> {
        let (args, given) = done(call)?;
        match call.name.as_str() {
            "ibv_create_srq" | "ibv_create_srq_ex" => {
                let queue = Queue { process: entry.process, ..Queue::default() };
                self.queues.insert(arguments::srq(given, "srq")?, queue);
            }
            "ibv_modify_srq" => {
                let queue = self.queues.get_mut(&arguments::srq(args, "srq")?)?;
                queue.limit = number(args, "srq_limit")?;
                (queue.source, queue.state) = (source(entry), State::Armed);
            }
            "ibv_destroy_srq" => {
                let number = arguments::srq(args, "srq")?;
                return self.queues.remove(&number)?.ends(number);
            }
            "ibv_create_qp" | "ibv_create_qp_ex" => {
                self.of.insert(qp(given, "qp_num")?, arguments::srq(args, "srq")?);
            }
            "ibv_destroy_qp" => _ = self.of.remove(&qp(args, "qp")?),
            _ => {}
        }
        None
    }

    fn ends(&self, are: impl Fn(&Queue) -> bool) -> Vec<Found> {
        let queues = self.queues.iter().filter(|(_, queue)| are(queue));
        queues.filter_map(|(number, queue)| queue.ends(*number)).collect()
    }

    /// The record ends.
    pub(super) fn end(&self, found: &mut Vec<Found>) {
        found.extend(self.ends(|_| true));
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
