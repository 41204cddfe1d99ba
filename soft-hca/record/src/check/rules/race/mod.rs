//! Operations of devices that access the same bytes, one of them writing, and nothing orders the two.
//!
//! Processes may tell each other anything by means that no record shows, such as sockets. So operations of different
//! queues count as ordered if, when the later one was posted, anybody could have known that the earlier one was over.
//!
//! | module | what it is |
//! | --- | --- |
//! | `access` | accesses of an operation to memory, and which pairs of them clash |
//! | `in_flight` | operations from their post until somebody can know that they are over |

mod access;
mod in_flight;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use soft_hca_verbs::{Cause, WcStatus};

use crate::check::found::{Found, Lookout, Scene};
use crate::check::rule::{Advice, Rule};
use crate::entry::{Channel, Completion, Executed, Polled, SendPosted, What};
use crate::model::{CompletionQueue, Run, Unpolled};
use access::Access;
use in_flight::{Disorder, InFlight, Operation, Race};

pub(in crate::check) const ADVICE: Advice = Advice {
    why: "requests of two queue pairs are executed in any order or at once, piece by piece; one behind an RDMA read or an \
          atomic operation may overtake it: which bytes are there then, or are read, is chance",
    cure: "poll the completion of the first before the second is posted, or have the peer say so in a message behind it; \
           of one queue pair set IBV_SEND_FENCE in the second; or use disjoint bytes, and for words that are changed by \
           atomic operations nothing else",
};

#[derive(Debug, Default)]
pub(in crate::check) struct Races {
    in_flight: InFlight,
    /// Completion queues that are polled by `ibv_start_poll`: a poll is on record that may have given more than had
    /// come by its time.
    extended: HashSet<u32>,
}

impl Lookout for Races {
    fn entry(&mut self, scene: Scene<'_>, found: &mut Vec<Found>) {
        let (t, process, run) = (scene.entry.t, scene.entry.process, scene.run);
        for stopped in &scene.effect.stopped {
            self.in_flight.forget(stopped.qp);
            run.peer(stopped.qp).into_iter().for_each(|peer| self.in_flight.forget(peer));
        }
        for (qp, send) in &scene.effect.freed {
            send.at.into_iter().for_each(|at| self.in_flight.completes(*qp, at, t));
        }
        match &scene.entry.what {
            What::SendPosted(posted) => {
                self.in_flight.is_seen((process, scene.entry.thread), t);
                found.extend(self.posts(scene, posted));
            }
            What::Stalled { qp, reason: Cause::Held { duration }, .. } => {
                let at = scene.effect.joins[0].into_iter();
                at.for_each(|at| self.in_flight.is_held(*qp, at, t + duration));
            }
            What::Executed(Executed { qp, status, .. }) if *status != WcStatus::SUCCESS => {
                self.in_flight.forget(*qp);
            }
            What::Completion(completion) => found.extend(self.completion(scene, completion)),
            What::Polled(polled) => {
                let given = scene.effect.received.iter();
                given.for_each(|qp| self.is_received(run, *qp, t));
                self.polls(run, polled, t);
            }
            What::Woken { on: Channel::Completion, fd, event: true, .. } => {
                self.wakes(run, (process, *fd), t);
            }
            _ => {}
        }
    }

    fn needs_all(&self) -> bool {
        true
    }
}

impl Races {
    fn posts(&mut self, scene: Scene<'_>, posted: &SendPosted) -> Option<Found> {
        let run = scene.run;
        let send = run.live_qp(posted.qp)?.sends.requests().next_back()?;
        let new = Operation::new(run, scene.entry, posted, send)?;
        let race = self.in_flight.posts(new.clone())?;
        Some(tells(scene, &new, &race))
    }

    /// A completion is there: that of a message, which has gone into a receive, or of a request.
    fn completion(&mut self, scene: Scene<'_>, completion: &Completion) -> Option<Found> {
        let (run, t) = (scene.run, scene.entry.t);
        let Completion { cq, qp: number, status, .. } = *completion;
        let qp = run.live_qp(number)?;
        if status != WcStatus::SUCCESS {
            self.in_flight.forget(number);
            return None;
        }
        let is_polled_unseen = self.extended.contains(&cq) || !run.is_hooked(qp.process);
        if !scene.effect.is_receive {
            let at = scene.effect.joins[0].filter(|_| is_polled_unseen);
            at.into_iter().for_each(|at| self.in_flight.completes(number, at, t));
            return None;
        }
        let is_it = |newest: &&Unpolled| newest.at == scene.effect.at;
        let newest = run.cqs.get(&cq).and_then(|cq| cq.unpolled.back()).filter(is_it);
        let receive = newest.and_then(|newest| newest.receive.as_ref());
        let sges = receive.map(|receive| &receive.sges[..]).unwrap_or_default();
        let filled = Access::of_message(run, qp.process, sges, completion.length.into());
        let race = self.in_flight.fills(qp.peer?, filled);
        let finding = race.map(|(operation, race)| {
            let finding = tells(scene, &operation, &race);
            Found { process: operation.process, source: operation.send.source.clone(), ..finding }
        });
        if is_polled_unseen {
            self.is_received(run, number, t);
        }
        finding
    }

    /// A message of the peer's was polled.
    fn is_received(&mut self, run: &Run, qp: u32, t: u64) {
        run.peer(qp).into_iter().for_each(|peer| self.in_flight.is_delivered(peer, t));
    }

    /// Completions that an extended queue has got before its first poll count as polled.
    fn polls(&mut self, run: &Run, polled: &Polled, t: u64) {
        if polled.extended && self.extended.insert(polled.cq) {
            run.cqs.get(&polled.cq).into_iter().for_each(|cq| self.is_known(run, cq, t));
        }
    }

    /// A process takes an event of a channel: of any completion in its queues.
    fn wakes(&mut self, run: &Run, (process, fd): (u32, u32), t: u64) {
        let queues = run.cqs.values().filter(|cq| (cq.process, cq.channel) == (process, Some(fd)));
        queues.for_each(|cq| self.is_known(run, cq, t));
    }

    /// The program may know of all that is in a queue.
    fn is_known(&mut self, run: &Run, cq: &CompletionQueue, t: u64) {
        for one in &cq.unpolled {
            match (one.is_receive, one.send) {
                (true, _) => self.is_received(run, one.qp, t),
                (false, Some(at)) => self.in_flight.completes(one.qp, at, t),
                (false, None) => {}
            }
        }
    }
}

/// A race of an operation with an earlier one.
fn tells(scene: Scene<'_>, second: &Operation, race: &Race<'_>) -> Found {
    let Race { first, how: [earlier, later], process, bytes: (from, to), disorder } = *race;
    let run = scene.run;
    let place =
        first.send.source.as_ref().map(|source| format!(" in {source}")).unwrap_or_default();
    let why = match disorder {
        Disorder::Queues => "and nothing tells that it was complete",
        Disorder::Fence => "and there is no fence between the two",
    };
    let what = format!(
        "{} (wr_id {:#x}) {} {from:#x} to {to:#x} of {}; {} (wr_id {:#x}) of qp {}, posted by {}{place}, {} them, {why}",
        second.opcode,
        second.send.wr_id,
        later.verb(),
        run.name(process),
        first.opcode,
        first.send.wr_id,
        first.qp,
        run.name(first.process),
        earlier.verb(),
    );
    scene.finds(Rule::Race, format!("qp {}", second.qp), what)
}
