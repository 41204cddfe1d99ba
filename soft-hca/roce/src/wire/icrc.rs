//! The invariant CRC, a packet's last four bytes. IBTA volume 1, 7.8.1 and annex A17.3.3;
//! `rxe_icrc.c`.
//!
//! It is the CRC-32 of Ethernet and zlib, in little-endian order, over what no router may change:
//!
//! ```text
//! +----------+--------------------+----------------+-------------+----------------+
//! | 8 x ff   | IPv4 or IPv6       | UDP            | BTH         | rest, with pad |
//! |          | ff in place of TOS,| ff in place of | ff in place |                |
//! |          | TTL, checksum; or  | the checksum   | of byte 4   |                |
//! |          | class, label, hops |                |             |                |
//! +----------+--------------------+----------------+-------------+----------------+
//!                   ^ IPv4: id, DF flag       `----- `covered` below, no ICRC ---'
//! ```
//!
//! A UDP socket neither says nor learns the id of an IPv4 header.
//!
//! - Sent by a socket that is not connected, with `IP_PMTUDISC_PROBE` or `_DO`, the id is 0 and the
//!   DF flag is set: [`seal`] counts on that. (Linux, `ip_select_ident_segs`.)
//! - Of what is received the id can be solved for. A CRC is affine: with `d` for the difference of
//!   the received one to that of id 0, and `n` for the bytes from the id to the end, `d` is the
//!   difference in those four bytes (id, flags, offset) times x^8n. So `d` times x^-8n is that
//!   difference, and the packet is good if only id and DF flag differ. 16 bits of the CRC decide
//!   for either value of the flag; Ethernet's own check comes to that. IPv6 has no id, and all 32
//!   bits count.
//!
//! Sockets drop no packet for its ICRC, so an address translator on the way makes all of them
//! wrong.

use crc32fast::Hasher;

use super::bth::Bth;
use super::ip::{Addresses, Flow, IPV4_BYTES, IpHeader, UDP_BYTES};
use super::packet::{ICRC_BYTES, MAX_BYTES, Packet};

/// The CRC of what precedes the IP header, 8 x ff.
const EIGHT_FF: u32 = 0x2144_df1c;
/// BTH's byte with FECN, BECN and six reserved bits.
const VARIANT: usize = 4;
/// From the id to the end of the UDP header.
const ID_TO_PACKET: usize = IPV4_BYTES - 4 + UDP_BYTES;
/// A cleared DF flag, in the place where the difference has it.
const DF: u32 = 0x40 << 16;

/// The polynomial, without x^32; bit 31 is the coefficient of x^0.
const POLYNOMIAL: u32 = 0xedb8_8320;

/// How a packet's ICRC is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// With this IPv4 header.
    V4 {
        /// The identification, in the host's order.
        id: u16,
        /// The flag DF.
        dont_fragment: bool,
    },
    /// IPv6: as it is.
    V6,
}

/// Writes a packet's ICRC into its last four bytes, for the IP header that a socket will send.
/// A packet that is shorter than BTH and ICRC stays as it is.
pub fn seal(flow: &Flow, packet: &mut [u8]) {
    seal_segment(flow, packet, 0);
}

/// Writes the ICRC of one of the packets that go to a socket as one piece (`UDP_SEGMENT`): their
/// ids count up from 0 (Linux, `inet_gso_segment`). Otherwise as [`seal`].
pub fn seal_segment(flow: &Flow, packet: &mut [u8], id: u16) {
    if let Some((covered, icrc)) = packet.split_last_chunk_mut() {
        if let Some(crc) = crc(flow, covered, id) {
            *icrc = crc.to_le_bytes();
        }
    }
}

/// Checks a packet's ICRC; `None` if it is wrong, or if the packet is too short or long or its
/// length is no multiple of 4.
pub fn check(flow: &Flow, packet: &[u8]) -> Option<Right> {
    if !Packet::is_length(packet.len()) {
        return None;
    }
    let (covered, icrc) = packet.split_last_chunk::<ICRC_BYTES>()?;
    let difference = crc(flow, covered, 0)? ^ u32::from_le_bytes(*icrc);
    match flow.addresses {
        Addresses::V6 { .. } => (difference == 0).then_some(Right::V6),
        Addresses::V4 { .. } if difference == 0 => Some(Right::V4 { id: 0, dont_fragment: true }),
        Addresses::V4 { .. } => {
            let header = multiply(difference, BACK[covered.len() / 4]);
            let [i0, i1, ..] = header.to_le_bytes();
            let dont_fragment = match header >> 16 << 16 {
                0 => true,
                DF => false,
                _ => return None,
            };
            Some(Right::V4 { id: u16::from_be_bytes([i0, i1]), dont_fragment })
        }
    }
}

