//! Which recording of the fabric is under way: the words by which the daemon tells programs, without a
//! lock. The same word says whether a program with a sanitizer wants to know what others do.
#![allow(unreachable_pub, reason = "the loom models are another crate")]

use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::atomic::{AtomicU32, AtomicU64};

/// The bit of the word that a program has set which wants to know.
const WATCHED: u32 = 1 << 31;

/// Begins the recording with a number, which is not 0: of so many bytes, and of what a number says.
pub fn begin(
    (number, limit, scope): (&AtomicU32, &AtomicU64, &AtomicU32),
    (new, bytes, what): (u32, u64, u32),
) {
    limit.store(bytes, Relaxed);
    scope.store(what, Relaxed);
    set(number, new);
}

/// The recording is over.
pub fn end(number: &AtomicU32) {
    set(number, 0);
}

fn set(number: &AtomicU32, new: u32) {
    let with = |old: u32| Some(old & WATCHED | new);
    // It never gives up.
    let _ = number.fetch_update(Release, Relaxed, with);
}

/// A program wants to know what others do to its memory.
pub fn watch(number: &AtomicU32) {
    number.fetch_or(WATCHED, Release);
}

/// Whether a program has said so.
#[inline]
pub fn is_watched(number: &AtomicU32) -> bool {
    number.load(Acquire) & WATCHED != 0
}

/// Whether somebody records, or wants to know.
#[inline]
pub fn is_any(number: &AtomicU32) -> bool {
    number.load(Acquire) != 0
}

/// The number of the recording, 0 if there is none. Who sees it sees what has been said of it before: a
/// processor such as an arm64 may read the other words early, unless this one acquires.
#[inline]
pub fn number(number: &AtomicU32) -> u32 {
    number.load(Acquire) & !WATCHED
}
