//! Attributes: a file for each, with a line.

use std::fs;
use std::io;
use std::path::Path;

/// Writes files with these names and texts into a folder, which is created.
pub(super) fn files<'a, T: AsRef<str>>(
    dir: &Path,
    files: impl IntoIterator<Item = (&'a str, T)>,
) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let write = |(name, text): (&str, T)| fs::write(dir.join(name), format!("{}\n", text.as_ref()));
    files.into_iter().try_for_each(write)
}
