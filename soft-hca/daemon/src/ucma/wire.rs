//! Messages with what goes beside them, and the management datagrams that they become between
//! hosts. [`soft_hca_roce::wire::cm`] has the layout of a datagram.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use soft_hca_core::errno::{Errno, Refusal, Result};
use soft_hca_core::uapi::ucma::{AhAttr, Ece};
use soft_hca_roce::transport::attributes::Mtu;
use soft_hca_roce::wire::bth::DEFAULT_PKEY;
use soft_hca_roce::wire::cm::{
    self, Answered, CmaHeader, Message, NO_LID, Path, PrivateData, Rej, Rep, RepVendorId, Req,
    SidrRep, SidrReq, reason, sidr_status,
};
use soft_hca_roce::wire::ip::{self, Addresses};
use soft_hca_roce::wire::mad::{MAD_BYTES, Mad};

use super::id::Space;
use super::timer::{ACK_DELAY, MAX_RETRIES, RESPONSE_TIMEOUT};

/// `IB_RATE_10_GBPS`
const RATE: u8 = 3;

const PRIVATE_DATA: Errno = Errno::EINVAL.because(Refusal::PrivateData);

/// A message and what a datagram has beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Envelope {
    /// An answer has that of what it answers.
    pub transaction: u64,
    /// A vendor's options for its own protocol (ECE), with REQ and REP: the attribute modifier.
    pub ece_options: u32,
    /// Of a request.
    pub ends: Option<Ends>,
    pub message: Message,
}

impl Envelope {
    /// For a message that needs nothing else.
    pub(super) fn new(transaction: u64, message: impl Into<Message>) -> Self {
        Self { transaction, ece_options: 0, ends: None, message: message.into() }
    }
}

/// The service that a request is for, and both addresses: its service id, and the addresses that the IP port spaces
/// put before the program's data. Those of a request that stays on this machine have their scopes,
/// too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub space: Space,
    pub src: SocketAddr,
    /// With the service's port.
    pub dst: SocketAddr,
}

impl Ends {
    pub(super) fn service_id(&self) -> u64 {
        self.space.service_id(self.dst.port())
    }

    /// The addresses and the program's data.
    pub(super) fn private_data<const N: usize>(&self, data: &[u8]) -> Result<PrivateData<N>> {
        let addresses = match (self.src.ip(), self.dst.ip()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => Addresses::V4 { source, destination },
            (source, destination) => {
                Addresses::V6 { source: in_v6(source), destination: in_v6(destination) }
            }
        };
        let header = CmaHeader { source_port: self.src.port(), addresses };
        PrivateData::behind(&header, data)
            .ok_or_else(|| too_long(data, N.saturating_sub(CmaHeader::BYTES)))
    }

    /// Those of a request for a service; `None` unless the header has the addresses of the packet.
    fn of<const N: usize>(
        (space, port): (Space, u16),
        data: &PrivateData<N>,
        (from, to): (IpAddr, IpAddr),
    ) -> Option<Self> {
        let (CmaHeader { source_port, addresses }, _) = data.split_header()?;
        let (source, destination): (IpAddr, IpAddr) = match addresses {
            Addresses::V4 { source, destination } => (source.into(), destination.into()),
            Addresses::V6 { source, destination } => (source.into(), destination.into()),
        };
        let is_of_packet = source.to_canonical() == from.to_canonical()
            && destination.to_canonical() == to.to_canonical();
        let src = SocketAddr::new(source, source_port);
        is_of_packet.then(|| Self { space, src, dst: SocketAddr::new(destination, port) })
    }
}

