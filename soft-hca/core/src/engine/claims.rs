//! Claims of room in a completion queue: the word that all who are about to add completions agree
//! by, without a lock.
#![allow(unreachable_pub, reason = "the loom models are another crate")]

use crate::sync::atomic::AtomicU32;
use crate::sync::atomic::Ordering::{AcqRel, Acquire};

/// Claims up to `wanted` of a queue's room, and gives how much that nobody else counts on. There are
/// two ways to look how much room there is: `known` is cheap and may say too little.
///
/// First the claim, then the look: whose claim is not among those before has its completions in the
/// queue already, where the look sees them.
#[inline]
pub fn claim(
    claimed: &AtomicU32,
    wanted: u32,
    known: impl FnOnce() -> u32,
    counted: impl FnOnce() -> u32,
) -> u32 {
    let others = claimed.fetch_add(wanted, AcqRel);
    let free_of = |room: u32| room.saturating_sub(others).min(wanted);
    let mut free = free_of(known());
    if free < wanted {
        free = free_of(counted());
    }
    if free < wanted {
        release(claimed, wanted - free);
    }
    free
}

/// Ends claims, whose completions are in the queue by now. All claims may have been forgotten in
/// between.
#[inline]
pub fn release(claimed: &AtomicU32, count: u32) {
    let _ = claimed.fetch_update(AcqRel, Acquire, |claimed| Some(claimed.saturating_sub(count)));
}
