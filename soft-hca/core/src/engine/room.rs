//! Room in completion queues. An adapter takes its time, in which a program polls; here completions
//! are there at once, and a program that posts while it polls (`ibv_start_poll` to `ibv_end_poll`,
//! where the provider gives the slots back at the end) would overrun its own queue. So a request
//! whose completions do not fit waits, as one whose receiver is not ready does, and is executed
//! all the same when the program has not polled for [`timing::CQ_FULL_NS`].
//!
//! The ring has twice the slots that the queue is said to have. Those beyond are for whoever saw
//! [`PLENTY`] of room, claimed none of it, and was preempted until others had used it up.
//!
//! [`timing::CQ_FULL_NS`]: super::timing::CQ_FULL_NS

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use crate::arena::Cq;
use crate::engine::Actor;
use crate::engine::claims::{claim, release};
use crate::engine::request::RequestError;
use crate::engine::timing::CQ_FULL_NS;
use crate::ring::Ring;

/// With so much room nobody claims a part of it: more than all who may be adding completions at
/// once will add. So many fit into what a ring has beyond its queue's size, see [`ring_entries`].
pub(super) const PLENTY: u32 = 256;

/// The entries that the ring of a completion queue with `cqe` entries has.
pub fn ring_entries(cqe: u32) -> u32 {
    cqe.saturating_mul(2).saturating_add(1)
}

/// The completions that a queue with this ring is said to have room for.
pub fn cqe_of(mask: u32) -> u32 {
    mask / 2
}

/// Completions for which a queue has room, going by the header. The producer's index is read first:
/// if the program polls meanwhile it looks as if there were less room, and never more.
pub(super) fn free_in(ring: &Ring<'_>) -> u32 {
    let producer = ring.producer();
    cqe_of(ring.mask()).saturating_sub(ring.distance(ring.consumer(), producer))
}

/// Room for completions that nobody else counts on. It ends with this value: by then the
/// completions are in the queue.
pub(super) struct Claim<'a> {
    /// Where it is written down, unless there is plenty.
    cq: Option<&'a Cq>,
    /// What is written down.
    claimed: u32,
    /// What is left of it.
    left: u32,
}

impl Claim<'_> {
    /// Uses the room for one completion, if there is any left.
    pub(super) fn take(&mut self) -> bool {
        let is_left = self.left > 0;
        self.left -= u32::from(is_left);
        is_left
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if let Some(cq) = self.cq.filter(|_| self.claimed > 0) {
            release(&cq.claimed, self.claimed);
        }
    }
}

/// What has waited for room, and since when. Kept between two attempts.
#[derive(Debug, Default)]
pub(super) struct Full {
    /// How long it waits, unless the program polls. 0: not set yet.
    until_ns: u64,
    /// See [`Actor::has_polled_since`].
    polled: AtomicU32,
}

/// How [`Cq::given_up`] names a program that has polled up to here.
fn mark_of(ring: &Ring<'_>) -> u32 {
    ring.consumer() + 1
}

/// Whether requests have waited for room in vain, and the program has not polled since.
pub(super) fn is_given_up(cq: &Cq, ring: &Ring<'_>) -> bool {
    cq.given_up.load(Acquire) == mark_of(ring)
}

impl<'a> Actor<'a> {
    /// Claims room for up to `wanted` completions in the queue with an index. A queue that has
    /// been waited for in vain has any room.
    pub(super) fn claim_room(&self, index: u32, wanted: u32) -> Claim<'a> {
        let unclaimed = Claim { cq: None, claimed: 0, left: wanted };
        let Some(cq) = self.arena.cqs.get(index as usize) else { return unclaimed };
        if cq.room.load(Acquire) >= PLENTY.saturating_add(wanted) {
            return unclaimed;
        }
        let Some(ring) = self.arena.ring(&cq.ring) else { return unclaimed };
        let known = || cq.room.load(Acquire).min(cqe_of(ring.mask()));
        let free = claim(&cq.claimed, wanted, known, || free_in(&ring));
        if free == 0 && is_given_up(cq, &ring) {
            return unclaimed;
        }
        Claim { cq: Some(cq), claimed: free, left: free }
    }

    /// Claims room for one completion; the request waits if there is none.
    pub(super) fn claim_one(&self, cq: u32) -> Result<Claim<'a>, RequestError> {
        let mut room = self.claim_room(cq, 1);
        if room.take() { Ok(room) } else { Err(RequestError::CqFull(cq)) }
    }

    /// Claims room for one completion of a message from another host. `None` while there is none
    /// and it is to be waited for.
    pub(super) fn claim_or_wait(&self, cq: u32, full: &mut Option<Full>) -> Option<Claim<'a>> {
        if let Ok(room) = self.claim_one(cq) {
            *full = None;
            return Some(room);
        }
        let now = self.env.now_ns();
        let Full { until_ns, polled } = full.get_or_insert_default();
        if self.has_polled_since(cq, polled) || *until_ns == 0 {
            *until_ns = now + CQ_FULL_NS;
        }
        if now < *until_ns {
            return None;
        }
        *full = None;
        self.give_up_on(cq);
        Some(self.claim_room(cq, 1))
    }

    /// Whether a queue's program has polled since the last look, of which `polled` takes note. Then
    /// it may go on waiting who did not get the room: others were faster.
    pub(super) fn has_polled_since(&self, index: u32, polled: &AtomicU32) -> bool {
        let cq = self.arena.cqs.get(index as usize);
        let Some(ring) = cq.and_then(|cq| self.arena.ring(&cq.ring)) else { return false };
        polled.swap(mark_of(&ring), AcqRel) != mark_of(&ring)
    }

    /// Nobody waits for room in this queue any more, until its program has polled.
    pub(super) fn give_up_on(&self, index: u32) {
        if let Some(cq) = self.arena.cqs.get(index as usize) {
            if let Some(ring) = self.arena.ring(&cq.ring) {
                cq.given_up.store(mark_of(&ring), Release);
            }
        }
    }

    /// Forgets all claims, among which a dead process's may be. For the daemon. `cqs` are the
    /// indices of the queues in use.
    pub fn forget_claims(&self, cqs: impl IntoIterator<Item = usize>) {
        for cq in cqs.into_iter().filter_map(|index| self.arena.cqs.get(index)) {
            cq.claimed.store(0, Release);
        }
    }
}
