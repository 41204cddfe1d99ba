//! The peer's side of a request. `rxe_resp.c`.

use std::sync::atomic::Ordering::{Acquire, Release};

use soft_hca_verbs::cause::{Cause, Malformed};

use crate::arena::{Arena, Guard, Mapping, Qp, Srq};
use crate::engine::actor::Actor;
use crate::engine::asynchronous::Async;
use crate::engine::check::CheckError;
use crate::engine::cursor::{Retiring, has_receives, retire};
use crate::engine::deferred::Deferred;
use crate::engine::flush::{Posted, can_fail, set_error};
use crate::engine::locking::lock_cq;
use crate::engine::memory::{KeyedAccess, Owner};
use crate::engine::receive::Receive;
use crate::engine::segments::{Region, Segment};
use crate::engine::{completion, flush, posted, wc_status};
use crate::ring::Ring;
use crate::trace::event::Seen;
use crate::uapi::rxe::{Cqe, RecvWqe, RemoteWr, Sge};
use crate::uapi::verbs::{
    AccessFlags, Mtu, access, opcode, qp_type, send_flag, state, status, wc_flag, wc_opcode,
};

/// Rights for requests that are not only acknowledged. An atomic write needs a write's.
pub(super) const ANSWERED: u32 =
    access::REMOTE_READ | access::REMOTE_ATOMIC | access::FLUSH_GLOBAL | access::FLUSH_PERSISTENT;

/// Messages that are executed together, at most.
pub(super) const MAX_MESSAGES: usize = 16;

/// A queue pair that answers; its `recv_lock` is held as long as this lives.
pub(super) struct Responder<'a> {
    pub qp: &'a Qp,
    /// On whose behalf its memory is used.
    pub owner: Owner,
    receives: Receives<'a>,
    _guard: Guard<'a>,
}

enum Receives<'a> {
    /// The ring, the index of the first receive and how many there are.
    Own(Ring<'a>, u32, u32),
    Shared(u32),
    /// There is no ring where one should be.
    None,
}

/// Receives that are looked at before they are consumed; the lock of a shared queue is held meanwhile.
pub(super) struct PlainReceives<'a> {
    ring: Ring<'a>,
    first: u32,
    posted: u32,
    max_sge: u32,
    /// The protection domain of their memory.
    pd: u32,
    shared: Option<(&'a Srq, Guard<'a>)>,
}

impl<'a> PlainReceives<'a> {
    /// Those of a shared queue, which is locked; `None` if the queue is gone.
    #[inline]
    fn shared(actor: &Actor<'a>, index: u32) -> Option<Self> {
        let srq: &'a Srq = actor.arena.srqs.get(index as usize)?;
        let guard = actor.lock(&srq.lock)?;
        let ring = actor.arena.ring(&srq.ring).filter(|_| srq.live.load(Acquire) != 0)?;
        let first = srq.consumer.load(Acquire) & ring.mask();
        let posted = ring.distance(first, ring.producer());
        let (max_sge, pd) = (srq.max_sge.load(Acquire), srq.pd.load(Acquire));
        Some(Self { ring, first, posted, max_sge, pd, shared: Some((srq, guard)) })
    }

    /// The protection domain of their memory.
    pub(super) fn pd(&self) -> u32 {
        self.pd
    }

    /// The one behind the first `skip`, if it has a single SGE: its name and that SGE.
    #[inline]
    pub(super) fn get(&self, skip: u32) -> Option<(u64, Sge)> {
        if skip >= self.posted || self.max_sge == 0 {
            return None;
        }
        let wqe = RecvWqe::read(self.ring.slot(self.first.wrapping_add(skip)));
        // The next one comes from the other processor meanwhile.
        self.ring.slot(self.first.wrapping_add(skip + 1)).prefetch();
        (wqe.num_sge == 1).then(|| (wqe.wr_id, wqe.sge(0)))
    }

    /// Consumes the first `count`, whose completions come next.
    #[inline]
    pub(super) fn retire(&self, responder: &mut Responder<'a>, count: u32) -> Option<Retiring<'a>> {
        match &self.shared {
            None => responder.retire(count),
            Some((srq, _)) => {
                Some(retire(&srq.consumer, &self.ring, self.first.wrapping_add(count)))
            }
        }
    }
}

/// A receive work request that completes with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FailedReceive {
    /// The program's name for it.
    pub wr_id: u64,
    /// `enum ibv_wc_status`
    pub status: u32,
    /// Why, if that is known.
    pub cause: Option<Cause>,
}

