//! Work requests that were posted, as they are traced. A doorbell says that there are sends; of
//! receives nobody does, unless the program's calls pass through the preloaded library: else they are
//! found when their process makes a call, or a message is about to take one.

use std::cell::LazyCell;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use arrayvec::ArrayVec;
use zerocopy::IntoBytes;

use crate::arena::{Ah, Arena, Qp, RingLocation};
use crate::engine::actor::Actor;
use crate::engine::address;
use crate::engine::cursor::{SendCursors, send_ring};
use crate::engine::memory::Owner;
use crate::engine::traced;
use crate::ring::Ring;
use crate::trace::event::{ReceivePosted, Seen, SendPosted, TracedSge};
use crate::uapi::rxe::{AtomicWr, MAX_SGE, Origin, RecvWqe, SendWqe, Sge};
use crate::uapi::verbs::{opcode, qp_type, send_flag};

/// A queue that a program posts receives to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReceiveQueue {
    /// The one of the queue pair with a number.
    Own(u32),
    /// A shared one, by its index in the arena.
    Shared(u32),
}

/// A queue's receives, and how far they are traced.
struct Queue<'a> {
    ring: &'a RingLocation,
    consumer: &'a AtomicU32,
    traced: &'a AtomicU32,
    proc: &'a AtomicU32,
    /// Of the queue pair, or the shared queue's index.
    number: u32,
    is_shared: bool,
}

impl<'a> Queue<'a> {
    fn own(qp: &'a Qp, qpn: u32) -> Self {
        let (ring, consumer, traced) = (&qp.rq, &qp.rq_consumer, &qp.seen_receives);
        Self { ring, consumer, traced, proc: &qp.proc, number: qpn, is_shared: false }
    }
}

/// The slots of a ring that are in use and were not traced: first one and how many. They count as
/// traced from now on.
fn untraced(ring: &Ring<'_>, consumer: u32, seen: &AtomicU32) -> (u32, u32) {
    let consumer = consumer & ring.mask();
    // Before the producer, which somebody else may move on, and trace that.
    let mut before = seen.load(Acquire);
    loop {
        let producer = ring.producer();
        let posted = ring.distance(consumer, producer);
        let first = before & ring.mask();
        // Nobody may have recorded so far.
        let first = if ring.distance(consumer, first) <= posted { first } else { consumer };
        match seen.compare_exchange(before, producer, AcqRel, Acquire) {
            Ok(_) => return (first, ring.distance(first, producer)),
            // Somebody else traces at this moment, perhaps not all.
            Err(now) => before = now,
        }
    }
}

fn sges(count: usize, sge: impl Fn(usize) -> Sge) -> ArrayVec<TracedSge, MAX_SGE> {
    (0..count.min(MAX_SGE)).map(|index| sge(index).into()).collect()
}

/// The target that an operation of a type of queue pair names beyond its list.
fn target(wqe: &SendWqe<'_>, kind: u32) -> SendPosted {
    let none = SendPosted::default();
    match wqe.opcode {
        _ if kind == qp_type::UD => {
            let target = wqe.datagram();
            SendPosted { dest_qpn: target.qpn, qkey: target.qkey, ..none }
        }
        opcode::ATOMIC_CMP_AND_SWP | opcode::ATOMIC_FETCH_AND_ADD => {
            let AtomicWr { remote, compare_add, swap } = wqe.atomic();
            SendPosted { address: remote.addr, rkey: remote.rkey, compare_add, swap, ..none }
        }
        opcode::FLUSH => {
            let flush = wqe.flush();
            SendPosted {
                address: flush.remote.addr,
                rkey: flush.remote.rkey,
                compare_add: flush.placement.into(),
                swap: flush.selectivity.into(),
                ..none
            }
        }
        opcode::BIND_MW => {
            let bind = wqe.bind();
            SendPosted { address: bind.addr, rkey: bind.new_rkey, compare_add: bind.length, ..none }
        }
        _ => {
            let remote = wqe.remote();
            SendPosted { address: remote.addr, rkey: remote.rkey, ..none }
        }
    }
}

