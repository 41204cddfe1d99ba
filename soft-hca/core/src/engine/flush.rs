//! The error state: what is posted comes back with `WR_FLUSH_ERR`.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use soft_hca_verbs::cause::Cause;

use crate::arena::{Guard, Lock, Qp};
use crate::engine::cursor::retire;
use crate::engine::deferred::Deferred;
use crate::engine::timing::DAEMON_BUSY_NS;
use crate::engine::{Actor, Async};
use crate::ring::Ring;
use crate::trace::event::Seen;
use crate::uapi::rxe::{Cqe, MIN_SEND_SLOT, RecvWqe, SendWqe};
use crate::uapi::verbs::{state, status};

/// Puts a queue pair into the error state if it is in one of which `from` says so. The daemon is
/// told, for it looks after what is posted there from now on. Its program is told, once all locks are
/// free, that it takes no more receives of a shared queue (IBTA 11.6.3.2, "last WQE reached"). Gives
/// whether this is the error state's beginning.
pub(super) fn set_error(
    qp: &Qp,
    qpn: u32,
    from: impl Fn(u32) -> bool,
    deferred: &mut Deferred,
) -> bool {
    let enter = |current| from(current).then_some(state::ERR);
    let Ok(before) = qp.state.fetch_update(AcqRel, Acquire, enter) else { return false };
    qp.wait.store(0, Release);
    deferred.rescheduled.push((qpn, 0));
    if before != state::ERR && qp.srq.load(Acquire) != 0 {
        deferred.raised.push(Async::LastWqeReached(qpn));
    }
    before != state::ERR
}

/// States in which sends are refused (IBTA 10.3.1).
pub(super) fn is_before_rts(current: u32) -> bool {
    matches!(current, state::RESET | state::INIT | state::RTR)
}

/// States that an error leads out of. RESET and INIT it does not: a queue pair that was reset
/// meanwhile has nothing to do with it.
pub(super) fn can_fail(current: u32) -> bool {
    (state::RTR..state::ERR).contains(&current)
}

impl<'a> Actor<'a> {
    /// The queue pair's send ring, if its slots have room for work requests.
    pub(super) fn send_ring(&self, qp: &Qp) -> Option<Ring<'a>> {
        self.arena.ring(&qp.sq).filter(|ring| ring.slot_bytes() >= MIN_SEND_SLOT)
    }
}

