//! `poll`, `epoll_wait` and their kin: a thread that waits for completion events waits at the port to other hosts, too.
//!
//! A set of `epoll` is a descriptor that is readable when one of its own is. So a thread that waits for a set waits for that
//! descriptor, and asks for the events then.

use std::ffi::c_int;
use std::os::fd::RawFd;
use std::ptr;
use std::slice;
use std::time::Duration;

use arrayvec::ArrayVec;
use libc::{epoll_event, nfds_t, pollfd, sigset_t, timespec};
use soft_hca_core::rpc::MAX_FDS;
use soft_hca_core::system;

use crate::client::{self, AtPort};
use crate::keeping_errno;
use crate::real;
use crate::sleeps;

/// Descriptors for which a thread waits at once, at most, if it is to wait at the port as well.
const MOST_ASKED: usize = 64;
/// Beside them: the daemon's, and the sockets of the port.
const MOST_WATCHED: usize = MOST_ASKED + 1 + MAX_FDS;

/// An entry of `poll(2)`.
pub(crate) fn entry(fd: RawFd, events: i16) -> pollfd {
    pollfd { fd, events, revents: 0 }
}

/// Waits for `asked` as `ppoll(2)` does, no more than [`MOST_ASKED`], until a time of `CLOCK_MONOTONIC`, if there is one; for
/// the end of the daemon, too, and at the port.
///
/// # Safety
///
/// `mask` is null or points to a set of signals.
pub(crate) unsafe fn wait(
    asked: &mut [pollfd],
    until: Option<u64>,
    mask: *const sigset_t,
    mut at_port: Option<AtPort>,
) -> c_int {
    let mut watched = client::watched();
    let waited = loop {
        let mut entries: ArrayVec<_, MOST_WATCHED> = asked.iter().copied().collect();
        entries.push(entry(watched.unwrap_or(-1), 0));
        let sockets = at_port.as_ref().map_or(&[][..], AtPort::sockets);
        entries.extend(sockets.iter().map(|socket| entry(*socket, libc::POLLIN)));
        let left = until.map(|until| Duration::from_nanos(until.saturating_sub(system::now_ns())));
        let sleep = [left, at_port.as_ref().map(AtPort::sleep)].into_iter().flatten().min();
        let sleep = sleep.map(system::timespec);
        let timeout = sleep.as_ref().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: `entries` has the entries of which the call is told, and outlives it, as `sleep` does; the caller answers
        // for the mask.
        let waited =
            unsafe { real::ppoll(entries.as_mut_ptr(), entries.len() as nfds_t, timeout, mask) };
        if waited < 0 {
            break waited;
        }
        let (program, daemon) = (&entries[..asked.len()], entries[asked.len()]);
        asked.copy_from_slice(program);
        let ready = asked.iter().filter(|asked| asked.revents != 0).count();
        if ready > 0 {
            break ready as c_int;
        }
        if daemon.revents != 0 {
            keeping_errno(client::daemon_is_gone);
            watched = None;
        }
        at_port.take_if(|at_port| !keeping_errno(|| at_port.look()));
        if left.is_some_and(|left| left.is_zero()) {
            break 0;
        }
    };
    if let Some(at_port) = at_port.filter(|_| waited > 0) {
        at_port.ended();
    }
    waited
}

/// The end of a wait of so many milliseconds; negative is without end.
fn end_of(milliseconds: c_int) -> Option<u64> {
    let milliseconds = u64::try_from(milliseconds).ok()?;
    Some(system::now_ns() + milliseconds * 1_000_000)
}

/// Sleeps for so many milliseconds, if a wait for nothing else is a sleep by the fabric's clock.
fn sleep_instead(count: nfds_t, milliseconds: c_int) -> Option<c_int> {
    let time = || u64::try_from(milliseconds).ok().filter(|_| count == 0);
    sleeps::instead(|| time().map(Duration::from_millis))
}

/// The descriptors for which a thread is going to wait, if events of completion channels may be among what it waits for.
///
/// # Safety
///
/// `fds` points to `count` entries, as far as the program keeps the contract of `poll(2)`.
unsafe fn asked<'a>(fds: *mut pollfd, count: nfds_t) -> Option<&'a mut [pollfd]> {
    if !client::has_port() || fds.is_null() || count as usize > MOST_ASKED {
        return None;
    }
    // SAFETY: the caller says so.
    let asked = unsafe { slice::from_raw_parts_mut(fds, count as usize) };
    client::may_bring_events(asked.iter().map(|asked| asked.fd)).then_some(asked)
}

