//! Small sends without a system call: the sender leaves the payload in the arena, and the receiver's
//! own poll takes it to the memory of the receive work request.
//!
//! All else is as with other sends: the sender has checked keys and bounds, consumes the receive
//! work request and adds both completions. A poll of the receiver's completion queue finds the
//! completion, and before the program gets to see it moves all payloads that are staged for that
//! queue: a payload is staged before its completion is added, so a poll that sees the one finds the
//! other.
//!
//! The receiver has to be a program whose polls pass through the preloaded library ([`Cq::polls_eager`]).
//! A payload is also moved, by the first process that comes,
//!
//! - before another request of a peer, which goes straight to the receiver's memory: requests of a
//!   queue pair take effect in order (IBTA volume 1, 10.8.3);
//! - after each command of its owner that may have ended a receive work request or a memory region:
//!   from then on the memory is the program's again. Such a command looks only at queues that are
//!   listed ([`listed`]).
//!
//! The ring has one producer, which holds the queue's lock, and one consumer, which holds
//! [`Cq::eager_lock`]. An entry begins with the address it is for, and has its bytes behind that, in
//! the same slot or, if there are more, in those that follow.
//!
//! [`Cq::polls_eager`]: crate::arena::Cq::polls_eager
//! [`Cq::eager_lock`]: crate::arena::Cq::eager_lock

use std::sync::atomic::Ordering::{Acquire, Release};

use crate::arena::{Arena, Cq, Mapping};
use crate::engine::actor::Actor;
use crate::engine::listed::{self, CqSet};
use crate::engine::memory::may_be_written;
use crate::engine::own_memory::{self, Stream};
use crate::engine::segments::{Fault, Memory, Region, Segment};
use crate::engine::staging::{Indices, free_slots, is_waiting, move_all};
use crate::ring::Ring;
use crate::uapi::verbs::access;

/// Slots of a queue's ring for payloads, of [`EAGER_SLOT_BYTES`] each. One stays empty.
pub const EAGER_SLOTS: u32 = 1024;
/// Bytes of a slot.
pub const EAGER_SLOT_BYTES: u32 = 64;
const SLOT_BYTES: usize = EAGER_SLOT_BYTES as usize;
/// Bytes that are worth to be copied twice for one system call less, of a stretch of memory.
pub(super) const MAX_BYTES: u64 = 8 << 10;

/// Offsets in an entry's first slot: the address, how many bytes, the region + 1.
const ADDR: usize = 0;
const LENGTH: usize = 8;
const REGION: usize = 12;
const PAYLOAD: usize = 16;

/// Bytes of payload that fit into the first slot.
const FIRST_SLOT_CAPACITY: u64 = (SLOT_BYTES - PAYLOAD) as u64;

/// Slots of an entry with so many bytes.
#[inline]
fn slots_of(length: u64) -> u64 {
    if length <= FIRST_SLOT_CAPACITY { 1 } else { 1 + length.div_ceil(SLOT_BYTES as u64) }
}

impl Indices for Ring<'_> {
    fn mask(&self) -> u32 {
        self.mask()
    }

    fn producer(&self) -> u32 {
        self.producer()
    }

    fn consumer(&self) -> u32 {
        self.consumer()
    }

    fn set_consumer(&self, index: u32) {
        self.set_consumer(index);
    }
}

/// The addresses of an entry's bytes, in this process.
#[inline(always)]
fn payload_addresses(ring: &Ring<'_>, index: u32, length: u64) -> Option<[(u64, usize); 2]> {
    if length <= FIRST_SLOT_CAPACITY {
        let slot = ring.slot(index).address(PAYLOAD, length as usize)?;
        return Some([(slot, length as usize), (0, 0)]);
    }
    ring.stretches(index.wrapping_add(1), length as usize)
}

