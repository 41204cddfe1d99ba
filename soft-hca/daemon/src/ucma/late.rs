//! Files whose program is run strictly: an event can be fetched only some time after it was brought forth.
//!
//! The events of one id come in their order, as what brings them forth follows from one another; a request is
//! the first event of the id that was made for it. Between ids there is no order: their messages may take any
//! time on their way, and so may the kernel, which reports them from a work queue. Nor is there one between a
//! connection's events and its completions: they come by different ways (rdma_notify(3): a message may be there
//! before ESTABLISHED is).

use std::num::NonZeroU64;

use soft_hca_core::put_off::{self, DELAYS};

use super::event::{File, Waiting};
use super::id::Key;
use super::{Cm, FileId};

/// A file's events that cannot be fetched yet.
#[derive(Debug)]
pub(super) struct Late {
    seed: NonZeroU64,
    choices: u64,
    /// Each with its time, the earliest first.
    events: Vec<(u64, Waiting)>,
}

impl Late {
    /// Takes an event that is brought forth at a time; gives the time from which on it can be fetched.
    pub(super) fn push(&mut self, event: Waiting, now_ns: u64) -> u64 {
        let delay_ns = put_off::delay_ns(DELAYS, |limit| {
            self.choices += 1;
            put_off::choice(self.seed.get(), self.choices, limit)
        });
        let same = self.events.iter().filter(|(_, other)| other.about() == event.about());
        let least_ns = same.map(|(due_ns, _)| *due_ns).max().unwrap_or(0);
        let due_ns = least_ns.max(now_ns + delay_ns);
        let at = self.events.partition_point(|(other, _)| *other <= due_ns);
        self.events.insert(at, (due_ns, event));
        due_ns
    }

    /// The events, the first to come first.
    pub(super) fn events(&self) -> impl Iterator<Item = &Waiting> {
        self.events.iter().map(|(_, event)| event)
    }

    /// Keeps those events that `is_kept` picks.
    pub(super) fn retain(&mut self, mut is_kept: impl FnMut(&Waiting) -> bool) {
        self.events.retain(|(_, event)| is_kept(event));
    }

    /// The events of an id, which are not put off any longer.
    pub(super) fn take_of(&mut self, id: Key) -> impl Iterator<Item = Waiting> {
        let (taken, kept): (Vec<_>, _) =
            std::mem::take(&mut self.events).into_iter().partition(|(_, event)| event.id == id);
        self.events = kept;
        taken.into_iter().map(|(_, event)| event)
    }
}

impl Cm {
    /// The program of a file is run strictly, with this seed; or it is not.
    pub(crate) fn put_off_events(&mut self, file: FileId, seed: Option<NonZeroU64>) {
        if let Some(file) = self.files.get_mut(&file) {
            file.late = seed.map(|seed| Late { seed, choices: 0, events: Vec::new() });
        }
    }

    /// Events of a file that were put off until now can be fetched.
    pub(super) fn events_have_come(&mut self, file: FileId) {
        let Some(File { events, late: Some(late), .. }) = self.files.get_mut(&file) else { return };
        let count = late.events.partition_point(|(due_ns, _)| *due_ns <= self.now_ns);
        events.extend(late.events.drain(..count).map(|(_, event)| event));
        self.touched.insert(file);
    }
}
