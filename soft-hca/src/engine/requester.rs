//! The send queue: requests are executed in the order in which they were posted. `rxe_req.c`.

use std::sync::atomic::Ordering::{Acquire, Release};
use std::{hint, thread};

use crate::arena::Qp;
use crate::engine::deferred::Deferred;
use crate::engine::flush::{can_fail, retire, set_error};
use crate::engine::memory::{GATHER, Owner};
use crate::engine::responder::Responder;
use crate::engine::segments::SegmentList;
use crate::engine::{Actor, Async, DAEMON, timing, wc_status};
use crate::ring::Ring;
use crate::uapi::rxe::{Cqe, MAX_SGE, SendWqe};
use crate::uapi::verbs::{Psn, mtu, opcode, qp_type, send_flag, state, status, wc_flag, wc_opcode};

/// Why a request is not executed. [`Qp::stall`] has the kind in its low byte and, above it, how
/// often the daemon has tried.
const STALL_RNR: u32 = 1;
const STALL_NO_RESPONSE: u32 = 2;
const STALL_CQ_FULL: u32 = 3;
const STALL_KIND: u32 = 0xff;
const STALL_ATTEMPT: u32 = 8;

/// Requests that the daemon executes of one queue pair before it looks at others.
const DAEMON_BURST: u32 = 64;
/// The daemon tries a queue that somebody else is executing again after so long.
pub(super) const DAEMON_BUSY_NS: u64 = 1_000_000;
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

/// A queue pair that sends; its `send_lock` is held.
pub(super) struct Requester<'a> {
    pub qp: &'a Qp,
    pub qpn: u32,
    /// `ibv_qp_type`.
    pub kind: u32,
    /// On whose behalf its memory is used.
    pub owner: Owner,
    pub ring: Ring<'a>,
    /// Index of the completion queue for sends.
    pub send_cq: u32,
    signals_all: bool,
}

/// Why the request at the head of the queue is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestError {
    /// The peer has no receive; the code of the time it asks us to wait.
    ReceiverNotReady(u32),
    /// There is no peer, or it is in no state to answer.
    NoResponse,
    /// The completion queue with this index, ours or the peer's, is full.
    CqFull(u32),
    /// Somebody else has a lock that the daemon does not wait for.
    Busy,
    /// It fails with this status.
    Failed(u32),
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

/// What the request's completion tells.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SendCompletion {
    pub wr_id: u64,
    pub opcode: u32,
    pub flags: u32,
    pub length: u32,
}

impl SendCompletion {
    pub(super) fn of(wqe: &SendWqe<'_>, length: u32) -> Self {
        Self { wr_id: wqe.wr_id, opcode: wqe.opcode, flags: wqe.flags, length }
    }

    fn cqe(&self, qpn: u32) -> Cqe {
        let (opcode, wc_flags) = match self.opcode {
            opcode::RDMA_WRITE => (wc_opcode::RDMA_WRITE, 0),
            opcode::RDMA_WRITE_WITH_IMM => (wc_opcode::RDMA_WRITE, wc_flag::WITH_IMM),
            opcode::SEND_WITH_IMM => (wc_opcode::SEND, wc_flag::WITH_IMM),
            opcode::RDMA_READ => (wc_opcode::RDMA_READ, 0),
            opcode::ATOMIC_CMP_AND_SWP => (wc_opcode::COMP_SWAP, 0),
            opcode::ATOMIC_FETCH_AND_ADD => (wc_opcode::FETCH_ADD, 0),
            opcode::LOCAL_INV => (wc_opcode::LOCAL_INV, 0),
            opcode::BIND_MW => (wc_opcode::BIND_MW, 0),
            opcode::ATOMIC_WRITE => (wc_opcode::ATOMIC_WRITE, 0),
            _ => (wc_opcode::SEND, 0),
        };
        Cqe {
            wr_id: self.wr_id,
            status: status::SUCCESS,
            opcode,
            byte_len: self.length,
            qp_num: qpn,
            wc_flags,
            ..Cqe::default()
        }
    }
}

/// Where the bytes of a request lie: the process and whether they are in the work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Payload {
    /// In memory of the requester's process.
    Memory,
    /// In the send ring, which this process maps, too.
    Inline,
}

