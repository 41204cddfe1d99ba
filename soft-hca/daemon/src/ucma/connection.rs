//! Connections: what an id has of one, and how it gets it.

use soft_hca_core::errno::{Errno, Refusal, Result};
use soft_hca_core::uapi::ucma::{ConnParam, Sockaddr};
use soft_hca_roce::wire::bth::{Psn, Qpn};
use soft_hca_roce::wire::cm::CommId;

use super::id::{Key, State};
use super::peer::{Opens, Peer, RemoteId};
use super::query::ACK_TIMEOUT;
use super::stale::RemoteQp;
use super::wire::{Ends, Envelope};
use super::{Cm, Cx};

pub(super) const NO_CONNECTION: Errno = Errno::EINVAL.because(Refusal::IdWithoutConnection);

/// How far a connection has come (`enum ib_cm_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionState {
    ReqSent,
    ReqReceived,
    RepSent,
    RepReceived,
    Established,
    DreqSent,
    DreqReceived,
    TimeWait,
    SidrReqSent,
    SidrReqReceived,
    /// Nothing comes after: rejected, refused, or a datagram service that is known.
    Over,
}

/// What an id has once it has asked or been asked for a connection (a `cm_id_private`).
#[derive(Clone, Debug)]
pub(super) struct Connection {
    pub state: ConnectionState,
    pub peer: Peer,
    /// What this side calls the connection.
    pub local_id: CommId,
    /// What the other side calls it, once that is known.
    pub remote_id: CommId,
    /// 0 if the program has named none.
    pub qpn: Qpn,
    pub remote_qpn: Qpn,
    /// The first packet number to send.
    pub sq_psn: Psn,
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub retry_count: u8,
    pub rnr_retry_count: u8,
    pub path_mtu: u8,
    /// Of the queue pair, unless the program has chosen one: 4.096 us times two to the power of
    /// this.
    pub ack_timeout: u8,
    /// What was asked for; only the passive side has it.
    pub service_id: u64,
    /// This is the active side, which has sent the request.
    pub is_active: bool,
    /// The other side's queue pair, if that is another host.
    pub remote_qp: Option<RemoteQp>,
    /// Of the messages that this side sends next.
    pub transaction: u64,
    /// What was sent, kept until it is answered.
    pub unanswered: Option<Box<Envelope>>,
    /// How many times that was sent again.
    pub retries: u8,
    /// How often the other side has asked, and how often it was answered; only the passive side
    /// counts.
    pub asked: u32,
    pub answered: u32,
    /// Whether the other side has sent something that only our answer can have told it.
    pub is_heard: bool,
}

impl Connection {
    fn new(state: ConnectionState, peer: Peer, local_id: CommId) -> Self {
        Self {
            state,
            peer,
            local_id,
            remote_id: CommId::NONE,
            qpn: Qpn::default(),
            remote_qpn: Qpn::default(),
            sq_psn: Psn::default(),
            responder_resources: 0,
            initiator_depth: 0,
            retry_count: 0,
            rnr_retry_count: 0,
            path_mtu: 0,
            ack_timeout: ACK_TIMEOUT,
            service_id: 0,
            is_active: false,
            remote_qp: None,
            transaction: 0,
            unanswered: None,
            retries: 0,
            asked: 0,
            answered: 0,
            is_heard: false,
        }
    }
}

/// Retry counts have three bits.
pub(super) fn three_bits(count: u8) -> u8 {
    count.min(7)
}

impl Cm {
    /// The state of an id's connection.
    pub(super) fn connection_state(&self, key: Key) -> Option<ConnectionState> {
        self.ids.get(&key)?.connection.as_ref().map(|connection| connection.state)
    }

    pub(super) fn set_connection_state(&mut self, key: Key, state: ConnectionState) {
        let id = self.ids.get_mut(&key);
        if let Some(connection) = id.and_then(|id| id.connection.as_mut()) {
            connection.state = state;
        }
    }

    pub(super) fn connection(&self, key: Key) -> Result<&Connection> {
        self.id(key)?.connection.as_ref().ok_or(NO_CONNECTION)
    }

    pub(super) fn connection_mut(&mut self, key: Key) -> Result<&mut Connection> {
        self.id_mut(key)?.connection.as_mut().ok_or(NO_CONNECTION)
    }

    /// Makes an id the active side of a connection, with what its request says. Gives the
    /// communication id and the transaction.
    pub(super) fn begin_connection(
        &mut self,
        cx: &mut Cx<'_>,
        key: Key,
        ends: Ends,
        param: &ConnParam,
    ) -> Result<(CommId, u64)> {
        // A group's address leads to nobody, and that is known here.
        let own = ends.src.ip().to_canonical();
        let peer = match cx.host.find_peer(ends.dst.ip().to_canonical()).unwrap_or(Peer::Local) {
            Peer::Remote { address, .. } if cx.host.has_way(own, address) => {
                Peer::Remote { own, address }
            }
            _ => Peer::Local,
        };
        let local_id = self.comm_ids.take(cx.host, key);
        let (state, opens) = if self.id(key)?.is_datagram {
            (ConnectionState::SidrReqSent, Opens::Service)
        } else {
            (ConnectionState::ReqSent, Opens::Connection)
        };
        let transaction = self.new_transaction(cx, opens, local_id);
        let id = self.id_mut(key)?;
        id.state = State::Connect;
        id.connection = Some(Connection {
            is_active: true,
            transaction,
            qpn: Qpn::new(param.qp_num),
            responder_resources: param.responder_resources,
            initiator_depth: param.initiator_depth,
            retry_count: three_bits(param.retry_count),
            path_mtu: id.path_mtu(),
            ..Connection::new(state, peer, local_id)
        });
        Ok((local_id, transaction))
    }

    /// Makes the id of a request, on the listener's side.
    pub(super) fn new_request(
        &mut self,
        cx: &mut Cx<'_>,
        listener: Key,
        remote: RemoteId,
        Ends { src, dst, .. }: Ends,
        state: ConnectionState,
    ) -> Result<Key> {
        let id = self.id(listener)?;
        let (file, kind) = (id.file, (id.space, id.is_datagram));
        let key = self.new_id(cx, file, kind, 0)?;
        let local_id = self.comm_ids.take(cx.host, key);
        let mut connection = Connection::new(state, remote.peer, local_id);
        connection.remote_id = remote.comm_id;
        connection.transaction = cx.transaction;
        let id = self.id_mut(key)?;
        connection.service_id = id.space.service_id(dst.port());
        id.connection = Some(connection);
        (id.src, id.dst) = (Some(Sockaddr::Ip(dst)), Some(Sockaddr::Ip(src)));
        id.source = cx.host.find_source(dst.ip());
        id.state = State::Connect;
        self.remote_ids.insert(remote, key);
        self.id_mut(listener)?.backlog -= 1;
        Ok(key)
    }
}
