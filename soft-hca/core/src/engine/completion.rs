//! Completion queues: adding to them. `rxe_cq.c`.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use soft_hca_verbs::cause::Cause;
use soft_hca_verbs::{Failure, WcStatus};

use crate::arena::{Arena, Cq, Mapping};
use crate::engine::actor::Actor;
use crate::engine::asynchronous::Async;
use crate::engine::credit::{self, cqe_of, entries_of, may_overrun};
use crate::engine::cursor::Retiring;
use crate::engine::deferred::{Deferred, Wake};
use crate::engine::notification::{give_event, notify};
use crate::engine::strict_choice::{draws_of_failed, is_strict};
use crate::ring::Ring;
use crate::trace::cause;
use crate::trace::event::Completion;
use crate::uapi::rxe::Cqe;
use crate::uapi::verbs::{status, wc_flag, wc_opcode};

/// Has the processor fetch the slot of the next completion.
pub(super) fn prefetch(arena: &Mapping, cq: u32) {
    let Some(cq) = arena.cqs.get(cq as usize) else { return };
    if let Some(ring) = arena.ring(&cq.ring) {
        ring.slot(ring.producer()).prefetch_for_writing();
    }
}

/// The ring of a queue, unless the queue is gone.
#[inline]
fn live_ring<'a>(arena: &'a Mapping, cq: &Cq) -> Option<Ring<'a>> {
    if cq.live.load(Acquire) == 0 { None } else { arena.ring(&cq.ring) }
}

/// Adds the completion of a request that has failed, with the adapter's number of the failure.
pub(super) fn complete_failed(
    actor: &Actor<'_>,
    index: u32,
    cqe: Cqe,
    cause: Option<&Cause>,
    deferred: &mut Deferred,
) {
    let failure = Failure::of(WcStatus(cqe.status), cause);
    let vendor_err = vendor_err(actor, cqe.qp_num, failure);
    complete_all(actor, index, [(Cqe { vendor_err, ..cqe }, false)], cause, None, deferred);
}

/// The number that the adapter which a queue pair's device is like gives a failure; 0 if it gives none.
pub(super) fn vendor_err(actor: &Actor<'_>, qpn: u32, failure: Option<Failure>) -> u32 {
    let numbers = actor.arena.qp(qpn).zip(failure);
    numbers.map_or(0, |(qp, failure)| qp.vendor_errors[failure as usize].load(Acquire))
}

/// The completion of a request that has failed, as its program finds it. All fields but the request's name, the status
/// and the number of the queue pair are not valid (`ibv_poll_cq(3)`): a program that is run strictly finds in them
/// words that might be another completion's.
#[cold]
fn failed(arena: &Arena, cqe: Cqe) -> Cqe {
    const KINDS: [u32; 5] = [
        wc_opcode::SEND,
        wc_opcode::RDMA_WRITE,
        wc_opcode::RDMA_READ,
        wc_opcode::RECV,
        wc_opcode::RECV_RDMA_WITH_IMM,
    ];
    let Some(qp) = arena.qp(cqe.qp_num).filter(|qp| is_strict(qp)) else { return cqe };
    let Some(mut draws) = draws_of_failed(qp) else { return cqe };
    let mut choose = |limit| draws.below(limit) as u32;
    Cqe {
        opcode: KINDS[choose(KINDS.len() as u64) as usize],
        byte_len: choose(1 << 16),
        imm: choose(1 << 32),
        src_qp: choose(1 << 24),
        wc_flags: wc_flag::WITH_IMM,
        ..cqe
    }
}