impl Actor<'_> {
    /// A queue pair fails whose completion was lost: its completion queue is overrun (IBTA 11.6.3,
    /// "local work queue catastrophic error"). Its program is told once, also of a queue pair that
    /// is in the error state already: the lost completion may be the one that would have said so.
    /// The caller holds no lock.
    pub(super) fn fail_overrun(&self, qpn: u32, deferred: &mut Deferred) {
        let Some(qp) = self.arena.qp(qpn) else { return };
        let fails = set_error(qp, qpn, can_fail, deferred);
        let is_failed = fails || qp.state.load(Acquire) == state::ERR;
        if is_failed && qp.completion_lost.swap(1, AcqRel) == 0 {
            deferred.raised.push(Async::QpFatal(qpn));
        }
        if fails {
            deferred.failed_peers.push(qpn);
            self.flush_receives(qp, qpn, deferred);
        }
    }

    /// Flushes the send queue of a queue pair in the error state. The caller holds no lock. If the
    /// daemon does not get one it comes back.
    pub(super) fn flush_sends(&self, qpn: u32, deferred: &mut Deferred) {
        let Some(qp) = self.arena.qp(qpn) else { return };
        let Some(_guards) = self.lock_with_cq(&qp.send_lock, &qp.send_cq) else {
            deferred.rescheduled.push((qpn, DAEMON_BUSY_NS));
            return;
        };
        if qp.live.load(Acquire) == qpn && qp.state.load(Acquire) == state::ERR {
            self.flush_send_ring(qp, qpn, deferred);
        }
    }

    /// Takes requests that are refused out of the send ring, into which the provider has put them
    /// already. False, and nothing is done, if the queue pair has come to RTS meanwhile.
    pub(super) fn drop_refused(&self, qp: &Qp, qpn: u32) -> bool {
        let Some(_guard) = self.lock(&qp.send_lock) else { return false };
        let is_live = qp.live.load(Acquire) == qpn;
        let is_refused = is_live && is_before_rts(qp.state.load(Acquire));
        if let Some(ring) = self.send_ring(qp).filter(|_| is_refused) {
            drop(retire(&qp.sq_consumer, &ring, ring.producer()));
        }
        is_refused
    }

    /// Flushes all sends, also those in flight. The caller holds the `send_lock`.
    pub(super) fn flush_send_ring(&self, qp: &Qp, qpn: u32, deferred: &mut Deferred) {
        let Some(ring) = self.send_ring(qp) else { return };
        let cq = qp.send_cq.load(Acquire);
        if qp.sq_in_flight.load(Acquire) != 0 {
            qp.sq_in_flight.store(0, Release);
        }
        let consumer = qp.sq_consumer.load(Acquire) & ring.mask();
        let posted = ring.distance(consumer, ring.producer());
        if self.is_traced() {
            self.trace_sends(qp, qpn);
        }
        for i in 0..posted {
            let wqe = SendWqe::read(ring.slot(consumer.wrapping_add(i)));
            let _retiring = retire(&qp.sq_consumer, &ring, consumer.wrapping_add(i + 1));
            self.complete_flushed(cq, wqe.wr_id, qpn, deferred);
        }
    }

    /// Flushes the receive queue of a queue pair in the error state. The caller does not hold its
    /// `recv_lock`. If the daemon does not get it these receives go with those that are posted later.
    pub(super) fn flush_receives(&self, qp: &Qp, qpn: u32, deferred: &mut Deferred) {
        let Some(_guards) = self.lock_with_cq(&qp.recv_lock, &qp.recv_cq) else { return };
        if qp.live.load(Acquire) == qpn && qp.state.load(Acquire) == state::ERR {
            self.flush_receive_ring(qp, qpn, deferred);
        }
    }

    /// Takes the lock of a queue; the daemon takes that of its completion queue in advance.
    pub(super) fn lock_with_cq<'l>(
        &'l self,
        lock: &'l Lock,
        cq: &AtomicU32,
    ) -> Option<(Guard<'l>, Option<Guard<'l>>)> {
        let guard = self.lock(lock)?;
        Some((guard, self.hold_cq(cq.load(Acquire))?))
    }

    /// Flushes all receives of the queue pair's own, and one that it has consumed from a shared
    /// queue. The caller holds the `recv_lock`.
    pub(super) fn flush_receive_ring(&self, qp: &Qp, qpn: u32, deferred: &mut Deferred) {
        let cq = qp.recv_cq.load(Acquire);
        if qp.consumed.load(Acquire) != 0 {
            let wr_id = qp.consumed_wr_id.load(Acquire);
            self.complete_flushed(cq, wr_id, qpn, deferred);
            qp.consumed.store(0, Release);
        }
        if qp.srq.load(Acquire) != 0 {
            return;
        }
        let Some(ring) = self.arena.ring(&qp.rq) else { return };
        if self.is_traced() {
            self.trace_receives(qp, qpn, Seen::AtCall);
        }
        qp.rq_posted.store(0, Release);
        let consumer = qp.rq_consumer.load(Acquire) & ring.mask();
        for i in 0..ring.distance(consumer, ring.producer()) {
            let wqe = RecvWqe::read(ring.slot(consumer.wrapping_add(i)));
            let _retiring = retire(&qp.rq_consumer, &ring, consumer.wrapping_add(i + 1));
            self.complete_flushed(cq, wqe.wr_id, qpn, deferred);
        }
    }

    fn complete_flushed(&self, cq: u32, wr_id: u64, qpn: u32, deferred: &mut Deferred) {
        let cqe = Cqe::error(wr_id, status::WR_FLUSH_ERR, qpn);
        self.complete_failed(cq, &cqe, Some(&Cause::Flushed), deferred);
    }

    /// Whether there is something for [`Actor::flush_receives`].
    pub(super) fn has_receives_to_flush(&self, qp: &Qp) -> bool {
        qp.consumed.load(Acquire) != 0 || self.has_receives(qp)
    }

    /// Whether receives are posted to the queue pair's own queue.
    pub(super) fn has_receives(&self, qp: &Qp) -> bool {
        qp.srq.load(Acquire) == 0
            && self
                .arena
                .ring(&qp.rq)
                .is_some_and(|ring| ring.producer() != qp.rq_consumer.load(Acquire) & ring.mask())
    }
}
