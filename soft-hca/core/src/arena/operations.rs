//! Operations of peers at a process's memory, for a sanitizer of that process: whoever executes one leaves it here, and
//! the process takes it at its next call.
//!
//! As many are kept as [`OPERATIONS`] says. A process that makes no call misses older ones.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use zerocopy::{TryFromBytes, try_transmute};

use crate::arena::places::{PLACE_WORDS, Place};

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
    /// The peer's name for the work request.
    pub wr_id: u64,
    /// The peer's process id.
    pub pid: u32,
    /// Where the peer has posted it.
    pub place: Place,
}

/// Words of an operation in the arena, besides its number and their sum.
const WORDS: usize = 4 + PLACE_WORDS;

impl Operation {
    fn to_words(self) -> [u64; WORDS] {
        let both = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        let place = self.place.to_words();
        let mut words = [0; WORDS];
        words[..4].copy_from_slice(&[
            self.address,
            self.wr_id,
            both(self.kind as u32, self.length),
            both(self.qpn, self.pid),
        ]);
        words[4..].copy_from_slice(&place);
        words
    }

    fn of_words(words: [u64; WORDS]) -> Option<Self> {
        let [address, wr_id, what, whose, place @ ..] = words;
        let kind = (what >> 32) as u32;
        Some(Self {
            kind: try_transmute!(kind).ok()?,
            address,
            length: what as u32,
            qpn: (whose >> 32) as u32,
            wr_id,
            pid: whose as u32,
            place: Place::of_words(place),
        })
    }
}

/// An operation in the arena. Two may be written to one slot at once, if others have gone round between them: then the
/// sum is wrong, and both are missed.
#[repr(C)]
#[derive(Debug, Default)]
struct Slot {
    /// Its number, from 1 on, once all else is written.
    number: AtomicU64,
    /// Of the number and the words.
    sum: AtomicU64,
    words: [AtomicU64; WORDS],
}

/// A sum in which each word and its place count.
fn sum(number: u64, words: &[u64; WORDS]) -> u64 {
    let add =
        |sum: u64, word: &u64| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    words.iter().fold(number, add)
}

/// The operations at a process's memory.
#[repr(C)]
#[derive(Debug)]
pub struct Operations {
    count: AtomicU64,
    slots: [Slot; OPERATIONS],
}

impl Operations {
    /// Their number so far.
    pub fn count(&self) -> u64 {
        self.count.load(Acquire)
    }

    /// An operation was executed.
    pub fn add(&self, done: &Operation) {
        let before = self.count.fetch_add(1, AcqRel);
        let slot = &self.slots[before as usize % OPERATIONS];
        let words = done.to_words();
        slot.sum.store(sum(before + 1, &words), Relaxed);
        for (place, word) in slot.words.iter().zip(words) {
            place.store(word, Relaxed);
        }
        slot.number.fetch_max(before + 1, Release);
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
            let number = slot.number.load(Acquire);
            if number <= *taken {
                // It is being written.
                return None;
            }
            *taken += 1;
            let words = slot.words.each_ref().map(|word| word.load(Relaxed));
            if number == *taken && slot.sum.load(Relaxed) == sum(number, &words) {
                return Operation::of_words(words);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;

    fn none() -> Operations {
        Operations { count: AtomicU64::new(0), slots: std::array::from_fn(|_| Slot::default()) }
    }

    fn operation(number: u64) -> Operation {
        let (length, qpn, pid) = (number as u32, number as u32, number as u32);
        let (kind, place) = (OperationKind::Write, Place::new(&format!("peer.c:{number}")));
        Operation { kind, address: number, length, qpn, wr_id: number, pid, place }
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