/// A message's completion at the responder.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReceiveCompletion {
    pub wr_id: u64,
    pub opcode: u32,
    pub flags: u32,
    pub imm: u32,
    pub length: u32,
    pub src_qp: u32,
    /// For datagrams on Ethernet, one of [`network_type`](crate::uapi::verbs::network_type).
    pub network_type: u8,
    /// For datagrams on InfiniBand, the sender's LID.
    pub slid: u16,
    /// And the bits of the receiver's LID that stand for the path.
    pub dlid_path_bits: u8,
}

impl ReceiveCompletion {
    #[inline]
    pub(super) fn cqe(&self, qpn: u32) -> Cqe {
        let with = match self.opcode {
            opcode::SEND_WITH_IMM | opcode::RDMA_WRITE_WITH_IMM => wc_flag::WITH_IMM,
            opcode::SEND_WITH_INV => wc_flag::WITH_INV,
            _ => 0,
        };
        let is_write = self.opcode == opcode::RDMA_WRITE_WITH_IMM;
        Cqe {
            wr_id: self.wr_id,
            opcode: if is_write { wc_opcode::RECV_RDMA_WITH_IMM } else { wc_opcode::RECV },
            byte_len: self.length,
            imm: if with == 0 { 0 } else { self.imm },
            qp_num: qpn,
            src_qp: self.src_qp,
            // rxe sets GRH for connected types, too, and so do we.
            wc_flags: wc_flag::GRH | with,
            slid: self.slid,
            dlid_path_bits: self.dlid_path_bits,
            sl: self.network_type,
            port_num: 1,
            ..Cqe::default()
        }
    }
}

/// Whether a receive work request is there, seen without a lock.
pub(super) fn has_receive(arena: &Mapping, qp: &Qp) -> bool {
    match qp.srq.load(Acquire).checked_sub(1) {
        None => has_receives(arena, qp),
        Some(srq) => arena.srqs.get(srq as usize).is_some_and(|srq| {
            let consumer = srq.consumer.load(Acquire);
            arena.ring(&srq.ring).is_some_and(|ring| ring.producer() != consumer & ring.mask())
        }),
    }
}

/// Consumes a receive work request of a shared receive queue, for good; `None` if there is
/// none.
fn consume_shared<'a>(
    actor: &Actor<'a>,
    index: u32,
    receive: &mut Receive,
    deferred: &mut Deferred,
) -> Option<()> {
    let receives = PlainReceives::shared(actor, index)?;
    let PlainReceives { ring, first, posted, max_sge, shared: Some((srq, _)), .. } = &receives
    else {
        return None;
    };
    if *posted == 0 {
        return None;
    }
    receive.read(&RecvWqe::read(ring.slot(*first)), *max_sge);
    drop(retire(&srq.consumer, ring, first.wrapping_add(1)));
    let limit = srq.limit.load(Acquire);
    if limit != 0 && *posted - 1 < limit {
        // Once: the limit is to be set anew.
        srq.limit.store(0, Release);
        srq.limit_reached.store(1, Release);
        deferred.raised.push(Async::SrqLimit(index));
    }
    Some(())
}

/// Has the daemon take what a message to this queue pair may need. `None` if somebody else has
/// one of them.
pub(super) fn lock_ahead<'a>(actor: &Actor<'a>, qp: &'a Qp) -> Option<[Option<Guard<'a>>; 3]> {
    if !actor.is_daemon() {
        return Some([None, None, None]);
    }
    let recv = actor.lock(&qp.recv_lock)?;
    let index = qp.recv_cq.load(Acquire);
    let recv_cq = lock_cq(actor, index)?;
    // With the queue's lock taken, nothing more is staged.
    if !actor.drain_staged(index) {
        return None;
    }
    let srq = qp.srq.load(Acquire).checked_sub(1);
    let srq = match srq.and_then(|index| actor.arena.srqs.get(index as usize)) {
        Some(srq) => Some(actor.lock(&srq.lock)?),
        None => None,
    };
    Some([Some(recv), recv_cq, srq])
}

impl<'a> Responder<'a> {
    /// Locks a queue pair as responder; `None` if it cannot take requests of this type.
    #[inline]
    pub(super) fn lock(actor: &Actor<'a>, qp: &'a Qp, qpn: u32, kind: u32) -> Option<Self> {
        let guard = actor.lock(&qp.recv_lock)?;
        if qp.live.load(Acquire) != qpn
            || qp.qp_type.load(Acquire) != kind
            || !(state::RTR..=state::SQE).contains(&qp.state.load(Acquire))
        {
            return None;
        }
        let receives = match qp.srq.load(Acquire).checked_sub(1) {
            Some(srq) => Receives::Shared(srq),
            None => actor.arena.ring(&qp.rq).map_or(Receives::None, |ring| {
                let first = qp.rq_consumer.load(Acquire) & ring.mask();
                let mut posted = qp.rq_posted.load(Acquire).min(ring.mask());
                if posted < MAX_MESSAGES as u32 {
                    posted = ring.distance(first, ring.producer());
                }
                Receives::Own(ring, first, posted)
            }),
        };
        Some(Self { qp, owner: Owner::of(qp, qpn), receives, _guard: guard })
    }

