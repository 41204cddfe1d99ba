//! The carrier of a packet: IP addresses, which are GIDs, and the IP and UDP headers around it.
//!
//! A GID is an IPv6 address, or an IPv4 address as `::ffff:a.b.c.d`; a group's likewise
//! (`cma_iboe_set_mgid`). Programs see the IP header only with datagrams: the first 40 bytes of a
//! receive are those of an InfiniBand global route header, and hold an IPv6 header, or 20 zeros and
//! an IPv4 header (`rxe_resp.c`; IBTA volume 1, annex A17.4.5.1).
//!
//! ```text
//!  byte 0                     20                     40         48
//! +--------------------------+----------------------+----------+---------------------+
//! | 20 zeros                 | IPv4                 | UDP      | packet, see `packet`|
//! +--------------------------+----------------------+ dest port +                    |
//! | IPv6                                            | 4791     |                     |
//! +-------------------------------------------------+----------+---------------------+
//!  `-------- IpHeader::grh: what a program sees ---'
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A port's or group's address as verbs have it.
pub type Gid = [u8; 16];

/// Bytes before the payload in a datagram's receive.
pub const GRH_BYTES: usize = 40;
/// Bytes of an IPv4 header without options.
pub const IPV4_BYTES: usize = 20;
/// Bytes of an IPv6 header without extensions.
pub const IPV6_BYTES: usize = 40;
/// Bytes of a UDP header.
pub const UDP_BYTES: usize = 8;

/// UDP as a payload of IP.
const UDP: u8 = 17;
/// The bit of IPv4's byte 6 that forbids fragments.
const DONT_FRAGMENT: u8 = 0x40;

/// The GID of an address.
pub fn gid(address: IpAddr) -> Gid {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// The address that a GID is.
pub fn address(gid: &Gid) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from(*gid)).to_canonical()
}

/// Whether a GID is that of a group.
pub fn is_multicast(gid: &Gid) -> bool {
    address(gid).is_multicast()
}

/// Where a packet comes from and where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "both say it")]
pub enum Addresses {
    V4 { source: Ipv4Addr, destination: Ipv4Addr },
    V6 { source: Ipv6Addr, destination: Ipv6Addr },
}

impl Addresses {
    /// `None` if one is of IPv4 and the other of IPv6.
    pub fn new(source: IpAddr, destination: IpAddr) -> Option<Addresses> {
        match (source.to_canonical(), destination.to_canonical()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                Some(Addresses::V4 { source, destination })
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                Some(Addresses::V6 { source, destination })
            }
            _ => None,
        }
    }

    /// Where the packet goes.
    pub fn destination(&self) -> IpAddr {
        match *self {
            Addresses::V4 { destination, .. } => destination.into(),
            Addresses::V6 { destination, .. } => destination.into(),
        }
    }

    /// Bytes of the IP header.
    pub const fn header_bytes(&self) -> usize {
        match self {
            Addresses::V4 { .. } => IPV4_BYTES,
            Addresses::V6 { .. } => IPV6_BYTES,
        }
    }
}

/// Addresses and UDP ports of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// The addresses.
    pub addresses: Addresses,
    /// The sender's port. Any; RoCE senders choose it so that paths are shared evenly.
    pub source_port: u16,
    /// The receiver's port, [`PORT`](super::packet::PORT).
    pub destination_port: u16,
}

impl Flow {
    /// From one socket to another; `None` if one is of IPv4 and the other of IPv6.
    pub fn new(source: SocketAddr, destination: SocketAddr) -> Option<Flow> {
        Some(Flow {
            addresses: Addresses::new(source.ip(), destination.ip())?,
            source_port: source.port(),
            destination_port: destination.port(),
        })
    }

    /// The UDP header, with the checksum that says that there is none.
    pub(super) fn udp(&self, packet: usize) -> [u8; UDP_BYTES] {
        let [s0, s1] = self.source_port.to_be_bytes();
        let [d0, d1] = self.destination_port.to_be_bytes();
        let [l0, l1] = ((UDP_BYTES + packet) as u16).to_be_bytes();
        [s0, s1, d0, d1, l0, l1, 0, 0]
    }
}

