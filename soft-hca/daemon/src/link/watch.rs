//! Which leases of the port the link's thread runs, and which their processes do.
//!
//! A process takes its lease when it polls, and the thread notices that at the lease's next packet: it looks
//! no more at its sockets, but now and then whether the process still polls. If it does not, or has given the lease
//! back because it is going to sleep, the thread runs it again. Neither is ever in the other's way: who changes a
//! queue pair has the lease's lock. Neither overtakes the other: a process that was put aside in the middle of packets
//! handles these before the thread takes later ones, unless it needs very long, as one that is stopped.
//!
//! A program that polls for one thing and then, without polling, waits for another (`ib_write_lat`, which
//! watches memory) leaves packets waiting. So each time that packets have waited the process may take its
//! lease again only after a longer time.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use soft_hca_core::arena::port_lease::runner;
use soft_hca_core::arena::{Arena, PortLease};
use soft_hca_core::engine::LINK;

/// How often the thread looks whether processes still poll.
const LOOK_NS: u64 = 2_000_000;
/// How long a process may take to handle packets that it has in hand, which is less than a usual peer waits for
/// acknowledgements.
pub(super) const IN_HAND_NS: u64 = 100_000_000;
/// How long a process has to wait at first when it has let packets wait, and at most.
const PENALTY_NS: (u64, u64) = (4_000_000, 128_000_000);
/// A process that has polled for so long without letting packets wait has no more to wait.
const WELL_NS: u64 = 100_000_000;

/// The leases that processes run.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Those that are run by their processes.
    away: Vec<ProcessRun>,
    /// When to look at these.
    look_at: u64,
    /// By lease: how long its process had to wait last.
    penalties: Vec<u64>,
}

#[derive(Debug)]
struct ProcessRun {
    lease: usize,
    /// The polls of its process at the last look.
    polls: u32,
    since: u64,
    /// When the thread first found it back but for packets that the process has in hand.
    in_hand_since: Option<u64>,
}

impl ProcessRun {
    /// Whether the process runs the lease no more, and has no packets in hand that it has time to handle.
    fn is_back(&mut self, entry: &PortLease, now: u64) -> bool {
        if entry.is_run_by_process() {
            self.in_hand_since = None;
            return false;
        }
        if !entry.is_busy(LINK) {
            return true;
        }
        let is_late = now - *self.in_hand_since.get_or_insert(now) >= IN_HAND_NS;
        if is_late {
            entry.in_hand.owner().into_iter().for_each(|owner| entry.put_down(owner));
        }
        is_late
    }
}

impl Watch {
    /// Whether a lease is run by its process, which has taken it just now or before.
    pub(super) fn is_away(&mut self, arena: &Arena, lease: usize, now: u64) -> bool {
        let Some(entry) = arena.leases.get(lease) else { return false };
        if !entry.is_run_by_process() {
            return self.away.iter().any(|away| away.lease == lease) && entry.is_busy(LINK);
        }
        if self.away.iter().all(|away| away.lease != lease) {
            let polls = entry.polls.load(Relaxed);
            self.away.push(ProcessRun { lease, polls, since: now, in_hand_since: None });
            self.look_at = now + LOOK_NS;
        }
        true
    }

    /// When [`Watch::returned`] is to be asked at the latest.
    pub(super) fn deadline(&self) -> Option<u64> {
        (!self.away.is_empty()).then_some(self.look_at)
    }

    /// The leases that the thread runs again from now on.
    pub(super) fn returned(&mut self, arena: &Arena, now: u64) -> Vec<usize> {
        if self.away.is_empty() {
            return Vec::new();
        }
        let is_time = now >= self.look_at;
        if is_time {
            self.look_at = now + LOOK_NS;
        }
        let mut returned = Vec::new();
        self.away.retain_mut(|away| {
            let entry = &arena.leases[away.lease];
            let polls = entry.polls.load(Relaxed);
            let is_idle = is_time && polls == away.polls;
            if is_time {
                away.polls = polls;
            }
            if is_idle {
                let (from, to) = (runner::PROCESS, runner::DAEMON);
                let _ = entry.runner.compare_exchange(from, to, AcqRel, Acquire);
            }
            let is_back = away.is_back(entry, now);
            if is_back {
                returned.push(away.lease);
                if now - away.since >= WELL_NS {
                    self.penalties.iter_mut().skip(away.lease).take(1).for_each(|wait| *wait = 0);
                }
            }
            !is_back
        });
        returned
    }

    /// Packets have waited for the process that had the lease.
    pub(super) fn has_let_wait(&mut self, arena: &Arena, lease: usize, now: u64) {
        if self.penalties.len() <= lease {
            self.penalties.resize(lease + 1, 0);
        }
        let penalty = &mut self.penalties[lease];
        *penalty = (2 * *penalty).clamp(PENALTY_NS.0, PENALTY_NS.1);
        arena.leases[lease].not_before_ns.store(now + *penalty, Release);
    }
}

#[cfg(test)]
mod tests {
    use soft_hca_core::arena::Mapping;

    use super::*;

    const LEASE: usize = 3;

    /// A lease that its process has taken at the time 0.
    fn taken() -> (Mapping, Watch) {
        let arena = Mapping::create().unwrap();
        let mut watch = Watch::default();
        assert!(!watch.is_away(&arena, LEASE, 0));
        assert_eq!(watch.deadline(), None);
        take(&arena, &mut watch, 0);
        (arena, watch)
    }

