//! Messages as management datagrams: between the values of [`message`](super::message) and the
//! structs of [`cm`], which lie in a datagram as the specification says.

use std::net::{IpAddr, SocketAddr};

use soft_hca_core::uapi::ucma::{Ece, private_data, sidr};
use soft_hca_roce::wire::bth::{Psn, Qpn};
use soft_hca_roce::wire::cm::{self, CmaHeader, NO_LID, Path, about, reason};
use soft_hca_roce::wire::ip::{self, Addresses};
use soft_hca_roce::wire::mad::{MAD_BYTES, Mad};

use super::id::Space;
use super::message::{
    Answered, CommId, Drep, Dreq, Message, Mra, Rej, Rep, Req, Rtu, SidrRep, SidrReq,
};
use super::query::ACK_DELAY;

/// `CMA_CM_RESPONSE_TIMEOUT`
const RESPONSE_TIMEOUT: u8 = 20;
/// `CMA_MAX_CM_RETRIES`
const MAX_CM_RETRIES: u8 = 15;
const HOP_LIMIT: u8 = 64;
/// `IB_RATE_10_GBPS`
const RATE: u8 = 3;
const DEFAULT_PKEY: u16 = 0xffff;
/// The greatest `ib_mtu`.
const MAX_MTU: u8 = 5;

/// Why a datagram has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoMessage {
    /// Nobody is to know of it.
    Dropped(&'static str),
    /// A request that is answered by this, in its transaction.
    Refused(u64, Box<Message>),
}

/// The first bytes of some data, the rest zeros. No program's data is too long, which its command
/// has checked.
fn filled<const N: usize>(data: &[u8]) -> [u8; N] {
    let mut bytes = [0; N];
    let length = data.len().min(N);
    bytes[..length].copy_from_slice(&data[..length]);
    bytes
}

/// Data without the zeros that fill it up.
fn trimmed(data: &[u8]) -> Vec<u8> {
    let length = data.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    data[..length].to_vec()
}

/// The addresses of a request as they stand before the program's data.
fn with_header<const N: usize>(src: SocketAddr, dst: SocketAddr, data: &[u8]) -> [u8; N] {
    let addresses = match (src.ip(), dst.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Addresses::V4 { source, destination },
        (source, destination) => {
            let v6 = |ip| match ip {
                IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                IpAddr::V6(v6) => v6,
            };
            Addresses::V6 { source: v6(source), destination: v6(destination) }
        }
    };
    let header = CmaHeader { source_port: src.port(), addresses }.encode();
    filled(&[&header, data].concat())
}

/// Both addresses of a request and the program's data. The header has to have the addresses of
/// the packet, `from` and `to`.
fn without_header(
    data: &[u8],
    port: u16,
    (from, to): (IpAddr, IpAddr),
) -> Option<(SocketAddr, SocketAddr, Vec<u8>)> {
    let (header, data) = data.split_first_chunk::<{ private_data::IP_HEADER }>()?;
    let CmaHeader { source_port, addresses } = CmaHeader::decode(header)?;
    let (source, destination): (IpAddr, IpAddr) = match addresses {
        Addresses::V4 { source, destination } => (source.into(), destination.into()),
        Addresses::V6 { source, destination } => (source.into(), destination.into()),
    };
    let is_of_packet = source.to_canonical() == from.to_canonical()
        && destination.to_canonical() == to.to_canonical();
    let ends = (SocketAddr::new(source, source_port), SocketAddr::new(destination, port));
    is_of_packet.then(|| (ends.0, ends.1, trimmed(data)))
}

/// Space and port of a service id. Nobody connects to what carries IP.
fn service(service_id: u64) -> Option<(Space, u16)> {
    let (space, port) = cm::port(service_id)?;
    let space = Space::from_number(space).ok().filter(|space| *space != Space::Ipoib)?;
    Some((space, port))
}

fn about_number(answered: Answered) -> u8 {
    match answered {
        Answered::Req => about::REQ,
        Answered::Rep => about::REP,
        Answered::Other => about::OTHER,
    }
}

