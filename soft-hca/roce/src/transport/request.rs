//! Work requests as the wire needs them, and how they are cut into packets.

use super::attributes::{Attributes, Mtu};
use crate::wire::bth::Psn;
use crate::wire::headers::{AtomicEth, Feth, Immediate, Reth};
use crate::wire::opcode::{Operation, SendEnd, Service};
use crate::wire::packet::Headers;

/// The longest message. IBTA volume 1, 9.7.7.
pub const MAX_MESSAGE: u32 = 1 << 31;

/// Memory of a program that its peer uses by RDMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// The first byte's address, as the owner sees it.
    pub address: u64,
    /// The key that the owner gave out.
    pub rkey: u32,
}

impl Remote {
    /// What lies `offset` bytes further.
    pub(super) const fn at(self, offset: u32) -> Remote {
        Remote { address: self.address.wrapping_add(offset as u64), ..self }
    }

    const fn reth(self, length: u32) -> Reth {
        Reth { address: self.address, rkey: self.rkey, length }
    }
}

impl From<Reth> for Remote {
    fn from(reth: Reth) -> Remote {
        Remote { address: reth.address, rkey: reth.rkey }
    }
}

/// What a work request asks for: `enum ibv_wr_opcode`, but for what is local.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opcode {
    /// A message into a receive of the peer.
    Send(SendEnd),
    /// Bytes into memory of the peer; with immediate data a receive of the peer completes.
    Write(Remote, Option<Immediate>),
    /// Bytes from memory of the peer.
    Read(Remote),
    /// A number of the peer becomes `swap` if it is `compare`; its old value comes back.
    CompareSwap {
        /// The number.
        remote: Remote,
        /// What it has to be.
        compare: u64,
        /// What it becomes.
        swap: u64,
    },
    /// A number of the peer grows; its old value comes back.
    FetchAdd {
        /// The number.
        remote: Remote,
        /// By how much.
        add: u64,
    },
    /// Eight bytes into memory of the peer, at once.
    AtomicWrite(Remote),
    /// What was written to memory of the peer before is placed as the header says.
    Flush(Remote, Feth),
}

impl Opcode {
    /// Whether the answer is more than an acknowledgement: such requests are counted by
    /// `max_rd_atomic` and waited for by a fence.
    pub(super) const fn has_response(self) -> bool {
        !matches!(self, Opcode::Send(_) | Opcode::Write(..))
    }
}

/// A work request without its bytes: those stay where they are until it is complete, for a packet
/// may have to be built again.
#[derive(Clone, Copy, Debug)]
pub struct WorkRequest {
    /// The caller's name for it.
    pub id: u64,
    /// What it asks for.
    pub opcode: Opcode,
    /// Bytes to be sent, written, read or flushed; 8 for atomics.
    pub length: u32,
    /// The peer is to have an event, if its receive completes.
    pub solicited: bool,
    /// Not to begin before all earlier reads, atomics and flushes are complete.
    pub fence: bool,
}

impl WorkRequest {
    /// The sequence numbers it takes.
    pub(super) fn packets(&self, mtu: Mtu) -> u32 {
        match self.opcode {
            Opcode::Send(_) | Opcode::Write(..) | Opcode::Read(_) => mtu.packets(self.length),
            _ => 1,
        }
    }

    /// Whether its last packet carries SE.
    fn makes_event(&self) -> bool {
        self.solicited && matches!(self.opcode, Opcode::Send(_) | Opcode::Write(_, Some(_)))
    }

