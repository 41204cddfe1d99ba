//! Zeroed memory that C code, and the adapter behind it, may point into.
//!
//! A memory region is registered once and then written by the adapter whenever a peer sends; a
//! work request points at scatter-gather elements that the library reads later. Rust references
//! promise that nobody else touches what they borrow, so such memory is reached only through
//! [`Cell`]s: reads and writes are ordinary, the address never changes, and foreign access at any
//! time between two of ours is allowed.

use std::cell::Cell;
use std::ffi::c_void;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, Ordering};
use std::{fmt, mem, slice};

use rdma_sys as sys;

/// Types for which all bytes zero is a valid value, as C's `calloc` and `memset` presume, and which
/// may be copied, as C does by assigning.
///
/// # Safety
/// Every field of the type must accept zero, and nothing must happen when it is dropped: integers,
/// raw pointers, `Option` of function pointers, unions of these.
pub unsafe trait Zeroable: Sized {}

macro_rules! zeroable {
    ($($t:ty),* $(,)?) => { $(
        // SAFETY: plain C data of integers, nullable pointers and unions of these.
        unsafe impl Zeroable for $t {}
    )* };
}

zeroable!(
    u8,
    libc::addrinfo,
    libc::sockaddr_in6,
    libc::sockaddr_storage,
    sys::ibv_ah_attr,
    sys::ibv_device_attr,
    sys::ibv_port_attr,
    sys::ibv_qp_attr,
    sys::ibv_qp_init_attr,
    sys::ibv_recv_wr,
    sys::ibv_send_wr,
    sys::ibv_sge,
    sys::ibv_srq_init_attr,
    sys::ibv_wc,
    sys::rdma_addrinfo,
    sys::rdma_conn_param,
);

// SAFETY: an array is its elements.
unsafe impl<T: Zeroable, const N: usize> Zeroable for [T; N] {}

/// A value with all bytes zero: `memset(&value, 0, sizeof value)`.
pub fn zeroed<T: Zeroable>() -> T {
    // SAFETY: `Zeroable` says that all zeros is a value of T.
    unsafe { mem::zeroed() }
}

/// The value of the cell, a structure of C that [`Cell::get`] can't give for want of `Copy`.
pub fn copied<T: Zeroable>(cell: &Cell<T>) -> T {
    // SAFETY: the reference says that a value is there; `Zeroable`, that it may be copied.
    unsafe { cell.as_ptr().read() }
}

/// There is not enough memory. `errno` is `ENOMEM`, as `calloc(3)` sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cannot allocate memory")
    }
}

impl std::error::Error for OutOfMemory {}

/// An array from `calloc(3)`, freed on drop. Dereferences to a slice of [`Cell`]s.
pub struct CArray<T> {
    cells: NonNull<Cell<T>>,
    len: usize,
}

impl<T: Zeroable> CArray<T> {
    /// `len` zeroed elements.
    pub fn calloc(len: usize) -> Result<Self, OutOfMemory> {
        if len == 0 {
            return Ok(Self::default());
        }
        // SAFETY: calloc may be called with any sizes; it refuses what does not fit.
        let address = unsafe { libc::calloc(len, size_of::<T>()) };
        let cells = NonNull::new(address.cast()).ok_or(OutOfMemory)?;
        Ok(Self { cells, len })
    }
}

impl<T> CArray<T> {
    /// Address of the first element, for C code. Dangling if the array is empty.
    pub fn addr(&self) -> *mut c_void {
        self.cells.as_ptr().cast()
    }

    /// Leaves the memory allocated for good, and the array empty: where a region cannot be
    /// deregistered, the adapter may go on writing.
    pub fn leak(&mut self) {
        mem::forget(mem::take(self));
    }
}

impl<T> Default for CArray<T> {
    /// The empty array: C's null pointer.
    fn default() -> Self {
        Self { cells: NonNull::dangling(), len: 0 }
    }
}

impl<T> Deref for CArray<T> {
    type Target = [Cell<T>];

    fn deref(&self) -> &[Cell<T>] {
        // SAFETY: `cells` points at `len` initialised (zeroed) elements, or dangles with len 0;
        // `Cell<T>` has the layout of T and allows changes from elsewhere between accesses.
        unsafe { slice::from_raw_parts(self.cells.as_ptr(), self.len) }
    }
}

impl<T> Drop for CArray<T> {
    fn drop(&mut self) {
        if self.len != 0 {
            // SAFETY: came from calloc and is freed once. `Zeroable` types need no drop.
            unsafe { libc::free(self.addr()) }
        }
    }
}

/// The byte's value now, for a loop that waits until the adapter has written there.
///
/// No call tells that a peer's RDMA write has come, and between two reads by [`Cell::get`] without
/// a call the compiler may take the first one's value for the second, too: such a loop could turn
/// for ever. To the program the adapter is another thread. So the byte is read as one that another
/// thread writes, by an atomic load, and `Acquire` keeps what is read later from being older.
pub fn load(byte: &Cell<u8>) -> u8 {
    // SAFETY: the reference says that a byte is there, which has no alignment; this program
    // changes it in no other thread.
    unsafe { AtomicU8::from_ptr(byte.as_ptr()) }.load(Ordering::Acquire)
}

/// The bytes up to the first NUL as text, as `%s` prints them.
pub fn c_text(bytes: &[Cell<u8>]) -> String {
    let text: Vec<u8> = bytes.iter().map(Cell::get).take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeroed_and_writable() {
        let bytes = CArray::<u8>::calloc(5).unwrap();
        assert!(bytes.iter().all(|byte| byte.get() == 0));
        bytes[0].set(b'h');
        bytes[1].set(b'i');
        assert_eq!(c_text(&bytes), "hi");
        assert_eq!((copied(&bytes[0]), copied(&bytes[2])), (b'h', 0));
        assert_eq!(bytes.len(), 5);
    }

    #[test]
    fn foreign_writes_are_seen() {
        let bytes = CArray::<u8>::calloc(3).unwrap();
        // SAFETY: three bytes are there.
        unsafe { bytes.addr().cast::<u8>().copy_from(b"abc".as_ptr(), 3) };
        assert_eq!(bytes[2].get(), b'c');
        assert_eq!(load(&bytes[2]), b'c');
    }

    #[test]
    fn what_is_leaked_is_given_to_nobody_else() {
        let mut bytes = CArray::<u8>::calloc(64).unwrap();
        let addr = bytes.addr();
        bytes.leak();
        assert!(bytes.is_empty());
        let others: Vec<_> = (0..100).map(|_| CArray::<u8>::calloc(64).unwrap()).collect();
        assert!(others.iter().all(|other| other.addr() != addr));
    }

    #[test]
    fn too_much_is_refused() {
        assert_eq!(CArray::<u8>::calloc(usize::MAX).err(), Some(OutOfMemory));
        assert_eq!(CArray::<sys::ibv_sge>::calloc(usize::MAX / 2).err(), Some(OutOfMemory));
    }

    #[test]
    fn empty_is_harmless() {
        assert!(CArray::<u8>::calloc(0).unwrap().is_empty());
        assert!(CArray::<u8>::default().is_empty());
    }
}
