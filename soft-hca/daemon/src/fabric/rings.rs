//! Rings of queues: their memory.

use std::sync::atomic::Ordering::{Acquire, Release};

use soft_hca_core::arena::RingLocation;
use soft_hca_core::errno::{Errno, Refusal, Result, ensure};
use soft_hca_core::{engine, ring};

use super::{Fabric, GONE, RingOf};

impl Fabric {
    /// Creates a ring with room for `requested` entries and one more, which stays empty. It is
    /// nobody's yet.
    pub(crate) fn new_ring(&mut self, requested: u32, slot_bytes: u32) -> Result<RingLocation> {
        let place = self.new_untouched_ring(requested, slot_bytes)?;
        self.arena.ring(&place).expect("the heap lies in the arena").init_header();
        Ok(place)
    }

    /// The same without the sizes in its header, which the provider reads. It takes no memory until
    /// somebody uses it.
    pub(crate) fn new_untouched_ring(
        &mut self,
        requested: u32,
        slot_bytes: u32,
    ) -> Result<RingLocation> {
        const TOO_LARGE: Errno = Errno::EINVAL.because(Refusal::QueueTooLong);
        const NO_MEMORY: Errno = Errno::ENOMEM.because(Refusal::NoQueueMemory);
        let slots = requested.checked_add(1).and_then(u32::checked_next_power_of_two);
        let mask = slots.ok_or(TOO_LARGE)? - 1;
        let log2_slot = slot_bytes.max(64).next_power_of_two().trailing_zeros();
        let bytes = ring::bytes(mask, log2_slot).ok_or(TOO_LARGE)?;
        let offset = self.rings.heap.allocate(bytes).ok_or(NO_MEMORY)?;
        let place = RingLocation::default();
        place.offset.store(offset as u64, Release);
        place.mask.store(mask, Release);
        place.log2_slot.store(log2_slot, Release);
        Ok(place)
    }

    /// Gives an object, which has none, its ring.
    pub(crate) fn place_ring(&mut self, of: RingOf, place: RingLocation) {
        of.entry(&self.arena).copy_from(&place);
        self.rings.places.insert(of, place);
    }

    /// Gives a completion queue or shared receive queue a ring of another size, with what is unread
    /// in the old one; `EINVAL` if there is no room for that, `ERESTART` as [`Fabric::lock`]. Gives
    /// the new ring's place.
    pub(crate) fn resize_ring(
        &mut self,
        of: RingOf,
        requested: u32,
        slot_bytes: u32,
    ) -> Result<&RingLocation> {
        let place = self.new_ring(requested, slot_bytes)?;
        let moved = self.move_ring(of, &place);
        let unused = if moved.is_ok() { self.rings.places.insert(of, place) } else { Some(place) };
        if let Some(unused) = unused {
            self.release_ring(&unused);
        }
        moved.and_then(|()| self.rings.places.get(&of).ok_or(GONE))
    }

    /// Moves an object's unread entries to a new ring and makes that one the object's.
    fn move_ring(&self, of: RingOf, place: &RingLocation) -> Result<()> {
        let lock = match of {
            RingOf::Completions(index) => &self.arena.cqs[index].lock,
            RingOf::Shared(index) => &self.arena.srqs[index].lock,
            RingOf::Send(_) | RingOf::Receive(_) | RingOf::Eager(_) | RingOf::Snapshot(_) => {
                return Err(Errno::EINVAL.because(Refusal::QueueKeepsSize));
            }
        };
        let _guard = self.lock(lock)?;
        let old = self.rings.places.get(&of).and_then(|place| self.arena.ring(place));
        let (old, new) = old.zip(self.arena.ring(place)).ok_or(GONE)?;
        let room = match of {
            RingOf::Completions(_) => engine::cqe_of(new.mask()),
            _ => new.mask(),
        };
        let has_room = old.unread() <= room;
        ensure(has_room, Errno::EINVAL.because(Refusal::QueueHasMore))?;
        new.move_from(&old);
        match of {
            RingOf::Shared(index) => self.arena.srqs[index].consumer.store(0, Release),
            RingOf::Completions(index) => {
                self.arena.cqs[index].credits.store(0, Release);
                self.arena.cqs[index].overrun_from.store(0, Release);
            }
            RingOf::Send(_) | RingOf::Receive(_) | RingOf::Eager(_) | RingOf::Snapshot(_) => {}
        }
        of.entry(&self.arena).copy_from(place);
        Ok(())
    }

    /// Frees a ring's memory.
    pub(crate) fn release_ring(&mut self, place: &RingLocation) {
        let offset = place.offset.load(Acquire) as usize;
        let bytes = ring::bytes(place.mask.load(Acquire), place.log2_slot.load(Acquire));
        let bytes = bytes.expect("the place of a ring");
        self.env.punch_hole(self.arena.file(), offset, bytes);
        self.rings.heap.release(offset, bytes);
    }

    /// Frees an object's ring, if it has one. Its entry no longer names it.
    pub(crate) fn release_ring_of(&mut self, of: RingOf) {
        if let Some(place) = self.rings.places.remove(&of) {
            self.release_ring(&place);
        }
    }
}
