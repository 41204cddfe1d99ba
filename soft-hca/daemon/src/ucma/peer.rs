//! Where messages go, and how their receivers find the connection that is meant.

use std::collections::HashMap;
use std::net::IpAddr;

use soft_hca_roce::wire::cm::{CommId, Message};
use soft_hca_roce::wire::mad::MAD_BYTES;

use super::connection::Connection;
use super::id::{Id, Key};
use super::wire::{self, Envelope, NoMessage};
use super::{Cm, Cx, Host};

/// The connection manager at the other end of a connection, decided on once, when the
/// connection begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Peer {
    /// This one: a message to it is a call.
    Local,
    /// Another host's: messages to it are datagrams, which wait to be fetched.
    Remote {
        /// The address of this host that the other one knows.
        own: IpAddr,
        /// The other one's.
        address: IpAddr,
    },
}

impl Peer {
    /// Whether messages to it may get lost.
    pub(super) fn is_remote(self) -> bool {
        self != Self::Local
    }
}

/// A message for another host: a management datagram from queue pair 1 to queue pair 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outgoing {
    /// The own address that it is sent from.
    pub from: IpAddr,
    /// The other host's address.
    pub to: IpAddr,
    /// The datagram.
    pub mad: [u8; MAD_BYTES],
}

/// Who has asked, as far as a request tells: a communication id means nothing without its peer.
/// A peer may number its service requests apart from its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct RemoteId {
    pub peer: Peer,
    pub is_datagram: bool,
    pub comm_id: CommId,
}

/// What begins a transaction, as a part of its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opens {
    Connection = 1,
    Disconnection = 2,
    Service = 3,
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
    pub(super) fn send(&mut self, cx: &mut Cx<'_>, to: Peer, envelope: Envelope) {
        match to {
            Peer::Local => self.received(cx, Peer::Local, envelope),
            Peer::Remote { own, address } => {
                let mad = wire::encode(&envelope);
                self.outbox.push(Outgoing { from: own, to: address, mad });
            }
        }
    }

    /// A message has come. What it means for the id that it is for is decided here and below,
    /// and nothing else has come from the other end.
    pub(super) fn received(&mut self, cx: &mut Cx<'_>, from: Peer, envelope: Envelope) {
        let cx = &mut cx.answering(envelope.transaction);
        match &envelope.message {
            Message::Req(req) => self.received_req(cx, from, req, &envelope),
            Message::Mra(mra) => self.received_mra(cx, from, mra),
            Message::Rej(rej) => self.received_rej(from, rej),
            Message::Rep(rep) => self.received_rep(cx, from, rep, envelope.ece_options),
            Message::Rtu(rtu) => self.received_rtu(from, rtu),
            Message::Dreq(dreq) => self.received_dreq(cx, from, dreq),
            Message::Drep(drep) => self.received_drep(cx, from, drep),
            Message::SidrReq(req) => self.received_sidr_req(cx, from, req, &envelope),
            Message::SidrRep(rep) => self.received_sidr_rep(cx, from, rep),
        }
    }

    /// A management datagram has come from another host's queue pair 1: `from` and `to` are the
    /// addresses of its packet. What is no message is dropped, or refused if it is a request.
    pub(crate) fn receive(
        &mut self,
        host: &mut dyn Host,
        (from, to): (IpAddr, IpAddr),
        mad: &[u8; MAD_BYTES],
        now_ns: u64,
    ) {
        let cx = &mut self.at(host, now_ns);
        let peer = Peer::Remote { own: to.to_canonical(), address: from.to_canonical() };
        match wire::decode(mad, (from, to)) {
            Ok(envelope) => self.received(cx, peer, envelope),
            Err(NoMessage::Refused(answer)) => {
                self.count_dropped(from, "a request that cannot be met");
                self.send(cx, peer, *answer);
            }
            Err(NoMessage::Dropped(why)) => self.count_dropped(from, why),
        }
    }

    /// Messages for other hosts, to be sent in this order.
    pub(crate) fn take_messages(&mut self) -> Vec<Outgoing> {
        std::mem::take(&mut self.outbox)
    }

    /// Counts a message that has no effect.
    pub(super) fn count_dropped(&mut self, from: IpAddr, why: &str) {
        self.dropped = self.dropped.saturating_add(1);
        tracing::debug!(%from, count = self.dropped, "a management datagram is dropped: {why}");
    }

    /// The transaction of a message that begins one (`cm_form_tid`).
    pub(super) fn new_transaction(&mut self, cx: &mut Cx<'_>, kind: Opens, id: CommId) -> u64 {
        let own = *self.transactions.get_or_insert_with(|| cx.host.random24());
        u64::from(own) << 40 | (kind as u64) << 32 | u64::from(id.0)
    }

    /// The id whose connection has these ends (`cm_acquire_id`).
    pub(super) fn connection_of(&self, from: Peer, own: CommId, theirs: CommId) -> Option<Key> {
        let key = self.comm_ids.find(own)?;
        let connection = self.ids.get(&key)?.connection.as_ref()?;
        (connection.peer == from && connection.remote_id == theirs).then_some(key)
    }

    /// An id has gone: no message finds it any more.
    pub(super) fn forget_connection(&mut self, cx: &Cx<'_>, id: &Id, key: Key) {
        let Some(Connection { peer, local_id, remote_id, state, remote_qp, .. }) = id.connection
        else {
            return;
        };
        self.comm_ids.give_back(local_id);
        let remote = RemoteId { peer, is_datagram: id.is_datagram, comm_id: remote_id };
        // The number may be another request's by now.
        if self.asked_by(remote) == Some(key) {
            self.remote_ids.remove(&remote);
            if state.has_been_connected() {
                self.remember_timewait(cx, remote);
            }
        }
        self.release_remote_qp(remote_qp, key);
    }

    /// The id that was made for a request.
    pub(super) fn asked_by(&self, remote: RemoteId) -> Option<Key> {
        self.remote_ids.get(&remote).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ucma::tests::World;

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
