//! Signals that end a recording.
#![allow(unsafe_code, reason = "handlers of signals")]

use std::io;
use std::process::Child;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

/// How long a program has to end by itself.
const TIME_TO_END: Duration = Duration::from_secs(1);

/// The last one that has come, or 0.
static TAKEN: AtomicI32 = AtomicI32::new(0);

extern "C" fn take(signal: libc::c_int) {
    TAKEN.store(signal, Relaxed);
}

/// Signals end nothing by themselves from now on. Programs that are started get them as usual.
pub(crate) fn heed() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let handler = take as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // SAFETY: the handler stores a number, and nothing else.
        unsafe { libc::signal(signal, handler) };
    }
}

/// A signal that has come since this was asked last.
pub(crate) fn taken() -> Option<i32> {
    Some(TAKEN.swap(0, Relaxed)).filter(|signal| *signal != 0)
}

/// Gives a signal to the program. One that a terminal sends it has got already, unless it has a process
/// group of its own, all of which gets it then.
pub(super) fn pass_on(child: &Child, signal: i32, is_apart: bool) {
    if is_apart || signal != libc::SIGINT {
        send(child, signal, is_apart);
    }
}

fn send(child: &Child, signal: i32, to_group: bool) {
    let id = child.id() as libc::pid_t;
    // SAFETY: our own child, which has not been waited for, or the group that it leads.
    unsafe { libc::kill(if to_group { -id } else { id }, signal) };
}

/// Ends a program and its process group, and waits for it.
pub(super) fn end_group(child: &mut Child) -> io::Result<()> {
    send(child, libc::SIGTERM, true);
    let until = Instant::now() + TIME_TO_END;
    while child.try_wait()?.is_none() {
        if Instant::now() >= until {
            send(child, libc::SIGKILL, true);
            child.wait()?;
            return Ok(());
        }
        thread::sleep(Duration::from_millis(10));
    }
    // Others of the group may be left.
    send(child, libc::SIGKILL, true);
    Ok(())
}
