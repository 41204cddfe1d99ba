//! Datagram services: a program asks for the queue pair behind a port (service id resolution,
//! SIDR). There is no connection afterwards.

use super::connect::{Stage, padded, refusal};
use super::id::Key;
use super::timer::{GIVE_UP_NS, Timer};
use super::{Cm, Cx};
use crate::errno::{Errno, Result};
use crate::uapi::ucma::{
    ConnParam, Ece, Event, Param, UDP_QKEY, UdParam, event_type, private_data, sidr,
};

impl Cm {
    /// Brings a request to its listener.
    pub(super) fn send_service_request(&mut self, cx: &mut Cx<'_>, key: Key, listener: Key) {
        let is_welcome = self.ids.get(&listener).is_some_and(|id| id.is_datagram && id.backlog > 0);
        // Other than a connection's, a request that there is no room for is refused.
        if !is_welcome || self.service_request_received(cx, listener, key).is_err() {
            return self.service_refused(key, sidr::REJECT, &[]);
        }
        self.set_timer(key, cx.now_ns.saturating_add(GIVE_UP_NS), Timer::Service);
    }

    fn service_request_received(
        &mut self,
        cx: &mut Cx<'_>,
        listener: Key,
        from: Key,
    ) -> Result<()> {
        let sent = self.connection_mut(from)?.request.take().ok_or(Errno::EINVAL)?;
        let request = self.new_request(cx, listener, from, Stage::ServiceRequestReceived)?;
        let room = private_data::SIDR_REQ - private_data::IP_HEADER;
        let private_data = padded(&sent.0.private_data, room);
        let param = Param::Ud(UdParam { private_data, ..UdParam::default() });
        let event = Event { event: event_type::CONNECT_REQUEST, param, ..Event::default() };
        self.push_request(listener, request, event);
        Ok(())
    }

    /// Tells whoever has asked which queue pair it is.
    pub(super) fn accept_service(
        &mut self,
        key: Key,
        param: &ConnParam,
        is_valid: bool,
    ) -> Result<()> {
        let data: &[u8] = if is_valid { &param.private_data } else { &[] };
        if data.len() > private_data::SIDR_REP
            || self.stage(key) != Some(Stage::ServiceRequestReceived)
        {
            return Err(Errno::EINVAL);
        }
        let connection = self.connection_mut(key)?;
        connection.stage = Stage::Over;
        if is_valid {
            connection.qpn = param.qp_num;
        }
        let qp_num = connection.qpn;
        let Some(peer) = self.peer(key) else { return Ok(()) };
        if !self.service_answered(peer) {
            return Ok(());
        }
        let param = UdParam {
            qp_num,
            qkey: UDP_QKEY,
            ah_attr: Some(self.ah_attr(peer)?),
            private_data: padded(data, private_data::SIDR_REP),
        };
        let event = event_type::ESTABLISHED;
        self.push_with(peer, event, 0, Param::Ud(param), Ece::default());
        Ok(())
    }

    pub(super) fn reject_service(&mut self, key: Key, data: &[u8]) -> Result<()> {
        if data.len() > private_data::SIDR_REP
            || self.stage(key) != Some(Stage::ServiceRequestReceived)
        {
            return Err(Errno::EINVAL);
        }
        self.set_stage(key, Stage::Over);
        if let Some(peer) = self.peer(key) {
            self.service_refused(peer, sidr::REJECT, data);
        }
        Ok(())
    }

    pub(super) fn service_refused(&mut self, key: Key, status: i32, data: &[u8]) {
        if self.service_answered(key) {
            let event = event_type::UNREACHABLE;
            self.push_with(key, event, status, refusal(data), Ece::default());
        }
    }

    pub(super) fn service_unknown(&mut self, key: Key) {
        if self.service_answered(key) {
            self.push(key, event_type::UNREACHABLE, -Errno::ETIMEDOUT.0);
        }
    }

    /// Ends a request; false if it had ended before.
    fn service_answered(&mut self, key: Key) -> bool {
        let is_waiting = self.stage(key) == Some(Stage::ServiceRequestSent);
        if is_waiting {
            self.cancel_timer(key);
            self.set_stage(key, Stage::Over);
        }
        is_waiting
    }
}
