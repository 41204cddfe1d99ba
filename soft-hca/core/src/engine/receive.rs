//! Receives: which memory a message goes into.

use arrayvec::ArrayVec;

use crate::arena::Arena;
use crate::engine::cause::{Cause, Place, Senseless};
use crate::engine::memory::{Owner, SCATTER, Wanted};
use crate::engine::segments::{Segment, SegmentList};
use crate::engine::wc_status;
use crate::uapi::rxe::{MAX_SGE, RecvWqe, Sge};

/// A receive, copied out of its slot: that of a shared queue is the program's again as soon as it
/// is taken.
#[derive(Debug)]
pub(super) struct Receive {
    /// The program's name for it.
    pub wr_id: u64,
    elements: ArrayVec<Sge, MAX_SGE>,
    /// It has more elements than it may have.
    is_malformed: bool,
}

/// What a receive cannot take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReceiveError {
    /// Too small for the message.
    Small,
    /// It has more elements than it may have.
    Malformed,
    /// Its memory may not be used.
    Memory,
}

impl ReceiveError {
    /// The receive's own status.
    pub(super) fn status(self) -> u32 {
        match self {
            Self::Small => wc_status::RECEIVE_TOO_SMALL,
            Self::Malformed => wc_status::RECEIVE_MALFORMED,
            Self::Memory => wc_status::RECEIVE_MEMORY,
        }
    }

    /// The status that a reliable sender gets.
    pub(super) fn requester_status(self) -> u32 {
        match self {
            Self::Small => wc_status::TOO_LONG_FOR_RECEIVE,
            Self::Malformed | Self::Memory => wc_status::REMOTE_RECEIVE,
        }
    }
}

impl Receive {
    /// None yet. Room that is not used costs nothing.
    pub(super) fn new() -> Self {
        Self { wr_id: 0, elements: ArrayVec::new_const(), is_malformed: false }
    }

    /// Makes it the one in a slot, which may have `max_sge` elements.
    pub(super) fn read(&mut self, wqe: &RecvWqe<'_>, max_sge: u32) {
        let count = wqe.num_sge as usize;
        self.wr_id = wqe.wr_id;
        self.is_malformed = count > (max_sge as usize).min(wqe.room()).min(MAX_SGE);
        self.elements.clear();
        if !self.is_malformed {
            self.elements.extend((0..count).map(|index| wqe.sge(index)));
        }
    }

    /// Why a message of `length` bytes does not go into it.
    #[cold]
    pub(super) fn why_not(
        &self,
        arena: &Arena,
        owner: &Owner,
        error: ReceiveError,
        length: u64,
    ) -> Cause {
        if self.is_malformed {
            return Cause::Malformed(Senseless::ReceiveElements);
        }
        if error == ReceiveError::Small {
            let room = self.elements.iter().map(|sge| u64::from(sge.length)).sum();
            return Cause::Small { length, room, grh: 0 };
        }
        let elements = self.elements.iter().filter(|sge| sge.length > 0);
        let mut bad = elements.filter(|sge| owner.local(arena, **sge, SCATTER).is_none());
        bad.next().map_or(Cause::Unmapped { place: Place::Receive }, |sge| {
            let (addr, length) = (sge.addr, sge.length.into());
            let wanted = Wanted { key: sge.lkey, addr, length, access: SCATTER };
            owner.why_not(arena, wanted, Place::Receive)
        })
    }

    /// Lists where `length` bytes of a message go that come behind its first `skip`. Only elements
    /// that these are for are checked.
    pub(super) fn scatter(
        &self,
        arena: &Arena,
        owner: &Owner,
        mut skip: u64,
        length: u64,
        out: &mut SegmentList,
    ) -> Result<(), ReceiveError> {
        if self.is_malformed {
            return Err(ReceiveError::Malformed);
        }
        let mut rest = length;
        for sge in &self.elements {
            if rest == 0 {
                break;
            }
            let room = u64::from(sge.length);
            if room <= skip {
                skip -= room;
                continue;
            }
            let wanted = owner.local(arena, *sge, SCATTER);
            let (segment, region) = wanted.ok_or(ReceiveError::Memory)?;
            let length = rest.min(room - skip);
            out.push(Segment { addr: segment.addr + skip, length }, region);
            rest -= length;
            skip = 0;
        }
        if rest == 0 { Ok(()) } else { Err(ReceiveError::Small) }
    }
}
