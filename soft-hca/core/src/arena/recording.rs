//! Which recording of the fabric is under way: the words by which the daemon tells programs, without a
//! lock.
#![allow(unreachable_pub, reason = "the loom models are another crate")]

use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::atomic::{AtomicU32, AtomicU64};

/// Begins the recording with a number, which is not 0: of so many bytes, and of what a number says.
pub fn begin(
    (number, limit, scope): (&AtomicU32, &AtomicU64, &AtomicU32),
    (new, bytes, what): (u32, u64, u32),
) {
    limit.store(bytes, Relaxed);
    scope.store(what, Relaxed);
    number.store(new, Release);
}

/// The number of the recording, 0 if there is none. Who sees it sees what has been said of it before: a
/// processor such as an arm64 may read the other words early, unless this one acquires.
#[inline]
pub fn number(number: &AtomicU32) -> u32 {
    number.load(Acquire)
}
