//! Copies of libibverbs, as programs and packages for Python bring them along.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::place::Place;

/// How the system's library is called.
const NAME: &str = "libibverbs.so.1";

/// Where the system's libibverbs is.
pub fn system_library() -> PathBuf {
    let found = Command::new("cc").arg(format!("-print-file-name={NAME}")).output().unwrap();
    PathBuf::from(String::from_utf8(found.stdout).unwrap().trim())
}

/// Copies libibverbs and its provider into a folder of the place: the library's path, and what
/// `RDMAV_DRIVERS` names the provider by, which is its path without the end that the library adds.
pub fn copy_rdma_core(place: &Place) -> [PathBuf; 2] {
    copy_of(place, &system_library())
}

/// The same of another libibverbs, below whose folder its provider is.
fn copy_of(place: &Place, library: &Path) -> [PathBuf; 2] {
    let folder = place.file("rdma-core");
    fs::create_dir(&folder).unwrap();
    let copy = |from: &Path, name: &str| fs::copy(from, folder.join(name)).unwrap();
    copy(library, NAME);
    let providers = fs::read_dir(library.with_file_name("libibverbs")).unwrap().flatten();
    for provider in providers {
        let name = provider.file_name().into_string().unwrap();
        if name.starts_with("librxe-rdmav") {
            copy(&provider.path(), &name);
        }
    }
    [folder.join(NAME), folder.join("librxe")]
}

/// A copy with a name of its own, which the provider's needs do not name, and configured to look for providers where
/// there are none.
pub fn renamed_library(place: &Place) -> PathBuf {
    renamed(place, &system_library())
}

/// The same of another libibverbs.
pub fn renamed(place: &Place, library: &Path) -> PathBuf {
    let [copied, _] = copy_of(place, library);
    let names = [
        ("\0libibverbs.so.1\0", "\0libibver-9.so.1\0"),
        ("/libibverbs/lib%s", "/libibother/lib%s"),
        ("/etc/libibverbs.d", "/etc/libibother.d"),
    ];
    let library = copied.with_file_name("libibverbs-1a2b3c4d.so.1.14");
    fs::write(&library, replaced(fs::read(&copied).unwrap(), &names)).unwrap();
    library
}

/// Bytes with each text replaced by another one that is as long, wherever it is; each is there.
pub fn replaced(mut bytes: Vec<u8>, texts: &[(&str, &str)]) -> Vec<u8> {
    for (from, to) in texts {
        let (from, to) = (from.as_bytes(), to.as_bytes());
        let places: Vec<usize> =
            (0..bytes.len()).filter(|at| bytes[*at..].starts_with(from)).collect();
        assert!(!places.is_empty() && from.len() == to.len(), "{from:?}");
        places.iter().for_each(|at| bytes[*at..at + to.len()].copy_from_slice(to));
    }
    bytes
}
