//! Datagram services: a program asks for the queue pair behind a port (service id resolution,
//! SIDR). There is no connection afterwards.

use soft_hca_core::errno::{Errno, Refusal, Result, ensure};
use soft_hca_core::uapi::ucma::{ConnParam, Ece, Event, Param, UDP_QKEY, UdParam, event_type};
use soft_hca_roce::wire::bth::{DEFAULT_PKEY, Qpn};
use soft_hca_roce::wire::cm::{CommId, SidrRep, SidrReq, sidr_status};

use super::cm::Cm;
use super::connection::ConnectionState;
use super::host::Cx;
use super::id::Key;
use super::peer::{Peer, RemoteId};
use super::wire::{self, Ends, Envelope};

impl Cm {
    pub(super) fn send_sidr_req(
        &mut self,
        cx: &mut Cx<'_>,
        key: Key,
        ends: Ends,
        param: &ConnParam,
    ) -> Result<()> {
        let private_data = ends.private_data(&param.private_data)?;
        let (request_id, transaction) = self.begin_connection(cx, key, ends, param)?;
        let service_id = ends.service_id();
        let req = SidrReq { request_id, pkey: DEFAULT_PKEY, service_id, private_data };
        let envelope = Envelope { ends: Some(ends), ..Envelope::new(transaction, req) };
        self.send_until_answered(cx, key, envelope);
        Ok(())
    }

    /// The id that has asked is destroyed. Its request, if it waits for a listener, goes as well.
    pub(super) fn take_back_sidr_req(&mut self, key: Key) {
        if let Ok(connection) = self.ids.connection(key) {
            if connection.peer == Peer::Local {
                let comm_id = connection.local_id;
                self.pending.take(
                    &mut self.timers,
                    RemoteId { peer: Peer::Local, is_datagram: true, comm_id },
                );
            }
        }
    }

    /// `cm_sidr_req_handler`
    pub(super) fn received_sidr_req(
        &mut self,
        cx: &mut Cx<'_>,
        from: Peer,
        req: &SidrReq,
        envelope: &Envelope,
    ) {
        let Some(ends) = envelope.ends else { return };
        let remote = RemoteId { peer: from, is_datagram: true, comm_id: req.request_id };
        let before =
            self.connections.asked_by(remote).and_then(|key| self.ids.connection_state(key));
        if before == Some(ConnectionState::SidrReqReceived) {
            return;
        }
        let Some(listener) = self.listener(cx.host, ends) else {
            return self.wait_for_listener(cx, remote, envelope);
        };
        let is_welcome = self.ids.get(listener).is_some_and(|id| id.is_datagram && id.backlog > 0);
        // Other than a connection's, a request that there is no room for is refused.
        if !is_welcome || self.take_sidr_req(cx, listener, remote, (req, ends)).is_err() {
            self.messages.refuse_sidr_req(cx, from, req, sidr_status::REJECT);
        }
    }

    /// A request that there is room for becomes an id and an event of the listener.
    fn take_sidr_req(
        &mut self,
        cx: &mut Cx<'_>,
        listener: Key,
        remote: RemoteId,
        (req, ends): (&SidrReq, Ends),
    ) -> Result<()> {
        let state = ConnectionState::SidrReqReceived;
        let key = self.new_request(cx, listener, remote, ends, state)?;
        let private_data = wire::program_data(&req.private_data);
        let param = Param::Ud(UdParam { private_data, ..UdParam::default() });
        let event = Event { event: event_type::CONNECT_REQUEST, param, ..Event::default() };
        self.push_request(listener, key, event);
        Ok(())
    }

    /// Answers with the queue pair that takes datagrams.
    pub(super) fn accept_service(
        &mut self,
        key: Key,
        param: &ConnParam,
        is_valid: bool,
    ) -> Result<()> {
        let (qpn, data) =
            if is_valid { (param.qp_num, param.private_data.as_slice()) } else { (0, &[][..]) };
        let rep = SidrRep { qpn: Qpn::new(qpn), qkey: UDP_QKEY, ..SidrRep::default() };
        self.send_sidr_rep(key, rep, data)
    }

    pub(super) fn reject_service(&mut self, key: Key, data: &[u8]) -> Result<()> {
        let rep = SidrRep { status: sidr_status::REJECT, ..SidrRep::default() };
        self.send_sidr_rep(key, rep, data)
    }

    fn send_sidr_rep(&mut self, key: Key, rep: SidrRep, data: &[u8]) -> Result<()> {
        let private_data = wire::private_data(data)?;
        let is_asked = self.ids.connection_state(key) == Some(ConnectionState::SidrReqReceived);
        ensure(is_asked, Errno::EINVAL.because(Refusal::NoRequestToAnswer))?;
        let connection = self.ids.connection_mut(key)?;
        connection.state = ConnectionState::Over;
        connection.qpn = rep.qpn;
        let (peer, transaction) = (connection.peer, connection.transaction);
        let (request_id, service_id) = (connection.remote_id, connection.service_id);
        let rep = SidrRep { request_id, service_id, private_data, ..rep };
        self.messages.send(peer, Envelope::new(transaction, rep));
        Ok(())
    }

    /// `cm_sidr_rep_handler`
    pub(super) fn received_sidr_rep(&mut self, cx: &Cx<'_>, from: Peer, rep: &SidrRep) {
        let Some(key) = self.connection_of(from, rep.request_id, CommId::NONE) else { return };
        if !self.service_answered(key) {
            return;
        }
        let private_data = rep.private_data.to_vec();
        let mut param = UdParam { private_data, ..UdParam::default() };
        let event = if rep.status == sidr_status::SUCCESS {
            (param.qp_num, param.qkey) = (rep.qpn.into(), rep.qkey);
            param.ah_attr = self.ah_attr(cx.host, key).ok();
            event_type::ESTABLISHED
        } else {
            event_type::UNREACHABLE
        };
        self.push_with(key, event, rep.status.into(), Param::Ud(param), Ece::default());
    }

    pub(super) fn service_unknown(&mut self, key: Key) {
        if self.service_answered(key) {
            self.push(key, event_type::UNREACHABLE, -Errno::ETIMEDOUT.number());
        }
    }

    /// Ends a request; false if it had ended before.
    fn service_answered(&mut self, key: Key) -> bool {
        let is_waiting = self.ids.connection_state(key) == Some(ConnectionState::SidrReqSent);
        if is_waiting {
            self.is_answered(key);
            self.ids.set_connection_state(key, ConnectionState::Over);
        }
        is_waiting
    }
}
