//! The machine's addresses, which are the device's GIDs: `roce_gid_mgmt.c`.
#![allow(unsafe_code, reason = "the list of addresses that the C library gives")]

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{GID_TABLE_LEN, guid_of};

/// The GID table, and what else is local.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    gids: Vec<GidEntry>,
    local: Vec<IpAddr>,
    mtu: u32,
}

/// A slot of the GID table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GidEntry {
    /// The GID.
    pub gid: [u8; 16],
    /// The address that it stands for.
    pub ip: IpAddr,
    /// The network interface that has the address.
    pub netdev: String,
}

/// A network interface that is up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Interface {
    name: String,
    is_loopback: bool,
    /// It has a carrier. A bridge without members has none.
    is_running: bool,
    /// Of Ethernet interfaces.
    mac: Option<[u8; 6]>,
    addresses: Vec<IpAddr>,
    /// Bytes.
    mtu: u32,
}

/// Bytes of headers that rxe leaves room for in each frame (`RXE_MAX_HDR_LENGTH`).
const HEADERS: u32 = 80;

/// Used slots: one of the table always stays empty.
const MAX_GIDS: usize = GID_TABLE_LEN as usize - 1;

impl Addresses {
    /// Those of this machine, as they are now.
    ///
    /// Index 0 is a link-local GID made of the MAC, 1 the first IPv4 address that is not a
    /// loopback one (127.0.0.1 if there is none), 2 is 127.0.0.1 otherwise. Further IPv4, then
    /// IPv6 addresses follow as far as there is room.
    pub fn local() -> Self {
        Self::of_interfaces(&interfaces(), guid_of(&[b"link-local"]))
    }

    /// The table of given interfaces; `made_up` is the identifier for GID 0 if none has a MAC.
    pub(super) fn of_interfaces(interfaces: &[Interface], made_up: u64) -> Self {
        let mut outward: Vec<&Interface> =
            interfaces.iter().filter(|interface| !interface.is_loopback).collect();
        outward.sort_by_key(|interface| !interface.is_running);
        let inward = interfaces.iter().filter(|interface| interface.is_loopback);
        let ordered: Vec<&Interface> = outward.iter().copied().chain(inward).collect();

        let loopback_name =
            interfaces.iter().find(|i| i.is_loopback).map_or("lo", |i| i.name.as_str());
        let loopback = (IpAddr::V4(Ipv4Addr::LOCALHOST), loopback_name);
        let all =
            || ordered.iter().flat_map(|i| i.addresses.iter().map(|&ip| (ip, i.name.as_str())));
        let ipv4 = all().filter(|(ip, _)| ip.is_ipv4() && !ip.is_loopback());
        let mut table: Vec<(IpAddr, &str)> = ipv4.collect();
        table.insert(table.len().min(1), loopback);
        // Addresses that are good for one link come last: every bridge has one.
        let one_link = |ip: &IpAddr| u8::from(ip.is_loopback()) + 2 * u8::from(is_link_local(ip));
        let mut ipv6: Vec<_> = all().filter(|(ip, _)| ip.is_ipv6()).collect();
        ipv6.sort_by_key(|(ip, _)| one_link(ip));
        table.extend(ipv6);

        let main = ordered.iter().find(|i| i.name == table[0].1);
        let with_mac = main.into_iter().chain(&outward).find_map(|i| Some((i.mac?, &i.name)));
        let first = match with_mac {
            Some((mac, name)) => (link_local(eui64(mac)), name.as_str()),
            None => (link_local(made_up), table[0].1),
        };
        table.insert(0, (first.0.into(), first.1));

        let mut gids: Vec<GidEntry> = Vec::new();
        for (ip, netdev) in table {
            let gid = gid_of(ip);
            if gids.len() < MAX_GIDS && gids.iter().all(|entry| entry.gid != gid) {
                gids.push(GidEntry { gid, ip, netdev: netdev.to_string() });
            }
        }
        let mut local: Vec<IpAddr> = all().map(|(ip, _)| ip).collect();
        local.extend(gids.iter().map(|entry| entry.ip));
        Self { gids, local, mtu: main.map_or(1500, |i| i.mtu) }
    }

    /// The GID at an index; all zeros in an empty slot.
    pub fn gid(&self, index: u8) -> [u8; 16] {
        self.gids.get(usize::from(index)).map_or([0; 16], |entry| entry.gid)
    }

    /// The used slots, from index 0 on.
    pub fn gids(&self) -> &[GidEntry] {
        &self.gids
    }

