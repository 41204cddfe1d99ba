//! The files of counters in sysfs, each of which has its value when it is opened.
//!
//! As long as nobody looks, nothing is done. The daemon has a lease on every file: who opens one waits
//! until the daemon has written the value, whether he is a program with the preloaded library or one
//! that asks the system by itself. While a file is open, and on file systems that have no leases, the
//! value is at most ten milliseconds old.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

use soft_hca_core::system;

use crate::counters::{COUNTERS, Counter, PortCounts, PortOf};
use crate::fabric::Fabric;
use crate::lease::{self, Notices};
use crate::sysfs;

/// The first wait before a lease that was given back is taken again: programs read and close at
/// once.
const FIRST_PAUSE_NS: u64 = 1_000_000;
/// The longest. The kernel's `hw_counters` are as old at most (`lifespan`).
const LAST_PAUSE_NS: u64 = 10_000_000;

/// A file in a tree.
#[derive(Debug)]
struct CounterFile {
    file: File,
    port: PortOf,
    counter: Counter,
    /// Its content.
    value: u64,
    /// Nobody else has it open, and who opens it waits.
    is_leased: bool,
}

impl CounterFile {
    fn open(path: &Path, port: PortOf, counter: Counter) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let value = counter.value(&PortCounts::default());
        let is_leased = lease::take(&file).is_ok();
        Ok(Self { file, port, counter, value, is_leased })
    }

    /// Writes the value as it is now.
    fn write(&mut self, counts: &BTreeMap<PortOf, PortCounts>) {
        let value = counts.get(&self.port).map_or(0, |counts| self.counter.value(counts));
        if value == self.value {
            return;
        }
        let text = format!("{value}\n");
        let written = self.file.write_all_at(text.as_bytes(), 0);
        // It has fewer digits only if a program has written to the arena.
        let written = written.and_then(|()| match value < self.value {
            true => self.file.set_len(text.len() as u64),
            false => Ok(()),
        });
        match written {
            Ok(()) => self.value = value,
            Err(error) => tracing::warn!("cannot write {}: {error}", self.counter.name),
        }
    }
}

/// The files of all trees.
#[derive(Debug)]
pub(crate) struct CounterFiles {
    notices: Notices,
    /// Trees, by name, and devices whose files these are.
    known: BTreeSet<(String, usize)>,
    files: Vec<CounterFile>,
    /// When files without a lease are looked at again, and how long that is.
    next: Option<u64>,
    pause_ns: u64,
}

impl CounterFiles {
    /// None yet. See [`Notices::new`].
    pub(crate) fn new() -> io::Result<Self> {
        let (known, files) = Default::default();
        let pause_ns = FIRST_PAUSE_NS;
        Ok(Self { notices: Notices::new()?, known, files, next: None, pause_ns })
    }

    /// Becomes readable when [`CounterFiles::serve`] is to be called.
    pub(crate) fn notices(&self) -> BorrowedFd<'_> {
        self.notices.as_fd()
    }

    /// When [`CounterFiles::look_again`] is to be called at the latest (`CLOCK_MONOTONIC`).
    pub(crate) fn next(&self) -> Option<u64> {
        self.next
    }

    /// Takes the files of devices that are new in a tree of the fabric's.
    pub(crate) fn adopt(&mut self, dir: &Path, fabric: &Fabric) {
        let mut found = BTreeSet::new();
        for device in &fabric.devices {
            for port in &device.ports {
                for (tree, port_dir) in sysfs::port_dirs(dir, device, port.number) {
                    let of_device = (tree, device.index);
                    if self.known.contains(&of_device) {
                        continue;
                    }
                    for counter in COUNTERS.into_iter().filter(|it| !it.is_constant()) {
                        let path = port_dir.join(counter.folder).join(counter.name);
                        match CounterFile::open(&path, (device.index, port.number), counter) {
                            Ok(file) => self.files.push(file),
                            Err(error) => tracing::warn!("{}: {error}", path.display()),
                        }
                    }
                    found.insert(of_device);
                }
            }
        }
        if !found.is_empty() {
            self.known.append(&mut found);
            self.look_soon();
        }
    }

    /// Somebody opens a file, and waits.
    pub(crate) fn serve(&mut self, fabric: &Fabric) {
        self.notices.clear();
        let counts = fabric.count_ports();
        for file in self.files.iter_mut().filter(|file| file.is_leased) {
            if lease::is_wanted(&file.file) {
                file.write(&counts);
                file.is_leased = false;
                lease::give_back(&file.file);
            }
        }
        self.look_soon();
    }

    fn look_soon(&mut self) {
        self.pause_ns = FIRST_PAUSE_NS;
        let is_open = self.files.iter().any(|file| !file.is_leased);
        self.next = is_open.then(|| system::now_ns() + self.pause_ns);
    }

    /// Takes leases again, and writes files that are still open.
    pub(crate) fn look_again(&mut self, now: u64, fabric: &Fabric) {
        if self.next.is_none_or(|at| at > now) {
            return;
        }
        let counts = fabric.count_ports();
        let mut is_open = false;
        for file in self.files.iter_mut().filter(|file| !file.is_leased) {
            file.write(&counts);
            file.is_leased = lease::take(&file.file).is_ok();
            is_open |= !file.is_leased;
        }
        self.pause_ns = (2 * self.pause_ns).min(LAST_PAUSE_NS);
        self.next = is_open.then_some(now + self.pause_ns);
    }
}
