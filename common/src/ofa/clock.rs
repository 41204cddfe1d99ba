//! Elapsed time and processor time of a run.

use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use crate::errno;

/// Processor time that the process has used so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// In its own code (C: `ru_utime`).
    pub user: Duration,
    /// In the kernel (C: `ru_stime`).
    pub kernel: Duration,
}

/// Now. C reads the clock of the day, which may be set while a run lasts; this one cannot.
pub fn our_get_current_time() -> Instant {
    Instant::now()
}

/// The process's own processor time, `getrusage(RUSAGE_SELF)`.
pub fn our_get_current_usage() -> Usage {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the call fills the structure that it is given.
    if unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) } < 0 {
        errno::perror("getrusage");
    }
    // SAFETY: plain integers, zeroed above or filled by the call.
    let usage = unsafe { usage.assume_init() };
    let duration = |t: libc::timeval| {
        Duration::from_secs(t.tv_sec.unsigned_abs())
            + Duration::from_micros(t.tv_usec.unsigned_abs())
    };
    Usage { user: duration(usage.ru_utime), kernel: duration(usage.ru_stime) }
}

/// Processor time used between two readings.
pub fn our_get_elapsed_usage(start: &Usage, stop: &Usage) -> Usage {
    Usage {
        user: stop.user.saturating_sub(start.user),
        kernel: stop.kernel.saturating_sub(start.kernel),
    }
}

/// `part` in percent of `base`; 0 if `base` is 0.
pub fn our_percentage_time(base: Duration, part: Duration) -> f64 {
    if base.is_zero() { 0.0 } else { 100.0 * part.as_secs_f64() / base.as_secs_f64() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages() {
        assert_eq!(our_percentage_time(Duration::ZERO, Duration::from_secs(1)), 0.0);
        let percent = our_percentage_time(Duration::from_secs(4), Duration::from_secs(1));
        assert!((percent - 25.0).abs() < 1e-9);
    }

    #[test]
    fn usage_grows() {
        let start = our_get_current_usage();
        let begun = Instant::now();
        let used = loop {
            let used = our_get_elapsed_usage(&start, &our_get_current_usage());
            if used.user + used.kernel > Duration::ZERO || begun.elapsed().as_secs() > 30 {
                break used;
            }
        };
        assert!(used.user + used.kernel > Duration::ZERO);
    }
}
