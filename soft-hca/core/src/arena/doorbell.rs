//! The doorbell of the link's thread: the words that who posts and the thread agree by, without a
//! lock.
#![allow(unreachable_pub, reason = "the loom models are another crate")]

use crate::sync::atomic::Ordering::SeqCst;
use crate::sync::seq_cst::{AtomicU32, AtomicU64};

/// Sets bits that name who has posted. Whether the thread is to be woken: one of all who ring does.
///
/// Either the thread, which says that it sleeps before it looks, sees these bits, or it is seen to
/// sleep here: both sides write, then read what the other writes, and there is one order of all
/// that.
#[inline]
pub fn set(doorbells: &AtomicU64, bits: u64, sleeps: &AtomicU32) -> bool {
    doorbells.fetch_or(bits, SeqCst);
    is_to_wake(sleeps)
}

/// Whether the thread sleeps, and the caller is to wake it.
#[inline]
pub fn is_to_wake(sleeps: &AtomicU32) -> bool {
    sleeps.load(SeqCst) != 0 && sleeps.swap(0, SeqCst) != 0
}

/// Whether any doorbell is set.
#[inline]
pub fn is_set(doorbells: &AtomicU64) -> bool {
    doorbells.load(SeqCst) != 0
}

/// Takes the bits of all that are set.
#[inline]
pub fn take(doorbells: &AtomicU64) -> u64 {
    if is_set(doorbells) { doorbells.swap(0, SeqCst) } else { 0 }
}

/// The thread is about to sleep, and is woken from now on; it may not if `has_work` then finds
/// some. See [`set`].
#[inline]
pub fn may_sleep(sleeps: &AtomicU32, has_work: impl FnOnce() -> bool) -> bool {
    sleeps.store(1, SeqCst);
    !has_work()
}

/// The thread is awake.
#[inline]
pub fn wake_up(sleeps: &AtomicU32) {
    sleeps.store(0, SeqCst);
}
