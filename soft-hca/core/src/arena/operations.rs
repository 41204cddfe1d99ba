//! Operations of peers at a process's memory and their messages to it, for a sanitizer of that process: whoever executes
//! one leaves it here, and the process takes it at its next call.
//!
//! As many are kept as [`OPERATIONS`] says. A process that makes no call misses older ones.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use zerocopy::{TryFromBytes, try_transmute};

use crate::arena::places::{PLACE_WORDS, Place};
use crate::arena::summed::Summed;

/// Operations of a process that are kept.
pub const OPERATIONS: usize = 256;

/// The access of an operation to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, TryFromBytes)]
#[repr(u32)]
pub enum OperationKind {
    /// An RDMA read reads it.
    Read = 1,
    /// An RDMA write writes it.
    Write = 2,
    /// An atomic operation reads and writes it.
    Atomic = 3,
    /// A message goes into a receive, and names no memory.
    Message = 4,
}

/// An operation that was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Its kind.
    pub kind: OperationKind,
    /// First address.
    pub address: u64,
    /// Bytes.
    pub length: u32,
    /// The peer's queue pair.
    pub qpn: u32,
    /// The process's own, to which the peer's is connected.
    pub to: u32,
    /// The peer's name for the work request.
    pub wr_id: u64,
    /// The peer's index in the table of processes.
    pub peer: u32,
    /// The peer's process id.
    pub pid: u32,
    /// The peer's [moment](crate::arena::Clocks) at which it has posted it; 0 of a peer that counts none.
    pub moment: u64,
    /// Where the peer has posted it.
    pub place: Place,
}

/// Words of an operation in the arena, besides its number and their sum.
const WORDS: usize = 6 + PLACE_WORDS;

impl Operation {
    fn to_words(self) -> [u64; WORDS] {
        let both = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        let place = self.place.to_words();
        let mut words = [0; WORDS];
        words[..6].copy_from_slice(&[
            self.address,
            self.wr_id,
            both(self.kind as u32, self.length),
            both(self.qpn, self.to),
            both(self.peer, self.pid),
            self.moment,
        ]);
        words[6..].copy_from_slice(&place);
        words
    }

    fn of_words(words: [u64; WORDS]) -> Option<Self> {
        let [address, wr_id, what, queue_pairs, whose, moment, place @ ..] = words;
        let kind = (what >> 32) as u32;
        Some(Self {
            kind: try_transmute!(kind).ok()?,
            address,
            length: what as u32,
            qpn: (queue_pairs >> 32) as u32,
            to: queue_pairs as u32,
            wr_id,
            peer: (whose >> 32) as u32,
            pid: whose as u32,
            moment,
            place: Place::of_words(place),
        })
    }
}

/// The operations at a process's memory.
#[repr(C)]
#[derive(Debug)]
pub struct Operations {
    count: AtomicU64,
    slots: [Summed<WORDS>; OPERATIONS],
}

impl Operations {
    /// Their number so far.
    pub fn count(&self) -> u64 {
        self.count.load(Acquire)
    }

    /// An operation was executed.
    pub fn add(&self, done: &Operation) {
        let before = self.count.fetch_add(1, AcqRel);
        self.slots[before as usize % OPERATIONS].write(before + 1, &done.to_words());
    }

    /// The next one behind as many as were taken, which is counted. None if there is none yet.
    pub fn next(&self, taken: &mut u64) -> Option<Operation> {
        loop {
            let count = self.count.load(Acquire);
            if *taken >= count {
                return None;
            }
            *taken = (*taken).max(count.saturating_sub(OPERATIONS as u64));
            let slot = &self.slots[*taken as usize % OPERATIONS];
            if slot.number() <= *taken {
                // It is being written.
                return None;
            }
            *taken += 1;
            if let Some(words) = slot.read(*taken) {
                return Operation::of_words(words);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::{Relaxed, Release};
    use std::thread;

    use super::*;

    fn none() -> Operations {
        Operations { count: AtomicU64::new(0), slots: std::array::from_fn(|_| Summed::new()) }
    }

    fn operation(number: u64) -> Operation {
        let [length, qpn, to, peer, pid] = [0, 1, 2, 3, 4].map(|more| number as u32 + more);
        let (kind, place) = (OperationKind::Write, Place::new(&format!("peer.c:{number}")));
        let (address, wr_id, moment) = (number + 1, number, number + 2);
        Operation { kind, address, length, qpn, to, wr_id, peer, pid, moment, place }
    }

    #[test]
    fn they_are_taken_in_their_order_and_the_oldest_are_missed() {
        let operations = none();
        let mut taken = operations.count();
        assert_eq!(operations.next(&mut taken), None);
        (1..=3).for_each(|number| operations.add(&operation(number)));
        let all: Vec<u64> =
            std::iter::from_fn(|| operations.next(&mut taken)).map(|done| done.wr_id).collect();
        assert_eq!(all, [1, 2, 3]);
        let more = OPERATIONS as u64 + 5;
        (4..4 + more).for_each(|number| operations.add(&operation(number)));
        assert_eq!(operations.next(&mut taken).map(|done| done.wr_id), Some(9));
    }

    #[test]
    fn one_that_is_mixed_with_another_is_missed() {
        let operations = none();
        (1..=3).for_each(|number| operations.add(&operation(number)));
        operations.slots[1].words[1].store(2 + OPERATIONS as u64, Relaxed);
        let mut taken = 0;
        let found = [(); 3].map(|()| operations.next(&mut taken).map(|done| done.wr_id));
        assert_eq!(found, [Some(1), Some(3), None]);
    }

    #[test]
    fn none_is_taken_half_written() {
        let operations = none();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    (1..20_000).for_each(|number| operations.add(&operation(number)));
                    is_over.store(true, Release);
                });
            }
            let mut taken = 0;
            while !is_over.load(Acquire) {
                if let Some(done) = operations.next(&mut taken) {
                    assert_eq!(done, operation(done.wr_id));
                }
            }
        });
    }
}
