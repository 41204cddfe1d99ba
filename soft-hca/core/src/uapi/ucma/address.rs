//! Socket addresses as they stand in commands and answers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use zerocopy::{FromBytes, IntoBytes};

use super::abi::{Room, SockaddrIb, SockaddrIn, SockaddrIn6};

const AF_INET: u16 = libc::AF_INET as u16;
const AF_INET6: u16 = libc::AF_INET6 as u16;
const AF_IB: u16 = libc::AF_IB as u16;

/// A `sockaddr_ib`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IbAddress {
    /// Partition.
    pub pkey: u16,
    /// Flow label and class.
    pub flowinfo: u32,
    /// The GID.
    pub gid: [u8; 16],
    /// Service id; its lower half is a port where it is made of a port space.
    pub sid: u64,
    /// The part of the service id that counts.
    pub sid_mask: u64,
    /// Scope.
    pub scope: u64,
}

/// An address of one of the three families that the connection manager knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sockaddr {
    /// IPv4 or IPv6. An IPv6 flow label is kept in the byte order that it came in.
    Ip(SocketAddr),
    /// InfiniBand's own.
    Ib(IbAddress),
}

impl Sockaddr {
    /// Reads an address, or `None` if its family is another or the room too small for it.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        Some(match u16::from_ne_bytes(*bytes.first_chunk()?) {
            AF_INET => {
                let (v4, _) = SockaddrIn::read_from_prefix(bytes).ok()?;
                let ip = Ipv4Addr::from(v4.sin_addr);
                Self::Ip(SocketAddrV4::new(ip, v4.sin_port.get()).into())
            }
            AF_INET6 => {
                let (v6, _) = SockaddrIn6::read_from_prefix(bytes).ok()?;
                let (ip, port) = (Ipv6Addr::from(v6.sin6_addr), v6.sin6_port.get());
                Self::Ip(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into())
            }
            AF_IB => {
                let (ib, _) = SockaddrIb::read_from_prefix(bytes).ok()?;
                Self::Ib(IbAddress {
                    pkey: ib.sib_pkey.get(),
                    flowinfo: ib.sib_flowinfo.get(),
                    gid: ib.sib_addr,
                    sid: ib.sib_sid.get(),
                    sid_mask: ib.sib_sid_mask.get(),
                    scope: ib.sib_scope_id,
                })
            }
            _ => return None,
        })
    }

    /// Bytes of the address, which depend on the family.
    pub fn size(&self) -> usize {
        match self {
            Self::Ip(SocketAddr::V4(_)) => size_of::<SockaddrIn>(),
            Self::Ip(SocketAddr::V6(_)) => size_of::<SockaddrIn6>(),
            Self::Ib(_) => size_of::<SockaddrIb>(),
        }
    }

    /// Writes the address to the beginning of `to`, as much of it as there is room for.
    pub fn encode(&self, to: &mut [u8]) {
        let put = |to: &mut [u8], bytes: &[u8]| {
            let length = bytes.len().min(to.len());
            to[..length].copy_from_slice(&bytes[..length]);
        };
        match self {
            Self::Ip(SocketAddr::V4(v4)) => {
                let v4 = SockaddrIn {
                    sin_family: AF_INET,
                    sin_port: v4.port().into(),
                    sin_addr: v4.ip().octets(),
                    ..SockaddrIn::default()
                };
                put(to, v4.as_bytes());
            }
            Self::Ip(SocketAddr::V6(v6)) => put(to, in6(v6).as_bytes()),
            Self::Ib(ib) => {
                let ib = SockaddrIb {
                    sib_family: AF_IB,
                    sib_pkey: ib.pkey.into(),
                    sib_flowinfo: ib.flowinfo.into(),
                    sib_addr: ib.gid,
                    sib_sid: ib.sid.into(),
                    sib_sid_mask: ib.sid_mask.into(),
                    sib_scope_id: ib.scope,
                };
                put(to, ib.as_bytes());
            }
        }
    }

    /// The address in a room of its own.
    pub(super) fn to_room<const N: usize>(self) -> Room<N> {
        let mut room = Room::default();
        self.encode(&mut room.0);
        room
    }

    /// The IP address and port, if it has them.
    pub fn ip(&self) -> Option<SocketAddr> {
        match self {
            Self::Ip(address) => Some(*address),
            Self::Ib(_) => None,
        }
    }

    /// The port, which an InfiniBand address has in its service id.
    pub fn port(&self) -> u16 {
        match self {
            Self::Ip(address) => address.port(),
            Self::Ib(ib) => (ib.sid & ib.sid_mask) as u16,
        }
    }

    /// The same address with another port.
    pub fn with_port(mut self, port: u16) -> Self {
        match &mut self {
            Self::Ip(address) => address.set_port(port),
            Self::Ib(ib) => {
                ib.sid = ib.sid & !0xffff | u64::from(port);
                ib.sid_mask = u64::MAX;
            }
        }
        self
    }

    /// All zeros but for the family.
    pub fn unset_of_family(&self) -> Self {
        match self {
            Self::Ip(SocketAddr::V4(_)) => Self::Ip((Ipv4Addr::UNSPECIFIED, 0).into()),
            Self::Ip(SocketAddr::V6(_)) => Self::Ip((Ipv6Addr::UNSPECIFIED, 0).into()),
            Self::Ib(_) => Self::Ib(IbAddress::default()),
        }
    }

    /// Whether it names no particular address.
    pub fn is_unspecified(&self) -> bool {
        match self {
            Self::Ip(address) => address.ip().to_canonical().is_unspecified(),
            Self::Ib(ib) => ib.gid == [0; 16],
        }
    }

    /// Whether both are of one family.
    pub fn same_family(&self, other: &Self) -> bool {
        std::mem::discriminant(&self.unset_of_family())
            == std::mem::discriminant(&other.unset_of_family())
            && self.size() == other.size()
    }

    /// The GID that stands for the address.
    pub fn gid(&self) -> [u8; 16] {
        match self {
            Self::Ib(ib) => ib.gid,
            Self::Ip(address) => match address.ip() {
                IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
                IpAddr::V6(v6) => v6.octets(),
            },
        }
    }
}

