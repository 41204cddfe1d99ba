//! Reading and writing records.

use std::io::{self, BufRead, Write};

use crate::entry::{Entry, FORMAT, Header, VERSION};
use crate::place::{PlaceTable, WrittenPlaces};

/// Why a file cannot be read as a record.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refuses.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It begins with something else.
    #[error("this is no record of soft-hca")]
    NoRecord,
    /// It is of another version.
    #[error("the record has format version {0}, and this program knows version {VERSION} only: {remedy}", remedy = remedy(*.0))]
    Version(u32),
    /// A line is not an entry.
    #[error("line {line} is no entry of a record: {source}")]
    Line {
        /// Counted from 1.
        line: u64,
        /// The defect.
        source: serde_json::Error,
    },
}

/// Advice for a record of another version.
fn remedy(version: u32) -> &'static str {
    match version < VERSION {
        true => "record the run again (soft-hca record -o FILE -- CMD)",
        false => "a newer soft-hca reads it",
    }
}

/// Reads a record line by line.
#[derive(Debug)]
pub struct Reader<R> {
    from: R,
    header: Header,
    line: u64,
    /// A line whose end has not been written yet.
    partial: Vec<u8>,
    places: PlaceTable,
}

impl<R: BufRead> Reader<R> {
    /// Reads the header.
    pub fn new(mut from: R) -> Result<Self, Error> {
        let mut first = Vec::new();
        from.read_until(b'\n', &mut first)?;
        let header = header_of(&first)?;
        Ok(Self { from, header, line: 1, partial: Vec::new(), places: PlaceTable::default() })
    }

    /// The first line.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The next entry; none at the end, and as long as its line has none: who follows a file that
    /// grows asks again later.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, Error> {
        self.from.read_until(b'\n', &mut self.partial)?;
        if self.partial.last() != Some(&b'\n') {
            return Ok(None);
        }
        self.line += 1;
        let entry = entry_of(&self.partial);
        self.partial.clear();
        let mut entry: Entry = entry.map_err(|source| Error::Line { line: self.line, source })?;
        if let Some(site) = &mut entry.site {
            self.places.fill(entry.process, site);
        }
        Ok(Some(entry))
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Entry, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_entry().transpose()
    }
}

/// Writes a record.
#[derive(Debug)]
pub struct Writer<W> {
    to: W,
    places: WrittenPlaces,
    line: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Writes the header.
    pub fn new(mut to: W, header: &Header) -> io::Result<Self> {
        let mut line = serde_json::to_vec(header)?;
        line.push(b'\n');
        to.write_all(&line)?;
        Ok(Self { to, places: WrittenPlaces::default(), line })
    }

    /// Writes an entry.
    pub fn write(&mut self, entry: &Entry) -> io::Result<()> {
        self.line.clear();
        let site = entry.site.as_ref();
        match site.and_then(|site| self.places.shortened(entry.process, site)) {
            Some(site) => append(&mut self.line, &Entry { site: Some(site), ..entry.clone() })?,
            None => append(&mut self.line, entry)?,
        }
        self.to.write_all(&self.line)
    }

    /// Hands over what is still in memory.
    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

// The functions below are not generic over the file, so that they are compiled here and not in each crate that reads a record.

fn header_of(line: &[u8]) -> Result<Header, Error> {
    #[derive(serde::Deserialize)]
    struct Format {
        format: String,
        version: u32,
    }
    let format: Format = serde_json::from_slice(line).map_err(|_| Error::NoRecord)?;
    if format.format != FORMAT {
        return Err(Error::NoRecord);
    }
    if format.version != VERSION {
        return Err(Error::Version(format.version));
    }
    serde_json::from_slice(line).map_err(|source| Error::Line { line: 1, source })
}

fn entry_of(line: &[u8]) -> serde_json::Result<Entry> {
    serde_json::from_slice(line)
}

fn append(line: &mut Vec<u8>, entry: &Entry) -> io::Result<()> {
    serde_json::to_writer(&mut *line, entry)?;
    line.push(b'\n');
    Ok(())
}

/// A record of a few entries, and one with work requests of all kinds.
#[cfg(test)]
pub(crate) mod samples {
    use super::*;

