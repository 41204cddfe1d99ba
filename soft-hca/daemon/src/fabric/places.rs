//! Places of rings, and whose they are.

use std::collections::HashMap;

use soft_hca_core::arena::{Heap, Mapping, RingLocation};

/// The owner of a ring, by its index in the object's table.
///
/// The daemon keeps the places of rings by itself. Those in the arena are for the data path, and a
/// program may have changed them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RingOf {
    /// A queue pair's send requests.
    Send(usize),
    /// A queue pair's receives.
    Receive(usize),
    /// A shared receive queue's receives.
    Shared(usize),
    /// A completion queue's completions.
    Completions(usize),
    /// Payloads that wait for the polls of a completion queue.
    Eager(usize),
    /// The state of a queue pair with a peer on another host.
    Snapshot(usize),
}

impl RingOf {
    /// The place in the object's entry.
    pub(super) fn entry(self, arena: &Mapping) -> &RingLocation {
        match self {
            Self::Send(index) => &arena.qps[index].sq,
            Self::Receive(index) => &arena.qps[index].rq,
            Self::Shared(index) => &arena.srqs[index].ring,
            Self::Completions(index) => &arena.cqs[index].ring,
            Self::Eager(index) => &arena.cqs[index].eager,
            Self::Snapshot(index) => &arena.qps[index].snapshot,
        }
    }
}

/// All rings of a fabric.
#[derive(Debug, Default)]
pub(super) struct Rings {
    pub(super) places: HashMap<RingOf, RingLocation>,
    /// Rings of objects that are gone, which programs have mapped still, by file.
    retired: HashMap<u32, Vec<RingLocation>>,
    /// The arena's memory for them.
    pub(super) heap: Heap,
}

impl Rings {
    /// An object's ring, if it has one, stays until its file is closed.
    pub(super) fn retire(&mut self, file: u32, of: RingOf) {
        if let Some(place) = self.places.remove(&of) {
            self.retired.entry(file).or_default().push(place);
        }
    }

    /// The retired rings of a file.
    pub(super) fn take_retired(&mut self, file: u32) -> Vec<RingLocation> {
        self.retired.remove(&file).unwrap_or_default()
    }
}

#[cfg(any(test, fuzzing))]
impl Rings {
    pub(super) fn len(&self) -> usize {
        self.places.len() + self.retired.values().map(Vec::len).sum::<usize>()
    }

    pub(super) fn free_bytes(&self) -> usize {
        self.heap.free_bytes()
    }
}
