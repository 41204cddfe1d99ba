//! Connections of the past that a host asks for or answers with again: it has begun anew, or its
//! message was long on the way (`cm_match_req`, `cm_rep_handler`).

use super::cm::Cm;
use super::connection::ConnectionState;
use super::host::Cx;
use super::id::Key;
use super::peer::RemoteQp;

impl Cm {
    /// The connection that still has a queue pair which begins another one.
    fn stale(&self, remote_qp: RemoteQp) -> Option<Key> {
        let key = self.connections.of_queue_pair(remote_qp)?;
        self.ids.connection_state(key).filter(|state| *state != ConnectionState::Over).map(|_| key)
    }

    /// Whether a queue pair that begins a connection has another one, which then is over: its
    /// peer must have forgotten it.
    pub(super) fn end_stale(&mut self, cx: &mut Cx<'_>, remote_qp: Option<RemoteQp>) -> bool {
        let Some(key) = remote_qp.and_then(|remote_qp| self.stale(remote_qp)) else { return false };
        if self.ids.connection_state(key) == Some(ConnectionState::Established) {
            self.begin_disconnection(cx, key);
        }
        true
    }

    /// A queue pair has this connection.
    pub(super) fn hold_remote_qp(&mut self, remote_qp: Option<RemoteQp>, key: Key) {
        let Some(remote_qp) = remote_qp else { return };
        self.connections.hold_queue_pair(remote_qp, key);
        if let Ok(connection) = self.ids.connection_mut(key) {
            connection.remote_qp = Some(remote_qp);
        }
    }
}
