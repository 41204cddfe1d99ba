//! Stopping a run (Ctrl-Z, SIGTSTP) with its programs, which have process groups of their own: the
//! terminal sends those no signal.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Whether a SIGTSTP has come that was not heeded yet.
static ASKED: AtomicBool = AtomicBool::new(false);
/// How long this program was stopped so far, in nanoseconds.
static STOPPED_NS: AtomicU64 = AtomicU64::new(0);
/// The number of runs that heed the signal, and its disposition before the first of them.
static HEEDED: Mutex<Heeded> = Mutex::new(Heeded { runs: 0, before: libc::SIG_DFL });

struct Heeded {
    runs: usize,
    before: libc::sighandler_t,
}

extern "C" fn ask(_signal: libc::c_int) {
    ASKED.store(true, Ordering::Relaxed);
}

/// While this lives, SIGTSTP does not stop the program by itself, and [`is_asked`] reports it.
#[derive(Debug)]
pub(crate) struct Suspension(());

impl Suspension {
    /// Catches the signal, unless it is ignored, as in a shell without job control.
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
            // A signal that came after the run's last look still has to stop this program.
            if is_asked() {
                raise(libc::SIGTSTP);
            }
        }
    }
}

/// Whether the signal has come since the last call.
pub(crate) fn is_asked() -> bool {
    ASKED.swap(false, Ordering::Relaxed)
}

/// Stops this program, as the signal does by default. Returns when it is continued, or at once in
/// an orphaned process group, which the system does not stop.
pub(crate) fn stop() {
    let began = Instant::now();
    let handler = set(libc::SIGTSTP, libc::SIG_DFL);
    // raise(3) returns after the signal has been delivered to this thread.
    raise(libc::SIGTSTP);
    set(libc::SIGTSTP, handler);
    let stopped = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    STOPPED_NS.fetch_add(stopped, Ordering::Relaxed);
}

/// The clock for time limits, which stands still while this program is stopped.
pub(crate) fn now() -> Instant {
    let now = Instant::now();
    let stopped = Duration::from_nanos(STOPPED_NS.load(Ordering::Relaxed));
    now.checked_sub(stopped).unwrap_or(now)
}

fn set(signal: libc::c_int, handler: libc::sighandler_t) -> libc::sighandler_t {
    // SAFETY: the handlers are the system's, and `ask`, which only stores a flag.
    unsafe { libc::signal(signal, handler) }
}

fn raise(signal: libc::c_int) {
    // SAFETY: raise(3) takes a number and touches no memory of ours.
    unsafe { libc::raise(signal) };
}
