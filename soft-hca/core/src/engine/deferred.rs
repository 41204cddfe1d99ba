//! Effects that wait until all locks are free.

use crate::engine::asynchronous::Async;

/// Effects that may wait for the daemon, which may in turn wait for a lock of ours: they are
/// collected while locks are held. Nothing is allocated as long as there are none.
#[derive(Debug, Default)]
pub(super) struct Deferred {
    /// Completion channels to be woken.
    pub wakes: Vec<Wake>,
    /// Events to be raised.
    pub raised: Vec<Async>,
    /// Queue pairs to be run again: number and after how many nanoseconds.
    pub rescheduled: Vec<(u32, u64)>,
    /// Strict programs' queue pairs to be run again: number and at which
    /// [time](crate::engine::env::Env::put_off_now_ns).
    pub put_off: Vec<(u32, u64)>,
    /// Peers that went to the error state; their send queues are to be flushed. Not done at once,
    /// for that takes a lock of a kind that is held already.
    pub failed_peers: Vec<u32>,
    /// Queue pairs of which a completion was lost.
    pub overrun: Vec<u32>,
    /// Queue pairs at whose send queues the link is to look.
    pub link_doorbells: Vec<u32>,
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
