//! Where the entries of a recording go.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufWriter, Write};

use soft_hca_record::explain::Live;
use soft_hca_record::{Entry, What, Writer};

use crate::watcher::Watcher;

/// So many looks, half a second apart, make a second.
const LOOKS: u32 = 3;

/// A file, and standard error for what goes wrong.
#[derive(Default)]
pub(super) struct Sink {
    pub writer: Option<Writer<BufWriter<File>>>,
    pub live: Option<Live>,
    /// The watcher that looks for mistakes.
    pub watcher: Option<Watcher>,
    /// Lines that were printed of programs that do not go on, without numbers.
    pub said: HashSet<String>,
    /// The same of what was so at the last looks, and at how many.
    pub seen: HashMap<String, u32>,
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
        if let Some(watcher) = &mut self.watcher {
            watcher.entry(entry);
        }
        self.has_packets |= matches!(entry.what, What::Packet(_));
        self.writer.as_mut().map_or(Ok(()), |writer| writer.write(entry))
    }

    /// All is there up to a time of the recording.
    pub(super) fn looked(&mut self, t: u64) -> io::Result<()> {
        let waiting = self.live.as_mut().map(|live| live.waiting(t));
        waiting.iter().flatten().for_each(|line| say(line));
        self.writer.as_mut().map_or(Ok(()), Writer::flush)
    }

    /// Prints what the daemon says of programs that do not go on, once: of threads that have waited for
    /// long at once, of all else if it stays so.
    pub(super) fn waits(&mut self, text: &str) {
        let kind = |line: &str| line.replace(|c: char| c.is_ascii_digit(), "");
        let mut seen = HashMap::new();
        for line in text.lines() {
            let kind = kind(line);
            let looks = self.seen.get(&kind).copied().unwrap_or(0) + 1;
            if (looks >= LOOKS || line.contains(" waits in ")) && self.said.insert(kind.clone()) {
                say(&format!("{line}\n"));
            }
            seen.insert(kind, looks);
        }
        self.seen = seen;
    }

    /// There is no more.
    pub(super) fn end(&mut self) -> io::Result<()> {
        let again = self.live.as_mut().map(Live::end);
        again.iter().flatten().for_each(|line| say(line));
        self.writer.as_mut().map_or(Ok(()), Writer::flush)
    }
}
