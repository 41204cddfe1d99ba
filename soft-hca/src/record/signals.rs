//! Signals that are meant for the program that is recorded, or end a recording.
#![allow(unsafe_code, reason = "handlers of signals")]

use std::io;
use std::mem::MaybeUninit;
use std::process::Child;
use std::ptr;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

/// How long a program has to end by itself.
const TIME_TO_END: Duration = Duration::from_secs(1);

/// Signals that end a process that does not handle them (signal(7)), without those of a process's own
/// faults, and without real-time signals, which are all of this kind.
const ENDING: [libc::c_int; 17] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGSYS,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGPIPE,
    libc::SIGALRM,
    libc::SIGTERM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGIO,
    libc::SIGPWR,
    libc::SIGXCPU,
    libc::SIGXFSZ,
];

/// Signals that do nothing to a process that does not heed them, and the one that a shell stops its jobs by. Those that
/// stop a process which uses the terminal in the background stay as they are: the kernel sends them until it stops.
const OTHERS: [libc::c_int; 4] = [libc::SIGCONT, libc::SIGURG, libc::SIGWINCH, libc::SIGTSTP];

/// Signals that a terminal sends to its whole foreground process group (termios(3)).
const OF_TERMINAL: [libc::c_int; 4] = [libc::SIGINT, libc::SIGQUIT, libc::SIGTSTP, libc::SIGWINCH];

/// The signals that have come, a bit each: from processes, and from the kernel.
static TAKEN: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// A signal that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signal {
    number: libc::c_int,
    /// A terminal has sent it to the process group.
    is_of_terminal: bool,
}

impl Signal {
    /// Whether it ends a recording that has no program.
    pub(super) fn ends(self) -> bool {
        ENDING.contains(&self.number) || self.number > libc::SIGSYS
    }

    /// Sends it to a child that was not waited for yet. A child in the same process group has got the terminal's
    /// signals already; a child with a group of its own gets it with the whole group.
    pub(crate) fn pass_on(self, child: u32, is_apart: bool) {
        if is_apart || !self.is_of_terminal {
            send(child, self.number, is_apart);
        }
    }

    /// Stops this process if the signal is SIGTSTP: the shell sees that its job has stopped.
    pub(crate) fn obey(self) {
        if self.number == libc::SIGTSTP {
            // SAFETY: the signal is sent to this thread, and without a handler it stops the process.
            unsafe {
                libc::signal(self.number, libc::SIG_DFL);
                libc::raise(self.number);
            }
            handle(self.number);
        }
    }
}

extern "C" fn take(number: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO what it knows of the signal; all of its kinds have the
    // code, and those of kill(2) the sender.
    let (code, sender) = unsafe { ((*info).si_code, (*info).si_pid()) };
    // SAFETY: reads a number, also in handlers (signal-safety(7)).
    let is_own = code <= 0 && sender == unsafe { libc::getpid() };
    // Writing to a pipe that nobody reads, or beyond the limit, raises one as if this process had sent it.
    if !is_own {
        TAKEN[usize::from(code > 0)].fetch_or(1 << (number - 1), Relaxed);
    }
}

/// Handles signals, so that [`taken`] gives them. Programs that are started get them as usual; both ignore the signals
/// that this process was started to ignore, as by nohup(1).
pub(crate) fn heed() {
    let all = ENDING.into_iter().chain(OTHERS).chain(libc::SIGRTMIN()..=libc::SIGRTMAX());
    // Rust's runtime ignores SIGPIPE for itself only.
    all.filter(|number| *number == libc::SIGPIPE || !is_ignored(*number)).for_each(handle);
}

fn is_ignored(number: libc::c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the action is written to; one of zeros is valid.
    unsafe {
        libc::sigaction(number, ptr::null(), action.as_mut_ptr());
        action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

fn handle(number: libc::c_int) {
    // SAFETY: all zeros are an action with no flags and an empty mask.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = take as extern "C" fn(_, _, _) as libc::sighandler_t;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
    // SAFETY: the handler stores a number, and nothing else.
    unsafe { libc::sigaction(number, &raw const action, ptr::null_mut()) };
}

/// The signals that have come since this was asked last.
pub(crate) fn taken() -> Vec<Signal> {
    let taken = TAKEN.each_ref().map(|signals| signals.swap(0, Relaxed));
    let all = (1..=64).filter(|number| (taken[0] | taken[1]) >> (number - 1) & 1 != 0);
    let signal = |number| {
        let is_of_process = taken[0] >> (number - 1) & 1 != 0;
        Signal { number, is_of_terminal: !is_of_process && OF_TERMINAL.contains(&number) }
    };
    all.map(signal).collect()
}

fn send(child: u32, signal: libc::c_int, to_group: bool) {
    let id = child as libc::pid_t;
    // SAFETY: our own child, which has not been waited for, or the group that it leads.
    unsafe { libc::kill(if to_group { -id } else { id }, signal) };
}

/// Ends a program and its process group, and waits for it.
pub(super) fn end_group(child: &mut Child) -> io::Result<()> {
    send(child.id(), libc::SIGTERM, true);
    let until = Instant::now() + TIME_TO_END;
    while child.try_wait()?.is_none() {
        if Instant::now() >= until {
            send(child.id(), libc::SIGKILL, true);
            child.wait()?;
            return Ok(());
        }
        thread::sleep(Duration::from_millis(10));
    }
    // Others of the group may be left.
    send(child.id(), libc::SIGKILL, true);
    Ok(())
}
