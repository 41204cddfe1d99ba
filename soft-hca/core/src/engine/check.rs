//! A check that has failed, on its way to the completion of its work request.

use soft_hca_verbs::cause::{Cause, Malformed, MemoryRole};

use crate::engine::wc_status;
use crate::uapi::verbs::status;

/// Which status a failed check leads to, and what it has compared. In a box: a result of what succeeds
/// is not to be as large.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CheckError(Box<(u32, Cause)>);

impl CheckError {
    #[cold]
    #[inline(never)]
    pub(super) fn new(status: u32, cause: Cause) -> Self {
        Self(Box::new((status, cause)))
    }

    /// A work request that makes no sense.
    #[cold]
    pub(super) fn malformed(why: Malformed) -> Self {
        Self::new(wc_status::MALFORMED, Cause::Malformed { why })
    }

    /// Memory that may not be used; its status is that of the side that has named it.
    #[cold]
    pub(super) fn memory(memory: MemoryRole, cause: Cause) -> Self {
        let status = match memory {
            MemoryRole::Local => wc_status::LOCAL_MEMORY,
            MemoryRole::Receive => wc_status::RECEIVE_MEMORY,
            MemoryRole::Remote => wc_status::REMOTE_MEMORY,
            MemoryRole::Bound => status::MW_BIND_ERR,
        };
        Self::new(status, cause)
    }

    /// Memory that is registered and not there.
    #[cold]
    pub(super) fn unmapped(memory: MemoryRole) -> Self {
        Self::memory(memory, Cause::Unmapped { memory })
    }

    /// `enum ibv_wc_status`
    pub(super) fn status(&self) -> u32 {
        self.0.0
    }

    /// The check, with the values.
    pub(super) fn cause(&self) -> Cause {
        self.0.1
    }
}
