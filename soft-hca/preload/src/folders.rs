//! Folders of the tree that stands for `/sys` are read in the order of their names.
//!
//! libibverbs lists devices as it finds them there, and many programs take the first one. Each file system has an order
//! of its own: tmpfs, where runtime folders are, lists the newest entry first.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int};
use std::mem::offset_of;
use std::ptr;
use std::sync::MutexGuard;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use crate::aside;
use crate::client::OfProcess;
use crate::real;
use crate::sysfs::{self, Moved};

/// Open folders with what is left to be read of them, by their streams' addresses.
static FOLDERS: OfProcess<BTreeMap<usize, Folder>> = OfProcess::new();
/// How many there are: as long as there is none, nothing is looked up.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The entries of a folder, which stay where they are, as a program has a pointer to one, and which comes next.
struct Folder {
    entries: Box<[libc::dirent64]>,
    next: usize,
}

fn folders() -> MutexGuard<'static, BTreeMap<usize, Folder>> {
    FOLDERS.lock()
}

/// A copy of an entry, which has as many bytes as it says.
unsafe fn copy(entry: *const libc::dirent64) -> libc::dirent64 {
    // SAFETY: zeros are an entry without a name.
    let mut copied: libc::dirent64 = unsafe { std::mem::zeroed() };
    // SAFETY: the caller has an entry. What it says of its length holds for what can be read of it.
    unsafe {
        let length =
            ptr::read_unaligned(entry.byte_add(offset_of!(libc::dirent64, d_reclen)).cast::<u16>());
        let length = usize::from(length).min(size_of::<libc::dirent64>());
        ptr::copy_nonoverlapping(entry.cast::<u8>(), ptr::from_mut(&mut copied).cast(), length);
    }
    copied
}

fn name(entry: &libc::dirent64) -> &[u8] {
    // SAFETY: the C library's entries have names that end with NUL.
    unsafe { CStr::from_ptr(entry.d_name.as_ptr()) }.to_bytes()
}

/// A stream of a folder was opened, by this path. The caller has both.
unsafe fn opened(stream: *mut libc::DIR, path: *const c_char) {
    // SAFETY: the caller has the path, a C string.
    if !unsafe { sysfs::is_in_tree(libc::AT_FDCWD, path) } {
        return;
    }
    let mut entries = Vec::new();
    // SAFETY: the caller's stream, which nobody else has yet.
    while let Some(entry) = ptr::NonNull::new(unsafe { real::readdir64(stream) }) {
        // SAFETY: an entry of the C library's.
        entries.push(unsafe { copy(entry.as_ptr()) });
    }
    entries.sort_by(|one, other| name(one).cmp(name(other)));
    folders().insert(stream.addr(), Folder { entries: entries.into(), next: 0 });
    COUNT.fetch_add(1, AcqRel);
}

/// The next entry of a folder that is read in order, null at its end; `None` for other streams.
fn next(stream: *mut libc::DIR) -> Option<*mut libc::dirent64> {
    if COUNT.load(Acquire) == 0 {
        return None;
    }
    let mut folders = folders();
    let folder = folders.get_mut(&stream.addr())?;
    folder.next += 1;
    let entry = folder.entries.get_mut(folder.next - 1);
    Some(entry.map_or(ptr::null_mut(), ptr::from_mut))
}

/// `opendir(3)`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn opendir(path: *const c_char) -> *mut libc::DIR {
    // SAFETY: the caller gives null or a C string, as this function's contract wants it.
    let moved = unsafe { sysfs::moved(path) };
    let path = moved.as_ref().map_or(path, Moved::as_ptr);
    // SAFETY: the caller keeps this function's contract, which is that of the C library's.
    let stream = unsafe { real::opendir(path) };
    if !stream.is_null() {
        // SAFETY: `opendir` has opened the stream by this path, and the program has both.
        aside(|| unsafe { opened(stream, path) });
    }
    stream
}

/// `readdir(3)`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn readdir(stream: *mut libc::DIR) -> *mut libc::dirent {
    // On 64-bit systems the two entries are the same.
    // SAFETY: the caller keeps this function's contract, which is that of the C library's.
    unsafe { readdir64(stream) }.cast()
}

/// `readdir64(3)`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn readdir64(stream: *mut libc::DIR) -> *mut libc::dirent64 {
    // SAFETY: the caller keeps this function's contract, which is that of the C library's.
    next(stream).unwrap_or_else(|| unsafe { real::readdir64(stream) })
}

/// `rewinddir(3)`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rewinddir(stream: *mut libc::DIR) {
    if COUNT.load(Acquire) != 0 {
        folders().entry(stream.addr()).and_modify(|folder| folder.next = 0);
    }
    // SAFETY: the caller keeps this function's contract, which is that of the C library's.
    unsafe { real::rewinddir(stream) };
}

/// `closedir(3)`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn closedir(stream: *mut libc::DIR) -> c_int {
    if COUNT.load(Acquire) != 0 && folders().remove(&stream.addr()).is_some() {
        COUNT.fetch_sub(1, AcqRel);
    }
    // SAFETY: the caller keeps this function's contract, which is that of the C library's.
    unsafe { real::closedir(stream) }
}
