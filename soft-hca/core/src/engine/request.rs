//! A send work request on its way through a queue pair: its bytes, its end, its completion. `rxe_req.c`, `rxe_comp.c`.

use std::sync::atomic::Ordering::{Acquire, Release};

use soft_hca_verbs::cause::{Cause, Malformed, MemoryRole};

use crate::arena::{Qp, Tally};
use crate::engine::actor::Actor;
use crate::engine::check::CheckError;
use crate::engine::credit::{self, Credits};
use crate::engine::cursor::{SendCursors, retire};
use crate::engine::deferred::Deferred;
use crate::engine::flush::{Posted, can_fail, set_error};
use crate::engine::memory::{GATHER, Owner};
use crate::engine::request_error::RequestError;
use crate::engine::responder::Responder;
use crate::engine::route::local_peer;
use crate::engine::segments::{Region, Segment, SegmentList};
use crate::engine::traced::MatchedReceive;
use crate::engine::traffic::{Packets, is_send};
use crate::engine::{completion, flush, traced, wc_status};
use crate::ring::Ring;
use crate::trace::cause;
use crate::trace::event::Executed;
use crate::uapi::rxe::{Cqe, MAX_SGE, SendWqe};
use crate::uapi::verbs::{Psn, WrOpcode, opcode, qp_type, send_flag, status, wc_flag, wc_opcode};

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
    /// How far the queue is.
    cursors: SendCursors,
    signals_all: bool,
}

