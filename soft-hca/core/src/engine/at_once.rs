//! Small sends that never enter the send queue: a program's own post executes them, if nothing is in the queue and nothing
//! is in the way.
//!
//! A plain send of a program whose peer is a process of the same fabric is checked, staged ([`eager`]) and
//! completed on both sides as any other; it does without the provider's ring, the doorbell, and a batch.
//! All else is left to that way, before anything has changed: it finds out what is the matter, and says so.
//!
//! Others find no difference: the queue's indices stand where they were, as after requests that are executed at once, and
//! its lock is held meanwhile.

use std::sync::atomic::Ordering::Acquire;

use arrayvec::ArrayVec;
use soft_hca_verbs::cause::MemoryRole;

use crate::arena::Cq;
use crate::engine::actor::Actor;
use crate::engine::completion::Addition;
use crate::engine::cursor::send_ring;
use crate::engine::deferred::Wake;
use crate::engine::eager::{self, Staging};
use crate::engine::memory::{GATHER, Owner, SCATTER};
use crate::engine::own_memory::Stream;
use crate::engine::request::{Requester, SendCompletion};
use crate::engine::responder::{MAX_MESSAGES, PlainReceives, ReceiveCompletion, Responder};
use crate::engine::route::local_peer;
use crate::engine::segments::{Region, Segment};
use crate::engine::waiting::waits_for_peer;
use crate::engine::{completion, notification, own_memory, schedule};
use crate::uapi::rxe::Sge;
use crate::uapi::verbs::{opcode, qp_type, send_flag, state};

/// Flags of requests that may be executed at once. Where no read is in flight a fence has nothing to wait for.
const FLAGS: u32 =
    send_flag::SIGNALED | send_flag::SOLICITED | send_flag::INLINE | send_flag::FENCE;

/// SGEs that a request has which is executed at once: those of UCX have a header and data.
pub const MAX_PLAIN_SGES: usize = 2;

/// A send that a program posts and that may be executed at once: few SGEs, few bytes, `IBV_WR_SEND` or
/// `IBV_WR_SEND_WITH_IMM`.
#[derive(Clone, Copy, Debug)]
pub struct PlainSend {
    wr: SendWr,
    /// Bytes of the message.
    length: u32,
}

/// A send as its program describes it.
#[derive(Clone, Copy, Debug)]
pub struct SendWr {
    /// The program's name for it.
    pub wr_id: u64,
    /// One of [`opcode`].
    pub opcode: u32,
    /// Bits of [`send_flag`].
    pub flags: u32,
    /// Immediate data as the program gave it.
    pub imm: u32,
    /// SGEs that it has.
    pub num_sge: u32,
    /// Its memory; SGEs that it has not got are empty. Keys do not count for inline data.
    pub sges: [Sge; MAX_PLAIN_SGES],
}

impl PlainSend {
    /// A send; `None` if it is none that may be executed at once.
    #[inline]
    pub fn new(wr: SendWr) -> Option<Self> {
        let length = wr.sges.iter().map(|sge| u64::from(sge.length)).sum();
        let is_plain = matches!(wr.opcode, opcode::SEND | opcode::SEND_WITH_IMM)
            && wr.flags & !FLAGS == 0
            && (1..=eager::MAX_BYTES).contains(&length);
        is_plain.then_some(Self { wr, length: length as u32 })
    }
}

/// Completions of sends that are staged.
type Done = ArrayVec<SendCompletion, MAX_MESSAGES>;

impl Actor<'_> {
    /// Executes the first of the sends that are about to be posted to a queue pair of this process, as far as nothing is
    /// in the way; gives how many. The others are to be posted, and the doorbell rung.
    #[inline]
    pub fn send_at_once(&self, qpn: u32, mut sends: impl Iterator<Item = PlainSend>) -> usize {
        // Most others are seen before anything is touched.
        let Some(first) = sends.next() else { return 0 };
        let Some((count, wakes)) = execute(self, qpn, first, sends) else { return 0 };
        wakes.into_iter().flatten().for_each(|wake| notification::wake(self, wake));
        count
    }
}

/// Executes sends: how many, and channels that are to be woken. `None`, and nothing has happened, if something is in the
/// way of the first.
#[inline]
fn execute(
    actor: &Actor<'_>,
    qpn: u32,
    first: PlainSend,
    others: impl Iterator<Item = PlainSend>,
) -> Option<(usize, [Option<Wake>; 2])> {
    if actor.is_traced() || !own_memory::is_guarded() || actor.copier.registry().is_some() {
        return None;
    }
    let qp = actor.arena.qp(qpn)?;
    let peer = local_peer(actor.arena, qp)?;
    let recv_cq = peer.recv_cq.load(Acquire);
    // Lines that will be written come from the other processor while the rest is looked at.
    eager::prefetch(actor.arena, recv_cq);
    completion::prefetch(actor.arena, recv_cq);
    let _guard = actor.lock(&qp.send_lock)?;
    let requester = Requester::new(qp, qpn, send_ring(actor.arena, qp)?);
    let is_idle = requester.head() == requester.ring.producer()
        && requester.in_flight() == 0
        && qp.wait.load(Acquire) == 0;
    let is_ready = requester.kind == qp_type::RC
        && requester.owner.proc == actor.me
        && qp.state.load(Acquire) == state::RTS;
    if !is_idle || !is_ready || schedule::is_put_off(actor, qp) {
        return None;
    }
    let mut responder = requester.responder(actor)?;
    if responder.owner.proc == actor.me || waits_for_peer(responder.qp) {
        return None;
    }
    let receives = responder.plain_receives(actor)?;
    let mut done = Done::new_const();
    let (queues, sends) = ((recv_cq, receives), (first, others));
    let received = arrive(actor, &requester, &mut responder, queues, sends, &mut done)?;
    let sent = complete(actor, &requester, &done);
    Some((done.len(), [received, sent]))
}

