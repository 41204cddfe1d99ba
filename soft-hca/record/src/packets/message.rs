//! A work request as packets: the requester's, and the responder's answer.

use soft_hca_roce::wire::bth::Psn;
use soft_hca_roce::wire::headers::{Aeth, AtomicEth, Deth, Feth, Immediate, Reth};
use soft_hca_roce::wire::opcode::{Operation, SendEnd, Service};
use soft_hca_roce::wire::packet::{Headers, MAX_PAYLOAD};

use super::queue_pair::QueuePair;
use crate::entry::{Flush, SendPosted};

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Send(SendEnd),
    Write(Reth, Option<Immediate>),
    Read(Reth),
    CompareSwap(AtomicEth),
    FetchAdd(AtomicEth),
    Flush(Feth, Reth),
    AtomicWrite(Reth),
    Datagram(Deth, Option<Immediate>),
}

/// A message: what of a work request a peer sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message {
    kind: Kind,
    /// Bytes that go one way or the other.
    length: usize,
    solicited: bool,
}

/// Bytes of numbers that atomic operations are about.
const ATOMIC: usize = 8;

impl Message {
    /// The message of a work request; none for those that stay on their side. What was not
    /// recorded is zero.
    pub(super) fn new(
        opcode: &str,
        length: u64,
        qp: &QueuePair,
        source_qpn: u32,
        posted: Option<&SendPosted>,
    ) -> Option<Self> {
        let remote = posted.and_then(|posted| posted.remote);
        let (address, rkey) = remote.map_or((0, 0), |remote| (remote.address, remote.rkey));
        let reth = Reth { address, rkey, length: length as u32 };
        let immediate = posted.and_then(|posted| posted.imm).unwrap_or_default().to_be_bytes();
        let compare_add = posted.and_then(|posted| posted.compare_add).unwrap_or_default();
        let swap = posted.and_then(|posted| posted.swap).unwrap_or_default();
        let datagram = || {
            let destination = posted.and_then(|posted| posted.destination.as_ref());
            let qkey = destination.map_or(0, |destination| destination.qkey);
            // With the highest bit set the queue pair's own is sent.
            let own = qp.qkey.filter(|_| qkey >> 31 == 1);
            Deth { qkey: own.unwrap_or(qkey), source_qpn }
        };
        let is_datagram = qp.service == Service::Ud;
        let kind = match opcode {
            "IBV_WR_SEND" if is_datagram => Kind::Datagram(datagram(), None),
            "IBV_WR_SEND_WITH_IMM" if is_datagram => Kind::Datagram(datagram(), Some(immediate)),
            "IBV_WR_SEND" => Kind::Send(SendEnd::Plain),
            "IBV_WR_SEND_WITH_IMM" => Kind::Send(SendEnd::Immediate(immediate)),
            "IBV_WR_SEND_WITH_INV" => {
                let rkey = posted.and_then(|posted| posted.invalidate).unwrap_or_default();
                Kind::Send(SendEnd::Invalidate(rkey))
            }
            "IBV_WR_RDMA_WRITE" => Kind::Write(reth, None),
            "IBV_WR_RDMA_WRITE_WITH_IMM" => Kind::Write(reth, Some(immediate)),
            "IBV_WR_RDMA_READ" => Kind::Read(reth),
            "IBV_WR_ATOMIC_CMP_AND_SWP" => Kind::CompareSwap(AtomicEth {
                address,
                rkey,
                swap_or_add: swap,
                compare: compare_add,
            }),
            "IBV_WR_ATOMIC_FETCH_AND_ADD" => {
                Kind::FetchAdd(AtomicEth { address, rkey, swap_or_add: compare_add, compare: 0 })
            }
            "IBV_WR_ATOMIC_WRITE" => Kind::AtomicWrite(Reth { length: ATOMIC as u32, ..reth }),
            "IBV_WR_FLUSH" => {
                let feth = feth(posted.and_then(|posted| posted.flush.as_ref()));
                // No byte of the range goes over.
                let length = posted.map_or(0, |posted| posted.length as u32);
                Kind::Flush(feth, Reth { length, ..reth })
            }
            _ => return None,
        };
        let length = if let Kind::AtomicWrite(_) = kind { ATOMIC } else { length as usize };
        let flags = posted.map_or(&[][..], |posted| &posted.flags);
        let solicited = flags.iter().any(|flag| flag == "IBV_SEND_SOLICITED");
        Some(Self { kind, length, solicited })
    }

    /// How many packets the message's bytes need.
    fn segments(&self, mtu: usize) -> usize {
        match self.kind {
            Kind::Send(_) | Kind::Write(..) | Kind::Read(_) => self.length.div_ceil(mtu).max(1),
            _ => 1,
        }
    }

    /// Sequence numbers that the message takes.
    pub(super) fn numbers(&self, mtu: usize) -> u32 {
        self.segments(mtu) as u32
    }

    /// Packets that the requester sends.
    pub(super) fn packets(&self, mtu: usize) -> usize {
        if let Kind::Read(_) = self.kind { 1 } else { self.segments(mtu) }
    }

