//! Counters of a message that is executed within the fabric, by the packets that it would be on a
//! network.
//!
//! A request that waits, or is tried again, counts once, when it is executed. Every reliable message
//! but reads and atomics is acknowledged once.

use std::sync::atomic::Ordering::Acquire;

use soft_hca_roce::wire::headers::{ATOMIC_ACK_ETH_BYTES, Aeth, AtomicEth, Deth, Feth, Reth};

use crate::arena::{Ah, Qp, Tally};
use crate::uapi::verbs::{Mtu, opcode, qp_type};

const AETH: u64 = Aeth::BYTES as u64;
const ATOMIC_ACK_ETH: u64 = ATOMIC_ACK_ETH_BYTES as u64;
const ATOMIC_ETH: u64 = AtomicEth::BYTES as u64;
const DETH: u64 = Deth::BYTES as u64;
const FETH: u64 = Feth::BYTES as u64;
const RETH: u64 = Reth::BYTES as u64;
/// Immediate data, or the key that is to be invalidated.
const WORD_AFTER_BTH: u64 = 4;
/// The payload of an atomic write.
const ATOMIC_WRITE_BYTES: u64 = 8;

/// A message as packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packets {
    /// `ibv_qp_type`
    pub kind: u32,
    /// Octets around the payload of each, without extended headers: see [`Qp::packet_octets`].
    pub octets: u32,
    /// Bytes of payload that each has at most: a power of two.
    pub mtu: u32,
}

impl Packets {
    /// Those of a queue pair's messages.
    pub(super) fn of(qp: &Qp, kind: u32) -> Self {
        let octets = qp.packet_octets.load(Acquire);
        Self { kind, octets, mtu: Mtu(qp.path_mtu.load(Acquire)).bytes() }
    }

    /// Those of a datagram by an address handle.
    pub(super) fn by(ah: &Ah) -> Self {
        let octets = ah.packet_octets.load(Acquire);
        Self { kind: qp_type::UD, octets, mtu: Mtu(ah.mtu.load(Acquire)).bytes() }
    }

    /// The share of a message with an opcode and so many bytes, and how many packet sequence numbers
    /// it takes.
    #[inline]
    pub(super) fn tally(&self, opcode: u32, length: u32) -> (Tally, u32) {
        let whole = length >> self.mtu.trailing_zeros();
        let numbers = (whole + u32::from(length & (self.mtu - 1) != 0)).max(1);
        (self.tally_of(opcode, length, numbers.into()), numbers)
    }

    #[inline]
    fn tally_of(&self, opcode: u32, length: u32, numbers: u64) -> Tally {
        let around = u64::from(self.octets);
        let payload = (u64::from(length) + 3) & !3;
        if opcode == opcode::RDMA_READ {
            // The first and the last response have an AETH.
            let aeths = AETH * numbers.min(2);
            return Tally {
                packets: 1,
                octets: around + RETH,
                answers: numbers,
                answer_octets: numbers * around + payload + aeths,
                ..Tally::default()
            };
        }
        let (extended, payload, answer) = match opcode {
            opcode::RDMA_WRITE => (RETH, payload, AETH),
            opcode::RDMA_WRITE_WITH_IMM => (RETH + WORD_AFTER_BTH, payload, AETH),
            opcode::SEND_WITH_IMM | opcode::SEND_WITH_INV => (WORD_AFTER_BTH, payload, AETH),
            opcode::ATOMIC_WRITE => (RETH, ATOMIC_WRITE_BYTES, AETH),
            opcode::FLUSH => (FETH + RETH, 0, AETH),
            opcode::ATOMIC_CMP_AND_SWP | opcode::ATOMIC_FETCH_AND_ADD => {
                (ATOMIC_ETH, 0, AETH + ATOMIC_ACK_ETH)
            }
            _ => (0, payload, AETH),
        };
        let deth = if self.kind == qp_type::UD { DETH } else { 0 };
        let is_answered = self.kind == qp_type::RC;
        Tally {
            packets: numbers,
            octets: numbers * around + payload + extended + deth,
            multicast: 0,
            sends: is_send(opcode).into(),
            answers: is_answered.into(),
            answer_octets: if is_answered { around + answer } else { 0 },
        }
    }
}

/// Whether rxe counts it as a send (`rdma_sends`, `rdma_recvs`).
pub(super) fn is_send(opcode: u32) -> bool {
    matches!(opcode, opcode::SEND | opcode::SEND_WITH_IMM | opcode::SEND_WITH_INV)
}