impl<'a> Requester<'a> {
    /// The request at an index.
    pub(super) fn wqe(&self, index: u32) -> SendWqe<'a> {
        SendWqe::read(self.ring.slot(index))
    }

    /// The process in whose memory a payload lies.
    pub(super) fn proc_of(&self, payload: Payload, me: usize) -> usize {
        match payload {
            Payload::Memory => self.owner.proc,
            Payload::Inline => me,
        }
    }

    /// Lists the request's local memory, which has to allow `access`.
    pub(super) fn gather(
        &self,
        actor: &Actor<'_>,
        wqe: &SendWqe<'_>,
        access: u32,
        out: &mut SegmentList,
    ) -> Result<u32, RequestError> {
        let count = wqe.num_sge as usize;
        if count > (self.qp.max_send_sge.load(Acquire) as usize).min(wqe.room()).min(MAX_SGE) {
            return Err(RequestError::Failed(wc_status::MALFORMED));
        }
        let mut length = 0u64;
        // Some versions of the library sum lengths up wrongly; the elements are right.
        for index in 0..count {
            let sge = wqe.sge(index);
            if sge.length == 0 {
                continue;
            }
            let addr = self.owner.local(actor.arena, sge, access);
            out.push(addr.ok_or(RequestError::Failed(wc_status::LOCAL_MEMORY))?, sge.length.into());
            length += u64::from(sge.length);
        }
        if length > wc_status::MAX_MESSAGE {
            return Err(RequestError::Failed(wc_status::TOO_LONG));
        }
        Ok(length as u32)
    }

    /// Lists what a request sends, be it in memory or in the request.
    pub(super) fn payload(
        &self,
        actor: &Actor<'_>,
        wqe: &SendWqe<'_>,
        out: &mut SegmentList,
    ) -> Result<(Payload, u32), RequestError> {
        // Extended posting puts data inline without the flag, and no elements.
        if wqe.flags & send_flag::INLINE == 0 && wqe.num_sge > 0 {
            return Ok((Payload::Memory, self.gather(actor, wqe, GATHER, out)?));
        }
        let length = wqe.length();
        if length == 0 {
            return Ok((Payload::Memory, 0));
        }
        let addr = wqe.inline_address(length as usize);
        let addr = addr.filter(|_| length <= self.qp.max_inline.load(Acquire));
        out.push(addr.ok_or(RequestError::Failed(wc_status::TOO_LONG))?, length.into());
        Ok((Payload::Inline, length))
    }

    /// The connected peer, locked; it has to be connected to us.
    pub(super) fn responder(&self, actor: &Actor<'a>) -> Option<Responder<'a>> {
        let qpn = self.qp.dest_qpn.load(Acquire);
        let peer = actor.link.find(actor.arena, &self.qp.dgid, qpn)?;
        let responder = actor.responder(peer, qpn, self.kind)?;
        let is_mutual = peer.dest_qpn.load(Acquire) == self.qpn;
        // Without losses the numbers of packets can only differ if they were set so.
        let is_next =
            self.kind != qp_type::RC || peer.rq_psn.load(Acquire) == self.qp.sq_psn.load(Acquire);
        (is_mutual && is_next).then_some(responder)
    }

    /// Counts the packets of a message of this length, on both sides.
    pub(super) fn count_packets(&self, responder: Option<&Responder<'_>>, length: u32) {
        let mtu = mtu::bytes(self.qp.path_mtu.load(Acquire));
        let packets = length.div_ceil(mtu).max(1);
        let next = Psn::new(self.qp.sq_psn.load(Acquire)).after(packets);
        self.qp.sq_psn.store(next.into(), Release);
        if let Some(responder) = responder {
            responder.qp.rq_psn.store(next.into(), Release);
        }
    }

    /// Index of the first request.
    pub(super) fn head(&self) -> u32 {
        self.qp.sq_consumer.load(Acquire) & self.ring.mask()
    }

    /// Whether a request's success has a completion.
    pub(super) fn is_signaled(&self, flags: u32) -> bool {
        self.signals_all || flags & send_flag::SIGNALED != 0
    }

    /// Gives so many first requests back as are `done`, and completes those that want it.
    pub(super) fn complete(
        &self,
        actor: &Actor<'_>,
        done: impl IntoIterator<Item = SendCompletion, IntoIter: ExactSizeIterator>,
        deferred: &mut Deferred,
    ) {
        let done = done.into_iter();
        let next = self.head().wrapping_add(done.len() as u32);
        let retiring = retire(&self.qp.sq_consumer, &self.ring, next);
        let mut signaled = done.filter(|done| self.is_signaled(done.flags)).peekable();
        if signaled.peek().is_some() {
            let cqes = signaled.map(|done| (done.cqe(self.qpn), false));
            actor.complete_all(self.send_cq, cqes, Some(retiring), deferred);
        }
    }
}

