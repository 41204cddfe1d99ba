//! Time.
#![allow(unsafe_code, reason = "the system's clock")]

use std::ptr;

/// `CLOCK_MONOTONIC` in nanoseconds.
pub fn now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills the structure that it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Has the thread sleep for as short a time as the system can, or until a signal comes. The plain
/// system call is no cancellation point of the thread.
pub fn nap() {
    let moment = libc::timespec { tv_sec: 0, tv_nsec: 1 };
    let unslept = ptr::null_mut::<libc::timespec>();
    // SAFETY: the call reads a valid time, and writes nothing.
    unsafe { libc::syscall(libc::SYS_nanosleep, &raw const moment, unslept) };
}
