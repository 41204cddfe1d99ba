//! A receive queue of several queue pairs, with its memory: slots of one size.

use std::sync::Arc;

use crate::area::{Area, Mismatch, Segment, along};
use crate::error::Result;
use crate::pattern::Pattern;
use crate::plan::MAX_SHARED;
use crate::verbs::{Device, Region, Srq};

/// Each slot takes the longest message in two parts, with room around them.
const PARTS: [Segment; 2] =
    [Segment { offset: 29, length: 1000 }, Segment { offset: 1055, length: MAX_SHARED - 1000 }];
const SLOT: u32 = MAX_SHARED + 128;

/// A shared receive queue.
pub struct SharedReceives {
    srq: Srq,
    region: Region,
    background: Pattern,
}

impl SharedReceives {
    /// A queue with so many receives, all posted.
    pub fn new(device: &Arc<Device>, background: Pattern, receives: u32) -> Result<Self> {
        let region = Region::new(device, (receives * SLOT) as usize)?;
        let this = Self { srq: Srq::new(device, receives)?, region, background };
        for slot in 0..receives {
            this.slot(slot.into()).fill(&[]);
            this.post(slot.into())?;
        }
        Ok(this)
    }

    /// The queue itself.
    pub fn srq(&self) -> &Srq {
        &self.srq
    }

    fn slot(&self, slot: u64) -> Area<'_> {
        let cells = &self.region[slot as usize * SLOT as usize..][..SLOT as usize];
        Area { cells, background: self.background }
    }

    /// Posts a slot, whose number is the request's `wr_id`.
    pub fn post(&self, slot: u64) -> Result<()> {
        let start = slot as u32 * SLOT;
        let mut sges = PARTS.map(|part| self.region.sge(start + part.offset, part.length));
        self.srq.receive(slot, &mut sges)
    }

    /// Looks at a slot that was taken for a message, and clears it.
    pub fn received(
        &self,
        slot: u64,
        length: u32,
        text: Pattern,
    ) -> std::result::Result<(), Mismatch> {
        let slot = self.slot(slot);
        slot.check(&along(&PARTS, 0, length, text).collect::<Vec<_>>())?;
        slot.fill(&[]);
        Ok(())
    }
}
