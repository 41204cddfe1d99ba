//! The end of a process by `exit`, or by a return from `main`.

use std::ffi::{c_int, c_void};
use std::ptr;

use crate::client;
use crate::keeping_errno;

unsafe extern "C" {
    /// `on_exit(3)`
    fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// As the system gives it to who waits for the process.
const STATUS: c_int = 0xff;

extern "C" fn exits(status: c_int, _: *mut c_void) {
    keeping_errno(|| client::exits(status & STATUS));
}

/// Registered before any of the program's own handlers, and so the last to be called: what these destroy is gone by
/// then. `atexit(3)` would not tell the status.
extern "C" fn begins() {
    // SAFETY: the function lives as long as the process, for a preloaded library stays loaded. Without room for
    // another handler the end of the process is that of a killed one in a record.
    unsafe { on_exit(exits, ptr::null_mut()) };
}

/// The loader calls what stands here before the program begins.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_BEGINNING: extern "C" fn() = begins;
