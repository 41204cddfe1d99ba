//! AddressSanitizer's runtime. The shared one, to which gcc links programs, ends the program unless it is the first of
//! all libraries; clang's is a part of the program.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use object::elf::DT_NEEDED;
use object::read::ReadCache;

use super::elf::dynamic_strings;

/// The beginning of its file names: a number follows.
const RUNTIME: &[u8] = b"libasan.so";

/// Whether a library is such a runtime.
pub(super) fn is_runtime(library: &Path) -> bool {
    library.file_name().is_some_and(|name| name.as_bytes().starts_with(RUNTIME))
}

/// The runtime that a program is linked to, by a name for the loader; `program` is as for execvp(3).
pub(super) fn needed_by(program: &OsStr) -> Option<PathBuf> {
    let file = File::open(found(program)?).ok()?;
    let needed = dynamic_strings(&ReadCache::new(file), DT_NEEDED)?;
    needed.into_iter().map(PathBuf::from).find(|library| is_runtime(library))
}

/// The path at which execvp(3) finds a program.
fn found(program: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Some(program.into());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtimes_are_known_by_their_names() {
        assert!(is_runtime(Path::new("libasan.so.8")));
        assert!(is_runtime(Path::new("/usr/lib/gcc/x86_64-linux-gnu/12/libasan.so")));
        assert!(!is_runtime(Path::new("/usr/lib/libasan/ours.so")));
        assert!(!is_runtime(Path::new("/")));
    }

    #[test]
    fn a_program_without_it_needs_none() {
        assert_eq!(needed_by(std::env::current_exe().unwrap().as_os_str()), None);
        assert_eq!(needed_by(OsStr::new("true")), None);
        assert_eq!(needed_by(OsStr::new("/etc/passwd")), None);
        assert_eq!(needed_by(OsStr::new("there-is-no-such-program")), None);
    }
}
