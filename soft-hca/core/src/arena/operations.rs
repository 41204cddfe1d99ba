//! Operations of peers at a process's memory, for a sanitizer of that process: whoever executes one leaves it here, and
//! the process takes it at its next call.
//!
//! As many are kept as [`OPERATIONS`] says. A process that makes no call misses older ones.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64, fence};

use zerocopy::{TryFromBytes, try_transmute};

/// Operations of a process that are kept.
pub const OPERATIONS: usize = 256;

/// What an operation does with memory.
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
    /// What it does.
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
}

/// An operation in the arena.
#[repr(C)]
#[derive(Debug, Default)]
struct Slot {
    /// Its number, from 1 on, once all else is written.
    number: AtomicU64,
    address: AtomicU64,
    wr_id: AtomicU64,
    kind: AtomicU32,
    length: AtomicU32,
    qpn: AtomicU32,
    pid: AtomicU32,
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
        // A reader that sees a field of this one sees that the slot is in use.
        slot.number.store(0, Relaxed);
        fence(Release);
        slot.address.store(done.address, Relaxed);
        slot.wr_id.store(done.wr_id, Relaxed);
        slot.kind.store(done.kind as u32, Relaxed);
        slot.length.store(done.length, Relaxed);
        slot.qpn.store(done.qpn, Relaxed);
        slot.pid.store(done.pid, Relaxed);
        slot.number.store(before + 1, Release);
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
            let kind = slot.kind.load(Relaxed);
            let found = Operation {
                kind: try_transmute!(kind).unwrap_or(OperationKind::Read),
                address: slot.address.load(Relaxed),
                length: slot.length.load(Relaxed),
                qpn: slot.qpn.load(Relaxed),
                wr_id: slot.wr_id.load(Relaxed),
                pid: slot.pid.load(Relaxed),
            };
            fence(Acquire);
            *taken += 1;
            if number == *taken && slot.number.load(Relaxed) == number {
                return Some(found);
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
        let kind = OperationKind::Write;
        Operation { kind, address: number, length, qpn, wr_id: number, pid }
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
