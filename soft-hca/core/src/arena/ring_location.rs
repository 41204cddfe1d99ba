//! Places of rings in the arena.

use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::arena::entry::{Field, Word};

/// Where a ring lies. The ring's own header, which programs can write, is never trusted.
#[repr(C)]
#[derive(Debug, Default)]
pub struct RingLocation {
    /// Bytes from the arena's start to the ring's header.
    pub offset: AtomicU64,
    /// Slots minus 1; slots are a power of two.
    pub mask: AtomicU32,
    /// Size of a slot as a power of two.
    pub log2_slot: AtomicU32,
}

impl Field for RingLocation {
    fn reset(&self) {
        self.copy_from(&Self::default());
    }

    fn words(&self) -> Vec<Word<'_>> {
        vec![Word::Long(&self.offset), Word::Word(&self.mask), Word::Word(&self.log2_slot)]
    }
}

impl RingLocation {
    /// Makes this the place of the ring that `other` names.
    pub fn copy_from(&self, other: &Self) {
        self.offset.store(other.offset.load(Acquire), Release);
        self.mask.store(other.mask.load(Acquire), Release);
        self.log2_slot.store(other.log2_slot.load(Acquire), Release);
    }
}
