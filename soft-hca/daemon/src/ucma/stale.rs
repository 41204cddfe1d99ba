//! Connections of the past that a host asks for or answers with again: it has begun anew, or its
//! message was long on the way (`cm_match_req`, `cm_rep_handler`).

use std::net::IpAddr;

use soft_hca_roce::wire::bth::Qpn;

use super::connection::ConnectionState;
use super::id::Key;
use super::peer::{Peer, RemoteId};
use super::timer::{Due, TIME_WAIT_NS};
use super::{Cm, Cx};

/// A queue pair of another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct RemoteQp {
    address: IpAddr,
    ca_guid: u64,
    qpn: Qpn,
}

/// Requests in time wait, at most.
const MAX_TIMEWAIT: usize = 0x1_0000;

impl RemoteQp {
    /// `None` for a queue pair of this machine, which tells of its end itself.
    pub(super) fn new(peer: Peer, ca_guid: u64, qpn: Qpn) -> Option<Self> {
        match peer {
            Peer::Local => None,
            Peer::Remote { address, .. } => Some(Self { address, ca_guid, qpn }),
        }
    }
}

impl ConnectionState {
    /// Whether there is, or was, a connection.
    pub(super) fn has_been_connected(self) -> bool {
        matches!(self, Self::Established | Self::DreqSent | Self::DreqReceived | Self::TimeWait)
    }
}

impl Cm {
    /// The connection that still has a queue pair which begins another one.
    fn stale(&self, remote_qp: RemoteQp) -> Option<Key> {
        let key = *self.remote_qps.get(&remote_qp)?;
        self.connection_state(key).filter(|state| *state != ConnectionState::Over).map(|_| key)
    }

    /// Whether a queue pair that begins a connection has another one, which then is over: its
    /// peer must have forgotten it.
    pub(super) fn end_stale(&mut self, cx: &mut Cx<'_>, remote_qp: Option<RemoteQp>) -> bool {
        let Some(key) = remote_qp.and_then(|remote_qp| self.stale(remote_qp)) else { return false };
        if self.connection_state(key) == Some(ConnectionState::Established) {
            self.begin_disconnection(cx, key);
        }
        true
    }

    /// A queue pair now has this connection.
    pub(super) fn hold_remote_qp(&mut self, remote_qp: Option<RemoteQp>, key: Key) {
        let Some(remote_qp) = remote_qp else { return };
        self.remote_qps.insert(remote_qp, key);
        if let Ok(connection) = self.connection_mut(key) {
            connection.remote_qp = Some(remote_qp);
        }
    }

    /// It has it no longer.
    pub(super) fn release_remote_qp(&mut self, remote_qp: Option<RemoteQp>, key: Key) {
        // It may have another one by now.
        if let Some(remote_qp) = remote_qp {
            if self.remote_qps.get(&remote_qp) == Some(&key) {
                self.remote_qps.remove(&remote_qp);
            }
        }
    }

    /// The id of a request has gone. Copies of the request may still be on the way, and must not
    /// open a connection.
    pub(super) fn remember_timewait(&mut self, cx: &Cx<'_>, remote: RemoteId) {
        if remote.peer.is_remote() && self.timewait.len() < MAX_TIMEWAIT {
            let until_ns = cx.now_ns.saturating_add(TIME_WAIT_NS);
            self.timewait.insert(remote);
            self.timers.insert((until_ns, Due::TimeWait(remote)));
        }
    }

    pub(super) fn forget_timewait(&mut self, remote: RemoteId) {
        self.timewait.remove(&remote);
    }
}
