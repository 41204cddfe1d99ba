//! The other end of a connection.

use std::net::IpAddr;

use soft_hca_roce::wire::bth::Qpn;
use soft_hca_roce::wire::cm::CommId;

/// The connection manager at the other end of a connection, decided on once, when the
/// connection begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Peer {
    /// This one: a message to it is a call.
    Local,
    /// Another host's: messages to it are datagrams, which wait to be fetched.
    Remote {
        /// The address of this host that the other one knows.
        own: IpAddr,
        /// The other one's.
        address: IpAddr,
    },
}

impl Peer {
    /// Whether messages to it may get lost.
    pub(super) fn is_remote(self) -> bool {
        self != Self::Local
    }
}

/// The sender of a request, as far as that tells: a communication id means nothing without its peer.
/// A peer may number its service requests apart from its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct RemoteId {
    pub peer: Peer,
    pub is_datagram: bool,
    pub comm_id: CommId,
}

/// A queue pair of another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct RemoteQp {
    address: IpAddr,
    ca_guid: u64,
    qpn: Qpn,
}

impl RemoteQp {
    /// `None` for a queue pair of this machine, which tells of its end itself.
    pub(super) fn new(peer: Peer, ca_guid: u64, qpn: Qpn) -> Option<Self> {
        match peer {
            Peer::Local => None,
            Peer::Remote { address, .. } => Some(Self { address, ca_guid, qpn }),
        }
    }
}
