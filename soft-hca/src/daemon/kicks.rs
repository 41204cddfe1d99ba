//! Send queues that are to be run again later.

use std::collections::{BTreeSet, HashMap};

/// Deadlines of queue pairs; each has one at most, the earliest.
#[derive(Debug, Default)]
pub(crate) struct Kicks {
    in_order: BTreeSet<(u64, u32)>,
    deadline_of: HashMap<u32, u64>,
}

impl Kicks {
    /// Runs queue pair `qpn` at `at_ns` (`CLOCK_MONOTONIC`), or earlier if it already was to.
    pub(crate) fn add(&mut self, qpn: u32, at_ns: u64) {
        let deadline = self.deadline_of.entry(qpn).or_insert(at_ns);
        self.in_order.remove(&(*deadline, qpn));
        *deadline = at_ns.min(*deadline);
        self.in_order.insert((*deadline, qpn));
    }

    /// The next deadline.
    pub(crate) fn next(&self) -> Option<u64> {
        self.in_order.first().map(|(at, _)| *at)
    }

    /// Takes what is due.
    pub(crate) fn due(&mut self, now_ns: u64) -> Vec<u32> {
        let mut due = Vec::new();
        while let Some(&(at, qpn)) = self.in_order.first()
            && at <= now_ns
        {
            self.in_order.pop_first();
            self.deadline_of.remove(&qpn);
            due.push(qpn);
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

    #[test]
    fn a_queue_pair_takes_no_more_room_the_more_often_it_is_kicked() {
        let mut kicks = Kicks::default();
        (0..1000).rev().for_each(|at| kicks.add(7, at));
        assert_eq!((kicks.in_order.len(), kicks.deadline_of.len()), (1, 1));
        assert_eq!(kicks.due(u64::MAX), [7]);
        assert!(kicks.in_order.is_empty() && kicks.deadline_of.is_empty());
    }
}