    /// The address that a slot stands for.
    pub fn ip(&self, index: u8) -> Option<IpAddr> {
        self.gids.get(usize::from(index)).map(|entry| entry.ip)
    }

    /// The GID index of a local address. Loopback addresses share one, and those for which the
    /// table has no room go by index 1. `None` for what is not local.
    pub fn find(&self, ip: IpAddr) -> Option<u8> {
        let ip = match ip.to_canonical() {
            IpAddr::V4(v4) if v4.is_loopback() => Ipv4Addr::LOCALHOST.into(),
            ip => ip,
        };
        let found = self.gids.iter().position(|entry| entry.ip == ip).map(|i| i as u8);
        found.or_else(|| self.is_local(ip).then_some(1))
    }

    /// Whether an address is one of this machine's. No wildcard is.
    pub fn is_local(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        ip.is_loopback() || self.local.contains(&ip)
    }

    /// The address behind GID 1.
    pub fn ipv4(&self) -> Ipv4Addr {
        match self.ip(1) {
            Some(IpAddr::V4(ip)) => ip,
            _ => Ipv4Addr::LOCALHOST,
        }
    }

    /// The interface behind GID 1.
    pub fn netdev(&self) -> &str {
        self.gids.get(1).map_or("lo", |entry| &entry.netdev)
    }

    /// The path MTU as `ibv_mtu` counts it: 1 for 256 bytes to 5 for 4096.
    pub fn active_mtu(&self) -> u8 {
        let room = self.mtu.saturating_sub(HEADERS);
        [4096, 2048, 1024, 512].iter().position(|&mtu| room >= mtu).map_or(1, |i| 5 - i as u8)
    }
}

/// The link-local address with an interface identifier.
fn link_local(identifier: u64) -> Ipv6Addr {
    Ipv6Addr::from_bits(0xfe80 << 112 | u128::from(identifier))
}

