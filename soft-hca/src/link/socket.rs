//! UDP sockets that send and receive RoCE v2 packets.
#![allow(unsafe_code, reason = "options of sockets and what comes with a datagram")]

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use soft_hca_roce::wire::packet::PORT;

use crate::link::multicast;
use crate::link::path::{Control, Path};
use crate::system::check;

/// Bytes that may wait in either direction; the system allows as much as it likes.
const BUFFER: libc::c_int = 4 << 20;
/// `UDP_NO_CHECK6_RX` (`linux/udp.h`): datagrams without a checksum are good.
const UDP_NO_CHECK6_RX: libc::c_int = 102;
/// `IPV6_AUTOFLOWLABEL` (`linux/in6.h`): the system makes up flow labels.
const IPV6_AUTOFLOWLABEL: libc::c_int = 70;

/// The socket of one own address, or of a group. It is never connected: only so has what it sends the
/// identification 0, which the ICRC covers.
#[derive(Debug)]
pub(super) struct Socket {
    pub address: IpAddr,
    socket: UdpSocket,
}

/// A datagram that was received.
#[derive(Clone, Copy, Debug)]
pub(super) struct Datagram {
    pub length: usize,
    pub from: SocketAddr,
    /// Time to live, or hop limit.
    pub hop_limit: u8,
    /// Type of service, or traffic class.
    pub traffic_class: u8,
    /// The flow label; 0 with IPv4.
    pub flow_label: u32,
}

impl Socket {
    /// Binds an own address. What is for groups leaves by the interface with this number.
    pub(super) fn bind(address: IpAddr, interface: u32) -> io::Result<Self> {
        let socket = UdpSocket::bind((address, PORT))?;
        multicast::send_by(&socket, address, interface)?;
        Self::new(address, socket)
    }