/// The CRC with an id and DF; `None` if there is no whole BTH.
fn crc(flow: &Flow, covered: &[u8], id: u16) -> Option<u32> {
    if covered.len() < Bth::BYTES {
        return None;
    }
    let packet = covered.len() + ICRC_BYTES;
    let ip = IpHeader {
        addresses: flow.addresses,
        traffic_class: 0xff,
        flow_label: u32::MAX,
        hop_limit: 0xff,
        id,
        dont_fragment: true,
        packet,
    };
    let mut begin = Begin { bytes: [0; BEGIN_BYTES], length: 0 };
    match flow.addresses {
        Addresses::V4 { source, destination } => {
            let mut ip = ip.ipv4(source, destination);
            ip[10..12].fill(0xff);
            begin.put(&ip);
        }
        Addresses::V6 { source, destination } => begin.put(&ip.ipv6(source, destination)),
    }
    let [source0, source1, destination0, destination1, length0, length1, ..] = flow.udp(packet);
    begin.put(&[source0, source1, destination0, destination1, length0, length1, 0xff, 0xff]);
    let at = begin.length;
    // A short packet in one piece; a long one is not copied, but for what has a mask.
    let is_short = covered.len() <= BEGIN_BYTES - at;
    let (first, rest) = covered.split_at(if is_short { covered.len() } else { Bth::BYTES });
    begin.put(first);
    begin.bytes[at + VARIANT] = 0xff;
    let mut hasher = Hasher::new_with_initial(EIGHT_FF);
    hasher.update(&begin.bytes[..begin.length]);
    if !rest.is_empty() {
        hasher.update(rest);
    }
    Some(hasher.finalize())
}

/// Room for what is hashed first.
const BEGIN_BYTES: usize = 128;

struct Begin {
    bytes: [u8; BEGIN_BYTES],
    length: usize,
}

impl Begin {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }
}

/// x^-8n for packets whose covered part has 0, 4, 8 ... bytes, n from the id to its end.
static BACK: [u32; MAX_BYTES / 4] = {
    let mut table = [0; MAX_BYTES / 4];
    let mut power = back_by(1 << 31, ID_TO_PACKET);
    let mut i = 0;
    while i < table.len() {
        table[i] = power;
        power = back_by(power, 4);
        i += 1;
    }
    table
};

/// Divides by x^8n.
const fn back_by(mut value: u32, bytes: usize) -> u32 {
    let mut bits = 8 * bytes;
    while bits > 0 {
        // The polynomial has x^0, so where that is, it was subtracted.
        value = if value >> 31 == 1 { (value ^ POLYNOMIAL) << 1 | 1 } else { value << 1 };
        bits -= 1;
    }
    value
}

