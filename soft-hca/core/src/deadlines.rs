//! Deadlines of what is to be done later.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

/// Deadlines, one at most for each of what is to be done, the earliest.
#[derive(Debug)]
pub struct Deadlines<T> {
    in_order: BTreeSet<(u64, T)>,
    deadline_of: HashMap<T, u64>,
}

impl<T> Default for Deadlines<T> {
    fn default() -> Self {
        Self { in_order: BTreeSet::new(), deadline_of: HashMap::new() }
    }
}

impl<T: Copy + Hash + Ord> Deadlines<T> {
    /// `what` is due at `at_ns` (`CLOCK_MONOTONIC`), or earlier if it already was to be.
    pub fn add(&mut self, what: T, at_ns: u64) {
        if let Some(deadline) = self.deadline_of.get(&what) {
            if *deadline <= at_ns {
                return;
            }
            self.in_order.remove(&(*deadline, what));
        }
        self.deadline_of.insert(what, at_ns);
        self.in_order.insert((at_ns, what));
    }

    /// Whether it is to be done.
    pub fn contains(&self, what: T) -> bool {
        self.deadline_of.contains_key(&what)
    }

    /// The next deadline.
    pub fn next(&self) -> Option<u64> {
        self.in_order.first().map(|(at, _)| *at)
    }

    /// Takes what is due.
    pub fn due(&mut self, now_ns: u64) -> Vec<T> {
        let mut due = Vec::new();
        while let Some(&(at, what)) = self.in_order.first() {
            if at > now_ns {
                break;
            }
            self.in_order.pop_first();
            self.deadline_of.remove(&what);
            due.push(what);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_counts() {
        let mut rescheduled = Deadlines::default();
        rescheduled.add(1, 50);
        rescheduled.add(2, 30);
        rescheduled.add(1, 20);
        rescheduled.add(1, 90);
        assert_eq!(rescheduled.next(), Some(20));
        assert_eq!(rescheduled.due(30), [1, 2]);
        assert_eq!(rescheduled.due(100), [] as [u32; 0]);
        rescheduled.add(1, 5);
        assert_eq!(rescheduled.due(5), [1]);
    }

    #[test]
    fn what_is_added_often_takes_no_more_room() {
        let mut rescheduled = Deadlines::default();
        (0..1000).rev().for_each(|at| rescheduled.add(7, at));
        assert_eq!((rescheduled.in_order.len(), rescheduled.deadline_of.len()), (1, 1));
        assert_eq!(rescheduled.due(u64::MAX), [7]);
        assert!(rescheduled.in_order.is_empty() && rescheduled.deadline_of.is_empty());
    }
}
