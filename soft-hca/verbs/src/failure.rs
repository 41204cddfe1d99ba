//! Failures that adapters tell apart by a number of their own, the `vendor_err` of a completion.

use serde::{Deserialize, Serialize};

use crate::WcStatus;
use crate::cause::{Cause, MemoryRole};

/// A way in which a work request fails, as far as adapters were measured to have a number for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// An SGE of a send is longer than its region.
    LocalBounds,
    /// An SGE of a send names a region that does not exist.
    LocalKey,
    /// An SGE of a send names a region without the right that is needed: the answer of a read goes where nothing may
    /// be written.
    LocalAccess,
    /// Posted to a queue pair that was in the error state already.
    PostedInError,
    /// The peer says that it cannot do this.
    RemoteRequest,
    /// The peer's memory may not be used so.
    RemoteAccess,
    /// The peer had no receive, until the retries were exhausted.
    RnrRetries,
    /// No answer came, until the retries were exhausted.
    Retries,
}

impl Failure {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::LocalBounds,
        Self::LocalKey,
        Self::LocalAccess,
        Self::PostedInError,
        Self::RemoteRequest,
        Self::RemoteAccess,
        Self::RnrRetries,
        Self::Retries,
    ];

    /// The failure of a completion with a status, for a cause, where that is one of these. When a request that is flushed
    /// was posted, they do not tell.
    pub fn of(status: WcStatus, cause: Option<&Cause>) -> Option<Self> {
        let local = match cause {
            Some(Cause::Bounds { memory: MemoryRole::Local, .. }) => Some(Self::LocalBounds),
            Some(Cause::Key { memory: MemoryRole::Local, .. }) => Some(Self::LocalKey),
            Some(Cause::Access { memory: MemoryRole::Local, .. }) => Some(Self::LocalAccess),
            _ => None,
        };
        match status {
            WcStatus::LOC_PROT_ERR => local,
            WcStatus::REM_INV_REQ_ERR => Some(Self::RemoteRequest),
            WcStatus::REM_ACCESS_ERR => Some(Self::RemoteAccess),
            WcStatus::RNR_RETRY_EXC_ERR => Some(Self::RnrRetries),
            WcStatus::RETRY_EXC_ERR => Some(Self::Retries),
            _ => None,
        }
    }

    /// The status of its completions.
    pub const fn status(self) -> WcStatus {
        match self {
            Self::LocalBounds | Self::LocalKey | Self::LocalAccess => WcStatus::LOC_PROT_ERR,
            Self::PostedInError => WcStatus::WR_FLUSH_ERR,
            Self::RemoteRequest => WcStatus::REM_INV_REQ_ERR,
            Self::RemoteAccess => WcStatus::REM_ACCESS_ERR,
            Self::RnrRetries => WcStatus::RNR_RETRY_EXC_ERR,
            Self::Retries => WcStatus::RETRY_EXC_ERR,
        }
    }
}

/// The `vendor_err` of each [`Failure`] on an adapter, in the order of [`Failure::ALL`]; 0 where none is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VendorErrors(pub [u32; Failure::ALL.len()]);

impl VendorErrors {
    /// Sets the number of a failure.
    pub const fn set(&mut self, failure: Failure, number: u32) {
        self.0[failure as usize] = number;
    }

    /// The number of a failure.
    pub const fn get(self, failure: Failure) -> u32 {
        self.0[failure as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_has_a_number_of_its_own() {
        let mut numbers = VendorErrors::default();
        for (at, failure) in Failure::ALL.into_iter().enumerate() {
            assert_eq!(numbers.get(failure), 0);
            numbers.set(failure, 0x1_0000 + at as u32);
        }
        numbers.set(Failure::LocalKey, 7);
        let numbers = Failure::ALL.map(|failure| numbers.get(failure) & 0xffff);
        assert_eq!(numbers, [0, 7, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn a_failure_has_the_status_that_it_is_known_by() {
        let key = |memory| Cause::Key { memory, key: 5 };
        let of = Failure::of;
        let local = Some(Failure::LocalKey);
        assert_eq!(of(WcStatus::LOC_PROT_ERR, Some(&key(MemoryRole::Local))), local);
        // Of a receive nothing was measured.
        assert_eq!(of(WcStatus::LOC_PROT_ERR, Some(&key(MemoryRole::Receive))), None);
        assert_eq!(of(WcStatus::WR_FLUSH_ERR, Some(&Cause::Flushed)), None);
        for failure in Failure::ALL.into_iter().skip(4) {
            assert_eq!(of(failure.status(), None), Some(failure));
        }
    }
}
