//! Event descriptors, as far as both sides use them.
#![allow(unsafe_code, reason = "a read that says by itself that it must not wait")]

use std::os::fd::RawFd;

/// Takes a token from an event descriptor in semaphore mode if there is one. Never waits: the
/// flags of the open file are those that a program has set.
pub fn take_token(fd: RawFd) -> bool {
    let mut token = 0u64;
    let part = libc::iovec { iov_base: (&raw mut token).cast(), iov_len: 8 };
    // SAFETY: one part of eight writable bytes.
    unsafe { libc::preadv2(fd, &part, 1, -1, libc::RWF_NOWAIT) == 8 }
}