    /// Checks whether the queue pair accepts requests that need these rights, bits of [`access`].
    pub(super) fn allow(&self, right: u32) -> Result<(), CheckError> {
        let allowed = self.qp.access.load(Acquire);
        if allowed & right != right {
            let [needed, allowed] = [right, allowed].map(AccessFlags::from_bits_retain);
            let cause = Cause::QpAccess { needed, allowed };
            return Err(CheckError::new(wc_status::REMOTE_REFUSES, cause));
        }
        if right & ANSWERED != 0 { self.check_resources() } else { Ok(()) }
    }

    /// Checks whether it can keep what it answers to requests that are not only acknowledged (IBTA
    /// volume 1, 9.7.4.1.2, responder resources).
    pub(super) fn check_resources(&self) -> Result<(), CheckError> {
        if self.qp.max_dest_rd_atomic.load(Acquire) == 0 {
            let cause = Cause::Malformed { why: Malformed::MaxDestRdAtomic };
            return Err(CheckError::new(wc_status::REMOTE_REFUSES, cause));
        }
        Ok(())
    }

    /// The location of memory that the peer names, if the queue pair and the key allow the access, one
    /// of [`access`]. The key of a message without bytes does not count.
    pub(super) fn reach(
        &self,
        arena: &Arena,
        right: u32,
        remote: RemoteWr,
        length: u64,
    ) -> Result<(Segment, Region), CheckError> {
        self.allow(right)?;
        if length == 0 {
            return Ok((Segment::default(), Region::NONE));
        }
        let RemoteWr { addr, rkey } = remote;
        self.owner.remote(arena, KeyedAccess { key: rkey, addr, length, access: right })
    }

    /// Whether the sender learns the fate of its messages.
    pub(super) fn is_reliable(&self) -> bool {
        self.qp.qp_type.load(Acquire) == qp_type::RC
    }

    /// Whether the receive work request that a write with immediate data consumes completes with an
    /// error if the write may not use its memory. The first packet names the memory, and the last
    /// one consumes the receive work request: only of a single packet both are known (IBTA
    /// 9.9.3.1.3).
    pub(super) fn is_receive_blamed(&self, kind: u32, length: u32) -> bool {
        kind == opcode::RDMA_WRITE_WITH_IMM
            && self.is_reliable()
            && length <= Mtu(self.qp.path_mtu.load(Acquire)).bytes()
    }

    /// On whose behalf the memory of a receive work request is used. One of a shared receive queue
    /// has that queue's protection domain, which may be another than the queue pair's (IBTA
    /// 10.2.3).
    pub(super) fn receive_owner(&self, arena: &Arena) -> Owner {
        let shared = match self.receives {
            Receives::Shared(index) => arena.srqs.get(index as usize),
            _ => None,
        };
        let pd = shared.map_or(self.owner.pd, |srq| srq.pd.load(Acquire));
        Owner { pd, ..self.owner }
    }

