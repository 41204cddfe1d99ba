//! Requests that cannot be executed now: how long they wait, and what becomes of them then.
//! `rxe_comp.c`.

use std::sync::atomic::Ordering::{Acquire, Release};
use std::{hint, thread};

use soft_hca_roce::transport::events::Event;
use soft_hca_verbs::cause::{Cause, Peer, Side};

use crate::arena::{Arena, Mapping, Qp};
use crate::engine::actor::Actor;
use crate::engine::check::CheckError;
use crate::engine::cursor::send_ring;
use crate::engine::deferred::Deferred;
use crate::engine::request::Requester;
use crate::engine::request_error::RequestError;
use crate::engine::route::{Route, local_peer};
use crate::engine::{credit, responder, timing};
use crate::trace::cause;
use crate::trace::event::Stalled;
use crate::uapi::verbs::{QpState, qp_type, state, status};

/// Why a request is not executed. [`Qp::wait`] has the kind in its low byte and, above it, how
/// often the daemon has tried.
const WAIT_RNR: u32 = 1;
const WAIT_RESPONSE: u32 = 2;
const WAIT_CQ_CREDIT: u32 = 3;
const WAIT_KIND: u32 = 0xff;
const WAIT_ATTEMPT: u32 = 8;

/// How often a program looks for a receive before it lets others run: some microseconds, in which
/// a peer that is awake posts one.
const SPINS: u32 = 200;
/// How often it lets others run, who may be the peer, before it leaves the matter to the daemon.
const YIELDS: u32 = 8;
/// How often it waits so in one run.
pub(super) const MAX_WAITS: u32 = 64;

/// Whether the queue pair's next request may wait for its peer's program to post a receive or to
/// poll.
#[inline]
pub(super) fn waits_for_peer(qp: &Qp) -> bool {
    matches!(qp.wait.load(Acquire) & WAIT_KIND, WAIT_RNR | WAIT_CQ_CREDIT)
}

/// The fate of a request that could not be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is to be executed all the same.
    Retry,
    /// It is to be tried again when the peer has posted a receive, for which the program waits a
    /// moment.
    Await,
    /// It has failed, or the daemon tries it again.
    Done,
}

/// The kind of a wait, how long it may last (`None` for ever), and the status of a request for which
/// that was too long.
fn limit_of(arena: &Arena, qp: &Qp, stop: &RequestError) -> (u32, Option<u64>, u32) {
    match *stop {
        RequestError::ReceiverNotReady(timer) => {
            (WAIT_RNR, timing::rnr_limit_ns(qp, timer), status::RNR_RETRY_EXC_ERR)
        }
        RequestError::CqFull(cq) => {
            (WAIT_CQ_CREDIT, Some(credit::wait_limit_ns(arena, cq)), status::SUCCESS)
        }
        _ => (WAIT_RESPONSE, timing::ack_limit_ns(qp), status::RETRY_EXC_ERR),
    }
}

/// The request at the head cannot be executed now. It fails if that has been so for too long,
/// else the daemon will try again. `waits` is how often this run has waited for a receive.
pub(super) fn wait_or_fail(
    actor: &Actor<'_>,
    requester: &Requester<'_>,
    stop: RequestError,
    waits: &mut u32,
    deferred: &mut Deferred,
) -> Outcome {
    let qp = requester.qp;
    let (kind, limit, expired) = limit_of(actor.arena, qp, &stop);
    let before = qp.wait.load(Acquire);
    let is_new = before & WAIT_KIND != kind;
    // Another process that executes this queue is the one that has posted no receive.
    let is_own = requester.owner.proc == actor.me;
    if is_new && kind == WAIT_RNR && is_own && *waits < MAX_WAITS {
        *waits += 1;
        return Outcome::Await;
    }
    let now = actor.env.now_ns();
    let has_polled = match stop {
        RequestError::CqFull(cq) => credit::has_polled_since(actor.arena, cq, &qp.wait_polled),
        _ => false,
    };
    if is_new || has_polled {
        let deadline = limit.map_or(u64::MAX, |limit| now.saturating_add(limit));
        qp.wait_deadline_ns.store(deadline, Release);
    }
    let deadline = qp.wait_deadline_ns.load(Acquire);
    let cause = || {
        let began = limit.map_or(now, |limit| deadline.saturating_sub(limit));
        what_is_missing(actor.arena, requester, &stop, now.saturating_sub(began))
    };
    if is_new {
        trace_stalled(actor, requester, cause);
        if kind == WAIT_RNR {
            count_rnr(actor.arena, qp, 1);
        }
    }
    if now >= deadline {
        if let RequestError::CqFull(cq) = stop {
            credit::allow_overrun(actor.arena, cq);
            qp.wait.store(0, Release);
            return Outcome::Retry;
        }
        count_exhausted(actor.arena, qp, expired);
        requester.fail(actor, &CheckError::new(expired, cause()), deferred);
        return Outcome::Done;
    }
    let attempt = match (is_new, actor.is_daemon()) {
        (true, _) => 0,
        (false, true) => (before >> WAIT_ATTEMPT).saturating_add(1).min(0xff_ffff),
        (false, false) => before >> WAIT_ATTEMPT,
    };
    qp.wait.store(kind | attempt << WAIT_ATTEMPT, Release);
    // Once the daemon knows of it, it sees to it that it comes back.
    if is_new || actor.is_daemon() {
        let wait = timing::retry_after_ns(attempt).min(deadline - now);
        deferred.rescheduled.push((requester.qpn, wait));
    }
    Outcome::Done
}

