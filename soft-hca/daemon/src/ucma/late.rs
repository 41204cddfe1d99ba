//! Files whose program is run strictly: an event can be fetched only some time after it was brought forth.
//!
//! The events of one id come in their order, as what brings them forth follows from one another; a request is
//! the first event of the id that was made for it. Between ids there is no order: their messages may take any
//! time on their way, and so may the kernel, which reports them from a work queue. Nor is there one between a
//! connection's events and its completions: they come by different ways (rdma_notify(3): a message may be there
//! before ESTABLISHED is).

use std::collections::HashMap;

use soft_hca_core::put_off::{self, DELAYS, Draws};
use soft_hca_core::rpc::LateEvents;
use soft_hca_verbs::Choice;

use super::id::Key;
use super::waiting::Waiting;

/// A file's events that cannot be fetched yet.
#[derive(Debug)]
pub(super) struct Late {
    which: LateEvents,
    /// The ids that had events: as which one, and how many.
    ids: HashMap<Key, (u32, u32)>,
    /// Each with its time, the earliest first.
    events: Vec<(u64, Waiting)>,
}

impl Late {
    pub(super) fn new(which: LateEvents) -> Self {
        Self { which, ids: HashMap::new(), events: Vec::new() }
    }

    /// For how long an event that is brought forth is put off.
    fn delay_ns(&mut self, event: &Waiting) -> u64 {
        let LateEvents { seed, numbers } = self.which;
        let others = self.ids.len() as u32;
        let (id, before) = self.ids.entry(event.about()).or_insert((others, 0));
        let place = u64::from(*id) << u32::BITS | u64::from(*before);
        let is_late = numbers.has(*before);
        *before += 1;
        if is_late {
            put_off::delay_ns(DELAYS, &mut Draws::new(seed.get(), Choice::Event, place))
        } else {
            0
        }
    }

    /// Takes an event that is brought forth at a time.
    pub(super) fn push(&mut self, event: Waiting, now_ns: u64) {
        let delay_ns = self.delay_ns(&event);
        let same = self.events.iter().filter(|(_, other)| other.about() == event.about());
        let least_ns = same.map(|(due_ns, _)| *due_ns).max().unwrap_or(0);
        let due_ns = least_ns.max(now_ns + delay_ns);
        let at = self.events.partition_point(|(other, _)| *other <= due_ns);
        self.events.insert(at, (due_ns, event));
    }

    /// The time from which on the next event can be fetched.
    pub(super) fn next(&self) -> Option<u64> {
        self.events.first().map(|(due_ns, _)| *due_ns)
    }

    /// The events, the first to come first.
    pub(super) fn events(&self) -> impl Iterator<Item = &Waiting> {
        self.events.iter().map(|(_, event)| event)
    }

    /// Keeps those events that `is_kept` picks.
    pub(super) fn retain(&mut self, mut is_kept: impl FnMut(&Waiting) -> bool) {
        self.events.retain(|(_, event)| is_kept(event));
    }

    /// Takes the events that can be fetched from a time on.
    pub(super) fn take_due(&mut self, now_ns: u64) -> impl Iterator<Item = Waiting> {
        let count = self.events.partition_point(|(due_ns, _)| *due_ns <= now_ns);
        self.events.drain(..count).map(|(_, event)| event)
    }

    /// The events of an id, which are not put off any longer.
    pub(super) fn take_of(&mut self, id: Key) -> impl Iterator<Item = Waiting> {
        let (taken, kept): (Vec<_>, _) =
            std::mem::take(&mut self.events).into_iter().partition(|(_, event)| event.id == id);
        self.events = kept;
        taken.into_iter().map(|(_, event)| event)
    }
}
