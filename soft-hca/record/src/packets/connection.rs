//! The connection manager's messages for the calls that cause them: queue pair 1 to queue pair 1.
//!
//! ```text
//!  rdma_connect       REQ  --------->  RDMA_CM_EVENT_CONNECT_REQUEST
//!                     <--------- REP   rdma_accept
//!  rdma_accept        RTU  --------->  RDMA_CM_EVENT_ESTABLISHED        (or REJ)
//!  rdma_disconnect    DREQ --------->  RDMA_CM_EVENT_DISCONNECTED
//!                     <-------- DREP   rdma_disconnect
//! ```
//!
//! Datagrams have SIDR_REQ and SIDR_REP instead. The order of a connection's sides is who asks, who
//! is asked.

use std::collections::HashMap;
use std::net::SocketAddr;

use soft_hca_roce::wire::bth::{DEFAULT_PKEY, Psn};
use soft_hca_roce::wire::cm::{self, CmaHeader, Message};
use soft_hca_roce::wire::ip::{Addresses, gid};

use super::hosts::{Host, Hosts};
use super::queue_pair::QueuePairs;
use super::values::{argument_number, argument_text, number, result};
use crate::entry::{Call, ConnectionEvent, Entry, Outcome, What};

/// A message of the connection manager, which is to be sent.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) t: u64,
    pub(super) from: Host,
    pub(super) to: Host,
    pub(super) message: Message,
    pub(super) transaction: u64,
    pub(super) comment: String,
}

/// A process and its id.
type Id = (u32, u32);

/// What calls have said of an id.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    is_datagram: bool,
    local: Option<SocketAddr>,
    remote: Option<SocketAddr>,
    /// Index of the connection, and which side of it this is.
    connection: Option<(usize, usize)>,
}

#[derive(Debug)]
struct Connection {
    t: u64,
    /// The asker; the other one has to be found.
    sides: [Option<Id>; 2],
    qps: [Option<u32>; 2],
    known: Known,
    /// Of `rdma_connect`.
    parameters: Parameters,
    is_asked: bool,
    is_answered: bool,
    is_established: bool,
    /// The side that has sent a DREQ.
    leaves: Option<usize>,
    is_left: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Parameters {
    responder_resources: u8,
    initiator_depth: u8,
    retry_count: u8,
    rnr_retry_count: u8,
}

impl Parameters {
    fn of(call: &Call) -> Self {
        let number = |name| argument_number(call, name).unwrap_or_default() as u8;
        Self {
            responder_resources: number("responder_resources"),
            initiator_depth: number("initiator_depth"),
            retry_count: number("retry_count"),
            rnr_retry_count: number("rnr_retry_count"),
        }
    }
}

/// 4.096 us times two to the power of it: how long answers may take, as the kernel has it.
const RESPONSE_TIMEOUT: u8 = 20;
const MAX_CM_RETRIES: u8 = 15;
const ACK_TIMEOUT: u8 = 18;
const HOP_LIMIT: u8 = 64;
/// The first port that nobody is given.
const ANY_PORT: u16 = 0xc000;

/// All connections of a record.
#[derive(Debug)]
pub(super) struct Connections<'a> {
    hosts: &'a Hosts,
    /// As they are at the end.
    qps: &'a QueuePairs,
    ids: HashMap<Id, Known>,
    connections: Vec<Connection>,
    sent: Vec<Sent>,
}

impl<'a> Connections<'a> {
    /// The messages that a record's calls would have sent.
    pub(super) fn messages(hosts: &'a Hosts, qps: &'a QueuePairs, entries: &[Entry]) -> Vec<Sent> {
        let (ids, connections, sent) = Default::default();
        let mut all = Connections { hosts, qps, ids, connections, sent };
        for entry in entries {
            match &entry.what {
                What::Call(call) if matches!(call.result, Outcome::Done(_)) => {
                    all.call(entry.t, entry.process, call);
                }
                What::ConnectionEvent(event) => all.event(entry.t, entry.process, event),
                What::ProcessEnded => {
                    let ids = all.ids.keys().filter(|id| id.0 == entry.process).copied();
                    let mut ids = ids.collect::<Vec<_>>();
                    ids.sort_unstable();
                    ids.into_iter().for_each(|id| all.leave(entry.t, id));
                }
                _ => {}
            }
        }
        // Nobody took the request, or nobody recorded it.
        for index in 0..all.connections.len() {
            all.ask(index);
        }
        all.sent
    }

