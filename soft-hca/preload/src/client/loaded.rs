//! What this process has loaded, and a libibverbs among it that the program has brought along.
//!
//! Packages for Python bring copies of their libraries under names of their own (`libibverbs-1a2b3c4d.so.1.14.48.0`).
//! Such a copy looks for providers where it was built, so it is told where the system's is. That one needs
//! `libibverbs.so.1`, and would register itself there: so the copy's symbols are made global before, and come before
//! those of the provider's own libraries.
//!
//! The same holds for what the copy needs, of which the program may have copies as well (libnl): were these global when
//! the system's are loaded, those would register themselves there, and come to grief when the program ends. So the
//! system's libibverbs is loaded first, with all that it needs.
#![allow(unsafe_code, reason = "the loader's list")]

use std::ffi::{CStr, CString, OsStr, c_void};
use std::os::unix::ffi::OsStrExt;

use soft_hca_core::provider;

/// How the names of libibverbs begin.
pub(super) const VERBS: &str = "libibverbs";
/// What the provider needs.
const SYSTEM: &CStr = c"libibverbs.so.1";
/// What follows in the name of the system's.
const PLAIN: &[u8] = b".so";

/// Gives `look` the path of each library, until it says that it has found what it looks for.
fn any_library(mut look: impl FnMut(&CStr) -> bool) -> bool {
    type Look<'a> = &'a mut dyn FnMut(&CStr) -> bool;
    unsafe extern "C" fn next(
        library: *mut libc::dl_phdr_info,
        _size: libc::size_t,
        look: *mut c_void,
    ) -> libc::c_int {
        // SAFETY: the function that is given below, used by nobody else meanwhile.
        let look = unsafe { &mut *look.cast::<Look<'_>>() };
        // SAFETY: the loader gives a valid entry.
        let path = unsafe { (*library).dlpi_name };
        if path.is_null() {
            return 0;
        }
        // SAFETY: names of libraries are C strings.
        look(unsafe { CStr::from_ptr(path) }).into()
    }
    let mut look: Look<'_> = &mut look;
    // SAFETY: the function gets what it expects, which lives until the end of the call.
    unsafe { libc::dl_iterate_phdr(Some(next), (&raw mut look).cast()) != 0 }
}

/// What follows `name` in the file name of a path that begins so.
fn after<'a>(path: &'a CStr, name: &str) -> Option<&'a [u8]> {
    let file = path.to_bytes().rsplit(|&byte| byte == b'/').next()?;
    file.strip_prefix(name.as_bytes())
}

/// Whether this process has loaded a library whose file name begins so.
pub(super) fn has_library(name: &str) -> bool {
    any_library(|path| after(path, name).is_some())
}

/// Has a libibverbs that the program has brought along, which is about to load providers, find the system's and be
/// found by it.
pub(super) fn prefer_brought_along() {
    let mut brought = Vec::new();
    any_library(|path| {
        if after(path, VERBS).is_some_and(|end| !end.starts_with(PLAIN)) {
            brought.push(CString::from(path));
        }
        false
    });
    if brought.is_empty() {
        return;
    }
    if let Some(provider) = provider::path().and_then(|path| as_c(path.as_os_str())) {
        let drivers = CString::new(provider::DRIVERS).expect("a name without NUL");
        // SAFETY: C strings. What the program has set stays. It may read its environment in another thread
        // meanwhile, as whenever a library changes it: libibverbs itself reads it next.
        unsafe { libc::setenv(drivers.as_ptr(), provider.as_ptr(), 0) };
    }
    // SAFETY: a C string. The library registers nothing, and the provider would have it loaded in a moment.
    unsafe { libc::dlopen(SYSTEM.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    for path in brought {
        // SAFETY: loads nothing, as it is loaded; it stays so, as the handle is kept.
        unsafe {
            libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_GLOBAL)
        };
    }
}

fn as_c(text: &OsStr) -> Option<CString> {
    CString::new(text.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_this_process() {
        assert!(has_library("libc.so"));
        assert!(!has_library("libno-such-library.so"));
    }

    #[test]
    fn names() {
        let after = |path: &'static CStr| after(path, VERBS);
        assert_eq!(after(c"/usr/lib/libibverbs.so.1"), Some(&b".so.1"[..]));
        assert_eq!(after(c"/venv/nixl.libs/libibverbs-1a2b.so.1.14"), Some(&b"-1a2b.so.1.14"[..]));
        assert_eq!(after(c"/usr/lib/libibverbs/librxe-rdmav34.so"), None);
    }
}
