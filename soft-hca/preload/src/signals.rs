//! `sigaction`, `signal` and their kin: a program's handlers for faults get those that are not this library's own.

use std::ffi::c_int;
use std::mem;
use std::ptr;

use soft_hca_core::engine;

use crate::real;

macro_rules! sigaction_functions {
    ($($name:ident)*) => { $(
        #[doc = concat!("`", stringify!($name), "(2)`")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction,
        ) -> c_int {
            // SAFETY: the caller keeps this function's contract, which is that of the C library's.
            unsafe { engine::set_action(signal, new, old) }
        }
    )* };
}

sigaction_functions!(sigaction __sigaction);

/// Sets a handler as `signal(3)` does with these flags, and returns the one before.
unsafe fn set(signal: c_int, handler: libc::sighandler_t, flags: c_int) -> libc::sighandler_t {
    // SAFETY: an action consists of numbers and pointers, for which zeros are good.
    let [mut new, mut old]: [libc::sigaction; 2] = unsafe { mem::zeroed() };
    new.sa_sigaction = handler;
    new.sa_flags = flags;
    // SAFETY: a complete action with the caller's handler.
    match unsafe { engine::set_action(signal, &raw const new, ptr::from_mut(&mut old)) } {
        0 => old.sa_sigaction,
        _ => libc::SIG_ERR,
    }
}

macro_rules! signal_functions {
    ($($name:ident => $real:ident, $flags:expr;)*) => { $(
        #[doc = concat!("`", stringify!($name), "(3)`")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            signal: c_int, handler: libc::sighandler_t,
        ) -> libc::sighandler_t {
            if engine::is_guarded_signal(signal) {
                // SAFETY: the caller keeps this function's contract, which is that of the C library's.
                return unsafe { set(signal, handler, $flags) };
            }
            // SAFETY: the caller keeps this function's contract, which is that of the C library's.
            unsafe { real::$real(signal, handler) }
        }
    )* };
}

/// The handler stays, and calls are restarted (`_BSD_SOURCE`).
const BSD: c_int = libc::SA_RESTART;
/// The handler is called once, and its own signal may interrupt it (`_XOPEN_SOURCE`).
const SYSV: c_int = libc::SA_RESETHAND | libc::SA_NODEFER;

signal_functions! {
    signal => signal, BSD;
    bsd_signal => signal, BSD;
    ssignal => signal, BSD;
    sysv_signal => __sysv_signal, SYSV;
    __sysv_signal => __sysv_signal, SYSV;
}
