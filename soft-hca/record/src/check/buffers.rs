//! Who else writes to the memory of a process: adapters, by receives, RDMA reads and what peers write.

use std::collections::{HashMap, VecDeque};

use crate::entry::Sge;

/// How many writes to a process's memory are remembered.
const REMEMBERED: usize = 1 << 14;

/// Bytes of a process: the first, and the first behind them.
pub(super) type Range = (u64, u64);

/// What an element has.
pub(super) fn range(sge: &Sge) -> Range {
    (sge.address, sge.address.saturating_add(sge.length.into()))
}

/// Whether two have bytes in common.
pub(super) fn overlap(one: Range, other: Range) -> bool {
    one.0 < other.1 && other.0 < one.1
}

/// What adapters have written to memory, by process.
#[derive(Debug, Default)]
pub(super) struct AdapterWrites(HashMap<u32, Writes>);

#[derive(Debug, Default)]
struct Writes {
    /// When, and where.
    known: VecDeque<(u64, Range)>,
    /// When the latest write that is no longer remembered was made.
    forgotten: Option<u64>,
}

impl AdapterWrites {
    /// Bytes of a process were written to.
    pub(super) fn add(&mut self, process: u32, t: u64, range: Range) {
        let writes = self.0.entry(process).or_default();
        if writes.known.len() == REMEMBERED {
            writes.forgotten = writes.known.pop_front().map(|(t, _)| t);
        }
        writes.known.push_back((t, range));
    }

    /// Whether some of these bytes were written to at a time or later, as far as is known.
    pub(super) fn since(&self, process: u32, t: u64, range: Range) -> bool {
        self.0.get(&process).is_some_and(|writes| {
            writes.forgotten.is_some_and(|last| last >= t)
                || writes.known.iter().any(|(at, written)| *at >= t && overlap(*written, range))
        })
    }

    /// A process has ended.
    pub(super) fn remove(&mut self, process: u32) {
        self.0.remove(&process);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_and_when() {
        let mut writes = AdapterWrites::default();
        writes.add(1, 10, (4096, 4104));
        assert!(writes.since(1, 10, (4100, 4200)) && writes.since(1, 5, (4000, 4097)));
        assert!(!writes.since(1, 11, (4096, 4104)), "before");
        assert!(!writes.since(1, 10, (4104, 4112)) && !writes.since(1, 10, (4088, 4096)), "beside");
        assert!(!writes.since(2, 10, (4096, 4104)), "of another process");
        for t in 0..REMEMBERED as u64 {
            writes.add(1, 20 + t, (0, 8));
        }
        assert!(writes.since(1, 10, (8192, 8200)), "it may have been among the forgotten");
        assert!(!writes.since(1, 11, (8192, 8200)));
    }
}
