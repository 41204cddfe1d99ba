//! The error state: what is posted comes back with `WR_FLUSH_ERR`.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use soft_hca_verbs::Failure;
use soft_hca_verbs::cause::Cause;

use crate::arena::{Mapping, Qp};
use crate::engine::actor::Actor;
use crate::engine::asynchronous::Async;
use crate::engine::cursor::retire;
use crate::engine::deferred::Deferred;
use crate::engine::locking::lock_with_cq;
use crate::engine::timing::DAEMON_BUSY_NS;
use crate::engine::{completion, cursor, posted};
use crate::trace::event::Seen;
use crate::uapi::rxe::{Cqe, RecvWqe, SendWqe};
use crate::uapi::verbs::{state, status};

/// When a request was posted that is flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Posted {
    /// Before the queue pair failed.
    Before,
    /// In the error state.
    InError,
}

/// Puts a queue pair into the error state if it is in one of which `from` says so. The daemon is
/// notified, for it looks after what is posted there from now on. Its program is notified, once all locks
/// are free, that it takes no more receives of a shared queue (IBTA 11.6.3.2, "last WQE reached"). Gives
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

/// A queue pair fails whose completion was lost: its completion queue is overrun (IBTA 11.6.3,
/// "local work queue catastrophic error"). Its program gets one event, also of a queue pair that
/// is in the error state already: the lost completion may be the one that would have said so.
/// The caller holds no lock.
pub(super) fn fail_overrun(actor: &Actor<'_>, qpn: u32, deferred: &mut Deferred) {
    let Some(qp) = actor.arena.qp(qpn) else { return };
    let fails = set_error(qp, qpn, can_fail, deferred);
    let is_failed = fails || qp.state.load(Acquire) == state::ERR;
    if is_failed && qp.completion_lost.swap(1, AcqRel) == 0 {
        deferred.raised.push(Async::QpFatal(qpn));
    }
    if fails {
        deferred.failed_peers.push(qpn);
        receives(actor, qp, qpn, Posted::Before, deferred);
    }
}

/// Flushes the send queue of a queue pair in the error state. The caller holds no lock. If the
/// daemon does not get one it comes back.
pub(super) fn sends(actor: &Actor<'_>, qpn: u32, deferred: &mut Deferred) {
    let Some(qp) = actor.arena.qp(qpn) else { return };
    let Some(_guards) = lock_with_cq(actor, &qp.send_lock, &qp.send_cq) else {
        deferred.rescheduled.push((qpn, DAEMON_BUSY_NS));
        return;
    };
    if qp.live.load(Acquire) == qpn && qp.state.load(Acquire) == state::ERR {
        send_ring(actor, qp, qpn, Posted::Before, deferred);
    }
}

/// Takes requests that are refused out of the send ring, into which the provider has put them
/// already. False, and nothing is done, if the queue pair has come to RTS meanwhile.
pub(super) fn drop_refused(actor: &Actor<'_>, qp: &Qp, qpn: u32) -> bool {
    let Some(_guard) = actor.lock(&qp.send_lock) else { return false };
    let is_live = qp.live.load(Acquire) == qpn;
    let is_refused = is_live && is_before_rts(qp.state.load(Acquire));
    if let Some(ring) = cursor::send_ring(actor.arena, qp).filter(|_| is_refused) {
        drop(retire(&qp.sq_consumer, &ring, ring.producer()));
    }
    is_refused
}

/// Flushes all sends, also those in flight. The caller holds the `send_lock`.
pub(super) fn send_ring(
    actor: &Actor<'_>,
    qp: &Qp,
    qpn: u32,
    when: Posted,
    deferred: &mut Deferred,
) {
    let Some(ring) = cursor::send_ring(actor.arena, qp) else { return };
    let cq = qp.send_cq.load(Acquire);
    if qp.sq_in_flight.load(Acquire) != 0 {
        qp.sq_in_flight.store(0, Release);
    }
    let consumer = qp.sq_consumer.load(Acquire) & ring.mask();
    let posted = ring.distance(consumer, ring.producer());
    if actor.is_traced() {
        posted::trace_sends(actor, qp, qpn);
    }
    for i in 0..posted {
        let wqe = SendWqe::read(ring.slot(consumer.wrapping_add(i)));
        let _retiring = retire(&qp.sq_consumer, &ring, consumer.wrapping_add(i + 1));
        complete(actor, cq, (wqe.wr_id, when), qpn, deferred);
    }
}

/// Flushes the receive queue of a queue pair in the error state. The caller does not hold its
/// `recv_lock`. If the daemon does not get it these receives go with those that are posted later.
pub(super) fn receives(
    actor: &Actor<'_>,
    qp: &Qp,
    qpn: u32,
    when: Posted,
    deferred: &mut Deferred,
) {
    let Some(_guards) = lock_with_cq(actor, &qp.recv_lock, &qp.recv_cq) else { return };
    if qp.live.load(Acquire) == qpn && qp.state.load(Acquire) == state::ERR {
        receive_ring(actor, qp, qpn, when, deferred);
    }
}

/// Flushes all receives of the queue pair's own, and one that it has consumed from a shared
/// queue. The caller holds the `recv_lock`.
pub(super) fn receive_ring(
    actor: &Actor<'_>,
    qp: &Qp,
    qpn: u32,
    when: Posted,
    deferred: &mut Deferred,
) {
    let cq = qp.recv_cq.load(Acquire);
    if qp.consumed.load(Acquire) != 0 {
        let wr_id = qp.consumed_wr_id.load(Acquire);
        complete(actor, cq, (wr_id, when), qpn, deferred);
        qp.consumed.store(0, Release);
    }
    if qp.srq.load(Acquire) != 0 {
        return;
    }
    let Some(ring) = actor.arena.ring(&qp.rq) else { return };
    if actor.is_traced() {
        posted::trace_receives(actor, qp, qpn, Seen::AtCall);
    }
    qp.rq_posted.store(0, Release);
    let consumer = qp.rq_consumer.load(Acquire) & ring.mask();
    for i in 0..ring.distance(consumer, ring.producer()) {
        let wqe = RecvWqe::read(ring.slot(consumer.wrapping_add(i)));
        let _retiring = retire(&qp.rq_consumer, &ring, consumer.wrapping_add(i + 1));
        complete(actor, cq, (wqe.wr_id, when), qpn, deferred);
    }
}

fn complete(
    actor: &Actor<'_>,
    cq: u32,
    (wr_id, when): (u64, Posted),
    qpn: u32,
    deferred: &mut Deferred,
) {
    let failure = (when == Posted::InError).then_some(Failure::PostedInError);
    let vendor_err = completion::vendor_err(actor, qpn, failure);
    let flushed = Cqe { vendor_err, ..Cqe::error(wr_id, status::WR_FLUSH_ERR, qpn) };
    completion::complete_all(actor, cq, [(flushed, false)], Some(&Cause::Flushed), None, deferred);
}

/// Whether there is something for [`receives`].
pub(super) fn has_receives(arena: &Mapping, qp: &Qp) -> bool {
    qp.consumed.load(Acquire) != 0 || cursor::has_receives(arena, qp)
}
