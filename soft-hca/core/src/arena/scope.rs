//! The extent of a recording.

use serde::{Deserialize, Serialize};
use zerocopy::{TryFromBytes, try_transmute};

/// The events of a fabric that are traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, TryFromBytes)]
#[repr(u32)]
pub enum Scope {
    /// All that happens.
    All = 0,
    /// Failures, and what is needed to explain them.
    Failures = 1,
    /// All that happens, and what can be seen of it only by looking: which sends' buffers have changed before their
    /// completions were polled, and who waits for an RDMA write that is held back.
    Buffers = 2,
}

impl Scope {
    /// The one that has a number.
    pub fn of(number: u32) -> Option<Self> {
        try_transmute!(number).ok()
    }
}
