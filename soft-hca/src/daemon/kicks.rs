//! Send queues that are to be run again later.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Deadlines of queue pairs; each has one at most, the earliest.
#[derive(Debug, Default)]
pub(crate) struct Kicks {
    heap: BinaryHeap<Reverse<(u64, u32)>>,
    deadline_of: HashMap<u32, u64>,
}

impl Kicks {
    /// Runs queue pair `qpn` at `at_ns` (`CLOCK_MONOTONIC`), or earlier if it already was to.
    pub(crate) fn add(&mut self, qpn: u32, at_ns: u64) {
        let deadline = self.deadline_of.entry(qpn).or_insert(u64::MAX);
        if at_ns < *deadline {
            *deadline = at_ns;
            self.heap.push(Reverse((at_ns, qpn)));
        }
    }

    /// The next deadline.
    pub(crate) fn next(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes what is due.
    pub(crate) fn due(&mut self, now_ns: u64) -> Vec<u32> {
        let mut due = Vec::new();
        while let Some(&Reverse((at, qpn))) = self.heap.peek()
            && at <= now_ns
        {
            self.heap.pop();
            if self.deadline_of.get(&qpn) == Some(&at) {
                self.deadline_of.remove(&qpn);
                due.push(qpn);
            }
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_counts() {
        let mut kicks = Kicks::default();
        kicks.add(1, 50);
        kicks.add(2, 30);
        kicks.add(1, 20);
        kicks.add(1, 90);
        assert_eq!(kicks.next(), Some(20));
        assert_eq!(kicks.due(30), [1, 2]);
        assert_eq!(kicks.due(100), [] as [u32; 0]);
        kicks.add(1, 5);
        assert_eq!(kicks.due(5), [1]);
    }
}
