//! The extended transport headers, which follow the base header as the opcode says. IBTA volume 1,
//! 9.3; `rxe_hdr.h`. All numbers are big-endian; reserved bits are sent as 0 and not looked at.
//!
//! ```text
//! DETH       | 0 Q_Key | 4 - | 5 source QPN |                                8 bytes
//! RETH       | 0 virtual address   | 8 rkey | 12 length |                   16
//! AtomicETH  | 0 virtual address   | 8 rkey | 12 swap or add | 20 compare | 28
//! AETH       | 0 syndrome | 1 MSN |                                          4
//! AtomicAckETH | 0 original value |  8     ImmDt | 0 immediate |             4
//! IETH       | 0 rkey |              4     FETH  | 0 bits 4-5 level, 0-3 type | 4
//! ```
//!
//! AtomicAckETH, ImmDt and IETH are one value each and have no type of their own.

use serde::{Deserialize, Serialize};
use std::time::Duration;

use super::bth::Qpn;
use super::bytes::{array, u24, u24_bytes};

/// Immediate data as the sender's program put them: four bytes that keep their order.
pub type Immediate = [u8; 4];

/// Bytes of an AtomicAckETH: the value that was there before an atomic operation.
pub const ATOMIC_ACK_ETH_BYTES: usize = size_of::<u64>();

/// The queue pair that a datagram comes from, and the key that its receiver has to have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deth {
    /// Q_Key.
    pub qkey: u32,
    /// The sender's queue pair.
    pub source_qpn: Qpn,
}

impl Deth {
    /// Bytes of the header.
    pub const BYTES: usize = 8;

    /// Reads a header.
    pub const fn decode(bytes: &[u8; Deth::BYTES]) -> Deth {
        Deth {
            qkey: u32::from_be_bytes(array(bytes, 0)),
            source_qpn: Qpn::new(u24(array(bytes, 5))),
        }
    }

    /// The header's bytes.
    pub const fn encode(&self) -> [u8; Deth::BYTES] {
        let [k0, k1, k2, k3] = self.qkey.to_be_bytes();
        let [q0, q1, q2] = u24_bytes(self.source_qpn.get());
        [k0, k1, k2, k3, 0, q0, q1, q2]
    }
}

/// The memory that an RDMA operation is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reth {
    /// The first byte's address, as the owner of the memory sees it.
    pub address: u64,
    /// The key of the memory region or window.
    pub rkey: u32,
    /// Bytes of the whole message, not of this packet.
    pub length: u32,
}

impl Reth {
    /// Bytes of the header.
    pub const BYTES: usize = 16;

    /// Reads a header.
    pub const fn decode(bytes: &[u8; Reth::BYTES]) -> Reth {
        Reth {
            address: u64::from_be_bytes(array(bytes, 0)),
            rkey: u32::from_be_bytes(array(bytes, 8)),
            length: u32::from_be_bytes(array(bytes, 12)),
        }
    }

    /// The header's bytes.
    pub fn encode(&self) -> [u8; Reth::BYTES] {
        let mut bytes = [0; Reth::BYTES];
        bytes[..8].copy_from_slice(&self.address.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.rkey.to_be_bytes());
        bytes[12..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }
}

/// The number that an atomic operation is about, and its operands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AtomicEth {
    /// The number's address, as the owner of the memory sees it.
    pub address: u64,
    /// The key of the memory region or window.
    pub rkey: u32,
    /// The new value, or what is to be added.
    pub swap_or_add: u64,
    /// The value that has to be there; not used by fetch-and-add.
    pub compare: u64,
}

impl AtomicEth {
    /// Bytes of the header.
    pub const BYTES: usize = 28;

    /// Reads a header.
    pub const fn decode(bytes: &[u8; AtomicEth::BYTES]) -> AtomicEth {
        AtomicEth {
            address: u64::from_be_bytes(array(bytes, 0)),
            rkey: u32::from_be_bytes(array(bytes, 8)),
            swap_or_add: u64::from_be_bytes(array(bytes, 12)),
            compare: u64::from_be_bytes(array(bytes, 20)),
        }
    }

    /// The header's bytes.
    pub fn encode(&self) -> [u8; AtomicEth::BYTES] {
        let mut bytes = [0; AtomicEth::BYTES];
        bytes[..8].copy_from_slice(&self.address.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.rkey.to_be_bytes());
        bytes[12..20].copy_from_slice(&self.swap_or_add.to_be_bytes());
        bytes[20..].copy_from_slice(&self.compare.to_be_bytes());
        bytes
    }
}

/// A responder's acknowledgement, and how many messages it has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Aeth {
    /// The outcome of the request.
    pub syndrome: Syndrome,
    /// Message sequence number: the count of completed messages, 24 bits that wrap.
    pub msn: u32,
}

impl Aeth {
    /// Bytes of the header.
    pub const BYTES: usize = 4;

    /// Reads a header.
    pub const fn decode(bytes: &[u8; Aeth::BYTES]) -> Aeth {
        let &[syndrome, m0, m1, m2] = bytes;
        Aeth { syndrome: Syndrome::decode(syndrome), msn: u24([m0, m1, m2]) }
    }

    /// The header's bytes.
    pub const fn encode(&self) -> [u8; Aeth::BYTES] {
        let [m0, m1, m2] = u24_bytes(self.msn);
        [self.syndrome.encode(), m0, m1, m2]
    }
}

/// The outcome of a request. IBTA volume 1, 9.7.5.2.1, tables 45 to 47.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Syndrome {
    /// Acknowledged. The code (0 to 31) stands for the number of receive work requests that are
    /// posted; [`Syndrome::NO_CREDITS`] says nothing of them.
    Ack {
        /// The code.
        credits: u8,
    },
    /// Receiver not ready, for want of a receive work request: to be retransmitted after [`rnr_delay`].
    RnrNak {
        /// The code, 0 to 31.
        timer: u8,
    },
    /// Not executed.
    Nak(NakCode),
    /// A reserved code.
    Reserved(u8),
}

