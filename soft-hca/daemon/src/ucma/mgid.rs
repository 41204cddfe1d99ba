//! Multicast groups of InfiniBand: what a subnet manager and IPoIB's mapping of addresses do.

use std::net::IpAddr;

use soft_hca_roce::wire::bth::DEFAULT_PKEY;

use super::id::Space;
use crate::paths::FIRST_MLID;

/// Multicast LIDs (IBTA 4.1.3).
const MLIDS: std::ops::Range<u16> = FIRST_MLID..0xffff;
/// In a group's GID: of IPv4 and IPv6 addresses (RFC 4391), and of the connection manager's own
/// (`cma_set_mgid`).
const IPV4: [u8; 2] = [0x40, 0x1b];
const IPV6: [u8; 2] = [0x60, 0x1b];
const RDMA_CM: u8 = 0x01;

/// The GID of the group that an address stands for (`ip_ib_mc_map`, `ipv6_ib_mc_map`).
pub(super) fn mgid(address: IpAddr, space: Space) -> [u8; 16] {
    let mut gid = [0; 16];
    // Transient, of this subnet.
    gid[..2].copy_from_slice(&[0xff, 0x12]);
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            let group = v4.to_bits() & 0x0fff_ffff;
            gid[2..4].copy_from_slice(&IPV4);
            gid[12..].copy_from_slice(&group.to_be_bytes());
        }
        IpAddr::V6(v6) => {
            gid[2..4].copy_from_slice(&IPV6);
            gid[6..].copy_from_slice(&v6.octets()[6..]);
        }
    }
    gid[4..6].copy_from_slice(&DEFAULT_PKEY.to_be_bytes());
    if space == Space::Udp {
        gid[3] = RDMA_CM;
    }
    gid
}

/// The multicast LIDs of a subnet.
#[derive(Debug, Default)]
pub(super) struct Mlids(Vec<[u8; 16]>);

impl Mlids {
    /// The LID of a group: the next one if it has none yet. Where all are in use groups share the
    /// last.
    pub(super) fn of(&mut self, gid: [u8; 16]) -> u16 {
        let known = self.0.iter().position(|known| *known == gid);
        let index = known.unwrap_or(self.0.len()).min(MLIDS.len() - 1);
        if index == self.0.len() {
            self.0.push(gid);
        }
        MLIDS.start + index as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_as_the_kernel_maps_them() {
        let of = |ip: &str, space| mgid(ip.parse().unwrap(), space);
        let v4 = [0xff, 0x12, 0x40, 0x01, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0x0f, 0, 0, 1];
        assert_eq!(of("239.0.0.1", Space::Udp), v4);
        assert_eq!(of("239.0.0.1", Space::Ipoib)[3], 0x1b);
        let v6 = [0xff, 0x12, 0x60, 0x01, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0x47, 0x91, 0, 1];
        assert_eq!(of("ff0e::4791:1", Space::Udp), v6);
    }

    #[test]
    fn each_group_has_its_lid() {
        let mut mlids = Mlids::default();
        assert_eq!([[1; 16], [2; 16], [1; 16]].map(|gid| mlids.of(gid)), [0xc000, 0xc001, 0xc000]);
    }
}
