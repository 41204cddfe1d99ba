//! Whether the next host on the way to an address is known: what routing netlink says to everybody
//! (`rtnetlink(7)`), as `addr_resolve` of the kernel's connection manager looks it up.
//!
//! Each question is a message of its own and answered before the call returns, so nobody waits.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rustix::net::{self, AddressFamily, SocketFlags, SocketType};

/// The system's state of the next host on the way to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Neighbour {
    /// How to reach it, or that there is nothing to know: the address is this machine's, or the
    /// interface has no neighbours.
    Known,
    /// It is being asked for.
    Asked,
    /// Nothing. It is asked for when a packet is sent there.
    Unknown,
}

/// Asks the system for the state of the next host on the way to an address. Where it does not tell, every
/// host counts as known. The way to an address that is good for one link only begins at `interface`.
pub(crate) fn neighbour(to: IpAddr, interface: Option<u32>) -> Neighbour {
    let known = Netlink::open().and_then(|mut netlink| netlink.neighbour(to, interface));
    known.unwrap_or(Neighbour::Known)
}

const HEADER: usize = size_of::<libc::nlmsghdr>();
/// Of `struct rtmsg` and `struct ndmsg`.
const SHORT: usize = 12;
/// Of `struct ifinfomsg`.
const LONG: usize = 16;
/// `RTA_VIA` (`linux/rtnetlink.h`): a next hop of another family than the address.
const RTA_VIA: u16 = 18;
/// Interfaces whose packets need no address of Ethernet.
const WITHOUT_NEIGHBOURS: libc::c_int =
    libc::IFF_LOOPBACK | libc::IFF_POINTOPOINT | libc::IFF_NOARP;
/// `NUD_VALID` (`net/neighbour.h`): packets can be sent.
const VALID: u16 = libc::NUD_PERMANENT
    | libc::NUD_NOARP
    | libc::NUD_REACHABLE
    | libc::NUD_PROBE
    | libc::NUD_STALE
    | libc::NUD_DELAY;

/// A socket that questions go out by.
struct Netlink(File);

/// The next host, and by which interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hop {
    interface: u32,
    address: IpAddr,
}

impl Netlink {
    fn open() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // Its protocol 0 is NETLINK_ROUTE.
        let fd = net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        Ok(Self(fd.into()))
    }

    fn neighbour(&mut self, to: IpAddr, interface: Option<u32>) -> io::Result<Neighbour> {
        let route = self.ask(&route_question(to, interface))?;
        let Some(hop) = hop_of(&route, to) else { return Ok(Neighbour::Known) };
        let interface = self.ask(&interface_question(hop.interface))?;
        if flags_of(&interface).is_none_or(|flags| flags & WITHOUT_NEIGHBOURS as u32 != 0) {
            return Ok(Neighbour::Known);
        }
        match self.ask(&neighbour_question(hop)) {
            Ok(answer) => Ok(state_of(&answer)),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(Neighbour::Unknown),
            Err(error) => Err(error),
        }
    }

    /// The answer to a question, without netlink's header.
    fn ask(&mut self, question: &[u8]) -> io::Result<Vec<u8>> {
        self.0.write_all(question)?;
        let mut answer = vec![0; 8192];
        let length = self.0.read(&mut answer)?;
        answer.truncate(length);
        let error = u16_at(&answer, 4).is_some_and(|kind| i32::from(kind) == libc::NLMSG_ERROR);
        if error {
            let number = u32_at(&answer, HEADER).map_or(0, |number| number as i32);
            return Err(io::Error::from_raw_os_error(number.wrapping_neg()));
        }
        Ok(answer.split_off(HEADER.min(length)))
    }
}

/// A message: netlink's header, a fixed part, attributes.
fn question(kind: u16, fixed: &[u8], attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    bytes.extend(kind.to_ne_bytes());
    bytes.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
    bytes.resize(HEADER, 0);
    bytes.extend(fixed);
    // All values are whole words.
    for (kind, value) in attributes {
        bytes.extend((4 + value.len() as u16).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(*value);
    }
    let length = bytes.len() as u32;
    bytes[..4].copy_from_slice(&length.to_ne_bytes());
    bytes
}

fn family(ip: IpAddr) -> u8 {
    (if ip.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 }) as u8
}

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().into(),
        IpAddr::V6(ip) => ip.octets().into(),
    }
}

fn ip(octets: &[u8]) -> Option<IpAddr> {
    let v4 = || Some(Ipv4Addr::from(<[u8; 4]>::try_from(octets).ok()?).into());
    let v6 = || Some(Ipv6Addr::from(<[u8; 16]>::try_from(octets).ok()?).into());
    v4().or_else(v6)
}

fn route_question(to: IpAddr, interface: Option<u32>) -> Vec<u8> {
    let mut fixed = [0; SHORT];
    fixed[0] = family(to);
    // Bits of the destination.
    fixed[1] = if to.is_ipv4() { 32 } else { 128 };
    let (to, interface) = (octets(to), interface.map(u32::to_ne_bytes));
    let mut attributes = vec![(libc::RTA_DST, &to[..])];
    attributes.extend(interface.as_ref().map(|number| (libc::RTA_OIF, &number[..])));
    question(libc::RTM_GETROUTE, &fixed, &attributes)
}

fn interface_question(interface: u32) -> Vec<u8> {
    let mut fixed = [0; LONG];
    fixed[4..8].copy_from_slice(&interface.to_ne_bytes());
    question(libc::RTM_GETLINK, &fixed, &[])
}

