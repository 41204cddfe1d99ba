//! Sees each program that a command runs, as it begins and right before its process ends (ptrace(2)).
//!
//! So those are seen, too, that nothing is preloaded into, and those that are killed. A process is traced from
//! its first instruction on, and stops only for what [`Seen`] is told.
#![allow(unsafe_code, reason = "ptrace and waitpid")]

use std::ffi::c_void;
use std::fs;
use std::io;
use std::ptr;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use crate::record::signals;

/// How often it is looked for a signal that is to be passed on.
const PERIOD: Duration = Duration::from_millis(20);

/// Events that stop a process. Children inherit the options.
const OPTIONS: libc::c_int = libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACEEXIT;

/// An observer of programs. A process is stopped meanwhile.
pub(super) trait Seen {
    /// A process has become another program.
    fn begins(&mut self, pid: u32);
    /// A process is about to end: its memory and its files are still there.
    fn ends(&mut self, pid: u32);
}

/// Traces a process that has stopped itself, or is about to, and all that it starts, until it has ended. Gives
/// its exit status, as a shell has it. Those that it leaves behind go on by themselves.
///
/// The process is a child of this one that nobody else waits for.
pub(super) fn trace(pid: u32, seen: &mut impl Seen) -> io::Result<u8> {
    let child = pid as libc::pid_t;
    wait_for_stop(child)?;
    call(libc::PTRACE_SEIZE, child, OPTIONS)?;
    // SAFETY: a child that nobody has waited for.
    unsafe { libc::kill(child, libc::SIGCONT) };
    signals::heed();
    let (end, ended) = channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            while ended.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                // It is waited for last of all that happens here.
                for signal in signals::taken() {
                    signal.pass_on(pid, false);
                    signal.obey();
                }
            }
        });
        let status = follow(child, seen);
        drop(end);
        status
    })
}

/// Waits until a child has stopped.
fn wait_for_stop(child: libc::pid_t) -> io::Result<()> {
    let mut status = 0;
    // SAFETY: `status` outlives the call, which writes to it.
    let waited = unsafe { libc::waitpid(child, &raw mut status, libc::WUNTRACED) };
    if waited < 0 {
        return Err(io::Error::last_os_error());
    }
    if libc::WIFSTOPPED(status) {
        return Ok(());
    }
    Err(io::Error::other("it has ended before it could begin"))
}

/// Lets processes go on, until the first one has ended.
fn follow(child: libc::pid_t, seen: &mut impl Seen) -> io::Result<u8> {
    loop {
        let mut status = 0;
        // SAFETY: `status` outlives the call, which writes to it.
        let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL) };
        if pid < 0 {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return Err(error);
        }
        if libc::WIFSTOPPED(status) {
            go_on(pid, status, seen);
        } else if pid == child {
            let is_exit = libc::WIFEXITED(status);
            let number =
                if is_exit { libc::WEXITSTATUS(status) } else { 128 + libc::WTERMSIG(status) };
            return Ok(number as u8);
        }
    }
}

/// Tells what a stopped process has stopped for, and lets it go on. One that was killed meanwhile does not mind.
fn go_on(pid: libc::pid_t, status: libc::c_int, seen: &mut impl Seen) {
    let signal = libc::WSTOPSIG(status);
    let event = status >> 16;
    match event {
        libc::PTRACE_EVENT_EXEC => seen.begins(pid as u32),
        libc::PTRACE_EVENT_EXIT if is_process(pid) => seen.ends(pid as u32),
        _ => {}
    }
    let stops = [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
    let _ = match event {
        // Stopped as without anybody who looks: until SIGCONT.
        libc::PTRACE_EVENT_STOP if stops.contains(&signal) => call(libc::PTRACE_LISTEN, pid, 0),
        0 => call(libc::PTRACE_CONT, pid, signal),
        _ => call(libc::PTRACE_CONT, pid, 0),
    };
}

/// Whether a number is that of a process, rather than of a thread beside its first one.
fn is_process(pid: libc::pid_t) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let group = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    group.is_some_and(|group| group.trim().parse() == Ok(pid))
}

fn call(request: libc::c_uint, pid: libc::pid_t, data: libc::c_int) -> io::Result<()> {
    // SAFETY: none of these requests has to do with an address.
    let ret = unsafe {
        libc::ptrace(request, pid, ptr::null_mut::<c_void>(), data as usize as *mut c_void)
    };
    if ret < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Stops this process until its parent traces it.
pub(super) fn stop() {
    // SAFETY: the call sends a signal to this process and takes no memory of it.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// Ends a child that could not be traced, and waits for it.
pub(super) fn kill(pid: u32) {
    let pid = pid as libc::pid_t;
    // SAFETY: a child of this process; if somebody has waited for it, there is no such child.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, ptr::null_mut(), 0);
    }
}