fn trace_stalled(actor: &Actor<'_>, requester: &Requester<'_>, cause: impl Fn() -> Cause) {
    actor.trace(|env| {
        let wr_id = requester.wqe(requester.head()).wr_id;
        let event = Stalled { wr_id, qpn: requester.qpn }.into();
        env.trace(requester.owner.proc as u32, &event, &cause::encode(Some(&cause())));
    });
}

/// A request finds no receive of the peer, so many times: each is an RNR NAK.
#[cold]
fn count_rnr(arena: &Arena, qp: &Qp, times: u32) {
    qp.events.count(Event::RnrReceived, times.into());
    if let Some(peer) = local_peer(arena, qp) {
        peer.events.count(Event::RnrSent, times.into());
    }
}

/// A request fails after all the retries that it has.
#[cold]
fn count_exhausted(arena: &Arena, qp: &Qp, expired: u32) {
    if expired == status::RNR_RETRY_EXC_ERR {
        count_rnr(arena, qp, qp.rnr_retry.load(Acquire));
        qp.events.count(Event::RnrRetriesExceeded, 1);
    } else {
        qp.events.count(Event::Retried, qp.retry_cnt.load(Acquire).into());
        qp.events.count(Event::RetriesExceeded, 1);
    }
}

/// The reason for which the request at the head of a send queue waits, if it waits: as it is traced when that begins.
pub(super) fn reason(arena: &Mapping, qpn: u32) -> Option<Cause> {
    let qp = arena.qp(qpn)?;
    let peer = local_peer(arena, qp);
    let stop = match qp.wait.load(Acquire) & WAIT_KIND {
        WAIT_RNR => RequestError::ReceiverNotReady(peer?.min_rnr_timer.load(Acquire)),
        WAIT_RESPONSE => RequestError::NoResponse,
        WAIT_CQ_CREDIT => {
            let own = qp.send_cq.load(Acquire);
            let is_full = |cq: &u32| {
                let cq = arena.cqs.get(*cq as usize);
                let ring = cq.and_then(|cq| Some((cq, arena.ring(&cq.ring)?)));
                ring.is_some_and(|(cq, ring)| credit::may_overrun(cq, &ring))
            };
            let peers = peer.map(|peer| peer.recv_cq.load(Acquire));
            RequestError::CqFull(peers.filter(is_full).unwrap_or(own))
        }
        _ => return None,
    };
    let requester = Requester::new(qp, qpn, send_ring(arena, qp)?);
    Some(what_is_missing(arena, &requester, &stop, 0))
}

/// The reason for which a request waits, and for how long it has.
#[cold]
fn what_is_missing(
    arena: &Arena,
    requester: &Requester<'_>,
    stop: &RequestError,
    waited: u64,
) -> Cause {
    let qp = requester.qp;
    match *stop {
        RequestError::ReceiverNotReady(timer) => Cause::ReceiverNotReady {
            waited,
            min_rnr_timer: timer,
            rnr_retry: qp.rnr_retry.load(Acquire),
        },
        RequestError::CqFull(cq) => {
            let is_own = cq == requester.send_cq;
            Cause::CqFull { side: if is_own { Side::Requester } else { Side::Responder }, cq }
        }
        _ => Cause::NoResponse {
            waited,
            timeout: qp.timeout.load(Acquire),
            retry_cnt: qp.retry_cnt.load(Acquire),
            peer: silent_peer(arena, requester),
        },
    }
}

/// The reason for which a peer does not answer, as far as it is known.
fn silent_peer(arena: &Arena, requester: &Requester<'_>) -> Peer {
    let qp = requester.qp;
    match Route::load(&qp.route) {
        Some(Route::Remote | Route::MulticastLoopback) => return Peer::Remote,
        Some(Route::Nowhere) => return Peer::NoPath,
        Some(Route::Local) | None => {}
    }
    let qpn = qp.dest_qpn.load(Acquire);
    let Some(peer) = local_peer(arena, qp).filter(|peer| peer.live.load(Acquire) == qpn) else {
        return Peer::Gone;
    };
    let current = peer.state.load(Acquire);
    if !(state::RTR..=state::SQE).contains(&current) {
        return Peer::InState { state: QpState(current) };
    }
    let dest = peer.dest_qpn.load(Acquire);
    if dest != requester.qpn {
        return Peer::NotConnectedToUs { dest_qp: dest };
    }
    let own = qp.pkey.load(Acquire);
    if !peer.takes(own) {
        return Peer::OtherPartition { own: own as u16, its: peer.pkey.load(Acquire) as u16 };
    }
    let (expected, sent) = (peer.rq_psn.load(Acquire), qp.sq_psn.load(Acquire));
    if requester.kind == qp_type::RC && expected != sent {
        return Peer::OtherPsn { expected, sent };
    }
    Peer::Unreachable
}

/// Waits a moment for the queue pair's peer to post a receive. The caller holds no lock.
pub(super) fn soon_receives(arena: &Mapping, qpn: u32) -> bool {
    let Some(qp) = arena.qp(qpn) else { return false };
    let Some(peer) = local_peer(arena, qp) else { return false };
    (0..YIELDS).any(|round| {
        if round > 0 {
            thread::yield_now();
        }
        (0..SPINS).any(|_| {
            hint::spin_loop();
            responder::has_receive(arena, peer)
        })
    })
}
