//! `recv` and its kin, `readv`, `writev`: by sockets and pipes processes tell each other things, of which the program's
//! [sanitizer](crate::client) is told.

use std::ffi::{c_int, c_void};

use crate::client;
use crate::events::heard;
use crate::keeping_errno;
use crate::real;

/// `recv(2)`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recv(
    fd: c_int,
    buffer: *mut c_void,
    bytes: usize,
    flags: c_int,
) -> isize {
    // SAFETY: the caller keeps this function's contract, which is that of the C library's.
    heard(unsafe { real::recv(fd, buffer, bytes, flags) })
}

/// `recvfrom(2)`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvfrom(
    fd: c_int,
    buffer: *mut c_void,
    bytes: usize,
    flags: c_int,
    address: *mut libc::sockaddr,
    length: *mut libc::socklen_t,
) -> isize {
    // SAFETY: the caller keeps this function's contract, which is that of the C library's.
    heard(unsafe { real::recvfrom(fd, buffer, bytes, flags, address, length) })
}

/// `recvmsg(2)`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvmsg(
    fd: c_int,
    message: *mut libc::msghdr,
    flags: c_int,
) -> isize {
    // SAFETY: the caller keeps this function's contract, which is that of the C library's.
    heard(unsafe { real::recvmsg(fd, message, flags) })
}

/// `readv(2)`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn readv(fd: c_int, parts: *const libc::iovec, count: c_int) -> isize {
    // SAFETY: the caller keeps this function's contract, which is that of the C library's.
    heard(unsafe { real::readv(fd, parts, count) })
}

/// `writev(2)`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn writev(
    fd: c_int,
    parts: *const libc::iovec,
    count: c_int,
) -> isize {
    keeping_errno(client::tells_others);
    // SAFETY: the caller keeps this function's contract, which is that of the C library's.
    unsafe { real::writev(fd, parts, count) }
}
