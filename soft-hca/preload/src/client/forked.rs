//! Children of `fork`, while all is recorded: what they do with what is their parent's, and whether they have
//! its memory still when the parent goes on.
//!
//! A child has the writing end of a pipe whose reading end the parent has. The system closes it when the
//! child ends, or becomes another program.
#![allow(unsafe_code, reason = "a function of the program's library")]

use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};

use soft_hca_core::system::{self, Next};
use soft_hca_core::trace::{About, event};

use crate::client::of_process::OfProcess;
use crate::client::process::{self, Process};
use crate::client::site;

/// A child that the parent has not been told of.
struct Child {
    /// Its descriptor hangs up when nobody has the parent's memory any more.
    alive: OwnedFd,
    /// When and where `fork` was called.
    about: About,
    /// `enum ibv_fork_status`
    status: u32,
}

static CHILDREN: OfProcess<Vec<Child>> = OfProcess::new();
/// Whether there are any.
static ARE_THERE: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Both ends of the pipe of a child that this thread is about to make.
    static PIPE: Cell<Option<(OwnedFd, OwnedFd)>> = const { Cell::new(None) };
}

/// Runs in a process that is about to fork.
pub(super) fn prepare() {
    if process::recorded().is_some() {
        let pipe = system::pipe().map(|(alive, end)| (system::hide(alive), system::hide(end)));
        let _ = PIPE.try_with(|known| known.set(pipe.ok()));
    }
}

/// Runs in the parent after a fork.
pub(super) fn parent() {
    let pipe = PIPE.try_with(Cell::take).ok().flatten();
    let (Some((alive, _)), Some(process), Some(status)) = (pipe, process::recorded(), status())
    else {
        return;
    };
    let recorder = &process.env.recorder;
    let about = About { site: site::of_fork(process), ..recorder.about(recorder.index()) };
    CHILDREN.lock().push(Child { alive, about, status });
    ARE_THERE.store(true, Release);
}

/// Runs in the child after a fork.
pub(super) fn child() {
    // The end that is left is closed with the process.
    if let Some((_, end)) = PIPE.try_with(Cell::take).ok().flatten() {
        std::mem::forget(end);
    }
}

/// `ibv_is_fork_initialized`; `None` where the program's library has no such function.
fn status() -> Option<u32> {
    static NEXT: Next = Next::of(c"ibv_is_fork_initialized", c"libibverbs.so.1");
    let address = NEXT.address();
    if address.is_null() {
        return None;
    }
    type Function = unsafe extern "C-unwind" fn() -> c_int;
    // SAFETY: the symbol is this function of the library.
    let function = unsafe { std::mem::transmute::<*mut c_void, Function>(address) };
    // SAFETY: may be called at any time.
    Some(unsafe { function() } as u32)
}

/// This process, if all that it does is recorded. It is about to do something with what it has of a device by a
/// function with this name; a child of a recorded process is seen to do so.
#[inline]
pub(super) fn recorded_at(function: &'static CStr) -> Option<&'static Process> {
    let process = process::last().filter(|process| process.is_recorded())?;
    if process.is_current() {
        goes_on(process);
        return Some(process);
    }
    in_child(process, function);
    None
}

/// The process goes on with what it has of a device. Of each child that has its memory still, that is told
/// once.
#[inline]
pub(super) fn goes_on(process: &Process) {
    if ARE_THERE.load(Acquire) {
        tell(process);
    }
}

#[cold]
fn tell(process: &Process) {
    let mut children = CHILDREN.lock();
    let recorder = &process.env.recorder;
    for Child { alive, about, status } in children.drain(..) {
        if !is_hung_up(&alive) {
            let duration = system::now_ns().saturating_sub(about.t);
            recorder.append(about, &event::Forked { duration, status }.into(), &[]);
        }
    }
    ARE_THERE.store(false, Release);
}

fn is_hung_up(pipe: &OwnedFd) -> bool {
    let mut found = libc::pollfd { fd: pipe.as_raw_fd(), events: 0, revents: 0 };
    // SAFETY: looks at one descriptor, and does not wait.
    unsafe { libc::poll(&raw mut found, 1, 0) != 0 }
}

/// The calling process is a child of one that is recorded, and goes on with what is its parent's: of each
/// function that is told once.
#[cold]
fn in_child(process: &Process, function: &'static CStr) {
    /// Functions that were told.
    static TOLD: [AtomicUsize; 8] = [const { AtomicUsize::new(0) }; 8];
    let name = function.as_ptr() as usize;
    let claim = |told: &AtomicUsize| told.compare_exchange(0, name, AcqRel, Acquire);
    // The place of the next one holds nothing, this one, or another one.
    match TOLD.iter().map(claim).find(|before| !matches!(before, Err(other) if *other != name)) {
        Some(Ok(_)) => {}
        _ => return,
    }
    let recorder = &process.env.recorder;
    let site = site::of_inline_from_elsewhere(process, function);
    let about = About { site, ..recorder.about(recorder.index()) };
    let pid = std::process::id();
    recorder.append(about, &event::InChild { pid }.into(), &[function.to_bytes()]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_hangs_up_when_nobody_has_its_end() {
        let (alive, end) = system::pipe().unwrap();
        assert!(!is_hung_up(&alive));
        drop(end);
        assert!(is_hung_up(&alive));
    }
}
