//! Connections: request, reply, "ready to use".
//!
//! A program's command changes its own id and sends a message; `received_...`, the kernel's
//! handlers in `cm.c` and `cma.c`, change the id that a message is for. Nothing changes both.

use std::net::SocketAddr;

use soft_hca_core::errno::{Errno, Result, ensure};
use soft_hca_core::uapi::ucma::{
    Accept, ConnParam, Connect, Ece, Event, Notify, Param, Sockaddr, event_type, private_data,
    reject,
};

use super::bind::UNBOUND;
use super::id::{Id, Key, State};
use super::message::{
    Answered, CommId, INVALID_MTU, Message, Mra, Rej, Rep, Req, Rtu, STALE_CONNECTION,
};
use super::peer::{Opens, Peer, RemoteId};
use super::query::{ACK_DELAY, ACK_TIMEOUT, ack_timeout};
use super::stale::RemoteQp;
use super::timer::SERVICE_TIMEOUT;
use super::{Call, Cm, Cx, NOTHING};

pub(super) const NO_CONNECTION: Errno = Errno::EINVAL.because("the id has no connection");

/// Refuses private data, in bytes, that a message has no room for.
pub(super) fn check_private_data(length: usize, room: usize) -> Result<()> {
    const PRIVATE_DATA: Errno =
        Errno::EINVAL.because("the message has no room for so much private data");
    ensure(length <= room, PRIVATE_DATA.beyond(length as u64, room as u64))
}

/// How far a connection has come (`enum ib_cm_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    RequestSent,
    RequestReceived,
    ReplySent,
    ReplyReceived,
    Established,
    DisconnectSent,
    DisconnectReceived,
    TimeWait,
    ServiceRequestSent,
    ServiceRequestReceived,
    /// Nothing comes after: rejected, refused, or a datagram service that is known.
    Over,
}

/// What an id has once it has asked or been asked for a connection (a `cm_id_private`).
#[derive(Clone, Debug)]
pub(super) struct Connection {
    pub stage: Stage,
    pub peer: Peer,
    /// What this side calls the connection.
    pub local_id: CommId,
    /// What the other side calls it, once that is known.
    pub remote_id: CommId,
    pub qpn: u32,
    pub remote_qpn: u32,
    /// The first packet number to send.
    pub sq_psn: u32,
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub retry_count: u8,
    pub rnr_retry_count: u8,
    pub path_mtu: u8,
    /// Of the queue pair, unless the program has chosen one: 4.096 us times two to the power of this.
    pub ack_timeout: u8,
    /// What was asked for; only the side that was asked has it.
    pub service_id: u64,
    /// Whether this side has asked.
    pub is_asking: bool,
    /// The other side's queue pair, if that is another host.
    pub remote_qp: Option<RemoteQp>,
    /// Of the messages that this side sends next.
    pub transaction: u64,
    /// What was sent, kept until it is answered.
    pub unanswered: Option<Box<Message>>,
    /// How often that was sent again.
    pub retries: u32,
}

impl Connection {
    fn new(stage: Stage, peer: Peer, local_id: CommId) -> Self {
        Self {
            stage,
            peer,
            local_id,
            remote_id: CommId::NONE,
            qpn: 0,
            remote_qpn: 0,
            sq_psn: 0,
            responder_resources: 0,
            initiator_depth: 0,
            retry_count: 0,
            rnr_retry_count: 0,
            path_mtu: 0,
            ack_timeout: ACK_TIMEOUT,
            service_id: 0,
            is_asking: false,
            remote_qp: None,
            transaction: 0,
            unanswered: None,
            retries: 0,
        }
    }
}

/// Private data as it arrives: padded with zeros to the room that the message has for it.
pub(super) fn padded(data: &[u8], room: usize) -> Vec<u8> {
    let mut data = data.to_vec();
    data.resize(room, 0);
    data
}

/// Retry counts have three bits.
fn three_bits(count: u8) -> u8 {
    count.min(7)
}

/// The addresses of an id that has a route.
fn ends(id: &Id) -> Option<(SocketAddr, SocketAddr)> {
    Some((id.src?.ip()?, id.dst?.ip()?))
}

