//! Work requests, and how they are segmented into packets.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::attributes::{Attributes, Mtu};
use super::packet_sender::Busy;
use crate::wire::bth::Psn;
use crate::wire::headers::{AtomicEth, Feth, Immediate, Reth};
use crate::wire::opcode::{Operation, SendEnd, Service};
use crate::wire::packet::Headers;

/// The longest message. IBTA volume 1, 9.7.7.
pub const MAX_MESSAGE: u32 = 1 << 31;

/// Memory of a program that its peer uses by RDMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remote {
    /// The first byte's address, as the owner sees it.
    pub address: u64,
    /// The key that the owner gave out.
    pub rkey: u32,
}

impl Remote {
    /// The address `offset` bytes further.
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

/// The operation of a work request: `enum ibv_wr_opcode`, but for local ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Opcode {
    /// A message into a receive work request of the peer.
    Send(SendEnd),
    /// Bytes into memory of the peer; with immediate data a receive work request of the peer completes.
    Write(Remote, Option<Immediate>),
    /// Bytes from memory of the peer.
    Read(Remote),
    /// 8 bytes of the peer become `swap` if they are `compare`; the original value comes back.
    CompareSwap {
        /// Where they are.
        remote: Remote,
        /// The value that they have to have.
        compare: u64,
        /// Their new value.
        swap: u64,
    },
    /// Something is added to 8 bytes of the peer; the original value comes back.
    FetchAdd {
        /// Where they are.
        remote: Remote,
        /// The addend.
        add: u64,
    },
    /// 8 bytes into memory of the peer, atomically.
    AtomicWrite(Remote),
    /// Earlier writes to memory of the peer become visible or persistent, as the header
    /// says.
    Flush(Remote, Feth),
}

impl Opcode {
    /// Whether the response is more than an acknowledgement: such requests are counted by
    /// `max_rd_atomic`, and a fence waits for them.
    pub(super) const fn has_response(self) -> bool {
        !matches!(self, Opcode::Send(_) | Opcode::Write(..))
    }
}

/// A work request without its payload: that stays in memory until the request is complete, for a
/// packet may have to be retransmitted.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct WorkRequest {
    /// By which the caller knows it.
    pub id: u64,
    /// Its operation.
    pub opcode: Opcode,
    /// Bytes to be sent, written, read or flushed; 8 for atomics.
    pub length: u32,
    /// The peer's completion makes an event (solicited event).
    pub solicited: bool,
    /// It is not begun before all earlier reads, atomics and flushes are complete.
    pub fence: bool,
}

impl WorkRequest {
    /// How many PSNs it takes.
    pub(super) fn packets(&self, mtu: Mtu) -> u32 {
        match self.opcode {
            Opcode::Send(_) | Opcode::Write(..) | Opcode::Read(_) => mtu.packets(self.length),
            _ => 1,
        }
    }

    /// Whether its last packet has SE set.
    fn makes_event(&self) -> bool {
        self.solicited && matches!(self.opcode, Opcode::Send(_) | Opcode::Write(_, Some(_)))
    }

    /// The packet after the first `before` PSNs, which takes `numbers` of them: one, or those of a part
    /// of a read. The last packet of a message, and one that is a whole message, has AckReq
    /// (`rxe_req.c`, `init_req_packet`).
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
pub(crate) struct Outgoing {
    /// All that is before the payload.
    pub headers: Headers,
    /// The bytes that follow.
    pub payload: Payload,
}

/// Bytes of a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Payload {
    /// [`WorkRequest::id`].
    pub id: u64,
    /// The first byte, counted from the request's first.
    pub offset: u32,
    /// How many there are.
    pub length: u32,
}

/// How a work request completes: `enum ibv_wc_status`, as far as the requester knows of it.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    /// Without an error.
    #[error("success")]
    Success,
    /// The message is longer than any may be.
    #[error("local length error")]
    LocalLength,
    /// The queue pair does not have the operation.
    #[error("local queue pair operation error")]
    LocalOperation,
    /// The memory of the request may not be used so.
    #[error("local protection error")]
    LocalProtection,
    /// The peer's response does not fit the request.
    #[error("bad response error")]
    BadResponse,
    /// The peer refuses the operation (NAK, invalid request).
    #[error("remote invalid request error")]
    RemoteInvalidRequest,
    /// The peer does not let its memory be used so (NAK, remote access error).
    #[error("remote access error")]
    RemoteAccess,
    /// The peer failed (NAK, remote operational error).
    #[error("remote operation error")]
    RemoteOperation,
    /// No response to `retry_cnt` retransmissions.
    #[error("transport retry counter exceeded")]
    RetryExceeded,
    /// No receive work request at the peer, after `rnr_retry` more attempts.
    #[error("RNR retry counter exceeded")]
    RnrRetryExceeded,
}

/// Why the owner of the send queue could not do its part.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Failure {
    /// Not now: as if the packet were lost, or not to be sent yet.
    #[error("busy")]
    Busy,
    /// The work request fails with this status.
    #[error("the work request fails: {0}")]
    Failed(Status),
}

impl From<Busy> for Failure {
    fn from(Busy: Busy) -> Failure {
        Failure::Busy
    }
}

/// The send queue: work requests, where the caller keeps them, and their memory.
pub trait SendQueue {
    /// The next work request that was posted, if there is one. From now on it is in flight, until
    /// [`SendQueue::complete`]. The queue pair asks when it can send it.
    ///
    /// # Errors
    ///
    /// [`Busy`]: it asks again.
    fn next_request(&mut self) -> Result<Option<WorkRequest>, Busy>;

    /// Copies bytes of a request's memory into `parts`, one behind the other, from `offset` bytes
    /// behind its beginning on. The same bytes are asked for again when a packet is retransmitted.
    ///
    /// # Errors
    ///
    /// After [`Failure::Busy`] the packets are sent later.
    fn gather(&mut self, id: u64, offset: u32, parts: &mut [&mut [u8]]) -> Result<(), Failure>;

    /// Copies the payloads of consecutive responses into the request's memory, `offset` bytes behind
    /// its beginning. An atomic's original value comes as eight bytes in this machine's order. The
    /// same bytes do not come twice.
    ///
    /// # Errors
    ///
    /// After [`Failure::Busy`] they do: the packet counts as lost.
    fn scatter(&mut self, id: u64, offset: u32, parts: &[&[u8]]) -> Result<(), Failure>;

    /// The request is complete: called for each, in order, signaled or not. After a status other
    /// than success nothing more comes: the requests behind it are for the caller to flush.
    ///
    /// # Errors
    ///
    /// [`Busy`]: the queue pair completes it later.
    fn complete(&mut self, id: u64, status: Status) -> Result<(), Busy>;
}
