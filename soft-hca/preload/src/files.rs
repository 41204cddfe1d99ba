//! `open`, `stat` and their kin: device files that are not there.

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::io;
use std::mem::MaybeUninit;

use soft_hca_core::device_file::DeviceFile;

use crate::aside;
use crate::client;
use crate::fail;
use crate::real;
use crate::sysfs::{self, Moved};

/// The device file that a C path names.
unsafe fn device_of(path: *const c_char) -> Option<DeviceFile> {
    if path.is_null() {
        return None;
    }
    // SAFETY: the caller gives a C string.
    DeviceFile::of_path(unsafe { CStr::from_ptr(path) }.to_bytes())
}

fn open_device(device: DeviceFile, flags: c_int) -> c_int {
    aside(|| client::open(device, flags)).unwrap_or_else(fail)
}

/// Opens a file that is none of ours. Counters in sysfs are written when they are opened, so one that
/// is not to wait (`O_NONBLOCK`, as of `grep -r`) waits all the same.
unsafe fn open_other(
    dir: c_int,
    path: *const c_char,
    flags: c_int,
    open: impl Fn(c_int) -> c_int,
) -> c_int {
    let fd = open(flags);
    let is_refused = fd < 0
        && flags & libc::O_NONBLOCK != 0
        && io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock;
    // SAFETY: the caller gives a C string.
    if is_refused && unsafe { sysfs::is_in_tree(dir, path) } {
        return open(flags & !libc::O_NONBLOCK);
    }
    fd
}

/// `open(2)`
unsafe fn open_path(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    // SAFETY: the caller gives null or a C string, as this function's contract wants it.
    let moved = unsafe { sysfs::moved(path) };
    let path = moved.as_ref().map_or(path, Moved::as_ptr);
    // SAFETY: the caller keeps this function's contract, which is that of the C library's.
    let open = |flags| unsafe { real::open(path, flags, mode) };
    // SAFETY: the caller keeps this function's contract, which is that of the C library's.
    match unsafe { device_of(path) } {
        Some(device) => open_device(device, flags),
        // SAFETY: the caller keeps this function's contract, which is that of the C library's.
        None => unsafe { open_other(libc::AT_FDCWD, path, flags, open) },
    }
}

macro_rules! open_functions {
    ($($name:ident)*) => { $(
        #[doc = concat!("`", stringify!($name), "(2)`. The mode is only there if a file is created;")]
        /// reading it otherwise does no harm.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
            // SAFETY: the caller keeps this function's contract, which is that of the C library's.
            unsafe { open_path(path, flags, mode) }
        }
    )* };
}

open_functions!(open open64);

macro_rules! openat_functions {
    ($($name:ident)*) => { $(
        #[doc = concat!("`", stringify!($name), "(2)`")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(dir: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
            // SAFETY: the caller gives null or a C string, as this function's contract wants it.
            let moved = unsafe { sysfs::moved(path) };
            let path = moved.as_ref().map_or(path, Moved::as_ptr);
            // SAFETY: the caller keeps this function's contract, which is that of the C library's.
            match unsafe { device_of(path) } {
                Some(device) => open_device(device, flags),
                // SAFETY: the caller keeps this function's contract, which is that of the C library's.
                None => unsafe { open_other(dir, path, flags, |flags| real::openat(dir, path, flags, mode)) },
            }
        }
    )* };
}

openat_functions!(openat openat64);

macro_rules! fortified_open_functions {
    ($($name:ident)*) => { $(
        /// The name of `open` without a mode in hardened programs.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(path: *const c_char, flags: c_int) -> c_int {
            // SAFETY: the caller keeps this function's contract, which is that of the C library's.
            unsafe { open_path(path, flags, 0) }
        }
    )* };
}

fortified_open_functions!(__open_2 __open64_2);

/// A character device that everybody may use.
const DEVICE_MODE: libc::mode_t = libc::S_IFCHR | 0o666;

/// Makes a status look like that of a character device.
unsafe fn disguise(device: DeviceFile, stat: *mut libc::stat) {
    let (major, minor) = device.number();
    // SAFETY: the caller gives a structure to be filled.
    let stat = unsafe { &mut *stat };
    stat.st_mode = DEVICE_MODE;
    stat.st_rdev = libc::makedev(major, minor);
    stat.st_size = 0;
}

