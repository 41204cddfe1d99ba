//! Socket addresses as they stand in commands and answers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use super::{put, u16_at, u32_at};
use crate::errno::Result;
use crate::uapi::ucma::array;

/// Bytes of a `sockaddr_storage`.
pub const SOCKADDR_STORAGE: usize = 128;
/// Bytes of a `sockaddr_in6`, the room that the older commands give an address.
pub const SOCKADDR_IN6: usize = 28;

const SOCKADDR_IN: usize = 16;
const SOCKADDR_IB: usize = 48;

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
        Self::try_decode(bytes).ok().flatten()
    }

    fn try_decode(bytes: &[u8]) -> Result<Option<Self>> {
        let port = |at| array(bytes, at).map(u16::from_be_bytes);
        Ok(Some(match u16_at(bytes, 0)? {
            AF_INET => {
                array::<SOCKADDR_IN>(bytes, 0)?;
                let ip = Ipv4Addr::from(array::<4>(bytes, 4)?);
                Self::Ip(SocketAddr::V4(SocketAddrV4::new(ip, port(2)?)))
            }
            AF_INET6 => {
                let ip = Ipv6Addr::from(array::<16>(bytes, 8)?);
                let (flow, scope) = (u32_at(bytes, 4)?, u32_at(bytes, 24)?);
                Self::Ip(SocketAddr::V6(SocketAddrV6::new(ip, port(2)?, flow, scope)))
            }
            AF_IB => Self::Ib(IbAddress {
                pkey: port(2)?,
                flowinfo: array(bytes, 4).map(u32::from_be_bytes)?,
                gid: array(bytes, 8)?,
                sid: array(bytes, 24).map(u64::from_be_bytes)?,
                sid_mask: array(bytes, 32).map(u64::from_be_bytes)?,
                scope: array(bytes, 40).map(u64::from_le_bytes)?,
            }),
            _ => return Ok(None),
        }))
    }

    /// Bytes of the address, which depend on the family.
    pub fn size(&self) -> usize {
        match self {
            Self::Ip(SocketAddr::V4(_)) => SOCKADDR_IN,
            Self::Ip(SocketAddr::V6(_)) => SOCKADDR_IN6,
            Self::Ib(_) => SOCKADDR_IB,
        }
    }

    /// Writes the address to the beginning of `to`, as much of it as there is room for.
    pub fn encode(&self, to: &mut [u8]) {
        let mut bytes = [0; SOCKADDR_IB];
        match self {
            Self::Ip(SocketAddr::V4(v4)) => {
                put(&mut bytes, 0, &AF_INET.to_le_bytes());
                put(&mut bytes, 2, &v4.port().to_be_bytes());
                put(&mut bytes, 4, &v4.ip().octets());
            }
            Self::Ip(SocketAddr::V6(v6)) => {
                put(&mut bytes, 0, &AF_INET6.to_le_bytes());
                put(&mut bytes, 2, &v6.port().to_be_bytes());
                put(&mut bytes, 4, &v6.flowinfo().to_le_bytes());
                put(&mut bytes, 8, &v6.ip().octets());
                put(&mut bytes, 24, &v6.scope_id().to_le_bytes());
            }
            Self::Ib(ib) => {
                put(&mut bytes, 0, &AF_IB.to_le_bytes());
                put(&mut bytes, 2, &ib.pkey.to_be_bytes());
                put(&mut bytes, 4, &ib.flowinfo.to_be_bytes());
                put(&mut bytes, 8, &ib.gid);
                put(&mut bytes, 24, &ib.sid.to_be_bytes());
                put(&mut bytes, 32, &ib.sid_mask.to_be_bytes());
                put(&mut bytes, 40, &ib.scope.to_le_bytes());
            }
        }
        let len = self.size().min(to.len());
        put(to, 0, &bytes[..len]);
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