/// A request's completion.
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

    /// The completion of a request in flight, whose length is only in the work request.
    fn of_executed(wqe: &SendWqe<'_>) -> Self {
        let is_inline = wqe.flags & send_flag::INLINE != 0 || wqe.num_sge == 0;
        let sges = || (0..wqe.max_sges().min(wqe.num_sge as usize)).map(|index| wqe.sge(index));
        let length = match wqe.opcode {
            opcode::LOCAL_INV | opcode::BIND_MW | opcode::FLUSH => 0,
            opcode if WrOpcode(opcode).is_atomic() => 8,
            _ if is_inline => wqe.length(),
            _ => sges().fold(0, |sum: u32, sge| sum.wrapping_add(sge.length)),
        };
        Self::of(wqe, length)
    }

    #[inline]
    pub(super) fn cqe(&self, qpn: u32) -> Cqe {
        let (opcode, wc_flags) = match self.opcode {
            opcode::RDMA_WRITE => (wc_opcode::RDMA_WRITE, 0),
            opcode::RDMA_WRITE_WITH_IMM => (wc_opcode::RDMA_WRITE, wc_flag::WITH_IMM),
            opcode::SEND_WITH_IMM => (wc_opcode::SEND, wc_flag::WITH_IMM),
            opcode::RDMA_READ => (wc_opcode::RDMA_READ, 0),
            opcode::ATOMIC_CMP_AND_SWP => (wc_opcode::COMP_SWAP, 0),
            opcode::ATOMIC_FETCH_AND_ADD => (wc_opcode::FETCH_ADD, 0),
            opcode::LOCAL_INV => (wc_opcode::LOCAL_INV, 0),
            opcode::BIND_MW => (wc_opcode::BIND_MW, 0),
            opcode::FLUSH => (wc_opcode::FLUSH, 0),
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

/// Location of a request's bytes: the process and whether they are in the work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PayloadLocation {
    /// In memory of the requester's process.
    Memory,
    /// In the send ring, which this process maps, too.
    Inline,
}

/// A message that has more bytes than it may.
#[cold]
pub(super) fn too_long(length: u64, limit: u64) -> CheckError {
    CheckError::new(wc_status::TOO_LONG, Cause::MessageTooLong { length, limit })
}

impl<'a> Requester<'a> {
    /// The caller holds the queue pair's `send_lock`.
    pub(super) fn new(qp: &'a Qp, qpn: u32, ring: Ring<'a>) -> Self {
        Self {
            qp,
            qpn,
            kind: qp.qp_type.load(Acquire),
            owner: Owner::of(qp, qpn),
            ring,
            send_cq: qp.send_cq.load(Acquire),
            cursors: SendCursors::of(qp, &ring),
            signals_all: qp.sq_sig_all.load(Acquire) != 0,
        }
    }

    /// The request at an index.
    pub(super) fn wqe(&self, index: u32) -> SendWqe<'a> {
        SendWqe::read(self.ring.slot(index))
    }

    /// The process in whose memory a payload lies.
    pub(super) fn proc_of(&self, location: PayloadLocation, me: usize) -> usize {
        match location {
            PayloadLocation::Memory => self.owner.proc,
            PayloadLocation::Inline => me,
        }
    }

    /// Lists the request's local memory, which has to allow `access`.
    #[inline(always)]
    pub(super) fn gather(
        &self,
        actor: &Actor<'_>,
        wqe: &SendWqe<'_>,
        access: u32,
        out: &mut SegmentList,
    ) -> Result<u32, CheckError> {
        let count = wqe.num_sge as usize;
        if count > (self.qp.max_send_sge.load(Acquire) as usize).min(wqe.max_sges()).min(MAX_SGE) {
            return Err(CheckError::malformed(Malformed::MaxSendSge));
        }
        let mut length = 0u64;
        // Some versions of the library sum lengths up wrongly; the SGEs are right.
        for index in 0..count {
            let sge = wqe.sge(index);
            if sge.length == 0 {
                continue;
            }
            let (segment, region) =
                self.owner.local(actor.arena, sge, access, MemoryRole::Local)?;
            out.push(segment, region);
            length += u64::from(sge.length);
        }
        let limit = u64::from(self.qp.max_message.load(Acquire)).min(wc_status::MAX_MESSAGE);
        if length > limit {
            return Err(too_long(length, limit));
        }
        Ok(length as u32)
    }

    /// Lists what a request sends, be it in memory or in the request.
    pub(super) fn payload(
        &self,
        actor: &Actor<'_>,
        wqe: &SendWqe<'_>,
        out: &mut SegmentList,
    ) -> Result<(PayloadLocation, u32), CheckError> {
        // Extended posting puts data inline without the flag, and no SGEs.
        if wqe.flags & send_flag::INLINE == 0 && wqe.num_sge > 0 {
            return Ok((PayloadLocation::Memory, self.gather(actor, wqe, GATHER, out)?));
        }
        let length = wqe.length();
        if length == 0 {
            return Ok((PayloadLocation::Memory, 0));
        }
        let limit = self.qp.max_inline.load(Acquire);
        let addr = wqe.inline_address(length as usize).filter(|_| length <= limit);
        let addr = addr.ok_or_else(|| too_long(length.into(), limit.into()))?;
        out.push(Segment { addr, length: length.into() }, Region::NONE);
        Ok((PayloadLocation::Inline, length))
    }

    /// The connected peer, locked; it has to be connected to us.
    #[inline]
    pub(super) fn responder(&self, actor: &Actor<'a>) -> Option<Responder<'a>> {
        let qpn = self.qp.dest_qpn.load(Acquire);
        let peer = local_peer(actor.arena, self.qp)?;
        let responder = Responder::lock(actor, peer, qpn, self.kind)?;
        let is_mutual = peer.dest_qpn.load(Acquire) == self.qpn;
        let is_of_partition = peer.takes(self.qp.pkey.load(Acquire));
        // Without losses the numbers of packets can only differ if they were set so.
        let is_next =
            self.kind != qp_type::RC || peer.rq_psn.load(Acquire) == self.qp.sq_psn.load(Acquire);
        (is_mutual && is_of_partition && is_next).then_some(responder)
    }

    /// Counts messages that are executed, on both sides, each by its opcode and length: their PSNs,
    /// and what their packets are. Those that are lost have not come to the responder.
    #[inline]
    pub(super) fn count(
        &self,
        responder: Option<&Responder<'_>>,
        messages: impl IntoIterator<Item = (u32, u32, bool)>,
    ) {
        let packets = Packets::of(self.qp, self.kind);
        let (mut sent, mut numbers) = (Tally::default(), 0u32);
        for (opcode, length, is_lost) in messages {
            let (tally, more) = packets.tally(opcode, length);
            numbers = numbers.wrapping_add(more);
            sent = sent.plus(tally);
            if is_lost {
                self.count_lost(responder, &tally);
            }
        }
        self.qp.sent.add(&sent);
        let next = self.skip(numbers);
        if let Some(responder) = responder {
            responder.qp.received.add(&sent);
            responder.qp.rq_psn.store(next, Release);
        }
    }

    /// A message does not come to the responder, for which it is counted all the same.
    #[cold]
    fn count_lost(&self, responder: Option<&Responder<'_>>, tally: &Tally) {
        if let Some(responder) = responder {
            responder.qp.received.add(&Tally::default().since(*tally));
        }
    }

    /// Counts a datagram that is executed: its PSN, and what it adds here.
    pub(super) fn count_datagram(&self, tally: &Tally) {
        self.qp.sent.add(tally);
        self.skip(1);
    }

    /// Takes so many packet sequence numbers; gives the next one.
    fn skip(&self, numbers: u32) -> u32 {
        let next = u32::from(Psn::new(self.qp.sq_psn.load(Acquire)) + numbers);
        self.qp.sq_psn.store(next, Release);
        next
    }

    /// Index of the next request to be executed.
    pub(super) fn head(&self) -> u32 {
        self.cursors.next
    }

    /// Index of the oldest request that is not completed.
    pub(super) fn oldest(&self) -> u32 {
        self.cursors.completed
    }

    /// Requests that are executed and not completed.
    pub(super) fn in_flight(&self) -> u32 {
        self.ring.distance(self.cursors.completed, self.cursors.next)
    }

    /// Refuses a request that has a response if none may be outstanding: `max_rd_atomic` is 0.
    pub(super) fn check_read_depth(&self) -> Result<(), CheckError> {
        match self.qp.max_rd_atomic.load(Acquire) {
            0 => Err(CheckError::malformed(Malformed::MaxRdAtomic)),
            _ => Ok(()),
        }
    }

    /// Whether a request may not begin yet (IBTA 10.8.3.3, the fence indicator).
    pub(super) fn is_fenced(&self, wqe: &SendWqe<'_>) -> bool {
        let is_waited_for = |index| {
            let wqe = self.wqe(self.cursors.completed.wrapping_add(index));
            WrOpcode(wqe.opcode).has_response()
        };
        wqe.flags & send_flag::FENCE != 0 && (0..self.in_flight()).any(is_waited_for)
    }

    /// Whether a request's success has a completion.
    pub(super) fn is_signaled(&self, flags: u32) -> bool {
        self.signals_all || flags & send_flag::SIGNALED != 0
    }

    /// Reserves the place of a request's completion, if its success has one.
    #[inline(always)]
    pub(super) fn reserve<'c>(
        &self,
        actor: &Actor<'c>,
        wqe: &SendWqe<'_>,
    ) -> Result<Option<Credits<'c>>, RequestError> {
        let is_signaled = self.is_signaled(wqe.flags);
        is_signaled.then(|| credit::reserve_one(actor, self.send_cq)).transpose()
    }

    /// The requests from the head on are `done`: gives them back and completes those that want it.
    /// With others in flight they join them, for completions come in the order of the requests.
    /// For the trace there are the receives that the messages have consumed, and in `dropped` why a
    /// datagram was dropped, of which its sender does not learn.
    pub(super) fn complete(
        &self,
        actor: &Actor<'_>,
        done: impl IntoIterator<
            Item = (SendCompletion, Option<MatchedReceive>),
            IntoIter: ExactSizeIterator + Clone,
        >,
        dropped: Option<&Cause>,
        deferred: &mut Deferred,
    ) {
        let done = done.into_iter();
        if actor.is_traced() {
            self.trace_done(actor, done.clone(), dropped);
        }
        let done = done.map(|(done, _)| done);
        match self.in_flight() {
            0 => self.complete_first(actor, done, deferred),
            others => self.qp.sq_in_flight.store(others + done.len() as u32, Release),
        }
    }

    #[cold]
    fn trace_done(
        &self,
        actor: &Actor<'_>,
        done: impl Iterator<Item = (SendCompletion, Option<MatchedReceive>)>,
        dropped: Option<&Cause>,
    ) {
        for (index, (done, receive)) in (self.head()..).zip(done) {
            self.trace_executed(actor, index, (done.length, status::SUCCESS), receive, dropped);
        }
    }

    /// Traces that the request at an index is done, with the message's length and its status; and
    /// why, if that is no success or nobody gets the message.
    pub(super) fn trace_executed(
        &self,
        actor: &Actor<'_>,
        index: u32,
        (length, ended): (u32, u32),
        receive: Option<MatchedReceive>,
        cause: Option<&Cause>,
    ) {
        actor.trace(|env| {
            let wqe = self.wqe(index);
            let receiver = receive.and_then(|receive| actor.arena.qp(receive.qpn));
            let event = Executed {
                wr_id: wqe.wr_id,
                receive_wr_id: receive.map_or(0, |receive| receive.wr_id),
                qpn: self.qpn,
                opcode: wqe.opcode,
                length,
                status: ended,
                receive_qpn: receive.map_or(0, |receive| receive.qpn),
                receive_proc: receiver.map_or(0, |qp| qp.proc.load(Acquire)),
                has_waited: u32::from(self.qp.wait.load(Acquire) != 0),
            };
            env.trace(self.owner.proc as u32, &event.into(), &cause::encode(cause));
            if ended == status::SUCCESS && WrOpcode(wqe.opcode).fetches() {
                self.tell_target(actor, index, length);
            }
        });
    }

    /// [Tells](traced::tell_target) the target's process of the request at an index.
    #[cold]
    pub(super) fn tell_target(&self, actor: &Actor<'_>, index: u32, length: u32) {
        let about = (self.qpn, length);
        traced::tell_target(actor, self.qp, self.owner.proc, &self.wqe(index), about);
    }

    /// Completes the oldest requests in flight, whose answers have come.
    pub(super) fn complete_in_flight(
        &self,
        actor: &Actor<'_>,
        count: u32,
        deferred: &mut Deferred,
    ) {
        let in_flight = self.in_flight();
        let count = count.min(in_flight);
        let done = (0..count as usize).map(|index| {
            SendCompletion::of_executed(&self.wqe(self.cursors.completed + index as u32))
        });
        if actor.is_traced() {
            for (index, done) in (self.cursors.completed..).zip(done.clone()) {
                self.trace_executed(actor, index, (done.length, status::SUCCESS), None, None);
            }
        }
        let sends = done.clone().filter(|done| is_send(done.opcode)).count() as u64;
        self.qp.sent.add(&Tally { sends, ..Tally::default() });
        self.complete_first(actor, done, deferred);
        self.qp.sq_in_flight.store(in_flight - count, Release);
    }

    /// Gives the oldest requests back, as many as are `done`, and completes those that want it.
    fn complete_first(
        &self,
        actor: &Actor<'_>,
        done: impl ExactSizeIterator<Item = SendCompletion>,
        deferred: &mut Deferred,
    ) {
        let next = self.cursors.completed.wrapping_add(done.len() as u32);
        let retiring = retire(&self.qp.sq_consumer, &self.ring, next);
        let mut signaled = done.filter(|done| self.is_signaled(done.flags)).peekable();
        if signaled.peek().is_some() {
            let cqes = signaled.map(|done| (done.cqe(self.qpn), false));
            completion::complete_all(actor, self.send_cq, cqes, None, Some(retiring), deferred);
        }
    }

    /// The request at the head fails, and with it the queue pair.
    pub(super) fn fail(&self, actor: &Actor<'_>, error: &CheckError, deferred: &mut Deferred) {
        // Completions come in the order of the requests: it is tried again, and fails again, when
        // those in flight are completed.
        if self.in_flight() == 0 {
            self.fail_at(actor, self.head(), (error.status(), Some(error.cause())), deferred);
        }
    }

    /// The request at an index, before which none is left, fails with a status for a cause, if that
    /// is known; and with it the queue pair.
    pub(super) fn fail_at(
        &self,
        actor: &Actor<'_>,
        index: u32,
        (status, cause): (u32, Option<Cause>),
        deferred: &mut Deferred,
    ) {
        let Self { qp, qpn, .. } = *self;
        set_error(qp, qpn, can_fail, deferred);
        let (wr_id, cause) = (self.wqe(index).wr_id, cause.as_ref());
        self.trace_executed(actor, index, (0, status), None, cause);
        let retiring = retire(&qp.sq_consumer, &self.ring, index.wrapping_add(1));
        let cqe = Cqe::error(wr_id, status, qpn);
        completion::complete_failed(actor, self.send_cq, cqe, cause, deferred);
        drop(retiring);
        flush::send_ring(actor, qp, qpn, Posted::Before, deferred);
        flush::receives(actor, qp, qpn, Posted::Before, deferred);
    }
}
