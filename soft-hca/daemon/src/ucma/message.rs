//! The connection manager's messages as values, with the names of the IBTA specification
//! (volume 1, chapter 12). How they lie in a datagram is a matter of [`wire`](super::wire).
//!
//! An end is known by its communication id, and each message names the ends as its sender sees
//! them: `local` is the sender, `remote` the receiver, unknown until the sender has heard of it.
//! A connection between the ids 7 and 9:
//!
//! ```text
//!   asking side, 7                             asked side, 9
//!   RequestSent        REQ (7, -) ---------->  listener found: RequestReceived
//!                     (REQ again ----------->  still undecided
//!                       <------- MRA (9, 7)    "wait")
//!   ReplyReceived      <--------- REP (9, 7)   accept: ReplySent
//!   establish          RTU (7, 9) ---------->  Established
//!   Established
//!   disconnect         DREQ (7, 9) --------->  DisconnectReceived
//!   DisconnectSent
//!   TimeWait           <-------- DREP (9, 7)   disconnect: TimeWait
//! ```
//!
//! A REJ instead of REP or RTU ends it early. A REQ is retried until something answers it. A
//! service request is one question, SIDR_REQ, and one answer, SIDR_REP.
//!
//! Private data is the program's. What the IP port spaces put before it in REQ and SIDR_REQ
//! (the kernel's `struct cma_hdr`) are `src` and `dst`. RTU, DREQ and DREP have room for private
//! data, which the connection manager gives programs no way to fill.

use std::net::SocketAddr;

use soft_hca_core::uapi::ucma::Ece;

use super::id::Space;

/// A communication id: names one end of a connection to the other end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct CommId(pub u32);

impl CommId {
    /// An end that is not known yet.
    pub(super) const NONE: Self = Self(0);
}

/// Which message a MRA or REJ answers (`enum cm_msg_response`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    Req,
    Rep,
    Other,
}

/// A REJ's reason: the connection asked for is one of the past.
pub(super) const STALE_CONNECTION: u32 = 10;
/// A REJ's reason: the packets that the sender would send are too long.
pub(super) const INVALID_MTU: u32 = 26;

/// Request for communication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Req {
    pub local_comm_id: CommId,
    pub space: Space,
    pub src: SocketAddr,
    /// With the service's port.
    pub dst: SocketAddr,
    pub local_gid: [u8; 16],
    pub remote_gid: [u8; 16],
    pub ca_guid: u64,
    pub qpn: u32,
    /// The first packet number that the receiver is to send.
    pub starting_psn: u32,
    /// Reads and atomics that the sender serves at once.
    pub responder_resources: u8,
    /// Reads and atomics that the sender has outstanding.
    pub initiator_depth: u8,
    /// Three bits.
    pub retry_count: u8,
    /// Three bits.
    pub rnr_retry_count: u8,
    /// As the program has it; a datagram has one bit for it.
    pub flow_control: u8,
    pub srq: bool,
    /// Of the path, as all below (`ib_mtu`).
    pub path_mtu: u8,
    /// 4.096 us times two to the power of this.
    pub ack_timeout: u8,
    /// 20 bits.
    pub flow_label: u32,
    pub traffic_class: u8,
    pub ece: Ece,
    pub private_data: Vec<u8>,
}

/// Message receipt acknowledgement: an answer will take a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mra {
    pub local_comm_id: CommId,
    pub remote_comm_id: CommId,
    pub message: Answered,
    /// How long: 4.096 us times two to the power of this.
    pub service_timeout: u8,
}

/// Reject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rej {
    pub local_comm_id: CommId,
    pub remote_comm_id: CommId,
    pub rejected: Answered,
    /// One of [`reject`](soft_hca_core::uapi::ucma::reject).
    pub reason: u32,
    /// Additional reject information; its meaning depends on the reason.
    pub ari: Vec<u8>,
    pub private_data: Vec<u8>,
}

/// Reply to a request for communication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rep {
    pub local_comm_id: CommId,
    pub remote_comm_id: CommId,
    pub ca_guid: u64,
    pub qpn: u32,
    /// The first packet number that the receiver is to send.
    pub starting_psn: u32,
    /// Reads and atomics that the sender serves at once.
    pub responder_resources: u8,
    /// Reads and atomics that the sender has outstanding.
    pub initiator_depth: u8,
    /// Three bits.
    pub rnr_retry_count: u8,
    /// As the program has it; a datagram has one bit for it.
    pub flow_control: u8,
    pub srq: bool,
    pub ece: Ece,
    pub private_data: Vec<u8>,
}

/// Ready to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rtu {
    pub local_comm_id: CommId,
    pub remote_comm_id: CommId,
}

/// Disconnection request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dreq {
    pub local_comm_id: CommId,
    pub remote_comm_id: CommId,
    /// The receiver's queue pair.
    pub remote_qpn: u32,
}

/// Reply to a disconnection request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Drep {
    pub local_comm_id: CommId,
    pub remote_comm_id: CommId,
}

/// Service id resolution request: which queue pair serves a port?
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SidrReq {
    pub request_id: CommId,
    pub space: Space,
    pub src: SocketAddr,
    /// With the service's port.
    pub dst: SocketAddr,
    pub private_data: Vec<u8>,
}

/// Service id resolution response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SidrRep {
    pub request_id: CommId,
    /// One of [`sidr`](soft_hca_core::uapi::ucma::sidr), 0 if there is one.
    pub status: i32,
    pub service_id: u64,
    pub qpn: u32,
    pub qkey: u32,
    pub private_data: Vec<u8>,
}

/// Any of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    Req(Req),
    Mra(Mra),
    Rej(Rej),
    Rep(Rep),
    Rtu(Rtu),
    Dreq(Dreq),
    Drep(Drep),
    SidrReq(SidrReq),
    SidrRep(SidrRep),
}