    fn call(&mut self, t: u64, process: u32, call: &Call) {
        let address = |name| argument_text(call, name).and_then(|text| text.parse().ok());
        if call.name == "rdma_create_id" {
            if let Some(id) = result(call, "id").and_then(number) {
                let is_datagram = argument_text(call, "ps") == Some("RDMA_PS_UDP");
                self.ids.insert((process, id), Known { is_datagram, ..Known::default() });
            }
            return;
        }
        let Some(id) = argument_number(call, "id").map(|id| (process, id)) else { return };
        let known = self.ids.entry(id).or_default();
        match &call.name[..] {
            "rdma_bind_addr" => known.local = address("addr"),
            "rdma_resolve_addr" => {
                known.local = address("src_addr").or(known.local);
                known.remote = address("dst_addr");
            }
            "rdma_connect" => {
                known.connection = Some((self.connections.len(), 0));
                let qp = argument_number(call, "qp_num").filter(|qp| *qp != 0);
                self.connections.push(Connection {
                    t,
                    sides: [Some(id), None],
                    qps: [qp, None],
                    known: *known,
                    parameters: Parameters::of(call),
                    is_asked: false,
                    is_answered: false,
                    is_established: false,
                    leaves: None,
                    is_left: false,
                });
            }
            "rdma_accept" => match known.connection {
                Some((index, 0)) => self.establish(t, index),
                Some((index, _)) => self.accept(t, index, call),
                None => {}
            },
            "rdma_reject" => {
                if let Some((index, 1)) = known.connection {
                    self.reject(t, index, cm::reason::CONSUMER_DEFINED);
                }
            }
            "rdma_disconnect" => self.leave(t, id),
            "rdma_destroy_id" => {
                self.leave(t, id);
                self.ids.remove(&id);
            }
            _ => {}
        }
    }

    fn event(&mut self, t: u64, process: u32, event: &ConnectionEvent) {
        let id = (process, event.id);
        let connection = self.ids.get(&id).and_then(|known| known.connection);
        match (&event.event[..], connection) {
            ("RDMA_CM_EVENT_CONNECT_REQUEST", _) => self.requested(id, event),
            ("RDMA_CM_EVENT_ESTABLISHED", Some((index, _))) => self.establish(t, index),
            ("RDMA_CM_EVENT_REJECTED", Some((index, 0))) => {
                let reason = u16::try_from(event.status);
                self.reject(t, index, reason.unwrap_or(cm::reason::CONSUMER_DEFINED));
            }
            // What the side that has left first waits for.
            ("RDMA_CM_EVENT_DISCONNECTED", Some((index, side)))
                if self.connections[index].leaves == Some(side) =>
            {
                self.left(t, index);
            }
            _ => {}
        }
    }

    /// A listener has got a request: the oldest of that queue pair, or of any.
    fn requested(&mut self, id: Id, event: &ConnectionEvent) {
        let listener = event.listen_id.and_then(|listener| self.ids.get(&(id.0, listener)));
        let listens_at = listener.and_then(|listener| listener.local).map(|local| local.port());
        let is_meant = |connection: &Connection| {
            let port = connection.known.remote.map(|remote| remote.port());
            let fits = connection.qps[0].is_none_or(|qp| event.qp.is_none_or(|of| of == qp))
                && port.is_none_or(|port| listens_at.is_none_or(|of| of == port));
            connection.sides[1].is_none() && !connection.is_answered && fits
        };
        let Some(index) = self.connections.iter().position(is_meant) else { return };
        let connection = &mut self.connections[index];
        connection.sides[1] = Some(id);
        connection.qps[0] = connection.qps[0].or(event.qp);
        let known = Known { connection: Some((index, 1)), ..Known::default() };
        self.ids.insert(id, known);
        self.ask(index);
    }

    /// A side as a host.
    fn host(&self, index: usize, side: usize) -> Host {
        self.connections[index].sides[side].map_or(Host::Unknown, |id| Host::Process(id.0))
    }

    fn send(&mut self, t: u64, index: usize, side: usize, what: &str, message: Message) {
        let (from, to) = (self.host(index, side), self.host(index, 1 - side));
        let who = match self.connections[index].sides[side] {
            Some((process, id)) => format!("{}, cm_id {id}", self.hosts.name(process)),
            None => "nobody in the record".into(),
        };
        let comment = format!("{who}: {what}");
        // A DREQ and its answer are another transaction.
        let is_end = matches!(message, Message::Dreq(_) | Message::Drep(_));
        let transaction = index as u64 * 2 + 1 + u64::from(is_end);
        self.sent.push(Sent { t, from, to, message, transaction, comment });
    }

