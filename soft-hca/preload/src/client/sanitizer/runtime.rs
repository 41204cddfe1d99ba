//! Functions that a sanitizer's runtime exports, by their names. gcc's runtimes are libraries; clang's are a part of
//! the program, which exports them, too.
#![allow(unsafe_code, reason = "functions that are found by their names")]

use std::ffi::{CStr, c_void};

/// A function of a runtime.
///
/// # Safety
/// The type is the function's, as the runtime's public headers declare it; `None` if the process has no such function.
pub(super) unsafe fn function<F: Copy>(name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: a C string; nothing is loaded.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    // SAFETY: an address that is not null, of a function of this type, as the caller promises.
    (!found.is_null()).then(|| unsafe { std::mem::transmute_copy::<*mut c_void, F>(&found) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_their_names() {
        type Length = unsafe extern "C" fn(*const libc::c_char) -> usize;
        // SAFETY: `Length` is the type of strlen(3).
        let length: Length = unsafe { function(c"strlen") }.unwrap();
        // SAFETY: strlen(3) gets a C string that outlives the call.
        assert_eq!(unsafe { length(c"four".as_ptr()) }, 4);
        // SAFETY: nothing has this name, so that no type can be wrong.
        assert!(unsafe { function::<Length>(c"no_such_function_at_all") }.is_none());
    }
}