/// Waits, if the thread asks for completion events; else the C library's function is to be called.
///
/// # Safety
///
/// As `ppoll(2)`.
unsafe fn wait_for_events(
    asked: Option<&mut [pollfd]>,
    until: impl FnOnce() -> Option<u64>,
    mask: *const sigset_t,
) -> Option<c_int> {
    let at_port = || keeping_errno(client::wait_at_port);
    // SAFETY: the caller says so.
    asked.map(|asked| unsafe { wait(asked, until(), mask, at_port()) })
}

/// `poll(2)`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    // SAFETY: the caller keeps this function's contract, which is that of the C library's; there is no mask.
    unsafe {
        let asked = asked(fds, count).filter(|_| timeout != 0);
        wait_for_events(asked, || end_of(timeout), ptr::null())
            .or_else(|| sleep_instead(count, timeout))
            .unwrap_or_else(|| real::poll(fds, count, timeout))
    }
}

/// `poll` of programs that are built with `_FORTIFY_SOURCE`; `bytes` is the size of the array.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __poll_chk(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: c_int,
    bytes: usize,
) -> c_int {
    // The C library ends a program whose array is smaller.
    let fits = count as usize <= bytes / size_of::<pollfd>();
    // SAFETY: the caller keeps this function's contract, which is that of the C library's; there is no mask.
    unsafe {
        let asked = if fits && timeout != 0 { asked(fds, count) } else { None };
        wait_for_events(asked, || end_of(timeout), ptr::null())
            .or_else(|| sleep_instead(count, timeout))
            .unwrap_or_else(|| real::__poll_chk(fds, count, timeout, bytes))
    }
}

/// When a wait of `ppoll(2)` ends: `Some(None)` if never, `None` if the C library is to answer, as it is no wait.
///
/// # Safety
///
/// `timeout` is null or points to a time.
unsafe fn end_of_time(timeout: *const timespec) -> Option<Option<u64>> {
    // SAFETY: the caller says so.
    let Some(timeout) = (unsafe { timeout.as_ref() }) else { return Some(None) };
    let sleep = system::as_ns(system::duration(timeout)?);
    (sleep > 0).then(|| Some(system::now_ns().saturating_add(sleep)))
}

/// `ppoll(2)`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ppoll(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller keeps this function's contract, which is that of the C library's.
    unsafe {
        let asked = asked(fds, count).and_then(|asked| Some((asked, end_of_time(timeout)?)));
        let (asked, until) = asked.unzip();
        let is_sleep = count == 0 && mask.is_null();
        wait_for_events(asked, || until.flatten(), mask)
            .or_else(|| sleeps::instead(|| sleeps::time_of(timeout).filter(|_| is_sleep)))
            .unwrap_or_else(|| real::ppoll(fds, count, timeout, mask))
    }
}

/// `epoll_ctl(2)`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_ctl(
    set: c_int,
    command: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    // SAFETY: the caller keeps this function's contract, which is that of the C library's.
    let done = unsafe { real::epoll_ctl(set, command, fd, event) };
    if done == 0 && command == libc::EPOLL_CTL_ADD {
        client::joins_set(set, fd);
    }
    done
}

/// Waits until a set is readable, and asks for its events.
///
/// # Safety
///
/// As `epoll_pwait(2)`.
unsafe fn wait_for_set(
    set: c_int,
    (events, most): (*mut epoll_event, c_int),
    until: Option<u64>,
    mask: *const sigset_t,
) -> c_int {
    loop {
        // SAFETY: the caller answers for the mask.
        let waited = unsafe {
            wait(&mut [entry(set, libc::POLLIN)], until, mask, keeping_errno(client::wait_at_port))
        };
        if waited <= 0 {
            return waited;
        }
        // SAFETY: the caller answers for the room.
        let got = unsafe { real::epoll_wait(set, events, most, 0) };
        // Another thread may have taken them.
        if got != 0 {
            return got;
        }
    }
}

/// Whether a thread that waits for a set waits for events of completion channels.
fn is_wait(set: c_int, most: c_int, timeout: c_int) -> bool {
    timeout != 0 && most > 0 && client::has_port() && client::may_bring_events([set])
}

/// `epoll_wait(2)`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_wait(
    set: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: c_int,
) -> c_int {
    if is_wait(set, most, timeout) {
        // SAFETY: the caller keeps this function's contract, which is that of the C library's.
        return unsafe { wait_for_set(set, (events, most), end_of(timeout), ptr::null()) };
    }
    // SAFETY: as before.
    unsafe { real::epoll_wait(set, events, most, timeout) }
}

/// `epoll_pwait(2)`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_pwait(
    set: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: c_int,
    mask: *const sigset_t,
) -> c_int {
    if is_wait(set, most, timeout) {
        // SAFETY: the caller keeps this function's contract, which is that of the C library's.
        return unsafe { wait_for_set(set, (events, most), end_of(timeout), mask) };
    }
    // SAFETY: as before.
    unsafe { real::epoll_pwait(set, events, most, timeout, mask) }
}
