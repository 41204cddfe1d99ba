//! Maps the arena, the only place that turns its address into references.
#![allow(unsafe_code, reason = "a mapping that becomes references to atomics")]

use std::io;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::arena::layout::{
    ARENA_BYTES, Arena, BOUNCE_BUFFER_BYTES, BOUNCE_BUFFERS_START, HEAP_START, MAGIC,
    MAX_BOUNCE_SLOTS, MIN_PAGE,
};
use crate::arena::ring_location::RingLocation;
use crate::memcheck;
use crate::ring::{self, Ring};
use crate::system;

/// A mapping of the whole arena, for as long as the value lives.
///
/// Dereferences to the tables, which consist of atomics: see [access](crate::arena#access-to-shared-memory).
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    file: OwnedFd,
    /// Device and inode of the file.
    identity: (u64, u64),
}

// SAFETY: the mapping is the process's and no thread's own: any thread may use and unmap it.
unsafe impl Send for Mapping {}
// SAFETY: a shared `Mapping` gives references to atomics only, and addresses (`arena`, on access), which threads may use
// at the same time as other processes do.
unsafe impl Sync for Mapping {}

fn status(fd: BorrowedFd<'_>) -> io::Result<libc::stat> {
    let mut status = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the structure is borrowed for the call, which writes to nothing else.
    if unsafe { libc::fstat(fd.as_raw_fd(), status.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeros are a valid `stat`, and so is what a call that has succeeded has written over them.
    Ok(unsafe { status.assume_init() })
}

impl Mapping {
    /// A new, empty arena.
    pub fn create() -> io::Result<Self> {
        let file = system::memory_file(c"soft-hca")?;
        file.set_len(ARENA_BYTES as u64)?;
        system::seal_size(&file)?;
        let mapping = Self::map(file.into())?;
        mapping.magic.store(MAGIC, Ordering::Release);
        Ok(mapping)
    }

    /// Maps an arena that another process has created; refuses a file that is none.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        if status(fd.as_fd())?.st_size != ARENA_BYTES as libc::off_t {
            return Err(io::Error::from_raw_os_error(libc::EPROTO));
        }
        let mapping = Self::map(fd)?;
        if mapping.magic.load(Ordering::Acquire) != MAGIC {
            return Err(io::Error::from_raw_os_error(libc::EPROTO));
        }
        Ok(mapping)
    }

    fn map(file: OwnedFd) -> io::Result<Self> {
        let status = status(file.as_fd())?;
        // SAFETY: the kernel chooses the address, so that no memory in use is replaced.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                ARENA_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                file.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // A core dump reads every page, and so would allocate all that no table or ring has used yet.
        // SAFETY: advice on what was mapped above.
        if unsafe { libc::madvise(base, ARENA_BYTES, libc::MADV_DONTDUMP) } != 0 {
            let error = io::Error::last_os_error();
            // SAFETY: unmaps what was mapped above, to which nothing refers.
            unsafe { libc::munmap(base, ARENA_BYTES) };
            return Err(error);
        }
        // The tables before the heap are left out: system calls are given their locks.
        let address = base.expose_provenance();
        memcheck::leave_alone(address + HEAP_START, ARENA_BYTES - HEAP_START);
        let base = NonNull::new(base.cast()).expect("mmap does not map address 0 unasked");
        Ok(Self { base, file, identity: (status.st_dev, status.st_ino) })
    }

    /// The file that holds the arena.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The file, unless the program has closed its descriptor, as one does that closes all it
    /// finds: the number may be another file's now.
    pub fn file_if_open(&self) -> Option<BorrowedFd<'_>> {
        let status = status(self.file()).ok()?;
        ((status.st_dev, status.st_ino) == self.identity).then(|| self.file())
    }

    /// A slot's bounce buffer: its address here, and where it begins in the file.
    pub fn bounce_buffer(&self, slot: usize) -> (u64, u64) {
        assert!(slot < MAX_BOUNCE_SLOTS, "so many bounces there are");
        let offset = BOUNCE_BUFFERS_START + slot * BOUNCE_BUFFER_BYTES;
        (self.base.as_ptr().expose_provenance() as u64 + offset as u64, offset as u64)
    }

    /// The ring at a place, if the place makes sense: within the heap, aligned, not too big.
    #[inline]
    pub fn ring(&self, place: &RingLocation) -> Option<Ring<'_>> {
        let offset = usize::try_from(place.offset.load(Ordering::Acquire)).ok()?;
        let mask = place.mask.load(Ordering::Acquire);
        let log2_slot = place.log2_slot.load(Ordering::Acquire);
        let bytes = ring::bytes(mask, log2_slot)?;
        let end = offset.checked_add(bytes)?;
        if offset < HEAP_START || offset % MIN_PAGE != 0 || end > ARENA_BYTES {
            return None;
        }
        // SAFETY: `bytes` has given the ring's size for this mask and slot; a range of that size lies within the mapping
        // by the checks above, which outlives the ring, and begins on a page. Nothing has a reference to it but rings
        // (`arena`, on access).
        Some(unsafe { Ring::new(self.base.as_ptr().add(offset), mask, log2_slot) })
    }

    /// How many work requests the ring at a place has from a cursor on, and how many it has room for; none
    /// if there is no ring.
    pub fn posted(&self, place: &RingLocation, next: &AtomicU32) -> (u32, u32) {
        self.ring(place).map_or((0, 0), |ring| {
            let next = next.load(Ordering::Acquire) & ring.mask();
            (ring.distance(next, ring.producer()), ring.mask())
        })
    }
}

impl Deref for Mapping {
    type Target = Arena;

    fn deref(&self) -> &Arena {
        // SAFETY: the mapping is page-aligned and longer than the tables, and lives as long as `self`. An `Arena` consists of
        // atomics, for which any bytes are valid, whoever writes them.
        unsafe { self.base.cast().as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `map` has mapped these bytes for this value alone, and all references to them borrow from it.
        unsafe { libc::munmap(self.base.as_ptr().cast(), ARENA_BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    #[test]
    fn nobody_can_change_its_size() {
        let arena = Mapping::create().unwrap();
        let file = File::from(arena.file().try_clone_to_owned().unwrap());
        for bytes in [0, ARENA_BYTES as u64 - 1, ARENA_BYTES as u64 + 1] {
            let error = file.set_len(bytes).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EPERM), "{bytes}");
        }
        let mapped = Mapping::from_fd(file.into()).unwrap();
        assert_eq!(mapped.magic.load(Ordering::Acquire), MAGIC);
    }

    #[test]
    fn a_core_dump_leaves_it_out() {
        let arena = Mapping::create().unwrap();
        let begin = format!("{:x}-", arena.base.as_ptr().expose_provenance());
        let maps = fs::read_to_string("/proc/self/smaps").unwrap();
        let own = maps.lines().skip_while(|line| !line.starts_with(&begin));
        let flags = own.map(str::trim).find_map(|line| line.strip_prefix("VmFlags:")).unwrap();
        assert!(flags.split_whitespace().any(|flag| flag == "dd"), "{flags}");
    }
}
