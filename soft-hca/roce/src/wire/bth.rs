//! The base transport header, packet sequence numbers and queue pair numbers. IBTA volume 1, 9.2; `rxe_hdr.h`,
//! `struct rxe_bth`.
//!
//! ```text
//!  byte 0        1                      2, 3     4                5-7       8            9-11
//! +--------+------------------------+--------+----------------+----------+------------+-----+
//! | opcode | SE 80, MigReq 40,      | P_Key  | FECN 80,       | dest QPN | AckReq 80  | PSN |
//! |        | PadCnt 30, TVer 0f     |        | BECN 40, rest  |          |            |     |
//! +--------+------------------------+--------+----------------+----------+------------+-----+
//! ```

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, AddAssign};

use super::bytes::{u24, u24_bytes};

/// The P_Key of a full member of the default partition.
pub const DEFAULT_PKEY: u16 = 0xffff;

/// The bit of a P_Key that makes its owner a full member of the partition, and not a limited one.
pub const FULL_MEMBER: u16 = 0x8000;

/// Whether a queue pair takes a packet: their P_Keys are of the same partition, and at least one is
/// a full member's (IBTA 10.9.3).
#[inline]
pub const fn pkeys_match(one: u16, other: u16) -> bool {
    (one ^ other) & !FULL_MEMBER == 0 && (one | other) & FULL_MEMBER != 0
}
/// The destination queue pair of datagrams to a multicast group.
pub const MULTICAST_QPN: Qpn = Qpn(0xff_ffff);

/// A packet sequence number: 24 bits that wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Psn(u32);

impl Psn {
    const BITS: u32 = 24;

    /// The low 24 bits of a number.
    pub const fn new(number: u32) -> Psn {
        Psn(number & ((1 << Psn::BITS) - 1))
    }

    /// The number, below 2^24.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// How far `self` is behind `earlier`, -2^23 to 2^23 - 1; negative if it is before it.
    pub const fn distance(self, earlier: Psn) -> i32 {
        let unused = u32::BITS - Psn::BITS;
        ((self.0.wrapping_sub(earlier.0) << unused) as i32) >> unused
    }

    /// Whether the packet comes before `other`: by 1 to 2^23.
    pub const fn is_before(self, other: Psn) -> bool {
        self.distance(other) < 0
    }
}

/// The number back if it has more than 24 bits.
impl TryFrom<u32> for Psn {
    type Error = u32;

    fn try_from(number: u32) -> Result<Psn, u32> {
        if Psn::new(number).0 == number { Ok(Psn(number)) } else { Err(number) }
    }
}

impl From<Psn> for u32 {
    fn from(psn: Psn) -> u32 {
        psn.0
    }
}

impl Add<u32> for Psn {
    type Output = Psn;

    fn add(self, packets: u32) -> Psn {
        Psn::new(self.0.wrapping_add(packets))
    }
}

impl AddAssign<u32> for Psn {
    fn add_assign(&mut self, packets: u32) {
        *self = *self + packets;
    }
}

/// A queue pair number: 24 bits.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(try_from = "u32", into = "u32")]
pub struct Qpn(u32);

impl Qpn {
    /// The low 24 bits of a number.
    pub const fn new(number: u32) -> Qpn {
        Qpn(number & 0xff_ffff)
    }

    /// The number, below 2^24.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// The number back if it has more than 24 bits.
impl TryFrom<u32> for Qpn {
    type Error = u32;

    fn try_from(number: u32) -> Result<Qpn, u32> {
        if Qpn::new(number).0 == number { Ok(Qpn(number)) } else { Err(number) }
    }
}

impl From<Qpn> for u32 {
    fn from(qpn: Qpn) -> u32 {
        qpn.0
    }
}

impl fmt::Display for Qpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The base transport header as it lies in a packet, but for the reserved bits: sent as 0 and not
/// looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bth {
    /// The packet's opcode; see [`opcode`](super::opcode).
    pub opcode: u8,
    /// The receiver is to have an event.
    pub solicited: bool,
    /// The connection's path is the one it has migrated to; nobody looks at it.
    pub mig_req: bool,
    /// Bytes between payload and ICRC, 0 to 3.
    pub pad: u8,
    /// The version of the transport: [`Bth::VERSION`], or else the packet is dropped.
    pub version: u8,
    /// The partition.
    pub pkey: u16,
    /// The packet met congestion (InfiniBand only).
    pub fecn: bool,
    /// Packets the other way met congestion.
    pub becn: bool,
    /// The queue pair that the packet is for.
    pub dest_qpn: Qpn,
    /// An acknowledgement is wanted.
    pub ack_req: bool,
    /// The packet's sequence number.
    pub psn: Psn,
}

