//! How far a queue is: which requests are executed, and which are given back to the program.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};

use crate::arena::{Mapping, Qp};
use crate::ring::Ring;
use crate::uapi::rxe::MIN_SEND_SLOT;

/// How far a send queue is. Requests before `completed` are done; those from there to `next` are
/// executed and wait for the peer's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SendCursors {
    /// Index of the oldest request that is not completed.
    pub completed: u32,
    /// Index of the next request to be executed.
    pub next: u32,
}

impl SendCursors {
    pub(super) fn of(qp: &Qp, ring: &Ring<'_>) -> Self {
        let completed = qp.sq_consumer.load(Acquire) & ring.mask();
        let next = match qp.sq_in_flight.load(Acquire) {
            0 => completed,
            count => {
                let posted = ring.distance(completed, ring.producer());
                ring.advance(completed, count.min(posted))
            }
        };
        Self { completed, next }
    }
}

/// The queue pair's send ring, if work requests fit into its slots.
pub(super) fn send_ring<'a>(arena: &'a Mapping, qp: &Qp) -> Option<Ring<'a>> {
    arena.ring(&qp.sq).filter(|ring| ring.slot_bytes() >= MIN_SEND_SLOT)
}

/// Whether receives are posted to the queue pair's own queue.
pub(super) fn has_receives(arena: &Mapping, qp: &Qp) -> bool {
    qp.srq.load(Acquire) == 0
        && arena
            .ring(&qp.rq)
            .is_some_and(|ring| ring.producer() != qp.rq_consumer.load(Acquire) & ring.mask())
}

/// Gives the slots before `index` back to the program. This comes before their completion: who
/// polls it may post again at once, and finds a free slot.
pub(super) fn retire<'q>(own: &'q AtomicU32, ring: &Ring<'_>, index: u32) -> Retiring<'q> {
    ring.set_consumer(index);
    Retiring { own, index: index & ring.mask() }
}

/// Requests that are being completed. They count as posted until this is dropped, so that they
/// are flushed, and not lost, if who completes them is killed before their completions are there.
#[must_use]
pub(super) struct Retiring<'q> {
    own: &'q AtomicU32,
    index: u32,
}

impl Drop for Retiring<'_> {
    fn drop(&mut self) {
        self.own.store(self.index, Release);
    }
}