impl Actor<'_> {
    /// This generation of a completion queue is polled so that payloads may be staged for it.
    pub fn poll_eagerly(&self, index: u32, generation: u32) {
        let cq = self.arena.cqs.get(index as usize);
        if let Some(cq) = cq.filter(|cq| cq.live.load(Acquire) == generation) {
            cq.polls_eager.store(generation, Release);
        }
    }

    /// Whether this generation of a completion queue is polled so that payloads may be staged for it.
    pub fn is_polled_eagerly(&self, index: u32, generation: u32) -> bool {
        let cq = self.arena.cqs.get(index as usize);
        cq.is_some_and(|cq| cq.polls_eager.load(Acquire) == generation)
    }

    /// Whether a poll of a completion queue of this process finds nothing, as its provider sees it. If it finds something,
    /// the processor fetches what is read next, all at once.
    #[inline]
    pub fn finds_nothing(&self, index: u32) -> bool {
        let Some(cq) = self.arena.cqs.get(index as usize) else { return false };
        let Some(ring) = self.arena.ring(&cq.ring) else { return false };
        let consumer = ring.consumer();
        if ring.producer() == consumer {
            return true;
        }
        ring.slot(consumer).prefetch();
        if let Some(staged) = ring_of_queue(self.arena, cq) {
            staged.slot(staged.consumer()).prefetch();
            staged.prefetch_producer();
        }
        false
    }

    /// A receive of a queue pair of this process has completed, and the program is likely to post another one: has the
    /// processor fetch what the provider writes and reads then, which the peer's has used last.
    #[inline]
    pub fn expect_receive(&self, qpn: u32) {
        let qp = self.arena.qp(qpn).filter(|qp| qp.srq.load(Acquire) == 0);
        if let Some(ring) = qp.and_then(|qp| self.arena.ring(&qp.rq)) {
            ring.slot(ring.producer()).prefetch_for_writing();
            ring.prefetch_consumer();
        }
    }

    /// Moves all payloads that are staged for a completion queue to where they belong. False if the
    /// daemon is to come back: somebody else is at it.
    pub fn drain_staged(&self, index: u32) -> bool {
        let Some((cq, ring)) = ring_of(self.arena, index) else { return true };
        // Comes at the same time as the other side's index.
        ring.slot(ring.consumer()).prefetch();
        if !is_waiting(&ring) {
            return true;
        }
        let Some(_guard) = self.lock(&cq.eager_lock) else { return false };
        let proc = cq.proc.load(Acquire) as usize;
        move_all(&ring, |index, filled| {
            let slot = ring.slot(index);
            let segment = Segment { addr: slot.u64(ADDR), length: slot.u32(LENGTH).into() };
            let region = Region::from_word(slot.u32(REGION));
            let slots = u32::try_from(slots_of(segment.length)).ok();
            let slots = slots.filter(|slots| *slots <= filled)?;
            if may_be_written(self.arena, proc, (segment, region)) {
                move_staged(self, &ring, index, proc, (segment, region));
            }
            Some(slots)
        });
        true
    }

    /// Moves all payloads that are staged for these queues of this process to where they belong.
    /// Returns the number of queues that it has looked at.
    pub fn drain_all_staged(&self, queues: &CqSet) -> usize {
        let mut looked_at = 0;
        for (index, generation) in listed::among(self.arena, queues) {
            looked_at += 1;
            let cq = self.arena.cqs.get(index as usize);
            if let Some(cq) = cq.filter(|cq| cq.live.load(Acquire) == generation) {
                self.drain_staged(index);
                listed::remove(self, index, cq, || has_staged(self.arena, index));
            }
        }
        looked_at
    }
}

/// The ring of payloads of a completion queue whose owner polls for them.
fn ring_of<'a>(arena: &'a Mapping, index: u32) -> Option<(&'a Cq, Ring<'a>)> {
    let cq = arena.cqs.get(index as usize)?;
    Some((cq, ring_of_queue(arena, cq)?))
}

#[inline]
fn ring_of_queue<'a>(arena: &'a Mapping, cq: &Cq) -> Option<Ring<'a>> {
    if cq.polls_eager.load(Acquire) == 0 {
        return None;
    }
    arena.ring(&cq.eager).filter(|ring| ring.slot_bytes() == SLOT_BYTES)
}

/// Brings payloads to the memory of receive work requests, which complete in this queue, or has
/// the receiver's poll do that.
pub(super) fn stage_or_move(
    actor: &Actor<'_>,
    cq: u32,
    from: Memory<'_>,
    to: Memory<'_>,
) -> Result<(), Fault> {
    stage(actor, cq, from, to).unwrap_or_else(|| {
        actor.drain_staged(cq);
        actor.copy(from, to)
    })
}

/// Stages payloads for the receiver's poll: `from` is our own memory, `to` the receiver's, and
/// `index` is its receive completion queue. `None` if they have to be moved at once.
fn stage(
    actor: &Actor<'_>,
    index: u32,
    from: Memory<'_>,
    to: Memory<'_>,
) -> Option<Result<(), Fault>> {
    let (cq, _) = ring_of(actor.arena, index)?;
    let is_ours = from.proc == actor.me && to.proc != actor.me && !actor.is_daemon();
    // A process whose polls are its own is not guarded against memory that is not there.
    if !is_ours || !own_memory::is_guarded() {
        return None;
    }
    let is_small = to.segments.iter().all(|segment| segment.length <= MAX_BYTES);
    let is_on_demand = |index| is_on_demand(actor.arena, to.region(index));
    if !is_small || (0..to.segments.len()).any(is_on_demand) {
        return None;
    }
    let needed: u64 = to.segments.iter().map(|segment| slots_of(segment.length)).sum();
    let _guard = actor.lock(&cq.lock)?;
    let mut staging = Staging::begin(actor, (index, cq), to.proc)?;
    if !staging.has_slots(needed) {
        return None;
    }
    let _in_use = match actor.copier.registry() {
        None => None,
        Some(registry) => match registry.hold(actor.me, from, false) {
            None => return Some(Err(Fault::Source)),
            in_use => in_use,
        },
    };
    let mut stream = Stream::of(from.segments);
    for (index, segment) in to.segments.iter().enumerate() {
        if !staging.put((*segment, to.region(index)), |to, bytes| stream.copy_to(to, bytes)) {
            return Some(Err(Fault::Source));
        }
    }
    staging.publish();
    Some(Ok(()))
}

