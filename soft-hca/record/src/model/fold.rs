//! Entries, folded into the state of a run one after the other.

use soft_hca_verbs::EventType;

use super::{Blocked, CompletionQueue, Doing, Effect, End, Process, QueuePair, Run, Stop, Stopped};
use crate::entry::{Channel, Entry, Packet, Seen, What};
use crate::value::Name;

impl Run {
    /// Takes another entry in.
    pub fn entry(&mut self, entry: &Entry) -> Effect {
        let Entry { t, process, .. } = *entry;
        let at = self.count;
        (self.last, self.count) = (self.last.max(t), at + 1);
        let mut effect = Effect { at, source: entry.source(), ..Effect::default() };
        for returned in self.threads.entry(at, entry) {
            self.returns(&returned, &mut effect);
        }
        self.ids.entry(entry);
        self.hook(entry);
        effect.region = self.regions.entry(at, entry);
        match &entry.what {
            What::ProcessBegan { pid, role, command, .. } => {
                let name = format!("{}[{pid}]", role.program(command));
                self.processes.insert(process, Process { name, ..Process::default() });
            }
            What::ProcessEnded { .. } => effect.stopped = self.process_ended(process, t),
            What::Call(call) => self.call(at, entry, call, &mut effect),
            What::SendPosted(posted) => {
                let rkey = posted.remote.map(|remote| remote.rkey);
                effect.uses = self.regions.registrations(process, &posted.sges, rkey);
                effect.joins[0] = self.send_posted(at, entry, posted);
            }
            What::ReceivePosted(posted) => {
                effect.uses = self.regions.registrations(process, &posted.sges, None);
                effect.shared = self.receive_posted(at, entry, posted);
            }
            What::Stalled { qp, wr_id, reason } => {
                self.stalled(entry, (*qp, *wr_id), reason, &mut effect);
            }
            What::Executed(executed) => self.executed(at, entry, executed, &mut effect),
            What::Completion(completion) => self.completion(at, t, completion, &mut effect),
            What::Woken { on: Channel::Completion, fd, event: true, .. } => {
                effect.woken_by = self.woken(process, *fd);
            }
            What::Polled(polled) => self.polled(at, entry, polled, &mut effect),
            What::Packet(Packet { qp: Some(qp), .. }) => {
                self.qp_mut(*qp, process).has_packets = true;
            }
            What::AsyncEvent { event, place: Some(place), .. } => match *event {
                EventType::PORT_ERR => drop(self.down.entry(place.clone()).or_insert(t)),
                EventType::PORT_ACTIVE => drop(self.down.remove(place)),
                _ => {}
            },
            What::Dropped { .. } => self.forget(),
            What::ConnectionEvent(_)
            | What::AsyncEvent { .. }
            | What::Packet(_)
            | What::Wait { .. }
            | What::Woken { .. } => {}
        }
        effect
    }

    /// A thread returns from a call that it was blocked in. A completion queue whose destruction has waited for
    /// acknowledgements is gone by then.
    fn returns(&mut self, call: &Blocked, effect: &mut Effect) {
        effect.returned.extend(call.at);
        if let Doing::Destroys { object: Name::Cq(number), .. } = call.doing {
            effect.destroyed = self.cqs.remove(&number).map(|cq| (number, cq));
        }
    }

    /// Polls show that a process's calls pass through the hook, and posts by a function of the context, as the hook
    /// replaces all functions of a context together. So a program that never polls is told from one whose polls are
    /// not seen.
    fn hook(&mut self, entry: &Entry) {
        let called = || entry.place()?.call.as_deref();
        let is_shown = match &entry.what {
            What::Polled(_) => true,
            What::ReceivePosted(posted) => posted.seen == Seen::AtPost,
            What::SendPosted(_) => called() == Some("ibv_post_send"),
            _ => false,
        };
        if is_shown {
            self.process_mut(entry.process).is_hooked = true;
        }
    }

    fn process_ended(&mut self, process: u32, t: u64) -> Vec<Stopped> {
        self.process_mut(process).ended = Some(t);
        let is_its = |(_, qp): &(&u32, &QueuePair)| qp.process == process && qp.is_alive();
        let own: Vec<u32> = self.qps.iter().filter(is_its).map(|(number, _)| *number).collect();
        let stopped = own.into_iter().filter_map(|number| {
            let stopped = self.stops(number, Stop::ProcessEnded);
            self.qps.get_mut(&number)?.end = Some((End::Process, t));
            stopped
        });
        stopped.collect()
    }

    /// Entries are missing: what was posted may have been executed.
    fn forget(&mut self) {
        self.is_partial = true;
        let numbers: Vec<u32> = self.qps.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.empty(number));
        self.srqs.values_mut().for_each(|srq| srq.receives.forget());
        self.cqs.values_mut().for_each(CompletionQueue::forget);
        self.processes.values_mut().for_each(|process| process.written.clear());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{CHANNEL, begun};

    /// Polls of the queue of [`begun`], of which the first is on record before the completion that it gives.
    #[test]
    fn polls_give_completions_in_their_order() {
        let mut record = begun();
        let first = record.entries().len();
        let poll = json!({"thread": 4720, "cq": 2, "found": 1});
        record.put(1, 0, "polled", poll.clone()).comes(1, false).comes(1, false);
        record.put(1, 0, "polled", poll);
        let mut run = Run::default();
        let all = record.entries().iter().flat_map(|entry| run.entry(entry).polled);
        assert_eq!(all.collect::<Vec<_>>(), [(first + 1, first), (first + 2, first + 3)]);
        assert_eq!(run.cqs[&2].unpolled.len(), 0);
    }

    #[test]
    fn a_thread_returns_from_the_call_that_it_was_blocked_in() {
        let mut record = begun();
        let wait = record.entries().len();
        record.waits_at_channel().comes(1, false);
        let members =
            json!({"thread": 4720, "on": "completion", "fd": CHANNEL, "waited": 5, "event": true});
        record.put(1, 0, "woken", members);
        let destroys = json!({
            "thread": 4720, "name": "ibv_destroy_cq", "args": [["cq", {"cq": 2}]], "duration": 0,
            "result": {"done": []}, "unacknowledged": 1,
        });
        record.put(1, 0, "call", destroys);
        let mut run = Run::default();
        let all = record.entries().iter().flat_map(|entry| run.entry(entry).returned);
        assert_eq!(all.collect::<Vec<_>>(), [wait]);
        assert!(run.cqs.contains_key(&2), "its events are to be acknowledged");
        let members = json!({"thread": 4720, "cq": 2, "found": 0, "empty": {"count": 1, "first": 1, "last": 1}});
        record.put(1, 0, "polled", members);
        let effect = run.entry(&record.entries()[wait + 4]);
        assert_eq!((effect.returned, effect.destroyed.is_some()), (vec![wait + 3], true));
        assert!(run.cqs.is_empty());
    }
}
