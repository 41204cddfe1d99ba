//! The short way from a doorbell to the queue pair: one word for a descriptor and a handle, and no
//! lock. Locked instructions, and memory that the payload has driven out of the caches, are most of
//! what a doorbell costs beside the copying itself.
//!
//! Doorbells that are not found here go the long way, through the tables of descriptors and of queue pairs.

use std::os::fd::RawFd;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};

use soft_hca_core::uapi::uverbs::request::PostSend;
use soft_hca_core::uapi::uverbs::{Command, command};

/// Queue pairs that are known, by the low bits of their handles.
const ENTRIES: usize = 4096;

/// Descriptor, handle and number of a queue pair in a word, or 0.
static KNOWN: [AtomicU64; ENTRIES] = [const { AtomicU64::new(0) }; ENTRIES];

const HANDLE_BITS: u32 = 24;
const QPN_BITS: u32 = 24;

fn entry(handle: u32) -> &'static AtomicU64 {
    &KNOWN[handle as usize % ENTRIES]
}

/// The name of a queue pair in a word, beside its number; `None` if it is too large for that.
fn name(fd: RawFd, handle: u32) -> Option<u64> {
    let fd = u16::try_from(fd).ok()?;
    (handle >> HANDLE_BITS == 0).then(|| u64::from(fd) << HANDLE_BITS | u64::from(handle))
}

/// A queue pair was created through a descriptor.
pub(crate) fn remember(fd: RawFd, handle: u32, qpn: u32) {
    if let Some(name) = name(fd, handle) {
        if qpn >> QPN_BITS == 0 {
            entry(handle).store(name << QPN_BITS | u64::from(qpn), Release);
        }
    }
}

/// A queue pair is destroyed.
pub(crate) fn forget(handle: u32, qpn: u32) {
    let entry = entry(handle);
    if number(entry.load(Acquire)) == qpn {
        entry.store(0, Release);
    }
}

/// A descriptor is closed.
pub(crate) fn forget_all_of(fd: RawFd) {
    for entry in &KNOWN {
        if entry.load(Acquire) >> (QPN_BITS + HANDLE_BITS) == fd as u64 {
            entry.store(0, Release);
        }
    }
}

/// This is another process now: what it has inherited is not its own.
pub(crate) fn forget_all() {
    KNOWN.iter().for_each(|entry| entry.store(0, Release));
}

/// A queue pair's number, from its word.
fn number(word: u64) -> u32 {
    (word & ((1 << QPN_BITS) - 1)) as u32
}

/// The number of a queue pair that is known.
#[inline]
pub(crate) fn find(fd: RawFd, handle: u32) -> Option<u32> {
    let word = entry(handle).load(Acquire);
    (word != 0 && Some(word >> QPN_BITS) == name(fd, handle)).then(|| number(word))
}

/// The number of the queue pair whose doorbell it is that is written to a descriptor, if it
/// is known.
pub(crate) fn qpn_of(fd: RawFd, written: &[u8]) -> Option<u32> {
    let command = Command::parse(written).ok()?;
    if command.number != command::POST_SEND {
        return None;
    }
    find(fd, command.request::<PostSend>().ok()?.qp_handle)
}

#[cfg(test)]
mod tests {
    use super::*;

    // The table is one for all tests of this program: each has descriptors of its own.

    #[test]
    fn finds_what_it_was_told() {
        remember(50_001, 7, 0x11);
        assert_eq!(find(50_001, 7), Some(0x11));
        assert_eq!(find(50_002, 7), None);
        assert_eq!(find(50_001, 7 + ENTRIES as u32), None);
        forget(7, 0x12);
        assert_eq!(find(50_001, 7), Some(0x11));
        forget(7, 0x11);
        assert_eq!(find(50_001, 7), None);
    }

    #[test]
    fn forgets_a_descriptor() {
        remember(50_003, 8, 0x11);
        remember(50_004, 9, 0x12);
        forget_all_of(50_003);
        assert_eq!((find(50_003, 8), find(50_004, 9)), (None, Some(0x12)));
    }

    #[test]
    fn a_later_one_takes_the_place() {
        let second = 10 + ENTRIES as u32;
        remember(50_005, 10, 0x11);
        remember(50_005, second, 0x12);
        assert_eq!((find(50_005, 10), find(50_005, second)), (None, Some(0x12)));
    }

    #[test]
    fn what_does_not_fit_goes_the_long_way() {
        remember(70_000, 11, 0x11);
        remember(50_006, 11 | 1 << 24, 0x11);
        remember(-1, 11, 0x11);
        assert_eq!(find(70_000, 11), None);
        assert_eq!(find(50_006, 11 | 1 << 24), None);
        assert_eq!(find(-1, 11), None);
        // Nothing at all is no queue pair of descriptor 0.
        assert_eq!(find(0, 0), None);
    }
}
