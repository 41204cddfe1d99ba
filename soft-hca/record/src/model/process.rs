//! Processes.

use std::collections::BTreeSet;

use super::memory::Written;
use super::writes::Writes;

/// A process.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// The program and its pid, such as `ping-sr-1-client[4711]`.
    pub name: String,
    /// When it has ended.
    pub ended: Option<u64>,
    /// It is stopped by a signal or a debugger; known of a fabric, not of a record.
    pub is_stopped: bool,
    /// All its threads sleep in the kernel; known of a fabric, not of a record.
    pub is_asleep: bool,
    /// Its posts and polls pass through the hook, and are on record.
    pub is_hooked: bool,
    /// When one of its queue pairs got a message last.
    pub last_message: Option<u64>,
    /// Descriptors of completion channels whose creation is on record.
    pub channels: BTreeSet<u32>,
    /// Memory that its posted receives may write to.
    pub written: Written,
    /// Writes of adapters to its memory.
    pub adapter_writes: Writes,
}
