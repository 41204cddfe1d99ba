//! Work requests of a queue whose completions the program has not polled.

use std::collections::VecDeque;
use std::collections::vec_deque::Drain;

/// As many of a queue are remembered; the oldest ones are forgotten first.
const MOST: usize = 1 << 14;

/// A work request, with what its owner remembers of it.
#[derive(Clone, Debug)]
pub(super) struct Request<T> {
    pub wr_id: u64,
    /// Whether it makes a completion if it is successful.
    pub is_signaled: bool,
    pub what: T,
}

/// The requests, the oldest first.
#[derive(Clone, Debug)]
pub(super) struct Outstanding<T>(VecDeque<Request<T>>);

impl<T> Default for Outstanding<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> Outstanding<T> {
    /// A request was posted.
    pub(super) fn post(&mut self, request: Request<T>) {
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back(request);
    }

    /// Removes the requests that a successful completion of a send queue is about: a signaled one, and those before it.
    /// There is none if it is not known.
    pub(super) fn through(&mut self, wr_id: u64) -> Drain<'_, Request<T>> {
        let is_it = |request: &Request<T>| request.is_signaled && request.wr_id == wr_id;
        let count = self.0.iter().position(is_it).map_or(0, |last| last + 1);
        self.0.drain(..count)
    }

    /// Removes the one that a completion of a receive queue is about. Those of a shared queue complete in any order.
    pub(super) fn take(&mut self, wr_id: u64) -> Option<Request<T>> {
        let at = self.0.iter().position(|request| request.wr_id == wr_id)?;
        self.0.remove(at)
    }

    /// The newest.
    pub(super) fn last(&self) -> Option<&Request<T>> {
        self.0.back()
    }

    /// All of them.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Request<T>> {
        self.0.iter_mut()
    }

    /// Forgets all: they are flushed.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(list: &[(u64, bool)]) -> Outstanding<()> {
        let mut queue = Outstanding::default();
        for &(wr_id, is_signaled) in list {
            queue.post(Request { wr_id, is_signaled, what: () });
        }
        queue
    }

    fn through(queue: &mut Outstanding<()>, wr_id: u64) -> Vec<u64> {
        queue.through(wr_id).map(|request| request.wr_id).collect()
    }

    #[test]
    fn a_signaled_request_ends_those_before_it() {
        let mut queue = queue(&[(1, false), (2, true), (2, true), (3, true)]);
        assert_eq!(through(&mut queue, 1), [], "makes no completion");
        assert_eq!(through(&mut queue, 2), [1, 2]);
        assert_eq!(through(&mut queue, 2), [2]);
        assert_eq!(through(&mut queue, 4), []);
        queue.clear();
        assert_eq!(through(&mut queue, 3), []);
    }

    #[test]
    fn receives_are_taken_once_in_any_order() {
        let mut queue = queue(&[(1, true), (2, true)]);
        assert!(queue.take(2).is_some());
        assert!(queue.take(2).is_none());
        assert!(queue.take(1).is_some());
    }

    #[test]
    fn the_oldest_are_forgotten_first() {
        let mut queue = Outstanding::default();
        for wr_id in 0..=MOST as u64 {
            queue.post(Request { wr_id, is_signaled: true, what: () });
        }
        assert!(queue.take(0).is_none());
        assert!(queue.take(1).is_some());
        assert_eq!(queue.iter_mut().count(), MOST - 1);
    }
}
