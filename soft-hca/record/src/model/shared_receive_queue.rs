//! Shared receive queues.

use super::queue_pair::Capacity;
use super::receives::Receives;
use crate::arguments::number;
use crate::value::Named;

/// A shared receive queue.
#[derive(Clone, Debug, Default)]
pub struct SharedReceiveQueue {
    /// Its process.
    pub process: u32,
    /// Its creation is on record.
    pub is_whole: bool,
    /// Its capacity for receives.
    pub requested: Capacity,
    /// Its receives.
    pub receives: Receives,
}

impl SharedReceiveQueue {
    /// One that was created by a call with these arguments.
    pub(super) fn new(process: u32, args: &[Named]) -> Self {
        let of = |name| number(args, name).unwrap_or(u64::MAX);
        let (recv_wr, recv_sge) = (of("max_wr"), of("max_sge"));
        let requested = Capacity { recv_wr, recv_sge, ..Capacity::default() };
        Self { process, is_whole: true, requested, ..Self::default() }
    }
}
