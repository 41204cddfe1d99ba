//! The send queue: requests are executed in the order in which they were posted. `rxe_req.c`.

use std::sync::atomic::Ordering::{Acquire, Release};
use std::{hint, thread};

use zerocopy::IntoBytes;

use crate::arena::Qp;
use crate::engine::cause::Cause;
use crate::engine::cursor::retire;
use crate::engine::deferred::Deferred;
use crate::engine::flush::{can_fail, set_error};
use crate::engine::request::{RequestError, Requester};
use crate::engine::{Actor, Async, Route, timing, wc_status};
use crate::trace::event::Stalled;
use crate::uapi::rxe::Cqe;
use crate::uapi::verbs::{opcode, qp_type, state, status};

/// Why a request is not executed. [`Qp::stall`] has the kind in its low byte and, above it, how
/// often the daemon has tried.
const STALL_RNR: u32 = 1;
const STALL_NO_RESPONSE: u32 = 2;
const STALL_CQ_FULL: u32 = 3;
const STALL_KIND: u32 = 0xff;
const STALL_ATTEMPT: u32 = 8;

/// Requests that the daemon executes of one queue pair before it looks at others.
const DAEMON_BURST: u32 = 64;
/// How long the daemon executes requests of one queue pair before it looks at others.
const DAEMON_BURST_NS: u64 = 2_000_000;
/// How often a program looks for a receive before it lets others run: some microseconds, in which
/// a peer that is awake posts one.
const SPINS: u32 = 200;
/// How often it lets others run, who may be the peer, before it leaves the matter to the daemon.
const YIELDS: u32 = 8;
/// How often it waits so in one run.
const MAX_WAITS: u32 = 64;

/// Whether the queue pair's next request may wait for its peer's program to post a receive or to
/// poll.
pub(super) fn waits_for_peer(qp: &Qp) -> bool {
    matches!(qp.stall.load(Acquire) & STALL_KIND, STALL_RNR | STALL_CQ_FULL)
}

/// What comes after a step through the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextStep {
    /// The next step.
    GoesOn,
    /// The next step, when the peer has posted a receive.
    Awaits,
    /// Nothing more: all is done, or somebody else does it.
    Ends,
}

impl<'a> Actor<'a> {
    /// Executes a send queue up to what is in it now. An impatient caller leaves a queue alone
    /// that somebody else is executing.
    pub(super) fn run(&self, qpn: u32, is_patient: bool) {
        let mut deferred = Deferred::default();
        let mut budget = None;
        let end = self.is_daemon().then(|| self.env.now_ns() + DAEMON_BURST_NS);
        loop {
            let turn = self.step(qpn, is_patient, &mut budget, &mut deferred);
            self.run_deferred(&mut deferred);
            match turn {
                NextStep::GoesOn if end.is_some_and(|end| self.env.now_ns() >= end) => {
                    self.env.kick_later(qpn, 0);
                    break;
                }
                NextStep::GoesOn => {}
                NextStep::Awaits if self.soon_receives(qpn) => {}
                // Once more, but without waiting.
                NextStep::Awaits => deferred.waits = MAX_WAITS,
                NextStep::Ends => break,
            }
        }
    }

    /// Executes the request at the head of the queue, or several at once.
    fn step(
        &self,
        qpn: u32,
        is_patient: bool,
        budget: &mut Option<u32>,
        deferred: &mut Deferred,
    ) -> NextStep {
        let Some(qp) = self.arena.qp(qpn) else { return NextStep::Ends };
        let guard =
            if is_patient { self.lock(&qp.send_lock) } else { qp.send_lock.try_lock(self.me) };
        if guard.is_none() {
            return self.come_back(qpn, deferred);
        }
        let Some(ring) = self.send_ring(qp) else { return NextStep::Ends };
        if qp.live.load(Acquire) != qpn {
            return NextStep::Ends;
        }
        let current = qp.state.load(Acquire);
        match current {
            state::RTS => {}
            // What is being executed is finished, no more.
            state::SQD if qp.stall.load(Acquire) != 0 => {}
            state::SQD => {
                drained(qp, qpn, deferred);
                return NextStep::Ends;
            }
            state::SQE | state::ERR => {
                let Some(_cq) = self.hold_cq(qp.send_cq.load(Acquire)) else {
                    return self.come_back(qpn, deferred);
                };
                self.flush_send_ring(qp, qpn, deferred);
                return NextStep::Ends;
            }
            _ => return NextStep::Ends,
        }
        deferred.cause = None;
        let requester = Requester::new(qp, qpn, ring);
        let posted = ring.distance(requester.head(), ring.producer());
        let burst = if self.is_daemon() { DAEMON_BURST } else { u32::MAX };
        let left = budget.get_or_insert(posted.min(burst));
        if posted == 0 || *left == 0 {
            if posted > 0 && self.is_daemon() {
                deferred.kicks.push((qpn, 0));
            }
            return NextStep::Ends;
        }
        let limit = if current == state::SQD { 1 } else { posted.min(*left) };
        let _held = if self.is_daemon() {
            match self.hold_for(&requester) {
                None => return self.come_back(qpn, deferred),
                held => held,
            }
        } else {
            None
        };
        match self.execute(&requester, limit, deferred) {
            Ok(count) => {
                if qp.stall.load(Acquire) != 0 {
                    qp.stall.store(0, Release);
                }
                *left -= count.min(*left);
                if current == state::SQD {
                    drained(qp, qpn, deferred);
                    return NextStep::Ends;
                }
                // The daemon comes back for what is beyond its burst.
                let goes_on = count < posted && (*left > 0 || self.is_daemon());
                if goes_on { NextStep::GoesOn } else { NextStep::Ends }
            }
            Err(RequestError::Busy) => self.come_back(qpn, deferred),
            // Whoever completes what it waits for comes back.
            Err(RequestError::Fenced) => NextStep::Ends,
            Err(RequestError::Failed(status)) => {
                self.fail(&requester, status, deferred);
                NextStep::Ends
            }
            Err(stop) => self.stall(&requester, stop, deferred),
        }
    }

