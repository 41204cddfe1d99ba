//! `close`, `dup`, `fcntl` and their kin: how long a device file stays open.

use std::ffi::{c_int, c_uint, c_ulong};

use crate::client;

use crate::aside;
use crate::keeping_errno;
use crate::real;

/// `close(2)`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn close(fd: c_int) -> c_int {
    if client::is_lifeline(fd) {
        return 0;
    }
    client::closes_set(fd);
    if !client::ours(fd) {
        // SAFETY: the caller keeps this function's contract, which is that of the C library's.
        return unsafe { real::close(fd) };
    }
    aside(|| {
        let closed = client::close(fd);
        // First the descriptor and then the file, as in the kernel: what another thread still does
        // with the number meanwhile is EBADF.
        // SAFETY: the caller keeps this function's contract, which is that of the C library's.
        let ret = unsafe { real::close(fd) };
        drop(closed);
        ret
    })
}

/// `close_range(2)`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    if flags & libc::CLOSE_RANGE_CLOEXEC as c_int == 0 {
        aside(|| client::close_range(first, last));
    }
    let mut ret = 0;
    for range in keeping_errno(|| client::keep_out_of(first, last)) {
        // The kernel refuses a range that the caller has got wrong.
        if ret == 0 && (!range.is_empty() || first > last) {
            // SAFETY: the caller keeps this function's contract, which is that of the C library's.
            ret = unsafe { real::close_range(*range.start(), *range.end(), flags) };
        }
    }
    ret
}

/// `closefrom(3)`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn closefrom(first: c_int) {
    aside(|| client::close_range(first.max(0) as c_uint, c_uint::MAX));
    let first = first.max(0) as c_uint;
    let [before, behind] = keeping_errno(|| client::keep_out_of(first, c_int::MAX as c_uint));
    let from = if behind.is_empty() {
        first
    } else {
        if !before.is_empty() {
            // SAFETY: the C library's function gets a part of the range that the program has named.
            unsafe { real::close_range(*before.start(), *before.end(), 0) };
        }
        *behind.start()
    };
    // SAFETY: the C library's function gets the rest of the range that the program has named.
    unsafe { real::closefrom(from as c_int) }
}

fn duplicated(old: c_int, new: c_int) -> c_int {
    if new >= 0 && (client::ours(old) || client::ours(new)) {
        aside(|| client::duplicate(old, new));
    }
    new
}

/// `dup(2)`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup(fd: c_int) -> c_int {
    // SAFETY: the caller keeps this function's contract, which is that of the C library's.
    duplicated(fd, unsafe { real::dup(fd) })
}

/// `dup2(2)`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup2(old: c_int, new: c_int) -> c_int {
    keeping_errno(|| client::make_room(new));
    // SAFETY: the caller keeps this function's contract, which is that of the C library's.
    duplicated(old, unsafe { real::dup2(old, new) })
}

/// `dup3(2)`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int {
    keeping_errno(|| client::make_room(new));
    // SAFETY: the caller keeps this function's contract, which is that of the C library's.
    duplicated(old, unsafe { real::dup3(old, new, flags) })
}

/// `fcntl(2)`. The argument is not always there; reading it then does no harm.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fcntl(fd: c_int, command: c_int, arg: c_ulong) -> c_int {
    // SAFETY: the caller keeps this function's contract, which is that of the C library's.
    let ret = unsafe { real::fcntl(fd, command, arg) };
    if matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) {
        return duplicated(fd, ret);
    }
    ret
}

/// `fcntl64(2)`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fcntl64(fd: c_int, command: c_int, arg: c_ulong) -> c_int {
    // SAFETY: the caller keeps this function's contract, which is that of the C library's.
    let ret = unsafe { real::fcntl64(fd, command, arg) };
    if matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) {
        return duplicated(fd, ret);
    }
    ret
}
