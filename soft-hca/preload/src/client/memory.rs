//! The program's own memory, by addresses that may be wrong.
#![allow(unsafe_code, reason = "the program's own memory by its address")]

use std::ffi::{c_long, c_ulong, c_void};
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;

use soft_hca_core::errno::{Errno, Refusal, Result};
use soft_hca_core::memcheck;
use soft_hca_core::system::{page_bytes, pipe};
use zerocopy::FromBytes;

/// Writes `bytes` at an address that the program has given. A bad address is `EFAULT`, as in the
/// kernel.
pub(crate) fn write(address: u64, bytes: &[u8]) -> Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let from = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let to = libc::iovec { iov_base: address as *mut c_void, iov_len: bytes.len() };
    let written = copy(libc::SYS_process_vm_writev, &from, &to);
    if was_refused(written) {
        return through_pipe(bytes.as_ptr() as u64, address, bytes.len());
    }
    if written != bytes.len() as isize {
        return Err(Errno::EFAULT);
    }
    memcheck::is_written(address, bytes.len() as u64);
    Ok(())
}

/// Copies within the process between memory that is there and memory of which the system looks whether it is. The
/// system call itself: the C library's function may be a sanitizer's, which takes this to be the program's access.
fn copy(call: c_long, ours: &libc::iovec, named: &libc::iovec) -> isize {
    let one: c_ulong = 1;
    let none: c_ulong = 0;
    // SAFETY: two lists of one stretch each; the system checks what the program has named.
    let copied = unsafe {
        libc::syscall(
            call,
            libc::getpid(),
            ptr::from_ref(ours),
            one,
            ptr::from_ref(named),
            one,
            none,
        )
    };
    copied as isize
}

/// Reads `length` bytes at an address that the program has given.
pub(crate) fn read(address: u64, length: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0u8; length];
    if length == 0 {
        return Ok(bytes);
    }
    let to = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: length };
    let from = libc::iovec { iov_base: address as *mut c_void, iov_len: length };
    let read = copy(libc::SYS_process_vm_readv, &to, &from);
    if was_refused(read) {
        through_pipe(address, bytes.as_mut_ptr() as u64, length)?;
        return Ok(bytes);
    }
    if read == length as isize { Ok(bytes) } else { Err(Errno::EFAULT) }
}

/// A structure of the program's, if there is memory.
pub(crate) fn read_as<T: FromBytes>(address: u64) -> Option<T> {
    T::read_from_bytes(&read(address, size_of::<T>()).ok()?).ok()
}

/// Whether the system does not let a process copy even within itself, as under a filter.
fn was_refused(copied: isize) -> bool {
    let error = || io::Error::last_os_error().raw_os_error();
    copied < 0 && !matches!(error(), Some(libc::EFAULT | libc::EINVAL | libc::ENOMEM))
}

/// Copies within the process; of both addresses the system checks whether they are good.
fn through_pipe(from: u64, to: u64, length: usize) -> Result<()> {
    /// So much every pipe takes at once.
    const PIECE: usize = 4096;
    let (reader, writer) = pipe().map_err(|_| Errno::EIO)?;
    for done in (0..length).step_by(PIECE) {
        let bytes = PIECE.min(length - done);
        // The system calls themselves, at which a thread is not cancelled.
        for (number, fd, address) in [
            (libc::SYS_write, writer.as_raw_fd(), from + done as u64),
            (libc::SYS_read, reader.as_raw_fd(), to + done as u64),
        ] {
            // SAFETY: the system checks the address, and the target is the program's own choice or
            // a buffer of ours that is as long.
            if unsafe { libc::syscall(number, fd, address, bytes) } != bytes as i64 {
                return Err(Errno::EFAULT);
            }
        }
    }
    Ok(())
}

/// Whether a memory region is mapped and, if `writable`, may be written: as registering it pins
/// its pages, so are they touched here. Otherwise `EFAULT`.
pub(crate) fn populate(address: u64, length: u64, writable: bool) -> Result<()> {
    let page = page_bytes() as u64;
    let start = address / page * page;
    let end = address.checked_add(length).and_then(|end| end.checked_next_multiple_of(page));
    let bytes = (end.ok_or(Errno::EFAULT)? - start) as usize;
    let advice = if writable { libc::MADV_POPULATE_WRITE } else { libc::MADV_POPULATE_READ };
    // SAFETY: touches pages as an access would, but reports what would be a signal.
    if unsafe { libc::madvise(start as *mut c_void, bytes, advice) } == 0 {
        return Ok(());
    }
    match io::Error::last_os_error().raw_os_error() {
        // An older system, or no right to write: then at least it has to be mapped.
        Some(libc::EINVAL) if is_writable_enough(start, writable) && is_mapped(start, bytes) => {
            Ok(())
        }
        _ if writable && populate(address, length, false).is_ok() => Err(READ_ONLY),
        _ => Err(NOT_MAPPED),
    }
}

const READ_ONLY: Errno = Errno::EFAULT.because(Refusal::ReadOnlyMemory);
const NOT_MAPPED: Errno = Errno::EFAULT.because(Refusal::UnmappedMemory);

/// Whether the first byte of a page may be written, if that is asked for.
fn is_writable_enough(address: u64, writable: bool) -> bool {
    if !writable {
        return true;
    }
    read(address, 1).and_then(|byte| write(address, &byte)).is_ok()
}

/// Whether all pages of a range are mapped. The range may be as long as the address space.
fn is_mapped(start: u64, bytes: usize) -> bool {
    const PAGES: usize = 4096;
    let mut residency = [0u8; PAGES];
    let most = PAGES * page_bytes();
    (0..bytes).step_by(most).all(|offset| {
        let piece = (bytes - offset).min(most);
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
        assert_eq!(populate(4096, 100, true).unwrap_err().reason(), NOT_MAPPED.reason());
    }

    #[test]
    fn the_detour_checks_addresses_as_well() {
        let from: Vec<u8> = (0..10_001u32).map(|i| i as u8).collect();
        let mut to = vec![0; from.len()];
        through_pipe(from.as_ptr() as u64, to.as_mut_ptr() as u64, from.len()).unwrap();
        assert!(from == to);
        assert_eq!(through_pipe(8, to.as_mut_ptr() as u64, 4), Err(Errno::EFAULT));
        assert_eq!(through_pipe(from.as_ptr() as u64, 8, 4), Err(Errno::EFAULT));
    }

    #[test]
    fn a_range_as_long_as_the_address_space_is_not_mapped() {
        static HERE: u8 = 0;
        let page = page_bytes();
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
        assert_eq!(populate(text, 16, true).unwrap_err().reason(), READ_ONLY.reason());
    }
}
