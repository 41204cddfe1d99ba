//! GID tables, and how RoCE makes them of the machine's addresses: `roce_gid_mgmt.c`.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use soft_hca_roce::wire::ip::gid as gid_of;

use super::Interface;

/// A port's GID table, and what else is local.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GidTable {
    slots: u16,
    entries: Vec<GidEntry>,
    /// Addresses of the machine. Not all of them may have a slot.
    local: Vec<IpAddr>,
    /// The table has what other hosts reach by the link, and nothing else.
    is_on_link: bool,
}

/// A used slot of the GID table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GidEntry {
    /// The GID.
    pub gid: [u8; 16],
    /// Its kind.
    pub gid_type: GidType,
    /// The network interface that has the address, if it is one.
    pub netdev: Option<String>,
}

/// `ib_gid_type`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GidType {
    /// Of InfiniBand, or RoCE without IP.
    Ib,
    /// An address of IP.
    RoceV2,
}

impl GidEntry {
    /// The address that the GID stands for.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        match self.gid_type {
            GidType::Ib => None,
            GidType::RoceV2 => Some(Ipv6Addr::from(self.gid).to_canonical()),
        }
    }
}

impl GidType {
    /// As sysfs names it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ib => "IB/RoCE v1",
            Self::RoceV2 => "RoCE v2",
        }
    }
}

/// The index that a RoCE table has for IPv4.
const USUAL: u8 = 1;

impl GidTable {
    /// A table of so many slots; the first are used.
    #[cfg(test)]
    pub(crate) fn new(slots: u16, entries: Vec<GidEntry>) -> Self {
        Self { slots, entries, local: Vec::new(), is_on_link: false }
    }

    /// The table of an InfiniBand port: its GID, at index 0, for which programs name its addresses
    /// of IP.
    pub(super) fn infiniband(slots: u16, gid: [u8; 16], addresses: Vec<IpAddr>) -> Self {
        let entry = GidEntry { gid, gid_type: GidType::Ib, netdev: None };
        Self { slots, entries: vec![entry], local: addresses, is_on_link: false }
    }

    /// The table of a RoCE port. One slot always stays empty.
    ///
    /// Index 0 is a link-local GID made of the MAC (of `made_up` if no interface has one). With the
    /// addresses of a `link` there follow those, IPv4 first, and the link-local ones of the first one's
    /// interface: what other hosts reach, and nothing else, as rxe's table has nothing of other interfaces
    /// than its own. Without, there follow those of all interfaces: IPv4 (127.0.0.1 if there is no
    /// other), then IPv6, as far as there is room, then those of the loopback interface.
    pub(super) fn roce(
        slots: u16,
        interfaces: &[Interface],
        link: &[IpAddr],
        made_up: u64,
    ) -> Self {
        let mut ordered: Vec<&Interface> = interfaces.iter().collect();
        ordered.sort_by_key(|interface| (interface.is_loopback, !interface.is_running));
        let all: Vec<Address<'_>> = ordered
            .iter()
            .flat_map(|i| i.addresses.iter().map(|&ip| (ip, i.name.as_str())))
            .collect();
        let (mut table, mut last) =
            if link.is_empty() { of_machine(&all) } else { (of_link(&all, link), Vec::new()) };
        if !table.iter().any(|(ip, _)| ip.is_ipv4()) && link.is_empty() || table.is_empty() {
            let loopback = interfaces.iter().find(|i| i.is_loopback);
            let name = loopback.map_or("lo", |i| i.name.as_str());
            table.insert(0, (Ipv4Addr::LOCALHOST.into(), name));
        }

        let main = ordered.iter().find(|i| i.name == table[0].1);
        let with_mac = main.into_iter().chain(&ordered).find_map(|i| Some((i.mac?, &i.name)));
        let made_of_mac = match with_mac {
            Some((mac, name)) => (link_local(eui64(mac)), name.as_str()),
            None => (link_local(made_up), table[0].1),
        };
        table.insert(0, (made_of_mac.0.into(), made_of_mac.1));
        let mut seen = HashSet::new();
        table.retain(|(ip, _)| seen.insert(*ip));
        last.retain(|(ip, _)| seen.insert(*ip));
        table.truncate(usize::from(slots).saturating_sub(1 + last.len()));

        let entry = |(ip, netdev): (IpAddr, &str)| GidEntry {
            gid: gid_of(ip),
            gid_type: GidType::RoceV2,
            netdev: Some(netdev.to_owned()),
        };
        let entries = table.into_iter().chain(last).map(entry).collect();
        let local = all.iter().map(|(ip, _)| ip.to_canonical()).collect();
        Self { slots, entries, local, is_on_link: !link.is_empty() }
    }

