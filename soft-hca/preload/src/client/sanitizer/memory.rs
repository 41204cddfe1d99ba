//! MemorySanitizer: bytes that are sent have to be written before; what the device writes counts as written.
//!
//! | function | is called |
//! | --- | --- |
//! | `__msan_test_shadow` | for each element that is sent: the first byte that was never written |
//! | `__msan_check_mem_is_initialized` | for such an element: the runtime's own report, and its end of the program |
//! | `__msan_unpoison` | for completions, and for what has come |
//! | `__msan_scoped_disable_interceptor_checks` | once in each thread that posts or polls, and when libraries begin |
//!
//! They are in `sanitizer/msan_interface.h`. The last one is for libibverbs and libnl, which are not built with it: of what
//! they write it knows nothing, so that each file name and each command that they give to the C library counts as never
//! written. The program's own accesses are looked at as before.
#![allow(unsafe_code, reason = "MemorySanitizer's functions")]

use std::cell::Cell;
use std::ffi::c_void;

use super::runtime::function;

/// Its functions.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemorySanitizer {
    test: unsafe extern "C" fn(*const c_void, usize) -> isize,
    check: unsafe extern "C" fn(*const c_void, usize),
    unpoison: unsafe extern "C" fn(*const c_void, usize),
    leave_libraries: unsafe extern "C" fn(),
}

thread_local! {
    static LEAVES_LIBRARIES: Cell<bool> = const { Cell::new(false) };
}

impl MemorySanitizer {
    /// The sanitizer of this process, if it has one.
    pub(super) fn find() -> Option<Self> {
        // SAFETY: functions of these names have the types of `sanitizer/msan_interface.h`.
        unsafe {
            Some(Self {
                test: function(c"__msan_test_shadow")?,
                check: function(c"__msan_check_mem_is_initialized")?,
                unpoison: function(c"__msan_unpoison")?,
                leave_libraries: function(c"__msan_scoped_disable_interceptor_checks")?,
            })
        }
    }

    /// In the calling thread, what libraries give to the C library is not looked at any more.
    pub(super) fn leaves_libraries(&self) {
        if !LEAVES_LIBRARIES.replace(true) {
            // SAFETY: counts up a number of this thread's.
            unsafe { (self.leave_libraries)() };
        }
    }

    /// The offset of the first byte that was never written.
    pub(super) fn first_unwritten(&self, address: u64, length: u64) -> Option<u64> {
        // SAFETY: looks at the shadow of these bytes.
        let found = unsafe { (self.test)(address as *const c_void, length as usize) };
        found.try_into().ok()
    }

    /// Has the runtime report bytes of which one was never written.
    pub(super) fn report(&self, address: u64, length: u64) {
        // SAFETY: looks at the shadow of these bytes.
        unsafe { (self.check)(address as *const c_void, length as usize) };
    }

    /// Bytes count as written.
    pub(super) fn are_written(&self, address: u64, length: u64) {
        // SAFETY: changes the shadow of these bytes.
        unsafe { (self.unpoison)(address as *const c_void, length as usize) };
    }
}
