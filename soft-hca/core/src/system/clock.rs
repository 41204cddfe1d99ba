//! Time.
#![allow(unsafe_code, reason = "the system's clock")]

use std::time::Duration;

/// `CLOCK_MONOTONIC` in nanoseconds.
pub fn now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC).unwrap_or(0)
}

/// For how many nanoseconds the threads of a process have had a processor (`clock_getcpuclockid(3)`); none if there is no such
/// process.
pub fn processor_ns(pid: u32) -> Option<u64> {
    let mut clock = 0;
    // SAFETY: the call fills the number that it is given.
    let error = unsafe { libc::clock_getcpuclockid(pid.try_into().ok()?, &mut clock) };
    if error == 0 { clock_ns(clock) } else { None }
}

/// A clock's time in nanoseconds; none if there is no such clock.
pub fn clock_ns(clock: libc::clockid_t) -> Option<u64> {
    let mut now = timespec(Duration::ZERO);
    // SAFETY: the call fills the structure that it is given.
    let failed = unsafe { libc::clock_gettime(clock, &mut now) };
    (failed == 0).then_some(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

/// Nanoseconds, as many as a number has room for.
pub fn as_ns(time: Duration) -> u64 {
    time.as_nanos().try_into().unwrap_or(u64::MAX)
}

/// A time as system calls take it.
pub fn timespec(time: Duration) -> libc::timespec {
    libc::timespec { tv_sec: time.as_secs() as libc::time_t, tv_nsec: time.subsec_nanos().into() }
}

/// A time that a program gives to a system call; none if it is not valid.
pub fn duration(time: &libc::timespec) -> Option<Duration> {
    let part = u32::try_from(time.tv_nsec).ok().filter(|part| *part < 1_000_000_000)?;
    Some(Duration::new(time.tv_sec.try_into().ok()?, part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_system_calls() {
        let time = Duration::new(7, 999_999_999);
        assert_eq!(duration(&timespec(time)), Some(time));
        for (tv_sec, tv_nsec) in [(-1, 0), (0, -1), (0, 1_000_000_000)] {
            assert_eq!(duration(&libc::timespec { tv_sec, tv_nsec }), None);
        }
        assert_eq!((as_ns(time), as_ns(Duration::MAX)), (7_999_999_999, u64::MAX));
    }
}
