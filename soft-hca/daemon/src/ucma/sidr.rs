//! Datagram services: a program asks for the queue pair behind a port (service id resolution,
//! SIDR). There is no connection afterwards.

use std::net::SocketAddr;

use soft_hca_core::errno::{Errno, Result, ensure};
use soft_hca_core::uapi::ucma::{
    ConnParam, Ece, Event, Param, UDP_QKEY, UdParam, event_type, private_data, sidr,
};

use super::connect::{Stage, check_private_data, padded};
use super::id::Key;
use super::message::{CommId, Message, SidrRep, SidrReq};
use super::peer::{Peer, RemoteId};
use super::{Cm, Cx};

impl Cm {
    pub(super) fn send_sidr_req(
        &mut self,
        cx: &mut Cx<'_>,
        key: Key,
        (src, dst): (SocketAddr, SocketAddr),
        private_data: Vec<u8>,
    ) {
        let (Ok(id), Ok(connection)) = (self.id(key), self.connection(key)) else { return };
        let (space, request_id) = (id.space, connection.local_id);
        let req = SidrReq { request_id, space, src, dst, private_data };
        self.send_until_answered(cx, key, Message::SidrReq(req));
    }

    /// Whoever has asked goes away. A request that still waits for a listener goes, too.
    pub(super) fn take_back_sidr_req(&mut self, key: Key) {
        if let Ok(connection) = self.connection(key) {
            if connection.peer == Peer::Local {
                let comm_id = connection.local_id;
                self.forget_early(RemoteId { peer: Peer::Local, is_datagram: true, comm_id });
            }
        }
    }

    /// `cm_sidr_req_handler`
    pub(super) fn received_sidr_req(&mut self, cx: &mut Cx<'_>, from: Peer, req: SidrReq) {
        let remote = RemoteId { peer: from, is_datagram: true, comm_id: req.request_id };
        let before = self.asked_by(remote).and_then(|key| self.stage(key));
        if before == Some(Stage::ServiceRequestReceived) {
            return;
        }
        let Some(listener) = self.listener(cx.host, req.space, req.dst) else {
            return self.wait_for_listener(cx, remote, Message::SidrReq(req));
        };
        let is_welcome = self.ids.get(&listener).is_some_and(|id| id.is_datagram && id.backlog > 0);
        // Other than a connection's, a request that there is no room for is refused.
        if !is_welcome || self.take_sidr_req(cx, listener, remote, &req).is_err() {
            self.refuse_sidr_req(cx, from, &req, sidr::REJECT);
        }
    }

    /// A request that there is room for becomes an id and an event of the listener.
    fn take_sidr_req(
        &mut self,
        cx: &mut Cx<'_>,
        listener: Key,
        remote: RemoteId,
        req: &SidrReq,
    ) -> Result<()> {
        let (ends, stage) = ((req.src, req.dst), Stage::ServiceRequestReceived);
        let key = self.new_request(cx, listener, remote, ends, stage)?;
        let room = private_data::SIDR_REQ - private_data::IP_HEADER;
        let private_data = padded(&req.private_data, room);
        let param = Param::Ud(UdParam { private_data, ..UdParam::default() });
        let event = Event { event: event_type::CONNECT_REQUEST, param, ..Event::default() };
        self.push_request(listener, key, event);
        Ok(())
    }

    /// Tells whoever has asked which queue pair it is.
    pub(super) fn accept_service(
        &mut self,
        cx: &mut Cx<'_>,
        key: Key,
        param: ConnParam,
        is_valid: bool,
    ) -> Result<()> {
        let (qpn, data) = if is_valid { (param.qp_num, param.private_data) } else { (0, vec![]) };
        self.send_sidr_rep(cx, key, 0, (qpn, UDP_QKEY), data)
    }

    pub(super) fn reject_service(
        &mut self,
        cx: &mut Cx<'_>,
        key: Key,
        data: Vec<u8>,
    ) -> Result<()> {
        self.send_sidr_rep(cx, key, sidr::REJECT, (0, 0), data)
    }

    fn send_sidr_rep(
        &mut self,
        cx: &mut Cx<'_>,
        key: Key,
        status: i32,
        (qpn, qkey): (u32, u32),
        private_data: Vec<u8>,
    ) -> Result<()> {
        check_private_data(private_data.len(), private_data::SIDR_REP)?;
        let is_asked = self.stage(key) == Some(Stage::ServiceRequestReceived);
        ensure(is_asked, Errno::EINVAL.because("there is no request to answer"))?;
        let connection = self.connection_mut(key)?;
        connection.stage = Stage::Over;
        connection.qpn = qpn;
        let (peer, transaction) = (connection.peer, connection.transaction);
        let rep = SidrRep {
            request_id: connection.remote_id,
            status,
            service_id: connection.service_id,
            qpn,
            qkey,
            private_data,
        };
        self.send(cx, peer, transaction, Message::SidrRep(rep));
        Ok(())
    }

    /// `cm_sidr_rep_handler`
    pub(super) fn received_sidr_rep(&mut self, cx: &Cx<'_>, from: Peer, rep: &SidrRep) {
        let Some(key) = self.connection_of(from, rep.request_id, CommId::NONE) else { return };
        if !self.service_answered(key) {
            return;
        }
        let mut param = UdParam {
            private_data: padded(&rep.private_data, private_data::SIDR_REP),
            ..UdParam::default()
        };
        let event = if rep.status == 0 {
            (param.qp_num, param.qkey) = (rep.qpn, rep.qkey);
            param.ah_attr = self.ah_attr(cx.host, key).ok();
            event_type::ESTABLISHED
        } else {
            event_type::UNREACHABLE
        };
        self.push_with(key, event, rep.status, Param::Ud(param), Ece::default());
    }

    pub(super) fn service_unknown(&mut self, key: Key) {
        if self.service_answered(key) {
            self.push(key, event_type::UNREACHABLE, -Errno::ETIMEDOUT.number());
        }
    }

    /// Ends a request; false if it had ended before.
    fn service_answered(&mut self, key: Key) -> bool {
        let is_waiting = self.stage(key) == Some(Stage::ServiceRequestSent);
        if is_waiting {
            self.is_answered(key);
            self.set_stage(key, Stage::Over);
        }
        is_waiting
    }
}
