//! `soft-hca show --html` and `--perfetto`: a record as a file for other programs.

use std::fs;
use std::path::Path;

use soft_hca_record::{calls, perfetto, timeline};

use super::show::read;
use super::{Error, cannot};

/// Writes a record as a page of HTML. The page is called `title`, or as the command that was
/// recorded.
///
/// It shows calls as the programs made them, or `all` commands of the libraries.
pub fn html(file: &Path, out: &Path, title: Option<&str>, all: bool) -> Result<(), Error> {
    let (mut header, entries) = read(file)?;
    let entries = if all { calls::apart(&entries) } else { entries };
    let sources = timeline::Sources::read(&header, &entries);
    if let Some(title) = title {
        header.command = title.split_whitespace().map(str::to_owned).collect();
    }
    written(out, fs::write(out, timeline::html(&header, &entries, &sources)))
}

/// Writes a record as a trace for Perfetto's viewer.
pub fn perfetto(file: &Path, out: &Path) -> Result<(), Error> {
    let (header, entries) = read(file)?;
    written(out, fs::write(out, perfetto::trace(&header, &entries)))
}

fn written(out: &Path, outcome: std::io::Result<()>) -> Result<(), Error> {
    outcome.map_err(cannot(format!("write to {}", out.display())))
}