    /// Whether receive work requests come from a shared queue, which does not take them back.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self.receives, Receives::Shared(_))
    }

    /// Reads the receive work request behind the first `skip`; one of a shared queue is thereby
    /// consumed. False if there is none.
    pub(super) fn consume(
        &self,
        actor: &Actor<'a>,
        skip: u32,
        receive: &mut Receive,
        deferred: &mut Deferred,
    ) -> bool {
        if actor.is_traced() {
            posted::trace_receives(actor, self.qp, self.owner.qpn, Seen::AtMessage);
        }
        match &self.receives {
            Receives::Own(ring, first, posted) if skip < *posted => {
                let wqe = RecvWqe::read(ring.slot(first.wrapping_add(skip)));
                receive.read(&wqe, self.qp.max_recv_sge.load(Acquire));
                // The next one comes from the other processor while this one's bytes move.
                ring.slot(first.wrapping_add(skip + 1)).prefetch();
                true
            }
            Receives::Shared(index) => consume_shared(actor, *index, receive, deferred).is_some(),
            _ => false,
        }
    }

    /// The receives of the queue pair's own or shared queue, for messages that are looked at one by one before any of them
    /// is consumed. `None` if there are none, or more than that is to be done when they are consumed.
    #[inline]
    pub(super) fn plain_receives(&self, actor: &Actor<'a>) -> Option<PlainReceives<'a>> {
        match self.receives {
            Receives::Own(ring, first, posted) => {
                let max_sge = self.qp.max_recv_sge.load(Acquire);
                Some(PlainReceives {
                    ring,
                    first,
                    posted,
                    max_sge,
                    pd: self.owner.pd,
                    shared: None,
                })
            }
            Receives::Shared(index) => {
                let receives = PlainReceives::shared(actor, index)?;
                let (srq, _) = receives.shared.as_ref()?;
                (srq.limit.load(Acquire) == 0).then_some(receives)
            }
            Receives::None => None,
        }
    }

    /// Has the processor fetch what completing a receive will write, which the peer's processor
    /// has read last, so that nobody waits for it afterwards.
    pub(super) fn prefetch_receive_completion(&self, actor: &Actor<'_>) {
        if let Receives::Own(ring, ..) = &self.receives {
            ring.prefetch_consumer_for_writing();
        }
        completion::prefetch(actor.arena, self.qp.recv_cq.load(Acquire));
    }

    /// Gives the first `count` receives of the own queue back to the program; their completions
    /// come next.
    pub(super) fn retire(&mut self, count: u32) -> Option<Retiring<'a>> {
        let Receives::Own(ring, first, posted) = &mut self.receives else { return None };
        *first = ring.advance(*first, count);
        *posted -= count.min(*posted);
        self.qp.rq_posted.store(*posted, Release);
        Some(retire(&self.qp.rq_consumer, ring, *first))
    }

    /// Completes receives, which are being retired.
    pub(super) fn complete_receives<'m>(
        &self,
        actor: &Actor<'_>,
        received: impl IntoIterator<Item = &'m ReceiveCompletion>,
        retiring: Option<Retiring<'_>>,
        deferred: &mut Deferred,
    ) {
        let completions = received.into_iter().map(|received| {
            (received.cqe(self.owner.qpn), received.flags & send_flag::SOLICITED != 0)
        });
        completion::complete_all(
            actor,
            self.qp.recv_cq.load(Acquire),
            completions,
            None,
            retiring,
            deferred,
        );
    }

    /// Gives a receive work request back to its owner, unused. One of the own queue was never
    /// consumed.
    pub(super) fn give_back(&self, actor: &Actor<'_>, wr_id: u64, deferred: &mut Deferred) {
        let (status, cause) = (status::WR_FLUSH_ERR, Some(Cause::Flushed));
        self.complete_shared(actor, &FailedReceive { wr_id, status, cause }, deferred);
    }

    /// A message of an unreliable service is too long for its receive, and dropped. A receive of the
    /// own queue remains for the next message; one of a shared queue completes with an error, and
    /// the queue pair goes on (IBTA 9.9.3.1, classes D and E).
    pub(super) fn drop_message(
        &self,
        actor: &Actor<'_>,
        wr_id: u64,
        cause: Cause,
        deferred: &mut Deferred,
    ) {
        let (status, cause) = (wc_status::RECEIVE_TOO_SMALL, Some(cause));
        self.complete_shared(actor, &FailedReceive { wr_id, status, cause }, deferred);
    }

    /// Completes a receive work request with an error, if it was consumed from a shared queue.
    fn complete_shared(&self, actor: &Actor<'_>, failed: &FailedReceive, deferred: &mut Deferred) {
        if self.is_shared() {
            self.complete_failed(actor, failed, deferred);
        }
    }

    fn complete_failed(
        &self,
        actor: &Actor<'_>,
        FailedReceive { wr_id, status, cause }: &FailedReceive,
        deferred: &mut Deferred,
    ) {
        let cqe = Cqe::error(*wr_id, *status, self.owner.qpn);
        let cq = self.qp.recv_cq.load(Acquire);
        completion::complete_failed(actor, cq, cqe, cause.as_ref(), deferred);
    }

    /// The queue pair fails by a request that the peer gets a status for, and that has consumed no
    /// receive work request: an asynchronous event tells of it.
    pub(super) fn refuse(&mut self, actor: &Actor<'_>, status: u32, deferred: &mut Deferred) {
        deferred.raised.extend(wc_status::refusal_event(status, self.owner.qpn));
        self.fail(actor, None, deferred);
    }

    /// The queue pair fails: the given receive work request, at the head of the queue or consumed
    /// from a shared one, completes with an error of its own, all else is flushed.
    pub(super) fn fail(
        &mut self,
        actor: &Actor<'_>,
        receive: Option<&FailedReceive>,
        deferred: &mut Deferred,
    ) {
        let qpn = self.owner.qpn;
        set_error(self.qp, qpn, can_fail, deferred);
        if let Some(failed) = receive {
            let _retiring = self.retire(1);
            self.complete_failed(actor, failed, deferred);
        }
        flush::receive_ring(actor, self.qp, qpn, Posted::Before, deferred);
        deferred.failed_peers.push(qpn);
    }
}
