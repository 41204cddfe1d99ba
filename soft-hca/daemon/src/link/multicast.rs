//! Multicast groups of other hosts: from which of them the link receives, and on which interfaces.
//!
//! Sockets receive from a group from its first member on until its last one has gone, whoever the
//! members are: the kernel's `rxe_mcast.c` does so with the interface's filter, and its connection
//! manager with IGMP (`cma_igmp_send`); here a socket does both. It is bound to the group's
//! address, for one that is bound to an own address does not get what is sent to a group, and it
//! may be one of several fabrics' on this machine.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};
use std::sync::{Mutex, MutexGuard, PoisonError};

use soft_hca_roce::wire::packet::PORT;

use soft_hca_core::port::socket::{Socket, bind_to, group_at, new_socket, set_option};

/// `IPV6_MULTICAST_ALL` (`linux/in6.h`).
const IPV6_MULTICAST_ALL: libc::c_int = 29;

/// The groups of which queue pairs of this fabric are members.
#[derive(Debug)]
pub struct Groups {
    /// Interfaces with addresses of the link: number, and whether it is an IPv6 address.
    interfaces: Vec<(u32, bool)>,
    members: Mutex<HashMap<IpAddr, usize>>,
}

impl Groups {
    /// Of a link with addresses on these interfaces.
    pub(super) fn new(mut interfaces: Vec<(u32, bool)>) -> Self {
        interfaces.sort_unstable();
        interfaces.dedup();
        Self { interfaces, members: Mutex::default() }
    }

    fn members(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A group has one more member. For the first one, the sockets that receive from it.
    pub(super) fn join(&self, group: IpAddr) -> Vec<io::Result<Socket>> {
        let mut members = self.members();
        let count = members.entry(group).or_default();
        *count += 1;
        let is_first = *count == 1;
        let of_family = |(_, is_ipv6): &&(u32, bool)| is_first && *is_ipv6 == group.is_ipv6();
        let interfaces = self.interfaces.iter().filter(of_family);
        interfaces.map(|&(interface, _)| group_socket(group, interface)).collect()
    }

    /// A group has one member less. Whether that was the last.
    pub(super) fn leave(&self, group: IpAddr) -> bool {
        let mut members = self.members();
        let Some(count) = members.get_mut(&group) else { return false };
        *count -= 1;
        let is_last = *count == 0;
        if is_last {
            members.remove(&group);
        }
        is_last
    }
}

/// A socket that receives from a group on one interface.
fn group_socket(group: IpAddr, interface: u32) -> io::Result<Socket> {
    let (family, address) = match group {
        IpAddr::V4(_) => (libc::AF_INET, SocketAddr::new(group, PORT)),
        // A group that is good for one link needs to know which.
        IpAddr::V6(v6) => (libc::AF_INET6, SocketAddrV6::new(v6, PORT, 0, interface).into()),
    };
    let socket = new_socket(family)?;
    set_option(&socket, libc::SOL_SOCKET, libc::SO_REUSEADDR, &1i32)?;
    // Groups that others of this machine have joined are not for this one.
    match group {
        IpAddr::V4(_) => set_option(&socket, libc::IPPROTO_IP, libc::IP_MULTICAST_ALL, &0i32)?,
        IpAddr::V6(_) => set_option(&socket, libc::IPPROTO_IPV6, IPV6_MULTICAST_ALL, &0i32)?,
    }
    bind_to(&socket, address)?;
    join(&socket, group, interface)?;
    Socket::new(group, socket)
}

fn join(socket: &UdpSocket, group: IpAddr, interface: u32) -> io::Result<()> {
    match group {
        IpAddr::V4(v4) => {
            let request = group_at(v4, interface);
            set_option(socket, libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP, &request)
        }
        IpAddr::V6(v6) => socket.join_multicast_v6(&v6, interface),
    }
}
