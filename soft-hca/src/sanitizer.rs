//! Sanitizers of programs. gcc links programs to their runtimes; clang's and Rust's are a part of the program.
//!
//! AddressSanitizer's shared runtime ends the program unless it is the first of all libraries.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use object::elf::DT_NEEDED;
use object::read::ReadCache;

use super::elf::{self, Visible, dynamic_strings};

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

/// A sanitizer: its name, its shared runtime, the function by which it begins, and one that the preloaded library calls
/// to tell it of the device, if there is any.
struct Sanitizer {
    name: &'static str,
    library: &'static str,
    begins: &'static str,
    is_told_by: Option<&'static str>,
}

const SANITIZERS: [Sanitizer; 5] = [
    Sanitizer {
        name: "ThreadSanitizer",
        library: "libtsan.so",
        begins: "__tsan_init",
        is_told_by: Some("__tsan_write_range_pc"),
    },
    Sanitizer {
        name: "AddressSanitizer",
        library: "libasan.so",
        begins: "__asan_init",
        is_told_by: Some("__asan_region_is_poisoned"),
    },
    Sanitizer {
        name: "MemorySanitizer",
        library: "libmsan.so",
        begins: "__msan_init",
        is_told_by: Some("__msan_unpoison"),
    },
    Sanitizer {
        name: "LeakSanitizer",
        library: "liblsan.so",
        begins: "__lsan_init",
        is_told_by: None,
    },
    Sanitizer {
        name: "UndefinedBehaviorSanitizer",
        library: "libubsan.so",
        begins: "__ubsan_handle_add_overflow",
        is_told_by: None,
    },
];

/// A sanitizer of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub name: &'static str,
    pub reporting: Reporting,
}

/// Whether a sanitizer is told what the device does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reporting {
    Yes,
    /// It would be, but the program does not export its functions.
    NotExported,
    /// It has no interest in that.
    No,
}

/// The sanitizers of a program with a file and libraries in its memory.
pub(super) fn of_program(exe: &Path, mapped: &[PathBuf]) -> Vec<Found> {
    let file = File::open(exe).ok().map(ReadCache::new);
    let function = |name: &str| file.as_ref().and_then(|file| elf::function(file, name));
    let has_library = |library: &str| {
        let names = mapped.iter().filter_map(|path| path.file_name());
        names.into_iter().any(|name| name.as_bytes().starts_with(library.as_bytes()))
    };
    let of = |sanitizer: &Sanitizer| {
        let &Sanitizer { name, library, begins, is_told_by } = sanitizer;
        let is_shared = has_library(library);
        if !is_shared && function(begins).is_none() {
            return None;
        }
        let reporting = match is_told_by {
            None => Reporting::No,
            Some(_) if is_shared => Reporting::Yes,
            Some(by) if function(by) == Some(Visible::Exported) => Reporting::Yes,
            Some(_) => Reporting::NotExported,
        };
        Some(Found { name, reporting })
    };
    let (large, small) = SANITIZERS.split_at(3);
    let found: Vec<Found> = large.iter().filter_map(of).collect();
    // The runtimes of the large ones contain those of the small ones.
    if found.is_empty() { small.iter().filter_map(of).collect() } else { found }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_a_sanitizer_has_none() {
        assert_eq!(of_program(&std::env::current_exe().unwrap(), &[]), []);
        assert_eq!(of_program(Path::new("/no/such/program"), &[]), []);
        let told = |library: &str| of_program(Path::new("/bin/true"), &[library.into()]);
        assert_eq!(
            told("/usr/lib/libtsan.so.2"),
            [Found { name: "ThreadSanitizer", reporting: Reporting::Yes }]
        );
    }

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