    /// Slots, used or not.
    pub(crate) fn slots(&self) -> u16 {
        self.slots
    }

    /// The used slots, from index 0 on.
    pub fn entries(&self) -> &[GidEntry] {
        &self.entries
    }

    /// The GID at an index; all zeros in an empty slot.
    pub(crate) fn gid(&self, index: u8) -> [u8; 16] {
        self.entries.get(usize::from(index)).map_or([0; 16], |entry| entry.gid)
    }

    /// The address that a slot stands for.
    pub(crate) fn ip(&self, index: u8) -> Option<IpAddr> {
        self.entries.get(usize::from(index)).and_then(GidEntry::ip)
    }

    /// The addresses by which programs can name the port.
    pub(crate) fn ips(&self) -> impl Iterator<Item = IpAddr> {
        let of_entries = self.entries.iter().filter_map(GidEntry::ip);
        let others = self.local.iter().copied().filter(|_| self.is_infiniband());
        of_entries.filter(|ip| !is_link_local(ip)).chain(others)
    }

    /// The index of a local address. Loopback addresses share one, and those without a slot go by
    /// index 1, or by 0 where only that is of their family. `None` for what is not local, or has no GID.
    pub(crate) fn find(&self, ip: IpAddr) -> Option<u8> {
        let ip = match ip.to_canonical() {
            IpAddr::V4(v4) if v4.is_loopback() => Ipv4Addr::LOCALHOST.into(),
            ip => ip,
        };
        let stands_in = || {
            let is_local = ip.is_loopback() || self.local.contains(&ip);
            if self.is_infiniband() {
                return is_local.then_some(0);
            }
            let usual = self.ip(USUAL).filter(|_| is_local)?;
            Some(if ip.is_ipv6() && usual.is_ipv4() { 0 } else { USUAL })
        };
        self.index_of(ip).or_else(stands_in)
    }

    /// The index of the slot that an address has.
    fn index_of(&self, ip: IpAddr) -> Option<u8> {
        let found = self.entries.iter().position(|entry| entry.ip() == Some(ip));
        found.map(|index| index as u8)
    }

    /// Whether an id that binds to this local address belongs to the port. On a link an address that other
    /// hosts do not reach leads to no device, as the kernel has it for loopback ones (`cma_any_addr`).
    pub(crate) fn has_own(&self, ip: IpAddr) -> bool {
        !self.is_on_link || self.index_of(ip.to_canonical()).is_some()
    }

    /// Whether a GID is that of a local address without a slot.
    pub(crate) fn is_local_without_slot(&self, gid: [u8; 16]) -> bool {
        let ip = Ipv6Addr::from(gid).to_canonical();
        self.index_of(ip).is_none() && self.find(ip).is_some()
    }

    /// Whether a GID, as somebody's address, leads here.
    pub(crate) fn is_here(&self, gid: [u8; 16]) -> bool {
        self.entries.iter().any(|entry| entry.gid == gid)
            || !self.is_infiniband() && self.find(Ipv6Addr::from(gid).into()).is_some()
    }

    /// Whether GIDs are those of an InfiniBand subnet: none is an address of IP.
    pub(crate) fn is_infiniband(&self) -> bool {
        self.entries.first().is_some_and(|entry| entry.gid_type == GidType::Ib)
    }

    /// The first IPv4 address, 127.0.0.1 if there is no other one. It is GID 1 unless there is a link
    /// with IPv6 alone.
    pub fn ipv4(&self) -> Ipv4Addr {
        let of_table = self.entries.iter().filter_map(GidEntry::ip);
        let mut all = of_table.chain(self.local.iter().copied());
        let first = all.find_map(|ip| match ip {
            IpAddr::V4(ip) if !ip.is_loopback() => Some(ip),
            _ => None,
        });
        first.unwrap_or(Ipv4Addr::LOCALHOST)
    }

    /// The link-local addresses of an interface, by which neighbours can reach it. GID 0 is none of
    /// them if the system has given the interface another one.
    pub(crate) fn link_locals(&self, netdev: &str) -> impl Iterator<Item = IpAddr> {
        let of_netdev =
            self.entries.iter().filter(move |entry| entry.netdev.as_deref() == Some(netdev));
        let addresses = of_netdev.filter_map(GidEntry::ip);
        addresses.filter(|ip| is_link_local(ip) && self.local.contains(ip))
    }

