//! `soft-hca show --html` and `--sequence`: a record as a picture.

use std::env;
use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::Path;

use soft_hca_record::sequence::{Options, Signs, sequence};
use soft_hca_record::{Entry, Header, Reader, timeline};

use super::{Error, cannot, print};
use crate::system;

/// Columns of a terminal that does not say how many it has.
const COLUMNS: usize = 80;

/// Writes a record as a page of HTML. The page is called `title`, or as the command that was
/// recorded.
pub fn page(file: &Path, out: &Path, title: Option<&str>) -> Result<(), Error> {
    let (mut header, entries) = read(file)?;
    if let Some(title) = title {
        header.command = vec![title.to_owned()];
    }
    let page = timeline::html(&header, &entries);
    fs::write(out, page).map_err(cannot(format!("write to {}", out.display())))
}

/// Prints the first entries of a record with lifelines and arrows.
pub fn lifelines(file: &Path, entries: usize) -> Result<(), Error> {
    let (header, all) = read(file)?;
    let columns = system::columns(&io::stdout()).map(usize::from);
    let told = || env::var("COLUMNS").ok()?.parse().ok();
    let width = columns.or_else(told).unwrap_or(COLUMNS);
    let signs = if is_utf8() { Signs::Boxes } else { Signs::Ascii };
    print(&sequence(&header, &all, &Options { entries, width, signs }))
}

fn read(file: &Path) -> Result<(Header, Vec<Entry>), Error> {
    let failed = |error| Error::Record(file.to_path_buf(), error);
    let opened = File::open(file).map_err(|error| failed(error.into()))?;
    let reader = Reader::new(BufReader::new(opened)).map_err(failed)?;
    let header = reader.header().clone();
    let entries = reader.collect::<Result<_, _>>().map_err(failed)?;
    Ok((header, entries))
}

/// Whether the locale's characters are UTF-8: the first of its variables that is set says so.
fn is_utf8() -> bool {
    let values = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(|name| env::var(name).ok());
    let locale = values.into_iter().find(|value| !value.is_empty()).unwrap_or_default();
    let locale = locale.to_ascii_lowercase();
    locale.ends_with("utf-8") || locale.ends_with("utf8")
}
