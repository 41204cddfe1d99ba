//! How far a queue is: requests that are given back to the program.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Release;

use crate::ring::Ring;

/// Gives the slots before `index` back to the program. This comes before their completion: who
/// polls it may post again at once, and finds room.
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
