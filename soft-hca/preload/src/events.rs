//! `read`, `write`, `ioctl`: commands and events.

use std::ffi::{c_int, c_ulong, c_void};
use std::ptr;
use std::slice;

use soft_hca_core::errno::{Errno, Result};
use soft_hca_core::trace::{self, Site};
use soft_hca_core::uapi::ioctl::RDMA_VERBS_IOCTL;

use crate::aside;
use crate::client::{self, Outcome};
use crate::fail;
use crate::keeping_errno;
use crate::real;
use crate::waits::{self, entry};

/// Waits until a descriptor is readable. -1 if it does not block or was interrupted.
unsafe fn wait(fd: c_int, site: Site) -> c_int {
    // SAFETY: asks for the flags of an open descriptor.
    let flags = unsafe { real::fcntl(fd, libc::F_GETFL, 0) };
    if flags < 0 {
        return wait_on_closed();
    }
    if flags & libc::O_NONBLOCK != 0 {
        return fail(Errno::EAGAIN);
    }
    let waiting = trace::at(site, || client::wait(fd));
    let at_port = keeping_errno(|| client::may_bring_events([fd]).then(client::wait_at_port)?);
    let mut asked = [entry(fd, libc::POLLIN)];
    // SAFETY: no mask.
    let waited = unsafe { waits::wait(&mut asked, None, ptr::null(), at_port) };
    if let Some(waiting) = waiting {
        keeping_errno(|| trace::at(site, || waiting.ended(waited >= 0)));
    }
    if waited < 0 { -1 } else { 0 }
}

/// Another thread has closed the descriptor since this call began. In the kernel the call would
/// still have the file, which gets no more events: only a signal or the end can come.
fn wait_on_closed() -> c_int {
    // SAFETY: no entries are there, and none are asked for.
    unsafe { real::poll(ptr::null_mut(), 0, -1) }
}

/// Repeats `call`, and waits before each repetition, until it does not have to wait. Its argument
/// says whether the thread has waited.
unsafe fn until_done(fd: c_int, call: impl Fn(bool) -> Result<Outcome>) -> isize {
    let mut has_waited = false;
    let site = aside(client::calling_site);
    loop {
        match aside(|| trace::at(site, || call(has_waited))) {
            Ok(Outcome::Done(bytes)) => return bytes as isize,
            Ok(Outcome::Wait) => has_waited = true,
            Err(error) if error == Errno::EBADF && has_waited => return wait_on_closed() as isize,
            Err(error) => return fail(error) as isize,
        }
        // Nothing is held here, so the thread may be cancelled.
        // SAFETY: the descriptor is one of ours, and stays open while the program is in this call.
        if unsafe { wait(fd, site) } < 0 {
            return -1;
        }
    }
}

/// The result of a call that has read from a file of the system.
pub(crate) fn heard(bytes: isize) -> isize {
    if bytes > 0 {
        keeping_errno(client::has_heard);
    }
    bytes
}

/// `read(2)`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn read(fd: c_int, buffer: *mut c_void, bytes: usize) -> isize {
    if !client::ours(fd) {
        // SAFETY: the caller keeps this function's contract, which is that of the C library's.
        return heard(unsafe { real::read(fd, buffer, bytes) });
    }
    // SAFETY: the caller gives a buffer of this size; our events are short.
    let buffer = || unsafe { slice::from_raw_parts_mut(buffer.cast::<u8>(), bytes.min(4096)) };
    // SAFETY: the descriptor is one of ours, and stays open while the program is in this call.
    unsafe { until_done(fd, |has_waited| client::read(fd, buffer(), has_waited)) }
}

/// `write(2)`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn write(fd: c_int, buffer: *const c_void, bytes: usize) -> isize {
    if !client::ours(fd) {
        keeping_errno(client::tells_others);
        // SAFETY: the caller keeps this function's contract, which is that of the C library's.
        return unsafe { real::write(fd, buffer, bytes) };
    }
    // SAFETY: the caller gives a buffer of this size.
    let command = || unsafe { slice::from_raw_parts(buffer.cast::<u8>(), bytes) };
    match keeping_errno(|| client::ring_doorbell(fd, command())) {
        Some(Ok(bytes)) => return bytes as isize,
        Some(Err(error)) => return fail(error) as isize,
        None => {}
    }
    // SAFETY: the descriptor is one of ours, and stays open while the program is in this call.
    unsafe { until_done(fd, |_| client::write(fd, command())) }
}

/// `ioctl(2)`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ioctl(fd: c_int, request: c_ulong, arg: c_ulong) -> c_int {
    if client::ours(fd) && request == RDMA_VERBS_IOCTL {
        return aside(|| client::ioctl(fd, arg)).map_or_else(fail, |()| 0);
    }
    // SAFETY: the caller keeps this function's contract, which is that of the C library's.
    unsafe { real::ioctl(fd, request, arg) }
}