fn answered(number: u8) -> Answered {
    match number {
        about::REQ => Answered::Req,
        about::REP => Answered::Rep,
        _ => Answered::Other,
    }
}

/// The datagram of a message.
pub(super) fn encode(message: &Message, transaction: u64) -> [u8; MAD_BYTES] {
    let mut modifier = 0;
    let message: cm::Message = match message {
        Message::Req(req) => {
            modifier = req.ece.attr_mod;
            encode_req(req).into()
        }
        Message::Mra(mra) => cm::Mra {
            local_comm_id: mra.local_comm_id.0,
            remote_comm_id: mra.remote_comm_id.0,
            message: about_number(mra.message),
            service_timeout: mra.service_timeout,
            ..cm::Mra::default()
        }
        .into(),
        Message::Rej(rej) => cm::Rej {
            local_comm_id: rej.local_comm_id.0,
            remote_comm_id: rej.remote_comm_id.0,
            message: about_number(rej.rejected),
            info_length: rej.ari.len() as u8,
            reason: rej.reason as u16,
            info: filled(&rej.ari),
            private_data: filled(&rej.private_data),
        }
        .into(),
        Message::Rep(rep) => {
            modifier = rep.ece.attr_mod;
            encode_rep(rep).into()
        }
        Message::Rtu(rtu) => cm::Rtu {
            local_comm_id: rtu.local_comm_id.0,
            remote_comm_id: rtu.remote_comm_id.0,
            ..cm::Rtu::default()
        }
        .into(),
        Message::Dreq(dreq) => cm::Dreq {
            local_comm_id: dreq.local_comm_id.0,
            remote_comm_id: dreq.remote_comm_id.0,
            remote_qpn: Qpn::new(dreq.remote_qpn),
            ..cm::Dreq::default()
        }
        .into(),
        Message::Drep(drep) => cm::Drep {
            local_comm_id: drep.local_comm_id.0,
            remote_comm_id: drep.remote_comm_id.0,
            ..cm::Drep::default()
        }
        .into(),
        Message::SidrReq(req) => cm::SidrReq {
            request_id: req.request_id.0,
            pkey: DEFAULT_PKEY,
            service_id: req.space.service_id(req.dst.port()),
            private_data: with_header(req.src, req.dst, &req.private_data),
        }
        .into(),
        Message::SidrRep(rep) => cm::SidrRep {
            request_id: rep.request_id.0,
            status: rep.status as u8,
            qpn: Qpn::new(rep.qpn),
            service_id: rep.service_id,
            qkey: rep.qkey,
            private_data: filled(&rep.private_data),
            ..cm::SidrRep::default()
        }
        .into(),
    };
    let mut mad = message.encode(transaction);
    mad.header.modifier = modifier;
    mad.encode()
}

fn encode_req(req: &Req) -> cm::Req {
    cm::Req {
        local_comm_id: req.local_comm_id.0,
        vendor_id: req.ece.vendor_id,
        service_id: req.space.service_id(req.dst.port()),
        local_ca_guid: req.ca_guid,
        local_qpn: Qpn::new(req.qpn),
        responder_resources: req.responder_resources,
        initiator_depth: req.initiator_depth,
        remote_response_timeout: RESPONSE_TIMEOUT,
        transport: cm::transport::RC,
        flow_control: req.flow_control & 1 != 0,
        starting_psn: Psn::new(req.starting_psn),
        local_response_timeout: RESPONSE_TIMEOUT,
        retry_count: req.retry_count,
        pkey: DEFAULT_PKEY,
        mtu: req.path_mtu,
        rnr_retry_count: req.rnr_retry_count,
        max_cm_retries: MAX_CM_RETRIES,
        srq: req.srq,
        primary: Path {
            local_lid: NO_LID,
            remote_lid: NO_LID,
            local_gid: req.local_gid,
            remote_gid: req.remote_gid,
            flow_label: req.flow_label,
            rate: RATE,
            traffic_class: req.traffic_class,
            hop_limit: HOP_LIMIT,
            ack_timeout: req.ack_timeout,
            ..Path::default()
        },
        private_data: with_header(req.src, req.dst, &req.private_data),
        ..cm::Req::default()
    }
}

