//! Writes of adapters to a process's memory: of receives, RDMA reads and the peers' operations.

use std::collections::VecDeque;

use super::send_queue::Range;

/// How many writes to a process's memory are remembered.
const REMEMBERED: usize = 1 << 14;

/// Whether two ranges have bytes in common.
pub fn overlap(one: Range, other: Range) -> bool {
    one.0 < other.1 && other.0 < one.1
}

/// Writes to the memory of a process.
#[derive(Clone, Debug, Default)]
pub struct Writes {
    /// When, and where.
    known: VecDeque<(u64, Range)>,
    /// When the latest write was made that is not remembered.
    forgotten: Option<u64>,
}

impl Writes {
    /// Bytes were written to.
    pub(super) fn add(&mut self, t: u64, range: Range) {
        if self.known.len() == REMEMBERED {
            self.forgotten = self.known.pop_front().map(|(t, _)| t);
        }
        self.known.push_back((t, range));
    }

    /// Whether some of these bytes were written to at a time or later, as far as is known.
    pub fn since(&self, t: u64, range: Range) -> bool {
        self.forgotten.is_some_and(|last| last >= t)
            || self.known.iter().any(|(at, written)| *at >= t && overlap(*written, range))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_and_when() {
        let mut writes = Writes::default();
        writes.add(10, (4096, 4104));
        assert!(writes.since(10, (4100, 4200)) && writes.since(5, (4000, 4097)));
        assert!(!writes.since(11, (4096, 4104)), "before");
        assert!(!writes.since(10, (4104, 4112)) && !writes.since(10, (4088, 4096)), "beside");
        for t in 0..REMEMBERED as u64 {
            writes.add(20 + t, (0, 8));
        }
        assert!(writes.since(10, (8192, 8200)), "it may have been among the forgotten");
        assert!(!writes.since(11, (8192, 8200)));
    }
}
