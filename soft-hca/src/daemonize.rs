//! How a process becomes a daemon.
#![allow(unsafe_code, reason = "attributes of the process, and its copy")]

use std::io;

use soft_hca_core::system::check;

/// How late the daemon's timers may be, in nanoseconds; the system's own choice is 50,000.
const TIMER_SLACK_NS: libc::c_ulong = 1000;

/// Leaves the process that started this one behind: it becomes no child of it or of the program
/// that it turns into, which might wait for all its children. The terminal and everything else
/// that was inherited is left behind as well. Call it before anything else.
pub(super) fn become_daemon() -> io::Result<()> {
    // SAFETY: the process has but one thread, so that the child has all that it needs.
    if check(unsafe { libc::fork() })? > 0 {
        // SAFETY: the call ends the process, whose memory nobody uses after that.
        unsafe { libc::_exit(0) };
    }
    // SAFETY: the call changes an attribute of this process and takes no memory of it.
    unsafe { libc::setsid() };
    // SAFETY: the call changes an attribute of this process and takes no memory of it.
    unsafe { libc::umask(0o077) };
    // Waits of some tens of microseconds are not to become twice as long.
    // SAFETY: the call changes an attribute of this thread and takes no memory of it.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, TIMER_SLACK_NS) };
    open_many_files();
    // Kernels before 5.9 do not know the call; then the descriptors stay open, which harms nobody
    // but a reader of the other end of a pipe.
    // SAFETY: nobody in this process has opened a file yet.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
    Ok(())
}

/// Ports have a file open for each of their counters, and programs one for each completion channel.
/// The usual limit, 1024, is for programs that use `select(2)`.
fn open_many_files() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls use a structure that lives through them.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}
