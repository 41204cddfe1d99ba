//! Completion queues that are armed. A completion that has come before gives no event: a program that arms has to
//! poll once more before it waits.
//!
//! A wait in `ibv_get_cq_event` is on record. A wait in `poll(2)`, `epoll_wait(2)` or the like is not, but its end
//! is: the program takes an event, or does nothing more with the queue until the program or the record ends.

use std::collections::HashMap;
use std::sync::Arc;

use soft_hca_verbs::WcStatus;

use super::{Found, Rule, done, hook, source};
use crate::arguments::{self, cq, number};
use crate::entry::{Call, Channel, Completion, Entry, What};
use crate::place::Place;
use crate::text::duration;

/// A queue that is armed for so long, in nanoseconds, with completions that nobody polls is waited for in vain.
const IN_VAIN_NS: u64 = 1_000_000_000;

/// A completion queue that reports to a channel.
#[derive(Debug, Default)]
struct Queue {
    process: u32,
    /// The descriptor of its channel.
    channel: u32,
    /// How often it was armed.
    arms: u32,
    /// Completions that have come, and those of them that were polled.
    come: u64,
    polled: u64,
    /// The number that had come with the last one that is solicited, or an error.
    last_solicited: u64,
    /// The thread that has polled it last.
    poller: Option<u32>,
    /// The poll that is due since the queue was armed.
    owes: Option<Owed>,
}

/// A poll that is missing.
#[derive(Debug)]
struct Owed {
    /// The time of the arming, its thread, and its place.
    t: u64,
    thread: Option<u32>,
    source: Option<Arc<Place>>,
    /// Completions that had come by then, and would have given an event later.
    missed: u64,
}

impl Queue {
    fn armed(&mut self, entry: &Entry, solicited_only: bool) {
        self.arms += 1;
        let last = if solicited_only { self.last_solicited } else { self.come };
        let missed = last.saturating_sub(self.polled);
        let owed = Owed { t: entry.t, thread: entry.thread, source: source(entry), missed };
        self.owes = (self.arms > 1 || missed > 0).then_some(owed);
    }

    /// The poll that is missing, unless another thread polls the queue: that one may be about to.
    fn owed(&mut self) -> Option<Owed> {
        let poller = self.poller;
        let is_its = |owed: &Owed| poller.is_none() || poller == owed.thread;
        self.owes.take().filter(is_its)
    }

    /// Judges a wait for the queue that comes without a poll.
    fn waits(&mut self, number: u32, entry: &Entry) -> Option<Found> {
        let owed = self.owed()?;
        let how = match (self.arms, owed.missed) {
            (2.., _) => "armed again".into(),
            (_, missed) => format!("armed when completions had come ({missed})"),
        };
        let what = format!("{how}, and the thread waits without a poll after that");
        let (t, source) = (entry.t, source(entry));
        Some(self.found(number, what, (t, source)))
    }

    /// Judges the end of the queue's process, or of the record.
    fn ends(&mut self, number: u32, t: u64) -> Option<Found> {
        let owed = self.owed().filter(|owed| owed.missed > 0)?;
        let waited = t.saturating_sub(owed.t);
        let what = format!(
            "armed when completions had come ({}), and not polled after that, for {}",
            owed.missed,
            duration(waited)
        );
        (waited >= IN_VAIN_NS).then(|| self.found(number, what, (owed.t, owed.source)))
    }

    fn found(&self, number: u32, what: String, (t, source): (u64, Option<Arc<Place>>)) -> Found {
        let place = format!("cq {number}");
        Found { rule: Rule::ArmOrder, process: self.process, place, what, t, source }
    }
}

/// All queues of a record that report to channels.
#[derive(Debug, Default)]
pub(super) struct Arming {
    queues: HashMap<u32, Queue>,
    hook: hook::Seen,
    last: u64,
}

impl Arming {
    pub(super) fn entry(&mut self, entry: &Entry, found: &mut Vec<Found>) {
        let process = entry.process;
        self.hook.entry(entry);
        self.last = self.last.max(entry.t);
        match &entry.what {
            What::Call(call) => found.extend(self.call(entry, call)),
            What::Completion(Completion { cq, status, solicited, lost: false, .. }) => {
                let Some(queue) = self.queues.get_mut(cq) else { return };
                queue.come += 1;
                if *solicited || *status != WcStatus::SUCCESS {
                    queue.last_solicited = queue.come;
                }
            }
            What::Polled(polled) => {
                let Some(queue) = self.queues.get_mut(&polled.cq) else { return };
                queue.polled += u64::from(polled.found);
                queue.poller = entry.thread;
                queue.owes = None;
            }
            What::Wait { on: Channel::Completion, fd }
            | What::Woken { on: Channel::Completion, fd, event: true, .. }
                if self.hook.is_seen(process) =>
            {
                let is_of_channel =
                    |queue: &Queue| queue.process == process && queue.channel == *fd;
                let queues = self.queues.iter_mut().filter(|(_, queue)| is_of_channel(queue));
                found.extend(queues.filter_map(|(number, queue)| queue.waits(*number, entry)));
            }
            What::ProcessEnded { .. } => {
                found.extend(self.ends(entry.t, |queue| queue.process == process));
                self.queues.retain(|_, queue| queue.process != process);
            }
            _ => {}
        }
    }

