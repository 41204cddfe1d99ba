//! Threads that get none of a program's signals.
#![allow(unsafe_code, reason = "masks of signals")]

use std::mem::MaybeUninit;
use std::ptr;

/// Does something, such as starting a thread, with all signals blocked.
pub(super) fn while_blocked<T>(work: impl FnOnce() -> T) -> T {
    let mut all = MaybeUninit::<libc::sigset_t>::zeroed();
    let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the call writes the set, which is as large as it has to be.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: both sets live through the call, which changes nothing but this thread's mask.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) };
    let done = work();
    // SAFETY: the set lives through the call, which has been filled with this thread's mask from before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    done
}