/// The status of a device file that is not opened.
unsafe fn stat_device(device: DeviceFile, stat: *mut libc::stat) -> c_int {
    // SAFETY: the caller gives a structure to be filled; zeros are a valid one.
    unsafe { stat.cast::<MaybeUninit<libc::stat>>().write(MaybeUninit::zeroed()) };
    // SAFETY: the structure of the caller's was filled above.
    unsafe { disguise(device, stat) };
    0
}

/// `stat(2)` and `lstat(2)`: `real` is the C library's, for files that are none of ours.
unsafe fn stat_path(
    path: *const c_char,
    stat: *mut libc::stat,
    real: unsafe fn(*const c_char, *mut libc::stat) -> c_int,
) -> c_int {
    // SAFETY: the caller gives null or a C string, as this function's contract wants it.
    let moved = unsafe { sysfs::moved(path) };
    let path = moved.as_ref().map_or(path, Moved::as_ptr);
    // SAFETY: the caller keeps this function's contract, which is that of the C library's.
    match unsafe { device_of(path) } {
        // SAFETY: the caller keeps this function's contract, which is that of the C library's.
        Some(device) => unsafe { stat_device(device, stat) },
        // SAFETY: the caller keeps this function's contract, which is that of the C library's.
        None => unsafe { real(path, stat) },
    }
}

macro_rules! stat_functions {
    ($($name:ident => $real:ident;)*) => { $(
        #[doc = concat!("`", stringify!($name), "(2)`")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(path: *const c_char, stat: *mut libc::stat) -> c_int {
            // SAFETY: the caller keeps this function's contract, which is that of the C library's.
            unsafe { stat_path(path, stat, real::$real) }
        }
    )* };
}

stat_functions! {
    stat => stat;
    stat64 => stat;
    lstat => lstat;
    lstat64 => lstat;
}

macro_rules! old_stat_functions {
    ($($name:ident => $new:ident;)*) => { $(
        /// The name of `stat` in programs built with a C library before 2.33.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(_version: c_int, path: *const c_char, buffer: *mut libc::stat) -> c_int {
            // SAFETY: the caller keeps this function's contract, which is that of the C library's.
            unsafe { stat_path(path, buffer, real::$new) }
        }
    )* };
}

old_stat_functions! {
    __xstat => stat;
    __xstat64 => stat;
    __lxstat => lstat;
    __lxstat64 => lstat;
}

/// `fstat(2)`, for the functions that are called for it. They do not call each other: a program may have an `fstat` of
/// its own that calls `__fxstat`, as those with clang's ThreadSanitizer have.
unsafe fn stat_descriptor(fd: c_int, stat: *mut libc::stat) -> c_int {
    // SAFETY: the caller keeps this function's contract, which is that of the C library's.
    let ret = unsafe { real::fstat(fd, stat) };
    if ret == 0 && client::ours(fd) {
        if let Some(device) = client::device(fd) {
            // SAFETY: the call above has filled the caller's structure, as it returns 0.
            unsafe { disguise(device, stat) };
        }
    }
    ret
}

macro_rules! fstat_functions {
    ($($name:ident)*) => { $(
        #[doc = concat!("`", stringify!($name), "(2)`")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(fd: c_int, stat: *mut libc::stat) -> c_int {
            // SAFETY: the caller keeps this function's contract, which is that of the C library's.
            unsafe { stat_descriptor(fd, stat) }
        }
    )* };
}

fstat_functions!(fstat fstat64);

macro_rules! old_fstat_functions {
    ($($name:ident)*) => { $(
        /// The name of `fstat` in programs built with a C library before 2.33.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(_version: c_int, fd: c_int, buffer: *mut libc::stat) -> c_int {
            // SAFETY: the caller keeps this function's contract, which is that of the C library's.
            unsafe { stat_descriptor(fd, buffer) }
        }
    )* };
}

old_fstat_functions!(__fxstat __fxstat64);

/// `access(2)`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn access(path: *const c_char, mode: c_int) -> c_int {
    // SAFETY: the caller gives null or a C string, as this function's contract wants it.
    let moved = unsafe { sysfs::moved(path) };
    let path = moved.as_ref().map_or(path, Moved::as_ptr);
    // SAFETY: the caller keeps this function's contract, which is that of the C library's.
    match unsafe { device_of(path) } {
        Some(_) if mode & libc::X_OK == 0 => 0,
        // SAFETY: the caller keeps this function's contract, which is that of the C library's.
        _ => unsafe { real::access(path, mode) },
    }
}

