//! The connection manager's parts, and what takes several of them.

use soft_hca_roce::wire::cm::CommId;

use super::connections::Connections;
use super::dreq_sent::DreqsSent;
use super::files::Files;
use super::groups::Groups;
use super::host::{Cx, Host};
use super::id::Key;
use super::ids::Ids;
use super::messages::Messages;
use super::peer::Peer;
use super::pending::Pending;
use super::ports::Ports;
use super::timer::{Due, Timer, Timers};

/// The connection manager of a fabric.
#[derive(Debug, Default)]
pub(crate) struct Cm {
    pub(super) files: Files,
    pub(super) ids: Ids,
    pub(super) groups: Groups,
    pub(super) ports: Ports,
    pub(super) connections: Connections,
    pub(super) pending: Pending,
    pub(super) dreqs_sent: DreqsSent,
    pub(super) messages: Messages,
    pub(super) timers: Timers,
    /// The time of what is going on.
    pub(super) now_ns: u64,
}

impl Cm {
    /// Begins what is done at a time.
    pub(super) fn at<'a>(&mut self, host: &'a mut dyn Host, now_ns: u64) -> Cx<'a> {
        self.now_ns = now_ns;
        Cx { host, now_ns, transaction: 0 }
    }

    /// The id whose connection has these ends (`cm_acquire_id`).
    pub(super) fn connection_of(&self, from: Peer, own: CommId, theirs: CommId) -> Option<Key> {
        let key = self.connections.find(own)?;
        let connection = self.ids.get(key)?.connection.as_ref()?;
        (connection.peer == from && connection.remote_id == theirs).then_some(key)
    }

    /// Sets an id's deadline. An id has one at most.
    pub(super) fn set_timer(&mut self, key: Key, at_ns: u64, timer: Timer) {
        self.cancel_timer(key);
        if let Some(id) = self.ids.get_mut(key) {
            id.timer = Some((at_ns, timer));
            self.timers.set(at_ns, Due::Id(key));
        }
    }

    pub(super) fn cancel_timer(&mut self, key: Key) {
        let timer = self.ids.get_mut(key).and_then(|id| id.timer.take());
        if let Some((at_ns, _)) = timer {
            self.timers.cancel(at_ns, Due::Id(key));
        }
    }
}
