//! Buffers, memory regions and scatter/gather elements.
#![allow(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "regions are the library's own pointers, as in the examples, whose modules are private"
)]

use common::errno;
use common::memory::CArray;
use common::utilities::{OurResult, our_calloc};
use rdma_sys::{ibv_access_flags, ibv_dereg_mr, ibv_mr, ibv_reg_mr, ibv_sge};

use crate::control::{OurControl, failed};

/// `len` bytes, all zero.
pub fn our_buffer(conn: &OurControl, len: usize) -> OurResult<CArray<u8>> {
    our_calloc(len, conn.options.message)
}

/// Writes a text to the beginning of a buffer, as much of it as there is room for.
pub fn our_fill(buffer: &CArray<u8>, text: &str) {
    buffer.iter().zip(text.bytes()).for_each(|(cell, byte)| cell.set(byte));
}

/// Registers a buffer for `access`. It has to be deregistered before the buffer goes out of scope.
pub fn our_reg_mr(
    conn: &OurControl,
    buffer: &CArray<u8>,
    access: ibv_access_flags,
) -> OurResult<*mut ibv_mr> {
    errno::set(0);
    // SAFETY: the protection domain is alive, and so is the memory.
    let mr =
        unsafe { ibv_reg_mr(conn.protection_domain, buffer.addr(), buffer.len(), access.0 as i32) };
    if mr.is_null() {
        return Err(failed("ibv_reg_mr", libc::ENOMEM, &conn.options));
    }
    Ok(mr)
}

/// Deregisters a region of [`our_reg_mr`].
pub fn our_dereg_mr(conn: &OurControl, mr: *mut ibv_mr) -> OurResult {
    // SAFETY: the caller has it from `our_reg_mr` and does not use it again.
    let ret = unsafe { ibv_dereg_mr(mr) };
    if ret != 0 { Err(failed("ibv_dereg_mr", ret, &conn.options)) } else { Ok(()) }
}

/// The key by which this host's adapter knows a region.
pub fn our_lkey(mr: *mut ibv_mr) -> u32 {
    // SAFETY: the caller has it from `our_reg_mr`, and it is registered.
    unsafe { (*mr).lkey }
}

/// The key by which the peer may name a region.
pub fn our_rkey(mr: *mut ibv_mr) -> u32 {
    // SAFETY: as in `our_lkey`.
    unsafe { (*mr).rkey }
}

/// An element for all of a buffer that is registered.
pub fn our_setup_sge(buffer: &CArray<u8>, mr: *mut ibv_mr) -> ibv_sge {
    ibv_sge { addr: buffer.addr() as u64, length: buffer.len() as u32, lkey: our_lkey(mr) }
}

/// Where a buffer is and by which key the peer may name it, for private data: address and `rkey`, most
/// significant byte first.
pub fn our_remote_data(buffer: &CArray<u8>, mr: *mut ibv_mr) -> Vec<u8> {
    let address = (buffer.addr() as u64).to_be_bytes();
    [&address[..], &our_rkey(mr).to_be_bytes()].concat()
}

/// The same as the peer reads it: address and key, zeros if the data are too short.
pub fn our_remote(data: &[u8]) -> (u64, u32) {
    let Some((address, rest)) = data.split_first_chunk() else { return (0, 0) };
    let key = rest.first_chunk().copied().unwrap_or_default();
    (u64::from_be_bytes(*address), u32::from_be_bytes(key))
}