    /// Of a socket that is bound to an own address or a group's.
    pub(super) fn new(address: IpAddr, socket: UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let this = Self { address, socket };
        let _ = this.set(libc::SOL_SOCKET, libc::SO_RCVBUF, BUFFER);
        let _ = this.set(libc::SOL_SOCKET, libc::SO_SNDBUF, BUFFER);
        match address {
            IpAddr::V4(_) => {
                // Not to be fragmented, so with identification 0.
                this.set(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)?;
                this.set(libc::IPPROTO_IP, libc::IP_RECVTTL, 1)?;
                this.set(libc::IPPROTO_IP, libc::IP_RECVTOS, 1)?;
            }
            IpAddr::V6(_) => {
                let probe = libc::IPV6_PMTUDISC_PROBE;
                this.set(libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, probe)?;
                this.set(libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, 1)?;
                this.set(libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
                this.set(libc::IPPROTO_IPV6, libc::IPV6_FLOWINFO, 1)?;
                // As kernel Soft-RoCE, without a flow label.
                this.set(libc::IPPROTO_IPV6, IPV6_AUTOFLOWLABEL, 0)?;
                // Kernel Soft-RoCE sends none.
                this.set(libc::IPPROTO_UDP, UDP_NO_CHECK6_RX, 1)?;
            }
        }
        Ok(this)
    }

    fn set(&self, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
        set_option(&self.socket, level, name, &value)
    }

    /// Sends a packet to another host or to a group.
    pub(super) fn send(&self, path: &Path, packet: &[u8]) -> io::Result<()> {
        let mut control = Control::of(path);
        if control.is_empty() {
            return self.socket.send_to(packet, (path.peer, PORT)).map(drop);
        }
        let (mut name, name_bytes) = sockaddr(SocketAddr::from((path.peer, PORT)));
        let mut part =
            libc::iovec { iov_base: packet.as_ptr().cast_mut().cast(), iov_len: packet.len() };
        // SAFETY: plain numbers and pointers, for which zeros are good.
        let mut header: libc::msghdr = unsafe { zeroed() };
        header.msg_name = (&raw mut name).cast();
        header.msg_namelen = name_bytes;
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        control.attach(&mut header);
        // SAFETY: all parts of the header live through the call, which only reads them.
        let sent = unsafe { libc::sendmsg(self.socket.as_raw_fd(), &header, 0) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Receives a packet, if there is one; `WouldBlock` if not.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> io::Result<Datagram> {
        // SAFETY: plain numbers, for which zeros are good.
        let mut name: libc::sockaddr_storage = unsafe { zeroed() };
        let mut control = [0u64; 16];
        let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // SAFETY: as above, and no pointers.
        let mut header: libc::msghdr = unsafe { zeroed() };
        header.msg_name = (&raw mut name).cast();
        header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control) as _;
        // SAFETY: all parts of the header live through the call.
        let length =
            unsafe { libc::recvmsg(self.socket.as_raw_fd(), &mut header, libc::MSG_TRUNC) };
        if length < 0 {
            return Err(io::Error::last_os_error());
        }
        let from = address(&name).ok_or(io::ErrorKind::InvalidData)?;
        let mut datagram = Datagram {
            length: length as usize,
            from,
            hop_limit: 64,
            traffic_class: 0,
            flow_label: 0,
        };
        // SAFETY: the header is as the call has left it.
        let mut next = unsafe { libc::CMSG_FIRSTHDR(&header) };
        // SAFETY: null or an entry within `control`.
        while let Some(entry) = unsafe { next.as_ref() } {
            // SAFETY: an entry has at least one byte of data, the first of its number.
            let data = unsafe { libc::CMSG_DATA(next) };
            match (entry.cmsg_level, entry.cmsg_type) {
                // SAFETY: a type of service is one byte.
                (libc::IPPROTO_IP, libc::IP_TOS) => datagram.traffic_class = unsafe { *data },
                (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                    // SAFETY: a number of the system's.
                    let value = unsafe { data.cast::<libc::c_int>().read_unaligned() };
                    datagram.hop_limit = value as u8;
                }
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    // SAFETY: a number of the system's.
                    let value = unsafe { data.cast::<libc::c_int>().read_unaligned() };
                    datagram.traffic_class = value as u8;
                }
                (libc::IPPROTO_IPV6, libc::IPV6_FLOWINFO) => {
                    // SAFETY: a number of the system's, in network byte order.
                    let value = unsafe { data.cast::<u32>().read_unaligned() };
                    datagram.flow_label = u32::from_be(value) & 0xf_ffff;
                }
                _ => {}
            }
            // SAFETY: an entry of this header.
            next = unsafe { libc::CMSG_NXTHDR(&header, next) };
        }
        Ok(datagram)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Sets an option of a socket.
pub(super) fn set_option<T: Copy>(
    socket: &UdpSocket,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let bytes = size_of::<T>() as libc::socklen_t;
    let value = std::ptr::from_ref(value).cast();
    // SAFETY: the value lives through the call, which reads no more than it has.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value, bytes) }).map(drop)
}

/// An address as the system reads it, and its bytes.
pub(super) fn sockaddr(address: SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: plain numbers, for which zeros are good.
    let mut name: libc::sockaddr_storage = unsafe { zeroed() };
    let at = &raw mut name;
    let bytes = match address {
        SocketAddr::V4(v4) => {
            let v4 = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: v4.ip().to_bits().to_be() },
                sin_zero: [0; 8],
            };
            // SAFETY: the storage has room for any address.
            unsafe { at.cast::<libc::sockaddr_in>().write(v4) };
            size_of_val(&v4)
        }
        SocketAddr::V6(v6) => {
            let v6 = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: the storage has room for any address.
            unsafe { at.cast::<libc::sockaddr_in6>().write(v6) };
            size_of_val(&v6)
        }
    };
    (name, bytes as libc::socklen_t)
}

/// The address that the system has written.
fn address(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let name = &raw const *name;
    // SAFETY: the storage has room for either, and the family says which it is.
    unsafe {
        match libc::c_int::from((*name).ss_family) {
            libc::AF_INET => {
                let v4 = name.cast::<libc::sockaddr_in>().read();
                let ip = Ipv4Addr::from_bits(u32::from_be(v4.sin_addr.s_addr));
                Some(SocketAddr::from((ip, u16::from_be(v4.sin_port))))
            }
            libc::AF_INET6 => {
                let v6 = name.cast::<libc::sockaddr_in6>().read();
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                Some(SocketAddr::from((ip, u16::from_be(v6.sin6_port))))
            }
            _ => None,
        }
    }
}