fn is_link_local(ip: &IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

/// The identifier made of a MAC, as IPv6 and RoCE do it.
fn eui64(mac: [u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = mac;
    u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

fn gid_of(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

/// The interfaces that are up, in the system's order.
fn interfaces() -> Vec<Interface> {
    let mut list = std::ptr::null_mut();
    // SAFETY: gives a list that is freed below, or fails.
    if unsafe { libc::getifaddrs(&mut list) } != 0 {
        return Vec::new();
    }
    let mut order = Vec::new();
    let mut found: BTreeMap<String, Interface> = BTreeMap::new();
    let mut next = list;
    // SAFETY: null, or an entry of the list.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        if entry.ifa_flags & libc::IFF_UP as u32 == 0 {
            continue;
        }
        // SAFETY: every entry has a name.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy().into_owned();
        let interface = found.entry(name).or_insert_with_key(|name| {
            order.push(name.clone());
            Interface {
                name: name.clone(),
                is_loopback: entry.ifa_flags & libc::IFF_LOOPBACK as u32 != 0,
                is_running: entry.ifa_flags & libc::IFF_RUNNING as u32 != 0,
                mtu: mtu_of(name),
                ..Interface::default()
            }
        });
        // SAFETY: the address of an entry of the list.
        unsafe { add_address(interface, entry.ifa_addr) };
    }
    // SAFETY: given by getifaddrs, and not used any more.
    unsafe { libc::freeifaddrs(list) };
    order.iter().filter_map(|name| found.remove(name)).collect()
}

/// Adds what an address of the system's list says.
///
/// # Safety
/// `address` is null or points to an address of the length that its family has.
unsafe fn add_address(interface: &mut Interface, address: *const libc::sockaddr) {
    // SAFETY: the caller's promise.
    let Some(any) = (unsafe { address.as_ref() }) else { return };
    match libc::c_int::from(any.sa_family) {
        libc::AF_INET => {
            // SAFETY: the family says what it is.
            let v4 = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from_bits(u32::from_be(v4.sin_addr.s_addr));
            interface.addresses.push(ip.into());
        }
        libc::AF_INET6 => {
            // SAFETY: the family says what it is.
            let v6 = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            interface.addresses.push(Ipv6Addr::from(v6.sin6_addr.s6_addr).into());
        }
        libc::AF_PACKET => {
            // SAFETY: the family says what it is.
            let link = unsafe { address.cast::<libc::sockaddr_ll>().read_unaligned() };
            let mac = link.sll_addr.first_chunk().copied().unwrap_or_default();
            let is_ethernet = link.sll_hatype == libc::ARPHRD_ETHER && link.sll_halen == 6;
            interface.mac = (is_ethernet && mac != [0; 6]).then_some(mac);
        }
        _ => {}
    }
}

fn mtu_of(name: &str) -> u32 {
    let text = fs::read_to_string(format!("/sys/class/net/{name}/mtu")).unwrap_or_default();
    text.trim().parse().unwrap_or(1500)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lo() -> Interface {
        Interface {
            name: "lo".into(),
            is_loopback: true,
            is_running: true,
            addresses: vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
            mtu: 65536,
            ..Interface::default()
        }
    }

    fn veth() -> Interface {
        Interface {
            name: "veth0".into(),
            is_running: true,
            mac: Some([0xf2, 0x73, 0x5c, 0xd2, 0x22, 0x6d]),
            addresses: ["10.9.0.1", "fd00::2", "fe80::f073:5cff:fed2:226d"]
                .map(|ip| ip.parse().unwrap())
                .into(),
            mtu: 1500,
            ..Interface::default()
        }
    }

    fn texts(addresses: &Addresses) -> Vec<String> {
        addresses.gids().iter().map(|entry| entry.ip.to_string()).collect()
    }

    #[test]
    fn the_usual_machine() {
        let addresses = Addresses::of_interfaces(&[lo(), veth()], 1);
        let expected = ["fe80::f073:5cff:fed2:226d", "10.9.0.1", "127.0.0.1", "fd00::2", "::1"];
        assert_eq!(texts(&addresses), expected);
        assert_eq!(addresses.gid(1)[10..], [0xff, 0xff, 10, 9, 0, 1]);
        assert_eq!(addresses.gid(5), [0; 16]);
        assert_eq!(addresses.gid(255), [0; 16]);
        assert_eq!((addresses.netdev(), addresses.active_mtu()), ("veth0", 3));
        assert_eq!(addresses.ipv4(), Ipv4Addr::new(10, 9, 0, 1));
    }

    #[test]
    fn nothing_but_loopback() {
        for interfaces in [&[lo()][..], &[]] {
            let addresses = Addresses::of_interfaces(interfaces, 2 << 56 | 5);
            assert_eq!(texts(&addresses)[..2], ["fe80::200:0:0:5", "127.0.0.1"]);
            assert_eq!(addresses.netdev(), "lo");
        }
        assert_eq!(Addresses::of_interfaces(&[lo()], 1).active_mtu(), 5);
    }

    #[test]
    fn what_has_a_carrier_goes_first() {
        let bridge = Interface {
            name: "docker0".into(),
            addresses: vec![Ipv4Addr::new(172, 17, 0, 1).into()],
            mac: Some([2; 6]),
            ..Interface::default()
        };
        let addresses = Addresses::of_interfaces(&[lo(), bridge, veth()], 1);
        assert_eq!(texts(&addresses)[1..4], ["10.9.0.1", "127.0.0.1", "172.17.0.1"]);
        assert_eq!(addresses.gids()[0].netdev, "veth0");
        assert_eq!(addresses.gids()[3].netdev, "docker0");
    }

    #[test]
    fn finding() {
        let mut many = veth();
        many.addresses.extend((1..=30).map(|i| IpAddr::from([10, 1, 1, i])));
        let addresses = Addresses::of_interfaces(&[lo(), many], 1);
        assert_eq!(addresses.gids().len(), 15);
        assert_eq!(addresses.gid(15), [0; 16]);
        let find = |ip: &str| addresses.find(ip.parse().unwrap());
        assert_eq!(find("10.9.0.1"), Some(1));
        assert_eq!(find("::ffff:10.9.0.1"), Some(1));
        assert_eq!((find("127.0.0.1"), find("127.8.8.8")), (Some(2), Some(2)));
        assert_eq!(find("10.1.1.3"), Some(5));
        assert_eq!(find("10.1.1.30"), Some(1));
        assert_eq!((find("10.9.0.2"), find("0.0.0.0"), find("::")), (None, None, None));
        assert!(!addresses.is_local("192.0.2.77".parse().unwrap()));
    }

    #[test]
    fn this_machine() {
        let addresses = Addresses::local();
        assert!(addresses.find(Ipv4Addr::LOCALHOST.into()).is_some());
        assert_eq!(addresses.gid(0)[..2], [0xfe, 0x80]);
        assert!(addresses.gids().len() < usize::from(GID_TABLE_LEN));
    }
}
