//! Reserved credits of a completion queue: the word that all who are about to add completions agree
//! by, without a lock.
#![allow(unreachable_pub, reason = "the loom models are another crate")]

use crate::sync::atomic::AtomicU32;
use crate::sync::atomic::Ordering::{AcqRel, Acquire};

/// Reserves up to `requested` of a queue's credits, and gives how many that nobody else counts on.
/// There are two ways to find out how many there are: `known` is cheap and may say too little.
///
/// First the reservation, then the look: whose reservation is not among those before has its
/// completions in the queue already, where the look sees them.
#[inline]
pub fn reserve(
    reserved: &AtomicU32,
    requested: u32,
    known: impl FnOnce() -> u32,
    counted: impl FnOnce() -> u32,
) -> u32 {
    let others = reserved.fetch_add(requested, AcqRel);
    let free_of = |credits: u32| credits.saturating_sub(others).min(requested);
    let mut free = free_of(known());
    if free < requested {
        free = free_of(counted());
    }
    if free < requested {
        release(reserved, requested - free);
    }
    free
}

/// Ends reservations, whose completions are in the queue by now. All of them may have been
/// forgotten in between.
#[inline]
pub fn release(reserved: &AtomicU32, count: u32) {
    let _ = reserved.fetch_update(AcqRel, Acquire, |reserved| Some(reserved.saturating_sub(count)));
}
