//! Leases of the port to other hosts: lending them, and their queue pairs.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

use soft_hca_core::arena::port_lease::runner;
use soft_hca_core::arena::{PORT_LEASE_QPS, PORT_LEASES};
use soft_hca_core::errno::{Errno, Refusal, Result};
use soft_hca_core::port::{LinkPort, LinkQueuePair, NoTap, SLOT_BYTES, SLOTS};
use soft_hca_core::uapi::verbs::{Qpn, qp_type};

use super::lease_table::indices;
use super::{Fabric, RingOf};
use crate::link::LeasedSocket;
use crate::objects::QpObject;

const NO_ROOM: Errno = Errno::ENOMEM.because(Refusal::NoQueuePairMemory);

impl Fabric {
    /// Lends a process a lease of the port, for as long as it lives, and gives its number. `None` if there
    /// is none left, or the port has none.
    pub(crate) fn lend_port(&mut self, proc: usize) -> Option<usize> {
        if self.leases.of(proc).is_some() || !self.roce.has_leases() {
            return None;
        }
        let is_free = |lease: &usize| {
            let mut taken = self.qps.taken_in(indices(*lease));
            self.leases.0[*lease].is_none() && taken.next().is_none()
        };
        let lease = (1..PORT_LEASES).find(is_free)?;
        self.leases.0[lease] = Some(proc);
        let entry = &self.arena.leases[lease];
        entry.runner.store(runner::DAEMON, Release);
        entry.not_before_ns.store(0, Release);
        entry.is_in_use.store(0, Release);
        entry.proc.store(proc as u32 + 1, Release);
        Some(lease)
    }

    /// A queue pair has a peer on another host: if it is of a process's lease, that wants its sockets.
    pub(super) fn use_lease(&self, index: usize) {
        let lease = index / PORT_LEASE_QPS;
        if self.leases.0[lease].is_some() {
            self.arena.leases[lease].is_in_use.store(1, Release);
        }
    }

    /// The lease of the port that a process has.
    pub(crate) fn lease_of(&self, proc: usize) -> Option<usize> {
        self.leases.of(proc)
    }

    /// A queue pair is to end: acknowledgements that its process was to send with its next call leave, if it
    /// has died before. `ERESTART` as [`Fabric::lock`].
    pub(super) fn answer(&self, index: usize) -> Result<()> {
        let qpn = Qpn::new(self.arena.qps[index].live.load(Acquire));
        let Some(lease) = LinkQueuePair::lease(&self.arena, qpn) else { return Ok(()) };
        let _guard = self.lock(&self.arena.leases[lease].lock)?;
        let saved =
            LinkQueuePair::from_snapshot(&self.arena, qpn).filter(LinkQueuePair::can_answer);
        if let Some((mut queue_pair, sockets)) = saved.zip(self.roce.lease(lease)) {
            let sockets = sockets.into_iter().filter_map(LeasedSocket::bound);
            let port = LinkPort::new(sockets.collect(), Arc::clone(&self.arena), NoTap);
            queue_pair.answer(self.actor(), &port);
            port.flush();
        }
        LinkQueuePair::forget(&self.arena.qps[index]);
        Ok(())
    }

    /// The index of a new queue pair: in its process's lease, if that has one, and its peer may be one on
    /// another host; else in none.
    pub(super) fn take_qp_index(&mut self, object: QpObject, proc: usize) -> Option<usize> {
        let is_connected = matches!(object.qp_type, qp_type::RC | qp_type::UC);
        let own = self.leases.of(proc).filter(|_| is_connected && object.device == 0);
        if let Some(index) = own.and_then(|lease| self.qps.take_in(indices(lease), object)) {
            return Some(index);
        }
        if !self.roce.has_leases() {
            return self.qps.take(object);
        }
        self.leases.unowned().find_map(|range| self.qps.take_in(range, object))
    }

    /// Gives a queue pair of a lease room in the arena for its snapshot while it is connected.
    pub(crate) fn make_room_to_keep(&mut self, index: usize) -> Result<()> {
        if self.leases.0[index / PORT_LEASE_QPS].is_none() {
            return Ok(());
        }
        let slots = SLOTS as u32 - 1;
        let place = self.new_untouched_ring(slots, SLOT_BYTES as u32);
        self.place_ring(RingOf::Snapshot(index), place.map_err(|_| NO_ROOM)?);
        Ok(())
    }
}
