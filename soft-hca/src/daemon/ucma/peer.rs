//! Where messages go, and how their receivers find the connection that is meant.

use std::collections::HashMap;

use super::connect::Connection;
use super::id::{Id, Key};
use super::message::{CommId, Message};
use super::{Cm, Cx, Host};

/// The connection manager at the other end of a connection, decided on once, when the
/// connection begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Peer {
    /// This one: a message to it is a call.
    Local,
    /// Another one: messages to it wait to be fetched.
    #[cfg(test)]
    Remote(std::net::IpAddr),
}

/// Who has asked, as far as a request tells: a communication id means nothing without its peer.
/// A peer may number its service requests apart from its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct RemoteId {
    pub peer: Peer,
    pub is_datagram: bool,
    pub comm_id: CommId,
}

/// The connections by the communication ids that this side has given them.
///
/// The numbers begin anywhere and go on upwards, so that a message for a connection of the past,
/// or of a fabric that has ended, meets nobody.
#[derive(Debug, Default)]
pub(super) struct CommIds {
    last: Option<u32>,
    keys: HashMap<CommId, Key>,
}

impl CommIds {
    pub(super) fn take(&mut self, host: &mut dyn Host, key: Key) -> CommId {
        let mut last = self.last.unwrap_or_else(|| host.random24() << 8 ^ host.random24());
        loop {
            last = last.wrapping_add(1);
            let comm_id = CommId(last);
            if comm_id != CommId::NONE && !self.keys.contains_key(&comm_id) {
                self.last = Some(last);
                self.keys.insert(comm_id, key);
                return comm_id;
            }
        }
    }

    pub(super) fn find(&self, comm_id: CommId) -> Option<Key> {
        self.keys.get(&comm_id).copied()
    }

    pub(super) fn give_back(&mut self, comm_id: CommId) {
        self.keys.remove(&comm_id);
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }
}

impl Cm {
    /// Hands a message over. A local receiver has acted on it, and perhaps answered, when this
    /// returns: whoever sends has to be done with its own id before.
    pub(super) fn send(&mut self, cx: &mut Cx<'_>, to: Peer, message: Message) {
        match to {
            Peer::Local => self.received(cx, Peer::Local, message),
            #[cfg(test)]
            Peer::Remote(address) => self.outbox.push((address, message)),
        }
    }

    /// A message has come. What it means for the id that it is for is decided here and below,
    /// and nothing else has come from the other end.
    pub(super) fn received(&mut self, cx: &mut Cx<'_>, from: Peer, message: Message) {
        match message {
            Message::Req(req) => self.received_req(cx, from, req),
            Message::Mra(mra) => self.received_mra(cx, from, &mra),
            Message::Rej(rej) => self.received_rej(from, &rej),
            Message::Rep(rep) => self.received_rep(cx, from, &rep),
            Message::Rtu(rtu) => self.received_rtu(from, rtu),
            Message::Dreq(dreq) => self.received_dreq(cx, from, dreq),
            Message::Drep(drep) => self.received_drep(cx, from, drep),
            Message::SidrReq(req) => self.received_sidr_req(cx, from, req),
            Message::SidrRep(rep) => self.received_sidr_rep(from, &rep),
        }
    }

    /// A message has come from somewhere else.
    #[cfg(test)]
    pub(super) fn receive(
        &mut self,
        host: &mut dyn Host,
        from: Peer,
        message: Message,
        now_ns: u64,
    ) {
        self.received(&mut Cx { host, now_ns }, from, message);
    }

    /// Messages to go elsewhere.
    #[cfg(test)]
    pub(super) fn take_messages(&mut self) -> Vec<(std::net::IpAddr, Message)> {
        std::mem::take(&mut self.outbox)
    }

    /// The id whose connection has these ends (`cm_acquire_id`).
    pub(super) fn connection_of(&self, from: Peer, own: CommId, theirs: CommId) -> Option<Key> {
        let key = self.comm_ids.find(own)?;
        let connection = self.ids.get(&key)?.connection.as_ref()?;
        (connection.peer == from && connection.remote_id == theirs).then_some(key)
    }

    /// An id has gone: no message finds it any more.
    pub(super) fn forget_connection(&mut self, id: &Id, key: Key) {
        let Some(Connection { peer, local_id, remote_id, .. }) = id.connection else { return };
        self.comm_ids.give_back(local_id);
        let remote = RemoteId { peer, is_datagram: id.is_datagram, comm_id: remote_id };
        // The number may be another request's by now.
        if self.asked_by(remote) == Some(key) {
            self.remote_ids.remove(&remote);
        }
    }

    /// The id that was made for a request.
    pub(super) fn asked_by(&self, remote: RemoteId) -> Option<Key> {
        self.remote_ids.get(&remote).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::ucma::tests::World;

    #[test]
    fn communication_ids_begin_anywhere_and_do_not_come_back_soon() {
        let mut world = World::new();
        let mut first = Vec::new();
        for _ in 0..8 {
            let mut ids = CommIds::default();
            let taken = ids.take(&mut world.machine, Key::default());
            first.push(taken);
            ids.give_back(taken);
            let next: Vec<_> =
                (0..100).map(|_| ids.take(&mut world.machine, Key::default())).collect();
            assert!(!next.contains(&taken));
            assert_eq!(ids.len(), 100);
        }
        assert!(first.iter().any(|id| id.0 > 1 << 24));
        first.sort_unstable();
        first.dedup();
        assert_eq!(first.len(), 8);
    }

    #[test]
    fn none_is_no_communication_id() {
        let mut world = World::new();
        let mut ids = CommIds { last: Some(u32::MAX - 1), ..CommIds::default() };
        let mut take = || ids.take(&mut world.machine, Key::default()).0;
        assert_eq!([take(), take(), take()], [u32::MAX, 1, 2]);
        ids.last = Some(u32::MAX);
        assert_eq!(ids.take(&mut world.machine, Key::default()), CommId(3));
    }
}