    /// The interface that has an address.
    pub(crate) fn netdev_of(&self, ip: IpAddr) -> Option<&str> {
        self.entries.iter().find(|entry| entry.ip() == Some(ip))?.netdev.as_deref()
    }

    /// The interface behind GID 1.
    pub fn netdev(&self) -> Option<&str> {
        self.entries.get(usize::from(USUAL))?.netdev.as_deref()
    }
}

/// An address, and the interface that has it.
type Address<'i> = (IpAddr, &'i str);

/// The entries of a table without a link: the addresses of all interfaces, and those that come last.
fn of_machine<'i>(all: &[Address<'i>]) -> (Vec<Address<'i>>, Vec<Address<'i>>) {
    let is_localhost =
        |ip: IpAddr| [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()].contains(&ip);
    let mut outward: Vec<_> = all.iter().copied().filter(|(ip, _)| !ip.is_loopback()).collect();
    // Addresses that are good for one link come behind the others: every bridge has one.
    outward.sort_by_key(|(ip, _)| (ip.is_ipv6(), is_link_local(ip)));
    (outward, all.iter().copied().filter(|(ip, _)| is_localhost(*ip)).collect())
}

/// The entries of a table with a link.
fn of_link<'i>(all: &[Address<'i>], link: &[IpAddr]) -> Vec<Address<'i>> {
    let of = |wanted: &IpAddr| all.iter().copied().find(|(ip, _)| ip == wanted);
    let mut table: Vec<_> = link.iter().filter_map(of).collect();
    let first = table.first().map(|(_, netdev)| *netdev);
    table.sort_by_key(|(ip, _)| ip.is_ipv6());
    let is_near = |(ip, netdev): &Address<'_>| is_link_local(ip) && Some(*netdev) == first;
    table.extend(all.iter().copied().filter(is_near));
    table
}

/// The link-local address with an interface identifier.
fn link_local(identifier: u64) -> Ipv6Addr {
    Ipv6Addr::from_bits(0xfe80 << 112 | u128::from(identifier))
}

