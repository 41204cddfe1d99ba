//! `soft-hca show` and `explain`: a record as text, and what went wrong in it.

use std::env;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::Path;
use std::thread;
use std::time::Duration;

use soft_hca_record::file;
use soft_hca_record::sequence::{self, Options, Signs};
use soft_hca_record::text::Text;
use soft_hca_record::{Entry, Header, Reader, explain, stable};

use super::{Error, cannot};

/// Columns of a terminal that does not say how many it has.
const COLUMNS: usize = 80;

/// How often a file that grows is looked at.
const PERIOD: Duration = Duration::from_millis(50);

/// How a record is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lines {
    /// A line for each call as the program made it, and for what became of requests.
    Calls,
    /// A line for each entry; with `follows` until somebody interrupts.
    Entries {
        /// Whether to go on while it is being recorded.
        follows: bool,
    },
    /// The same text in every run.
    Stable,
}

/// Prints a record.
pub fn show(file: &Path, lines: Lines) -> Result<(), Error> {
    let failed = |error| Error::Record(file.to_path_buf(), error);
    let mut reader = open(file).map_err(failed)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let follows = lines == Lines::Entries { follows: true };
    let outcome = if let Lines::Calls | Lines::Stable = lines {
        let header = reader.header().clone();
        let entries = reader.collect::<Result<Vec<Entry>, _>>().map_err(failed)?;
        print(
            &mut out,
            &match lines {
                Lines::Stable => stable::text(&header, &entries),
                _ => Text::new().calls(&entries),
            },
        )
    } else {
        let mut text = Text::new();
        loop {
            match reader.next_entry().map_err(failed)? {
                Some(entry) => {
                    if let Err(error) = print(&mut out, &text.line(&entry)) {
                        break Err(error);
                    }
                }
                None if follows => {
                    if let Err(error) = out.flush() {
                        break Err(error);
                    }
                    thread::sleep(PERIOD);
                }
                None => break Ok(()),
            }
        }
    };
    match outcome.and_then(|()| out.flush()) {
        // A reader that has gone does not matter.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(cannot("write to standard output")(error)),
        Ok(()) => Ok(()),
    }
}

/// Prints the first entries of a record with lifelines and arrows.
pub fn sequence(file: &Path, entries: usize) -> Result<(), Error> {
    let (header, all) = read(file)?;
    let terminal = terminal_size::terminal_size_of(io::stdout());
    let columns = terminal.map(|(width, _)| usize::from(width.0));
    let told = || env::var("COLUMNS").ok()?.parse().ok();
    let width = columns.or_else(told).unwrap_or(COLUMNS);
    let signs = if is_utf8() { Signs::Boxes } else { Signs::Ascii };
    super::print(&sequence::sequence(&header, &all, &Options { entries, width, signs }))
}

/// Prints what went wrong, which check has failed, and what usually causes it.
pub fn explain(file: &Path) -> Result<(), Error> {
    let (_, entries) = read(file)?;
    super::print(&explain::text(&entries))
}

/// A whole record.
pub(super) fn read(file: &Path) -> Result<(Header, Vec<Entry>), Error> {
    let failed = |error| Error::Record(file.to_path_buf(), error);
    let reader = open(file).map_err(failed)?;
    let header = reader.header().clone();
    let entries = reader.collect::<Result<_, _>>().map_err(failed)?;
    Ok((header, entries))
}

fn open(file: &Path) -> Result<Reader<BufReader<File>>, file::Error> {
    Reader::new(BufReader::new(File::open(file)?))
}

/// Whether the locale's characters are UTF-8: the first of its variables that is set says so.
fn is_utf8() -> bool {
    let values = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(|name| env::var(name).ok());
    let locale = values.into_iter().find(|value| !value.is_empty()).unwrap_or_default();
    let locale = locale.to_ascii_lowercase();
    locale.ends_with("utf-8") || locale.ends_with("utf8")
}

fn print(out: &mut impl Write, text: &str) -> io::Result<()> {
    out.write_all(text.as_bytes())
}