impl Actor<'_> {
    /// Shows `each` the sends of a queue pair with their SGEs that were posted since the last time. `seen` is the
    /// caller's, 0 at the first time, and moves on.
    pub fn posted_since(
        &self,
        qpn: u32,
        seen: &AtomicU32,
        mut each: impl FnMut(&SendPosted, &[TracedSge]),
    ) {
        let Some(qp) = self.arena.qp(qpn) else { return };
        let Some(ring) = send_ring(self.arena, qp) else { return };
        let (first, count) = untraced(&ring, SendCursors::of(qp, &ring).completed, seen);
        for index in 0..count {
            let wqe = SendWqe::read(ring.slot(first.wrapping_add(index)));
            let (event, list) = send_posted(self.arena, qp, qpn, &wqe);
            each(&event, &list);
        }
    }

    /// Says where and when the posted requests of a queue pair come from which are not executed yet, and of which a peer
    /// wants to know: the number that `place` finds of [`Arena::places`], 0 if there is none, and a
    /// [moment](Origin::moment) of this process. Those of which it was said keep theirs.
    pub fn set_origins(&self, qpn: u32, moment: u32, place: impl FnOnce() -> u32) {
        let Some(qp) = self.arena.qp(qpn) else { return };
        let Some(ring) = send_ring(self.arena, qp) else { return };
        if traced::who_wants_operations(self.arena, qp).is_none() {
            return;
        }
        let first = SendCursors::of(qp, &ring).next;
        let place = LazyCell::new(place);
        let posted = (0..ring.distance(first, ring.producer()))
            .map(|index| SendWqe::read(ring.slot(first.wrapping_add(index))));
        for wqe in posted.filter(|wqe| traced::concerns_peer(wqe) && wqe.origin().is_none()) {
            // Of a message nobody asks where it was posted.
            let place = if traced::operation(&wqe).is_some() { *place } else { 0 };
            wqe.set_origin(Origin { place, moment });
        }
    }

    /// Traces what was posted to a queue of this process: at a time if that is known, or before.
    #[cold]
    pub fn trace_posted_receives(&self, queue: ReceiveQueue, t: Option<u64>) {
        let seen = if t.is_some() { Seen::AtPost } else { Seen::AtCall };
        match queue {
            ReceiveQueue::Own(qpn) => {
                if let Some(qp) = self.arena.qp(qpn) {
                    trace_queue(self, &Queue::own(qp, qpn), seen, t);
                }
            }
            ReceiveQueue::Shared(index) => trace_shared(self, index, seen, t),
        }
    }

    /// Traces what was posted to queue pairs of this process: it makes a call.
    #[cold]
    pub fn trace_posted_to(&self, qpns: impl IntoIterator<Item = u32>) {
        for qpn in qpns {
            if let Some(qp) = self.arena.qp(qpn) {
                trace_receives(self, qp, qpn, Seen::AtCall);
            }
        }
    }
}

/// Traces what is in a queue pair's queues and was not traced yet: for its own process.
#[cold]
pub(super) fn trace_all(actor: &Actor<'_>, qp: &Qp, qpn: u32) {
    trace_receives(actor, qp, qpn, Seen::AtCall);
    trace_sends(actor, qp, qpn);
}

/// Traces the sends of a queue pair that were not traced yet. A send may be executed by another process, which
/// serves an earlier doorbell, before its own process rings one for it.
#[cold]
pub(super) fn trace_sends(actor: &Actor<'_>, qp: &Qp, qpn: u32) {
    let Some(ring) = send_ring(actor.arena, qp) else { return };
    let (first, count) = untraced(&ring, SendCursors::of(qp, &ring).completed, &qp.seen_sends);
    for index in 0..count {
        let wqe = SendWqe::read(ring.slot(first.wrapping_add(index)));
        actor.trace(|env| {
            let (event, list) = send_posted(actor.arena, qp, qpn, &wqe);
            let proc = qp.proc.load(Acquire);
            if proc as usize == actor.me {
                env.send_posted(&event, &list);
            }
            env.trace(proc, &event.into(), list.as_bytes());
        });
    }
}

