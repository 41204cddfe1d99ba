//! What is to be done once all locks are free.

use crate::engine::{Actor, Async};

/// Effects that may wait for the daemon, which may in turn wait for a lock of ours: they are
/// collected while locks are held. Nothing is allocated as long as there are none.
#[derive(Debug, Default)]
pub(super) struct After {
    /// Completion channels to be woken.
    pub wakes: Vec<Wake>,
    /// Events to be raised.
    pub raised: Vec<Async>,
    /// Queue pairs to be run again: number and after how many nanoseconds.
    pub kicks: Vec<(u32, u64)>,
    /// Peers that went to the error state; their send queues are to be flushed. Not done at once,
    /// for that takes a lock of a kind that is held already.
    pub broken: Vec<u32>,
    /// How often this run has waited for a receive of the peer.
    pub waits: u32,
}

/// A completion channel to be woken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wake {
    /// Index of the completion queue that has an event.
    pub cq: u32,
    /// Index of the channel.
    pub channel: u32,
    /// Its generation.
    pub generation: u32,
}

impl Actor<'_> {
    /// Does what was collected. The caller holds no lock.
    pub(super) fn settle(&self, after: &mut After) {
        while let Some(qpn) = after.broken.pop() {
            self.flush_sends(qpn, after);
        }
        after.wakes.drain(..).for_each(|wake| self.wake(wake));
        for what in after.raised.drain(..) {
            self.env.raise(what);
        }
        for (qpn, after_ns) in after.kicks.drain(..) {
            self.env.kick_later(qpn, after_ns);
        }
    }
}