    /// Executes up to `limit` requests from the head on, or has them executed; gives how many.
    /// Here the ways to peers part.
    fn execute(
        &self,
        requester: &Requester<'a>,
        limit: u32,
        deferred: &mut Deferred,
    ) -> Result<u32, RequestError> {
        if requester.is_fenced(&requester.wqe(requester.head())) {
            return Err(RequestError::Fenced);
        }
        match Route::load(&requester.qp.route) {
            Some(Route::Local) => self.execute_locally(requester, limit, deferred),
            Some(Route::Remote | Route::Everywhere) => {
                let kind = requester.wqe(requester.head()).opcode;
                let is_local = matches!(kind, opcode::LOCAL_INV | opcode::BIND_MW);
                if is_local && requester.in_flight() == 0 {
                    return self.execute_locally(requester, 1, deferred);
                }
                deferred.rung.push(requester.qpn);
                Err(RequestError::Fenced)
            }
            None => Err(RequestError::NoResponse),
        }
    }

    /// Executes requests between queue pairs of this fabric, with their completions.
    fn execute_locally(
        &self,
        requester: &Requester<'a>,
        limit: u32,
        deferred: &mut Deferred,
    ) -> Result<u32, RequestError> {
        let wqe = requester.wqe(requester.head());
        let is_rc = requester.kind == qp_type::RC;
        let is_connected = is_rc || requester.kind == qp_type::UC;
        match wqe.opcode {
            opcode::SEND
            | opcode::SEND_WITH_IMM
            | opcode::RDMA_WRITE
            | opcode::RDMA_WRITE_WITH_IMM
                if is_connected =>
            {
                return self.transfer(requester, limit, deferred);
            }
            opcode::SEND_WITH_INV | opcode::RDMA_READ if is_rc => {
                return self.transfer(requester, limit, deferred);
            }
            _ => {}
        }
        let is_signaled = requester.is_signaled(wqe.flags);
        let _room = is_signaled.then(|| self.claim_one(requester.send_cq)).transpose()?;
        match wqe.opcode {
            opcode::SEND | opcode::SEND_WITH_IMM if requester.kind == qp_type::UD => {
                self.datagram(requester, &wqe, deferred)?;
            }
            opcode::ATOMIC_CMP_AND_SWP | opcode::ATOMIC_FETCH_AND_ADD | opcode::ATOMIC_WRITE
                if is_rc =>
            {
                self.atomic(requester, &wqe, deferred)?;
            }
            opcode::FLUSH if is_rc => self.flush_memory(requester, &wqe, deferred)?,
            opcode::LOCAL_INV if is_connected => {
                self.local_invalidate(requester, &wqe, deferred)?
            }
            opcode::BIND_MW if is_connected => self.bind_window(requester, &wqe, deferred)?,
            _ => return Err(RequestError::Failed(wc_status::MALFORMED)),
        }
        Ok(1)
    }

    /// The request at the head fails, and with it the queue pair.
    pub(super) fn fail(&self, requester: &Requester<'_>, status: u32, deferred: &mut Deferred) {
        let Requester { qp, qpn, .. } = *requester;
        // Completions come in the order of the requests: it is tried again, and fails again, when
        // those in flight are completed.
        if requester.in_flight() > 0 {
            return;
        }
        set_error(qp, qpn, can_fail, deferred);
        let head = requester.head();
        let wqe = requester.wqe(head);
        let wr_id = wqe.wr_id;
        if self.is_traced() {
            deferred.cause = deferred.cause.or_else(|| self.why(requester, &wqe, status));
        }
        requester.trace_executed(self, head, (0, status), None, deferred.cause);
        let retiring = retire(&qp.sq_consumer, &requester.ring, head.wrapping_add(1));
        self.complete(requester.send_cq, &Cqe::error(wr_id, status, qpn), false, deferred);
        drop(retiring);
        self.flush_send_ring(qp, qpn, deferred);
        self.flush_receives(qp, qpn, deferred);
    }

