//! The daemon's work after the end of a process, which may have died at any point.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use crate::arena::Cq;
use crate::engine::actor::Actor;
use crate::engine::cursor::SendCursors;
use crate::engine::deferred::Deferred;
use crate::engine::notification::notify;
use crate::engine::{bounce, effects};

/// State of a channel whose waker was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tokens {
    /// There is no event, so no token is owed.
    Settled,
    /// There is a token, or somebody is about to give or to take one.
    Unclear,
    /// There is an event and no token.
    Missing,
}

impl Actor<'_> {
    /// Takes all locks that a dead process has in the arena from it. False if that has to wait for a
    /// helper that is at work for it. For the daemon.
    #[must_use]
    pub fn release_all_of(&self, dead: usize) -> bool {
        let is_over = bounce::end_all_of(self.arena, dead);
        if is_over {
            self.arena.release_locks_of(dead);
        }
        is_over
    }

    /// Channels, index and generation, that process `dead` may have left with an event and
    /// without its token: [`Actor::tokens_of`] tells. For the daemon, when `dead` has no lock any
    /// more. With the channels it tells whether these are all: somebody else may have a queue's lock.
    pub fn missing_tokens_of(
        &self,
        dead: usize,
        cqs: impl IntoIterator<Item = usize>,
    ) -> (Vec<(u32, u32)>, bool) {
        let owed = dead as u32 + 1;
        let (mut missing_tokens, mut are_all) = (Vec::new(), true);
        let mut deferred = Deferred::default();
        for index in cqs {
            let Some(cq) = self.arena.cqs.get(index) else { continue };
            if cq.token_due_from.load(Acquire) != owed {
                continue;
            }
            let Some(_guard) = self.lock(&cq.lock) else {
                are_all = false;
                continue;
            };
            if cq.token_due_from.compare_exchange(owed, 0, AcqRel, Relaxed).is_err() {
                continue;
            }
            let channel = cq.channel.load(Acquire).checked_sub(1);
            let entry = channel.and_then(|channel| self.arena.channels.get(channel as usize));
            if let (Some(channel), Some(entry)) = (channel, entry) {
                missing_tokens.push((channel, entry.live.load(Acquire)));
                notify_of_unread(self, index as u32, cq, &mut deferred);
            }
        }
        effects::carry_out(self, &mut deferred);
        (missing_tokens, are_all)
    }

    /// Whether a channel has an event without a token; `cqs` are all completion queues,
    /// `is_readable` tells whether there is a token.
    ///
    /// A waker that is killed right before it gives the token and one that is killed right after
    /// look the same. To give it once more in doubt is no way out: a program that finds its
    /// channel readable, and no event, may fail or block.
    pub fn tokens_of(
        &self,
        (channel, generation): (u32, u32),
        cqs: impl IntoIterator<Item = usize>,
        is_readable: impl FnOnce() -> bool,
    ) -> Tokens {
        let entry = self.arena.channels.get(channel as usize);
        let Some(entry) = entry.filter(|entry| entry.live.load(Acquire) == generation) else {
            return Tokens::Settled;
        };
        let reads = entry.reads.load(Acquire);
        let mut has_event = false;
        for cq in cqs.into_iter().filter_map(|index| self.arena.cqs.get(index)) {
            if cq.live.load(Acquire) != 0 && cq.channel.load(Acquire) == channel + 1 {
                has_event |= cq.pending_events.load(Acquire) != 0;
                // Read after the event: a process whose event was seen owes its token or has given
                // it.
                if cq.token_due_from.load(Acquire) != 0 {
                    return Tokens::Unclear;
                }
            }
        }
        if !has_event {
            return Tokens::Settled;
        }
        // If nobody has read meanwhile, a token given earlier is still there.
        let is_being_read = || reads % 2 != 0 || entry.reads.load(Acquire) != reads;
        if is_readable() || is_being_read() { Tokens::Unclear } else { Tokens::Missing }
    }

    /// Forgets all reservations, among which a dead process's may be. For the daemon. `cqs` are the
    /// indices of the queues in use.
    pub fn forget_reservations(&self, cqs: impl IntoIterator<Item = usize>) {
        for cq in cqs.into_iter().filter_map(|index| self.arena.cqs.get(index)) {
            cq.reserved.store(0, Release);
        }
    }

    /// Has send queues run again that are not empty. For the daemon, after the end of a process: it
    /// may have died executing one of them, before it could say that it is to be tried again.
    pub fn run_again(&self, qps: impl IntoIterator<Item = usize>) {
        for qp in qps.into_iter().filter_map(|index| self.arena.qps.get(index)) {
            let ring = self.arena.ring(&qp.sq);
            if ring.is_some_and(|ring| ring.producer() != SendCursors::of(qp, &ring).next) {
                self.env.reschedule(qp.live.load(Acquire), 0);
            }
        }
    }
}

/// The event of completions that somebody was about to tell of, if the queue is still armed.
/// An event too many does no harm: the program finds an empty queue.
/// The caller holds the queue's lock.
fn notify_of_unread(actor: &Actor<'_>, index: u32, cq: &Cq, deferred: &mut Deferred) {
    if cq.live.load(Acquire) == 0 {
        return;
    }
    let ring = actor.arena.ring(&cq.ring);
    if ring.is_some_and(|ring| ring.consumer() != ring.producer()) {
        notify(actor, index, cq, true, deferred);
    }
}
