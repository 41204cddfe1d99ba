//! Shares of the port to other hosts: lending them, and their queue pairs.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

use soft_hca_core::arena::share::runner;
use soft_hca_core::arena::{SHARE_QPS, SHARES};
use soft_hca_core::errno::{Errno, Refusal, Result};
use soft_hca_core::port::{NoTap, Port, QueuePair, SLOT_BYTES, SLOTS};
use soft_hca_core::uapi::verbs::{Qpn, qp_type};

use super::share_table::indices;
use super::{Fabric, RingOf};
use crate::link::LeasedSocket;
use crate::objects::QpObject;

const NO_ROOM: Errno = Errno::ENOMEM.because(Refusal::NoQueuePairMemory);

impl Fabric {
    /// Lends a process a share of the port, for as long as it lives, and gives its number. `None` if there
    /// is none left, or the port has none.
    pub(crate) fn lend_share(&mut self, proc: usize) -> Option<usize> {
        if self.shares.of(proc).is_some() || !self.roce.has_shares() {
            return None;
        }
        let is_free = |share: &usize| {
            let mut taken = self.qps.taken_in(indices(*share));
            self.shares.0[*share].is_none() && taken.next().is_none()
        };
        let share = (1..SHARES).find(is_free)?;
        self.shares.0[share] = Some(proc);
        let entry = &self.arena.shares[share];
        entry.runner.store(runner::DAEMON, Release);
        entry.not_before_ns.store(0, Release);
        entry.is_in_use.store(0, Release);
        entry.proc.store(proc as u32 + 1, Release);
        Some(share)
    }

    /// A queue pair has a peer on another host: if it is of a process's share, that wants its sockets.
    pub(super) fn use_share(&self, index: usize) {
        let share = index / SHARE_QPS;
        if self.shares.0[share].is_some() {
            self.arena.shares[share].is_in_use.store(1, Release);
        }
    }

    /// The share of the port that a process has.
    pub(crate) fn share_of(&self, proc: usize) -> Option<usize> {
        self.shares.of(proc)
    }

    /// A queue pair is to end: acknowledgements that its process was to send with its next call leave, if it
    /// has died before. `ERESTART` as [`Fabric::lock`].
    pub(super) fn answer(&self, index: usize) -> Result<()> {
        let qpn = Qpn::new(self.arena.qps[index].live.load(Acquire));
        let Some(share) = QueuePair::share(&self.arena, qpn) else { return Ok(()) };
        let _guard = self.lock(&self.arena.shares[share].lock)?;
        let saved = QueuePair::from_snapshot(&self.arena, qpn).filter(QueuePair::can_answer);
        if let Some((mut queue_pair, sockets)) = saved.zip(self.roce.share(share)) {
            let sockets = sockets.into_iter().filter_map(LeasedSocket::bound);
            let port = Port::new(sockets.collect(), Arc::clone(&self.arena), NoTap);
            queue_pair.answer(self.actor(), &port);
            port.flush();
        }
        QueuePair::forget(&self.arena.qps[index]);
        Ok(())
    }

    /// The index of a new queue pair: in its process's share, if that has one, and its peer may be one on
    /// another host; else in none.
    pub(super) fn take_qp_index(&mut self, object: QpObject, proc: usize) -> Option<usize> {
        let is_connected = matches!(object.qp_type, qp_type::RC | qp_type::UC);
        let own = self.shares.of(proc).filter(|_| is_connected && object.device == 0);
        if let Some(index) = own.and_then(|share| self.qps.take_in(indices(share), object)) {
            return Some(index);
        }
        if !self.roce.has_shares() {
            return self.qps.take(object);
        }
        self.shares.unowned().find_map(|range| self.qps.take_in(range, object))
    }

    /// Gives a queue pair of a share room in the arena for its snapshot while it is connected.
    pub(crate) fn make_room_to_keep(&mut self, index: usize) -> Result<()> {
        if self.shares.0[index / SHARE_QPS].is_none() {
            return Ok(());
        }
        let slots = SLOTS as u32 - 1;
        let place = self.new_untouched_ring(slots, SLOT_BYTES as u32);
        self.place_ring(RingOf::Snapshot(index), place.map_err(|_| NO_ROOM)?);
        Ok(())
    }
}
