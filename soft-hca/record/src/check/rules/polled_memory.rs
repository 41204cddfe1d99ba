//! Progress by watching memory: what a program posts next depends on an RDMA write of its peer's, and no completion
//! has told of that.
//!
//! While it is recorded for this, some writes are held back, each for a duration that is chosen at random
//! ([`Cause::Held`]). A program that does not wait for such a write posts its next request when it would have
//! done so anyway: the duration has no influence on that, and now and then the request comes before the write. If
//! it never does, although in the order of other durations it often would have, the program waits. How likely that
//! is by chance is the share of all orders of the same durations in which no request comes before its write.
//!
//! Writes of which the program may know by other means do not count. Until the writer has the write's completion, or who is
//! written to has a message that was posted behind it, only the memory shows that it has arrived. So a request
//! counts only if by then neither is so: since it has arrived the writer has polled nothing and got no event, and no
//! receive has completed for the program, and no other event come, since the shortest duration.

use std::collections::HashMap;

use soft_hca_verbs::{Cause, WcStatus};

use crate::check::found::{Found, Lookout, Scene};
use crate::check::rule::{Advice, Rule};
use crate::entry::{Channel, Completion, SendPosted, What};
use crate::model::Run;

pub(in crate::check) const ADVICE: Advice = Advice {
    why: "what lies in the memory that an RDMA write is for is undefined until a completion tells of it: bytes may come \
         in any order, and twice, so that those that are looked at are there before the others, or are \
         written once more over what the program has put there",
    cure: "have the peer use a write with immediate data, or send a message behind the write, and wait for the \
         completion; or ask ibv_query_qp_data_in_order whether the device does more than it has to",
};

/// Nanoseconds for which no write is held back less.
const LEAST_NS: u64 = 2_000_000;

/// The likelihood of coincidence below which a program is reported.
const BY_CHANCE: f64 = 1e-6;

/// A write that is held back, or has arrived, and was not answered yet.
#[derive(Clone, Copy, Debug)]
struct DelayedWrite {
    since: u64,
    duration: u64,
    /// Somebody may have been told that it has arrived.
    is_told: bool,
}

impl DelayedWrite {
    /// Whether it may have arrived.
    fn is_there(&self, t: u64) -> bool {
        t >= self.since + self.duration
    }
}

/// A write that was answered: for how long it was held back, and how long after its post the answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Answered {
    duration: u64,
    after: u64,
}

/// The writes of a queue pair.
#[derive(Debug, Default)]
struct Writer {
    answered: Vec<Answered>,
    /// Nothing more is to be known: its peer does not wait, or is found.
    is_decided: bool,
}

/// Writes that are held back, and what comes after them.
#[derive(Debug, Default)]
pub(in crate::check) struct PolledMemory {
    writers: HashMap<u32, Writer>,
    /// By the writer's queue pair.
    held: HashMap<u32, DelayedWrite>,
}

impl Lookout for PolledMemory {
    fn entry(&mut self, scene: Scene<'_>, found: &mut Vec<Found>) {
        let (t, process, run) = (scene.entry.t, scene.entry.process, scene.run);
        for stopped in &scene.effect.stopped {
            self.writers.remove(&stopped.qp);
            self.held.remove(&stopped.qp);
        }
        match &scene.entry.what {
            What::Stalled { qp, reason: Cause::Held { duration }, .. }
                if run.live_qp(*qp).is_some() && !self.is_decided(*qp) =>
            {
                let held = DelayedWrite { since: t, duration: *duration, is_told: false };
                self.held.insert(*qp, held);
            }
            What::SendPosted(posted) => found.extend(self.posts(scene, posted)),
            // Completions of its own requests tell nothing of the peer's.
            What::Completion(Completion { qp, opcode, status, .. })
                if *status != WcStatus::SUCCESS || opcode.is_receive() =>
            {
                let taker = run.live_qp(*qp).map(|qp| qp.process);
                let is_told = |watcher| Some(watcher) == taker;
                self.tell(run, |held, _, watcher| t >= held.since + LEAST_NS && is_told(watcher));
            }
            What::ConnectionEvent(_) | What::AsyncEvent { .. } => {
                self.tell(run, |held, writer, watcher| {
                    t >= held.since + LEAST_NS && (writer == process || watcher == process)
                });
            }
            What::Polled(polled) if polled.found > 0 => {
                self.tell(run, |held, writer, _| held.is_there(t) && writer == process);
            }
            What::Woken { on: Channel::Completion, event: true, .. } => {
                self.tell(run, |held, writer, _| held.is_there(t) && writer == process);
            }
            _ => {}
        }
    }

