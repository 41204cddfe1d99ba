//! The C library's own functions, found when they are first needed.

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulong, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function of the C library.
pub(crate) struct Real {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Real {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicPtr::new(std::ptr::null_mut()) }
    }

    pub(crate) fn address(&self) -> *mut c_void {
        let known = self.address.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        // SAFETY: a name that ends with NUL.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.address.store(found, Ordering::Relaxed);
        found
    }
}

/// Declares a function of this module that calls the C library's function of that name.
/// They may be cancelled, so unwinding may pass through them.
macro_rules! real {
    ($($name:ident = $symbol:literal ($($arg:ident: $type:ty),*) -> $ret:ty;)*) => { $(
        pub(crate) unsafe fn $name($($arg: $type),*) -> $ret {
            static REAL: Real = Real::new($symbol);
            let address = REAL.address();
            assert!(!address.is_null(), "the C library has this function");
            type Function = unsafe extern "C-unwind" fn($($type),*) -> $ret;
            // SAFETY: the symbol is this function of the C library.
            let function = unsafe { std::mem::transmute::<*mut c_void, Function>(address) };
            // SAFETY: the caller keeps the function's contract.
            unsafe { function($($arg),*) }
        }
    )* };
}

real! {
    open = c"open"(path: *const c_char, flags: c_int, mode: c_uint) -> c_int;
    openat = c"openat"(dir: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int;
    close = c"close"(fd: c_int) -> c_int;
    close_range = c"close_range"(first: c_uint, last: c_uint, flags: c_int) -> c_int;
    closefrom = c"closefrom"(first: c_int) -> ();
    dup = c"dup"(fd: c_int) -> c_int;
    dup2 = c"dup2"(old: c_int, new: c_int) -> c_int;
    dup3 = c"dup3"(old: c_int, new: c_int, flags: c_int) -> c_int;
    fcntl = c"fcntl"(fd: c_int, command: c_int, arg: c_ulong) -> c_int;
    fcntl64 = c"fcntl64"(fd: c_int, command: c_int, arg: c_ulong) -> c_int;
    read = c"read"(fd: c_int, buffer: *mut c_void, bytes: usize) -> isize;
    write = c"write"(fd: c_int, buffer: *const c_void, bytes: usize) -> isize;
    ioctl = c"ioctl"(fd: c_int, request: c_ulong, arg: c_ulong) -> c_int;
    poll = c"poll"(fds: *mut libc::pollfd, count: libc::nfds_t, timeout: c_int) -> c_int;
    socket = c"socket"(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    fstat = c"fstat"(fd: c_int, stat: *mut libc::stat) -> c_int;
    stat = c"stat"(path: *const c_char, stat: *mut libc::stat) -> c_int;
    lstat = c"lstat"(path: *const c_char, stat: *mut libc::stat) -> c_int;
    access = c"access"(path: *const c_char, mode: c_int) -> c_int;
    faccessat = c"faccessat"(dir: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int;
    fstatat = c"fstatat"(dir: c_int, path: *const c_char, stat: *mut libc::stat, flags: c_int) -> c_int;
    statx = c"statx"(dir: c_int, path: *const c_char, flags: c_int, mask: c_uint, buffer: *mut libc::statx) -> c_int;
    opendir = c"opendir"(path: *const c_char) -> *mut libc::DIR;
    fopen = c"fopen"(path: *const c_char, mode: *const c_char) -> *mut libc::FILE;
    fopen64 = c"fopen64"(path: *const c_char, mode: *const c_char) -> *mut libc::FILE;
}
