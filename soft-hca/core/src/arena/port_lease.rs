//! Leases of the port to other hosts, for programs that run theirs by themselves.

use std::hint;
use std::mem;
use std::sync::atomic::Ordering::{Acquire, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64, fence};
use std::thread;
use std::time::Duration;

use crate::arena::lock::{Guard, Lock};
use crate::arena::qp::MAX_QPS;

/// Port leases that there are. The first is the daemon's.
pub const PORT_LEASES: usize = 32;

/// Queue pairs of each: those whose indices follow each other, from a multiple of this on.
pub const PORT_LEASE_QPS: usize = MAX_QPS / PORT_LEASES;

/// Values of [`PortLease::runner`].
pub mod runner {
    /// The daemon.
    pub const DAEMON: u32 = 0;
    /// The process that has it.
    pub const PROCESS: u32 = 1;
}

/// A lease of the port: some queue pairs with peers on other hosts, and the sockets at which their packets
/// arrive. Its process runs it while it polls, and otherwise the daemon does.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct PortLease {
    /// Taken to change what its queue pairs keep.
    pub lock: Lock,
    /// Held by the one who has packets of the lease in hand: from before they are taken from its sockets, or made, until
    /// they are handled, and sent.
    pub in_hand: Lock,
    /// Index of the process that has it + 1; 0 if it is the daemon's.
    pub proc: AtomicU32,
    /// One of [`runner`].
    pub runner: AtomicU32,
    /// Not 0: it has, or has had, queue pairs with peers on other hosts.
    pub is_in_use: AtomicU32,
    /// Goes on with each poll of the process.
    pub polls: AtomicU32,
    /// Not 0: others have done something with its queue pairs while the process runs it, which has to look at
    /// them.
    pub has_changed: AtomicU32,
    /// The process may run it from this time on (`CLOCK_MONOTONIC` nanoseconds).
    pub not_before_ns: AtomicU64,
}

impl PortLease {
    /// Takes the lock for `me`, who has packets that would be lost otherwise. What others do with it is
    /// short, but they may have been preempted. `None` if they do not give it back: a process that is
    /// stopped.
    pub fn lock_patiently(&self, me: usize) -> Option<Guard<'_>> {
        patiently(|| self.lock.try_lock(me))
    }

    /// Like [`PortLease::take_in_hand`], but waits a little for the one who has packets in hand.
    pub fn take_in_hand_patiently(&self, me: usize) -> bool {
        patiently(|| self.take_in_hand(me).then_some(())).is_some()
    }

    /// Has `me` handle packets of the lease from now on, until [`PortLease::put_down`]. False while somebody else has some in
    /// hand: these come before.
    pub fn take_in_hand(&self, me: usize) -> bool {
        let is_taken = || self.in_hand.try_lock(me).map(mem::forget).is_some();
        let has_it = self.in_hand.owner() == Some(me) || is_taken();
        // Either `me` sees afterwards that the lease was taken from it, or the taker sees the lock.
        fence(SeqCst);
        has_it
    }

    /// The packets that `me` had in hand are handled, and sent.
    pub fn put_down(&self, me: usize) {
        self.in_hand.release_of(me);
    }

    /// Whether somebody else than `me` has packets of the lease in hand, or one of its queue pairs, after
    /// [`PortLease::runner`] was read or written.
    pub fn is_busy(&self, me: usize) -> bool {
        fence(SeqCst);
        let owners = [&self.in_hand, &self.lock].map(Lock::owner);
        owners.into_iter().flatten().any(|owner| owner != me)
    }

    /// Whether its process runs it.
    pub fn is_run_by_process(&self) -> bool {
        self.runner.load(Acquire) == runner::PROCESS
    }
}

/// Tries until something is given, for some milliseconds.
fn patiently<T>(mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    const SPINS: usize = 200;
    const YIELDS: usize = 200;
    const SLEEPS: usize = 100;
    const SLEEP: Duration = Duration::from_micros(50);
    (0..SPINS + YIELDS + SLEEPS).find_map(|tries| {
        let given = attempt();
        match tries {
            _ if given.is_some() => {}
            ..SPINS => hint::spin_loop(),
            tries if tries < SPINS + YIELDS => thread::yield_now(),
            _ => thread::sleep(SLEEP),
        }
        given
    })
}

/// The lease to which the queue pair with an index belongs.
pub const fn lease_of(index: usize) -> usize {
    index / PORT_LEASE_QPS
}
