//! Sets of `epoll` that have completion channels in them.
//!
//! A set stays marked until `close(2)`, though its channels may have left it, or its descriptor was closed by another call:
//! the waits of such a descriptor cost a little more.

use std::os::fd::RawFd;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::memory_owner;

/// Descriptors below this are known.
const KNOWN: usize = 65536;

static SETS: [AtomicU64; KNOWN / 64] = [const { AtomicU64::new(0) }; KNOWN / 64];

/// The word of a descriptor, and its bit there.
fn place(set: RawFd) -> Option<(&'static AtomicU64, u64)> {
    let set = usize::try_from(set).ok()?;
    Some((SETS.get(set / 64)?, 1 << (set % 64)))
}

/// A completion channel has come to a set.
pub(crate) fn has_channel(set: RawFd) {
    if let Some((word, bit)) = place(set) {
        word.fetch_or(bit, Release);
    }
}

/// Whether a descriptor is a set with completion channels.
pub(crate) fn is_set_with_channels(fd: RawFd) -> bool {
    place(fd).is_some_and(|(word, bit)| word.load(Acquire) & bit != 0)
}

/// A descriptor is about to be closed. A signal handler may call this.
pub fn closes_set(fd: RawFd) {
    if let Some((word, bit)) = place(fd).filter(|(word, bit)| word.load(Relaxed) & bit != 0) {
        // A child of `vfork` has this memory, and descriptors of its own.
        if !memory_owner::borrowed() {
            word.fetch_and(!bit, Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marked_until_closed() {
        const SET: RawFd = 4711;
        let is_marked = || is_set_with_channels(SET);
        assert!(!is_marked());
        has_channel(SET);
        assert!(is_marked() && !is_set_with_channels(SET + 1));
        closes_set(SET);
        assert!(!is_marked());
    }

    #[test]
    fn numbers_beyond_the_table_are_no_sets() {
        for fd in [-1, KNOWN as RawFd] {
            has_channel(fd);
            closes_set(fd);
            assert!(!is_set_with_channels(fd));
        }
    }
}
