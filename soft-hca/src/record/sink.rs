//! Where the entries of a recording go.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use soft_hca_record::explain::Live;
use soft_hca_record::{Entry, What, Writer};

/// A file, and standard error for what goes wrong.
#[derive(Default)]
pub(super) struct Sink {
    pub writer: Option<Writer<BufWriter<File>>>,
    pub live: Option<Live>,
    /// Whether a packet of the link was among the entries.
    pub has_packets: bool,
}

/// A line on standard error, in one piece. Where nobody hears it there is nobody to tell.
fn say(line: &str) {
    let _ = io::stderr().write_all(format!("soft-hca: {line}").as_bytes());
}

impl Sink {
    pub(super) fn entry(&mut self, entry: &Entry) -> io::Result<()> {
        let lines = self.live.as_mut().map(|live| live.entry(entry));
        lines.iter().flatten().for_each(|line| say(line));
        self.has_packets |= matches!(entry.what, What::Packet(_));
        self.writer.as_mut().map_or(Ok(()), |writer| writer.write(entry))
    }

    /// All is there up to a time of the recording.
    pub(super) fn looked(&mut self, t: u64) -> io::Result<()> {
        let waiting = self.live.as_mut().map(|live| live.waiting(t));
        waiting.iter().flatten().for_each(|line| say(line));
        self.writer.as_mut().map_or(Ok(()), Writer::flush)
    }

    /// There is no more.
    pub(super) fn end(&mut self) -> io::Result<()> {
        let again = self.live.as_mut().map(Live::end);
        again.iter().flatten().for_each(|line| say(line));
        self.writer.as_mut().map_or(Ok(()), Writer::flush)
    }
}
