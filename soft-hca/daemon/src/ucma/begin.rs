//! How an id gets a connection: by its own request, or by that of a peer.

use soft_hca_core::errno::Result;
use soft_hca_core::uapi::ucma::{ConnParam, Sockaddr};
use soft_hca_roce::wire::bth::Qpn;
use soft_hca_roce::wire::cm::CommId;

use super::cm::Cm;
use super::connection::{Connection, ConnectionState, three_bits};
use super::host::Cx;
use super::id::{Key, State};
use super::messages::Opens;
use super::peer::{Peer, RemoteId};
use super::wire::Ends;

impl Cm {
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
        let local_id = self.connections.name(cx.host, key);
        let (state, opens) = if self.ids.id(key)?.is_datagram {
            (ConnectionState::SidrReqSent, Opens::Service)
        } else {
            (ConnectionState::ReqSent, Opens::Connection)
        };
        let transaction = self.messages.new_transaction(cx.host, opens, local_id);
        let id = self.ids.id_mut(key)?;
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
        let id = self.ids.id(listener)?;
        let (file, kind) = (id.file, (id.space, id.is_datagram));
        let key = self.ids.make(cx.host, file, kind, 0)?;
        let local_id = self.connections.name(cx.host, key);
        let mut connection = Connection::new(state, remote.peer, local_id);
        connection.remote_id = remote.comm_id;
        connection.transaction = cx.transaction;
        let id = self.ids.id_mut(key)?;
        connection.service_id = id.space.service_id(dst.port());
        id.connection = Some(connection);
        (id.src, id.dst) = (Some(Sockaddr::Ip(dst)), Some(Sockaddr::Ip(src)));
        id.source = cx.host.find_source(dst.ip());
        id.state = State::Connect;
        self.connections.requested(remote, key);
        self.ids.id_mut(listener)?.backlog -= 1;
        Ok(key)
    }
}
