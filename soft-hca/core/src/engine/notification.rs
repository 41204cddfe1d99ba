//! Completion events: a queue is armed, the next completion gives an event, and a token in the
//! channel's event descriptor makes somebody look for it.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use crate::arena::Cq;
use crate::engine::Actor;
use crate::engine::arming;
use crate::engine::deferred::{Deferred, Wake};

/// What is known of a channel whose waker was killed.
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
    /// REQ_NOTIFY_CQ: the next completion that is added gives one event. Completions that are
    /// already there give none.
    pub fn arm(&self, cq: u32, solicited_only: bool) {
        if let Some(cq) = self.arena.cqs.get(cq as usize) {
            arming::arm(&cq.armed, solicited_only);
        }
    }

    /// Completions have been added. If the queue was armed for them there is one event, and no
    /// more. The caller holds the queue's lock.
    pub(super) fn notify(&self, index: u32, cq: &Cq, is_solicited: bool, deferred: &mut Deferred) {
        // Without a channel there is nobody to tell.
        let Some(channel) = cq.channel.load(Acquire).checked_sub(1) else { return };
        let Some(armed) = arming::armed_for(&cq.armed, is_solicited) else { return };
        let entry = self.arena.channels.get(channel as usize);
        let generation = entry.map_or(0, |entry| entry.live.load(Acquire));
        if generation == 0 {
            arming::disarm(&cq.armed, armed);
            return;
        }
        // Who dies from here on until the token is given leaves an event without its token, which the daemon finds.
        cq.token_due_from.store(self.me as u32 + 1, Release);
        // First the event, then the token.
        arming::give_event(&cq.armed, armed, &cq.pending_events);
        deferred.wakes.push(Wake { cq: index, channel, generation });
    }

    /// Gives the token that belongs to an event.
    pub(super) fn wake(&self, wake: Wake) {
        self.env.wake_channel(wake.channel, wake.generation);
        if let Some(cq) = self.arena.cqs.get(wake.cq as usize) {
            // Another process may owe the next one by now.
            let _ = cq.token_due_from.compare_exchange(self.me as u32 + 1, 0, AcqRel, Relaxed);
        }
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
                self.notify_of_unread(index as u32, cq, &mut deferred);
            }
        }
        self.run_deferred(&mut deferred);
        (missing_tokens, are_all)
    }

    /// The event of completions that somebody was about to tell of, if the queue is still armed.
    /// An event too many does no harm: the program finds an empty queue.
    /// The caller holds the queue's lock.
    fn notify_of_unread(&self, index: u32, cq: &Cq, deferred: &mut Deferred) {
        if cq.live.load(Acquire) == 0 {
            return;
        }
        let ring = self.arena.ring(&cq.ring);
        if ring.is_some_and(|ring| ring.consumer() != ring.producer()) {
            self.notify(index, cq, true, deferred);
        }
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
}

/// Counts a look at a channel for a token and its event: odd while it lasts.
#[derive(Debug)]
pub struct Reading<'a>(&'a AtomicU32);

impl<'a> Reading<'a> {
    /// `reads` is `Channel::reads`. One at a time for each channel.
    pub fn begin(reads: &'a AtomicU32) -> Self {
        reads.fetch_add(1, AcqRel);
        Self(reads)
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, AcqRel);
    }
}
