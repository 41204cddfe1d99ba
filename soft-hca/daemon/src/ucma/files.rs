//! Opened files, each with its queue of events.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use soft_hca_core::device_spec::DeviceSet;
use soft_hca_core::errno::{Errno, Refusal, Result, ensure};
use soft_hca_core::rpc::LateEvents;

use super::host::{FileId, Host};
use super::id::Key;
use super::late::Late;
use super::waiting::Waiting;
use crate::clock::Clock;
use crate::device::{Device, Source};

/// An opened file.
#[derive(Debug)]
pub(super) struct File {
    /// Its process, for listings.
    pub owner: usize,
    /// The devices that its program finds.
    pub found: DeviceSet,
    pub events: VecDeque<Waiting>,
    /// Those that its program cannot fetch yet.
    pub late: Option<Late>,
    /// When its program has asked for an event for the first time since the last one, and there was none.
    pub asked_ns: Option<u64>,
}

impl File {
    pub(super) fn new(owner: usize) -> Self {
        Self { owner, found: DeviceSet::ALL, events: VecDeque::new(), late: None, asked_ns: None }
    }

    /// The events that nobody has fetched, in no order.
    pub(super) fn unfetched(&self) -> impl Iterator<Item = &Waiting> {
        self.events.iter().chain(self.late.iter().flat_map(Late::events))
    }
}

/// Events that may wait in a file before commands that bring forth more are refused. The kernel
/// has no such limit, but a program that never fetches must not use up everybody's memory.
const MAX_WAITING: usize = 0x4000;

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Files {
    files: BTreeMap<FileId, File>,
    last: FileId,
    touched: BTreeSet<FileId>,
    /// The time by which events are put off.
    clock: Arc<Clock>,
}

impl Files {
    pub(super) fn new(clock: Arc<Clock>) -> Self {
        Self { clock, ..Self::default() }
    }

    /// A file that a process has opened.
    pub(super) fn open(&mut self, owner: usize) -> FileId {
        self.last = self.last.wrapping_add(1).max(1);
        self.files.insert(self.last, File::new(owner));
        self.last
    }

    pub(super) fn close(&mut self, file: FileId) {
        self.files.remove(&file);
        self.touched.remove(&file);
    }

    pub(super) fn get(&self, file: FileId) -> Option<&File> {
        self.files.get(&file)
    }

    pub(super) fn get_mut(&mut self, file: FileId) -> Option<&mut File> {
        self.files.get_mut(&file)
    }

    /// All files, in the order of their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (FileId, &File)> {
        self.files.iter().map(|(number, file)| (*number, file))
    }

    /// Whether the program of a file finds a device.
    pub(super) fn finds(&self, file: FileId, device: &Device) -> bool {
        self.get(file).is_some_and(|file| file.found.has(device.index))
    }

    /// The device, port and GID of an address, if the program of a file finds that device.
    pub(super) fn source(&self, host: &dyn Host, file: FileId, ip: IpAddr) -> Option<Source> {
        host.find_source(ip).filter(|source| self.finds(file, &source.device))
    }

    /// Queues an event that is brought forth at a time.
    pub(super) fn push(&mut self, number: FileId, event: Waiting, now_ns: u64) {
        let Some(file) = self.files.get_mut(&number) else { return };
        match &mut file.late {
            Some(late) => late.push(event, self.clock.at(now_ns)),
            None => {
                file.events.push_back(event);
                self.touched.insert(number);
            }
        }
    }

    /// When the next event that is put off can be fetched, by the clock of what is.
    pub(super) fn next_late(&self) -> Option<u64> {
        self.files.values().filter_map(|file| file.late.as_ref()?.next()).min()
    }

    /// Takes the oldest event of a file.
    pub(super) fn pop(&mut self, file: FileId) -> Option<Waiting> {
        let event = self.files.get_mut(&file)?.events.pop_front()?;
        self.touched.insert(file);
        Some(event)
    }

    /// The program of a file is run strictly, and these events come late; or none does.
    pub(super) fn put_off_events(&mut self, file: FileId, late: Option<LateEvents>) {
        if let Some(file) = self.files.get_mut(&file) {
            file.late = late.map(Late::new);
        }
    }

    /// Events that were put off until now can be fetched.
    pub(super) fn take_late(&mut self, now_ns: u64) {
        let clock_ns = self.clock.at(now_ns);
        for (number, File { events, late, .. }) in &mut self.files {
            if let Some(late) = late {
                let before = events.len();
                events.extend(late.take_due(clock_ns));
                self.touched.extend((events.len() > before).then_some(*number));
            }
        }
    }

    /// Takes the files whose number of waiting events may have changed.
    pub(super) fn take_touched(&mut self) -> BTreeSet<FileId> {
        std::mem::take(&mut self.touched)
    }

    /// Refuses what would bring forth an event while too many wait.
    pub(super) fn room_for_event(&self, file: FileId) -> Result<()> {
        let unfetched = self.files.get(&file).map_or(0, |file| file.unfetched().count());
        let has_room = unfetched < MAX_WAITING;
        ensure(has_room, Errno::ENOMEM.because(Refusal::EventsFull))
    }

    /// Forgets a file's events that `is_meant` picks, and gives the ids of the requests among
    /// them.
    pub(super) fn forget_events(
        &mut self,
        file: FileId,
        is_meant: impl Fn(&Waiting) -> bool,
    ) -> Vec<Key> {
        let mut requests = Vec::new();
        let Some(queue) = self.files.get_mut(&file) else { return requests };
        let mut is_kept = |event: &Waiting| {
            let is_meant = is_meant(event);
            requests.extend(event.request.filter(|_| is_meant));
            !is_meant
        };
        queue.events.retain(&mut is_kept);
        if let Some(late) = &mut queue.late {
            late.retain(is_kept);
        }
        self.touched.insert(file);
        requests
    }

    /// Moves an id's events from one file to the end of another one's queue, and gives the ids of the
    /// requests among them.
    pub(super) fn move_events(&mut self, key: Key, from: FileId, to: FileId) -> Vec<Key> {
        let Some(old) = self.files.get_mut(&from) else { return Vec::new() };
        let (mut moved, kept): (VecDeque<_>, _) =
            std::mem::take(&mut old.events).into_iter().partition(|event| event.id == key);
        old.events = kept;
        if let Some(late) = &mut old.late {
            moved.extend(late.take_of(key));
        }
        let requests = moved.iter().filter_map(|event| event.request).collect();
        if let Some(new) = self.files.get_mut(&to) {
            new.events.extend(moved);
        }
        self.touched.extend([from, to]);
        requests
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }
}
