//! `nanosleep` and its kin: sleeps of a program that is run strictly may go by the fabric's clock. So do those by `poll` and
//! `select`, which wait for nothing but a time then.
//!
//! A sleep until a time takes as long as it is until then by the system's clock when it begins.

use std::ffi::{c_int, c_uint};
use std::time::Duration;

use libc::{clockid_t, fd_set, sigset_t, timespec, timeval, useconds_t};
use soft_hca_core::errno::Errno;
use soft_hca_core::system;

use crate::client;
use crate::real;
use crate::{fail, keeping_errno};

unsafe extern "C-unwind" {
    /// A point at which the calling thread may be cancelled.
    fn pthread_testcancel();
}

/// The status of `thrd_sleep` after a signal.
const INTERRUPTED: c_int = -1;

/// Sleeps for a time by the fabric's clock, if there is one, and sleeps of this program are not the C library's. An error has
/// the rest, after a signal.
fn sleep_strictly(time: impl FnOnce() -> Option<Duration>) -> Option<Result<(), Duration>> {
    if !client::skips_sleeps() {
        return None;
    }
    let slept = keeping_errno(|| client::sleep(time()?))?;
    // SAFETY: nothing is held here.
    unsafe { pthread_testcancel() };
    Some(slept)
}

/// A time that can be slept for.
///
/// # Safety
///
/// `asked` is null or points to a time.
pub(crate) unsafe fn time_of(asked: *const timespec) -> Option<Duration> {
    // SAFETY: the caller says so.
    system::duration(unsafe { asked.as_ref() }?)
}

/// A time of `select(2)`, whose microseconds may be more than a second; none if it is not valid.
fn duration_of(time: &timeval) -> Option<Duration> {
    let seconds = Duration::from_secs(time.tv_sec.try_into().ok()?);
    seconds.checked_add(Duration::from_micros(time.tv_usec.try_into().ok()?))
}

/// A time as `select(2)` takes it.
fn timeval(time: Duration) -> timeval {
    let timespec = system::timespec(time);
    timeval { tv_sec: timespec.tv_sec, tv_usec: timespec.tv_nsec / 1000 }
}

/// [Sleeps](sleep_strictly), and gives what a call returns that sets `errno`.
pub(crate) fn instead(time: impl FnOnce() -> Option<Duration>) -> Option<c_int> {
    sleep_strictly(time).map(status)
}

/// Return value of calls that set `errno`.
fn status(slept: Result<(), Duration>) -> c_int {
    slept.map_or_else(|_| fail(Errno::EINTR), |()| 0)
}

/// Tells the program how much of a sleep is left.
///
/// # Safety
///
/// `left` is null or points to room for a time.
unsafe fn tell(left: *mut timespec, rest: Duration) {
    if !left.is_null() {
        // SAFETY: the caller says so.
        unsafe { left.write(system::timespec(rest)) };
    }
}

/// Sleeps by the fabric's clock, or as one of the C library's functions. A signal has the outcome `interrupted`.
///
/// # Safety
///
/// `asked` is null or points to a time, `left` is null or points to room for one.
unsafe fn sleep_or(
    real: unsafe fn(*const timespec, *mut timespec) -> c_int,
    asked: *const timespec,
    left: *mut timespec,
    interrupted: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller says so.
    unsafe {
        match sleep_strictly(|| time_of(asked)) {
            None => real(asked, left),
            Some(Ok(())) => 0,
            Some(Err(rest)) => {
                tell(left, rest);
                interrupted()
            }
        }
    }
}

/// `nanosleep(2)`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn nanosleep(asked: *const timespec, left: *mut timespec) -> c_int {
    // SAFETY: the caller keeps this function's contract, which is that of the C library's.
    unsafe { sleep_or(real::nanosleep, asked, left, || fail(Errno::EINTR)) }
}

/// `clock_nanosleep(2)`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn clock_nanosleep(
    clock: clockid_t,
    flags: c_int,
    asked: *const timespec,
    left: *mut timespec,
) -> c_int {
    let passes = [libc::CLOCK_REALTIME, libc::CLOCK_MONOTONIC, libc::CLOCK_BOOTTIME];
    let is_until = flags & libc::TIMER_ABSTIME != 0;
    // SAFETY: the caller keeps this function's contract, which is that of the C library's.
    unsafe {
        let time = || {
            let time = time_of(asked).filter(|_| passes.contains(&clock))?;
            let begun_ns = if is_until { system::clock_ns(clock)? } else { 0 };
            Some(time.saturating_sub(Duration::from_nanos(begun_ns)))
        };
        match sleep_strictly(time) {
            None => real::clock_nanosleep(clock, flags, asked, left),
            Some(Ok(())) => 0,
            Some(Err(rest)) => {
                if !is_until {
                    tell(left, rest);
                }
                libc::EINTR
            }
        }
    }
}

/// `usleep(3)`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn usleep(microseconds: useconds_t) -> c_int {
    instead(|| Some(Duration::from_micros(microseconds.into())))
        // SAFETY: it takes any number.
        .unwrap_or_else(|| unsafe { real::usleep(microseconds) })
}

/// `sleep(3)`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sleep(seconds: c_uint) -> c_uint {
    match sleep_strictly(|| Some(Duration::from_secs(seconds.into()))) {
        // SAFETY: it takes any number.
        None => unsafe { real::sleep(seconds) },
        Some(Ok(())) => 0,
        Some(Err(rest)) => rest.as_secs() as c_uint,
    }
}

/// `thrd_sleep(3)`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn thrd_sleep(asked: *const timespec, left: *mut timespec) -> c_int {
    // SAFETY: the caller keeps this function's contract, which is that of the C library's.
    unsafe { sleep_or(real::thrd_sleep, asked, left, || INTERRUPTED) }
}

/// Whether `select(2)` waits for nothing.
fn is_empty(count: c_int, sets: [*mut fd_set; 3]) -> bool {
    count >= 0 && sets.iter().all(|set| set.is_null())
}

/// `select(2)`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn select(
    count: c_int,
    readable: *mut fd_set,
    writable: *mut fd_set,
    exceptional: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    let is_sleep = is_empty(count, [readable, writable, exceptional]);
    // SAFETY: the caller keeps this function's contract, which is that of the C library's.
    unsafe {
        let time = || timeout.as_ref().filter(|_| is_sleep).and_then(duration_of);
        let Some(slept) = sleep_strictly(time) else {
            return real::select(count, readable, writable, exceptional, timeout);
        };
        timeout.write(timeval(slept.err().unwrap_or_default()));
        status(slept)
    }
}

/// `pselect(2)`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pselect(
    count: c_int,
    readable: *mut fd_set,
    writable: *mut fd_set,
    exceptional: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let is_sleep = mask.is_null() && is_empty(count, [readable, writable, exceptional]);
    // SAFETY: the caller keeps this function's contract, which is that of the C library's.
    unsafe {
        instead(|| time_of(timeout).filter(|_| is_sleep))
            .unwrap_or_else(|| real::pselect(count, readable, writable, exceptional, timeout, mask))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_select() {
        let time = Duration::new(7, 999_999_000);
        assert_eq!(duration_of(&timeval(time)), Some(time));
        let long = libc::timeval { tv_sec: 1, tv_usec: 2_000_001 };
        assert_eq!(duration_of(&long), Some(Duration::new(3, 1000)));
        for (tv_sec, tv_usec) in [(-1, 0), (0, -1)] {
            assert_eq!(duration_of(&libc::timeval { tv_sec, tv_usec }), None);
        }
    }
}
