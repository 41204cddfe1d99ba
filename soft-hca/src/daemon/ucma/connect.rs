//! Connections: request, acceptance, "ready to use", rejection.
//!
//! A message between the two ends is a call that changes the other end and queues its event.
//! Functions named `..._received` are the receiving ends, the kernel's handlers in `cm.c` and
//! `cma.c`.

use super::id::{Key, State};
use super::timer::{LISTENER_NS, MAX_RETRIES, RESPONSE_NS, Timer};
use super::{Call, Cm, Cx, NOTHING};
use crate::errno::{Errno, Result};
use crate::uapi::ucma::{
    Accept, ConnParam, Connect, Ece, Event, Notify, Param, Reject, UdParam, event_type,
    private_data, reject, sidr,
};

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
    /// The other end, while it is there.
    pub peer: Option<Key>,
    pub qpn: u32,
    pub remote_qpn: u32,
    /// The first packet number to send.
    pub sq_psn: u32,
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub retry_count: u8,
    pub rnr_retry_count: u8,
    /// What was asked for; only the side that was asked has it.
    pub service_id: u64,
    /// The request, kept until it is answered.
    pub request: Option<Box<(ConnParam, Ece)>>,
    /// How often the request was sent again.
    pub retries: u32,
}

impl Connection {
    pub(super) fn new(stage: Stage, qpn: u32) -> Self {
        Self {
            stage,
            peer: None,
            qpn,
            remote_qpn: 0,
            sq_psn: 0,
            responder_resources: 0,
            initiator_depth: 0,
            retry_count: 0,
            rnr_retry_count: 0,
            service_id: 0,
            request: None,
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

    pub(super) fn peer(&self, key: Key) -> Option<Key> {
        let peer = self.ids.get(&key)?.connection.as_ref()?.peer?;
        self.ids.contains_key(&peer).then_some(peer)
    }

    pub(super) fn connection_mut(&mut self, key: Key) -> Result<&mut Connection> {
        self.id_mut(key)?.connection.as_mut().ok_or(Errno::EINVAL)
    }

    pub(super) fn connect(&mut self, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Vec<u8>> {
        let Connect { id: number, param, ece } = Connect::decode(call.payload)?;
        if param.valid == 0 {
            return Err(Errno::EINVAL);
        }
        let key = self.find_with_device(call.file, number)?;
        let id = self.id_mut(key)?;
        if id.state != State::RouteResolved {
            return Err(Errno::EINVAL);
        }
        let room = if id.is_datagram { private_data::SIDR_REQ } else { private_data::REQ };
        if param.private_data.len() > room - private_data::IP_HEADER {
            return Err(Errno::EINVAL);
        }
        let stage = if id.is_datagram { Stage::ServiceRequestSent } else { Stage::RequestSent };
        let mut connection = Connection::new(stage, param.qp_num);
        connection.responder_resources = param.responder_resources;
        connection.initiator_depth = param.initiator_depth;
        connection.retry_count = three_bits(param.retry_count);
        connection.request = Some(Box::new((param, ece)));
        id.connection = Some(connection);
        id.state = State::Connect;
        self.send_to_listener(cx, key);
        NOTHING
    }

    /// Brings a request to whoever listens for it, or has it wait for somebody.
    fn send_to_listener(&mut self, cx: &mut Cx<'_>, key: Key) {
        match (self.listener_for(key), self.stage(key)) {
            (None, _) => {
                self.set_timer(key, cx.now_ns.saturating_add(LISTENER_NS), Timer::Listener);
            }
            (Some(listener), Some(Stage::ServiceRequestSent)) => {
                self.send_service_request(cx, key, listener);
            }
            (Some(listener), _) => self.send_request(cx, key, listener),
        }
    }

    /// Somebody has begun to listen: requests that wait for that are brought to their listeners.
    pub(super) fn listener_came(&mut self, cx: &mut Cx<'_>) {
        let waits = |key: &Key| {
            self.ids.get(key).is_some_and(|id| matches!(id.timer, Some((_, Timer::Listener))))
        };
        let waiting = self.timers.iter().map(|(_, key)| *key).filter(waits);
        for key in waiting.collect::<Vec<_>>() {
            if self.listener_for(key).is_some() {
                self.cancel_timer(key);
                self.send_to_listener(cx, key);
            }
        }
    }

    pub(super) fn nobody_listens(&mut self, key: Key) {
        if self.stage(key) == Some(Stage::ServiceRequestSent) {
            self.service_refused(key, sidr::UNSUPPORTED, &[]);
        } else {
            self.reject_received(key, reject::INVALID_SERVICE_ID, &[]);
        }
    }

    fn send_request(&mut self, cx: &mut Cx<'_>, key: Key, listener: Key) {
        let Some(id) = self.ids.get(&listener) else { return };
        if id.is_datagram {
            return self.reject_received(key, reject::CONSUMER_DEFINED, &[]);
        }
        if id.backlog == 0 || self.request_received(cx, listener, key).is_err() {
            // It is lost without a trace, and comes again later.
            self.set_timer(key, cx.now_ns.saturating_add(RESPONSE_NS), Timer::Request);
        }
    }

    pub(super) fn request_again(&mut self, cx: &mut Cx<'_>, key: Key) {
        let Ok(connection) = self.connection_mut(key) else { return };
        if connection.retries == MAX_RETRIES {
            connection.stage = Stage::Over;
            return self.push(key, event_type::UNREACHABLE, -Errno::ETIMEDOUT.0);
        }
        connection.retries += 1;
        self.send_to_listener(cx, key);
    }

    pub(super) fn listener_for(&self, key: Key) -> Option<Key> {
        let id = self.ids.get(&key)?;
        self.listener(id.space, id.dst?.ip()?)
    }

    /// Makes the id of a request, on the listener's side.
    pub(super) fn new_request(
        &mut self,
        cx: &mut Cx<'_>,
        listener: Key,
        from: Key,
        stage: Stage,
    ) -> Result<Key> {
        let (file, kind) = {
            let id = self.id(listener)?;
            (id.file, (id.space, id.is_datagram))
        };
        let request = self.new_id(cx, file, kind, 0)?;
        let asking = self.id(from)?;
        let (src, dst) = (asking.dst, asking.src);
        let (flow_label, peer_psn) = (asking.flow_label, asking.psn);
        let source = src.and_then(|src| src.ip()).and_then(|ip| cx.host.find_source(ip.ip()));
        let id = self.id_mut(request)?;
        (id.src, id.dst, id.flow_label) = (src, dst, flow_label);
        id.source = source;
        id.state = State::Connect;
        let mut connection = Connection::new(stage, 0);
        connection.peer = Some(from);
        connection.sq_psn = peer_psn;
        connection.service_id = id.space.service_id(src.map_or(0, |src| src.port()));
        id.connection = Some(connection);
        self.id_mut(listener)?.backlog -= 1;
        self.connection_mut(from)?.peer = Some(request);
        Ok(request)
    }

    /// A request has come to a listener with room for it.
    fn request_received(&mut self, cx: &mut Cx<'_>, listener: Key, from: Key) -> Result<()> {
        let sent = self.connection_mut(from)?.request.clone().ok_or(Errno::EINVAL)?;
        let (sent, ece) = *sent;
        let request = self.new_request(cx, listener, from, Stage::RequestReceived)?;
        self.id_mut(request)?.has_path = true;
        let connection = self.connection_mut(request)?;
        connection.remote_qpn = sent.qp_num;
        // What one end asks of the other is what the other has to serve.
        connection.responder_resources = sent.initiator_depth;
        connection.initiator_depth = sent.responder_resources;
        connection.retry_count = three_bits(sent.retry_count);
        connection.rnr_retry_count = three_bits(sent.rnr_retry_count);
        let param = ConnParam {
            qp_num: sent.qp_num,
            private_data: padded(&sent.private_data, private_data::REQ - private_data::IP_HEADER),
            srq: u8::from(sent.srq != 0),
            responder_resources: sent.initiator_depth,
            initiator_depth: sent.responder_resources,
            flow_control: sent.flow_control,
            retry_count: three_bits(sent.retry_count),
            rnr_retry_count: three_bits(sent.rnr_retry_count),
            ..ConnParam::default()
        };
        let event = event_type::CONNECT_REQUEST;
        let event = Event { event, param: Param::Conn(param), ece, ..Event::default() };
        self.push_request(listener, request, event);
        Ok(())
    }

    pub(super) fn accept(&mut self, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Vec<u8>> {
        let request = Accept::decode(call.payload)?;
        let key = self.find_with_device(call.file, request.id)?;
        let id = self.id(key)?;
        if id.state != State::Connect {
            return Err(Errno::EINVAL);
        }
        let is_valid = request.param.valid != 0;
        let outcome = match (id.is_datagram, is_valid) {
            (true, _) => self.accept_service(key, &request.param, is_valid),
            (false, true) => self.send_reply(key, &request.param, request.ece),
            (false, false) => self.establish(key),
        };
        if let Err(error) = outcome {
            // Whoever cannot accept has said no.
            if self.id(key)?.is_datagram {
                let _ = self.reject_service(key, &[]);
            } else {
                let _ = self.send_reject(cx, key, reject::CONSUMER_DEFINED, &[]);
            }
            return Err(error);
        }
        if is_valid {
            self.id_mut(key)?.uid = request.uid;
        }
        NOTHING
    }

    /// Accepts a request (`cma_accept_ib`).
    fn send_reply(&mut self, key: Key, param: &ConnParam, ece: Ece) -> Result<()> {
        if param.private_data.len() > private_data::REP
            || self.stage(key) != Some(Stage::RequestReceived)
        {
            return Err(Errno::EINVAL);
        }
        let peer = self.peer(key).ok_or(Errno::EINVAL)?;
        let psn = self.id(key)?.psn;
        let connection = self.connection_mut(key)?;
        connection.stage = Stage::ReplySent;
        connection.qpn = param.qp_num;
        connection.responder_resources = param.responder_resources;
        connection.initiator_depth = param.initiator_depth;

        self.cancel_timer(peer);
        let connection = self.connection_mut(peer)?;
        connection.stage = Stage::ReplyReceived;
        connection.request = None;
        connection.remote_qpn = param.qp_num;
        connection.sq_psn = psn;
        connection.responder_resources = param.initiator_depth;
        connection.initiator_depth = param.responder_resources;
        connection.rnr_retry_count = three_bits(param.rnr_retry_count);
        let param = ConnParam {
            qp_num: param.qp_num,
            private_data: padded(&param.private_data, private_data::REP),
            srq: u8::from(param.srq != 0),
            responder_resources: param.initiator_depth,
            initiator_depth: param.responder_resources,
            flow_control: param.flow_control,
            rnr_retry_count: three_bits(param.rnr_retry_count),
            ..ConnParam::default()
        };
        self.push_with(peer, event_type::CONNECT_RESPONSE, 0, Param::Conn(param), ece);
        Ok(())
    }

    /// The side that has asked is ready to use the connection (`cma_rep_recv`).
    fn establish(&mut self, key: Key) -> Result<()> {
        if self.stage(key) != Some(Stage::ReplyReceived) {
            return Err(Errno::EINVAL);
        }
        self.set_stage(key, Stage::Established);
        if let Some(peer) = self.peer(key)
            && self.stage(peer) == Some(Stage::ReplySent)
        {
            self.set_stage(peer, Stage::Established);
            self.push(peer, event_type::ESTABLISHED, 0);
        }
        Ok(())
    }

    /// NOTIFY: the queue pair has seen something that the connection manager has not.
    pub(super) fn notify(&mut self, _: &mut Cx<'_>, call: &Call<'_>) -> Result<Vec<u8>> {
        /// `IB_EVENT_COMM_EST`: a message has come before the "ready to use".
        const COMM_EST: u32 = 4;
        let request = Notify::decode(call.payload)?;
        let key = self.find_with_device(call.file, request.id)?;
        match (request.event, self.stage(key)) {
            (COMM_EST, Some(Stage::ReplySent)) => {
                self.set_stage(key, Stage::Established);
                self.push(key, event_type::ESTABLISHED, 0);
                NOTHING
            }
            (COMM_EST, Some(Stage::Established)) => Err(Errno(libc::EISCONN)),
            _ => Err(Errno::EINVAL),
        }
    }

    pub(super) fn reject(&mut self, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Vec<u8>> {
        let request = Reject::decode(call.payload)?;
        let reason = match u32::from(request.reason) {
            0 | reject::CONSUMER_DEFINED => reject::CONSUMER_DEFINED,
            reject::VENDOR_OPTION_NOT_SUPPORTED => reject::VENDOR_OPTION_NOT_SUPPORTED,
            _ => return Err(Errno::EINVAL),
        };
        let key = self.find_with_device(call.file, request.id)?;
        if self.id(key)?.is_datagram {
            self.reject_service(key, &request.private_data)?;
        } else {
            self.send_reject(cx, key, reason, &request.private_data)?;
        }
        NOTHING
    }

    /// Refuses or gives up what is not established yet (`ib_send_cm_rej`).
    pub(super) fn send_reject(
        &mut self,
        cx: &mut Cx<'_>,
        key: Key,
        reason: u32,
        data: &[u8],
    ) -> Result<()> {
        let is_pending = matches!(
            self.stage(key),
            Some(
                Stage::RequestSent
                    | Stage::RequestReceived
                    | Stage::ReplySent
                    | Stage::ReplyReceived
            )
        );
        if data.len() > private_data::REJ || !is_pending {
            return Err(Errno::EINVAL);
        }
        self.cancel_timer(key);
        self.set_stage(key, Stage::Over);
        let connection = self.connection_mut(key)?;
        if connection.qpn != 0 {
            cx.host.qp_gone(connection.qpn);
        }
        if let Some(peer) = self.peer(key) {
            self.reject_received(peer, reason, data);
        }
        Ok(())
    }

    /// The other end does not want or has never been there.
    fn reject_received(&mut self, key: Key, reason: u32, data: &[u8]) {
        self.cancel_timer(key);
        let Ok(connection) = self.connection_mut(key) else { return };
        connection.stage = Stage::Over;
        connection.peer = None;
        connection.request = None;
        let private_data = padded(data, private_data::REJ);
        let param = ConnParam { private_data, ..ConnParam::default() };
        let (event, status) = (event_type::REJECTED, reason as i32);
        self.push_with(key, event, status, Param::Conn(param), Ece::default());
    }
}

/// An event of a datagram service that was refused.
pub(super) fn refusal(data: &[u8]) -> Param {
    let private_data = padded(data, private_data::SIDR_REP);
    Param::Ud(UdParam { private_data, ..UdParam::default() })
}