    /// A side's number for the connection.
    fn comm_id(index: usize, side: usize) -> u32 {
        (index * 2 + side + 1) as u32
    }

    fn guid(&self, index: usize, side: usize) -> u64 {
        match self.host(index, side) {
            // A locally administered one.
            Host::Process(process) => 0x0200_00ff_fe00_0000 + u64::from(process) + 1,
            _ => 0,
        }
    }

    /// The first packet's number that a side expects.
    fn psn(&self, index: usize, side: usize) -> Psn {
        let connection = &self.connections[index];
        let of = |side: usize| connection.qps[side].and_then(|qp| self.qps.get(qp));
        let expected = of(side).and_then(|qp| qp.rq_psn);
        expected.or_else(|| of(1 - side)?.sq_psn).unwrap_or_default()
    }

    /// Sends the request, if that has not been done yet.
    fn ask(&mut self, index: usize) {
        if std::mem::replace(&mut self.connections[index].is_asked, true) {
            return;
        }
        let (from, to) = (self.host(index, 0), self.host(index, 1));
        let Some(flow) = self.hosts.flow(from, to, 0) else { return };
        let connection = &self.connections[index];
        let (t, parameters, known) = (connection.t, connection.parameters, connection.known);
        let header = CmaHeader {
            source_port: known.local.map_or(ANY_PORT, |local| local.port()),
            addresses: flow.addresses,
        };
        let port = known.remote.map_or(0, |remote| remote.port());
        if known.is_datagram {
            let mut request = cm::SidrReq {
                request_id: Self::comm_id(index, 0),
                pkey: DEFAULT_PKEY,
                service_id: cm::service_id(cm::PORT_SPACE_UDP, port),
                ..cm::SidrReq::default()
            };
            request.private_data[..CmaHeader::BYTES].copy_from_slice(&header.encode());
            return self.send(t, index, 0, "SIDR_REQ of rdma_connect", request.into());
        }
        let qp = connection.qps[0];
        let mtu = qp.and_then(|qp| self.qps.get(qp)).map_or(1024, |qp| qp.mtu());
        let has_srq = qp.and_then(|qp| self.qps.get(qp)).is_some_and(|qp| qp.has_srq);
        let (source, destination) = match flow.addresses {
            Addresses::V4 { source, destination } => (source.into(), destination.into()),
            Addresses::V6 { source, destination } => (source.into(), destination.into()),
        };
        let mut request = cm::Req {
            local_comm_id: Self::comm_id(index, 0),
            service_id: cm::service_id(cm::PORT_SPACE_TCP, port),
            local_ca_guid: self.guid(index, 0),
            local_qpn: qp.unwrap_or_default(),
            responder_resources: parameters.responder_resources,
            initiator_depth: parameters.initiator_depth,
            remote_response_timeout: RESPONSE_TIMEOUT,
            transport: cm::transport::RC,
            starting_psn: self.psn(index, 0),
            local_response_timeout: RESPONSE_TIMEOUT,
            retry_count: parameters.retry_count,
            pkey: DEFAULT_PKEY,
            mtu: mtu.ilog2() as u8 - 7,
            rnr_retry_count: parameters.rnr_retry_count,
            max_cm_retries: MAX_CM_RETRIES,
            srq: has_srq,
            primary: cm::Path {
                local_lid: cm::NO_LID,
                remote_lid: cm::NO_LID,
                local_gid: gid(source),
                remote_gid: gid(destination),
                hop_limit: HOP_LIMIT,
                ack_timeout: ACK_TIMEOUT,
                ..cm::Path::default()
            },
            ..cm::Req::default()
        };
        request.private_data[..CmaHeader::BYTES].copy_from_slice(&header.encode());
        self.send(t, index, 0, "REQ of rdma_connect", request.into());
    }

