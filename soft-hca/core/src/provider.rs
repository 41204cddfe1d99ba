//! The system's rxe provider, the half of the driver that libibverbs loads.

use std::fs::{self, DirEntry};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The variable that names providers which libibverbs loads before those of its own folder: a name, or a path
/// without the end that the library adds (rdma-core, `libibverbs/dynamic_driver.c`).
pub const DRIVERS: &str = "RDMAV_DRIVERS";

/// Debian's folder for the libraries of this architecture, below `lib`.
pub const MULTIARCH: &str = if cfg!(target_arch = "x86_64") {
    "x86_64-linux-gnu"
} else if cfg!(target_arch = "aarch64") {
    "aarch64-linux-gnu"
} else {
    "."
};

/// Where the provider is, as [`DRIVERS`] names it: without `-rdmavNN.so`.
pub fn path() -> Option<PathBuf> {
    let of_architecture = Path::new("/usr/lib").join(MULTIARCH);
    let folders = [of_architecture, "/usr/lib64".into(), "/usr/lib".into()];
    let is_rxe = |entry: DirEntry| entry.file_name().as_bytes().starts_with(b"librxe-rdmav");
    let has_rxe = |folder: &PathBuf| {
        fs::read_dir(folder).is_ok_and(|mut files| files.any(|file| file.is_ok_and(is_rxe)))
    };
    let found = folders.into_iter().map(|folder| folder.join("libibverbs")).find(has_rxe);
    Some(found?.join("librxe"))
}