    /// The daemon does not get a lock now.
    fn come_back(&self, qpn: u32, deferred: &mut Deferred) -> NextStep {
        if self.is_daemon() {
            deferred.kicks.push((qpn, timing::DAEMON_BUSY_NS));
        }
        NextStep::Ends
    }

    /// The request at the head cannot be executed now. It fails if that has been so for too long,
    /// else the daemon will try again.
    fn stall(
        &self,
        requester: &Requester<'_>,
        stop: RequestError,
        deferred: &mut Deferred,
    ) -> NextStep {
        let qp = requester.qp;
        let (kind, limit, expired) = match stop {
            RequestError::ReceiverNotReady(timer) => {
                (STALL_RNR, timing::rnr_limit_ns(qp, timer), status::RNR_RETRY_EXC_ERR)
            }
            RequestError::CqFull(_) => (STALL_CQ_FULL, Some(timing::CQ_FULL_NS), status::SUCCESS),
            _ => (STALL_NO_RESPONSE, timing::ack_limit_ns(qp), status::RETRY_EXC_ERR),
        };
        let before = qp.stall.load(Acquire);
        let is_new = before & STALL_KIND != kind;
        // Who executes another process's queue is the one that has posted no receive.
        let is_own = requester.owner.proc == self.me;
        if is_new && kind == STALL_RNR && is_own && deferred.waits < MAX_WAITS {
            deferred.waits += 1;
            return NextStep::Awaits;
        }
        let now = self.env.now_ns();
        let has_polled = match stop {
            RequestError::CqFull(cq) => self.has_polled_since(cq, &qp.stall_polled),
            _ => false,
        };
        if is_new || has_polled {
            let deadline = limit.map_or(u64::MAX, |limit| now.saturating_add(limit));
            qp.stall_deadline_ns.store(deadline, Release);
        }
        let deadline = qp.stall_deadline_ns.load(Acquire);
        if self.is_traced() {
            let began = limit.map_or(now, |limit| deadline.saturating_sub(limit));
            let cause = self.why_stalled(requester, stop, now.saturating_sub(began));
            deferred.cause = Some(cause);
            if is_new {
                let (proc, qpn) = (requester.owner.proc as u32, requester.qpn);
                let wr_id = requester.wqe(requester.head()).wr_id;
                let event = Stalled { wr_id, qpn }.into();
                let words = Cause::words(Some(cause));
                self.trace(|env| env.trace(proc, &event, words.as_bytes()));
            }
        }
        if now >= deadline {
            if let RequestError::CqFull(cq) = stop {
                self.give_up_on(cq);
                qp.stall.store(0, Release);
                return NextStep::GoesOn;
            }
            self.fail(requester, expired, deferred);
            return NextStep::Ends;
        }
        let attempt = match (is_new, self.is_daemon()) {
            (true, _) => 0,
            (false, true) => (before >> STALL_ATTEMPT).saturating_add(1).min(0xff_ffff),
            (false, false) => before >> STALL_ATTEMPT,
        };
        qp.stall.store(kind | attempt << STALL_ATTEMPT, Release);
        // Once the daemon knows of it, it sees to it that it comes back.
        if is_new || self.is_daemon() {
            let wait = timing::retry_after_ns(attempt).min(deadline - now);
            deferred.kicks.push((requester.qpn, wait));
        }
        NextStep::Ends
    }

    /// What a request waits for, and for how long it has.
    #[cold]
    fn why_stalled(&self, requester: &Requester<'_>, stop: RequestError, waited: u64) -> Cause {
        let qp = requester.qp;
        match stop {
            RequestError::ReceiverNotReady(timer) => {
                Cause::NotReady { waited, timer, retries: qp.rnr_retry.load(Acquire) }
            }
            RequestError::CqFull(cq) => Cause::CqFull { is_requester: cq == requester.send_cq, cq },
            _ => Cause::NoResponse {
                waited,
                timeout: qp.timeout.load(Acquire),
                retries: qp.retry_cnt.load(Acquire),
                peer: self.why_silent(requester),
            },
        }
    }

    /// Waits a moment for the queue pair's peer to post a receive. The caller holds no lock.
    fn soon_receives(&self, qpn: u32) -> bool {
        let Some(qp) = self.arena.qp(qpn) else { return false };
        let Some(peer) = self.local_peer(qp) else { return false };
        (0..YIELDS).any(|round| {
            if round > 0 {
                thread::yield_now();
            }
            (0..SPINS).any(|_| {
                hint::spin_loop();
                self.may_receive(peer)
            })
        })
    }
}

/// In SQD no more requests begin. Once none is in flight this tells the program, if it wants to
/// know.
fn drained(qp: &Qp, qpn: u32, deferred: &mut Deferred) {
    if qp.sq_in_flight.load(Acquire) == 0
        && qp.sqd_notify.swap(0, std::sync::atomic::Ordering::AcqRel) != 0
    {
        deferred.raised.push(Async::SqDrained(qpn));
    }
}
