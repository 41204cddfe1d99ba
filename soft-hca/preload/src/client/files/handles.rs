//! The objects of a device file by their handles, as far as this process has to know them.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use crate::client::cq::CqInfo;
use crate::client::files::channel::Channel;

/// A completion queue, and the channel that it reports to.
pub(crate) type KnownCq = (Arc<CqInfo>, Option<Arc<Channel>>);

/// Queue pairs, completion queues and shared receive queues.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    /// Queue pair numbers, 0 for none.
    qps: RwLock<Vec<u32>>,
    cqs: RwLock<HashMap<u32, KnownCq>>,
    /// Indices in the arena.
    srqs: RwLock<HashMap<u32, u32>>,
}

impl Handles {
    /// A queue pair's number.
    pub(crate) fn qpn(&self, handle: u32) -> Option<u32> {
        self.qps().get(handle as usize).copied().filter(|qpn| *qpn != 0)
    }

    /// The numbers of all queue pairs; 0 is none's.
    pub(crate) fn qps(&self) -> RwLockReadGuard<'_, Vec<u32>> {
        self.qps.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a queue pair.
    pub(crate) fn add_qp(&self, handle: u32, qpn: u32) {
        let mut qps = self.qps.write().unwrap_or_else(PoisonError::into_inner);
        let handle = handle as usize;
        if qps.len() <= handle {
            qps.resize(handle + 1, 0);
        }
        qps[handle] = qpn;
    }

    /// Removes a queue pair, and gives its number.
    pub(crate) fn remove_qp(&self, handle: u32) -> Option<u32> {
        let mut qps = self.qps.write().unwrap_or_else(PoisonError::into_inner);
        let qpn = qps.get_mut(handle as usize).map(std::mem::take);
        qpn.filter(|qpn| *qpn != 0)
    }

    /// All completion queues. None is removed as long as the caller has this.
    pub(crate) fn cqs(&self) -> RwLockReadGuard<'_, HashMap<u32, KnownCq>> {
        self.cqs.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a completion queue.
    pub(crate) fn add_cq(&self, handle: u32, known: KnownCq) {
        self.cqs.write().unwrap_or_else(PoisonError::into_inner).insert(handle, known);
    }

    /// Removes a completion queue.
    pub(crate) fn remove_cq(&self, handle: u32) -> Option<KnownCq> {
        self.cqs.write().unwrap_or_else(PoisonError::into_inner).remove(&handle)
    }

    /// The index in the arena of a shared receive queue.
    pub(crate) fn srq(&self, handle: u32) -> Option<u32> {
        self.srqs.read().unwrap_or_else(PoisonError::into_inner).get(&handle).copied()
    }

    /// Enters a shared receive queue with an index in the arena.
    pub(crate) fn add_srq(&self, handle: u32, index: u32) {
        self.srqs.write().unwrap_or_else(PoisonError::into_inner).insert(handle, index);
    }

    /// Removes a shared receive queue, and gives its index in the arena.
    pub(crate) fn remove_srq(&self, handle: u32) -> Option<u32> {
        self.srqs.write().unwrap_or_else(PoisonError::into_inner).remove(&handle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_pairs_by_handles_in_any_order() {
        let handles = Handles::default();
        handles.add_qp(3, 0x13);
        handles.add_qp(1, 0x11);
        let qpns = |handles: &Handles| [0, 1, 2, 3, 4].map(|handle| handles.qpn(handle));
        assert_eq!(qpns(&handles), [None, Some(0x11), None, Some(0x13), None]);
        assert_eq!(
            [3, 3, 0, 9].map(|handle| handles.remove_qp(handle)),
            [Some(0x13), None, None, None]
        );
        handles.add_qp(3, 0x23);
        assert_eq!(qpns(&handles), [None, Some(0x11), None, Some(0x23), None]);
    }
}
