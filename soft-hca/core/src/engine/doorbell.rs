//! The beginning of the data path: a doorbell, or the daemon when a queue pair is to be run again, or fails.

use std::sync::atomic::Ordering::Acquire;

use soft_hca_verbs::Cause;

use crate::arena::Qp;
use crate::engine::actor::Actor;
use crate::engine::cursor::SendCursors;
use crate::engine::deferred::Deferred;
use crate::engine::locking::lock_cq;
use crate::engine::route::local_peer;
use crate::engine::waiting::waits_for_peer;
use crate::engine::{delayed_writes, effects, flush, posted, requester, strict, waiting};
use crate::errno::{Errno, Label, Refusal, Result, Values};
use crate::uapi::verbs::{qp_type, state};

const NO_QP: Errno = Errno::ENOENT.because(Refusal::NoQueuePair);
const NOT_YET: Errno = Errno::EINVAL.because(Refusal::SendBeforeRts);

impl Actor<'_> {
    /// POST_SEND: work requests were put into the queue pair's send ring. `EINVAL` before RTS,
    /// where they are dropped; in the error state they are flushed, in SQD they wait. `ENOENT` if
    /// the queue pair is gone.
    pub fn doorbell(&self, qpn: u32) -> Result<()> {
        let qp = self.take_posted(qpn)?;
        requester::run(self, qpn, true);
        // Receives that are posted, and polls, reach the engine by no call. If the peer waits for them,
        // now is a good time to look.
        let waits = |peer: &Qp| waits_for_peer(peer) && peer.dest_qpn.load(Acquire) == qpn;
        if qp.qp_type.load(Acquire) == qp_type::RC && local_peer(self.arena, qp).is_some_and(waits)
        {
            requester::run(self, qp.dest_qpn.load(Acquire), false);
        }
        Ok(())
    }

    /// The same for a queue pair that is served strictly: the daemon executes what was posted, later.
    pub fn strict_doorbell(&self, qpn: u32) -> Result<()> {
        self.take_posted(qpn)?;
        self.env.reschedule(qpn, 0);
        Ok(())
    }

    /// Sends were posted to a queue pair, which is to be in a state for that.
    #[inline]
    fn take_posted(&self, qpn: u32) -> Result<&Qp> {
        let qp = self.arena.qp(qpn).filter(|qp| qp.live.load(Acquire) == qpn).ok_or(NO_QP)?;
        let current = qp.state.load(Acquire);
        if flush::is_before_rts(current) && flush::drop_refused(self, qp, qpn) {
            return Err(NOT_YET.with(Values::of([(Label::State, current.into())])));
        }
        if self.is_traced() {
            posted::trace_all(self, qp, qpn);
        }
        Ok(qp)
    }

    /// Executes what is in the queue pair's send ring: for the daemon, when a request that could
    /// not be executed is due again, or the queue pair has come to RTS or SQD.
    pub fn run_send_queue(&self, qpn: u32) {
        requester::run(self, qpn, !self.is_daemon());
    }

    /// MODIFY_QP to the error state: all work requests of the queue pair are flushed, sends first.
    /// Receives of a shared receive queue stay. For the daemon; false, and nothing is done, if
    /// somebody else has a lock that this needs.
    #[must_use]
    pub fn enter_error(&self, qpn: u32) -> bool {
        let Some(qp) = self.arena.qp(qpn) else { return true };
        let mut deferred = Deferred::default();
        {
            let own = [&qp.send_lock, &qp.recv_lock].map(|lock| self.lock(lock));
            let cqs = [&qp.send_cq, &qp.recv_cq].map(|cq| lock_cq(self, cq.load(Acquire)));
            if own.iter().any(Option::is_none) || cqs.iter().any(Option::is_none) {
                return false;
            }
            if qp.live.load(Acquire) == qpn {
                flush::set_error(qp, qpn, |_| true, &mut deferred);
                flush::send_ring(self, qp, qpn, flush::Posted::Before, &mut deferred);
                flush::receive_ring(self, qp, qpn, flush::Posted::Before, &mut deferred);
            }
        }
        effects::carry_out(self, &mut deferred);
        true
    }

    /// Flushes receives that were posted to a queue pair in the error state: nobody rings a
    /// doorbell for them.
    pub fn poll_error_receives_of(&self, qpn: u32) {
        let Some(qp) = self.arena.qp(qpn) else { return };
        if qp.state.load(Acquire) != state::ERR || !flush::has_receives(self.arena, qp) {
            return;
        }
        let mut deferred = Deferred::default();
        flush::receives(self, qp, qpn, flush::Posted::InError, &mut deferred);
        effects::carry_out(self, &mut deferred);
    }

    /// Whether a queue pair has requests that are posted and neither executed nor flushed.
    pub fn has_unsent(&self, qpn: u32) -> bool {
        let Some(qp) = self.arena.qp(qpn) else { return false };
        let is_up = qp.state.load(Acquire) == state::RTS;
        let ring = self.arena.ring(&qp.sq).filter(|_| is_up);
        ring.is_some_and(|ring| ring.producer() != SendCursors::of(qp, &ring).next)
    }

    /// The reason for which the request at the head of a send queue waits, if it waits.
    pub fn why_it_waits(&self, qpn: u32) -> Option<Cause> {
        waiting::reason(self.arena, qpn)
    }

    /// Brings writes that have completed to their memory, which somebody may be about to give up; what else is on its way
    /// from a queue pair that ends is lost. For the daemon.
    pub fn land_writes(&self, ends: Option<u32>) {
        strict::land_all(self, ends);
    }

    /// Executes what is delayed, and delays nothing of the queue pair any more: it is about to leave the
    /// states in which requests are executed. For the daemon.
    pub fn release_delayed(&self, qpn: u32) {
        strict::land_all(self, Some(qpn));
        if self.arena.qp(qpn).is_some_and(delayed_writes::release) {
            requester::run(self, qpn, false);
        }
    }
}
