//! Small sends that never enter the send queue: a program's own post executes them, if nothing is in the queue and nothing
//! is in the way.
//!
//! A plain send of a program whose peer is a process of the same fabric is checked, staged ([`eager`]) and
//! completed on both sides as any other. What is spared is the way through the provider's ring, the doorbell, and a batch.
//! Whatever is not plain is left to that way, before anything has changed: it finds out what is the matter, and says so.
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
use crate::engine::memory::{GATHER, SCATTER};
use crate::engine::request::{Requester, SendCompletion};
use crate::engine::responder::{MAX_MESSAGES, ReceiveCompletion, Responder};
use crate::engine::route::local_peer;
use crate::engine::segments::{Region, Segment};
use crate::engine::waiting::waits_for_peer;
use crate::engine::{completion, notification, own_memory, schedule};
use crate::uapi::rxe::Sge;
use crate::uapi::verbs::{access, opcode, qp_type, send_flag, state};

/// Flags of requests that may be executed at once. Where no read is in flight a fence has nothing to wait for.
const FLAGS: u32 =
    send_flag::SIGNALED | send_flag::SOLICITED | send_flag::INLINE | send_flag::FENCE;

/// A send that a program posts and that may be executed at once: one SGE, few bytes, `IBV_WR_SEND` or
/// `IBV_WR_SEND_WITH_IMM`.
#[derive(Clone, Copy, Debug)]
pub struct PlainSend(SendWr);

/// What a program says of a send.
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
    /// Its memory. The key does not count for inline data.
    pub sge: Sge,
}

impl PlainSend {
    /// A send with one SGE; `None` if it is none that may be executed at once.
    #[inline]
    pub fn new(wr: SendWr) -> Option<Self> {
        let is_plain = matches!(wr.opcode, opcode::SEND | opcode::SEND_WITH_IMM)
            && wr.flags & !FLAGS == 0
            && (1..=eager::MAX_BYTES).contains(&wr.sge.length.into());
        is_plain.then_some(Self(wr))
    }
}

/// Completions of sends that are staged.
type Done = ArrayVec<SendCompletion, MAX_MESSAGES>;

impl Actor<'_> {
    /// Executes the first of the sends that are about to be posted to a queue pair of this process, as far as nothing is
    /// in the way; gives how many. The others are to be posted, and the doorbell rung.
    #[inline]
    pub fn send_at_once(&self, qpn: u32, sends: impl Iterator<Item = PlainSend>) -> usize {
        let Some((count, wakes)) = execute(self, qpn, sends) else { return 0 };
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
    sends: impl Iterator<Item = PlainSend>,
) -> Option<(usize, [Option<Wake>; 2])> {
    // Most others are seen before anything is touched.
    let mut sends = sends.peekable();
    sends.peek()?;
    if actor.is_traced() || !own_memory::is_guarded() || actor.copier.registry().is_some() {
        return None;
    }
    let qp = actor.arena.qp(qpn)?;
    let peer = local_peer(actor.arena, qp)?;
    let recv_cq = peer.recv_cq.load(Acquire);
    // What will be written comes from the other processor while the rest is looked at.
    eager::prefetch(actor.arena, recv_cq);
    completion::prefetch(actor.arena, recv_cq);
    let _guard = actor.lock(&qp.send_lock)?;
    let requester = Requester::new(qp, qpn, send_ring(actor.arena, qp)?);
    let is_idle = requester.head() == requester.ring.producer()
        && requester.in_flight() == 0
        && qp.wait.load(Acquire) == 0;
    let is_ready = requester.kind == qp_type::RC
        && requester.owner.proc == actor.me
        && qp.state.load(Acquire) == state::RTS
        && qp.max_send_sge.load(Acquire) > 0;
    if !is_idle || !is_ready || schedule::is_put_off(actor, qp) {
        return None;
    }
    let mut responder = requester.responder(actor)?;
    if responder.owner.proc == actor.me || waits_for_peer(responder.qp) {
        return None;
    }
    let mut done = Done::new_const();
    let received = arrive(actor, &requester, &mut responder, (recv_cq, sends), &mut done)?;
    let sent = complete(actor, &requester, &done);
    Some((done.len(), [received, sent]))
}

