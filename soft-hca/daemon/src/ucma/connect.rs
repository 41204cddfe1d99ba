//! Connecting: request, reply, "ready to use".
//!
//! A program's command changes its own id and sends a message; `received_...`, the kernel's
//! handlers in `cm.c` and `cma.c`, change the id that a message is for. Nothing changes both.

use soft_hca_core::errno::{Errno, Refusal, Result, ensure};
use soft_hca_core::uapi::ucma::{
    Accept, ConnParam, Connect, Ece, Event, Notify, Param, Sockaddr, event_type,
};
use soft_hca_roce::wire::bth::Qpn;
use soft_hca_roce::wire::cm::{Answered, CommId, Mra, Path, Rej, Rep, Req, Rtu, reason};

use super::bind::UNBOUND;
use super::cm::Cm;
use super::connection::{ConnectionState, three_bits};
use super::host::{Call, Cx, NOTHING};
use super::id::{Key, State};
use super::ids::Id;
use super::peer::{Peer, RemoteId, RemoteQp};
use super::timer::{ACK_DELAY, SERVICE_TIMEOUT, ack_timeout};
use super::wire::{self, Ends, Envelope};

/// Those of an id that has a route.
fn ends(id: &Id) -> Option<Ends> {
    Some(Ends { space: id.space, src: id.src?.ip()?, dst: id.dst?.ip()? })
}

