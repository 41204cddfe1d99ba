//! `soft-hca show` and `explain`: a record as text, and what went wrong in it.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::Path;
use std::thread;
use std::time::Duration;

use soft_hca_record::text::Text;
use soft_hca_record::{Entry, Reader, explain, stable};

use super::Error;

/// How often a file that grows is looked at.
const PERIOD: Duration = Duration::from_millis(50);

/// Prints a record, a line for each entry; with `follows` until somebody interrupts.
pub fn show(file: &Path, follows: bool, is_stable: bool) -> Result<(), Error> {
    let failed = |error| Error::Record(file.to_path_buf(), error);
    let opened = File::open(file).map_err(|error| failed(error.into()))?;
    let mut reader = Reader::new(BufReader::new(opened)).map_err(failed)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let outcome = if is_stable {
        let entries: Result<Vec<Entry>, _> = reader.collect();
        print(&mut out, &stable::text(&entries.map_err(failed)?))
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
        Err(error) => Err(super::cannot("write to standard output")(error)),
        Ok(()) => Ok(()),
    }
}

/// Prints what went wrong, which check has failed, and what usually causes it.
pub fn explain(file: &Path) -> Result<(), Error> {
    let failed = |error| Error::Record(file.to_path_buf(), error);
    let opened = File::open(file).map_err(|error| failed(error.into()))?;
    let reader = Reader::new(BufReader::new(opened)).map_err(failed)?;
    let entries: Result<Vec<Entry>, _> = reader.collect();
    super::print(&explain::text(&entries.map_err(failed)?))
}

fn print(out: &mut impl Write, text: &str) -> io::Result<()> {
    out.write_all(text.as_bytes())
}
