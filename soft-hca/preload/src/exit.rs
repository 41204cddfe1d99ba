//! The end of a process by `exit`, or by a return from `main`.

use std::ffi::{c_int, c_void};
use std::ptr;

use crate::client;
use crate::keeping_errno;

unsafe extern "C" {
    /// `on_exit(3)`
    fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// The bits of the status that the kernel gives to a parent that waits for the process.
const STATUS: c_int = 0xff;

extern "C" fn exits(status: c_int, _: *mut c_void) {
    keeping_errno(|| client::exits(status & STATUS));
}

/// Registers the handler before any of the program's own, so that it is called last: the objects that those destroy
/// are gone by then. `atexit(3)` would not tell the status.
extern "C" fn begins() {
    // SAFETY: the function lives as long as the process, for a preloaded library stays loaded. Without room for
    // another handler the record shows the process as killed.
    unsafe { on_exit(exits, ptr::null_mut()) };
}

/// The loader calls this function before the program begins.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_BEGINNING: extern "C" fn() = begins;
