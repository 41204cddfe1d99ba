//! Completion queues that are armed. A completion that has come before gives no event: a program that arms has to
//! poll once more before it waits.
//!
//! A wait in `ibv_get_cq_event` is on record. A wait in `poll(2)`, `epoll_wait(2)` or the like is not, but its end
//! is: the program takes an event, or does nothing more with the queue until the program or the record ends.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::arguments::{cq, number};
use crate::check::found::{Found, Lookout, Scene};
use crate::check::rule::{Advice, Rule};
use crate::entry::{Channel, Entry, What};
use crate::model::{CompletionQueue, Run};
use crate::place::Place;
use crate::time::duration;

pub(in crate::check) const ADVICE: Advice = Advice {
    why: "a completion that came before ibv_req_notify_cq gives no event, so that the thread may sleep for \
         ever",
    cure: "arm, then poll until nothing is found, and only then wait",
};

/// A queue that is armed for so long, in nanoseconds, with completions that nobody polls is waited for in vain.
const IN_VAIN_NS: u64 = 1_000_000_000;

/// A poll that is due since a queue was armed.
#[derive(Debug)]
struct Owed {
    /// The time of the arming, its thread, and its place.
    t: u64,
    thread: Option<u32>,
    source: Option<Arc<Place>>,
    /// Completions that had come by then, and would have given an event later.
    missed: u64,
}

/// Polls that are missing, by completion queues.
#[derive(Debug, Default)]
pub(in crate::check) struct ArmOrder(BTreeMap<u32, Owed>);

impl ArmOrder {
    /// The poll that is missing, unless another thread polls the queue: that one may be about to.
    fn owed(&mut self, number: u32, cq: &CompletionQueue) -> Option<Owed> {
        let owed = self.0.remove(&number).filter(|_| !cq.is_partial)?;
        (cq.poller.is_none() || cq.poller == owed.thread).then_some(owed)
    }

    fn armed(&mut self, scene: Scene<'_>, number: u32, solicited_only: bool) {
        let cq = scene.run.cqs.get(&number).filter(|cq| cq.channel.is_some() && !cq.is_partial);
        let Some(cq) = cq else { return };
        let last = if solicited_only { cq.last_solicited } else { cq.completions };
        let missed = last.saturating_sub(cq.polled);
        let Entry { t, thread, .. } = *scene.entry;
        let owed = Owed { t, thread, source: scene.effect.source.clone(), missed };
        match cq.arms > 1 || missed > 0 {
            true => _ = self.0.insert(number, owed),
            false => _ = self.0.remove(&number),
        }
    }

    /// Judges a wait for a queue that comes without a poll.
    fn waits(&mut self, scene: Scene<'_>, number: u32, cq: &CompletionQueue) -> Option<Found> {
        let owed = self.owed(number, cq)?;
        let how = match (cq.arms, owed.missed) {
            (2.., _) => "armed again".into(),
            (_, missed) => format!("armed when completions had come ({missed})"),
        };
        let what = format!("{how}, and the thread waits without a poll after that");
        Some(scene.finds(Rule::ArmOrder, format!("cq {number}"), what))
    }

    /// Judges the end of queues' process, or of the record.
    fn ends(&mut self, run: &Run, t: u64, is_meant: impl Fn(u32) -> bool) -> Vec<Found> {
        let is_it = |cq: &CompletionQueue| is_meant(cq.process) && run.is_hooked(cq.process);
        let queues = run.cqs.iter().filter(|(_, cq)| is_it(cq));
        let found = queues.filter_map(|(number, cq)| {
            let owed = self.owed(*number, cq).filter(|owed| owed.missed > 0)?;
            let waited = t.saturating_sub(owed.t);
            (waited >= IN_VAIN_NS).then(|| Found {
                rule: Rule::ArmOrder,
                process: cq.process,
                place: format!("cq {number}"),
                what: format!(
                    "armed when completions had come ({}), and not polled after that, for {}",
                    owed.missed,
                    duration(waited)
                ),
                t: owed.t,
                source: owed.source,
                needs_polls: false,
            })
        });
        found.collect()
    }
}

impl Lookout for ArmOrder {
    fn entry(&mut self, scene: Scene<'_>, found: &mut Vec<Found>) {
        let process = scene.entry.process;
        match &scene.entry.what {
            What::Polled(polled) => drop(self.0.remove(&polled.cq)),
            What::Wait { on: Channel::Completion, fd }
            | What::Woken { on: Channel::Completion, fd, event: true, .. }
                if scene.run.is_hooked(process) =>
            {
                let is_its =
                    |cq: &CompletionQueue| cq.process == process && cq.channel == Some(*fd);
                let queues = scene.run.cqs.iter().filter(|(_, cq)| is_its(cq));
                found.extend(queues.filter_map(|(number, cq)| self.waits(scene, *number, cq)));
            }
            What::ProcessEnded { .. } => {
                found.extend(self.ends(scene.run, scene.entry.t, |of| of == process));
            }
            _ => {}
        }
        match scene.call() {
            Some(("ibv_req_notify_cq", args, _)) => {
                let solicited_only = number(args, "solicited_only").is_some_and(|only| only != 0);
                cq(args, "cq").into_iter().for_each(|cq| self.armed(scene, cq, solicited_only));
            }
            // A program that comes to destroy it does not wait for it any more.
            Some(("ibv_destroy_cq", args, _)) => _ = cq(args, "cq").map(|cq| self.0.remove(&cq)),
            _ => {}
        }
    }

    fn end(&mut self, run: &Run, found: &mut Vec<Found>) {
        found.extend(self.ends(run, run.last, |_| true));
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
