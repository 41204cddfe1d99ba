//! The repository's files, for tests that read all of a kind.

use std::fs;
use std::path::{Path, PathBuf};

/// The top of the repository.
pub fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Files below a folder by the end of their names, in order, without what is built, and without what a
/// student has written.
pub fn files(folder: &Path, end: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let is_other = ["target", "learn-work"].contains(&name.as_str()) || name.starts_with('.');
        if path.is_dir() && !is_other {
            found.extend(files(&path, end));
        } else if name.ends_with(end) {
            found.push(path);
        }
    }
    found.sort();
    found
}