/// An IP header around UDP, without options or extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpHeader {
    /// The addresses.
    pub addresses: Addresses,
    /// IPv4's type of service.
    pub traffic_class: u8,
    /// The flow label's 20 bits; IPv6 only.
    pub flow_label: u32,
    /// IPv4's time to live.
    pub hop_limit: u8,
    /// The identification; IPv4 only.
    pub id: u16,
    /// Not to be fragmented; IPv4 only.
    pub dont_fragment: bool,
    /// Bytes of the packet with its ICRC: what UDP carries.
    pub packet: usize,
}

impl IpHeader {
    /// As an unconnected socket that forbids fragments sends it: id 0, hop limit 64, or 1 to a
    /// group.
    pub fn new(addresses: Addresses, packet: usize) -> IpHeader {
        let hop_limit = if addresses.destination().is_multicast() { 1 } else { 64 };
        IpHeader {
            addresses,
            traffic_class: 0,
            flow_label: 0,
            hop_limit,
            id: 0,
            dont_fragment: true,
            packet,
        }
    }

    /// The header as a program sees it before a datagram's payload.
    pub fn grh(&self) -> [u8; GRH_BYTES] {
        match self.addresses {
            Addresses::V4 { source, destination } => {
                let mut header = self.ipv4(source, destination);
                let [c0, c1] = checksum(&header).to_be_bytes();
                (header[10], header[11]) = (c0, c1);
                let mut grh = [0; GRH_BYTES];
                grh[GRH_BYTES - IPV4_BYTES..].copy_from_slice(&header);
                grh
            }
            Addresses::V6 { source, destination } => self.ipv6(source, destination),
        }
    }

    /// An IPv4 header with a checksum of 0.
    pub(super) fn ipv4(&self, source: Ipv4Addr, destination: Ipv4Addr) -> [u8; IPV4_BYTES] {
        let [l0, l1] = ((IPV4_BYTES + UDP_BYTES + self.packet) as u16).to_be_bytes();
        let [i0, i1] = self.id.to_be_bytes();
        let flags = if self.dont_fragment { DONT_FRAGMENT } else { 0 };
        let [s0, s1, s2, s3] = source.octets();
        let [d0, d1, d2, d3] = destination.octets();
        let class = self.traffic_class;
        let limit = self.hop_limit;
        [0x45, class, l0, l1, i0, i1, flags, 0, limit, UDP, 0, 0, s0, s1, s2, s3, d0, d1, d2, d3]
    }

    pub(super) fn ipv6(&self, source: Ipv6Addr, destination: Ipv6Addr) -> [u8; IPV6_BYTES] {
        let mut header = [0; IPV6_BYTES];
        let first = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & 0xf_ffff;
        header[..4].copy_from_slice(&first.to_be_bytes());
        header[4..6].copy_from_slice(&((UDP_BYTES + self.packet) as u16).to_be_bytes());
        header[6] = UDP;
        header[7] = self.hop_limit;
        header[8..24].copy_from_slice(&source.octets());
        header[24..].copy_from_slice(&destination.octets());
        header
    }
}

