//! Signals that stop a process, let it go on, or tell it something.
#![allow(unsafe_code, reason = "signals for a child")]

use crate::program::Program;

/// SIGSTOP; comes back when no thread of the program runs any more.
pub fn stop(program: &Program) {
    let pid = program.pid();
    // SAFETY: a signal for a child of ours, which nobody has waited for.
    assert_eq!(unsafe { libc::kill(pid as libc::pid_t, libc::SIGSTOP) }, 0);
    let mut info = std::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
    let what = libc::WSTOPPED | libc::WEXITED | libc::WNOWAIT;
    // SAFETY: the call fills the structure; the child's status is left for whoever waits for it.
    let error = unsafe { libc::waitid(libc::P_PID, pid, info.as_mut_ptr(), what) };
    assert_eq!(error, 0, "{}", std::io::Error::last_os_error());
}

/// SIGCONT
pub fn go_on(program: &Program) {
    // SAFETY: as above.
    assert_eq!(unsafe { libc::kill(program.pid() as libc::pid_t, libc::SIGCONT) }, 0);
}

/// Sends SIGUSR1.
pub fn user(program: &Program) {
    // SAFETY: as above.
    assert_eq!(unsafe { libc::kill(program.pid() as libc::pid_t, libc::SIGUSR1) }, 0);
}

/// SIGINT, as by Ctrl-C.
pub fn interrupt(program: &Program) {
    // SAFETY: as above.
    assert_eq!(unsafe { libc::kill(program.pid() as libc::pid_t, libc::SIGINT) }, 0);
}
