//! Signals that end a recording.
#![allow(unsafe_code, reason = "handlers of signals")]

use std::process::Child;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::Relaxed;

/// The last one that has come, or 0.
static TAKEN: AtomicI32 = AtomicI32::new(0);

extern "C" fn take(signal: libc::c_int) {
    TAKEN.store(signal, Relaxed);
}

/// Signals end nothing by themselves from now on. Programs that are started get them as usual.
pub(super) fn heed() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let handler = take as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // SAFETY: the handler stores a number, and nothing else.
        unsafe { libc::signal(signal, handler) };
    }
}

/// A signal that has come since this was asked last.
pub(super) fn taken() -> Option<i32> {
    Some(TAKEN.swap(0, Relaxed)).filter(|signal| *signal != 0)
}

/// Gives a signal to the program. One that a terminal sends it has got already.
pub(super) fn pass_on(child: &Child, signal: i32) {
    if signal != libc::SIGINT {
        // SAFETY: our own child, which has not been waited for.
        unsafe { libc::kill(child.id() as libc::pid_t, signal) };
    }
}
