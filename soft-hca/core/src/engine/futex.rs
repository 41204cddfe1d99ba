//! Sleeping until a word of the arena changes.
#![allow(unsafe_code, reason = "futexes")]

use std::ptr;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps while the word has this value, so long at most; it may also return for no reason. The
/// system call itself is no point at which a thread may be cancelled.
pub(super) fn wait(word: &AtomicU32, value: u32, limit: Option<Duration>) {
    let limit = limit.map(|limit| libc::timespec {
        tv_sec: limit.as_secs() as libc::time_t,
        tv_nsec: limit.subsec_nanos().into(),
    });
    let limit = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the word is aligned and lives as long as the borrow; the limit is a valid time or
    // null.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, limit) };
}

/// Wakes whoever sleeps on the word, in any process.
pub(super) fn wake(word: &AtomicU32) {
    // SAFETY: the call uses the word's address to find sleepers, and neither reads nor writes it.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, libc::c_int::MAX) };
}