fn encode_rep(rep: &Rep) -> cm::Rep {
    let [_, high, middle, low] = rep.ece.vendor_id.to_be_bytes();
    cm::Rep {
        local_comm_id: rep.local_comm_id.0,
        remote_comm_id: rep.remote_comm_id.0,
        local_qpn: Qpn::new(rep.qpn),
        vendor_id_low: low,
        vendor_id_middle: middle,
        vendor_id_high: high,
        starting_psn: Psn::new(rep.starting_psn),
        responder_resources: rep.responder_resources,
        initiator_depth: rep.initiator_depth,
        target_ack_delay: ACK_DELAY,
        flow_control: rep.flow_control & 1 != 0,
        rnr_retry_count: rep.rnr_retry_count,
        srq: rep.srq,
        local_ca_guid: rep.ca_guid,
        private_data: filled(&rep.private_data),
        ..cm::Rep::default()
    }
}

/// The message of a datagram that has come from one address to another, and its transaction.
pub(super) fn decode(
    bytes: &[u8; MAD_BYTES],
    packet: (IpAddr, IpAddr),
) -> Result<(u64, Message), NoMessage> {
    let mad = Mad::decode(bytes).ok_or(NoMessage::Dropped("a wrong length"))?;
    let (transaction, modifier) = (mad.header.transaction, mad.header.modifier);
    let message = cm::Message::decode(&mad).map_err(|error| {
        NoMessage::Dropped(match error {
            cm::NoMessage::Class => "another class",
            cm::NoMessage::AlternatePath(_) => "alternate paths are not used",
            cm::NoMessage::Attribute(_) => "an unknown attribute",
        })
    })?;
    let message = match message {
        cm::Message::Req(req) => decode_req(&req, modifier, packet)
            .map_err(|reason| NoMessage::Refused(transaction, refusal(&req, reason)))?,
        cm::Message::Mra(mra) => Message::Mra(Mra {
            local_comm_id: CommId(mra.local_comm_id),
            remote_comm_id: CommId(mra.remote_comm_id),
            message: answered(mra.message),
            service_timeout: mra.service_timeout,
        }),
        cm::Message::Rej(rej) => Message::Rej(Rej {
            local_comm_id: CommId(rej.local_comm_id),
            remote_comm_id: CommId(rej.remote_comm_id),
            rejected: answered(rej.message),
            reason: rej.reason.into(),
            ari: rej.info[..rej.info.len().min(rej.info_length.into())].to_vec(),
            private_data: trimmed(&rej.private_data),
        }),
        cm::Message::Rep(rep) => Message::Rep(decode_rep(&rep, modifier)),
        cm::Message::Rtu(rtu) => Message::Rtu(Rtu {
            local_comm_id: CommId(rtu.local_comm_id),
            remote_comm_id: CommId(rtu.remote_comm_id),
        }),
        cm::Message::Dreq(dreq) => Message::Dreq(Dreq {
            local_comm_id: CommId(dreq.local_comm_id),
            remote_comm_id: CommId(dreq.remote_comm_id),
            remote_qpn: dreq.remote_qpn.get(),
        }),
        cm::Message::Drep(drep) => Message::Drep(Drep {
            local_comm_id: CommId(drep.local_comm_id),
            remote_comm_id: CommId(drep.remote_comm_id),
        }),
        cm::Message::SidrReq(req) => decode_sidr_req(&req, packet)
            .map_err(|status| NoMessage::Refused(transaction, sidr_refusal(&req, status)))?,
        cm::Message::SidrRep(rep) => Message::SidrRep(SidrRep {
            request_id: CommId(rep.request_id),
            status: rep.status.into(),
            service_id: rep.service_id,
            qpn: rep.qpn.get(),
            qkey: rep.qkey,
            private_data: trimmed(&rep.private_data),
        }),
    };
    Ok((transaction, message))
}

