//! `soft-hca show --html` and `--perfetto`: a record as a file for other programs.

use std::path::Path;
use std::{fs, io};

use soft_hca_record::{calls, perfetto, timeline};

use super::show::read;
use super::{Error, cannot};

/// Writes a record as a page of HTML. The page is called `title`, or as the command that was
/// recorded.
///
/// It shows calls as the programs made them, or `all` commands of the libraries; beside a call what the file
/// `references` says of its function.
pub fn html(
    file: &Path,
    out: &Path,
    title: Option<&str>,
    references: Option<&Path>,
    all: bool,
) -> Result<(), Error> {
    let (mut header, entries) = read(file)?;
    let entries = if all { calls::apart(&entries) } else { entries };
    let references = references.map(to_read).transpose()?.unwrap_or_default();
    let sources = timeline::Sources::read(&header, &entries).with(references);
    if let Some(title) = title {
        header.command = title.split_whitespace().map(str::to_owned).collect();
    }
    written(out, fs::write(out, timeline::html(&header, &entries, &sources)))
}

/// The texts about functions that a file has.
fn to_read(file: &Path) -> Result<timeline::References, Error> {
    let what = || format!("read {}", file.display());
    let text = fs::read_to_string(file).map_err(cannot(what()))?;
    let invalid = |why| io::Error::new(io::ErrorKind::InvalidData, why);
    timeline::References::parse(&text).map_err(invalid).map_err(cannot(what()))
}

/// Writes a record as a trace for Perfetto's viewer.
pub fn perfetto(file: &Path, out: &Path) -> Result<(), Error> {
    let (header, entries) = read(file)?;
    written(out, fs::write(out, perfetto::trace(&header, &entries)))
}

fn written(out: &Path, outcome: io::Result<()>) -> Result<(), Error> {
    outcome.map_err(cannot(format!("write to {}", out.display())))
}
