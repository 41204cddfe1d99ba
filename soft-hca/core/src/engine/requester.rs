//! The send queue: requests are executed in the order in which they were posted. `rxe_req.c`.

use std::sync::atomic::Ordering::{Acquire, Release};
use std::{hint, thread};

use soft_hca_roce::transport::events::Event;
use soft_hca_verbs::cause::{Cause, Malformed, Peer, Side};

use crate::arena::Qp;
use crate::engine::check::CheckError;
use crate::engine::credit::may_overrun;
use crate::engine::cursor::retire;
use crate::engine::deferred::Deferred;
use crate::engine::flush::{can_fail, set_error};
use crate::engine::request::{RequestError, Requester};
use crate::engine::{Actor, Async, Route, timing};
use crate::trace::cause;
use crate::trace::event::Stalled;
use crate::uapi::rxe::Cqe;
use crate::uapi::verbs::{QpState, opcode, qp_type, state, status};

/// Why a request is not executed. [`Qp::wait`] has the kind in its low byte and, above it, how
/// often the daemon has tried.
const WAIT_RNR: u32 = 1;
const WAIT_RESPONSE: u32 = 2;
const WAIT_CQ_CREDIT: u32 = 3;
const WAIT_KIND: u32 = 0xff;
const WAIT_ATTEMPT: u32 = 8;

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
    matches!(qp.wait.load(Acquire) & WAIT_KIND, WAIT_RNR | WAIT_CQ_CREDIT)
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
                    self.env.reschedule(qpn, 0);
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
            state::SQD if qp.wait.load(Acquire) != 0 => {}
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
        let requester = Requester::new(qp, qpn, ring);
        let posted = ring.distance(requester.head(), ring.producer());
        let burst = if self.is_daemon() { DAEMON_BURST } else { u32::MAX };
        let left = budget.get_or_insert(posted.min(burst));
        if posted == 0 || *left == 0 {
            if posted > 0 && self.is_daemon() {
                deferred.rescheduled.push((qpn, 0));
            }
            return NextStep::Ends;
        }
        if self.is_traced() {
            self.trace_sends(qp, qpn);
        }
        let mut limit = if current == state::SQD { 1 } else { posted.min(*left) };
        let _held = if self.is_daemon() {
            let Some(held) = self.hold_for(&requester) else {
                return self.come_back(qpn, deferred);
            };
            match self.strictly(&requester, limit, deferred) {
                None => return NextStep::Ends,
                Some(at_once) => limit = at_once,
            }
            Some(held)
        } else {
            None
        };
        match self.held(&requester, limit, deferred) {
            None => return NextStep::Ends,
            Some(at_once) => limit = at_once,
        }
        match self.execute(&requester, limit, deferred) {
            Ok(count) => {
                if qp.wait.load(Acquire) != 0 {
                    qp.wait.store(0, Release);
                }
                self.end_hold(qp);
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
            Err(RequestError::Fenced | RequestError::LeftToLink) => NextStep::Ends,
            Err(RequestError::Failed(error)) => {
                self.fail(&requester, &error, deferred);
                NextStep::Ends
            }
            Err(stop) => self.wait_or_fail(&requester, stop, deferred),
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
            // What leads nowhere finds no responder there.
            Some(Route::Local | Route::Nowhere) => self.execute_locally(requester, limit, deferred),
            Some(Route::Remote | Route::MulticastLoopback) => {
                let kind = requester.wqe(requester.head()).opcode;
                let is_local = matches!(kind, opcode::LOCAL_INV | opcode::BIND_MW);
                if is_local && requester.in_flight() == 0 {
                    return self.execute_locally(requester, 1, deferred);
                }
                deferred.link_doorbells.push(requester.qpn);
                Err(RequestError::LeftToLink)
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
        let _credit = is_signaled.then(|| self.reserve_credit(requester.send_cq)).transpose()?;
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
            _ => return Err(CheckError::malformed(Malformed::Opcode).into()),
        }
        Ok(1)
    }

    /// The request at the head fails, and with it the queue pair.
    pub(super) fn fail(
        &self,
        requester: &Requester<'_>,
        error: &CheckError,
        deferred: &mut Deferred,
    ) {
        // Completions come in the order of the requests: it is tried again, and fails again, when
        // those in flight are completed.
        if requester.in_flight() > 0 {
            return;
        }
        self.fail_at(requester, requester.head(), (error.status(), Some(error.cause())), deferred);
    }

    /// The request at an index, before which none is left, fails with a status for a cause, if that
    /// is known; and with it the queue pair.
    pub(super) fn fail_at(
        &self,
        requester: &Requester<'_>,
        index: u32,
        (status, cause): (u32, Option<Cause>),
        deferred: &mut Deferred,
    ) {
        let Requester { qp, qpn, .. } = *requester;
        set_error(qp, qpn, can_fail, deferred);
        let (wr_id, cause) = (requester.wqe(index).wr_id, cause.as_ref());
        requester.trace_executed(self, index, (0, status), None, cause);
        let retiring = retire(&qp.sq_consumer, &requester.ring, index.wrapping_add(1));
        let cqe = Cqe::error(wr_id, status, qpn);
        self.complete_failed(requester.send_cq, &cqe, cause, deferred);
        drop(retiring);
        self.flush_send_ring(qp, qpn, deferred);
        self.flush_receives(qp, qpn, deferred);
    }

    /// The daemon does not get a lock now.
    fn come_back(&self, qpn: u32, deferred: &mut Deferred) -> NextStep {
        if self.is_daemon() {
            deferred.rescheduled.push((qpn, timing::DAEMON_BUSY_NS));
        }
        NextStep::Ends
    }

    /// The request at the head cannot be executed now. It fails if that has been so for too long,
    /// else the daemon will try again.
    fn wait_or_fail(
        &self,
        requester: &Requester<'_>,
        stop: RequestError,
        deferred: &mut Deferred,
    ) -> NextStep {
        let qp = requester.qp;
        let (kind, limit, expired) = match stop {
            RequestError::ReceiverNotReady(timer) => {
                (WAIT_RNR, timing::rnr_limit_ns(qp, timer), status::RNR_RETRY_EXC_ERR)
            }
            RequestError::CqFull(cq) => {
                (WAIT_CQ_CREDIT, Some(self.cq_full_ns(cq)), status::SUCCESS)
            }
            _ => (WAIT_RESPONSE, timing::ack_limit_ns(qp), status::RETRY_EXC_ERR),
        };
        let before = qp.wait.load(Acquire);
        let is_new = before & WAIT_KIND != kind;
        // Who executes another process's queue is the one that has posted no receive.
        let is_own = requester.owner.proc == self.me;
        if is_new && kind == WAIT_RNR && is_own && deferred.waits < MAX_WAITS {
            deferred.waits += 1;
            return NextStep::Awaits;
        }
        let now = self.env.now_ns();
        let has_polled = match stop {
            RequestError::CqFull(cq) => self.has_polled_since(cq, &qp.wait_polled),
            _ => false,
        };
        if is_new || has_polled {
            let deadline = limit.map_or(u64::MAX, |limit| now.saturating_add(limit));
            qp.wait_deadline_ns.store(deadline, Release);
        }
        let deadline = qp.wait_deadline_ns.load(Acquire);
        let cause = || {
            let began = limit.map_or(now, |limit| deadline.saturating_sub(limit));
            self.what_is_missing(requester, &stop, now.saturating_sub(began))
        };
        if is_new && kind == WAIT_RNR {
            self.count_rnr(qp, 1);
        }
        if is_new {
            self.trace(|env| {
                let wr_id = requester.wqe(requester.head()).wr_id;
                let event = Stalled { wr_id, qpn: requester.qpn }.into();
                env.trace(requester.owner.proc as u32, &event, &cause::encode(Some(&cause())));
            });
        }
        if now >= deadline {
            if let RequestError::CqFull(cq) = stop {
                self.allow_overrun(cq);
                qp.wait.store(0, Release);
                return NextStep::GoesOn;
            }
            self.count_exhausted(qp, expired);
            self.fail(requester, &CheckError::new(expired, cause()), deferred);
            return NextStep::Ends;
        }
        let attempt = match (is_new, self.is_daemon()) {
            (true, _) => 0,
            (false, true) => (before >> WAIT_ATTEMPT).saturating_add(1).min(0xff_ffff),
            (false, false) => before >> WAIT_ATTEMPT,
        };
        qp.wait.store(kind | attempt << WAIT_ATTEMPT, Release);
        // Once the daemon knows of it, it sees to it that it comes back.
        if is_new || self.is_daemon() {
            let wait = timing::retry_after_ns(attempt).min(deadline - now);
            deferred.rescheduled.push((requester.qpn, wait));
        }
        NextStep::Ends
    }

    /// A request finds no receive of the peer, so many times: each is an RNR NAK.
    #[cold]
    fn count_rnr(&self, qp: &Qp, times: u32) {
        qp.events.count(Event::RnrReceived, times.into());
        if let Some(peer) = self.local_peer(qp) {
            peer.events.count(Event::RnrSent, times.into());
        }
    }

    /// A request fails after all the retries that it has.
    #[cold]
    fn count_exhausted(&self, qp: &Qp, expired: u32) {
        if expired == status::RNR_RETRY_EXC_ERR {
            self.count_rnr(qp, qp.rnr_retry.load(Acquire));
            qp.events.count(Event::RnrRetriesExceeded, 1);
        } else {
            qp.events.count(Event::Retried, qp.retry_cnt.load(Acquire).into());
            qp.events.count(Event::RetriesExceeded, 1);
        }
    }

    /// What the request at the head of a send queue waits for, if it waits: as it is traced when that begins.
    pub fn what_holds_up(&self, qpn: u32) -> Option<Cause> {
        let qp = self.arena.qp(qpn)?;
        let peer = self.local_peer(qp);
        let stop = match qp.wait.load(Acquire) & WAIT_KIND {
            WAIT_RNR => RequestError::ReceiverNotReady(peer?.min_rnr_timer.load(Acquire)),
            WAIT_RESPONSE => RequestError::NoResponse,
            WAIT_CQ_CREDIT => {
                let own = qp.send_cq.load(Acquire);
                let is_full = |cq: &u32| {
                    let cq = self.arena.cqs.get(*cq as usize);
                    let ring = cq.and_then(|cq| Some((cq, self.arena.ring(&cq.ring)?)));
                    ring.is_some_and(|(cq, ring)| may_overrun(cq, &ring))
                };
                let peers = peer.map(|peer| peer.recv_cq.load(Acquire));
                RequestError::CqFull(peers.filter(is_full).unwrap_or(own))
            }
            _ => return None,
        };
        let requester = Requester::new(qp, qpn, self.send_ring(qp)?);
        Some(self.what_is_missing(&requester, &stop, 0))
    }

    /// What a request waits for, and for how long it has.
    #[cold]
    fn what_is_missing(
        &self,
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
                peer: self.silent_peer(requester),
            },
        }
    }

    /// What is known of a peer that does not answer.
    fn silent_peer(&self, requester: &Requester<'_>) -> Peer {
        let qp = requester.qp;
        match Route::load(&qp.route) {
            Some(Route::Remote | Route::MulticastLoopback) => return Peer::Remote,
            Some(Route::Nowhere) => return Peer::NoPath,
            Some(Route::Local) | None => {}
        }
        let qpn = qp.dest_qpn.load(Acquire);
        let Some(peer) = self.local_peer(qp).filter(|peer| peer.live.load(Acquire) == qpn) else {
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