impl<'a> Actor<'a> {
    /// Executes a send queue up to what is in it now. An impatient caller leaves a queue alone
    /// that somebody else is executing.
    pub(super) fn run(&self, qpn: u32, is_patient: bool) {
        let mut deferred = Deferred::default();
        let mut budget = None;
        let end = (self.me == DAEMON).then(|| self.env.now_ns() + DAEMON_BURST_NS);
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
        let requester = Requester {
            qp,
            qpn,
            kind: qp.qp_type.load(Acquire),
            owner: Owner::of(qp, qpn),
            ring,
            send_cq: qp.send_cq.load(Acquire),
            signals_all: qp.sq_sig_all.load(Acquire) != 0,
        };
        let posted = ring.distance(requester.head(), ring.producer());
        let burst = if self.me == DAEMON { DAEMON_BURST } else { u32::MAX };
        let left = budget.get_or_insert(posted.min(burst));
        if posted == 0 || *left == 0 {
            if posted > 0 && self.me == DAEMON {
                deferred.kicks.push((qpn, 0));
            }
            return NextStep::Ends;
        }
        let limit = if current == state::SQD { 1 } else { posted.min(*left) };
        let Some(_held) = self.hold_for(&requester) else {
            return self.come_back(qpn, deferred);
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
                let goes_on = count < posted && (*left > 0 || self.me == DAEMON);
                if goes_on { NextStep::GoesOn } else { NextStep::Ends }
            }
            Err(RequestError::Busy) => self.come_back(qpn, deferred),
            Err(RequestError::Failed(status)) => {
                self.fail(&requester, status, deferred);
                NextStep::Ends
            }
            Err(stop) => self.stall(&requester, stop, deferred),
        }
    }

    /// Executes up to `limit` requests from the head on, with their completions; gives how many.
    fn execute(
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
            opcode::LOCAL_INV if is_connected => {
                self.local_invalidate(requester, &wqe, deferred)?
            }
            opcode::BIND_MW if is_connected => self.bind_window(requester, &wqe, deferred)?,
            _ => return Err(RequestError::Failed(wc_status::MALFORMED)),
        }
        Ok(1)
    }

    /// The request at the head fails, and with it the queue pair.
    fn fail(&self, requester: &Requester<'_>, status: u32, deferred: &mut Deferred) {
        let Requester { qp, qpn, .. } = *requester;
        set_error(qp, qpn, can_fail, deferred);
        let head = requester.head();
        let wr_id = requester.wqe(head).wr_id;
        let retiring = retire(&qp.sq_consumer, &requester.ring, head.wrapping_add(1));
        self.complete(requester.send_cq, &Cqe::error(wr_id, status, qpn), false, deferred);
        drop(retiring);
        self.flush_send_ring(qp, qpn, deferred);
        self.flush_receives(qp, qpn, deferred);
    }

    /// The daemon does not get a lock now.
    fn come_back(&self, qpn: u32, deferred: &mut Deferred) -> NextStep {
        if self.me == DAEMON {
            deferred.kicks.push((qpn, DAEMON_BUSY_NS));
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
        if is_new {
            let deadline = limit.map_or(u64::MAX, |limit| now.saturating_add(limit));
            qp.stall_deadline_ns.store(deadline, Release);
        }
        let deadline = qp.stall_deadline_ns.load(Acquire);
        if now >= deadline {
            if let RequestError::CqFull(cq) = stop {
                self.give_up_on(cq);
                qp.stall.store(0, Release);
                return NextStep::GoesOn;
            }
            self.fail(requester, expired, deferred);
            return NextStep::Ends;
        }
        let attempt = match (is_new, self.me) {
            (true, _) => 0,
            (false, DAEMON) => (before >> STALL_ATTEMPT).saturating_add(1).min(0xff_ffff),
            (false, _) => before >> STALL_ATTEMPT,
        };
        qp.stall.store(kind | attempt << STALL_ATTEMPT, Release);
        // Once the daemon knows of it, it sees to it that it comes back.
        if is_new || self.me == DAEMON {
            let wait = timing::retry_after_ns(attempt).min(deadline - now);
            deferred.kicks.push((requester.qpn, wait));
        }
        NextStep::Ends
    }

    /// Waits a moment for the queue pair's peer to post a receive. The caller holds no lock.
    fn soon_receives(&self, qpn: u32) -> bool {
        let Some(qp) = self.arena.qp(qpn) else { return false };
        let peer = self.link.find(self.arena, &qp.dgid, qp.dest_qpn.load(Acquire));
        let Some(peer) = peer else { return false };
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

/// In SQD nothing is being executed any more: tells the program, if it wants to know.
fn drained(qp: &Qp, qpn: u32, deferred: &mut Deferred) {
    if qp.sqd_notify.swap(0, std::sync::atomic::Ordering::AcqRel) != 0 {
        deferred.raised.push(Async::SqDrained(qpn));
    }
}
