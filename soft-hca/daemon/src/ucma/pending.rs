//! Requests that have come before anybody listens for them.

use std::collections::BTreeMap;

use super::peer::RemoteId;
use super::timer::{Due, LISTENER_NS, Timers};
use super::wire::{Ends, Envelope};

/// A request that waits.
#[derive(Debug)]
struct PendingRequest {
    until_ns: u64,
    envelope: Envelope,
}

/// How many may wait: as many as there can be ids.
const MAX_PENDING: usize = 0x1_0000;
/// How many may wait if one more comes from another host, where anybody may send them.
pub(super) const MAX_PENDING_REMOTE: usize = 1024;

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Pending(BTreeMap<RemoteId, PendingRequest>);

impl Pending {
    /// Keeps a request for [`LISTENER_NS`]; false if too many wait. A copy of the request changes nothing.
    pub(super) fn keep(
        &mut self,
        timers: &mut Timers,
        now_ns: u64,
        remote: RemoteId,
        envelope: &Envelope,
    ) -> bool {
        if self.0.contains_key(&remote) {
            return true;
        }
        let most = if remote.peer.is_remote() { MAX_PENDING_REMOTE } else { MAX_PENDING };
        if self.0.len() >= most {
            return false;
        }
        let until_ns = now_ns.saturating_add(LISTENER_NS);
        timers.set(until_ns, Due::PendingRequest(remote));
        self.0.insert(remote, PendingRequest { until_ns, envelope: envelope.clone() });
        true
    }

    /// Takes a request that waits.
    pub(super) fn take(&mut self, timers: &mut Timers, remote: RemoteId) -> Option<Envelope> {
        let PendingRequest { until_ns, envelope } = self.0.remove(&remote)?;
        timers.cancel(until_ns, Due::PendingRequest(remote));
        Some(envelope)
    }

    /// The requests between ends that `is_meant` picks, the one that waits longest first.
    pub(super) fn of(&self, is_meant: impl Fn(Ends) -> bool) -> Vec<RemoteId> {
        let found =
            self.0.iter().filter(|(_, pending)| pending.envelope.ends.is_some_and(&is_meant));
        let mut found: Vec<_> =
            found.map(|(remote, pending)| (pending.until_ns, *remote)).collect();
        found.sort_unstable();
        found.into_iter().map(|(_, remote)| remote).collect()
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn requests(&self) -> impl ExactSizeIterator<Item = &RemoteId> {
        self.0.keys()
    }
}