    /// The packet of these that needs a receive, if one does.
    pub(super) fn needs_receive(&self, mtu: usize) -> Option<usize> {
        match self.kind {
            Kind::Send(_) => Some(0),
            Kind::Write(_, Some(_)) => Some(self.segments(mtu) - 1),
            _ => None,
        }
    }

    /// One of them, and the bytes of its payload.
    pub(super) fn packet(&self, index: usize, mtu: usize, headers: &Begin) -> (Headers, usize) {
        let last = self.packets(mtu) - 1;
        let is_last = index == last;
        let operation = match (self.kind, index) {
            (Kind::Send(end), 0) if is_last => Operation::SendOnly(end),
            (Kind::Send(_), 0) => Operation::SendFirst,
            (Kind::Send(end), _) if is_last => Operation::SendLast(end),
            (Kind::Send(_), _) => Operation::SendMiddle,
            (Kind::Write(reth, immediate), 0) if is_last => Operation::WriteOnly(reth, immediate),
            (Kind::Write(reth, _), 0) => Operation::WriteFirst(reth),
            (Kind::Write(_, immediate), _) if is_last => Operation::WriteLast(immediate),
            (Kind::Write(..), _) => Operation::WriteMiddle,
            (Kind::Read(reth), _) => Operation::ReadRequest(reth),
            (Kind::CompareSwap(atomic), _) => Operation::CompareSwap(atomic),
            (Kind::FetchAdd(atomic), _) => Operation::FetchAdd(atomic),
            (Kind::Flush(feth, reth), _) => Operation::Flush(feth, reth),
            (Kind::AtomicWrite(reth), _) => Operation::AtomicWrite(reth),
            (Kind::Datagram(deth, immediate), _) => Operation::Datagram(deth, immediate),
        };
        let carries = matches!(
            self.kind,
            Kind::Send(_) | Kind::Write(..) | Kind::AtomicWrite(_) | Kind::Datagram(..)
        );
        let rest = if carries { self.length.saturating_sub(index * mtu) } else { 0 };
        // A datagram is one packet, however long.
        let most = if let Kind::Datagram(..) = self.kind { MAX_PAYLOAD } else { mtu };
        let payload = rest.min(most);
        let mut headers = headers.packet(operation, index);
        headers.ack_req = is_last && headers.service == Service::Rc;
        headers.solicited = is_last && self.solicited;
        (headers, payload)
    }

    /// Packets that a responder answers with.
    pub(super) fn answers(&self, mtu: usize) -> usize {
        if let Kind::Read(_) = self.kind { self.segments(mtu) } else { 1 }
    }

    /// One of them, and the bytes of its payload. An original value is zero.
    pub(super) fn answer(
        &self,
        index: usize,
        mtu: usize,
        aeth: Aeth,
        headers: &Begin,
    ) -> (Headers, usize) {
        let is_last = index + 1 == self.answers(mtu);
        let (operation, number) = match (self.kind, index) {
            (Kind::Read(_), 0) if is_last => (Operation::ReadResponseOnly(aeth), index),
            (Kind::Read(_), 0) => (Operation::ReadResponseFirst(aeth), index),
            (Kind::Read(_), _) if is_last => (Operation::ReadResponseLast(aeth), index),
            (Kind::Read(_), _) => (Operation::ReadResponseMiddle, index),
            (Kind::CompareSwap(_) | Kind::FetchAdd(_), _) => {
                (Operation::AtomicAcknowledge(aeth, 0), index)
            }
            (Kind::Flush(..) | Kind::AtomicWrite(_), _) => {
                (Operation::ReadResponseOnly(aeth), index)
            }
            // An acknowledgement is for the last packet.
            _ => (Operation::Acknowledge(aeth), self.segments(mtu) - 1),
        };
        let is_read = matches!(self.kind, Kind::Read(_));
        let payload = if is_read { self.length.saturating_sub(index * mtu).min(mtu) } else { 0 };
        (headers.packet(operation, number), payload)
    }
}

/// The header of a flush: global visibility of the range, if nothing else is known.
fn feth(flush: Option<&Flush>) -> Feth {
    let Some(flush) = flush else { return Feth { placement: 1, selectivity: 0 } };
    let has = |name: &str| u8::from(flush.placement.iter().any(|placement| placement == name));
    Feth {
        placement: has("IBV_FLUSH_GLOBAL") | has("IBV_FLUSH_PERSISTENT") << 1,
        selectivity: u8::from(flush.selectivity == "IBV_FLUSH_MR"),
    }
}

/// What the packets of a message have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Begin {
    pub(super) service: Service,
    pub(super) dest_qp: u32,
    /// The first one's number.
    pub(super) psn: Psn,
}

impl Begin {
    /// The headers of a packet, counted from the first.
    pub(super) fn packet(&self, operation: Operation, index: usize) -> Headers {
        Headers::new(self.service, operation, self.dest_qp, self.psn + index as u32)
    }
}