    fn accept(&mut self, t: u64, index: usize, call: &Call) {
        let qp = argument_number(call, "qp_num").filter(|qp| *qp != 0);
        let asked_by = self.connections[index].qps[0].and_then(|qp| self.qps.get(qp));
        let qp = qp.or_else(|| asked_by?.dest_qp);
        let connection = &mut self.connections[index];
        if std::mem::replace(&mut connection.is_answered, true) {
            return;
        }
        connection.qps[1] = qp;
        let has = qp.and_then(|qp| self.qps.get(qp));
        let message = if connection.known.is_datagram {
            let port = connection.known.remote.map_or(0, |remote| remote.port());
            Message::from(cm::SidrRep {
                request_id: Self::comm_id(index, 0),
                status: cm::sidr_status::OK,
                qpn: qp.unwrap_or_default(),
                service_id: cm::service_id(cm::PORT_SPACE_UDP, port),
                qkey: has.and_then(|qp| qp.qkey).unwrap_or_default(),
                ..cm::SidrRep::default()
            })
        } else {
            let parameters = Parameters::of(call);
            Message::from(cm::Rep {
                local_comm_id: Self::comm_id(index, 1),
                remote_comm_id: Self::comm_id(index, 0),
                local_qpn: qp.unwrap_or_default(),
                starting_psn: self.psn(index, 1),
                responder_resources: parameters.responder_resources,
                initiator_depth: parameters.initiator_depth,
                target_ack_delay: ACK_TIMEOUT,
                rnr_retry_count: parameters.rnr_retry_count,
                srq: has.is_some_and(|qp| qp.has_srq),
                local_ca_guid: self.guid(index, 1),
                ..cm::Rep::default()
            })
        };
        let name = if let Message::SidrRep(_) = message { "SIDR_REP" } else { "REP" };
        self.send(t, index, 1, &format!("{name} of rdma_accept"), message);
    }

    fn establish(&mut self, t: u64, index: usize) {
        let connection = &mut self.connections[index];
        if !connection.is_answered
            || connection.known.is_datagram
            || std::mem::replace(&mut connection.is_established, true)
        {
            return;
        }
        let message = cm::Rtu {
            local_comm_id: Self::comm_id(index, 0),
            remote_comm_id: Self::comm_id(index, 1),
            ..cm::Rtu::default()
        };
        self.send(t, index, 0, "RTU: the connection is ready to use", message.into());
    }

    fn reject(&mut self, t: u64, index: usize, reason: u16) {
        self.ask(index);
        if std::mem::replace(&mut self.connections[index].is_answered, true) {
            return;
        }
        let connection = &self.connections[index];
        let message = if connection.known.is_datagram {
            let port = connection.known.remote.map_or(0, |remote| remote.port());
            Message::from(cm::SidrRep {
                request_id: Self::comm_id(index, 0),
                status: cm::sidr_status::REJECT,
                service_id: cm::service_id(cm::PORT_SPACE_UDP, port),
                ..cm::SidrRep::default()
            })
        } else {
            Message::from(cm::Rej {
                remote_comm_id: Self::comm_id(index, 0),
                message: cm::about::REQ,
                reason,
                ..cm::Rej::default()
            })
        };
        let name = if connection.known.is_datagram { "SIDR_REP" } else { "REJ" };
        self.send(t, index, 1, &format!("{name}, rejected"), message);
        // Nothing to be left.
        self.connections[index].is_left = true;
    }

    /// A side disconnects, or is gone.
    fn leave(&mut self, t: u64, id: Id) {
        let Some((index, side)) = self.ids.get(&id).and_then(|known| known.connection) else {
            return;
        };
        let connection = &mut self.connections[index];
        if !connection.is_established {
            return;
        }
        match connection.leaves {
            None => {
                connection.leaves = Some(side);
                let message = cm::Dreq {
                    local_comm_id: Self::comm_id(index, side),
                    remote_comm_id: Self::comm_id(index, 1 - side),
                    remote_qpn: connection.qps[1 - side].unwrap_or_default(),
                    ..cm::Dreq::default()
                };
                self.send(t, index, side, "DREQ: it disconnects", message.into());
            }
            Some(first) if first != side => self.left(t, index),
            Some(_) => {}
        }
    }

    /// The other side has answered.
    fn left(&mut self, t: u64, index: usize) {
        let connection = &mut self.connections[index];
        let Some(first) = connection.leaves else { return };
        if std::mem::replace(&mut connection.is_left, true) {
            return;
        }
        let message = cm::Drep {
            local_comm_id: Self::comm_id(index, 1 - first),
            remote_comm_id: Self::comm_id(index, first),
            ..cm::Drep::default()
        };
        self.send(t, index, 1 - first, "DREP: it has disconnected", message.into());
    }
}