fn send_posted(
    arena: &Arena,
    qp: &Qp,
    qpn: u32,
    wqe: &SendWqe<'_>,
) -> (SendPosted, ArrayVec<TracedSge, MAX_SGE>) {
    let kind = qp.qp_type.load(Acquire);
    let is_local = matches!(wqe.opcode, opcode::LOCAL_INV | opcode::BIND_MW);
    let has_list = wqe.flags & send_flag::INLINE == 0
        && !matches!(wqe.opcode, opcode::ATOMIC_WRITE | opcode::FLUSH)
        && !is_local;
    let count = if has_list { (wqe.num_sge as usize).min(wqe.max_sges()) } else { 0 };
    let target = target(wqe, kind);
    let is_datagram = kind == qp_type::UD;
    let ah = is_datagram.then(|| address::find(arena, &Owner::of(qp, qpn), wqe)).flatten();
    let gid = |ah: &Ah| std::array::from_fn(|index| ah.dgid[index].load(Acquire));
    let is_write = wqe.opcode == opcode::ATOMIC_WRITE;
    let event = SendPosted {
        wr_id: wqe.wr_id,
        qpn,
        qp_type: kind,
        opcode: wqe.opcode,
        flags: wqe.flags,
        imm: wqe.imm,
        length: wqe.length(),
        dgid: ah.map_or([0; 16], gid),
        swap: if is_write { wqe.atomic_write_data() } else { target.swap },
        ..target
    };
    (event, sges(count, |index| wqe.sge(index)))
}

/// Traces the receives that a queue pair may use and that were not traced yet.
#[cold]
pub(super) fn trace_receives(actor: &Actor<'_>, qp: &Qp, qpn: u32, seen: Seen) {
    match qp.srq.load(Acquire).checked_sub(1) {
        None => trace_queue(actor, &Queue::own(qp, qpn), seen, None),
        Some(index) => trace_shared(actor, index, seen, None),
    }
}

fn trace_shared(actor: &Actor<'_>, index: u32, seen: Seen, t: Option<u64>) {
    if let Some(srq) = actor.arena.srqs.get(index as usize) {
        let (ring, consumer, proc) = (&srq.ring, &srq.consumer, &srq.proc);
        let traced = &srq.seen_receives;
        let queue = Queue { ring, consumer, traced, proc, number: index, is_shared: true };
        trace_queue(actor, &queue, seen, t);
    }
}

/// Traces what is in a queue and was not traced yet, as posted at a time if that is known.
fn trace_queue(actor: &Actor<'_>, queue: &Queue<'_>, seen: Seen, t: Option<u64>) {
    let Some(ring) = actor.arena.ring(queue.ring) else { return };
    let (first, count) = untraced(&ring, queue.consumer.load(Acquire), queue.traced);
    for index in 0..count {
        let wqe = RecvWqe::read(ring.slot(first.wrapping_add(index)));
        actor.trace(|env| {
            let event = ReceivePosted {
                wr_id: wqe.wr_id,
                queue: queue.number,
                is_shared: queue.is_shared.into(),
                seen: seen as u32,
            };
            let count = (wqe.num_sge as usize).min(wqe.max_sges());
            let list = sges(count, |index| wqe.sge(index));
            let (proc, event) = (queue.proc.load(Acquire), event.into());
            match t {
                Some(t) => env.trace_at(t, proc, &event, list.as_bytes()),
                None => env.trace(proc, &event, list.as_bytes()),
            }
        });
    }
}