/// The checksum of IP and UDP (RFC 1071) over bytes of which an odd last one counts as the upper
/// half of a number.
pub(super) fn checksum(bytes: &[u8]) -> u16 {
    let sum = bytes.chunks(2).map(|pair| match *pair {
        [upper, lower] => u64::from(u16::from_be_bytes([upper, lower])),
        [upper] => u64::from(upper) << 8,
        _ => 0,
    });
    let mut sum: u64 = sum.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(source: [u8; 4], destination: [u8; 4]) -> Addresses {
        Addresses::V4 { source: source.into(), destination: destination.into() }
    }

    #[test]
    fn gids_are_addresses() {
        let all = ["192.0.2.1", "239.1.1.1", "2001:db8::1", "ff0e::1", "fe80::1"];
        for text in all {
            let ip: IpAddr = text.parse().unwrap();
            assert_eq!(address(&gid(ip)), ip);
            assert_eq!(is_multicast(&gid(ip)), ip.is_multicast());
        }
        let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1];
        assert_eq!(gid([192, 0, 2, 1].into()), mapped);
        assert_eq!(address(&mapped), IpAddr::from([192, 0, 2, 1]));
    }

    #[test]
    fn families_do_not_mix() {
        let v4: SocketAddr = "192.0.2.1:4791".parse().unwrap();
        let v6: SocketAddr = "[2001:db8::1]:49152".parse().unwrap();
        let mapped: SocketAddr = "[::ffff:192.0.2.2]:49152".parse().unwrap();
        assert_eq!(Flow::new(v4, v6), None);
        let flow = Flow::new(mapped, v4).unwrap();
        let source = Ipv4Addr::new(192, 0, 2, 2);
        let destination = Ipv4Addr::new(192, 0, 2, 1);
        assert_eq!(flow.addresses, Addresses::V4 { source, destination });
        assert_eq!((flow.source_port, flow.destination_port), (49152, 4791));
        assert_eq!(flow.udp(16), [0xc0, 0, 0x12, 0xb7, 0, 24, 0, 0]);
    }

    #[test]
    fn an_ipv4_header_is_in_the_second_half() {
        // A datagram of 16 bytes: BTH, DETH, payload, ICRC.
        let header = IpHeader {
            traffic_class: 0x20,
            ..IpHeader::new(v4([10, 9, 0, 1], [10, 9, 0, 2]), 12 + 8 + 16 + 4)
        };
        let grh = header.grh();
        assert_eq!(grh[..20], [0; 20]);
        assert_eq!(grh[20..30], [0x45, 0x20, 0x00, 0x44, 0, 0, 0x40, 0, 64, 17]);
        assert_eq!(grh[32..], [10, 9, 0, 1, 10, 9, 0, 2]);
        assert_eq!(checksum(&grh[20..]), 0);
        let group = IpHeader::new(v4([10, 9, 0, 1], [239, 1, 1, 1]), 40);
        assert_eq!(group.grh()[28], 1);
    }

    #[test]
    fn an_ipv4_header_from_a_network_comes_back() {
        // From a congestion notification that a ConnectX-4 Lx has sent.
        let sent = [
            0x45, 0xc2, 0x00, 0x3c, 0x71, 0x8c, 0x40, 0x00, 0x40, 0x11, 0x91, 0x61, 0x0a, 0x00,
            0x11, 0x01, 0x0a, 0x00, 0x12, 0x01,
        ];
        let header = IpHeader {
            traffic_class: 0xc2,
            id: 0x718c,
            ..IpHeader::new(v4([10, 0, 17, 1], [10, 0, 18, 1]), 32)
        };
        assert_eq!(header.grh()[20..], sent);
    }

    #[test]
    fn an_ipv6_header_fills_all() {
        let source = Ipv6Addr::from([0xfe; 16]);
        let destination = Ipv6Addr::from([0xfd; 16]);
        let header = IpHeader {
            flow_label: 0x12345,
            ..IpHeader::new(Addresses::V6 { source, destination }, 40)
        };
        let grh = header.grh();
        assert_eq!(grh[..8], [0x60, 0x01, 0x23, 0x45, 0, 48, 17, 64]);
        assert_eq!((&grh[8..24], &grh[24..]), (&[0xfe; 16][..], &[0xfd; 16][..]));
    }

    #[test]
    fn an_odd_byte_counts_in_a_checksum() {
        assert_eq!(checksum(&[0x12, 0x34, 0x56]), !(0x1234 + 0x5600));
        assert_eq!(checksum(&[0xff; 4096]), 0);
    }
}