impl Cm {
    pub(super) fn connect(&mut self, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Vec<u8>> {
        let Connect { id: number, param, ece } = Connect::decode(call.payload)?;
        ensure(param.valid != 0, Errno::EINVAL.because(Refusal::InvalidParameters))?;
        let key = self.ids.find_with_device(call.file, number)?;
        let id = self.ids.id(key)?;
        ensure(id.state == State::RouteResolved, id.state.refusal())?;
        let is_datagram = id.is_datagram;
        let ends = ends(id).ok_or(UNBOUND)?;
        if is_datagram {
            self.send_sidr_req(cx, key, ends, &param)?;
        } else {
            self.send_req(cx, key, ends, &param, ece)?;
        }
        NOTHING
    }

    /// Asks for a connection (`cma_connect_ib`).
    fn send_req(
        &mut self,
        cx: &mut Cx<'_>,
        key: Key,
        ends: Ends,
        param: &ConnParam,
        ece: Ece,
    ) -> Result<()> {
        let private_data = ends.private_data(&param.private_data)?;
        let (local_comm_id, transaction) = self.begin_connection(cx, key, ends, param)?;
        let id = self.ids.id(key)?;
        let usual = wire::req();
        let req = Req {
            local_comm_id,
            vendor_id: ece.vendor_id,
            service_id: ends.service_id(),
            local_ca_guid: id.node_guid(),
            local_qpn: Qpn::new(param.qp_num),
            responder_resources: param.responder_resources,
            initiator_depth: param.initiator_depth,
            flow_control: param.flow_control & 1 != 0,
            starting_psn: id.psn,
            retry_count: three_bits(param.retry_count),
            mtu: id.path_mtu(),
            rnr_retry_count: three_bits(param.rnr_retry_count),
            srq: param.srq != 0,
            primary: Path {
                local_gid: Sockaddr::Ip(ends.src).gid(),
                remote_gid: Sockaddr::Ip(ends.dst).gid(),
                flow_label: id.flow_label,
                traffic_class: id.type_of_service,
                ack_timeout: ack_timeout(ACK_DELAY, id.packet_life_time()),
                ..usual.primary
            },
            private_data,
            ..usual
        };
        let envelope = Envelope {
            ece_options: ece.attr_mod,
            ends: Some(ends),
            ..Envelope::new(transaction, req)
        };
        self.send_until_answered(cx, key, envelope);
        Ok(())
    }

    /// `cm_req_handler`
    pub(super) fn received_req(
        &mut self,
        cx: &mut Cx<'_>,
        from: Peer,
        req: &Req,
        envelope: &Envelope,
    ) {
        let Some(ends) = envelope.ends else { return };
        let remote = RemoteId { peer: from, is_datagram: false, comm_id: req.local_comm_id };
        if let Some(key) = self.connections.asked_by(remote) {
            if let Some(state) =
                self.ids.connection_state(key).filter(|&state| state != ConnectionState::Over)
            {
                return self.duplicate_req(cx, key, state, req);
            }
        }
        if self.connections.is_in_timewait(remote) {
            return;
        }
        let remote_qp = RemoteQp::new(from, req.local_ca_guid, req.local_qpn);
        if self.end_stale(cx, remote_qp) {
            return self.messages.refuse_req(cx, from, req, reason::STALE_CONNECTION);
        }
        let Some(listener) = self.listener(cx.host, ends) else {
            return self.wait_for_listener(cx, remote, envelope);
        };
        let Some(id) = self.ids.get(listener) else { return };
        if id.is_datagram {
            return self.messages.refuse_req(cx, from, req, reason::CONSUMER_DEFINED);
        }
        if let Peer::Remote { own, .. } = from {
            if req.mtu > cx.host.path_mtu(own) {
                return self.messages.refuse_req(cx, from, req, reason::INVALID_MTU);
            }
        }
        // It is lost without a trace if there is no room, and comes again later.
        if id.backlog > 0 {
            let ece = Ece { vendor_id: req.vendor_id, attr_mod: envelope.ece_options };
            let _ = self.take_req(cx, listener, remote, (req, ends), ece);
        }
    }

    /// A request has come again (`cm_dup_req_handler`).
    fn duplicate_req(&mut self, cx: &mut Cx<'_>, key: Key, state: ConnectionState, req: &Req) {
        let Ok(connection) = self.ids.connection_mut(key) else { return };
        let (peer, local_id) = (connection.peer, connection.local_id);
        connection.asked += 1;
        match state {
            ConnectionState::ReqReceived => {
                connection.answered += 1;
                self.send_mra(cx, peer, (local_id, req.local_comm_id), Answered::Req);
            }
            ConnectionState::TimeWait => {
                self.messages.refuse_req(cx, peer, req, reason::STALE_CONNECTION)
            }
            ConnectionState::RepSent => self.send_again(key),
            _ => {}
        }
    }

    fn send_mra(
        &mut self,
        cx: &mut Cx<'_>,
        peer: Peer,
        (local_comm_id, remote_comm_id): (CommId, CommId),
        answered: Answered,
    ) {
        let mra = Mra {
            local_comm_id,
            remote_comm_id,
            answered,
            service_timeout: SERVICE_TIMEOUT,
            ..Mra::default()
        };
        self.messages.send(peer, Envelope::new(cx.transaction, mra));
    }

    /// A request that there is room for becomes an id and an event of the listener.
    fn take_req(
        &mut self,
        cx: &mut Cx<'_>,
        listener: Key,
        remote: RemoteId,
        (req, ends): (&Req, Ends),
        ece: Ece,
    ) -> Result<()> {
        let key = self.new_request(cx, listener, remote, ends, ConnectionState::ReqReceived)?;
        let id = self.ids.id_mut(key)?;
        id.has_path = true;
        id.path_mtu = Some(req.mtu);
        id.flow_label = req.primary.flow_label;
        let connection = self.ids.connection_mut(key)?;
        connection.asked = 1;
        connection.remote_qpn = req.local_qpn;
        connection.sq_psn = req.starting_psn;
        // The requests that one end may send at a time are those that the other has to serve.
        connection.responder_resources = req.initiator_depth;
        connection.initiator_depth = req.responder_resources;
        connection.retry_count = req.retry_count;
        connection.rnr_retry_count = req.rnr_retry_count;
        connection.path_mtu = req.mtu;
        // The way back takes as long: `cm_format_paths_from_req`.
        connection.ack_timeout = req.primary.ack_timeout.max(1);
        let param = ConnParam {
            qp_num: req.local_qpn.into(),
            private_data: wire::program_data(&req.private_data),
            srq: u8::from(req.srq),
            responder_resources: req.initiator_depth,
            initiator_depth: req.responder_resources,
            flow_control: u8::from(req.flow_control),
            retry_count: req.retry_count,
            rnr_retry_count: req.rnr_retry_count,
            ..ConnParam::default()
        };
        let event = event_type::CONNECT_REQUEST;
        let event = Event { event, param: Param::Conn(param), ece, ..Event::default() };
        self.hold_remote_qp(RemoteQp::new(remote.peer, req.local_ca_guid, req.local_qpn), key);
        self.push_request(listener, key, event);
        Ok(())
    }

    pub(super) fn accept(&mut self, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Vec<u8>> {
        let request = Accept::decode(call.payload)?;
        let key = self.ids.find_with_device(call.file, request.id)?;
        let id = self.ids.id(key)?;
        ensure(id.state == State::Connect, id.state.refusal())?;
        let is_valid = request.param.valid != 0;
        let outcome = match (id.is_datagram, is_valid) {
            (true, _) => self.accept_service(key, &request.param, is_valid),
            (false, true) => self.send_rep(cx, key, &request.param, request.ece),
            (false, false) => self.send_rtu(cx, key),
        };
        if let Err(error) = outcome {
            // A failed accept rejects the request, as the kernel does.
            if self.ids.id(key)?.is_datagram {
                let _ = self.reject_service(key, &[]);
            } else {
                let _ = self.send_rej(key, reason::CONSUMER_DEFINED, &[]);
            }
            return Err(error);
        }
        if is_valid {
            self.ids.id_mut(key)?.uid = request.uid;
        }
        NOTHING
    }

    /// Accepts a request (`cma_accept_ib`).
    fn send_rep(&mut self, cx: &mut Cx<'_>, key: Key, param: &ConnParam, ece: Ece) -> Result<()> {
        let private_data = wire::private_data(&param.private_data)?;
        let is_asked = self.ids.connection_state(key) == Some(ConnectionState::ReqReceived);
        ensure(is_asked, Errno::EINVAL.because(Refusal::NoRequestToAccept))?;
        let id = self.ids.id(key)?;
        let (starting_psn, local_ca_guid) = (id.psn, id.node_guid());
        let connection = self.ids.connection_mut(key)?;
        connection.state = ConnectionState::RepSent;
        connection.qpn = Qpn::new(param.qp_num);
        connection.responder_resources = param.responder_resources;
        connection.initiator_depth = param.initiator_depth;
        let rep = Rep {
            local_comm_id: connection.local_id,
            remote_comm_id: connection.remote_id,
            local_qpn: connection.qpn,
            starting_psn,
            responder_resources: param.responder_resources,
            initiator_depth: param.initiator_depth,
            rnr_retry_count: three_bits(param.rnr_retry_count),
            flow_control: param.flow_control & 1 != 0,
            srq: param.srq != 0,
            local_ca_guid,
            private_data,
            ..wire::rep(ece)
        };
        let envelope =
            Envelope { ece_options: ece.attr_mod, ..Envelope::new(connection.transaction, rep) };
        self.send_until_answered(cx, key, envelope);
        Ok(())
    }

    /// `cm_rep_handler`
    pub(super) fn received_rep(
        &mut self,
        cx: &mut Cx<'_>,
        from: Peer,
        rep: &Rep,
        ece_options: u32,
    ) {
        let active = self.connection_of(from, rep.remote_comm_id, CommId::NONE);
        let Some(key) =
            active.filter(|key| self.ids.connection_state(*key) == Some(ConnectionState::ReqSent))
        else {
            return self.duplicate_rep(cx, from, rep);
        };
        let remote_qp = RemoteQp::new(from, rep.local_ca_guid, rep.local_qpn);
        if self.end_stale(cx, remote_qp) {
            return self.refuse_rep(cx, from, rep);
        }
        self.is_answered(key);
        self.hold_remote_qp(remote_qp, key);
        let Ok(connection) = self.ids.connection_mut(key) else { return };
        connection.state = ConnectionState::RepReceived;
        connection.remote_id = rep.local_comm_id;
        connection.remote_qpn = rep.local_qpn;
        connection.sq_psn = rep.starting_psn;
        connection.responder_resources = rep.initiator_depth;
        connection.initiator_depth = rep.responder_resources;
        connection.rnr_retry_count = rep.rnr_retry_count;
        let param = ConnParam {
            qp_num: rep.local_qpn.into(),
            private_data: rep.private_data.to_vec(),
            srq: u8::from(rep.srq),
            responder_resources: rep.initiator_depth,
            initiator_depth: rep.responder_resources,
            flow_control: u8::from(rep.flow_control),
            rnr_retry_count: rep.rnr_retry_count,
            ..ConnParam::default()
        };
        let ece = Ece { vendor_id: rep.vendor_id.0, attr_mod: ece_options };
        self.push_with(key, event_type::CONNECT_RESPONSE, 0, Param::Conn(param), ece);
    }

    /// A reply names a queue pair that has another connection.
    fn refuse_rep(&mut self, cx: &mut Cx<'_>, from: Peer, rep: &Rep) {
        let rej = Rej {
            local_comm_id: rep.remote_comm_id,
            remote_comm_id: rep.local_comm_id,
            rejected: Answered::Rep,
            reason: reason::STALE_CONNECTION,
            ..Rej::default()
        };
        self.messages.send(from, Envelope::new(cx.transaction, rej));
    }

    /// A reply has come again (`cm_dup_rep_handler`): what it got was lost, or is not decided.
    fn duplicate_rep(&mut self, cx: &mut Cx<'_>, from: Peer, rep: &Rep) {
        let ids = (rep.remote_comm_id, rep.local_comm_id);
        let Some(key) = self.connection_of(from, ids.0, ids.1) else { return };
        match self.ids.connection_state(key) {
            Some(ConnectionState::RepReceived) => self.send_mra(cx, from, ids, Answered::Rep),
            Some(ConnectionState::Established) => {
                let (local_comm_id, remote_comm_id) = ids;
                let rtu = Rtu { local_comm_id, remote_comm_id, ..Rtu::default() };
                self.messages.send(from, Envelope::new(cx.transaction, rtu));
            }
            _ => {}
        }
    }

    /// The active side is ready to use the connection (`cma_rep_recv`).
    fn send_rtu(&mut self, cx: &mut Cx<'_>, key: Key) -> Result<()> {
        let is_answered = self.ids.connection_state(key) == Some(ConnectionState::RepReceived);
        ensure(is_answered, Errno::EINVAL.because(Refusal::NoReplyToConfirm))?;
        let connection = self.ids.connection_mut(key)?;
        connection.state = ConnectionState::Established;
        let (peer, transaction) = (connection.peer, connection.transaction);
        let rtu = Rtu {
            local_comm_id: connection.local_id,
            remote_comm_id: connection.remote_id,
            ..Rtu::default()
        };
        let envelope = Envelope::new(transaction, rtu);
        self.repeat_unless_heard(cx, key, &envelope);
        self.messages.send(peer, envelope);
        Ok(())
    }

    /// `cm_rtu_handler`
    pub(super) fn received_rtu(&mut self, from: Peer, rtu: &Rtu) {
        if let Some(key) = self.connection_of(from, rtu.remote_comm_id, rtu.local_comm_id) {
            if self.ids.connection_state(key) == Some(ConnectionState::RepSent) {
                self.is_answered(key);
                self.ids.set_connection_state(key, ConnectionState::Established);
                self.push(key, event_type::ESTABLISHED, 0);
            }
        }
    }

    /// NOTIFY: the queue pair has seen something that the connection manager has not.
    pub(super) fn notify(&mut self, _: &mut Cx<'_>, call: &Call<'_>) -> Result<Vec<u8>> {
        /// `IB_EVENT_COMM_EST`: a message has come before the "ready to use".
        const COMM_EST: u32 = 4;
        let request = Notify::decode(call.payload)?;
        let key = self.ids.find_with_device(call.file, request.id)?;
        match (request.event, self.ids.connection_state(key)) {
            (COMM_EST, Some(ConnectionState::RepSent)) => {
                self.is_answered(key);
                self.ids.set_connection_state(key, ConnectionState::Established);
                self.push(key, event_type::ESTABLISHED, 0);
                NOTHING
            }
            (COMM_EST, Some(ConnectionState::Established)) => {
                Err(Errno::EISCONN.because(Refusal::EstablishedAlready))
            }
            (COMM_EST, _) => Err(Errno::EINVAL.because(Refusal::NoReplyWaits)),
            _ => Err(Errno::EINVAL.because(Refusal::OnlyCommEst)),
        }
    }
}