/// Payloads that are being staged for a completion queue, whose lock is held. Nobody sees them before they are
/// published.
pub(super) struct Staging<'a> {
    cq: &'a Cq,
    ring: Ring<'a>,
    producer: u32,
    /// Slots that were free for sure.
    free: u32,
    /// Those of them that are not free any more.
    used: u64,
}

impl<'a> Staging<'a> {
    /// Begins, if payloads may be staged for the queue with an index, which is a process's.
    #[inline]
    pub(super) fn begin(
        actor: &Actor<'a>,
        (index, cq): (u32, &'a Cq),
        proc: usize,
    ) -> Option<Self> {
        let ring = ring_of_queue(actor.arena, cq)?;
        if cq.live.load(Acquire) == 0 || cq.proc.load(Acquire) as usize != proc {
            return None;
        }
        listed::add(actor.arena, index, cq);
        let producer = ring.producer();
        Some(Self { cq, ring, producer, free: cq.eager_free.load(Acquire), used: 0 })
    }

    /// Whether there are so many slots more.
    #[inline]
    fn has_slots(&mut self, needed: u64) -> bool {
        let free = free_slots(&self.ring, self.free, needed + self.used);
        self.free = free.unwrap_or(self.free);
        free.is_some()
    }

    /// Whether there is room for so many bytes more.
    #[inline]
    pub(super) fn has_room(&mut self, length: u64) -> bool {
        self.has_slots(slots_of(length))
    }

    /// Stages a payload, for which there is room, for memory in a region, by a function that copies so many of its next bytes to an address of
    /// this process. False if that fails.
    #[inline]
    pub(super) fn put(
        &mut self,
        (to, region): (Segment, Region),
        mut copy: impl FnMut(u64, u64) -> bool,
    ) -> bool {
        let slot = self.ring.slot(self.producer);
        slot.set_u64(ADDR, to.addr);
        slot.set_u32(LENGTH, to.length as u32);
        slot.set_u32(REGION, region.to_word());
        let Some(addresses) = payload_addresses(&self.ring, self.producer, to.length) else {
            return false;
        };
        for (address, bytes) in addresses {
            if bytes > 0 && !copy(address, bytes as u64) {
                return false;
            }
        }
        let slots = slots_of(to.length);
        self.producer = self.ring.advance(self.producer, slots as u32);
        self.used += slots;
        true
    }

    /// Has the receiver's poll find them.
    #[inline]
    pub(super) fn publish(self) {
        self.cq.eager_free.store(self.free - self.used as u32, Release);
        self.ring.set_producer(self.producer);
    }
}

/// Whether a region has on-demand paging. Its memory may not be there, and both sides have to learn so.
#[inline]
pub(super) fn is_on_demand(arena: &Arena, region: Region) -> bool {
    let mr = region.index().and_then(|index| arena.mrs.get(index));
    mr.is_some_and(|mr| mr.access.load(Acquire) & access::ON_DEMAND != 0)
}

/// Has the processor fetch what staging a payload will write, which the peer's has read last.
pub(super) fn prefetch(arena: &Mapping, cq: u32) {
    if let Some((_, ring)) = ring_of(arena, cq) {
        ring.prefetch_producer_for_writing();
        ring.slot(ring.producer()).prefetch_for_writing();
    }
}

/// Whether payloads are staged for a completion queue.
pub(super) fn has_staged(arena: &Mapping, index: u32) -> bool {
    ring_of(arena, index).is_some_and(|(_, ring)| is_waiting(&ring))
}

/// Moves an entry's bytes to where they belong. If that is not there any more, they are lost, as
/// what an adapter writes to pages that a program has unmapped.
#[inline]
fn move_staged(
    actor: &Actor<'_>,
    ring: &Ring<'_>,
    index: u32,
    proc: usize,
    (to, region): (Segment, Region),
) {
    let Some(addresses) = payload_addresses(ring, index, to.length) else { return };
    let is_direct = proc == actor.me && actor.copier.registry().is_none();
    let mut addr = to.addr;
    for (address, bytes) in addresses {
        let length = bytes as u64;
        if length > 0 && !(is_direct && own_memory::copy(address, addr, length)) {
            let (from, to) = ([Segment { addr: address, length }], [Segment { addr, length }]);
            let from = Memory::unregistered(actor.me, &from);
            let to = Memory { proc, segments: &to, regions: &[region] };
            let _ = actor.copy(from, to);
        }
        addr = addr.wrapping_add(length);
    }
}