/// The product modulo the polynomial.
fn multiply(a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    for bit in (0..u32::BITS).rev() {
        product ^= b & (a >> bit & 1).wrapping_neg();
        b = b >> 1 ^ POLYNOMIAL & (b & 1).wrapping_neg();
    }
    product
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use proptest::prelude::*;

    use super::*;
    use crate::wire::packet::PORT;
    use crate::wire::samples::Random;

    fn flow(source: &str, destination: &str) -> Flow {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        Flow::new(at(source), at(destination)).unwrap()
    }

    /// By the definition, bit by bit, with whatever IP header.
    fn slow(mut ip: Vec<u8>, flow: &Flow, covered: &[u8]) -> u32 {
        if ip[0] >> 4 == 4 {
            [1, 8, 10, 11].into_iter().for_each(|masked| ip[masked] = 0xff);
        } else {
            ip[0] |= 0x0f;
            [1, 2, 3, 7].into_iter().for_each(|masked| ip[masked] = 0xff);
        }
        let mut udp = flow.udp(covered.len() + 4);
        udp[6..].fill(0xff);
        let mut covered = covered.to_vec();
        covered[4] = 0xff;
        let mut crc = u32::MAX;
        for byte in [&[0xff; 8][..], &ip, &udp, &covered].concat() {
            crc ^= u32::from(byte);
            for _ in 0..8 {
                crc = crc >> 1 ^ if crc & 1 == 1 { POLYNOMIAL } else { 0 };
            }
        }
        !crc
    }

    fn sealed(flow: &Flow, id: u16, dont_fragment: bool, mut packet: Vec<u8>) -> Vec<u8> {
        let covered = packet.len() - 4;
        let header = IpHeader { id, dont_fragment, ..IpHeader::new(flow.addresses, packet.len()) };
        let grh = header.grh();
        let ip = grh[40 - flow.addresses.header_bytes()..].to_vec();
        let icrc = slow(ip, flow, &packet[..covered]);
        packet[covered..].copy_from_slice(&icrc.to_le_bytes());
        packet
    }

    #[test]
    fn a_packet_of_an_adapter_and_one_of_a_generator_are_right() {
        let mut notification = vec![0; 32];
        notification[..8].copy_from_slice(&[0x81, 0, 0xff, 0xff, 0x40, 0, 1, 0x18]);
        notification[28..].copy_from_slice(&[0x82, 0xfd, 0x00, 0x2a]);
        let connectx = flow("10.0.17.1:0", "10.0.18.1:4791");
        let right = Right::V4 { id: 0x718c, dont_fragment: true };
        assert_eq!(check(&connectx, &notification), Some(right));
        // Congestion on the way changes nothing; a wrong address does.
        notification[4] = 0xc0;
        assert_eq!(check(&connectx, &notification), Some(right));
        assert_eq!(check(&flow("10.0.17.2:0", "10.0.18.1:4791"), &notification), None);

        let mut send = vec![0x24, 0x60, 0xff, 0xff, 0, 0, 0, 211, 0];
        send.extend(&13_571_856u32.to_be_bytes()[1..]);
        send.extend(b"F0\x81\x8b\xe2\x895\xd9\x0e\x9a\x95PT\x01\xbe\x88^P\0\0");
        send.extend([0x78, 0xf3, 0x53, 0xf3]);
        let right = Right::V4 { id: 1144, dont_fragment: true };
        assert_eq!(check(&flow("192.168.0.7:49152", "192.168.0.7:4791"), &send), Some(right));
    }

    #[test]
    fn what_is_sealed_is_right_by_the_definition() {
        let mut random = Random::new(1);
        let flows = [
            flow("192.0.2.1:4791", "192.0.2.2:4791"),
            flow("[2001:db8::1]:49152", "[2001:db8::2]:4791"),
        ];
        for flow in flows {
            for length in (16..=200).step_by(4).chain((4096..=MAX_BYTES).step_by(4)) {
                let mut packet = random.bytes(length);
                let expected = sealed(&flow, 0, true, packet.clone());
                seal(&flow, &mut packet);
                assert_eq!(packet, expected, "{length}");
                assert!(check(&flow, &packet).is_some());
            }
            // Nothing to seal.
            for length in 0..16 {
                let mut packet = vec![7; length];
                seal(&flow, &mut packet);
                assert_eq!(packet, vec![7; length]);
                assert_eq!(check(&flow, &packet), None);
            }
            assert_eq!(check(&flow, &vec![0; MAX_BYTES + 4]), None);
        }
    }

    #[test]
    fn every_id_is_solved_for() {
        let mut random = Random::new(2);
        for i in 0..3000 {
            let [a, b, c, d] = random.next().to_le_bytes();
            let source = SocketAddr::from(([10, a, b, c], u16::from(d) << 8 | 5));
            let flow = Flow::new(source, SocketAddr::from(([10, 1, 2, 3], PORT))).unwrap();
            let length = 16 + 4 * (random.next() as usize % if i % 30 == 0 { 1030 } else { 80 });
            let (id, dont_fragment) = (random.next() as u16, i % 3 != 0);
            let bytes = random.bytes(length);
            let packet = sealed(&flow, id, dont_fragment, bytes);
            assert_eq!(check(&flow, &packet), Some(Right::V4 { id, dont_fragment }), "{i}");
            if dont_fragment {
                let mut segment = packet.clone();
                segment[length - 4..].fill(0);
                seal_segment(&flow, &mut segment, id);
                assert_eq!(segment, packet, "{i}");
            }
        }
    }

    /// Damaged packets in `of` that are taken for good ones.
    fn passed(flow: &Flow, of: u32) -> u32 {
        let mut random = Random::new(3);
        let mut packet = random.bytes(64);
        seal(flow, &mut packet);
        let mut taken = 0;
        for _ in 0..of {
            let mut damaged = packet.clone();
            // More than 32 bits apart: nothing shorter escapes.
            let at = 5 + random.next() as usize % 40;
            damaged[at] ^= random.next() as u8 | 1;
            damaged[at + 5..at + 10].copy_from_slice(&random.bytes(5));
            taken += u32::from(check(flow, &damaged).is_some());
        }
        taken
    }

    #[test]
    fn damage_is_found() {
        // One in 2^16 for either value of DF: 9.2 are to be expected, and 3.0 is one deviation.
        let taken = passed(&flow("192.0.2.1:4791", "192.0.2.2:4791"), 300_000);
        assert!((1..25).contains(&taken), "{taken}");
        let taken = passed(&flow("[2001:db8::1]:4791", "[2001:db8::2]:4791"), 100_000);
        assert_eq!(taken, 0);
    }

    proptest! {
        #[test]
        fn nothing_random_panics(datagram: Vec<u8>) {
            let v4 = flow("192.0.2.1:4791", "192.0.2.2:4791");
            let v6 = flow("[2001:db8::1]:4791", "[2001:db8::2]:4791");
            for flow in [v4, v6] {
                check(&flow, &datagram);
                let mut datagram = datagram.clone();
                seal(&flow, &mut datagram);
            }
        }
    }
}
