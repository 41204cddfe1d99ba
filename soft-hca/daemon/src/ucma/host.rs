//! The surroundings of a command: the daemon, the time, the program's bytes.

use std::net::IpAddr;
use std::sync::Arc;

use soft_hca_core::errno::{Errno, Refusal, Result};
use soft_hca_roce::wire::bth::Qpn;

use super::peer::Peer;
use crate::device::{self, Device, Port, Source};

/// An opened `/dev/infiniband/rdma_cm`.
pub(crate) type FileId = u32;

/// The rest of the daemon, as the connection manager needs it.
pub(crate) trait Host {
    /// The fabric's devices, whose GIDs are what can be reached.
    fn devices(&self) -> &[Arc<Device>];
    /// A random number of 24 bits.
    fn random24(&mut self) -> u32;
    /// The address that the system would send from to reach `to`, or `ENETUNREACH`.
    fn route(&self, to: IpAddr) -> Result<IpAddr>;

    /// The device, port and GID of one of the machine's addresses, `None` for any other address.
    fn find_source(&self, ip: IpAddr) -> Option<Source> {
        device::find_source(self.devices(), ip)
    }

    /// The connection manager that is responsible for an address, `None` if the address cannot
    /// be reached.
    fn find_peer(&self, ip: IpAddr) -> Option<Peer> {
        self.find_source(ip).map(|_| Peer::Local)
    }

    /// Whether messages for the other connection manager that [`Host::find_peer`] has found may be
    /// sent from an address of this machine, to which the program has bound its id.
    fn has_way(&self, _own: IpAddr, _to: IpAddr) -> bool {
        true
    }

    /// Whether the system knows how to reach another host from an address of this machine: the
    /// hardware address of the next host on the way. If not, this begins to resolve it.
    fn knows_neighbour(&self, _own: IpAddr, _to: IpAddr) -> bool {
        true
    }

    /// Whether a message has come to one of this machine's queue pairs, which shows that its peer
    /// is there.
    fn has_heard(&self, _qpn: Qpn) -> bool {
        false
    }

    /// The MTU of paths to other hosts from an address of this machine (`ib_mtu`).
    fn path_mtu(&self, own: IpAddr) -> u8 {
        let source = self.find_source(own);
        source.as_ref().and_then(Source::port).map_or(0, Port::active_mtu)
    }
}

/// The surroundings of a command, or of a message that has come.
pub(super) struct Cx<'a> {
    pub(super) host: &'a mut dyn Host,
    pub(super) now_ns: u64,
    /// Of the message that has come; 0 if none has.
    pub(super) transaction: u64,
}

impl Cx<'_> {
    /// The same, about the message that has this transaction.
    pub(super) fn answering(&mut self, transaction: u64) -> Cx<'_> {
        Cx { host: &mut *self.host, now_ns: self.now_ns, transaction }
    }
}

/// A command's own bytes, and whose it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call<'a> {
    pub(super) file: FileId,
    pub(super) payload: &'a [u8],
    /// Bytes of the program's buffer for the answer.
    pub(super) room: usize,
}

pub(super) const NO_ROOM: Errno = Errno::ENOSPC.because(Refusal::AnswerTooLong);

/// The answer of most commands.
pub(super) const NOTHING: Result<Vec<u8>> = Ok(Vec::new());