    fn needs_all(&self) -> bool {
        true
    }
}

impl PolledMemory {
    fn is_decided(&self, qp: u32) -> bool {
        self.writers.get(&qp).is_some_and(|writer| writer.is_decided)
    }

    /// Somebody may be told something: by writer's and watcher's process.
    fn tell(&mut self, run: &Run, is_told: impl Fn(&DelayedWrite, u32, u32) -> bool) {
        for (number, held) in &mut self.held {
            let writer = run.live_qp(*number);
            let watcher = writer.and_then(|writer| run.live_qp(writer.peer?));
            if let (Some(writer), Some(watcher)) = (writer, watcher) {
                held.is_told |= is_told(held, writer.process, watcher.process);
            }
        }
    }

    /// A request is posted: it may answer what the peer has written.
    fn posts(&mut self, scene: Scene<'_>, posted: &SendPosted) -> Option<Found> {
        let number = scene.run.live_qp(posted.qp)?.peer?;
        let held = self.held.remove(&number)?;
        let process = scene.run.live_qp(number)?.process;
        let writer = self.writers.entry(number).or_default();
        let after = scene.entry.t.saturating_sub(held.since);
        if !held.is_there(scene.entry.t) {
            writer.is_decided = true;
            return None;
        }
        if held.is_told || !scene.run.is_hooked(process) {
            return None;
        }
        writer.answered.push(Answered { duration: held.duration, after });
        if by_chance(&writer.answered) > BY_CHANCE {
            return None;
        }
        writer.is_decided = true;
        let count = writer.answered.len();
        let what = format!(
            "{count} RDMA writes of the peer were held back, and what this program posts next came after each \
             had arrived, and never before, although nobody had a completion of it: it watches its memory"
        );
        Some(scene.finds(Rule::PolledMemory, format!("qp {}", posted.qp), what))
    }
}

