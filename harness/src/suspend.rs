//! A run that its user stops (Ctrl-Z, SIGTSTP): its programs have process groups of their own, to which the
//! terminal sends nothing.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Whether somebody wants this program to stop.
static ASKED: AtomicBool = AtomicBool::new(false);
/// How long it was stopped so far, in nanoseconds.
static STOPPED_NS: AtomicU64 = AtomicU64::new(0);
/// The runs that look at it, and what was to happen before the first of them.
static HEEDED: Mutex<Heeded> = Mutex::new(Heeded { runs: 0, before: libc::SIG_DFL });

struct Heeded {
    runs: usize,
    before: libc::sighandler_t,
}

extern "C" fn ask(_signal: libc::c_int) {
    ASKED.store(true, Ordering::Relaxed);
}

/// As long as this lives, [`is_asked`] tells of the signal, and the program does not stop by itself.
#[derive(Debug)]
pub(crate) struct Suspension(());

impl Suspension {
    /// Takes the signal, unless it is ignored, as in a shell without job control.
    pub(crate) fn heed() -> Self {
        let mut heeded = HEEDED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if heeded.runs == 0 {
            heeded.before =
                set(libc::SIGTSTP, ask as extern "C" fn(libc::c_int) as libc::sighandler_t);
            if heeded.before == libc::SIG_IGN {
                set(libc::SIGTSTP, libc::SIG_IGN);
            }
        }
        heeded.runs += 1;
        Self(())
    }
}

impl Drop for Suspension {
    fn drop(&mut self) {
        let mut heeded = HEEDED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        heeded.runs -= 1;
        if heeded.runs == 0 {
            set(libc::SIGTSTP, heeded.before);
            // It came too late for the run, and not for this program.
            if is_asked() {
                raise(libc::SIGTSTP);
            }
        }
    }
}

/// Whether the signal has come since this was asked last.
pub(crate) fn is_asked() -> bool {
    ASKED.swap(false, Ordering::Relaxed)
}

/// Stops this program, as the signal does by default. Returns when it goes on, or at once where nobody could have it
/// go on (an orphaned process group).
pub(crate) fn stop() {
    let began = Instant::now();
    let handler = set(libc::SIGTSTP, libc::SIG_DFL);
    // A signal to this thread is there before the call returns.
    raise(libc::SIGTSTP);
    set(libc::SIGTSTP, handler);
    let stopped = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    STOPPED_NS.fetch_add(stopped, Ordering::Relaxed);
}

/// The time for limits: it stands still while this program is stopped.
pub(crate) fn now() -> Instant {
    let now = Instant::now();
    let stopped = Duration::from_nanos(STOPPED_NS.load(Ordering::Relaxed));
    now.checked_sub(stopped).unwrap_or(now)
}

fn set(signal: libc::c_int, handler: libc::sighandler_t) -> libc::sighandler_t {
    // SAFETY: the handlers are the system's, and one that stores a flag and nothing else.
    unsafe { libc::signal(signal, handler) }
}

fn raise(signal: libc::c_int) {
    // SAFETY: raise(3) takes a number and touches no memory of ours.
    unsafe { libc::raise(signal) };
}