    fn call(&mut self, entry: &Entry, call: &Call) -> Option<Found> {
        let (args, given) = done(call)?;
        match call.name.as_str() {
            "ibv_create_cq" | "ibv_create_cq_ex" => {
                let (number, channel) = (cq(given, "cq")?, arguments::channel(args, "channel")?);
                let queue = Queue { process: entry.process, channel, ..Queue::default() };
                self.queues.insert(number, queue);
            }
            "ibv_req_notify_cq" => {
                let queue = self.queues.get_mut(&cq(args, "cq")?)?;
                queue.armed(entry, number(args, "solicited_only").is_some_and(|only| only != 0));
            }
            "ibv_destroy_cq" => {
                // A program that comes to destroy it does not wait for it any more.
                self.queues.remove(&cq(args, "cq")?);
            }
            _ => {}
        }
        None
    }

    /// Forgets all queues when entries are missing: the completions that came and that were polled are unknown.
    pub(super) fn forget(&mut self) {
        self.queues.clear();
    }

    fn ends(&mut self, t: u64, are: impl Fn(&Queue) -> bool) -> Vec<Found> {
        let hook = &self.hook;
        let is_it = |queue: &Queue| are(queue) && hook.is_seen(queue.process);
        let queues = self.queues.iter_mut().filter(|(_, queue)| is_it(queue));
        queues.filter_map(|(number, queue)| queue.ends(*number, t)).collect()
    }

    /// The record ends.
    pub(super) fn end(&mut self, found: &mut Vec<Found>) {
        found.extend(self.ends(self.last, |_| true));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::check::tests::findings;
    use crate::testing::{CHANNEL, Run, begun};

    /// A queue with a channel, whose polls are seen, which is armed and then waited for in some way.
    fn armed(happens: impl FnOnce(&mut Run)) -> Vec<String> {
        let mut run = begun();
        happens(&mut run);
        findings(&run)
            .into_iter()
            .map(|found| format!("{}: {}", found.rule.name(), found.what))
            .collect()
    }

    fn arms(run: &mut Run) {
        run.call(
            0,
            "ibv_req_notify_cq",
            json!([["cq", {"cq": 2}], ["solicited_only", 0]]),
            json!([]),
        );
    }

    fn polls_here(run: &mut Run, thread: u32, found: u32) {
        run.put(10, 0, "polled", json!({"thread": thread, "cq": 2, "found": found}));
    }

    /// An event is taken without a wait in `ibv_get_cq_event`.
    fn takes_event(run: &mut Run) {
        let members =
            json!({"thread": 4720, "on": "completion", "fd": CHANNEL, "waited": 0, "event": true});
        run.put(10, 0, "woken", members);
    }

    #[test]
    fn waits_after_the_arming_without_a_poll() {
        let again = "arm-order: armed again, and the thread waits without a poll after that";
        let first = "arm-order: armed when completions had come (1), and the thread waits without a poll after that";
        let twice = |polls: bool| {
            armed(|run| {
                arms(run);
                takes_event(run.comes(10, false));
                polls_here(run, 4720, 1);
                arms(run);
                if polls {
                    polls_here(run, 4720, 0);
                }
                takes_event(run.comes(10, false));
            })
        };
        assert_eq!((twice(false), twice(true)), (vec![again.to_owned()], vec![]));
        let once = |polls: bool| {
            armed(|run| {
                arms(run.comes(10, false));
                if polls {
                    polls_here(run, 4720, 1);
                }
                takes_event(run.comes(10, false));
            })
        };
        assert_eq!((once(false), once(true)), (vec![first.to_owned()], vec![]));
        let in_time = armed(|run| {
            arms(run);
            takes_event(run.comes(10, false));
        });
        assert_eq!(in_time, [""; 0]);
    }

    /// The record does not show that the thread waits by `poll(2)`, but the queue is armed, and not polled any more.
    #[test]
    fn a_queue_is_armed_in_vain() {
        let for_long = |waits: u64, solicited_only: bool| {
            armed(|run| {
                run.comes(10, false);
                let args =
                    json!([["cq", {"cq": 2}], ["solicited_only", i32::from(solicited_only)]]);
                run.call(0, "ibv_req_notify_cq", args, json!([]));
                run.put(waits, 0, "process_ended", json!({}));
            })
        };
        let [found] = &for_long(2_000_000_000, false)[..] else { panic!("one finding") };
        let expected =
            "arm-order: armed when completions had come (1), and not polled after that, for 2.00 s";
        assert_eq!(found, expected);
        assert_eq!(for_long(1_000_000, false), [""; 0], "it may be about to poll");
        assert_eq!(for_long(2_000_000_000, true), [""; 0], "it is for others");
    }

    /// A program that has got what it wants may leave completions in a queue, and end later.
    #[test]
    fn a_queue_is_armed_and_then_destroyed() {
        let found = armed(|run| {
            run.comes(10, false);
            arms(run);
            run.put(2_000_000_000, 0, "polled", json!({"thread": 4720, "cq": 3, "found": 0}));
            run.call(0, "ibv_destroy_cq", json!([["cq", {"cq": 2}]]), json!([]));
            run.put(2_000_000_000, 0, "process_ended", json!({}));
        });
        assert_eq!(found, [""; 0]);
    }

    /// A thread that hands on its events lets another thread poll after the arming.
    #[test]
    fn another_thread_polls() {
        let found = armed(|run| {
            for _ in 0..3 {
                arms(run);
                takes_event(run.comes(10, false));
                polls_here(run, 4800, 1);
            }
            arms(run);
            takes_event(run.comes(10, false));
        });
        assert_eq!(found, [""; 0]);
    }
}