    fn take(arena: &Mapping, watch: &mut Watch, now: u64) {
        arena.leases[LEASE].runner.store(runner::PROCESS, Release);
        assert!(watch.is_away(arena, LEASE, now));
        assert_eq!(watch.deadline(), Some(now + LOOK_NS));
    }

    fn polls(arena: &Mapping) {
        arena.leases[LEASE].polls.fetch_add(1, Relaxed);
    }

    #[test]
    fn who_polls_keeps_it() {
        let (arena, mut watch) = taken();
        for look in 1..5 {
            polls(&arena);
            assert!(watch.returned(&arena, look * LOOK_NS).is_empty());
        }
        assert!(watch.returned(&arena, 5 * LOOK_NS - 1).is_empty());
        assert_eq!(watch.returned(&arena, 5 * LOOK_NS), [LEASE]);
        assert!(!arena.leases[LEASE].is_run_by_process());
        assert_eq!((watch.deadline(), watch.returned(&arena, 6 * LOOK_NS)), (None, vec![]));
    }

    #[test]
    fn who_gives_it_back_is_believed_at_once() {
        let (arena, mut watch) = taken();
        arena.leases[LEASE].runner.store(runner::DAEMON, Release);
        assert_eq!(watch.returned(&arena, 1), [LEASE]);
    }

    #[test]
    fn packets_in_hand_are_handled_first() {
        const ME: usize = 5;
        let (arena, mut watch) = taken();
        let entry = &arena.leases[LEASE];
        assert!(entry.take_in_hand(ME));
        assert!(watch.returned(&arena, LOOK_NS).is_empty(), "the process was put aside");
        assert!(!entry.is_run_by_process() && watch.is_away(&arena, LEASE, LOOK_NS));
        assert!(!entry.take_in_hand(LINK));
        entry.put_down(ME);
        assert!(!watch.is_away(&arena, LEASE, LOOK_NS + 1));
        assert_eq!(watch.returned(&arena, LOOK_NS + 1), [LEASE]);
        // One that is stopped is not waited for any longer, and disturbs nobody when it goes on.
        take(&arena, &mut watch, 2 * LOOK_NS);
        assert!(entry.take_in_hand(ME));
        let stopped = 3 * LOOK_NS;
        assert!(watch.returned(&arena, stopped).is_empty());
        assert!(watch.returned(&arena, stopped + IN_HAND_NS - 1).is_empty());
        assert_eq!(watch.returned(&arena, stopped + IN_HAND_NS), [LEASE]);
        assert!(entry.take_in_hand(LINK));
        entry.put_down(ME);
        assert!(!entry.take_in_hand(ME));
    }

    #[test]
    fn a_queue_pair_in_hand_is_given_back_first() {
        const ME: usize = 5;
        let (arena, mut watch) = taken();
        let lock = &arena.leases[LEASE].lock;
        let in_hand = lock.try_lock(ME);
        assert!(watch.returned(&arena, LOOK_NS).is_empty());
        drop(in_hand);
        assert_eq!(watch.returned(&arena, LOOK_NS), [LEASE]);
        // One that is stopped keeps it.
        take(&arena, &mut watch, 2 * LOOK_NS);
        let _in_hand = lock.try_lock(ME);
        assert!(watch.returned(&arena, 3 * LOOK_NS).is_empty());
        assert_eq!(watch.returned(&arena, 3 * LOOK_NS + IN_HAND_NS), [LEASE]);
        assert_eq!(lock.owner(), Some(ME));
    }

    #[test]
    fn time_in_hand_begins_anew_with_each_return() {
        const ME: usize = 5;
        let (arena, mut watch) = taken();
        let entry = &arena.leases[LEASE];
        assert!(entry.take_in_hand(ME));
        assert!(watch.returned(&arena, LOOK_NS).is_empty());
        entry.runner.store(runner::PROCESS, Release);
        polls(&arena);
        assert!(watch.returned(&arena, 2 * LOOK_NS).is_empty());
        let later = IN_HAND_NS + 2 * LOOK_NS;
        assert!(watch.returned(&arena, later).is_empty() && !entry.is_run_by_process());
        assert_eq!(watch.returned(&arena, later + IN_HAND_NS), [LEASE]);
    }

    #[test]
    fn who_lets_packets_wait_waits_longer_each_time() {
        let (arena, mut watch) = taken();
        let mut now = 0;
        let waits = |watch: &mut Watch, now: &mut u64| {
            *now += LOOK_NS;
            assert_eq!(watch.returned(&arena, *now), [LEASE]);
            watch.has_let_wait(&arena, LEASE, *now);
            let wait = arena.leases[LEASE].not_before_ns.load(Acquire) - *now;
            *now += wait;
            take(&arena, watch, *now);
            wait
        };
        let all: Vec<u64> = (0..8).map(|_| waits(&mut watch, &mut now)).collect();
        assert_eq!(all[..3], [PENALTY_NS.0, 2 * PENALTY_NS.0, 4 * PENALTY_NS.0]);
        assert_eq!(all[6..], [PENALTY_NS.1; 2]);
        // Then it is well for long enough.
        for _ in 0..WELL_NS / LOOK_NS {
            polls(&arena);
            now += LOOK_NS;
            assert!(watch.returned(&arena, now).is_empty());
        }
        assert_eq!(waits(&mut watch, &mut now), PENALTY_NS.0);
    }
}