/// `fstatat(2)`
unsafe fn stat_at(dir: c_int, path: *const c_char, stat: *mut libc::stat, flags: c_int) -> c_int {
    // SAFETY: the caller gives null or a C string, as this function's contract wants it.
    let moved = unsafe { sysfs::moved(path) };
    let path = moved.as_ref().map_or(path, Moved::as_ptr);
    // SAFETY: the caller keeps this function's contract, which is that of the C library's.
    match unsafe { device_of(path) } {
        // SAFETY: the caller keeps this function's contract, which is that of the C library's.
        Some(device) => return unsafe { stat_device(device, stat) },
        // SAFETY: the caller gives null or a C string, as this function's contract wants it.
        None if unsafe { is_own(dir, path, flags) } => {
            // SAFETY: the caller keeps this function's contract, which is that of the C library's.
            return unsafe { stat_descriptor(dir, stat) };
        }
        None => {}
    }
    // SAFETY: the caller keeps this function's contract, which is that of the C library's.
    unsafe { real::fstatat(dir, path, stat, flags) }
}

macro_rules! fstatat_functions {
    ($($name:ident)*) => { $(
        #[doc = concat!("`", stringify!($name), "(2)`")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(dir: c_int, path: *const c_char, stat: *mut libc::stat, flags: c_int) -> c_int {
            // SAFETY: the caller keeps this function's contract, which is that of the C library's.
            unsafe { stat_at(dir, path, stat, flags) }
        }
    )* };
}

fstatat_functions!(fstatat fstatat64);

macro_rules! old_fstatat_functions {
    ($($name:ident)*) => { $(
        /// The name of `fstatat` in programs built with a C library before 2.33.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(_version: c_int, dir: c_int, path: *const c_char, buffer: *mut libc::stat, flags: c_int) -> c_int {
            // SAFETY: the caller keeps this function's contract, which is that of the C library's.
            unsafe { stat_at(dir, path, buffer, flags) }
        }
    )* };
}

old_fstatat_functions!(__fxstatat __fxstatat64);

/// Whether a path relative to a descriptor is the descriptor itself, and that is ours.
unsafe fn is_own(fd: c_int, path: *const c_char, flags: c_int) -> bool {
    // SAFETY: the caller gives a C string or null.
    let is_empty = || path.is_null() || unsafe { *path } == 0;
    flags & libc::AT_EMPTY_PATH != 0 && client::ours(fd) && is_empty()
}

/// `statx(2)`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn statx(
    dir: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    buffer: *mut libc::statx,
) -> c_int {
    // SAFETY: the caller gives null or a C string, as this function's contract wants it.
    let moved = unsafe { sysfs::moved(path) };
    let path = moved.as_ref().map_or(path, Moved::as_ptr);
    // SAFETY: the caller gives null or a C string, as this function's contract wants it.
    let device = match unsafe { device_of(path) } {
        // SAFETY: the caller gives null or a C string, as this function's contract wants it.
        None if unsafe { is_own(dir, path, flags) } => client::device(dir),
        device => device,
    };
    let Some(device) = device else {
        // SAFETY: the caller keeps this function's contract, which is that of the C library's.
        return unsafe { real::statx(dir, path, flags, mask, buffer) };
    };
    // SAFETY: the caller gives a structure to be filled; zeros are a valid one.
    unsafe { buffer.cast::<MaybeUninit<libc::statx>>().write(MaybeUninit::zeroed()) };
    // SAFETY: the structure of the caller's was filled above.
    let status = unsafe { &mut *buffer };
    let (major, minor) = device.number();
    status.stx_mask = libc::STATX_TYPE | libc::STATX_MODE;
    status.stx_mode = DEVICE_MODE as u16;
    (status.stx_rdev_major, status.stx_rdev_minor) = (major, minor);
    0
}

/// `faccessat(2)`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn faccessat(
    dir: c_int,
    path: *const c_char,
    mode: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller gives null or a C string, as this function's contract wants it.
    let moved = unsafe { sysfs::moved(path) };
    let path = moved.as_ref().map_or(path, Moved::as_ptr);
    // SAFETY: the caller keeps this function's contract, which is that of the C library's.
    match unsafe { device_of(path) } {
        Some(_) if mode & libc::X_OK == 0 => 0,
        // SAFETY: the caller keeps this function's contract, which is that of the C library's.
        _ => unsafe { real::faccessat(dir, path, mode, flags) },
    }
}
