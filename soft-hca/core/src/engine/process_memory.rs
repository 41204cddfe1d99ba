//! Copies between the memories of processes: `process_vm_readv` and `process_vm_writev`.
//!
//! The system checks every address, also our own, so that memory which a program has unmapped
//! behind our back is an error and no signal.
#![allow(unsafe_code, reason = "memory of other processes")]

use std::io;

use crate::engine::segments::{Fault, MAX_SEGMENTS, Segment, Window, window};

/// Bytes that a copy between two other processes moves at a time.
const DETOUR_BYTES: u64 = 256 << 10;

const _: () = assert!(size_of::<Segment>() == size_of::<libc::iovec>());
const _: () = assert!(align_of::<Segment>() == align_of::<libc::iovec>());
const _: () = assert!(size_of::<usize>() == size_of::<u64>());

/// Why a call did not move all bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CopyError {
    /// An address on either side is bad.
    Fault,
    /// The process has ended or may not be reached.
    Unreachable,
}

/// The number of `process_vm_readv` or `process_vm_writev`.
type Call = libc::c_long;

/// Writes our `local` memory to `remote` memory of a process.
pub(super) fn write(
    pid: u32,
    local: &[Segment],
    remote: &[Segment],
    length: u64,
) -> Result<(), CopyError> {
    move_all(libc::SYS_process_vm_writev, pid, local, remote, length)
}

/// Reads `remote` memory of a process into our `local` memory.
pub(super) fn read(
    pid: u32,
    local: &[Segment],
    remote: &[Segment],
    length: u64,
) -> Result<(), CopyError> {
    move_all(libc::SYS_process_vm_readv, pid, local, remote, length)
}

/// The word at an address in a process.
pub(super) fn read_word(pid: u32, addr: u64) -> io::Result<u64> {
    let mut word = [0; 8];
    let remote = [Segment { addr, length: 8 }];
    match raw_call(libc::SYS_process_vm_readv, pid, &[ours_mut(&mut word)], &remote)? {
        8 => Ok(u64::from_ne_bytes(word)),
        _ => Err(io::Error::from_raw_os_error(libc::EFAULT)),
    }
}

/// Whether the system lets this process write the memory of any, which is its own here.
pub(super) fn try_writing(own_pid: u32) -> io::Result<()> {
    let (from, mut to) = ([0; 8], [0; 8]);
    raw_call(libc::SYS_process_vm_writev, own_pid, &[ours(&from)], &[ours_mut(&mut to)]).map(drop)
}

/// One call. It may move less than there is, in whole segments and pages.
fn call(call: Call, pid: u32, local: &[Segment], remote: &[Segment]) -> Result<u64, CopyError> {
    match raw_call(call, pid, local, remote) {
        Ok(0) => Err(CopyError::Fault),
        Ok(moved) => Ok(moved),
        Err(error) => match error.raw_os_error() {
            Some(libc::EFAULT | libc::EINVAL | libc::ENOMEM) => Err(CopyError::Fault),
            // The system knows no such process, or refuses. A filter may do that in many words.
            _ => Err(CopyError::Unreachable),
        },
    }
}

/// The system call itself: the C library's function of that name may be a sanitizer's, which takes what is written to be
/// the program's doing.
fn raw_call(call: Call, pid: u32, local: &[Segment], remote: &[Segment]) -> io::Result<u64> {
    // SAFETY: both lists are as long as said and have the layout of `iovec`. What they point to
    // is checked by the system; local memory that is written is what this program registered for
    // that, or a variable of ours whose address was exposed.
    let moved = unsafe {
        libc::syscall(
            call,
            pid as libc::pid_t,
            local.as_ptr(),
            local.len() as libc::c_ulong,
            remote.as_ptr(),
            remote.len() as libc::c_ulong,
            0 as libc::c_ulong,
        )
    };
    u64::try_from(moved).map_err(|_| io::Error::last_os_error())
}

fn move_all(
    function: Call,
    pid: u32,
    local: &[Segment],
    remote: &[Segment],
    length: u64,
) -> Result<(), CopyError> {
    let mut moved = call(function, pid, local, remote)?;
    // Short counts are rare: a bad page behind good ones, or more than the system moves at once.
    while moved < length {
        let mut parts = [[Segment::default(); MAX_SEGMENTS]; 2];
        let [local_part, remote_part] = &mut parts;
        let ours = window(local, moved, length - moved, local_part);
        let theirs = window(remote, moved, ours.bytes, remote_part);
        if theirs.bytes == 0 {
            return Err(CopyError::Fault);
        }
        moved += call(function, pid, &local_part[..ours.count], &remote_part[..theirs.count])?;
    }
    Ok(())
}

/// Copies through a buffer of ours, which works for any two processes and tells which side fails.
pub(super) fn copy_through(
    source: u32,
    from: &[Segment],
    destination: u32,
    to: &[Segment],
    length: u64,
) -> Result<(), Fault> {
    let because = |fault| {
        move |error| match error {
            CopyError::Fault => fault,
            CopyError::Unreachable => Fault::Unreachable,
        }
    };
    let mut buffer = vec![0u8; length.min(DETOUR_BYTES) as usize];
    let addr = buffer.as_mut_ptr().expose_provenance() as u64;
    let mut moved = 0;
    while moved < length {
        let mut part = [Segment::default(); MAX_SEGMENTS];
        let limit = (length - moved).min(DETOUR_BYTES);
        let Window { count, bytes, .. } = window(from, moved, limit, &mut part);
        read(source, &[Segment { addr, length: bytes }], &part[..count], bytes)
            .map_err(because(Fault::Source))?;
        let mut written = 0;
        while written < bytes {
            let rest = bytes - written;
            let Window { count, bytes: piece, .. } = window(to, moved + written, rest, &mut part);
            let ours = [Segment { addr: addr + written, length: piece }];
            write(destination, &ours, &part[..count], piece)
                .map_err(because(Fault::Destination))?;
            written += piece;
        }
        moved += bytes;
    }
    Ok(())
}

