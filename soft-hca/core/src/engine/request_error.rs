//! Why a send work request is not executed.

use soft_hca_verbs::cause::MemoryRole;

use crate::engine::check::CheckError;
use crate::engine::segments::Fault;

/// Why the request at the head of a send queue is not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RequestError {
    /// The peer has no receive; the code of the time it asks us to wait.
    ReceiverNotReady(u32),
    /// There is no peer, or it is in no state to answer.
    NoResponse,
    /// The completion queue with this index, ours or the peer's, is full.
    CqFull(u32),
    /// Somebody else has a lock that the daemon does not wait for.
    Busy,
    /// It may not begin before an RDMA read or atomic in flight is completed.
    Fenced,
    /// The link's thread executes it, and is notified.
    LeftToLink,
    /// It fails.
    Failed(CheckError),
}

impl RequestError {
    /// Bytes cannot be moved, for memory on this side.
    pub(super) fn unmoved(fault: Fault, side: MemoryRole) -> Self {
        match fault {
            Fault::Unreachable => Self::NoResponse,
            _ => CheckError::unmapped(side).into(),
        }
    }
}

impl From<CheckError> for RequestError {
    fn from(error: CheckError) -> Self {
        Self::Failed(error)
    }
}