fn in_v6(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

fn too_long(data: &[u8], room: usize) -> Errno {
    PRIVATE_DATA.beyond(data.len() as u64, room as u64)
}

/// The program's data for a message, refused if it has no room for them.
pub(super) fn private_data<const N: usize>(data: &[u8]) -> Result<PrivateData<N>> {
    PrivateData::new(data).ok_or_else(|| too_long(data, N))
}

/// The program's data behind the addresses of a request.
pub(super) fn program_data<const N: usize>(data: &PrivateData<N>) -> Vec<u8> {
    data.get(CmaHeader::BYTES..).unwrap_or_default().to_vec()
}

/// The fields that every REQ of the connection manager has alike.
pub(super) fn req() -> Req {
    Req {
        remote_response_timeout: RESPONSE_TIMEOUT,
        transport: cm::transport::RC,
        local_response_timeout: RESPONSE_TIMEOUT,
        pkey: DEFAULT_PKEY,
        max_cm_retries: MAX_RETRIES,
        primary: Path {
            local_lid: NO_LID,
            remote_lid: NO_LID,
            rate: RATE,
            hop_limit: AhAttr::HOP_LIMIT,
            ..Path::default()
        },
        ..Req::default()
    }
}

/// The fields that every REP of the connection manager has alike, and the vendor that its options are of.
pub(super) fn rep(ece: Ece) -> Rep {
    let vendor_id = RepVendorId(ece.vendor_id);
    Rep { vendor_id, target_ack_delay: ACK_DELAY, ..Rep::default() }
}

/// The rejection of a request that no id was made for.
pub(super) fn refused_req(req: &Req, reason: u16) -> Rej {
    let remote_comm_id = req.local_comm_id;
    Rej { remote_comm_id, rejected: Answered::Req, reason, ..Rej::default() }
}

/// The refusal of a datagram service that no id was made for.
pub(super) fn refused_sidr_req(req: &SidrReq, status: u8) -> SidrRep {
    let SidrReq { request_id, service_id, .. } = *req;
    SidrRep { request_id, status, service_id, ..SidrRep::default() }
}

/// Why a datagram has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoMessage {
    /// It is ignored.
    Dropped(&'static str),
    /// A request that is answered by this.
    Refused(Box<Envelope>),
}

/// Space and port of a service id. The space of IPoIB has no connections.
fn service(service_id: u64) -> Option<(Space, u16)> {
    let (space, port) = cm::port(service_id)?;
    let space = Space::from_number(space).ok().filter(|space| *space != Space::Ipoib)?;
    Some((space, port))
}

/// The datagram of a message.
pub(super) fn encode(envelope: &Envelope) -> [u8; MAD_BYTES] {
    let mut mad = envelope.message.encode(envelope.transaction);
    mad.header.modifier = envelope.ece_options;
    mad.encode()
}

/// The message of a datagram that has come from one address to another.
pub(super) fn decode(
    bytes: &[u8; MAD_BYTES],
    packet: (IpAddr, IpAddr),
) -> Result<Envelope, NoMessage> {
    let mad = Mad::decode(bytes).ok_or(NoMessage::Dropped("a wrong length"))?;
    let message = Message::decode(&mad).map_err(|error| {
        NoMessage::Dropped(match error {
            cm::NoMessage::Class => "another class",
            cm::NoMessage::AlternatePath(_) => "alternate paths are not used",
            cm::NoMessage::Attribute(_) => "an unknown attribute",
            _ => "no message",
        })
    })?;
    let transaction = mad.header.transaction;
    let refused =
        |answer: Message| NoMessage::Refused(Box::new(Envelope::new(transaction, answer)));
    let ends = match &message {
        Message::Req(req) => {
            let ends = ends_of_req(req, packet);
            Some(ends.map_err(|reason| refused(refused_req(req, reason).into()))?)
        }
        Message::SidrReq(req) => {
            let ends = ends_of_sidr_req(req, packet);
            Some(ends.map_err(|status| refused(refused_sidr_req(req, status).into()))?)
        }
        _ => None,
    };
    Ok(Envelope { transaction, ece_options: mad.header.modifier, ends, message })
}

/// The ends of a request for a connection, or the reason to reject it.
fn ends_of_req(req: &Req, (from, to): (IpAddr, IpAddr)) -> Result<Ends, u16> {
    let service = service(req.service_id).ok_or(reason::INVALID_SERVICE_ID)?;
    if (req.transport, req.extended_transport) != (cm::transport::RC, 0) {
        return Err(reason::CONSUMER_DEFINED);
    }
    let gids = (ip::gid(from.to_canonical()), ip::gid(to.to_canonical()));
    if (req.primary.local_gid, req.primary.remote_gid) != gids {
        return Err(reason::INVALID_GID);
    }
    Mtu::from_code(req.mtu).ok_or(reason::INVALID_MTU)?;
    Ends::of(service, &req.private_data, (from, to)).ok_or(reason::CONSUMER_DEFINED)
}

/// The ends of a request for a datagram service, or the status to refuse it with.
fn ends_of_sidr_req(req: &SidrReq, packet: (IpAddr, IpAddr)) -> Result<Ends, u8> {
    let service = service(req.service_id).ok_or(sidr_status::UNSUPPORTED)?;
    Ends::of(service, &req.private_data, packet).ok_or(sidr_status::REJECT)
}
