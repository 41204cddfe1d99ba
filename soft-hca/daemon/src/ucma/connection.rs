//! Connections, as an id has them.

use soft_hca_core::errno::{Errno, Refusal};
use soft_hca_roce::wire::bth::{Psn, Qpn};
use soft_hca_roce::wire::cm::CommId;

use super::peer::{Peer, RemoteQp};
use super::timer::ACK_TIMEOUT;
use super::wire::Envelope;

pub(super) const NO_CONNECTION: Errno = Errno::EINVAL.because(Refusal::IdWithoutConnection);

/// How far a connection has come (`enum ib_cm_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionState {
    ReqSent,
    ReqReceived,
    RepSent,
    RepReceived,
    Established,
    DreqSent,
    DreqReceived,
    TimeWait,
    SidrReqSent,
    SidrReqReceived,
    /// Nothing comes after: rejected, refused, or a datagram service that is known.
    Over,
}

impl ConnectionState {
    /// Whether there is, or was, a connection.
    pub(super) fn has_been_connected(self) -> bool {
        matches!(self, Self::Established | Self::DreqSent | Self::DreqReceived | Self::TimeWait)
    }
}

/// An id's part of a connection that it has requested, or that was requested of it (a `cm_id_private`).
#[derive(Clone, Debug)]
pub(super) struct Connection {
    pub state: ConnectionState,
    pub peer: Peer,
    /// The communication id of this side.
    pub local_id: CommId,
    /// The communication id of the other side, once that is known.
    pub remote_id: CommId,
    /// 0 if the program has named none.
    pub qpn: Qpn,
    pub remote_qpn: Qpn,
    /// The first packet number to send.
    pub sq_psn: Psn,
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub retry_count: u8,
    pub rnr_retry_count: u8,
    pub path_mtu: u8,
    /// Of the queue pair, unless the program has chosen one: 4.096 us times two to the power of
    /// this.
    pub ack_timeout: u8,
    /// The requested service; only the passive side has it.
    pub service_id: u64,
    /// This is the active side, which has sent the request.
    pub is_active: bool,
    /// The other side's queue pair, if that is another host.
    pub remote_qp: Option<RemoteQp>,
    /// Of the messages that this side sends next.
    pub transaction: u64,
    /// The last message sent, until it is answered.
    pub unanswered: Option<Box<Envelope>>,
    /// How many times that was sent again.
    pub retries: u8,
    /// How often the other side has asked, and how often it was answered; only the passive side
    /// counts.
    pub asked: u32,
    pub answered: u32,
    /// Whether the other side has sent something that only our answer can have told it.
    pub is_heard: bool,
}

impl Connection {
    pub(super) fn new(state: ConnectionState, peer: Peer, local_id: CommId) -> Self {
        Self {
            state,
            peer,
            local_id,
            remote_id: CommId::NONE,
            qpn: Qpn::default(),
            remote_qpn: Qpn::default(),
            sq_psn: Psn::default(),
            responder_resources: 0,
            initiator_depth: 0,
            retry_count: 0,
            rnr_retry_count: 0,
            path_mtu: 0,
            ack_timeout: ACK_TIMEOUT,
            service_id: 0,
            is_active: false,
            remote_qp: None,
            transaction: 0,
            unanswered: None,
            retries: 0,
            asked: 0,
            answered: 0,
            is_heard: false,
        }
    }
}

/// Retry counts have three bits.
pub(super) fn three_bits(count: u8) -> u8 {
    count.min(7)
}