impl Cm {
    /// The stage of an id's connection.
    pub(super) fn stage(&self, key: Key) -> Option<Stage> {
        self.ids.get(&key)?.connection.as_ref().map(|connection| connection.stage)
    }

    pub(super) fn set_stage(&mut self, key: Key, stage: Stage) {
        let id = self.ids.get_mut(&key);
        if let Some(connection) = id.and_then(|id| id.connection.as_mut()) {
            connection.stage = stage;
        }
    }

    pub(super) fn connection(&self, key: Key) -> Result<&Connection> {
        self.id(key)?.connection.as_ref().ok_or(NO_CONNECTION)
    }

    pub(super) fn connection_mut(&mut self, key: Key) -> Result<&mut Connection> {
        self.id_mut(key)?.connection.as_mut().ok_or(NO_CONNECTION)
    }

    pub(super) fn connect(&mut self, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Vec<u8>> {
        let Connect { id: number, param, ece } = Connect::decode(call.payload)?;
        ensure(param.valid != 0, Errno::EINVAL.because("the parameters are not marked as valid"))?;
        let key = self.find_with_device(call.file, number)?;
        let id = self.id(key)?;
        ensure(id.state == State::RouteResolved, id.state.refusal())?;
        let is_datagram = id.is_datagram;
        let room = if is_datagram { private_data::SIDR_REQ } else { private_data::REQ };
        check_private_data(param.private_data.len(), room - private_data::IP_HEADER)?;
        let (src, dst) = ends(id).ok_or(UNBOUND)?;
        // A group's address leads to nobody, and that is known here.
        let own = src.ip().to_canonical();
        let peer = match cx.host.find_peer(dst.ip().to_canonical()).unwrap_or(Peer::Local) {
            Peer::Remote { address, .. } if cx.host.has_way(own, address) => {
                Peer::Remote { own, address }
            }
            _ => Peer::Local,
        };
        let local_id = self.comm_ids.take(cx.host, key);
        let (stage, opens) = if is_datagram {
            (Stage::ServiceRequestSent, Opens::Service)
        } else {
            (Stage::RequestSent, Opens::Connection)
        };
        let mut connection = Connection::new(stage, peer, local_id);
        connection.is_asking = true;
        connection.transaction = self.new_transaction(cx, opens, local_id);
        connection.qpn = param.qp_num;
        connection.responder_resources = param.responder_resources;
        connection.initiator_depth = param.initiator_depth;
        connection.retry_count = three_bits(param.retry_count);
        let id = self.id_mut(key)?;
        connection.path_mtu = id.path_mtu();
        id.state = State::Connect;
        if is_datagram {
            id.connection = Some(connection);
            self.send_sidr_req(cx, key, (src, dst), param.private_data);
            return NOTHING;
        }
        let req = Req {
            local_comm_id: local_id,
            space: id.space,
            src,
            dst,
            local_gid: Sockaddr::Ip(src).gid(),
            remote_gid: Sockaddr::Ip(dst).gid(),
            ca_guid: id.node_guid(),
            qpn: param.qp_num,
            starting_psn: id.psn,
            responder_resources: param.responder_resources,
            initiator_depth: param.initiator_depth,
            retry_count: three_bits(param.retry_count),
            rnr_retry_count: three_bits(param.rnr_retry_count),
            flow_control: param.flow_control,
            srq: param.srq != 0,
            path_mtu: connection.path_mtu,
            ack_timeout: ack_timeout(ACK_DELAY, id.packet_life_time()),
            flow_label: id.flow_label,
            traffic_class: id.type_of_service,
            ece,
            private_data: param.private_data,
        };
        id.connection = Some(connection);
        self.send_until_answered(cx, key, Message::Req(req));
        NOTHING
    }

    /// Makes the id of a request, on the listener's side.
    pub(super) fn new_request(
        &mut self,
        cx: &mut Cx<'_>,
        listener: Key,
        remote: RemoteId,
        (src, dst): (SocketAddr, SocketAddr),
        stage: Stage,
    ) -> Result<Key> {
        let id = self.id(listener)?;
        let (file, kind) = (id.file, (id.space, id.is_datagram));
        let key = self.new_id(cx, file, kind, 0)?;
        let local_id = self.comm_ids.take(cx.host, key);
        let mut connection = Connection::new(stage, remote.peer, local_id);
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

    /// `cm_req_handler`
    pub(super) fn received_req(&mut self, cx: &mut Cx<'_>, from: Peer, req: Req) {
        let remote = RemoteId { peer: from, is_datagram: false, comm_id: req.local_comm_id };
        if let Some(key) = self.asked_by(remote) {
            if let Some(stage) = self.stage(key).filter(|&stage| stage != Stage::Over) {
                return self.duplicate_req(cx, key, stage, &req);
            }
        }
        if self.past.contains_key(&remote) {
            return;
        }
        if self.end_stale(cx, RemoteQp::new(from, req.ca_guid, req.qpn)) {
            return self.refuse_req(cx, from, &req, STALE_CONNECTION);
        }
        let Some(listener) = self.listener(cx.host, req.space, req.dst) else {
            return self.wait_for_listener(cx, remote, Message::Req(req));
        };
        let Some(id) = self.ids.get(&listener) else { return };
        if id.is_datagram {
            return self.refuse_req(cx, from, &req, reject::CONSUMER_DEFINED);
        }
        if let Peer::Remote { own, .. } = from {
            if req.path_mtu > cx.host.path_mtu(own) {
                return self.refuse_req(cx, from, &req, INVALID_MTU);
            }
        }
        // It is lost without a trace if there is no room, and comes again later.
        if id.backlog > 0 {
            let _ = self.take_req(cx, listener, remote, req);
        }
    }

    /// A request has come again (`cm_dup_req_handler`).
    fn duplicate_req(&mut self, cx: &mut Cx<'_>, key: Key, stage: Stage, req: &Req) {
        let Ok(Connection { peer, local_id, .. }) = self.connection(key) else { return };
        let (peer, local_id) = (*peer, *local_id);
        match stage {
            Stage::RequestReceived => {
                self.send_mra(cx, peer, (local_id, req.local_comm_id), Answered::Req);
            }
            Stage::TimeWait => self.refuse_req(cx, peer, req, STALE_CONNECTION),
            Stage::ReplySent => self.send_again(cx, key),
            _ => {}
        }
    }

    fn send_mra(
        &mut self,
        cx: &mut Cx<'_>,
        peer: Peer,
        (local_comm_id, remote_comm_id): (CommId, CommId),
        message: Answered,
    ) {
        let service_timeout = SERVICE_TIMEOUT;
        let mra = Mra { local_comm_id, remote_comm_id, message, service_timeout };
        self.send(cx, peer, cx.transaction, Message::Mra(mra));
    }

    /// A request that there is room for becomes an id and an event of the listener.
    fn take_req(
        &mut self,
        cx: &mut Cx<'_>,
        listener: Key,
        remote: RemoteId,
        req: Req,
    ) -> Result<()> {
        let ends = (req.src, req.dst);
        let key = self.new_request(cx, listener, remote, ends, Stage::RequestReceived)?;
        let id = self.id_mut(key)?;
        id.has_path = true;
        id.path_mtu = Some(req.path_mtu);
        id.flow_label = req.flow_label;
        let connection = self.connection_mut(key)?;
        connection.remote_qpn = req.qpn;
        connection.sq_psn = req.starting_psn;
        // What one end asks of the other is what the other has to serve.
        connection.responder_resources = req.initiator_depth;
        connection.initiator_depth = req.responder_resources;
        connection.retry_count = req.retry_count;
        connection.rnr_retry_count = req.rnr_retry_count;
        connection.path_mtu = req.path_mtu;
        // The way back takes as long: `cm_format_paths_from_req`.
        connection.ack_timeout = req.ack_timeout.max(1);
        let param = ConnParam {
            qp_num: req.qpn,
            private_data: padded(&req.private_data, private_data::REQ - private_data::IP_HEADER),
            srq: u8::from(req.srq),
            responder_resources: req.initiator_depth,
            initiator_depth: req.responder_resources,
            flow_control: req.flow_control,
            retry_count: req.retry_count,
            rnr_retry_count: req.rnr_retry_count,
            ..ConnParam::default()
        };
        let event = event_type::CONNECT_REQUEST;
        let event = Event { event, param: Param::Conn(param), ece: req.ece, ..Event::default() };
        self.hold_remote_qp(RemoteQp::new(remote.peer, req.ca_guid, req.qpn), key);
        self.push_request(listener, key, event);
        Ok(())
    }

    pub(super) fn accept(&mut self, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Vec<u8>> {
        let request = Accept::decode(call.payload)?;
        let key = self.find_with_device(call.file, request.id)?;
        let id = self.id(key)?;
        ensure(id.state == State::Connect, id.state.refusal())?;
        let is_valid = request.param.valid != 0;
        let outcome = match (id.is_datagram, is_valid) {
            (true, _) => self.accept_service(cx, key, request.param, is_valid),
            (false, true) => self.send_rep(cx, key, request.param, request.ece),
            (false, false) => self.send_rtu(cx, key),
        };
        if let Err(error) = outcome {
            // Whoever cannot accept has said no.
            if self.id(key)?.is_datagram {
                let _ = self.reject_service(cx, key, Vec::new());
            } else {
                let _ = self.send_rej(cx, key, reject::CONSUMER_DEFINED, Vec::new());
            }
            return Err(error);
        }
        if is_valid {
            self.id_mut(key)?.uid = request.uid;
        }
        NOTHING
    }

    /// Accepts a request (`cma_accept_ib`).
    fn send_rep(&mut self, cx: &mut Cx<'_>, key: Key, param: ConnParam, ece: Ece) -> Result<()> {
        check_private_data(param.private_data.len(), private_data::REP)?;
        let is_asked = self.stage(key) == Some(Stage::RequestReceived);
        ensure(is_asked, Errno::EINVAL.because("there is no request to accept"))?;
        let id = self.id(key)?;
        let (starting_psn, ca_guid) = (id.psn, id.node_guid());
        let connection = self.connection_mut(key)?;
        connection.stage = Stage::ReplySent;
        connection.qpn = param.qp_num;
        connection.responder_resources = param.responder_resources;
        connection.initiator_depth = param.initiator_depth;
        let rep = Rep {
            local_comm_id: connection.local_id,
            remote_comm_id: connection.remote_id,
            ca_guid,
            qpn: param.qp_num,
            starting_psn,
            responder_resources: param.responder_resources,
            initiator_depth: param.initiator_depth,
            rnr_retry_count: three_bits(param.rnr_retry_count),
            flow_control: param.flow_control,
            srq: param.srq != 0,
            ece,
            private_data: param.private_data,
        };
        self.send_until_answered(cx, key, Message::Rep(rep));
        Ok(())
    }

    /// `cm_rep_handler`
    pub(super) fn received_rep(&mut self, cx: &mut Cx<'_>, from: Peer, rep: &Rep) {
        let asking = self.connection_of(from, rep.remote_comm_id, CommId::NONE);
        let Some(key) = asking.filter(|key| self.stage(*key) == Some(Stage::RequestSent)) else {
            return self.duplicate_rep(cx, from, rep);
        };
        let remote_qp = RemoteQp::new(from, rep.ca_guid, rep.qpn);
        if self.end_stale(cx, remote_qp) {
            return self.refuse_rep(cx, from, rep);
        }
        self.is_answered(key);
        self.hold_remote_qp(remote_qp, key);
        let Ok(connection) = self.connection_mut(key) else { return };
        connection.stage = Stage::ReplyReceived;
        connection.remote_id = rep.local_comm_id;
        connection.remote_qpn = rep.qpn;
        connection.sq_psn = rep.starting_psn;
        connection.responder_resources = rep.initiator_depth;
        connection.initiator_depth = rep.responder_resources;
        connection.rnr_retry_count = rep.rnr_retry_count;
        let param = ConnParam {
            qp_num: rep.qpn,
            private_data: padded(&rep.private_data, private_data::REP),
            srq: u8::from(rep.srq),
            responder_resources: rep.initiator_depth,
            initiator_depth: rep.responder_resources,
            flow_control: rep.flow_control,
            rnr_retry_count: rep.rnr_retry_count,
            ..ConnParam::default()
        };
        self.push_with(key, event_type::CONNECT_RESPONSE, 0, Param::Conn(param), rep.ece);
    }

    /// A reply names a queue pair that has another connection.
    fn refuse_rep(&mut self, cx: &mut Cx<'_>, from: Peer, rep: &Rep) {
        let rej = Rej {
            local_comm_id: rep.remote_comm_id,
            remote_comm_id: rep.local_comm_id,
            rejected: Answered::Rep,
            reason: STALE_CONNECTION,
            ari: Vec::new(),
            private_data: Vec::new(),
        };
        self.send(cx, from, cx.transaction, Message::Rej(rej));
    }

    /// A reply has come again (`cm_dup_rep_handler`): what it got was lost, or is not decided.
    fn duplicate_rep(&mut self, cx: &mut Cx<'_>, from: Peer, rep: &Rep) {
        let ids = (rep.remote_comm_id, rep.local_comm_id);
        let Some(key) = self.connection_of(from, ids.0, ids.1) else { return };
        match self.stage(key) {
            Some(Stage::ReplyReceived) => self.send_mra(cx, from, ids, Answered::Rep),
            Some(Stage::Established) => {
                let rtu = Rtu { local_comm_id: ids.0, remote_comm_id: ids.1 };
                self.send(cx, from, cx.transaction, Message::Rtu(rtu));
            }
            _ => {}
        }
    }

    /// The side that has asked is ready to use the connection (`cma_rep_recv`).
    fn send_rtu(&mut self, cx: &mut Cx<'_>, key: Key) -> Result<()> {
        let is_answered = self.stage(key) == Some(Stage::ReplyReceived);
        ensure(
            is_answered,
            Errno::EINVAL.because("there is no reply to answer with ready to use"),
        )?;
        let connection = self.connection_mut(key)?;
        connection.stage = Stage::Established;
        let (peer, transaction) = (connection.peer, connection.transaction);
        let rtu = Rtu { local_comm_id: connection.local_id, remote_comm_id: connection.remote_id };
        self.send(cx, peer, transaction, Message::Rtu(rtu));
        Ok(())
    }

    /// `cm_rtu_handler`
    pub(super) fn received_rtu(&mut self, from: Peer, rtu: Rtu) {
        if let Some(key) = self.connection_of(from, rtu.remote_comm_id, rtu.local_comm_id) {
            if self.stage(key) == Some(Stage::ReplySent) {
                self.is_answered(key);
                self.set_stage(key, Stage::Established);
                self.push(key, event_type::ESTABLISHED, 0);
            }
        }
    }

    /// NOTIFY: the queue pair has seen something that the connection manager has not.
    pub(super) fn notify(&mut self, _: &mut Cx<'_>, call: &Call<'_>) -> Result<Vec<u8>> {
        /// `IB_EVENT_COMM_EST`: a message has come before the "ready to use".
        const COMM_EST: u32 = 4;
        let request = Notify::decode(call.payload)?;
        let key = self.find_with_device(call.file, request.id)?;
        match (request.event, self.stage(key)) {
            (COMM_EST, Some(Stage::ReplySent)) => {
                self.is_answered(key);
                self.set_stage(key, Stage::Established);
                self.push(key, event_type::ESTABLISHED, 0);
                NOTHING
            }
            (COMM_EST, Some(Stage::Established)) => {
                Err(Errno::EISCONN.because("the connection is established already"))
            }
            (COMM_EST, _) => Err(Errno::EINVAL.because("no reply waits for ready to use")),
            _ => Err(Errno::EINVAL.because("only COMM_EST is of interest to a connection")),
        }
    }
}
