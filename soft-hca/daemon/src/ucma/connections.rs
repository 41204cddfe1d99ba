//! Which id a message means: connections by what their ends are called.

use std::collections::{BTreeSet, HashMap};

use soft_hca_roce::wire::cm::CommId;

use super::comm_ids::CommIds;
use super::connection::Connection;
use super::host::Host;
use super::id::Key;
use super::peer::{RemoteId, RemoteQp};
use super::timer::{Due, TIME_WAIT_NS, Timers};

/// Requests in time wait, at most.
const MAX_TIMEWAIT: usize = 0x1_0000;

/// All connections of a fabric.
#[derive(Debug, Default)]
pub(super) struct Connections {
    comm_ids: CommIds,
    /// The ids that were made for requests.
    requests: HashMap<RemoteId, Key>,
    /// The queue pairs that other hosts have connected.
    queue_pairs: HashMap<RemoteQp, Key>,
    /// Requests whose connections are over: copies may still come.
    timewait: BTreeSet<RemoteId>,
}

impl Connections {
    /// Gives an id's connection its communication id.
    pub(super) fn name(&mut self, host: &mut dyn Host, key: Key) -> CommId {
        self.comm_ids.take(host, key)
    }

    /// The id whose connection this side calls so.
    pub(super) fn find(&self, comm_id: CommId) -> Option<Key> {
        self.comm_ids.find(comm_id)
    }

    /// An id was made for a request.
    pub(super) fn requested(&mut self, remote: RemoteId, key: Key) {
        self.requests.insert(remote, key);
    }

    /// The id that was made for a request.
    pub(super) fn asked_by(&self, remote: RemoteId) -> Option<Key> {
        self.requests.get(&remote).copied()
    }

    /// The id whose connection has another host's queue pair.
    pub(super) fn of_queue_pair(&self, remote_qp: RemoteQp) -> Option<Key> {
        self.queue_pairs.get(&remote_qp).copied()
    }

    /// An id's connection has another host's queue pair.
    pub(super) fn hold_queue_pair(&mut self, remote_qp: RemoteQp, key: Key) {
        self.queue_pairs.insert(remote_qp, key);
    }

    /// An id has gone: no message finds it any more. Copies of its request may still be on the way, and
    /// must not open a connection.
    pub(super) fn forget(
        &mut self,
        timers: &mut Timers,
        now_ns: u64,
        (key, is_datagram): (Key, bool),
        connection: &Connection,
    ) {
        let Connection { peer, local_id, remote_id: comm_id, state, remote_qp, .. } = *connection;
        self.comm_ids.give_back(local_id);
        let remote = RemoteId { peer, is_datagram, comm_id };
        // The number may be another request's by now.
        if self.asked_by(remote) == Some(key) {
            self.requests.remove(&remote);
            let is_full = self.timewait.len() >= MAX_TIMEWAIT;
            if state.has_been_connected() && peer.is_remote() && !is_full {
                self.timewait.insert(remote);
                timers.set(now_ns.saturating_add(TIME_WAIT_NS), Due::TimeWait(remote));
            }
        }
        // So may the queue pair.
        if let Some(remote_qp) = remote_qp.filter(|qp| self.of_queue_pair(*qp) == Some(key)) {
            self.queue_pairs.remove(&remote_qp);
        }
    }

    /// Whether a request's connection is over, and a copy of it may still come.
    pub(super) fn is_in_timewait(&self, remote: RemoteId) -> bool {
        self.timewait.contains(&remote)
    }

    /// No copy of a request comes any more.
    pub(super) fn timewait_over(&mut self, remote: RemoteId) {
        self.timewait.remove(&remote);
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn comm_ids(&self) -> usize {
        self.comm_ids.len()
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn timewaits(&self) -> usize {
        self.timewait.len()
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn requests(&self) -> impl Iterator<Item = (&RemoteId, Key)> {
        self.requests.iter().map(|(remote, key)| (remote, *key))
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn queue_pairs(&self) -> impl Iterator<Item = (RemoteQp, Key)> {
        self.queue_pairs.iter().map(|(remote_qp, key)| (*remote_qp, *key))
    }
}
