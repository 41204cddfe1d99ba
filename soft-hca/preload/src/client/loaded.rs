//! Libraries that this process has loaded, with a libibverbs among them that the program has brought along.
//!
//! Packages for Python bring copies of their libraries under names of their own (`libibverbs-1a2b3c4d.so.1.14.48.0`).
//! Such a copy looks for providers where it was built, so it is told where the system's is. That one needs
//! `libibverbs.so.1`, and would register itself there: so the copy's symbols are made global before, and come before
//! those of the provider's own libraries.
//!
//! The same holds for what the copy needs, of which the program may have copies as well (libnl): were these global when
//! the system's are loaded, those would register themselves there, and come to grief when the program ends. So the
//! system's libibverbs is loaded first, with all that it needs.
//!
//! A provider belongs to releases with one private ABI. For a copy of another release than the system's, both come from
//! a folder that the environment names ([`config::PROVIDERS`]).
#![allow(unsafe_code, reason = "the loader's list")]

use std::env;
use std::ffi::{CStr, CString, OsStr, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use soft_hca_core::config;
use soft_hca_core::provider;

/// How the names of libibverbs begin.
pub(super) const VERBS: &str = "libibverbs";
/// The end of the name of the system's.
const PLAIN: &[u8] = b".so";

/// Gives `look` the path of each library, until it says that it has found what it looks for.
fn any_library(mut look: impl FnMut(&CStr) -> bool) -> bool {
    type Callback<'a> = &'a mut dyn FnMut(&CStr) -> bool;
    unsafe extern "C" fn next(
        library: *mut libc::dl_phdr_info,
        _size: libc::size_t,
        look: *mut c_void,
    ) -> libc::c_int {
        // SAFETY: the function that is given below, used by nobody else meanwhile.
        let look = unsafe { &mut *look.cast::<Callback<'_>>() };
        // SAFETY: the loader gives a valid entry.
        let path = unsafe { (*library).dlpi_name };
        if path.is_null() {
            return 0;
        }
        // SAFETY: names of libraries are C strings.
        look(unsafe { CStr::from_ptr(path) }).into()
    }
    let mut look: Callback<'_> = &mut look;
    // SAFETY: the function gets what it expects, which lives until the end of the call.
    unsafe { libc::dl_iterate_phdr(Some(next), (&raw mut look).cast()) != 0 }
}

/// The rest behind `name` in the file name of a path that begins so.
fn after<'a>(path: &'a CStr, name: &str) -> Option<&'a [u8]> {
    let file = path.to_bytes().rsplit(|&byte| byte == b'/').next()?;
    file.strip_prefix(name.as_bytes())
}

/// Whether this process has loaded a library whose file name begins so.
pub(super) fn has_library(name: &str) -> bool {
    any_library(|path| after(path, name).is_some())
}

/// Has a libibverbs that the program has brought along, which is about to load providers, find one and be found by it:
/// the system's, or that of a folder of another release.
pub(super) fn prefer_brought_along() {
    let (mut plain, mut brought) = (Vec::new(), Vec::new());
    any_library(|path| {
        if let Some(end) = after(path, VERBS) {
            let list = if end.starts_with(PLAIN) { &mut plain } else { &mut brought };
            list.push(CString::from(path));
        }
        false
    });
    let folder = other_release(if brought.is_empty() { &plain } else { &brought });
    // The system's finds its provider by itself.
    if brought.is_empty() && folder.is_none() {
        return;
    }
    let provider = folder.clone().or_else(provider::system_folder);
    let provider = provider.and_then(|folder| as_c(provider::named_in(&folder).as_os_str()));
    if let Some(provider) = provider {
        let drivers = CString::new(provider::DRIVERS).expect("a name without NUL");
        // SAFETY: C strings. What the program has set stays. It may read its environment in another thread
        // meanwhile, as whenever a library changes it: libibverbs itself reads it next.
        unsafe { libc::setenv(drivers.as_ptr(), provider.as_ptr(), 0) };
    }
    // One that has kept its name is what the provider needs.
    if brought.is_empty() {
        return;
    }
    // Without a folder the loader looks where it always does.
    let needed = folder.unwrap_or_default().join(provider::VERBS);
    if let Some(needed) = as_c(needed.as_os_str()) {
        // SAFETY: a C string. The library registers nothing, and the provider would have it loaded in a moment.
        unsafe { libc::dlopen(needed.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    }
    for path in brought {
        reopen(&path, libc::RTLD_GLOBAL);
    }
}

/// A library that is loaded, which stays so, as the handle is kept; null if it is not.
fn reopen(path: &CStr, scope: libc::c_int) -> *mut c_void {
    // SAFETY: a C string; nothing is loaded.
    unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD | scope) }
}

/// The first of the folders of other releases whose provider fits one of these libraries.
fn other_release(brought: &[CString]) -> Option<PathBuf> {
    let folders = env::var_os(config::PROVIDERS)?;
    let fits = |folder: &Path| {
        let providers = provider::below(folder);
        providers.iter().any(|(abi, _)| brought.iter().any(|library| takes(library, *abi)))
    };
    provider::folders(&folders).find(|folder| fits(folder))
}

/// Whether a library that is loaded takes providers with this private ABI: they call a function to register, whose
/// name has the number.
fn takes(library: &CStr, abi: u32) -> bool {
    let function = CString::new(format!("verbs_register_driver_{abi}")).expect("no NUL");
    let library = reopen(library, libc::RTLD_LOCAL);
    // SAFETY: a handle and a C string.
    !library.is_null() && unsafe { !libc::dlsym(library, function.as_ptr()).is_null() }
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
