//! Which of the machine's addresses the link is to have.

use std::net::{IpAddr, Ipv4Addr};

use crate::device::{self, Device};
use crate::link::Error;

/// Only looked up, never sent to: the way there is the default route (RFC 5737).
const ELSEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1));

/// The addresses that `wanted` names: a list with commas of addresses and interfaces. With an empty
/// one, the address to which the default route leads, or all if there is no such route.
pub(crate) fn addresses(wanted: &str, device: &Device) -> Result<Vec<IpAddr>, Error> {
    let entries = || device.ports.iter().flat_map(|port| port.gids.entries());
    let own: Vec<(IpAddr, Option<&str>)> = entries()
        .filter_map(|entry| Some((entry.ip()?, entry.netdev.as_deref())))
        .filter(|(ip, _)| is_routable(*ip))
        .collect();
    let mut found = Vec::new();
    for name in wanted.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let asked: Option<IpAddr> = name.parse().ok();
        let before = found.len();
        found.extend(own.iter().filter(|(ip, netdev)| asked == Some(*ip) || *netdev == Some(name)));
        if found.len() == before {
            return Err(Error::Unknown(name.to_owned()));
        }
    }
    let mut found: Vec<IpAddr> = found.into_iter().map(|(ip, _)| ip).collect();
    if wanted.trim().is_empty() {
        let default = device::route(ELSEWHERE).ok();
        found = match default.filter(|ip| own.iter().any(|(own, _)| own == ip)) {
            Some(ip) => vec![ip],
            None => own.iter().map(|(ip, _)| *ip).collect(),
        };
    }
    found.sort();
    found.dedup();
    if found.is_empty() { Err(Error::NoAddress) } else { Ok(found) }
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
    use crate::device::Interface;

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
        let device = Device::rxe("rxe0", 7, &[interface], 1);
        let of = |wanted| addresses(wanted, &device);
        let both = [ip("192.0.2.7"), ip("2001:db8::7")];
        assert_eq!(of("left").unwrap(), both);
        assert_eq!(of("").unwrap(), both);
        assert_eq!(of("192.0.2.7,left").unwrap(), both);
        assert_eq!(of("192.0.2.7").unwrap(), both[..1]);
        for unknown in ["192.0.2.8", "right", "192.0.2.7,127.0.0.1", "fe80::7"] {
            assert!(matches!(of(unknown), Err(Error::Unknown(_))), "{unknown}");
        }
        let none = Device::rxe("rxe0", 7, &[], 1);
        assert!(matches!(addresses("", &none), Err(Error::NoAddress)));
    }
}