/// Stages sends, and completes their receives; gives the channel to be woken.
#[inline]
fn arrive<'a>(
    actor: &Actor<'a>,
    requester: &Requester<'a>,
    responder: &mut Responder<'a>,
    (recv_cq, sends): (u32, impl Iterator<Item = PlainSend>),
    done: &mut Done,
) -> Option<Option<Wake>> {
    let cq: &'a Cq = actor.arena.cqs.get(recv_cq as usize)?;
    let _guard = actor.lock(&cq.lock)?;
    let mut staging = Staging::begin(actor, (recv_cq, cq), responder.owner.proc)?;
    let mut received = Addition::begin(actor.arena, (recv_cq, cq))?;
    let send_cq = actor.arena.cqs.get(requester.send_cq as usize)?;
    let mut room = completion::room(actor.arena, send_cq)?;
    for PlainSend(wr) in sends.take(MAX_MESSAGES) {
        let is_signaled = requester.is_signaled(wr.flags);
        if !received.has_room() || is_signaled && room == 0 {
            break;
        }
        let skip = done.len() as u32;
        let Some(completion) = stage(actor, requester, responder, &mut staging, (skip, &wr)) else {
            break;
        };
        let is_solicited = wr.flags & send_flag::SOLICITED != 0;
        received.add(&completion.cqe(responder.owner.qpn), is_solicited);
        room -= u32::from(is_signaled);
        let SendWr { wr_id, opcode, flags, .. } = wr;
        done.push(SendCompletion { wr_id, opcode, flags, length: wr.sge.length });
    }
    if done.is_empty() {
        return None;
    }
    let sizes = done.iter().map(|sent| (sent.opcode, sent.length, false));
    requester.count(Some(responder), sizes);
    staging.publish();
    Some(received.publish(actor, responder.retire(done.len() as u32)))
}

/// Stages a send for the receive behind the first `skip`, which completes with it.
#[inline]
fn stage<'a>(
    actor: &Actor<'a>,
    requester: &Requester<'a>,
    responder: &Responder<'a>,
    staging: &mut Staging<'a>,
    (skip, wr): (u32, &SendWr),
) -> Option<ReceiveCompletion> {
    let SendWr { opcode, flags, imm, sge, .. } = *wr;
    let length = sge.length;
    if length > requester.qp.max_message.load(Acquire) || !staging.has_room(length.into()) {
        return None;
    }
    let mut from = if flags & send_flag::INLINE != 0 {
        (length <= requester.qp.max_inline.load(Acquire)).then_some(sge.addr)?
    } else {
        let found = requester.owner.local(actor.arena, sge, GATHER, MemoryRole::Local);
        found.ok()?.0.addr
    };
    let (wr_id, room) = responder.plain_receive(skip)?;
    let (room, region) = receive_memory(actor, responder, room)?;
    if room.length < length.into() {
        return None;
    }
    let to = (Segment { length: length.into(), ..room }, region);
    let is_staged = staging.put(to, |to, bytes| {
        let is_copied = own_memory::copy(from, to, bytes);
        from = from.wrapping_add(bytes);
        is_copied
    });
    let completion = ReceiveCompletion { wr_id, opcode, flags, imm, length, ..Default::default() };
    is_staged.then_some(completion)
}

/// The memory of a receive, unless its pages come on demand, which both sides have to learn.
#[inline]
fn receive_memory(
    actor: &Actor<'_>,
    responder: &Responder<'_>,
    sge: Sge,
) -> Option<(Segment, Region)> {
    let owner = &responder.owner;
    let found = owner.local(actor.arena, sge, SCATTER, MemoryRole::Receive).ok()?;
    let region = actor.arena.mrs.get(found.1.index()?)?;
    (region.access.load(Acquire) & access::ON_DEMAND == 0).then_some(found)
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
