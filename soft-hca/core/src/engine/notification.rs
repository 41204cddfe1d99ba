//! Completion events: a queue is armed, the next completion gives an event, and a token in the
//! channel's event descriptor makes somebody look for it.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use crate::arena::Cq;
use crate::engine::actor::Actor;
use crate::engine::arming;
use crate::engine::deferred::{Deferred, Wake};

impl Actor<'_> {
    /// REQ_NOTIFY_CQ: the next completion that is added gives one event. Completions that are
    /// already there give none.
    pub fn arm(&self, cq: u32, solicited_only: bool) {
        if let Some(cq) = self.arena.cqs.get(cq as usize) {
            arming::arm(&cq.armed, solicited_only);
        }
    }
}

/// Completions have been added. If the queue was armed for them there is one event, and no
/// more. The caller holds the queue's lock.
pub(super) fn notify(
    actor: &Actor<'_>,
    index: u32,
    cq: &Cq,
    is_solicited: bool,
    deferred: &mut Deferred,
) {
    deferred.wakes.extend(give_event(actor, (index, cq), is_solicited));
}

/// The same, with the channel to be woken.
#[inline]
pub(super) fn give_event(actor: &Actor<'_>, queue: (u32, &Cq), is_solicited: bool) -> Option<Wake> {
    // Without a channel there is nobody to tell.
    let channel = queue.1.channel.load(Acquire).checked_sub(1)?;
    give_event_by(actor, queue, channel, is_solicited)
}

fn give_event_by(
    actor: &Actor<'_>,
    (index, cq): (u32, &Cq),
    channel: u32,
    is_solicited: bool,
) -> Option<Wake> {
    let armed = arming::armed_for(&cq.armed, is_solicited)?;
    let entry = actor.arena.channels.get(channel as usize);
    let generation = entry.map_or(0, |entry| entry.live.load(Acquire));
    if generation == 0 {
        arming::disarm(&cq.armed, armed);
        return None;
    }
    // A process that dies from here on until the token is given leaves an event without its token,
    // which the daemon finds.
    cq.token_due_from.store(actor.me as u32 + 1, Release);
    // First the event, then the token.
    arming::give_event(&cq.armed, armed, &cq.pending_events);
    Some(Wake { cq: index, channel, generation })
}

/// Gives the token that belongs to an event.
pub(super) fn wake(actor: &Actor<'_>, wake: Wake) {
    actor.env.wake_channel(wake.channel, wake.generation);
    if let Some(cq) = actor.arena.cqs.get(wake.cq as usize) {
        // Another process may owe the next one by now.
        let _ = cq.token_due_from.compare_exchange(actor.me as u32 + 1, 0, AcqRel, Relaxed);
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