fn in6(v6: &SocketAddrV6) -> SockaddrIn6 {
    SockaddrIn6 {
        sin6_family: AF_INET6,
        sin6_port: v6.port().into(),
        sin6_flowinfo: v6.flowinfo(),
        sin6_addr: v6.ip().octets(),
        sin6_scope_id: v6.scope_id(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_survives_the_round_trip() {
        let v4 = [2, 0, 0x1d, 0x2f, 10, 9, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        let address = Sockaddr::decode(&v4).unwrap();
        assert_eq!(address, Sockaddr::Ip("10.9.0.1:7471".parse().unwrap()));
        assert_eq!((address.size(), address.port()), (16, 7471));
        let mut out = [0xff; 128];
        address.encode(&mut out);
        assert_eq!(out[..16], v4);
        assert_eq!(out[16..], [0xff; 112]);

        let mut v6 = [0; 28];
        v6[..8].copy_from_slice(&[10, 0, 0x1d, 0x2f, 1, 2, 3, 4]);
        v6[8..10].copy_from_slice(&[0xfe, 0x80]);
        v6[23..25].copy_from_slice(&[1, 5]);
        let address = Sockaddr::decode(&v6).unwrap();
        assert_eq!(address.ip().unwrap().to_string(), "[fe80::1%5]:7471");
        let mut out = [0; 28];
        address.encode(&mut out);
        assert_eq!(out, v6);

        let mut ib = [0; 48];
        ib[..4].copy_from_slice(&[27, 0, 0xff, 0xff]);
        ib[8..24].copy_from_slice(&[9; 16]);
        ib[24..32].copy_from_slice(&0x0106_1234u64.to_be_bytes());
        ib[32..40].copy_from_slice(&u64::MAX.to_be_bytes());
        let address = Sockaddr::decode(&ib).unwrap();
        assert_eq!((address.size(), address.port()), (48, 0x1234));
        assert_eq!(address.gid(), [9; 16]);
        let mut out = [0; 48];
        address.encode(&mut out);
        assert_eq!(out, ib);
    }

    #[test]
    fn unknown_families_and_short_rooms() {
        assert_eq!(Sockaddr::decode(&[]), None);
        assert_eq!(Sockaddr::decode(&[0; 128]), None);
        assert_eq!(Sockaddr::decode(&[1; 128]), None);
        assert_eq!(Sockaddr::decode(&[2, 0, 1, 1, 10, 9, 0, 1]), None);
        let mut ib = [0; 47];
        ib[0] = 27;
        assert_eq!(Sockaddr::decode(&ib), None);
    }

    #[test]
    fn gids_of_addresses() {
        let address = Sockaddr::Ip("10.9.0.1:1".parse().unwrap());
        assert_eq!(address.gid(), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, 1]);
        let v6 = Sockaddr::Ip("[fe80::1]:1".parse().unwrap());
        assert_eq!(v6.gid()[..2], [0xfe, 0x80]);
        assert!(!v6.same_family(&address));
        assert!(address.same_family(&address.unset_of_family()));
    }
}
