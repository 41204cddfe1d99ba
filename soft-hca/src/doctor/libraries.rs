//! Libraries that programs will load.
#![allow(unsafe_code, reason = "the loader")]

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Whether a file is a library or program for this machine. It is not loaded, only looked at.
pub(crate) fn is_for_this_machine(file: &Path) -> bool {
    /// Identification (magic, class, byte order, version) and machine.
    fn kind(file: &Path) -> io::Result<([u8; 7], [u8; 2])> {
        let mut header = [0; 20];
        File::open(file)?.read_exact(&mut header)?;
        let mut identification = [0; 7];
        identification.copy_from_slice(&header[..7]);
        Ok((identification, [header[18], header[19]]))
    }
    let own = kind(Path::new("/proc/self/exe"));
    matches!((kind(file), own), (Ok(file), Ok(own)) if file == own)
}

/// Whether the loader finds a library. It stays loaded.
pub(super) fn try_library(name: &CStr) -> bool {
    // SAFETY: the name is a C string; the libraries asked for do nothing when they are loaded
    // but register themselves.
    !unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY) }.is_null()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_for_this_machine() {
        assert!(is_for_this_machine(&std::env::current_exe().unwrap()));
        assert!(!is_for_this_machine(Path::new("/etc/passwd")));
        assert!(!is_for_this_machine(Path::new("/")));
    }
}
