//! Copies between a process's own memory and a slot's bounce buffer, by reading and writing the arena's
//! file.
//!
//! No process lacks a permission for that. The system checks the addresses: memory
//! that is not there, or may not be written, is an error and no signal.
#![allow(unsafe_code, reason = "one call with our own memory by its address")]

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use crate::arena::Mapping;
use crate::engine::process_memory::CopyError;
use crate::engine::segments::{MAX_SEGMENTS, Segment, Window, window};

/// From where to where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// From memory to the bounce buffer.
    In,
    /// From the bounce buffer to memory.
    Out,
}

/// Moves `length` bytes between our own memory and the bounce buffer of a slot, from `offset` on.
pub(super) fn transfer(
    arena: &Mapping,
    way: Way,
    slot: usize,
    offset: u64,
    segments: &[Segment],
    length: u64,
) -> Result<(), CopyError> {
    let file = arena.file_if_open().ok_or(CopyError::Unreachable)?.as_raw_fd();
    let start = arena.bounce_buffer(slot).1 + offset;
    let mut moved = 0;
    while moved < length {
        let mut part = [Segment::default(); MAX_SEGMENTS];
        let Window { count, bytes, .. } = window(segments, moved, length - moved, &mut part);
        if bytes == 0 {
            return Err(CopyError::Fault);
        }
        moved += call(way, file, &part[..count], start + moved)?;
    }
    Ok(())
}

/// One call, which may move less than there is. The library's functions would be points at which
/// a thread may be cancelled.
fn call(way: Way, file: RawFd, segments: &[Segment], at: u64) -> Result<u64, CopyError> {
    let number = match way {
        Way::In => libc::SYS_pwritev,
        Way::Out => libc::SYS_preadv,
    };
    // SAFETY: the list is as long as said and has the layout of `iovec`. What it points to is
    // checked by the system; memory that is written is what this program registered for that, or
    // a variable of ours whose address was exposed.
    let moved = unsafe { libc::syscall(number, file, segments.as_ptr(), segments.len(), at, 0) };
    match u64::try_from(moved) {
        Ok(0) => Err(CopyError::Fault),
        Ok(moved) => Ok(moved),
        Err(_) => match io::Error::last_os_error().raw_os_error() {
            Some(libc::EFAULT | libc::EINVAL) => Err(CopyError::Fault),
            Some(libc::EINTR) => call(way, file, segments, at),
            _ => Err(CopyError::Unreachable),
        },
    }
}
