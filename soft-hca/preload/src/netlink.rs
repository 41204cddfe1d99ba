//! `socket` and `send`: netlink's RDMA family.

use std::ffi::{c_int, c_void};
use std::slice;

use soft_hca_core::errno::Errno;
use soft_hca_core::uapi::nldev::NETLINK_RDMA;

use crate::aside;
use crate::client;
use crate::events::write;
use crate::fail;
use crate::keeping_errno;
use crate::real;

/// `socket(2)`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    if domain == libc::AF_NETLINK && protocol == NETLINK_RDMA {
        return aside(|| client::socket(kind)).unwrap_or_else(fail);
    }
    // SAFETY: the caller keeps this function's contract, which is that of the C library's.
    unsafe { real::socket(domain, kind, protocol) }
}

fn is_ours(fd: c_int) -> bool {
    client::ours(fd) && aside(|| client::is_netlink(fd))
}

/// `send(2)`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn send(
    fd: c_int,
    buffer: *const c_void,
    bytes: usize,
    flags: c_int,
) -> isize {
    if is_ours(fd) {
        // SAFETY: the caller keeps this function's contract, which is that of the C library's.
        return unsafe { write(fd, buffer, bytes) };
    }
    keeping_errno(client::tells_others);
    // SAFETY: the caller keeps this function's contract, which is that of the C library's.
    unsafe { real::send(fd, buffer, bytes, flags) }
}

/// `sendto(2)`. A socket of ours speaks to the kernel whatever the address.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendto(
    fd: c_int,
    buffer: *const c_void,
    bytes: usize,
    flags: c_int,
    address: *const libc::sockaddr,
    length: libc::socklen_t,
) -> isize {
    if is_ours(fd) {
        // SAFETY: the caller keeps this function's contract, which is that of the C library's.
        return unsafe { write(fd, buffer, bytes) };
    }
    keeping_errno(client::tells_others);
    // SAFETY: the caller keeps this function's contract, which is that of the C library's.
    unsafe { real::sendto(fd, buffer, bytes, flags, address, length) }
}

/// `sendmsg(2)`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendmsg(
    fd: c_int,
    message: *const libc::msghdr,
    flags: c_int,
) -> isize {
    if !is_ours(fd) {
        keeping_errno(client::tells_others);
        // SAFETY: the caller keeps this function's contract, which is that of the C library's.
        return unsafe { real::sendmsg(fd, message, flags) };
    }
    if message.is_null() {
        return fail(Errno::EFAULT) as isize;
    }
    // SAFETY: the caller gives a message with so many parts, and each is readable.
    let parts = || unsafe {
        let message = &*message;
        let parts = (0..message.msg_iovlen).map(|i| *message.msg_iov.add(i));
        let parts = parts.filter(|part| part.iov_len > 0);
        parts.flat_map(|part| slice::from_raw_parts(part.iov_base.cast::<u8>(), part.iov_len))
    };
    let datagram: Vec<u8> = aside(|| parts().copied().collect());
    // SAFETY: the datagram is ours, outlives the call and has as many bytes as that is told.
    unsafe { write(fd, datagram.as_ptr().cast(), datagram.len()) }
}