/// A request for a connection, or the reason to reject it.
fn decode_req(req: &cm::Req, modifier: u32, (from, to): (IpAddr, IpAddr)) -> Result<Message, u16> {
    let (space, port) = service(req.service_id).ok_or(reason::INVALID_SERVICE_ID)?;
    if (req.transport, req.extended_transport) != (cm::transport::RC, 0) {
        return Err(reason::CONSUMER_DEFINED);
    }
    let path = &req.primary;
    if (path.local_gid, path.remote_gid)
        != (ip::gid(from.to_canonical()), ip::gid(to.to_canonical()))
    {
        return Err(reason::INVALID_GID);
    }
    if !(1..=MAX_MTU).contains(&req.mtu) {
        return Err(reason::INVALID_MTU);
    }
    let (src, dst, private_data) =
        without_header(&req.private_data, port, (from, to)).ok_or(reason::CONSUMER_DEFINED)?;
    Ok(Message::Req(Req {
        local_comm_id: CommId(req.local_comm_id),
        space,
        src,
        dst,
        local_gid: path.local_gid,
        remote_gid: path.remote_gid,
        ca_guid: req.local_ca_guid,
        qpn: req.local_qpn.get(),
        starting_psn: req.starting_psn.get(),
        responder_resources: req.responder_resources,
        initiator_depth: req.initiator_depth,
        retry_count: req.retry_count,
        rnr_retry_count: req.rnr_retry_count,
        flow_control: req.flow_control.into(),
        srq: req.srq,
        path_mtu: req.mtu,
        ack_timeout: path.ack_timeout,
        flow_label: path.flow_label,
        traffic_class: path.traffic_class,
        ece: Ece { vendor_id: req.vendor_id, attr_mod: modifier },
        private_data,
    }))
}

/// The rejection of a request.
fn refusal(req: &cm::Req, reason: u16) -> Box<Message> {
    Box::new(Message::Rej(Rej {
        local_comm_id: CommId::NONE,
        remote_comm_id: CommId(req.local_comm_id),
        rejected: Answered::Req,
        reason: reason.into(),
        ari: Vec::new(),
        private_data: Vec::new(),
    }))
}

fn decode_rep(rep: &cm::Rep, modifier: u32) -> Rep {
    let vendor = [0, rep.vendor_id_high, rep.vendor_id_middle, rep.vendor_id_low];
    Rep {
        local_comm_id: CommId(rep.local_comm_id),
        remote_comm_id: CommId(rep.remote_comm_id),
        ca_guid: rep.local_ca_guid,
        qpn: rep.local_qpn.get(),
        starting_psn: rep.starting_psn.get(),
        responder_resources: rep.responder_resources,
        initiator_depth: rep.initiator_depth,
        rnr_retry_count: rep.rnr_retry_count,
        flow_control: rep.flow_control.into(),
        srq: rep.srq,
        ece: Ece { vendor_id: u32::from_be_bytes(vendor), attr_mod: modifier },
        private_data: trimmed(&rep.private_data),
    }
}

/// A request for a datagram service, or the status to refuse it with.
fn decode_sidr_req(req: &cm::SidrReq, packet: (IpAddr, IpAddr)) -> Result<Message, i32> {
    let (space, port) = service(req.service_id).ok_or(sidr::UNSUPPORTED)?;
    let (src, dst, private_data) =
        without_header(&req.private_data, port, packet).ok_or(sidr::REJECT)?;
    Ok(Message::SidrReq(SidrReq {
        request_id: CommId(req.request_id),
        space,
        src,
        dst,
        private_data,
    }))
}

fn sidr_refusal(req: &cm::SidrReq, status: i32) -> Box<Message> {
    Box::new(Message::SidrRep(SidrRep {
        request_id: CommId(req.request_id),
        status,
        service_id: req.service_id,
        qpn: 0,
        qkey: 0,
        private_data: Vec::new(),
    }))
}
