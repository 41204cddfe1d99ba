//! The size of a page, which arm64 has of 4, 16 or 64 KiB.
#![allow(unsafe_code, reason = "sysconf")]

/// Bytes of a page of memory here.
pub fn page_bytes() -> usize {
    // SAFETY: asks for a number. The C library knows it, without a system call.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).expect("every system has pages of some size")
}