    /// The packet behind the first `before`, which takes `numbers` sequence numbers: one, or a part
    /// of a read. The last packet of a message, and every one that is a message, asks for an
    /// acknowledgement (`rxe_req.c`, `init_req_packet`).
    pub(super) fn packet(
        &self,
        service: Service,
        attributes: &Attributes,
        psn: Psn,
        before: u32,
        numbers: u32,
    ) -> Outgoing {
        let mtu = attributes.mtu.bytes();
        let offset = before * mtu;
        let rest = self.length - offset;
        let here = rest.min(numbers * mtu);
        let (is_first, is_last) = (before == 0, here == rest);
        let operation = match self.opcode {
            Opcode::Send(end) => match (is_first, is_last) {
                (true, true) => Operation::SendOnly(end),
                (true, false) => Operation::SendFirst,
                (false, false) => Operation::SendMiddle,
                (false, true) => Operation::SendLast(end),
            },
            Opcode::Write(remote, immediate) => match (is_first, is_last) {
                (true, true) => Operation::WriteOnly(remote.reth(rest), immediate),
                (true, false) => Operation::WriteFirst(remote.reth(rest)),
                (false, false) => Operation::WriteMiddle,
                (false, true) => Operation::WriteLast(immediate),
            },
            Opcode::Read(remote) => Operation::ReadRequest(remote.at(offset).reth(here)),
            Opcode::CompareSwap { remote: Remote { address, rkey }, compare, swap } => {
                Operation::CompareSwap(AtomicEth { address, rkey, swap_or_add: swap, compare })
            }
            Opcode::FetchAdd { remote: Remote { address, rkey }, add } => {
                Operation::FetchAdd(AtomicEth { address, rkey, swap_or_add: add, compare: 0 })
            }
            Opcode::AtomicWrite(remote) => Operation::AtomicWrite(remote.reth(rest)),
            Opcode::Flush(remote, feth) => Operation::Flush(feth, remote.reth(rest)),
        };
        let ends = is_last || self.opcode.has_response();
        let headers = Headers {
            ack_req: ends,
            solicited: ends && self.makes_event(),
            ..Headers::new(service, operation, attributes.dest_qpn, psn)
        };
        let length = if operation.has_payload() { here } else { 0 };
        Outgoing { headers, payload: Payload { id: self.id, offset, length } }
    }
}

/// A packet that is to be sent: [`Headers::build`] makes it around its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// All that is before the payload.
    pub headers: Headers,
    /// The bytes that follow.
    pub payload: Payload,
}

/// Bytes of a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload {
    /// [`WorkRequest::id`].
    pub id: u64,
    /// The first byte, counted from the request's first.
    pub offset: u32,
    /// How many there are.
    pub length: u32,
}

/// How a work request ended: `enum ibv_wc_status`, as far as the requester knows of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Well.
    Success,
    /// The message is longer than any may be.
    LocalLength,
    /// The request makes no sense here.
    LocalOperation,
    /// The program may not use its memory so.
    LocalProtection,
    /// The peer answered something else than what it was asked.
    BadResponse,
    /// The peer does not do that.
    RemoteInvalidRequest,
    /// The peer does not let its memory be used so.
    RemoteAccess,
    /// The peer failed.
    RemoteOperation,
    /// No answer, however often it was sent.
    RetryExceeded,
    /// The peer had no receive, however often it was sent.
    RnrRetryExceeded,
}

/// Why the owner of the send queue could not do its part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Not now: as if the packet were lost, or not to be sent yet.
    Busy,
    /// The work request fails with this status.
    Failed(Status),
}

/// The work requests, where the caller keeps them.
pub trait SendQueue {
    /// Puts the bytes of a read's answers in a row into the request's memory, `offset` bytes behind
    /// its beginning. An atomic's old value comes as eight bytes in this machine's order. The same
    /// bytes do not come twice.
    ///
    /// # Errors
    ///
    /// After [`Failure::Busy`] they do: the packet counts as lost.
    fn place(&mut self, id: u64, offset: u32, parts: &[&[u8]]) -> Result<(), Failure>;

    /// The request is done: called for each, in order, signaled or not. After a status other than
    /// success nothing more comes: what is behind is for the caller to flush.
    ///
    /// Returns whether it could be noted; if not, the machine's `complete` tries again.
    fn complete(&mut self, id: u64, status: Status) -> bool;
}
