//! Sleeping until a word of the arena changes.
#![allow(unsafe_code, reason = "futexes")]

use std::io;
use std::ptr;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use crate::system;

/// Sleeps while the word has this value, so long at most; it may also return for no reason. False if a signal has interrupted
/// that. The system call itself is no point at which a thread may be cancelled.
pub(super) fn wait(word: &AtomicU32, value: u32, limit: Option<Duration>) -> bool {
    let limit = limit.map(system::timespec);
    let limit = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the word is aligned and lives as long as the borrow; the limit is a valid time or
    // null.
    let waited =
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, limit) };
    waited == 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted
}

/// Wakes whoever sleeps on the word, in any process.
pub(super) fn wake(word: &AtomicU32) {
    // SAFETY: the call uses the word's address to find sleepers, and neither reads nor writes it.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, libc::c_int::MAX) };
}