/// A segment of our own memory that is only read. It does not keep the bytes alive.
pub(super) fn ours(bytes: &[u8]) -> Segment {
    Segment { addr: bytes.as_ptr().expose_provenance() as u64, length: bytes.len() as u64 }
}

/// A segment of our own memory that is written. It does not keep the bytes alive.
pub(super) fn ours_mut(bytes: &mut [u8]) -> Segment {
    Segment { addr: bytes.as_mut_ptr().expose_provenance() as u64, length: bytes.len() as u64 }
}

#[cfg(test)]
pub(super) mod tests {
    use std::process;

    use proptest::prelude::*;

    use super::*;
    use crate::system::page_bytes;

    /// Pages of which some may not be accessed.
    pub(in crate::engine) struct Pages {
        base: *mut u8,
        bytes: usize,
    }

    impl Pages {
        /// `count` pages, the one at `hole` inaccessible.
        pub(in crate::engine) fn with_hole(count: usize, hole: usize) -> Self {
            let bytes = count * page_bytes();
            // SAFETY: a new mapping at an address of the system's choice.
            let base = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    bytes,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                    -1,
                    0,
                )
            };
            assert_ne!(base, libc::MAP_FAILED);
            // SAFETY: the page lies in the mapping.
            let page = unsafe { base.add(hole * page_bytes()) };
            // SAFETY: nothing refers to the page yet.
            assert_eq!(unsafe { libc::mprotect(page, page_bytes(), libc::PROT_NONE) }, 0);
            Self { base: base.cast(), bytes }
        }

        pub(in crate::engine) fn segment(&self) -> Segment {
            Segment { addr: self.base.expose_provenance() as u64, length: self.bytes as u64 }
        }
    }

    impl Drop for Pages {
        fn drop(&mut self) {
            // SAFETY: `with_hole` has mapped these bytes, and nobody uses them after this value.
            unsafe { libc::munmap(self.base.cast(), self.bytes) };
        }
    }

    #[test]
    fn a_fault_tells_its_side() {
        let me = process::id();
        let pages = Pages::with_hole(4, 2);
        let mut good = vec![7u8; pages.bytes];
        let length = pages.bytes as u64;
        let bad = [pages.segment()];
        assert_eq!(write(me, &[ours(&good)], &bad, length), Err(CopyError::Fault));
        assert_eq!(copy_through(me, &[ours(&good)], me, &bad, length), Err(Fault::Destination));
        assert_eq!(copy_through(me, &bad, me, &[ours_mut(&mut good)], length), Err(Fault::Source));
        // Up to the hole all is well.
        assert_eq!(write(me, &[ours(&good)], &bad, 2 * page_bytes() as u64), Ok(()));
    }

    #[test]
    fn nobody_is_unreachable() {
        let word = [0u8; 8];
        // No process has such an id.
        assert_eq!(
            write(i32::MAX as u32, &[ours(&word)], &[ours(&word)], 8),
            Err(CopyError::Unreachable)
        );
        assert!(read_word(process::id(), 8).is_err());
        let nonce = 77u64;
        let addr = (&raw const nonce).expose_provenance() as u64;
        assert_eq!(read_word(process::id(), addr).unwrap(), 77);
        try_writing(process::id()).unwrap();
    }

    proptest! {
        #[test]
        fn windows_cut_streams(
            lengths in proptest::collection::vec(0u64..50, 0..20),
            skip in 0u64..600,
            limit in 0u64..600,
        ) {
            let mut addr = 1000;
            let mut stream = Vec::new();
            let segments: Vec<_> = lengths.iter().map(|&length| {
                let segment = Segment { addr, length };
                stream.extend(addr..addr + length);
                addr += length + 3;
                segment
            }).collect();
            let mut out = [Segment::default(); MAX_SEGMENTS];
            let Window { count, bytes, .. } = window(&segments, skip, limit, &mut out);
            let cut: Vec<u64> =
                out[..count].iter().flat_map(|s| s.addr..s.addr + s.length).collect();
            let expected: Vec<u64> =
                stream.into_iter().skip(skip as usize).take(limit as usize).collect();
            prop_assert_eq!(bytes as usize, expected.len());
            prop_assert_eq!(cut, expected);
        }

        #[test]
        fn lists_of_both_sides_may_differ(
            from_lengths in proptest::collection::vec(1usize..5000, 1..8),
            to_pieces in 1usize..9,
            detour: bool,
        ) {
            let total: usize = from_lengths.iter().sum();
            let source: Vec<u8> = (0..total).map(|i| (i * 31 % 251) as u8).collect();
            let mut target = vec![0u8; total];
            let mut rest = &source[..];
            let from: Vec<_> = from_lengths.iter().map(|&length| {
                let (piece, after) = rest.split_at(length);
                rest = after;
                ours(piece)
            }).collect();
            let to: Vec<_> =
                target.chunks_mut(total.div_ceil(to_pieces)).map(ours_mut).collect();
            let me = process::id();
            if detour {
                copy_through(me, &from, me, &to, total as u64).unwrap();
            } else {
                write(me, &from, &to, total as u64).unwrap();
            }
            prop_assert!(source == target);
        }
    }
}
