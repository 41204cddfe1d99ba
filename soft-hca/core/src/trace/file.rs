//! The file that a ring is in: memory that the process which traces and the one which reads map,
//! and that the system gives by and by.
#![allow(unsafe_code, reason = "a mapped file")]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use super::MIN_LIMIT;
use super::event::VERSION;
use crate::system;

/// First word of the file, with the version of what is traced.
const MAGIC: u64 = u64::from_le_bytes([b'h', b'c', b'a', b't', b'r', b'a', b'c', VERSION]);
/// The file grows by so much: the system gives memory here, or says that it has none.
pub(super) const CHUNK: u64 = MIN_LIMIT;

/// A process traces in another layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a process of the fabric is traced by another version of soft-hca than this one")]
pub struct OtherVersion;

/// Begins the file.
#[repr(C, align(64))]
pub(super) struct Header {
    pub magic: AtomicU64,
    /// Index of the process in the fabric.
    pub index: AtomicU32,
    /// The recording.
    pub generation: AtomicU32,
    /// Bytes up to which the file has memory.
    allocated: AtomicU64,
    /// Where the next record goes.
    pub end: AtomicU64,
    /// Up to where records have been read, and their place is free.
    pub freed: AtomicU64,
    /// Records for which there was no room.
    pub dropped: AtomicU64,
}

/// A mapped file with a header.
#[derive(Debug)]
pub(super) struct MappedFile {
    pub base: NonNull<u8>,
    /// A multiple of [`CHUNK`].
    pub length: usize,
    file: File,
    /// Device and inode of the file.
    identity: (u64, u64),
}

fn identity(file: &File) -> io::Result<(u64, u64)> {
    file.metadata().map(|found| (found.dev(), found.ino()))
}

/// How long a file the process may write.
fn file_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is borrowed for the call, which writes to nothing else.
    match unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } {
        0 => limit.rlim_cur,
        _ => u64::MAX,
    }
}

impl MappedFile {
    /// Creates a file for at most `limit` bytes.
    pub(super) fn create(path: &Path, index: u32, generation: u32, limit: u64) -> io::Result<Self> {
        // Beyond its limit for files a process would get a signal.
        let length = limit.min(file_limit()) / CHUNK * CHUNK;
        if length == 0 {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)?;
        file.set_len(length)?;
        let mapped = Self::map(file, length as usize)?;
        mapped.allocate(0, CHUNK)?;
        let header = mapped.header();
        header.index.store(index, Relaxed);
        header.generation.store(generation, Relaxed);
        header.allocated.store(CHUNK, Relaxed);
        header.magic.store(MAGIC, Release);
        Ok(mapped)
    }

    /// Maps the file of another process; `None` if that has not written its header yet, and
    /// [`OtherVersion`] if it traces in another layout.
    pub(super) fn open(path: &Path) -> io::Result<Option<Self>> {
        let file =
            OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
        let length = file.metadata()?.len() / CHUNK * CHUNK;
        if length == 0 {
            return Ok(None);
        }
        let mapped = Self::map(file, length as usize)?;
        match mapped.header().magic.load(Acquire) {
            MAGIC => Ok(Some(mapped)),
            0 => Ok(None),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, OtherVersion)),
        }
    }

    fn map(file: File, length: usize) -> io::Result<Self> {
        let identity = identity(&file)?;
        // SAFETY: the kernel chooses the address, so that no memory in use is replaced.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).expect("mmap does not map address 0 unasked");
        Ok(Self { base, length, file: system::hide(file.into()).into(), identity })
    }

    pub(super) fn header(&self) -> &Header {
        // SAFETY: the mapping is page-aligned and longer than the header, which consists of atomics: any bytes are valid,
        // whoever writes them (`arena`, on access to shared memory).
        unsafe { self.base.cast().as_ref() }
    }

    /// Has the system give memory to a part of the file.
    fn allocate(&self, from: u64, to: u64) -> io::Result<()> {
        // A program may have closed our descriptor, as one does that closes all it finds.
        if identity(&self.file)? != self.identity {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        let length = (to - from) as libc::off_t;
        // SAFETY: the call has a descriptor and numbers, and touches no memory of this process.
        match unsafe { libc::posix_fallocate(self.file.as_raw_fd(), from as libc::off_t, length) } {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// Whether there is memory up to an offset.
    pub(super) fn reaches(&self, end: u64) -> bool {
        if end > self.length as u64 {
            return false;
        }
        let allocated = self.header().allocated.load(Acquire);
        if end <= allocated {
            return true;
        }
        let wanted = end.next_multiple_of(CHUNK).min(self.length as u64);
        if self.allocate(allocated, wanted).is_err() {
            return false;
        }
        self.header().allocated.fetch_max(wanted, AcqRel);
        true
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        // SAFETY: `map` has mapped these bytes for this value alone, and all references to them borrow from it.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.length) };
    }
}
