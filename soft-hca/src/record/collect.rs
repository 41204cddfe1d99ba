//! Records of all processes, in the order of time, into a file.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use soft_hca_core::engine::{DAEMON, LINK};
use soft_hca_core::system;
use soft_hca_core::trace::{Event, FOLDER, Record, TraceRing};
use soft_hca_record::Entry;

use super::decode::Decoder;

/// Records are kept back for so long: those of calls are written when these end, and count from
/// their beginning.
pub(super) const KEPT_NS: u64 = 200_000_000;
/// At the end a record that is still being written is waited for this long; one whose process was
/// killed in the midst of it never comes.
const WRITTEN_NS: u64 = 20_000_000;
/// Between two looks at it.
const PAUSE: Duration = Duration::from_millis(1);

/// A process's ring.
struct ProcessRing {
    ring: TraceRing,
    at: u64,
}

/// Reads what the processes trace, and gives entries of a record.
pub(super) struct Collector {
    folder: PathBuf,
    /// Names of its files begin with this.
    prefix: String,
    known: HashSet<OsString>,
    rings: Vec<ProcessRing>,
    /// Records with the index of the process that has written them.
    pending: Vec<(u32, Record)>,
    decoder: Decoder,
    /// Programs that have begun and not ended, by index and number.
    alive: HashMap<u32, u32>,
    /// Entries that were given, and that are missing.
    pub given: u64,
    pub dropped: u64,
}

impl Collector {
    /// For a recording of the fabric with a folder, which began at a time of the monotonic clock.
    pub(super) fn new(dir: &std::path::Path, generation: u32, began: u64) -> Self {
        Self {
            folder: dir.join(FOLDER),
            prefix: format!("{generation}-"),
            known: HashSet::new(),
            rings: Vec::new(),
            pending: Vec::new(),
            decoder: Decoder::new(began),
            alive: HashMap::new(),
            given: 0,
            dropped: 0,
        }
    }

    /// Finds rings of processes that are new.
    fn look(&mut self) -> io::Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let name = entry?.file_name();
            if !name.to_string_lossy().starts_with(&self.prefix) || self.known.contains(&name) {
                continue;
            }
            if let Some(ring) = TraceRing::open(&self.folder.join(&name))? {
                self.rings.push(ProcessRing { ring, at: TraceRing::start() });
                self.known.insert(name);
            }
        }
        Ok(())
    }

    /// Reads all that is whole; what is not is passed over if the recording `is_over`.
    fn read(&mut self, is_over: bool) {
        for process in &mut self.rings {
            let by = process.ring.index();
            while let Some(record) = process.ring.read(&mut process.at, is_over) {
                let proc = record.about.proc;
                match &record.event {
                    Event::Began(_) if [DAEMON, LINK].contains(&(proc as usize)) => {}
                    Event::Began(began) => _ = self.alive.insert(proc, began.pid),
                    Event::Ended(_) => _ = self.alive.remove(&proc),
                    _ => {}
                }
                // Entries of other threads with an earlier time may name what it tells.
                match &record.event {
                    Event::Place(place) => self.decoder.places.learn(by, place, &record.tail),
                    _ => self.pending.push((by, record)),
                }
            }
            process.ring.release(process.at);
        }
    }

    /// Programs whose end is not on record.
    pub(super) fn alive(&self) -> impl Iterator<Item = u32> {
        self.alive.values().copied()
    }

    /// Whether a process is in the midst of a record, or was killed there.
    fn is_being_written(&self) -> bool {
        self.rings.iter().any(|process| !process.ring.ends_at(process.at))
    }

    /// Takes what there is, and gives what nothing can come before any more: all if the recording
    /// `is_over`.
    pub(super) fn collect(
        &mut self,
        is_over: bool,
        mut give: impl FnMut(&Entry) -> io::Result<()>,
    ) -> io::Result<()> {
        let now = system::now_ns();
        self.look()?;
        self.read(false);
        if is_over {
            while self.is_being_written() && system::now_ns() < now + WRITTEN_NS {
                thread::sleep(PAUSE);
                self.read(false);
            }
            self.read(true);
        }
        self.pending.sort_by_key(|(_, record)| record.about.t);
        let horizon = if is_over { u64::MAX } else { now.saturating_sub(KEPT_NS) };
        let ready = self.pending.partition_point(|(_, record)| record.about.t <= horizon);
        for (by, record) in self.pending.drain(..ready) {
            for entry in self.decoder.entries(by, &record) {
                give(&entry)?;
                self.given += 1;
            }
        }
        // Once, at the end: until then it only counts.
        for process in self.rings.iter().filter(|_| is_over) {
            let missing = process.ring.dropped();
            if missing > 0 {
                self.dropped += missing;
                for entry in self.decoder.dropped(now, process.ring.index(), missing) {
                    give(&entry)?;
                }
            }
        }
        Ok(())
    }
}