/// Whether an IPv6 address is good for one link only.
pub fn is_link_local(ip: &IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

/// The identifier made of a MAC, as IPv6 and RoCE do it.
fn eui64(mac: [u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = mac;
    u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::interfaces::interfaces;

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

    fn table(interfaces: &[Interface], made_up: u64) -> GidTable {
        GidTable::roce(16, interfaces, &[], made_up)
    }

    fn texts(gids: &GidTable) -> Vec<String> {
        gids.entries().iter().map(|entry| entry.ip().unwrap().to_string()).collect()
    }

    #[test]
    fn the_usual_machine() {
        let gids = table(&[lo(), veth()], 1);
        let expected = ["fe80::f073:5cff:fed2:226d", "10.9.0.1", "fd00::2", "127.0.0.1", "::1"];
        assert_eq!(texts(&gids), expected);
        assert_eq!(gids.gid(1)[10..], [0xff, 0xff, 10, 9, 0, 1]);
        assert_eq!(gids.gid(5), [0; 16]);
        assert_eq!(gids.gid(255), [0; 16]);
        assert_eq!(gids.netdev(), Some("veth0"));
        assert_eq!(gids.ipv4(), Ipv4Addr::new(10, 9, 0, 1));
    }

    #[test]
    fn nothing_but_loopback() {
        for interfaces in [&[lo()][..], &[]] {
            let gids = table(interfaces, 2 << 56 | 5);
            assert_eq!(texts(&gids)[..2], ["fe80::200:0:0:5", "127.0.0.1"]);
            assert_eq!(gids.netdev(), Some("lo"));
        }
    }

    #[test]
    fn no_ipv4_but_loopback() {
        let mut v6 = veth();
        v6.addresses.retain(IpAddr::is_ipv6);
        let expected = ["fe80::f073:5cff:fed2:226d", "127.0.0.1", "fd00::2", "::1"];
        assert_eq!(texts(&table(&[lo(), v6], 1)), expected);
    }

    #[test]
    fn what_has_a_carrier_goes_first() {
        let bridge = Interface {
            name: "docker0".into(),
            addresses: vec![Ipv4Addr::new(172, 17, 0, 1).into()],
            mac: Some([2; 6]),
            ..Interface::default()
        };
        let gids = table(&[lo(), bridge, veth()], 1);
        assert_eq!(texts(&gids)[1..4], ["10.9.0.1", "172.17.0.1", "fd00::2"]);
        assert_eq!(gids.entries()[0].netdev.as_deref(), Some("veth0"));
        assert_eq!(gids.entries()[2].netdev.as_deref(), Some("docker0"));
    }

    #[test]
    fn a_link_has_what_other_hosts_reach() {
        let other = Interface {
            name: "eth1".into(),
            addresses: ["10.8.0.1", "fe80::7", "10.8.0.2", "fd01::2"]
                .map(|ip| ip.parse().unwrap())
                .into(),
            mac: Some([0; 6]),
            ..Interface::default()
        };
        let interfaces = [lo(), veth(), other];
        let with = |link: &[&str]| {
            let link: Vec<IpAddr> = link.iter().map(|ip| ip.parse().unwrap()).collect();
            GidTable::roce(16, &interfaces, &link, 1)
        };
        let gids = with(&["fd01::2", "10.8.0.2", "192.0.2.1"]);
        assert_eq!(texts(&gids), ["fe80::200:ff:fe00:0", "10.8.0.2", "fd01::2", "fe80::7"]);
        assert_eq!(gids.netdev(), Some("eth1"));
        assert!(gids.link_locals("eth1").eq(["fe80::7".parse::<IpAddr>().unwrap()]));
        let gids = with(&["fd00::2"]);
        assert_eq!(texts(&gids), ["fe80::f073:5cff:fed2:226d", "fd00::2"]);
        assert_eq!(gids.ipv4(), Ipv4Addr::new(10, 9, 0, 1));
        assert!(gids.link_locals("veth0").eq([gids.ip(0).unwrap()]));
    }

    /// All of the machine's addresses are found, and none is the port's that other hosts do not reach.
    #[test]
    fn what_a_link_does_not_have() {
        let link = |ip: &str| GidTable::roce(16, &[lo(), veth()], &[ip.parse().unwrap()], 1);
        let gids = link("10.9.0.1");
        for (ip, index, is_own) in [
            ("10.9.0.1", Some(1), true),
            ("fe80::f073:5cff:fed2:226d", Some(0), true),
            ("127.0.0.1", Some(1), false),
            ("::1", Some(0), false),
            ("fd00::2", Some(0), false),
            ("10.9.0.2", None, false),
        ] {
            let ip: IpAddr = ip.parse().unwrap();
            assert_eq!((gids.find(ip), gids.has_own(ip)), (index, is_own), "{ip}");
            assert_eq!(gids.is_local_without_slot(gid_of(ip)), index.is_some() && !is_own, "{ip}");
        }
        let gids = link("fd00::2");
        assert_eq!(gids.find(Ipv4Addr::LOCALHOST.into()), Some(1));
        assert!(table(&[lo(), veth()], 1).has_own(Ipv4Addr::LOCALHOST.into()));
    }

    #[test]
    fn finding() {
        let mut many = veth();
        many.addresses.extend((1..=30).map(|i| IpAddr::from([10, 1, 1, i])));
        let gids = table(&[lo(), many], 1);
        assert_eq!(gids.entries().len(), 15);
        assert_eq!(gids.gid(15), [0; 16]);
        let find = |ip: &str| gids.find(ip.parse().unwrap());
        assert_eq!(find("10.9.0.1"), Some(1));
        assert_eq!(find("::ffff:10.9.0.1"), Some(1));
        assert_eq!((find("127.0.0.1"), find("127.8.8.8")), (Some(13), Some(13)));
        assert_eq!(find("::1"), Some(14));
        assert_eq!(find("10.1.1.3"), Some(4));
        assert_eq!(find("10.1.1.30"), Some(1));
        assert_eq!((find("10.9.0.2"), find("0.0.0.0"), find("::")), (None, None, None));
        assert_eq!(find("192.0.2.77"), None);
    }

    #[test]
    fn this_machine() {
        let gids = table(&interfaces(), 1);
        assert!(gids.find(Ipv4Addr::LOCALHOST.into()).is_some());
        assert_eq!(gids.gid(0)[..2], [0xfe, 0x80]);
        assert!(gids.entries().len() < usize::from(gids.slots()));
    }
}