impl Bth {
    /// Bytes of the header.
    pub const BYTES: usize = 12;
    /// The only version there is.
    pub const VERSION: u8 = 0;

    /// Reads a header.
    pub const fn decode(bytes: &[u8; Bth::BYTES]) -> Bth {
        let &[opcode, flags, p0, p1, variant, q0, q1, q2, ack, n0, n1, n2] = bytes;
        Bth {
            opcode,
            solicited: flags & 0x80 != 0,
            mig_req: flags & 0x40 != 0,
            pad: (flags >> 4) & 3,
            version: flags & 0x0f,
            pkey: u16::from_be_bytes([p0, p1]),
            fecn: variant & 0x80 != 0,
            becn: variant & 0x40 != 0,
            dest_qpn: Qpn(u24([q0, q1, q2])),
            ack_req: ack & 0x80 != 0,
            psn: Psn::new(u24([n0, n1, n2])),
        }
    }

    /// The header's bytes. Of numbers that are too large for their fields the low bits count.
    pub const fn encode(&self) -> [u8; Bth::BYTES] {
        let flags = (self.solicited as u8) << 7
            | (self.mig_req as u8) << 6
            | (self.pad & 3) << 4
            | self.version & 0x0f;
        let [p0, p1] = self.pkey.to_be_bytes();
        let variant = (self.fecn as u8) << 7 | (self.becn as u8) << 6;
        let [q0, q1, q2] = u24_bytes(self.dest_qpn.0);
        let [n0, n1, n2] = u24_bytes(self.psn.get());
        let ack = (self.ack_req as u8) << 7;
        [self.opcode, flags, p0, p1, variant, q0, q1, q2, ack, n0, n1, n2]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sequence_numbers_wrap() {
        let last = Psn::new(0xff_ffff);
        assert_eq!(last + 1, Psn::new(0));
        assert_eq!((last + 3).get(), 2);
        assert_eq!(Psn::new(5) + u32::MAX, Psn::new(4));
        assert_eq!((last + 3).distance(last), 3);
        assert_eq!(last.distance(last + 3), -3);
        assert!(last.is_before(last + 1) && !(last + 1).is_before(last) && !last.is_before(last));
        // Half of all numbers are before one, and the other half (with itself) are not.
        let psn = Psn::new(5);
        assert!((psn + (1 << 23)).is_before(psn));
        assert_eq!((psn + (1 << 23)).distance(psn), -(1 << 23));
        assert_eq!((psn + ((1 << 23) - 1)).distance(psn), (1 << 23) - 1);
        assert_eq!(Psn::new(0x1234_5678).get(), 0x34_5678);
        assert_eq!(u32::from(Psn::new(0x1234_5678)), 0x34_5678);
    }

    #[test]
    fn queue_pair_numbers_have_24_bits() {
        assert_eq!(Qpn::try_from(0xff_ffff), Ok(MULTICAST_QPN));
        assert_eq!(Qpn::try_from(0x100_0000), Err(0x100_0000));
        assert_eq!(u32::from(Qpn::new(0x1234_5678)), 0x34_5678);
    }

    #[test]
    fn a_header_of_the_kernels_form() {
        let bytes = [0x04, 0xc0 | 0x20, 0xff, 0xff, 0x80, 0, 0, 0x11, 0x80, 0x12, 0x34, 0x56];
        let bth = Bth::decode(&bytes);
        let expected = Bth {
            opcode: 4,
            solicited: true,
            mig_req: true,
            pad: 2,
            version: 0,
            pkey: DEFAULT_PKEY,
            fecn: true,
            becn: false,
            dest_qpn: Qpn::new(0x11),
            ack_req: true,
            psn: Psn::new(0x12_3456),
        };
        assert_eq!(bth, expected);
        assert_eq!(bth.encode(), bytes);
    }

    proptest! {
        #[test]
        fn all_but_reserved_bits_come_back(mut bytes: [u8; Bth::BYTES]) {
            let bth = Bth::decode(&bytes);
            bytes[4] &= 0xc0;
            bytes[8] &= 0x80;
            prop_assert_eq!(bth.encode(), bytes);
        }

        #[test]
        fn distance_undoes_addition(psn: u32, packets in 0..1u32 << 23) {
            let psn = Psn::new(psn);
            prop_assert_eq!((psn + packets).distance(psn), packets as i32);
        }
    }
}
