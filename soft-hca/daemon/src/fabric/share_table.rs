//! Which process has which share of the port to other hosts.

use std::ops::Range;
use std::sync::atomic::Ordering::Release;

use soft_hca_core::arena::share::runner;
use soft_hca_core::arena::{Mapping, SHARE_QPS, SHARES};

/// Shares, the daemon's own first.
#[derive(Debug, Default)]
pub(super) struct Shares(pub(super) [Option<usize>; SHARES]);

impl Shares {
    /// The share that a process has.
    pub(super) fn of(&self, proc: usize) -> Option<usize> {
        self.0.iter().position(|owner| *owner == Some(proc))
    }

    /// Indices of queue pairs that are of no process's share: the daemon's, then those that are lent last.
    pub(super) fn unowned(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let shares = std::iter::once(0).chain((1..SHARES).rev());
        shares.filter(|share| self.0[*share].is_none()).map(indices)
    }

    /// A process has ended, and all its queue pairs.
    pub(super) fn take_back(&mut self, arena: &Mapping, proc: usize) {
        if let Some(share) = self.of(proc) {
            let entry = &arena.shares[share];
            entry.proc.store(0, Release);
            entry.runner.store(runner::DAEMON, Release);
            self.0[share] = None;
        }
    }
}

/// The indices of a share's queue pairs.
pub(super) fn indices(share: usize) -> Range<usize> {
    share * SHARE_QPS..(share + 1) * SHARE_QPS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_of_the_shares_that_are_nobodys() {
        let mut shares = Shares::default();
        shares.0[SHARES - 1] = Some(7);
        assert_eq!((shares.of(7), shares.of(8)), (Some(SHARES - 1), None));
        let unowned: Vec<Range<usize>> = shares.unowned().collect();
        assert_eq!(unowned.len(), SHARES - 1);
        assert_eq!(unowned[..2], [indices(0), indices(SHARES - 2)]);
        assert!(unowned.iter().all(|range| range.len() == SHARE_QPS));
    }
}
