//! The terminal of a program that has a process group of its own: it may read from there only in the foreground, and
//! a read stops it elsewhere (SIGTTIN).
#![allow(unsafe_code, reason = "what a program does before it begins, and signal masks")]

use std::mem;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;

/// The foreground of the terminal, which a program has until this goes.
pub(super) struct Foreground(());

/// Has a program begin in the foreground, if this process is there.
pub(super) fn lend(program: &mut Command) -> Option<Foreground> {
    // SAFETY: asks for the numbers of process groups; there is none if standard input is no terminal.
    let is_in_front = unsafe { libc::tcgetpgrp(libc::STDIN_FILENO) == libc::getpgrp() };
    is_in_front.then(|| {
        let begin = || {
            put_in_front();
            Ok(())
        };
        // SAFETY: it calls only what may be called in a child of fork.
        unsafe { program.pre_exec(begin) };
        Foreground(())
    })
}

impl Drop for Foreground {
    fn drop(&mut self) {
        put_in_front();
    }
}

/// Puts the caller's process group into the foreground. That fails if the terminal has gone, and then it is of no use.
fn put_in_front() {
    // SAFETY: sets of signals are plain data, and are initialised before they are used. In the background the call is
    // allowed to a thread that blocks SIGTTOU.
    unsafe {
        let (mut blocked, mut before): (libc::sigset_t, libc::sigset_t) = mem::zeroed();
        libc::sigemptyset(&raw mut blocked);
        libc::sigaddset(&raw mut blocked, libc::SIGTTOU);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const blocked, &raw mut before);
        libc::tcsetpgrp(libc::STDIN_FILENO, libc::getpgrp());
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());
    }
}