    pub(crate) const SAMPLE: &str = include_str!("sample.shr");
    pub(crate) const EVERY: &str = include_str!("every.shr");

    pub(crate) fn read(record: &str) -> (Header, Vec<Entry>) {
        let mut reader = Reader::new(record.as_bytes()).unwrap();
        let header = reader.header().clone();
        (header, reader.by_ref().map(Result::unwrap).collect())
    }
}

#[cfg(test)]
mod tests {
    use soft_hca_verbs::{ErrorNumber, WcStatus};

    use super::samples::SAMPLE;
    use super::*;
    use crate::entry::{Failure, Outcome};

    #[test]
    fn a_record_is_written_as_it_was_read() {
        let mut reader = Reader::new(SAMPLE.as_bytes()).unwrap();
        let mut written = Vec::new();
        let mut writer = Writer::new(&mut written, reader.header()).unwrap();
        let mut before = 0;
        while let Some(entry) = reader.next_entry().unwrap() {
            assert!(entry.t >= before);
            before = entry.t;
            writer.write(&entry).unwrap();
        }
        assert_eq!(String::from_utf8(written).unwrap(), SAMPLE);
    }

    /// A text that is no error number has the number 0; a number without a name stands for itself.
    #[test]
    fn a_call_fails_as_the_file_says() {
        for (errno, number, failure) in [
            ("EINVAL", 22, Failure::Error(ErrorNumber::EINVAL)),
            ("errno 200", 200, Failure::Error(ErrorNumber(200))),
            ("IBV_WC_WR_FLUSH_ERR", 0, Failure::Completion(WcStatus::WR_FLUSH_ERR)),
            ("SIGKILL", 0, Failure::Killed),
        ] {
            let text = format!(r#"{{"refused":{{"errno":"{errno}","number":{number}}}}}"#);
            let refused = Outcome::Refused { error: failure, reason: None, values: Vec::new() };
            assert_eq!(serde_json::to_string(&refused).unwrap(), text);
            assert_eq!(serde_json::from_str::<Outcome>(&text).unwrap(), refused);
        }
    }

    #[test]
    fn other_files_are_refused() {
        let refusal = |text: &str| Reader::new(text.as_bytes()).unwrap_err().to_string();
        for other in ["", "\n", "{}\n", "{\"format\":\"else\",\"version\":1}\n"] {
            assert_eq!(refusal(other), "this is no record of soft-hca");
        }
        let of_version = |version: u32| {
            let text = format!("\"version\":{version}");
            refusal(&SAMPLE.replacen(&format!("\"version\":{VERSION}"), &text, 1))
        };
        let only = format!("and this program knows version {VERSION} only");
        assert_eq!(
            of_version(1),
            format!(
                "the record has format version 1, {only}: record the run again (soft-hca record -o \
                 FILE -- CMD)"
            )
        );
        let newer = VERSION + 1;
        assert_eq!(
            of_version(newer),
            format!("the record has format version {newer}, {only}: a newer soft-hca reads it")
        );
        let header = SAMPLE.lines().next().unwrap();
        let text = format!("{header}\n{{}}\n");
        let mut reader = Reader::new(text.as_bytes()).unwrap();
        assert!(reader.next_entry().unwrap_err().to_string().starts_with("line 2 "));
    }

    #[test]
    fn a_line_without_its_end_is_waited_for() {
        let cut = SAMPLE.len() - 10;
        let mut reader = Reader::new(&SAMPLE.as_bytes()[..cut]).unwrap();
        let whole = SAMPLE.lines().count() - 2;
        for _ in 0..whole {
            assert!(reader.next_entry().unwrap().is_some());
        }
        assert_eq!(reader.next_entry().unwrap(), None);
        reader.from = &SAMPLE.as_bytes()[cut..];
        assert!(reader.next_entry().unwrap().is_some());
    }
}
