//! Receive work requests: which memory a message goes into.

use arrayvec::ArrayVec;
use serde::{Deserialize, Serialize};
use soft_hca_verbs::cause::{Cause, Malformed, MemoryRole};

use crate::arena::Arena;
use crate::engine::check::CheckError;
use crate::engine::memory::{Owner, SCATTER};
use crate::engine::segments::{Segment, SegmentList};
use crate::engine::wc_status;
use crate::uapi::rxe::{MAX_SGE, RecvWqe, Sge};

/// A receive work request, copied out of its slot: that of a shared queue is the program's again as
/// soon as it is consumed.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Receive {
    /// The program's name for it.
    pub wr_id: u64,
    sges: ArrayVec<Sge, MAX_SGE>,
    /// It has more SGEs than it may have.
    is_malformed: bool,
}

/// Why a message does not go into a receive work request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReceiveError {
    /// Too small for the message.
    Small {
        /// Bytes of the message, as far as it is known.
        length: u64,
        /// Bytes of the receive.
        capacity: u64,
    },
    /// It has more SGEs than it may have.
    Malformed,
    /// Its memory may not be used.
    Memory(CheckError),
}

impl ReceiveError {
    /// The status of the receive work request.
    pub(super) fn status(&self) -> u32 {
        match self {
            Self::Small { .. } => wc_status::RECEIVE_TOO_SMALL,
            Self::Malformed => wc_status::RECEIVE_MALFORMED,
            Self::Memory(error) => error.status(),
        }
    }

    /// The status that a reliable sender gets.
    pub(super) fn requester_status(&self) -> u32 {
        match self {
            Self::Small { .. } => wc_status::TOO_LONG_FOR_RECEIVE,
            Self::Malformed | Self::Memory(_) => wc_status::REMOTE_RECEIVE,
        }
    }

    /// The check that has failed. `grh` bytes of the message are the header of a datagram.
    pub(super) fn cause(&self, grh: u64) -> Cause {
        match *self {
            Self::Small { length, capacity } => {
                Cause::ReceiveTooSmall { length, room: capacity, grh }
            }
            Self::Malformed => Cause::Malformed { why: Malformed::MaxRecvSge },
            Self::Memory(ref error) => error.cause(),
        }
    }
}

impl Receive {
    /// None yet. Capacity that is not used costs nothing.
    pub(super) fn new() -> Self {
        Self { wr_id: 0, sges: ArrayVec::new_const(), is_malformed: false }
    }

    /// Makes it the one in a slot, which may have `max_sge` SGEs.
    pub(super) fn read(&mut self, wqe: &RecvWqe<'_>, max_sge: u32) {
        let count = wqe.num_sge as usize;
        self.wr_id = wqe.wr_id;
        self.is_malformed = count > (max_sge as usize).min(wqe.max_sges()).min(MAX_SGE);
        self.sges.clear();
        if !self.is_malformed {
            self.sges.extend((0..count).map(|index| wqe.sge(index)));
        }
    }

    /// Lists where `length` bytes of a message go that come behind its first `skip`. Only SGEs
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
        for sge in &self.sges {
            if rest == 0 {
                break;
            }
            let capacity = u64::from(sge.length);
            if capacity <= skip {
                skip -= capacity;
                continue;
            }
            let found = owner.local(arena, *sge, SCATTER, MemoryRole::Receive);
            let (segment, region) = found.map_err(ReceiveError::Memory)?;
            let length = rest.min(capacity - skip);
            out.push(Segment { addr: segment.addr + skip, length }, region);
            rest -= length;
            skip = 0;
        }
        if rest > 0 {
            return Err(self.too_small(skip + rest));
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn too_small(&self, beyond: u64) -> ReceiveError {
        let capacity: u64 = self.sges.iter().map(|sge| u64::from(sge.length)).sum();
        ReceiveError::Small { length: capacity + beyond, capacity }
    }
}
