//! RDMA writes that are delayed, if a recording is to show whether a program watches its memory.
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
use crate::engine::actor::Actor;
use crate::engine::deferred::Deferred;
use crate::engine::plan::{self, Batch};
use crate::engine::request::Requester;
use crate::engine::route::local_peer;
use crate::engine::strict_choice::is_strict;
use crate::engine::turn::{Bytes, Turn};
use crate::trace::cause;
use crate::trace::event::Stalled;
use crate::uapi::verbs::{opcode, qp_type};

/// So many of a queue pair's writes are delayed, then one in so many until there were so many.
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

/// Whether the bytes of the request at the head are moved already.
fn is_moved(qp: &Qp) -> bool {
    qp.put_off_until_ns.load(Acquire) & MOVED != 0
}

/// Whether the recording wants writes to be delayed.
#[inline]
pub(super) fn is_requested(actor: &Actor<'_>) -> bool {
    actor.arena.recording() != 0 && actor.arena.trace_scope.load(Relaxed) == Scope::Buffers as u32
}

/// The share of `limit` requests from the head on that is executed now; `None` if the one at the head is delayed, and
/// the daemon comes back. The queue pair is not a strict one; the caller holds the `send_lock`.
pub(super) fn turn(
    actor: &Actor<'_>,
    requester: &Requester<'_>,
    limit: u32,
    deferred: &mut Deferred,
) -> Option<Turn> {
    let is_requested = is_requested(actor);
    // Bytes that are moved already are not those of a batch.
    let mut turn = match is_moved(requester.qp) {
        true => Turn { limit: limit.min(1), bytes: Bytes::Moved },
        false => Turn::at_once(limit),
    };
    if is_requested {
        turn.limit = delay(actor, requester, turn.limit, deferred)?;
    }
    Some(turn)
}

/// How many of `limit` requests from the head on are executed now.
fn delay(
    actor: &Actor<'_>,
    requester: &Requester<'_>,
    limit: u32,
    deferred: &mut Deferred,
) -> Option<u32> {
    let Requester { qp, qpn, kind, .. } = *requester;
    let count = qp.put_off_choices.load(Acquire);
    let is_connected = kind == qp_type::RC || kind == qp_type::UC;
    let peer = local_peer(actor.arena, qp).filter(|_| is_connected);
    // A receiver in the same process may learn of it by its memory.
    let is_other = |peer: &Qp| peer.proc.load(Acquire) != qp.proc.load(Acquire);
    if count >= LAST || !peer.is_some_and(is_other) {
        return Some(limit);
    }
    // A request that waits for the peer waits for that alone. The request behind the head may be one to delay.
    let wqe = requester.wqe(requester.head());
    if wqe.opcode != opcode::RDMA_WRITE || qp.wait.load(Acquire) != 0 {
        return Some(limit.min(1));
    }
    let now = actor.env.now_ns();
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
        actor.env.trace_at(now, requester.owner.proc as u32, &event, &cause);
    } else if until & MOVED == 0 && now >= until {
        if !move_bytes(actor, requester, deferred) {
            // The error shows now.
            return Some(limit.min(1));
        }
        until = (now + SHOWN_NS) | MOVED;
    } else if now >= until {
        // The time stays until the write was executed, for which it may have to wait again.
        return Some(limit.min(1));
    } else if !actor.is_daemon() {
        // The daemon knows of it.
        return None;
    }
    qp.put_off_until_ns.store(until, Release);
    deferred.rescheduled.push((qpn, until.saturating_sub(now)));
    None
}

/// Moves the bytes of the write at the head, if nothing is wrong with it.
fn move_bytes(actor: &Actor<'_>, requester: &Requester<'_>, deferred: &mut Deferred) -> bool {
    let wqe = requester.wqe(requester.head());
    let Some(responder) = requester.responder(actor) else { return false };
    let mut batch = Batch::new(1);
    if plan::plan(actor, requester, Some(&responder), &wqe, &mut batch, deferred).is_err() {
        return false;
    }
    let from = batch.local.of_process(batch.local_proc.unwrap_or(requester.owner.proc));
    let to = batch.remote.of_process(responder.owner.proc);
    // It comes behind what was sent before.
    actor.drain_staged(responder.qp.recv_cq.load(Acquire));
    actor.copy(from, to).is_ok()
}

/// The request at the head was executed: the next one is not delayed yet.
pub(super) fn executed(qp: &Qp) {
    if !is_strict(qp) {
        qp.put_off_until_ns.store(0, Release);
    }
}

/// Delays nothing of the queue pair any more: it is about to leave the states in which requests are executed.
/// Whether a write is delayed, so that the queue is to be run.
pub(super) fn release(qp: &Qp) -> bool {
    let is_delayed = qp.put_off_until_ns.load(Acquire) != 0 && !is_strict(qp);
    if is_delayed {
        qp.put_off_choices.store(LAST, Release);
    }
    is_delayed
}
