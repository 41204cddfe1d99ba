//! The function that a preloaded library stands before.
#![allow(unsafe_code, reason = "the loader's symbols")]

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// A function that comes behind the one of the same name in the calling library; found when it is
/// first needed.
#[derive(Debug)]
pub struct Next {
    name: &'static CStr,
    /// The library that has it, where that may have been loaded later, with symbols of its own.
    library: Option<&'static CStr>,
    address: AtomicPtr<c_void>,
}

impl Next {
    /// A function of the libraries that a program begins with.
    pub const fn new(name: &'static CStr) -> Self {
        Self { name, library: None, address: AtomicPtr::new(ptr::null_mut()) }
    }

    /// A function of a library that may have come later.
    pub const fn of(name: &'static CStr, library: &'static CStr) -> Self {
        Self { library: Some(library), ..Self::new(name) }
    }

    /// Its address; null if there is none.
    pub fn address(&self) -> *mut c_void {
        let known = self.address.load(Relaxed);
        if !known.is_null() {
            return known;
        }
        // SAFETY: a name that ends with NUL.
        let mut found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        if let Some(library) = self.library.filter(|_| found.is_null()) {
            // SAFETY: a name that ends with NUL; nothing is loaded that is not there.
            let library =
                unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY) };
            if !library.is_null() {
                // SAFETY: a library that stays open, and a name that ends with NUL.
                found = unsafe { libc::dlsym(library, self.name.as_ptr()) };
            }
        }
        self.address.store(found, Relaxed);
        found
    }
}
