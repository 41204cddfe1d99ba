//! The program's own memory, by addresses that may be wrong.
#![allow(unsafe_code)]

use std::ffi::c_void;

use crate::errno::{Errno, Result};

/// Writes `bytes` at an address that the program has given. A bad address is `EFAULT`, as in the
/// kernel, wherever the system lets a process copy into itself.
pub(crate) fn write(address: u64, bytes: &[u8]) -> Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let from = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let to = libc::iovec { iov_base: address as *mut c_void, iov_len: bytes.len() };
    // SAFETY: the system checks the target, which is all that may be wrong.
    let written = unsafe { libc::process_vm_writev(libc::getpid(), &from, 1, &to, 1, 0) };
    if written == bytes.len() as isize {
        return Ok(());
    }
    let error = std::io::Error::last_os_error().raw_os_error();
    if written < 0 && matches!(error, Some(libc::ENOSYS | libc::EPERM)) && address != 0 {
        // SAFETY: the program's own promise that this is where its answer belongs.
        unsafe { (address as *mut u8).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        return Ok(());
    }
    Err(Errno::EFAULT)
}

/// Reads `length` bytes at an address that the program has given.
pub(crate) fn read(address: u64, length: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0u8; length];
    if length == 0 {
        return Ok(bytes);
    }
    let to = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: length };
    let from = libc::iovec { iov_base: address as *mut c_void, iov_len: length };
    // SAFETY: the system checks the source, which is all that may be wrong.
    let read = unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, &from, 1, 0) };
    if read == length as isize { Ok(bytes) } else { Err(Errno::EFAULT) }
}

/// Whether a memory region is mapped and, if `writable`, may be written: as registering it pins
/// its pages, so are they touched here. Otherwise `EFAULT`.
pub(crate) fn populate(address: u64, length: u64, writable: bool) -> Result<()> {
    let page = crate::arena::PAGE as u64;
    let start = address / page * page;
    let end = address.checked_add(length).and_then(|end| end.checked_next_multiple_of(page));
    let bytes = (end.ok_or(Errno::EFAULT)? - start) as usize;
    let advice = if writable { libc::MADV_POPULATE_WRITE } else { libc::MADV_POPULATE_READ };
    // SAFETY: touches pages as an access would, but reports what would be a signal.
    if unsafe { libc::madvise(start as *mut c_void, bytes, advice) } == 0 {
        return Ok(());
    }
    match std::io::Error::last_os_error().raw_os_error() {
        // An older system, or no right to write: then at least it has to be mapped.
        Some(libc::EINVAL) if is_writable_enough(start, writable) && is_mapped(start, bytes) => {
            Ok(())
        }
        _ => Err(Errno::EFAULT),
    }
}

/// Whether the first byte of a page may be written, if that is asked for.
fn is_writable_enough(address: u64, writable: bool) -> bool {
    if !writable {
        return true;
    }
    let mut byte = 0u8;
    let here = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let there = libc::iovec { iov_base: address as *mut c_void, iov_len: 1 };
    // SAFETY: copies one byte here and the same byte back; the system checks the address.
    unsafe {
        let pid = libc::getpid();
        libc::process_vm_readv(pid, &here, 1, &there, 1, 0) == 1
            && libc::process_vm_writev(pid, &here, 1, &there, 1, 0) == 1
    }
}

/// Whether all pages of a range are mapped. The range may be as long as the address space.
fn is_mapped(start: u64, bytes: usize) -> bool {
    const PAGES: usize = 4096;
    let mut residency = [0u8; PAGES];
    (0..bytes).step_by(PAGES * crate::arena::PAGE).all(|offset| {
        let piece = (bytes - offset).min(PAGES * crate::arena::PAGE);
        let address = start.wrapping_add(offset as u64) as *mut c_void;
        // SAFETY: there is one byte for each page.
        unsafe { libc::mincore(address, piece, residency.as_mut_ptr()) == 0 }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_addresses_are_reported() {
        assert_eq!(write(8, &[1]), Err(Errno::EFAULT));
        assert_eq!(populate(4096, 100, true), Err(Errno::EFAULT));
        assert_eq!(populate(u64::MAX - 5, 100, true), Err(Errno::EFAULT));
    }

    #[test]
    fn a_range_as_long_as_the_address_space_is_not_mapped() {
        static HERE: u8 = 0;
        let page = crate::arena::PAGE;
        let here = (&raw const HERE).expose_provenance() / page * page;
        assert!(is_mapped(here as u64, page));
        assert!(!is_mapped(here as u64, (isize::MAX as usize) / page * page));
    }

    #[test]
    fn good_addresses_work() {
        let mut target = [0u8; 4];
        write(target.as_mut_ptr() as u64, &[1, 2, 3, 4]).unwrap();
        assert_eq!(target, [1, 2, 3, 4]);
        populate(target.as_ptr() as u64, 4, true).unwrap();
        // Text of the program may be read but not written.
        let text = populate as fn(u64, u64, bool) -> Result<()> as usize as u64;
        populate(text, 16, false).unwrap();
        assert_eq!(populate(text, 16, true), Err(Errno::EFAULT));
    }
}
