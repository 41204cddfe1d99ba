//! Which recording of the fabric is under way: the words by which the daemon tells programs, without a
//! lock.
#![allow(unreachable_pub, reason = "the loom models are another crate")]

use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::atomic::{AtomicU32, AtomicU64};

/// Begins the recording with a number, which is not 0: of so many bytes, and of all that happens or of
/// failures only.
pub fn begin(
    (number, limit, failures): (&AtomicU32, &AtomicU64, &AtomicU32),
    (new, bytes, only_failures): (u32, u64, bool),
) {
    limit.store(bytes, Relaxed);
    failures.store(only_failures.into(), Relaxed);
    number.store(new, Release);
}

/// The number of the recording, 0 if there is none. Who sees it sees what has been said of it before: a
/// processor such as an arm64 may read the other words early, unless this one acquires.
#[inline]
pub fn number(number: &AtomicU32) -> u32 {
    number.load(Acquire)
}
