//! The send queue: requests are executed in the order in which they were posted. `rxe_req.c`.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use crate::arena::Qp;
use crate::engine::actor::Actor;
use crate::engine::asynchronous::Async;
use crate::engine::cursor::send_ring;
use crate::engine::deferred::Deferred;
use crate::engine::locking::lock_cq_ahead;
use crate::engine::request::Requester;
use crate::engine::request_error::RequestError;
use crate::engine::waiting::{MAX_WAITS, Outcome, soon_receives, wait_or_fail};
use crate::engine::{effects, execute, flush, posted, request_locks, schedule, timing};
use crate::uapi::verbs::state;

/// Requests that the daemon executes of one queue pair before it looks at others.
const DAEMON_BURST: u32 = 64;
/// How long the daemon executes requests of one queue pair before it looks at others.
const DAEMON_BURST_NS: u64 = 2_000_000;

/// The continuation after a step through the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextStep {
    /// The next step.
    GoesOn,
    /// The next step, when the peer has posted a receive.
    Awaits,
    /// Nothing more: all is done, or somebody else does it.
    Ends,
}

/// A run through a send queue, up to what is in it at the first step.
struct Run {
    qpn: u32,
    /// Whether it waits for somebody else who is executing the queue.
    is_patient: bool,
    /// Requests that are left to this run, once that is known.
    left: Option<u32>,
    /// How often it has waited for a receive of the peer.
    waits: u32,
}

/// Executes a send queue up to what is in it now. An impatient caller leaves a queue alone
/// that somebody else is executing.
pub(super) fn run(actor: &Actor<'_>, qpn: u32, is_patient: bool) {
    let mut deferred = Deferred::default();
    let mut run = Run { qpn, is_patient, left: None, waits: 0 };
    let end = actor.is_daemon().then(|| actor.env.now_ns() + DAEMON_BURST_NS);
    schedule::before_run(actor, qpn, &mut deferred);
    loop {
        let next = step(actor, &mut run, &mut deferred);
        effects::carry_out(actor, &mut deferred);
        match next {
            NextStep::GoesOn if end.is_some_and(|end| actor.env.now_ns() >= end) => {
                actor.env.reschedule(qpn, 0);
                break;
            }
            NextStep::GoesOn => {}
            NextStep::Awaits if soon_receives(actor.arena, qpn) => {}
            // Once more, but without waiting.
            NextStep::Awaits => run.waits = MAX_WAITS,
            NextStep::Ends => break,
        }
    }
}

/// Executes the request at the head of the queue, or several at once.
fn step(actor: &Actor<'_>, run: &mut Run, deferred: &mut Deferred) -> NextStep {
    let qpn = run.qpn;
    let Some(qp) = actor.arena.qp(qpn) else { return NextStep::Ends };
    let guard =
        if run.is_patient { actor.lock(&qp.send_lock) } else { qp.send_lock.try_lock(actor.me) };
    if guard.is_none() {
        return come_back(actor, qpn, deferred);
    }
    let ring = send_ring(actor.arena, qp).filter(|_| qp.live.load(Acquire) == qpn);
    let Some(ring) = ring else { return NextStep::Ends };
    let current = qp.state.load(Acquire);
    // In SQD what is being executed is finished, no more.
    if current != state::RTS && (current != state::SQD || qp.wait.load(Acquire) == 0) {
        return begin_nothing(actor, qp, qpn, current, deferred);
    }
    let requester = Requester::new(qp, qpn, ring);
    let posted = ring.distance(requester.head(), ring.producer());
    let burst = if current == state::SQD { 1 } else { u32::MAX };
    let limit = posted.min(burst).min(run.left(actor, posted));
    if limit == 0 {
        return end_run(actor, qpn, posted, deferred);
    }
    if actor.is_traced() {
        posted::trace_sends(actor, qp, qpn);
    }
    let Some(_locks) = request_locks::take_ahead(actor, &requester) else {
        return come_back(actor, qpn, deferred);
    };
    let Some(turn) = schedule::turn(actor, &requester, limit, deferred) else {
        return NextStep::Ends;
    };
    match execute::execute(actor, &requester, turn, deferred) {
        Ok(count) => executed(actor, &requester, run, (current, count, posted), deferred),
        Err(stop) => stopped(actor, &requester, run, stop, deferred),
    }
}

