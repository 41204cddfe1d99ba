//! RDMA writes that are held back, if whoever records wants to know whether a program watches its memory.
//!
//! A program that waits for an RDMA write by looking at its memory makes no call. But if the write comes at a time
//! that is chosen at random, and what the program posts next never comes before it, the one depends on the other.
//! So some writes without immediate data are executed later, by the daemon; each adds to the record for how
//! long. First its bytes are moved, and a while later it completes: in between only the memory shows that it
//! has arrived. Requests behind it wait, as they would behind a write that takes as long on its way to the peer.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use soft_hca_fault::Random;
use soft_hca_verbs::cause::Cause;

use crate::arena::{Qp, Scope};
use crate::engine::Actor;
use crate::engine::deferred::Deferred;
use crate::engine::plan::Batch;
use crate::engine::request::Requester;
use crate::engine::strict::is_strict;
use crate::trace::cause;
use crate::trace::event::Stalled;
use crate::uapi::verbs::{opcode, qp_type};

/// So many of a queue pair's writes are held back, then one in so many until there were so many.
const FIRST: u32 = 16;
const ONE_IN: u32 = 8;
const LAST: u32 = 192;

/// The shortest time, in nanoseconds, and what is longer than any.
const LEAST_NS: u64 = 2_000_000;
const MOST_NS: u64 = 40_000_000;

/// From when its bytes are moved until it completes.
const SHOWN_NS: u64 = 20_000_000;

/// In [`Qp::put_off_until_ns`]: the bytes are moved, and it is to complete then.
const MOVED: u64 = 1;

impl<'a> Actor<'a> {
    /// How many of `limit` requests from the head on are executed now; `None` if the one at the head is held
    /// back, and the daemon comes back. The caller holds the `send_lock`.
    #[inline]
    pub(super) fn held(
        &self,
        requester: &Requester<'a>,
        limit: u32,
        deferred: &mut Deferred,
    ) -> Option<u32> {
        let is_wanted = || self.arena.trace_scope.load(Relaxed) == Scope::Buffers as u32;
        // Bytes that are moved already are not those of a batch.
        let limit = if self.is_shown(requester.qp) { limit.min(1) } else { limit };
        if !self.is_traced() || !is_wanted() {
            return Some(limit);
        }
        self.hold(requester, limit, deferred)
    }

    #[cold]
    fn hold(&self, requester: &Requester<'a>, limit: u32, deferred: &mut Deferred) -> Option<u32> {
        let Requester { qp, qpn, kind, .. } = *requester;
        let count = qp.put_off_choices.load(Acquire);
        let is_connected = kind == qp_type::RC || kind == qp_type::UC;
        let peer = self.local_peer(qp).filter(|_| is_connected);
        // Who is in the same process may be told by its memory.
        let is_other = |peer: &Qp| peer.proc.load(Acquire) != qp.proc.load(Acquire);
        if count >= LAST || is_strict(qp) || !peer.is_some_and(is_other) {
            return Some(limit);
        }
        // What waits for the peer waits for that alone. What is behind the head may be to be held.
        let wqe = requester.wqe(requester.head());
        if wqe.opcode != opcode::RDMA_WRITE || qp.wait.load(Acquire) != 0 {
            return Some(limit.min(1));
        }
        let now = self.env.now_ns();
        let mut until = qp.put_off_until_ns.load(Acquire);
        if until == 0 {
            qp.put_off_choices.store(count + 1, Release);
            if count >= FIRST && count % ONE_IN != 0 {
                return Some(limit.min(1));
            }
            let seed = now ^ u64::from(qpn) << 40;
            let duration = LEAST_NS + Random::new(seed).below(MOST_NS - LEAST_NS);
            until = (now + duration) & !MOVED;
            let cause = cause::encode(Some(&Cause::Held { duration }));
            let event = Stalled { wr_id: wqe.wr_id, qpn }.into();
            self.env.trace_at(now, requester.owner.proc as u32, &event, &cause);
        } else if until & MOVED == 0 && now >= until {
            if !self.show(requester, deferred) {
                // What is wrong with it shows now.
                return Some(limit.min(1));
            }
            until = (now + SHOWN_NS) | MOVED;
        } else if now >= until {
            // That it is put off stays until it was executed, for which it may have to wait again.
            return Some(limit.min(1));
        } else if !self.is_daemon() {
            // The daemon knows of it.
            return None;
        }
        qp.put_off_until_ns.store(until, Release);
        deferred.rescheduled.push((qpn, until.saturating_sub(now)));
        None
    }

    /// Moves the bytes of the write at the head, if nothing is wrong with it.
    fn show(&self, requester: &Requester<'a>, deferred: &mut Deferred) -> bool {
        let wqe = requester.wqe(requester.head());
        let Some(responder) = requester.responder(self) else { return false };
        let mut batch = Batch::new(1);
        if self.plan(requester, Some(&responder), &wqe, &mut batch, deferred).is_err() {
            return false;
        }
        let from = batch.local.of_process(batch.local_proc.unwrap_or(requester.owner.proc));
        let to = batch.remote.of_process(responder.owner.proc);
        // It comes behind what was sent before.
        self.settle(responder.qp.recv_cq.load(Acquire));
        self.copier.copy(self.arena, self.me, from, to).is_ok()
    }

    /// Whether the bytes of the request at the head are moved already.
    #[inline]
    pub(super) fn is_shown(&self, qp: &Qp) -> bool {
        qp.put_off_until_ns.load(Acquire) & MOVED != 0 && !is_strict(qp)
    }

    /// The request at the head was executed: the next one is not put off yet.
    #[inline]
    pub(super) fn end_hold(&self, qp: &Qp) {
        if qp.put_off_until_ns.load(Acquire) != 0 && !is_strict(qp) {
            qp.put_off_until_ns.store(0, Release);
        }
    }

    /// Executes what is held back, and holds nothing of the queue pair back any more: it is about to leave the
    /// states in which requests are executed. For the daemon.
    pub fn release_held(&self, qpn: u32) {
        let Some(qp) = self.arena.qp(qpn) else { return };
        if qp.put_off_until_ns.load(Acquire) != 0 && !is_strict(qp) {
            qp.put_off_choices.store(LAST, Release);
            self.run(qpn, false);
        }
    }
}