/// How likely it is that no answer comes before its write, if they have nothing to do with each other: the share
/// of all orders of the durations in which that is so. In such an order the first answer may belong to any duration
/// that is not longer, the next one to any of those that are left, and so on.
fn by_chance(answered: &[Answered]) -> f64 {
    let mut durations: Vec<u64> = answered.iter().map(|one| one.duration).collect();
    let mut after: Vec<u64> = answered.iter().map(|one| one.after).collect();
    durations.sort_unstable();
    after.sort_unstable();
    let count = answered.len();
    let choices = after.iter().enumerate().map(|(taken, after)| {
        let shorter = durations.partition_point(|duration| duration <= after);
        shorter.saturating_sub(taken) as f64 / (count - taken) as f64
    });
    choices.product()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{CLIENT, Run, SERVER};

    const MS: u64 = 1_000_000;

    fn answered(list: &[(u64, u64)]) -> Vec<Answered> {
        list.iter().map(|&(duration, after)| Answered { duration, after }).collect()
    }

    #[test]
    fn the_share_of_all_orders() {
        assert_eq!(by_chance(&[]), 1.0);
        assert_eq!(by_chance(&answered(&[(5, 5)])), 1.0);
        // Of two orders only this one.
        assert_eq!(by_chance(&answered(&[(5, 6), (7, 8)])), 0.5);
        assert_eq!(by_chance(&answered(&[(5, 9), (7, 8)])), 1.0);
        // 5 and 7 may be exchanged.
        assert_eq!(by_chance(&answered(&[(9, 9), (5, 8), (7, 8)])), 2.0 / 6.0);
    }

    /// Two processes that are connected; the client's writes are to be looked at.
    fn connected() -> Run {
        let mut run = Run::new();
        for (process, own, peer) in [(SERVER, 17, 18), (CLIENT, 18, 17)] {
            run.call(process, "ibv_create_qp", json!([]), json!([["qp_num", {"qp": own}]]));
            let args = json!([["qp", {"qp": own}], ["dest_qp_num", {"qp": peer}]]);
            run.call(process, "ibv_modify_qp", args, json!([]));
        }
        run.put(10, CLIENT, "polled", json!({"cq": 2, "found": 0}));
        run
    }

    fn writes(run: &mut Run, duration: u64) {
        let reason = json!({"check": "held", "duration": duration});
        run.put(MS, CLIENT, "stalled", json!({"qp": 18, "wr_id": 1, "reason": reason}));
    }

    fn answers(run: &mut Run, later: u64) {
        let request = json!({
            "qp": 17, "wr_id": 2, "opcode": "IBV_WR_RDMA_WRITE", "flags": [], "length": 8, "sges": [],
        });
        run.put(later, SERVER, "send_posted", request);
    }

    fn findings(run: &Run) -> Vec<(u32, String)> {
        let found = crate::check::tests::findings(run).into_iter();
        let found = found.filter(|found| found.rule == Rule::PolledMemory);
        found.map(|found| (found.process, found.place)).collect()
    }

    /// Durations that come in no order.
    fn durations() -> impl Iterator<Item = u64> {
        (0..20).map(|number| 2 * MS + number * 7 % 20 * MS)
    }

    #[test]
    fn who_never_goes_on_before_the_write_waits_for_it() {
        let mut run = connected();
        for duration in durations() {
            writes(&mut run, duration);
            answers(&mut run, duration + 3 * MS);
        }
        assert_eq!(findings(&run), [(SERVER, "qp 17".to_string())]);
    }

    #[test]
    fn a_clock_is_no_watcher() {
        for period in [12 * MS, 50 * MS] {
            let mut run = connected();
            for duration in durations() {
                writes(&mut run, duration);
                answers(&mut run, period);
            }
            assert_eq!(findings(&run), [], "{period}");
        }
    }

    #[test]
    fn who_goes_on_once_does_not_wait() {
        let mut run = connected();
        writes(&mut run, 9 * MS);
        answers(&mut run, 8 * MS);
        for duration in durations() {
            writes(&mut run, duration);
            answers(&mut run, duration + 1);
        }
        assert_eq!(findings(&run), []);
    }

    /// A receive of the watcher's, or the writer's completion, comes first.
    #[test]
    fn who_may_have_been_told_is_no_watcher() {
        let woken = json!({"on": "completion", "fd": 7, "waited": 5, "event": true});
        let completion = json!({
            "cq": 2, "qp": 17, "wr_id": 7, "opcode": "IBV_WC_RECV", "status": "IBV_WC_SUCCESS", "length": 8,
        });
        let polled = json!({"cq": 2, "found": 1});
        for (process, what, members) in [
            (SERVER, "completion", &completion),
            (CLIENT, "polled", &polled),
            (CLIENT, "woken", &woken),
        ] {
            let mut run = connected();
            for duration in durations() {
                writes(&mut run, duration);
                run.put(duration, process, what, members.clone());
                answers(&mut run, 1000);
            }
            assert_eq!(findings(&run), [], "{what}");
        }
        let mut run = connected();
        let own = json!({
            "cq": 1, "qp": 17, "wr_id": 2, "opcode": "IBV_WC_RDMA_WRITE", "status": "IBV_WC_SUCCESS", "length": 8,
        });
        for duration in durations() {
            writes(&mut run, duration);
            // An event so early cannot tell of it, and a write of one's own cannot at all.
            run.put(duration - 1, CLIENT, "polled", polled.clone());
            run.put(1, SERVER, "completion", own.clone());
            answers(&mut run, 1000);
        }
        assert_eq!(findings(&run).len(), 1);
    }
}
