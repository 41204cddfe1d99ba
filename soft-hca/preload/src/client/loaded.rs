//! What this process has loaded.
#![allow(unsafe_code, reason = "the loader's list")]

use std::ffi::{CStr, c_void};

/// Whether this process has loaded a library whose file name begins so.
pub(super) fn has_library(name: &str) -> bool {
    struct Search<'a> {
        name: &'a [u8],
        is_found: bool,
    }
    unsafe extern "C" fn look(
        library: *mut libc::dl_phdr_info,
        _size: libc::size_t,
        search: *mut c_void,
    ) -> libc::c_int {
        // SAFETY: the search that is given below, used by nobody else meanwhile.
        let search = unsafe { &mut *search.cast::<Search<'_>>() };
        // SAFETY: the loader gives a valid entry.
        let path = unsafe { (*library).dlpi_name };
        if !path.is_null() {
            // SAFETY: names of libraries are C strings.
            let path = unsafe { CStr::from_ptr(path) }.to_bytes();
            let file = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
            search.is_found |= file.starts_with(search.name);
        }
        0
    }
    let mut search = Search { name: name.as_bytes(), is_found: false };
    // SAFETY: the function gets what it expects, and the search lives until the end of the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    search.is_found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_this_process() {
        assert!(has_library("libc.so"));
        assert!(!has_library("libno-such-library.so"));
    }
}