/// Adds completions, with whether each is solicited, and the cause of all if they are errors.
/// They appear together: the index that the program polls is written once. In the next step
/// their requests have been retired. Waking is left for later; the caller may hold locks of
/// queue pairs.
///
/// One that is lost because the queue is full is an asynchronous event of the queue, and its
/// queue pair fails (`flush::fail_overrun`).
pub(super) fn complete_all(
    actor: &Actor<'_>,
    index: u32,
    completions: impl IntoIterator<Item = (Cqe, bool)>,
    cause: Option<&Cause>,
    retiring: Option<Retiring<'_>>,
    deferred: &mut Deferred,
) {
    let Some(cq) = actor.arena.cqs.get(index as usize) else { return };
    let Some(_guard) = actor.lock(&cq.lock) else { return };
    let Some(ring) = live_ring(actor.arena, cq) else { return };
    let first = ring.producer();
    let mut producer = first;
    let entries = cqe_of(ring.mask());
    let mut credits = cq.credits.load(Acquire).min(entries);
    let mut is_solicited = false;
    for (cqe, solicited) in completions {
        let mut is_lost = false;
        if credits == 0 {
            let unread = ring.distance(ring.consumer(), producer);
            credits = entries_of(cq, &ring).saturating_sub(unread);
            // No credit is reserved for an error, or for a request that has waited in vain.
            let is_sure = cqe.status == status::SUCCESS && !may_overrun(cq, &ring);
            is_lost = credits == 0 && (!is_sure || unread == ring.mask());
        }
        actor.trace(|env| {
            let event = Completion {
                wr_id: cqe.wr_id,
                cq: index,
                qpn: cqe.qp_num,
                opcode: cqe.opcode,
                status: cqe.status,
                length: cqe.byte_len,
                imm: cqe.imm,
                wc_flags: cqe.wc_flags,
                is_solicited: solicited.into(),
                is_lost: is_lost.into(),
            };
            let proc = cq.proc.load(Acquire);
            env.trace(proc, &event.into(), &cause::encode(cause));
        });
        if is_lost {
            if cq.overflows.fetch_add(1, AcqRel) == 0 {
                deferred.raised.push(Async::CqOverflow(index));
            }
            deferred.overrun.push(cqe.qp_num);
            continue;
        }
        let cqe = if cqe.status == status::SUCCESS { cqe } else { failed(actor.arena, cqe) };
        cqe.write(&ring.slot(producer));
        is_solicited |= solicited || cqe.status != status::SUCCESS;
        producer = ring.advance(producer, 1);
        credits = credits.saturating_sub(1);
    }
    if producer == first {
        return;
    }
    cq.credits.store(credits, Release);
    ring.set_producer(producer);
    drop(retiring);
    notify(actor, index, cq, is_solicited, deferred);
}

/// Completions of requests that have succeeded, which are being added to a queue whose lock is held, and which nobody
/// records. They appear together, when they are published.
pub(super) struct Addition<'a> {
    index: u32,
    cq: &'a Cq,
    ring: Ring<'a>,
    first: u32,
    producer: u32,
    /// Credits of before.
    credits: u32,
    /// Entries that are left, without those that others have reserved.
    room: u32,
    is_solicited: bool,
}

impl<'a> Addition<'a> {
    /// Begins; `None` if the queue is gone.
    #[inline]
    pub(super) fn begin(arena: &'a Mapping, (index, cq): (u32, &'a Cq)) -> Option<Self> {
        let ring = live_ring(arena, cq)?;
        let (credits, room) = credit::unreserved(cq, &ring);
        let first = ring.producer();
        Some(Self { index, cq, ring, first, producer: first, credits, room, is_solicited: false })
    }

    /// Whether another one has room.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.room > 0
    }

    /// Adds one. Where room was seen before the queue's lock was taken, and others have used it up, there are the slots
    /// beyond the queue's size: see [`credit`].
    #[inline]
    pub(super) fn add(&mut self, cqe: &Cqe, is_solicited: bool) {
        cqe.write(&self.ring.slot(self.producer));
        self.producer = self.ring.advance(self.producer, 1);
        self.room = self.room.saturating_sub(1);
        self.is_solicited |= is_solicited;
    }

    /// Has the program's polls find them. In the next step their requests have been retired. Gives the channel to be
    /// woken, if there is one, when no lock is held any more.
    #[inline]
    pub(super) fn publish(self, actor: &Actor<'_>, retiring: Option<Retiring<'_>>) -> Option<Wake> {
        let count = self.ring.distance(self.first, self.producer);
        self.cq.credits.store(self.credits.saturating_sub(count), Release);
        self.ring.set_producer(self.producer);
        drop(retiring);
        give_event(actor, (self.index, self.cq), self.is_solicited)
    }
}

/// Entries of a queue that are free and not reserved. They are seen, and not reserved: see [`Addition::add`].
#[inline]
pub(super) fn room(arena: &Mapping, cq: &Cq) -> Option<u32> {
    let ring = live_ring(arena, cq)?;
    Some(credit::unreserved(cq, &ring).1)
}