/// Stages sends, and completes their receives; gives the channel to be woken.
#[inline]
fn arrive<'a>(
    actor: &Actor<'a>,
    requester: &Requester<'a>,
    responder: &mut Responder<'a>,
    (recv_cq, receives): (u32, PlainReceives<'a>),
    (first, mut others): (PlainSend, impl Iterator<Item = PlainSend>),
    done: &mut Done,
) -> Option<Option<Wake>> {
    let cq: &'a Cq = actor.arena.cqs.get(recv_cq as usize)?;
    let _guard = actor.lock(&cq.lock)?;
    let mut staging = Staging::begin(actor, (recv_cq, cq), responder.owner.proc)?;
    let mut received = Addition::begin(actor.arena, (recv_cq, cq))?;
    let send_cq = actor.arena.cqs.get(requester.send_cq as usize)?;
    let mut room = completion::room(actor.arena, send_cq)?;
    let to = Owner { pd: receives.pd(), ..responder.owner };
    let mut next = Some(first);
    while let Some(send) = next.filter(|_| !done.is_full()) {
        let PlainSend { wr, length } = &send;
        let is_signaled = requester.is_signaled(wr.flags);
        if !received.has_room() || is_signaled && room == 0 {
            break;
        }
        let Some((wr_id, sge)) = receives.get(done.len() as u32) else { break };
        if !stage(actor, requester, &mut staging, &send, (&to, sge)) {
            break;
        }
        let (&SendWr { opcode, flags, imm, .. }, length) = (wr, *length);
        let completion =
            ReceiveCompletion { wr_id, opcode, flags, imm, length, ..Default::default() };
        let is_solicited = wr.flags & send_flag::SOLICITED != 0;
        received.add(&completion.cqe(responder.owner.qpn), is_solicited);
        room -= u32::from(is_signaled);
        done.push(SendCompletion { wr_id: wr.wr_id, opcode, flags, length });
        next = others.next();
    }
    if done.is_empty() {
        return None;
    }
    let sizes = done.iter().map(|sent| (sent.opcode, sent.length, false));
    requester.count(Some(responder), sizes);
    staging.publish();
    let retiring = receives.retire(responder, done.len() as u32);
    Some(received.publish(actor, retiring))
}

/// Stages a send for a receive with one SGE. False if something is in the way.
#[inline]
fn stage(
    actor: &Actor<'_>,
    requester: &Requester<'_>,
    staging: &mut Staging<'_>,
    PlainSend { wr, length }: &PlainSend,
    (owner, room): (&Owner, Sge),
) -> bool {
    let (is_inline, qp) = (wr.flags & send_flag::INLINE != 0, requester.qp);
    let limit = if is_inline { &qp.max_inline } else { &qp.max_message };
    let length = u64::from(*length);
    let is_within = length <= limit.load(Acquire).into()
        && wr.num_sge <= qp.max_send_sge.load(Acquire)
        && staging.has_room(length);
    if !is_within {
        return false;
    }
    let Some((room, region)) = receive_memory(actor, owner, room) else { return false };
    let mut from = [Segment::default(); MAX_PLAIN_SGES];
    for (segment, sge) in from.iter_mut().zip(wr.sges).take(wr.num_sge as usize) {
        let Some(found) = send_memory(actor, requester, is_inline, sge) else { return false };
        *segment = found;
    }
    let to = (Segment { length, ..room }, region);
    let mut stream = Stream::of(&from);
    room.length >= length && staging.put(to, |to, bytes| stream.copy_to(to, bytes))
}

/// The memory of an SGE of a send, if it may be used.
#[inline]
fn send_memory(
    actor: &Actor<'_>,
    requester: &Requester<'_>,
    is_inline: bool,
    sge: Sge,
) -> Option<Segment> {
    if is_inline || sge.length == 0 {
        return Some(Segment { addr: sge.addr, length: sge.length.into() });
    }
    let found = requester.owner.local(actor.arena, sge, GATHER, MemoryRole::Local);
    found.ok().map(|(segment, _)| segment)
}

/// The memory of a receive, unless its pages come on demand.
#[inline]
fn receive_memory(actor: &Actor<'_>, owner: &Owner, sge: Sge) -> Option<(Segment, Region)> {
    let found = owner.local(actor.arena, sge, SCATTER, MemoryRole::Receive).ok()?;
    (!eager::is_on_demand(actor.arena, found.1)).then_some(found)
}

/// Completes sends that have arrived; gives the channel to be woken.
#[inline]
fn complete(actor: &Actor<'_>, requester: &Requester<'_>, done: &Done) -> Option<Wake> {
    let index = requester.send_cq;
    let mut signaled = done.iter().filter(|sent| requester.is_signaled(sent.flags)).peekable();
    signaled.peek()?;
    let cq = actor.arena.cqs.get(index as usize)?;
    let _guard = actor.lock(&cq.lock)?;
    let mut sent = Addition::begin(actor.arena, (index, cq))?;
    signaled.for_each(|done| sent.add(&done.cqe(requester.qpn), false));
    sent.publish(actor, None)
}
