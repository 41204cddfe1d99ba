//! Which process has which lease of the port to other hosts.

use std::ops::Range;
use std::sync::atomic::Ordering::Release;

use soft_hca_core::arena::port_lease::runner;
use soft_hca_core::arena::{Mapping, PORT_LEASE_QPS, PORT_LEASES};

/// Port leases, the daemon's own first.
#[derive(Debug, Default)]
pub(super) struct PortLeases(pub(super) [Option<usize>; PORT_LEASES]);

impl PortLeases {
    /// The lease that a process has.
    pub(super) fn of(&self, proc: usize) -> Option<usize> {
        self.0.iter().position(|owner| *owner == Some(proc))
    }

    /// Indices of queue pairs that are of no process's lease: the daemon's, then those that are lent last.
    pub(super) fn unowned(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let leases = std::iter::once(0).chain((1..PORT_LEASES).rev());
        leases.filter(|lease| self.0[*lease].is_none()).map(indices)
    }

    /// A process has ended, and all its queue pairs.
    pub(super) fn take_back(&mut self, arena: &Mapping, proc: usize) {
        if let Some(lease) = self.of(proc) {
            let entry = &arena.leases[lease];
            entry.proc.store(0, Release);
            entry.runner.store(runner::DAEMON, Release);
            self.0[lease] = None;
        }
    }
}

/// The indices of a lease's queue pairs.
pub(super) fn indices(lease: usize) -> Range<usize> {
    lease * PORT_LEASE_QPS..(lease + 1) * PORT_LEASE_QPS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_of_the_leases_that_are_nobodys() {
        let mut leases = PortLeases::default();
        leases.0[PORT_LEASES - 1] = Some(7);
        assert_eq!((leases.of(7), leases.of(8)), (Some(PORT_LEASES - 1), None));
        let unowned: Vec<Range<usize>> = leases.unowned().collect();
        assert_eq!(unowned.len(), PORT_LEASES - 1);
        assert_eq!(unowned[..2], [indices(0), indices(PORT_LEASES - 2)]);
        assert!(unowned.iter().all(|range| range.len() == PORT_LEASE_QPS));
    }
}