impl Run {
    /// Requests that are left to this run, of those that are posted.
    #[inline]
    fn left(&mut self, actor: &Actor<'_>, posted: u32) -> u32 {
        let burst = if actor.is_daemon() { DAEMON_BURST } else { u32::MAX };
        *self.left.get_or_insert(posted.min(burst))
    }
}

/// In a state in which no request begins those in the queue are flushed, or wait.
#[cold]
fn begin_nothing(
    actor: &Actor<'_>,
    qp: &Qp,
    qpn: u32,
    current: u32,
    deferred: &mut Deferred,
) -> NextStep {
    match current {
        state::SQD => drained(qp, qpn, deferred),
        state::SQE | state::ERR => {
            let Some(_cq) = lock_cq_ahead(actor, qp.send_cq.load(Acquire)) else {
                return come_back(actor, qpn, deferred);
            };
            flush::send_ring(actor, qp, qpn, flush::Posted::InError, deferred);
        }
        _ => {}
    }
    NextStep::Ends
}

/// Nothing is left to this run. The daemon comes back for what is beyond its burst.
#[cold]
fn end_run(actor: &Actor<'_>, qpn: u32, posted: u32, deferred: &mut Deferred) -> NextStep {
    if posted > 0 && actor.is_daemon() {
        deferred.rescheduled.push((qpn, 0));
    }
    NextStep::Ends
}

/// In the current state so many requests were executed, of those that are posted.
#[inline]
fn executed(
    actor: &Actor<'_>,
    requester: &Requester<'_>,
    run: &mut Run,
    (current, count, posted): (u32, u32, u32),
    deferred: &mut Deferred,
) -> NextStep {
    let qp = requester.qp;
    if qp.wait.load(Acquire) != 0 {
        qp.wait.store(0, Release);
    }
    schedule::executed(qp);
    let left = run.left(actor, posted).saturating_sub(count);
    run.left = Some(left);
    if current == state::SQD {
        drained(qp, requester.qpn, deferred);
        return NextStep::Ends;
    }
    // The daemon comes back for what is beyond its burst.
    let goes_on = count < posted && (left > 0 || actor.is_daemon());
    if goes_on { NextStep::GoesOn } else { NextStep::Ends }
}

/// The request at the head is not executed.
fn stopped(
    actor: &Actor<'_>,
    requester: &Requester<'_>,
    run: &mut Run,
    stop: RequestError,
    deferred: &mut Deferred,
) -> NextStep {
    match stop {
        RequestError::Busy => come_back(actor, requester.qpn, deferred),
        // The link, or an answer that completes the other request, has the queue run again.
        RequestError::Fenced | RequestError::LeftToLink => NextStep::Ends,
        RequestError::Failed(error) => {
            requester.fail(actor, &error, deferred);
            NextStep::Ends
        }
        stop => match wait_or_fail(actor, requester, stop, &mut run.waits, deferred) {
            Outcome::Retry => NextStep::GoesOn,
            Outcome::Await => NextStep::Awaits,
            Outcome::Done => NextStep::Ends,
        },
    }
}

/// The daemon does not get a lock now.
fn come_back(actor: &Actor<'_>, qpn: u32, deferred: &mut Deferred) -> NextStep {
    if actor.is_daemon() {
        deferred.rescheduled.push((qpn, timing::DAEMON_BUSY_NS));
    }
    NextStep::Ends
}

/// In SQD no more requests begin. Once none is in flight this tells the program, if it wants to
/// know.
fn drained(qp: &Qp, qpn: u32, deferred: &mut Deferred) {
    if qp.sq_in_flight.load(Acquire) == 0 && qp.sqd_notify.swap(0, AcqRel) != 0 {
        deferred.raised.push(Async::SqDrained(qpn));
    }
}
