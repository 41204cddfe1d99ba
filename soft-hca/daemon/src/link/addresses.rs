//! Which of the machine's addresses the link is to have.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};

use soft_hca_core::config::LinkOptions;

use crate::device::{self, Interface};
use crate::link::Error;

/// Only looked up, never sent to: the way there is the default route (RFC 5737).
const ELSEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1));

/// The addresses that `wanted` names, in its order: a list with commas of addresses and interfaces.
/// With an empty one, the address to which the default route leads, or all if there is no such route.
pub fn addresses(wanted: &str, interfaces: &[Interface]) -> Result<Vec<IpAddr>, Error> {
    let of = |interface: &Interface| {
        let routable = interface.addresses.iter().copied().filter(|ip| is_routable(*ip));
        routable.collect::<Vec<_>>()
    };
    let all: Vec<IpAddr> = interfaces.iter().flat_map(of).collect();
    let mut found = Vec::new();
    for name in wanted.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let requested: Option<IpAddr> = name.parse().ok();
        let named = match interfaces.iter().find(|interface| interface.name == name) {
            Some(interface) => of(interface),
            None => all.iter().copied().filter(|ip| requested == Some(*ip)).collect(),
        };
        if named.is_empty() {
            return Err(Error::Unknown(name.to_owned()));
        }
        found.extend(named);
    }
    if wanted.trim().is_empty() {
        let default = device::route(ELSEWHERE).ok();
        found = match default.filter(|ip| all.contains(ip)) {
            Some(ip) => vec![ip],
            None => all,
        };
    }
    let mut seen = HashSet::new();
    found.retain(|ip| seen.insert(*ip));
    if found.is_empty() { Err(Error::NoAddress) } else { Ok(found) }
}

/// The addresses of the link in the table of GIDs; none if there is to be no link.
pub fn link_addresses(wanted: Option<&LinkOptions>) -> Vec<IpAddr> {
    let of = |wanted: &LinkOptions| addresses(&wanted.addresses, &device::interfaces()).ok();
    wanted.and_then(of).unwrap_or_default()
}

fn is_routable(ip: IpAddr) -> bool {
    let is_link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    !ip.is_loopback() && !ip.is_unspecified() && !ip.is_multicast() && !is_link_local
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_interfaces() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let interface = Interface {
            name: "left".into(),
            is_running: true,
            addresses: vec![ip("192.0.2.7"), ip("2001:db8::7"), ip("fe80::7")],
            mtu: 1500,
            ..Interface::default()
        };
        let interfaces = [interface];
        let of = |wanted| addresses(wanted, &interfaces);
        let both = [ip("192.0.2.7"), ip("2001:db8::7")];
        assert_eq!(of("left").unwrap(), both);
        assert_eq!(of("").unwrap(), both);
        assert_eq!(of("192.0.2.7,left").unwrap(), both);
        assert_eq!(of("2001:db8::7,left").unwrap(), [both[1], both[0]]);
        assert_eq!(of("192.0.2.7").unwrap(), both[..1]);
        for unknown in ["192.0.2.8", "right", "192.0.2.7,127.0.0.1", "fe80::7"] {
            assert!(matches!(of(unknown), Err(Error::Unknown(_))), "{unknown}");
        }
        assert!(matches!(addresses("", &[]), Err(Error::NoAddress)));
    }
}
