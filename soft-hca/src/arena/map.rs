//! Maps the arena, the only place that turns its address into references.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

use crate::arena::layout::{ARENA_BYTES, Arena, HEAP_START, MAGIC, PAGE, RingPlace};
use crate::ring::{self, Ring};

/// A mapping of the whole arena, for as long as the value lives.
///
/// Dereferences to the tables. They consist of atomics, so sharing them with other processes is
/// sound whatever those write.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
}

// SAFETY: the memory is shared between processes anyway and only reached through atomics.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

/// Name of the memory file, as it shows in /proc/PID/maps.
const NAME: &CStr = c"soft-hca";

impl Mapping {
    /// A new, empty arena: the file that holds it, to be given to others, and its mapping.
    pub fn create() -> io::Result<(OwnedFd, Self)> {
        // SAFETY: the name is a C string.
        let fd = unsafe { libc::memfd_create(NAME.as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was created above and is nobody else's.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: resizes our own file.
        if unsafe { libc::ftruncate(fd.as_raw_fd(), ARENA_BYTES as libc::off_t) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let mapping = Self::map(fd.as_fd())?;
        mapping.magic.store(MAGIC, Ordering::Release);
        Ok((fd, mapping))
    }

    /// Maps an arena that another process has created; refuses a file that is none.
    pub fn from_fd(fd: BorrowedFd<'_>) -> io::Result<Self> {
        let mut stat = std::mem::MaybeUninit::<libc::stat>::zeroed();
        // SAFETY: fstat fills the structure that it is given.
        let ret = unsafe { libc::fstat(fd.as_raw_fd(), stat.as_mut_ptr()) };
        // SAFETY: zeroed above or filled by the call; it consists of integers.
        let size = unsafe { stat.assume_init() }.st_size;
        if ret != 0 || size != ARENA_BYTES as libc::off_t {
            return Err(io::Error::from_raw_os_error(libc::EPROTO));
        }
        let mapping = Self::map(fd)?;
        if mapping.magic.load(Ordering::Acquire) != MAGIC {
            return Err(io::Error::from_raw_os_error(libc::EPROTO));
        }
        Ok(mapping)
    }

    /// An arena of this process alone, for tests.
    pub fn anonymous() -> io::Result<Self> {
        Self::create().map(|(_, mapping)| mapping)
    }

    fn map(fd: BorrowedFd<'_>) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the system's choice.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                ARENA_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                fd.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).expect("mmap does not map address 0 unasked");
        Ok(Self { base })
    }

    /// The ring at a place, if the place makes sense: within the heap, aligned, not too big.
    pub fn ring(&self, place: &RingPlace) -> Option<Ring<'_>> {
        let offset = usize::try_from(place.offset.load(Ordering::Acquire)).ok()?;
        let mask = place.mask.load(Ordering::Acquire);
        let log2_slot = place.log2_slot.load(Ordering::Acquire);
        let bytes = ring::bytes(mask, log2_slot)?;
        let end = offset.checked_add(bytes)?;
        if offset < HEAP_START || !offset.is_multiple_of(PAGE) || end > ARENA_BYTES {
            return None;
        }
        // SAFETY: the range lies within the mapping, which outlives the ring, and the ring
        // reaches it by atomic and volatile access only.
        Some(unsafe { Ring::new(self.base.as_ptr().add(offset), mask, log2_slot) })
    }
}

impl Deref for Mapping {
    type Target = Arena;

    fn deref(&self) -> &Arena {
        // SAFETY: the mapping is page-aligned, longer than the tables, and zeroed memory is a
        // valid `Arena`, which consists of atomics only.
        unsafe { self.base.cast().as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: unmaps what `map` has mapped; all references borrow from `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), ARENA_BYTES) };
    }
}
