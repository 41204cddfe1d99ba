//! The machine's network interfaces.
#![allow(unsafe_code, reason = "the list of addresses that the C library gives")]

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::AsRawFd;

/// A network interface that is up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// It leads nowhere else.
    pub is_loopback: bool,
    /// It has a carrier. A bridge without members has none.
    pub is_running: bool,
    /// Of Ethernet interfaces.
    pub mac: Option<[u8; 6]>,
    /// Its addresses, in the system's order.
    pub addresses: Vec<IpAddr>,
    /// Bytes.
    pub mtu: u32,
}

/// The interfaces that are up, in the system's order.
pub(crate) fn interfaces() -> Vec<Interface> {
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
        // SAFETY: every entry of `getifaddrs` has a C string as its name, until the list is freed below.
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
    // SAFETY: the caller gives null or an address that outlives the call.
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

/// The MTU of a network interface now, in bytes. The system is asked by a socket, for `/sys` may show
/// the interfaces of another network namespace.
pub(super) fn mtu_of(name: &str) -> u32 {
    asked_mtu(name).unwrap_or(1500)
}

fn asked_mtu(name: &str) -> Option<u32> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    // SAFETY: plain numbers, for which zeros are good.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays 0.
    if name.len() >= request.ifr_name.len() {
        return None;
    }
    for (to, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = byte as libc::c_char;
    }
    // SAFETY: the request lives through the call, which fills in the number.
    let requested = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU, &raw mut request) };
    // SAFETY: a number of the system's, if it has answered, or else zeros.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    (requested == 0).then(|| u32::try_from(mtu).ok()).flatten()
}
