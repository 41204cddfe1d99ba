//! Completion queues of this process.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Acquire;

use soft_hca_core::arena::Mapping;

/// A completion queue as the arena knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Queue {
    /// Index in the arena.
    pub index: u32,
    /// Generation of the entry; 0 for none.
    pub generation: u32,
}

/// A completion queue as this process knows it.
#[derive(Debug)]
pub(crate) struct CqInfo {
    /// Its entry in the arena.
    pub queue: Queue,
    /// The program's name for it: the address of its `struct ibv_cq`.
    pub user_handle: u64,
    /// Whether its polls pass through [`hook`](crate::client::hook), once that was tried.
    pub is_hooked: OnceLock<bool>,
    /// Completion events that the program has read.
    pub events_read: AtomicU32,
}

impl CqInfo {
    /// A queue that was just created.
    pub(crate) fn new(queue: Queue, user_handle: u64) -> Self {
        Self { queue, user_handle, is_hooked: OnceLock::new(), events_read: AtomicU32::new(0) }
    }

    /// Index in the arena.
    pub(crate) fn index(&self) -> u32 {
        self.queue.index
    }

    /// Whether the entry still is this queue's.
    pub(crate) fn is_live(&self, arena: &Mapping) -> bool {
        arena.cqs[self.queue.index as usize].live.load(Acquire) == self.queue.generation
    }
}
