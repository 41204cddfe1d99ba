//! Credits of completion queues: entries that are free. An adapter takes its time, in which a
//! program polls; here completions are there at once, and a program that posts while it polls
//! (`ibv_start_poll` to `ibv_end_poll`, where the provider gives the slots back at the end) would
//! overrun its own queue. So a request whose completions have no credit waits, as one whose
//! receiver is not ready does, and is executed all the same, as an overrun, when the program has
//! not polled for [`timing::CQ_FULL_NS`].
//!
//! The ring has twice the slots that the queue is said to have. Those beyond are for whoever saw
//! [`PLENTY`] of credits, reserved none, and was preempted until others had used them up, and for sends that are executed
//! [at once](super::at_once), which reserve none. A program that has no more requests with a completion outstanding than its
//! queue holds never needs more than these: as many may be there that it has polled and not given back.
//!
//! [`timing::CQ_FULL_NS`]: super::timing::CQ_FULL_NS

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use crate::arena::{Arena, Cq, Mapping};
use crate::engine::actor::Actor;
use crate::engine::request_error::RequestError;
use crate::engine::reservation;
use crate::engine::timing::CQ_FULL_NS;
use crate::ring::Ring;

/// With so many credits nobody reserves any: more than all who may be adding completions at once
/// will use. So many fit into what a ring has beyond its queue's size, see [`ring_entries`].
pub(super) const PLENTY: u32 = 256;

/// The entries that the ring of a completion queue with `cqe` entries has.
pub fn ring_entries(cqe: u32) -> u32 {
    cqe.saturating_mul(2).saturating_add(1)
}

/// The credits of an empty queue with this ring.
pub fn cqe_of(mask: u32) -> u32 {
    mask / 2
}

/// How many completions a queue holds.
pub(super) fn entries_of(cq: &Cq, ring: &Ring<'_>) -> u32 {
    let capacity = cqe_of(ring.mask());
    match cq.exact.load(Acquire) {
        0 => capacity,
        exact => exact.min(capacity),
    }
}

/// Credits of a queue, going by the header. The producer's index is read first: if the program
/// polls meanwhile there seem to be fewer, and never more.
pub(super) fn count_credits(cq: &Cq, ring: &Ring<'_>) -> u32 {
    let producer = ring.producer();
    entries_of(cq, ring).saturating_sub(ring.distance(ring.consumer(), producer))
}

/// Credits of a queue, and how many of them nobody has reserved.
#[inline]
pub(super) fn unreserved(cq: &Cq, ring: &Ring<'_>) -> (u32, u32) {
    let known = cq.credits.load(Acquire).min(cqe_of(ring.mask()));
    let reserved = cq.reserved.load(Acquire);
    // Counting reads an index that the program's polls write.
    let credits = if known > reserved { known } else { count_credits(cq, ring) };
    (credits, credits.saturating_sub(reserved))
}

/// Credits that nobody else counts on. They end with this value: by then the completions are in the
/// queue.
pub(super) struct Credits<'a> {
    /// Where they are reserved, unless there are plenty.
    cq: Option<&'a Cq>,
    reserved: u32,
    /// Those of them that are not used.
    left: u32,
}

impl Credits<'_> {
    /// Uses a credit, if one is left.
    pub(super) fn consume(&mut self) -> bool {
        let is_left = self.left > 0;
        self.left -= u32::from(is_left);
        is_left
    }
}

impl Drop for Credits<'_> {
    fn drop(&mut self) {
        if let Some(cq) = self.cq.filter(|_| self.reserved > 0) {
            reservation::release(&cq.reserved, self.reserved);
        }
    }
}

/// A wait for a credit, which lasts from one attempt to the next.
#[derive(Debug, Default)]
pub(super) struct CreditWait {
    /// How long it waits, unless the program polls. 0: not set yet.
    until_ns: u64,
    /// See [`has_polled_since`].
    polled: AtomicU32,
}

/// How [`Cq::overrun_from`] names a program that has polled up to here.
fn mark_of(ring: &Ring<'_>) -> u32 {
    ring.consumer() + 1
}

/// Whether requests have waited for a credit in vain, and the program has not polled since.
pub(super) fn may_overrun(cq: &Cq, ring: &Ring<'_>) -> bool {
    cq.overrun_from.load(Acquire) == mark_of(ring)
}

/// Reserves up to `requested` credits of the queue with an index. A queue that may be overrun has
/// any number of them.
pub(super) fn reserve<'a>(actor: &Actor<'a>, index: u32, requested: u32) -> Credits<'a> {
    let unreserved = Credits { cq: None, reserved: 0, left: requested };
    let Some(cq) = actor.arena.cqs.get(index as usize) else { return unreserved };
    if cq.credits.load(Acquire) >= PLENTY.saturating_add(requested) {
        return unreserved;
    }
    let Some(ring) = actor.arena.ring(&cq.ring) else { return unreserved };
    let known = || cq.credits.load(Acquire).min(cqe_of(ring.mask()));
    let free = reservation::reserve(&cq.reserved, requested, known, || count_credits(cq, &ring));
    if free == 0 && may_overrun(cq, &ring) {
        return unreserved;
    }
    Credits { cq: Some(cq), reserved: free, left: free }
}

/// Reserves a credit; the request waits if there is none.
pub(super) fn reserve_one<'a>(actor: &Actor<'a>, cq: u32) -> Result<Credits<'a>, RequestError> {
    let mut credits = reserve(actor, cq, 1);
    if credits.consume() { Ok(credits) } else { Err(RequestError::CqFull(cq)) }
}

/// Reserves a credit for a message from another host. `None` while there is none and it is to
/// be waited for.
pub(super) fn reserve_or_wait<'a>(
    actor: &Actor<'a>,
    cq: u32,
    wait: &mut Option<CreditWait>,
) -> Option<Credits<'a>> {
    if let Ok(credit) = reserve_one(actor, cq) {
        *wait = None;
        return Some(credit);
    }
    let now = actor.env.now_ns();
    let CreditWait { until_ns, polled } = wait.get_or_insert_default();
    if has_polled_since(actor.arena, cq, polled) || *until_ns == 0 {
        *until_ns = now + wait_limit_ns(actor.arena, cq);
    }
    if now < *until_ns {
        return None;
    }
    *wait = None;
    allow_overrun(actor.arena, cq);
    Some(reserve(actor, cq, 1))
}

/// How long a request waits for a free entry of a queue, in nanoseconds: not where the queue holds
/// exactly as many as were requested.
#[cold]
pub(super) fn wait_limit_ns(arena: &Arena, index: u32) -> u64 {
    let cq = arena.cqs.get(index as usize);
    if cq.is_some_and(|cq| cq.exact.load(Acquire) != 0) { 0 } else { CQ_FULL_NS }
}

/// Whether a queue's program has polled since the last look, of which `polled` takes note. If
/// it has, a request that got no credit goes on waiting: others were faster.
pub(super) fn has_polled_since(arena: &Mapping, index: u32, polled: &AtomicU32) -> bool {
    let cq = arena.cqs.get(index as usize);
    let Some(ring) = cq.and_then(|cq| arena.ring(&cq.ring)) else { return false };
    polled.swap(mark_of(&ring), AcqRel) != mark_of(&ring)
}

/// No request waits for a credit of this queue any more until its program has polled: the queue
/// may be overrun.
pub(super) fn allow_overrun(arena: &Mapping, index: u32) {
    if let Some(cq) = arena.cqs.get(index as usize) {
        if let Some(ring) = arena.ring(&cq.ring) {
            cq.overrun_from.store(mark_of(&ring), Release);
        }
    }
}
