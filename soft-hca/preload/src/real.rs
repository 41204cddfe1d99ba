//! The C library's own functions. They are looked up when the library is loaded: a lookup takes the loader's lock,
//! which a signal handler and a child of `fork` must not need. A call before that looks its function up by itself.

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulong, c_void};

use soft_hca_core::system::Next;

/// Declares a function of this module that calls the C library's function of that name.
/// They may be cancelled, so unwinding may pass through them.
macro_rules! real {
    ($($name:ident = $symbol:literal ($($arg:ident: $type:ty),*) -> $ret:ty;)*) => {
        /// Each by its name here.
        #[allow(non_upper_case_globals, reason = "functions are called so")]
        mod next {
            $(pub(super) static $name: super::Next = super::Next::new($symbol);)*
        }

        fn find_named() {
            $(next::$name.address();)*
        }

        $(
        pub(crate) unsafe fn $name($($arg: $type),*) -> $ret {
            let address = next::$name.address();
            assert!(!address.is_null(), "the C library has this function");
            type Function = unsafe extern "C-unwind" fn($($type),*) -> $ret;
            // SAFETY: the symbol is this function of the C library.
            let function = unsafe { std::mem::transmute::<*mut c_void, Function>(address) };
            // SAFETY: the caller keeps the function's contract.
            unsafe { function($($arg),*) }
        }
        )*
    };
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
    __poll_chk = c"__poll_chk"(fds: *mut libc::pollfd, count: libc::nfds_t, timeout: c_int, bytes: usize) -> c_int;
    ppoll = c"ppoll"(fds: *mut libc::pollfd, count: libc::nfds_t, timeout: *const libc::timespec, mask: *const libc::sigset_t) -> c_int;
    select = c"select"(count: c_int, readable: *mut libc::fd_set, writable: *mut libc::fd_set, exceptional: *mut libc::fd_set, timeout: *mut libc::timeval) -> c_int;
    pselect = c"pselect"(count: c_int, readable: *mut libc::fd_set, writable: *mut libc::fd_set, exceptional: *mut libc::fd_set, timeout: *const libc::timespec, mask: *const libc::sigset_t) -> c_int;
    epoll_ctl = c"epoll_ctl"(set: c_int, command: c_int, fd: c_int, event: *mut libc::epoll_event) -> c_int;
    epoll_wait = c"epoll_wait"(set: c_int, events: *mut libc::epoll_event, most: c_int, timeout: c_int) -> c_int;
    epoll_pwait = c"epoll_pwait"(set: c_int, events: *mut libc::epoll_event, most: c_int, timeout: c_int, mask: *const libc::sigset_t) -> c_int;
    nanosleep = c"nanosleep"(asked: *const libc::timespec, left: *mut libc::timespec) -> c_int;
    clock_nanosleep = c"clock_nanosleep"(clock: libc::clockid_t, flags: c_int, asked: *const libc::timespec, left: *mut libc::timespec) -> c_int;
    thrd_sleep = c"thrd_sleep"(asked: *const libc::timespec, left: *mut libc::timespec) -> c_int;
    usleep = c"usleep"(microseconds: libc::useconds_t) -> c_int;
    sleep = c"sleep"(seconds: c_uint) -> c_uint;
    readv = c"readv"(fd: c_int, parts: *const libc::iovec, count: c_int) -> isize;
    writev = c"writev"(fd: c_int, parts: *const libc::iovec, count: c_int) -> isize;
    recv = c"recv"(fd: c_int, buffer: *mut c_void, bytes: usize, flags: c_int) -> isize;
    recvmsg = c"recvmsg"(fd: c_int, message: *mut libc::msghdr, flags: c_int) -> isize;
    recvfrom = c"recvfrom"(fd: c_int, buffer: *mut c_void, bytes: usize, flags: c_int, address: *mut libc::sockaddr, length: *mut libc::socklen_t) -> isize;
    send = c"send"(fd: c_int, buffer: *const c_void, bytes: usize, flags: c_int) -> isize;
    sendmsg = c"sendmsg"(fd: c_int, message: *const libc::msghdr, flags: c_int) -> isize;
    sendto = c"sendto"(fd: c_int, buffer: *const c_void, bytes: usize, flags: c_int, address: *const libc::sockaddr, length: libc::socklen_t) -> isize;
    socket = c"socket"(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    access = c"access"(path: *const c_char, mode: c_int) -> c_int;
    faccessat = c"faccessat"(dir: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int;
    statx = c"statx"(dir: c_int, path: *const c_char, flags: c_int, mask: c_uint, buffer: *mut libc::statx) -> c_int;
    readlink = c"readlink"(path: *const c_char, buffer: *mut c_char, bytes: usize) -> isize;
    readlinkat = c"readlinkat"(dir: c_int, path: *const c_char, buffer: *mut c_char, bytes: usize) -> isize;
    __readlink_chk = c"__readlink_chk"(path: *const c_char, buffer: *mut c_char, bytes: usize, room: usize) -> isize;
    __readlinkat_chk = c"__readlinkat_chk"(dir: c_int, path: *const c_char, buffer: *mut c_char, bytes: usize, room: usize) -> isize;
    getxattr = c"getxattr"(path: *const c_char, name: *const c_char, value: *mut c_void, bytes: usize) -> isize;
    lgetxattr = c"lgetxattr"(path: *const c_char, name: *const c_char, value: *mut c_void, bytes: usize) -> isize;
    listxattr = c"listxattr"(path: *const c_char, names: *mut c_char, bytes: usize) -> isize;
    llistxattr = c"llistxattr"(path: *const c_char, names: *mut c_char, bytes: usize) -> isize;
    realpath = c"realpath"(path: *const c_char, room: *mut c_char) -> *mut c_char;
    __realpath_chk = c"__realpath_chk"(path: *const c_char, room: *mut c_char, bytes: usize) -> *mut c_char;
    opendir = c"opendir"(path: *const c_char) -> *mut libc::DIR;
    readdir64 = c"readdir64"(stream: *mut libc::DIR) -> *mut libc::dirent64;
    rewinddir = c"rewinddir"(stream: *mut libc::DIR) -> ();
    closedir = c"closedir"(stream: *mut libc::DIR) -> c_int;
    chdir = c"chdir"(path: *const c_char) -> c_int;
    scandir = c"scandir"(path: *const c_char, list: *mut c_void, filter: *const c_void, compare: *const c_void) -> c_int;
    scandir64 = c"scandir64"(path: *const c_char, list: *mut c_void, filter: *const c_void, compare: *const c_void) -> c_int;
    signal = c"signal"(signal: c_int, handler: libc::sighandler_t) -> libc::sighandler_t;
    __sysv_signal = c"__sysv_signal"(signal: c_int, handler: libc::sighandler_t) -> libc::sighandler_t;
    fopen = c"fopen"(path: *const c_char, mode: *const c_char) -> *mut libc::FILE;
    fopen64 = c"fopen64"(path: *const c_char, mode: *const c_char) -> *mut libc::FILE;
}

/// `_STAT_VER` of 64-bit Linux: the layout that [`libc::stat`] has.
const STAT_VERSION: c_int = 1;

/// A function of the C library that had another name and one more argument before 2.33.
struct Renamed {
    now: Next,
    before: Next,
}

/// By which name a [`Renamed`] function is found, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Now(*mut c_void),
    Before(*mut c_void),
}

impl Renamed {
    const fn new(now: &'static CStr, before: &'static CStr) -> Self {
        Self { now: Next::new(now), before: Next::new(before) }
    }

    fn find(&self) -> Found {
        let now = self.now.address();
        if !now.is_null() {
            return Found::Now(now);
        }
        let before = self.before.address();
        assert!(!before.is_null(), "the C library has this function by one of its names");
        Found::Before(before)
    }
}

/// As `real`, for functions that have been renamed.
macro_rules! renamed {
    ($($name:ident = $now:literal, $before:literal ($($arg:ident: $type:ty),*);)*) => {
        /// Each by its name here.
        #[allow(non_upper_case_globals, reason = "functions are called so")]
        mod renamed {
            $(pub(super) static $name: super::Renamed = super::Renamed::new($now, $before);)*
        }

        fn find_renamed() {
            $(renamed::$name.find();)*
        }

        $(
        pub(crate) unsafe fn $name($($arg: $type),*) -> c_int {
            type Now = unsafe extern "C-unwind" fn($($type),*) -> c_int;
            type Before = unsafe extern "C-unwind" fn(c_int, $($type),*) -> c_int;
            match renamed::$name.find() {
                Found::Now(address) => {
                    // SAFETY: the symbol is this function of the C library.
                    let function = unsafe { std::mem::transmute::<*mut c_void, Now>(address) };
                    // SAFETY: the caller keeps the function's contract.
                    unsafe { function($($arg),*) }
                }
                Found::Before(address) => {
                    // SAFETY: the symbol is this function of the C library.
                    let function = unsafe { std::mem::transmute::<*mut c_void, Before>(address) };
                    // SAFETY: the caller keeps the function's contract.
                    unsafe { function(STAT_VERSION, $($arg),*) }
                }
            }
        }
        )*
    };
}

renamed! {
    fstat = c"fstat", c"__fxstat"(fd: c_int, stat: *mut libc::stat);
    stat = c"stat", c"__xstat"(path: *const c_char, stat: *mut libc::stat);
    lstat = c"lstat", c"__lxstat"(path: *const c_char, stat: *mut libc::stat);
    fstatat = c"fstatat", c"__fxstatat"(dir: c_int, path: *const c_char, stat: *mut libc::stat, flags: c_int);
}

/// Looks all functions up.
pub(crate) fn find() {
    find_named();
    find_renamed();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_present_name_is_looked_for_first() {
        let both = Renamed::new(c"stat", c"__xstat");
        assert_eq!(both.find(), Found::Now(both.now.address()));
    }

    #[test]
    fn without_it_the_former_name_is_taken() {
        let old = Renamed::new(c"no_such_function", c"__xstat");
        assert_eq!(old.find(), Found::Before(old.before.address()));
    }

    #[test]
    fn a_former_function_fills_the_same_structure() {
        let Found::Before(address) = Renamed::new(c"no_such_function", c"__xstat").find() else {
            panic!("there is no such function");
        };
        type Before = unsafe extern "C-unwind" fn(c_int, *const c_char, *mut libc::stat) -> c_int;
        // SAFETY: the symbol is `__xstat`, which is declared so.
        let old = unsafe { std::mem::transmute::<*mut c_void, Before>(address) };
        // SAFETY: a status consists of numbers, for which zeros are good.
        let [mut before, mut now] = unsafe { std::mem::zeroed::<[libc::stat; 2]>() };
        // SAFETY: a C string, and a structure to be filled.
        assert_eq!(unsafe { old(STAT_VERSION, c"/".as_ptr(), &raw mut before) }, 0);
        // SAFETY: a C string, and a structure to be filled.
        assert_eq!(unsafe { stat(c"/".as_ptr(), &raw mut now) }, 0);
        assert_eq!((before.st_ino, before.st_mode), (now.st_ino, now.st_mode));
    }
}