fn neighbour_question(hop: Hop) -> Vec<u8> {
    let mut fixed = [0; SHORT];
    fixed[0] = family(hop.address);
    fixed[4..8].copy_from_slice(&hop.interface.to_ne_bytes());
    question(libc::RTM_GETNEIGH, &fixed, &[(libc::NDA_DST, &octets(hop.address))])
}

/// The next host of a route; `None` if it leads to no other host.
fn hop_of(route: &[u8], to: IpAddr) -> Option<Hop> {
    if route.get(7) != Some(&libc::RTN_UNICAST) {
        return None;
    }
    let interface = u32_at(attribute(route, SHORT, libc::RTA_OIF)?, 0)?;
    let gateway = || ip(attribute(route, SHORT, libc::RTA_GATEWAY)?);
    let via = || ip(attribute(route, SHORT, RTA_VIA)?.get(2..)?);
    Some(Hop { interface, address: gateway().or_else(via).unwrap_or(to) })
}

/// The flags of an interface.
fn flags_of(interface: &[u8]) -> Option<u32> {
    u32_at(interface, 8)
}

fn state_of(neighbour: &[u8]) -> Neighbour {
    match u16_at(neighbour, 8) {
        Some(state) if state & VALID != 0 => Neighbour::Known,
        Some(libc::NUD_INCOMPLETE) => Neighbour::Asked,
        _ => Neighbour::Unknown,
    }
}

/// The value of an attribute behind a fixed part.
fn attribute(message: &[u8], fixed: usize, wanted: u16) -> Option<&[u8]> {
    let mut rest = message.get(fixed..)?;
    loop {
        let (length, kind) = (usize::from(u16_at(rest, 0)?), u16_at(rest, 2)?);
        let value = rest.get(4..length)?;
        if kind == wanted {
            return Some(value);
        }
        rest = rest.get(length.next_multiple_of(4)..)?;
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fixed part with bytes at some places, and attributes.
    fn message(fixed: &[(usize, u8)], attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0; SHORT];
        fixed.iter().for_each(|(at, byte)| bytes[*at] = *byte);
        for (kind, value) in attributes {
            bytes.extend((4 + value.len() as u16).to_ne_bytes());
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(*value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    #[test]
    fn the_next_host_of_a_route() {
        let to: IpAddr = "192.0.2.9".parse().unwrap();
        let unicast = [(7, libc::RTN_UNICAST)];
        let oif: (u16, &[u8]) = (libc::RTA_OIF, &7u32.to_ne_bytes());
        let hop = |fixed: &[_], attributes: &[_]| hop_of(&message(fixed, attributes), to);
        assert_eq!(hop(&unicast, &[oif]), Some(Hop { interface: 7, address: to }));
        let gateway: (u16, &[u8]) = (libc::RTA_GATEWAY, &[10, 0, 0, 1]);
        let by_gateway = Hop { interface: 7, address: [10, 0, 0, 1].into() };
        assert_eq!(hop(&unicast, &[(9, &[1, 2, 3]), gateway, oif]), Some(by_gateway));
        let fe80 = [0xfe80, 0, 0, 0, 0, 0, 0, 1u16];
        let via = [&(libc::AF_INET6 as u16).to_ne_bytes()[..], &Ipv6Addr::from(fe80).octets()];
        let via = via.concat();
        let by_v6 = Hop { interface: 7, address: fe80.into() };
        assert_eq!(hop(&unicast, &[(RTA_VIA, &via), oif]), Some(by_v6));
        assert_eq!(hop(&[(7, libc::RTN_LOCAL)], &[oif]), None);
        assert_eq!(hop(&unicast, &[]), None);
        for length in 0..SHORT + 8 {
            assert_eq!(hop_of(&message(&unicast, &[oif])[..length], to), None);
        }
    }

    #[test]
    fn states() {
        let state = |state: u16| state_of(&message(&[(8, state as u8)], &[]));
        for valid in [libc::NUD_REACHABLE, libc::NUD_STALE, libc::NUD_NOARP, libc::NUD_PERMANENT] {
            assert_eq!(state(valid), Neighbour::Known);
        }
        assert_eq!(state(libc::NUD_INCOMPLETE), Neighbour::Asked);
        assert_eq!((state(libc::NUD_FAILED), state(0)), (Neighbour::Unknown, Neighbour::Unknown));
        assert_eq!(state_of(&[]), Neighbour::Unknown);
    }

    #[test]
    fn the_system_answers() {
        let mut netlink = match Netlink::open() {
            Ok(netlink) => netlink,
            Err(error) => return needs::skipped(format_args!("no netlink here: {error}")),
        };
        for own in [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
            assert_eq!(neighbour(own, None), Neighbour::Known);
        }
        let route = netlink.ask(&route_question(Ipv4Addr::LOCALHOST.into(), None)).unwrap();
        assert_eq!(route[7], libc::RTN_LOCAL);
        // The loopback interface.
        let flags = flags_of(&netlink.ask(&interface_question(1)).unwrap()).unwrap();
        assert_ne!(flags & libc::IFF_LOOPBACK as u32, 0);
        let none = netlink.ask(&interface_question(0x7fff_fff0)).unwrap_err();
        assert_eq!(none.raw_os_error(), Some(libc::ENODEV));
    }
}