impl Syndrome {
    /// The code of a responder that counts no credits, as rxe.
    pub const NO_CREDITS: u8 = 31;
    /// An acknowledgement as rxe sends it.
    pub const ACK: Syndrome = Syndrome::Ack { credits: Syndrome::NO_CREDITS };

    const fn decode(byte: u8) -> Syndrome {
        let code = byte & 0x1f;
        match (byte >> 5, code) {
            (0, credits) => Syndrome::Ack { credits },
            (1, timer) => Syndrome::RnrNak { timer },
            (3, 0) => Syndrome::Nak(NakCode::PsnSequence),
            (3, 1) => Syndrome::Nak(NakCode::InvalidRequest),
            (3, 2) => Syndrome::Nak(NakCode::RemoteAccess),
            (3, 3) => Syndrome::Nak(NakCode::RemoteOperational),
            (3, 4) => Syndrome::Nak(NakCode::InvalidRd),
            _ => Syndrome::Reserved(byte),
        }
    }

    const fn encode(self) -> u8 {
        match self {
            Syndrome::Ack { credits } => credits & 0x1f,
            Syndrome::RnrNak { timer } => 0x20 | timer & 0x1f,
            Syndrome::Nak(code) => 0x60 | code as u8,
            Syndrome::Reserved(byte) => byte,
        }
    }
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum NakCode {
    /// Packets are missing; the NAK's PSN is the expected one.
    PsnSequence = 0,
    /// Opcodes in a wrong order, a wrong length, an operation that is not allowed.
    InvalidRequest = 1,
    /// No such key, or not this memory, or not these rights.
    RemoteAccess = 2,
    /// The responder failed.
    RemoteOperational = 3,
    /// A reliable datagram that its receiver cannot take; there are none on RoCE.
    InvalidRd = 4,
}

/// How long a requester waits after [`Syndrome::RnrNak`] before it tries again (IBTA volume 1,
/// table 46). Of the code the low 5 bits count.
pub const fn rnr_delay(timer: u8) -> Duration {
    const CENTI_MS: [u64; 32] = [
        65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
        1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
    ];
    Duration::from_micros(CENTI_MS[(timer & 0x1f) as usize] * 10)
}

/// The placement and selectivity of a FLUSH. IBTA volume 1, annex A19 (memory placement
/// extensions).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feth {
    /// Placement type, 4 bits: 1 global visibility, 2 persistence.
    pub placement: u8,
    /// Selectivity level, 2 bits: 0 the range, 1 the memory region.
    pub selectivity: u8,
}

impl Feth {
    /// Bytes of the header.
    pub const BYTES: usize = 4;
    /// The selectivity level of the range that the RETH names.
    pub const RANGE: u8 = 0;

    /// Reads a header.
    pub const fn decode(bytes: &[u8; Feth::BYTES]) -> Feth {
        Feth { placement: bytes[3] & 0x0f, selectivity: (bytes[3] >> 4) & 3 }
    }

    /// The header's bytes.
    pub const fn encode(&self) -> [u8; Feth::BYTES] {
        [0, 0, 0, (self.selectivity & 3) << 4 | self.placement & 0x0f]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn syndromes_are_the_kernels() {
        let expected = [
            (0x1f, Syndrome::ACK),
            (0x00, Syndrome::Ack { credits: 0 }),
            (0x20, Syndrome::RnrNak { timer: 0 }),
            (0x3f, Syndrome::RnrNak { timer: 31 }),
            (0x60, Syndrome::Nak(NakCode::PsnSequence)),
            (0x61, Syndrome::Nak(NakCode::InvalidRequest)),
            (0x62, Syndrome::Nak(NakCode::RemoteAccess)),
            (0x63, Syndrome::Nak(NakCode::RemoteOperational)),
            (0x64, Syndrome::Nak(NakCode::InvalidRd)),
            (0x65, Syndrome::Reserved(0x65)),
            (0x40, Syndrome::Reserved(0x40)),
            (0x9f, Syndrome::Reserved(0x9f)),
        ];
        for (byte, syndrome) in expected {
            assert_eq!(Syndrome::decode(byte), syndrome, "{byte:02x}");
        }
        for byte in 0..=255 {
            assert_eq!(Syndrome::decode(byte).encode(), byte);
        }
    }

    #[test]
    fn receivers_not_ready_are_waited_for() {
        assert_eq!(rnr_delay(0), Duration::from_micros(655_360));
        assert_eq!(rnr_delay(1), Duration::from_micros(10));
        assert_eq!(rnr_delay(31), Duration::from_micros(491_520));
        for code in 5..32 {
            assert_eq!(rnr_delay(code), rnr_delay(code - 2) * 2, "{code}");
        }
    }

    proptest! {
        #[test]
        fn headers_come_back(
            mut deth: [u8; 8], reth: [u8; 16], atomic: [u8; 28], aeth: [u8; 4], feth in 0..64u8,
        ) {
            deth[4] = 0;
            prop_assert_eq!(Deth::decode(&deth).encode(), deth);
            prop_assert_eq!(Reth::decode(&reth).encode(), reth);
            prop_assert_eq!(AtomicEth::decode(&atomic).encode(), atomic);
            prop_assert_eq!(Aeth::decode(&aeth).encode(), aeth);
            prop_assert_eq!(Feth::decode(&[0, 0, 0, feth]).encode(), [0, 0, 0, feth]);
        }
    }
}
