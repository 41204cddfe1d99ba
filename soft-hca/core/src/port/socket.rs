//! UDP sockets that send and receive RoCE v2 packets.
#![allow(unsafe_code, reason = "options of sockets and what comes with a datagram")]

use std::io;
use std::mem::{size_of, size_of_val, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::null_mut;

use crate::system::check;
use arrayvec::ArrayVec;
use soft_hca_roce::wire::ip;
use soft_hca_roce::wire::packet::PORT;

use crate::port::path::{Control, Path};

/// Bytes that may wait in either direction; the system allows as much as it likes.
const BUFFER: libc::c_int = 4 << 20;
/// `UDP_NO_CHECK6_RX` (`linux/udp.h`): datagrams without a checksum are good.
const UDP_NO_CHECK6_RX: libc::c_int = 102;
/// Messages of one call.
const MESSAGES: usize = 16;
/// The longest message: bytes of payload of a UDP datagram of IPv4, rounded up.
const LONGEST: usize = 1 << 16;
/// `IPV6_AUTOFLOWLABEL` (`linux/in6.h`): the system makes up flow labels.
const IPV6_AUTOFLOWLABEL: libc::c_int = 70;
/// `IPV6_FREEBIND` (`linux/in6.h`): an address that the system does not have may be bound.
const IPV6_FREEBIND: libc::c_int = 78;

/// The socket of one own address, or of a group. It is never connected: only so has what it sends the
/// identification 0, which the ICRC covers.
#[derive(Debug)]
pub struct Socket {
    /// The address.
    pub address: IpAddr,
    socket: UdpSocket,
}

/// Packets that go to another host at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'b> {
    /// The way that they go.
    pub path: Path,
    /// The packets, one behind the other.
    pub bytes: &'b [u8],
    /// The length of each packet but the last, which may be shorter; none if there is but one.
    pub segment: Option<u16>,
}

/// A datagram that was received.
#[derive(Clone, Copy, Debug)]
pub struct Datagram {
    /// Bytes.
    pub length: usize,
    /// The sender.
    pub from: SocketAddr,
    /// Time to live, or hop limit.
    pub hop_limit: u8,
    /// Type of service, or traffic class.
    pub traffic_class: u8,
    /// The flow label; 0 with IPv4.
    pub flow_label: u32,
}

impl Socket {
    /// Binds an own address. What is for groups leaves by the interface with this number, and comes
    /// back if it `loops`.
    pub fn bind(address: IpAddr, interface: u32, loops: bool) -> io::Result<Self> {
        Self::bind_at(address, interface, loops, false)
    }

    fn bind_at(address: IpAddr, interface: u32, loops: bool, is_beside: bool) -> io::Result<Self> {
        let at = match address {
            IpAddr::V6(v6) if v6.is_unicast_link_local() => {
                SocketAddrV6::new(v6, PORT, 0, interface).into()
            }
            _ => SocketAddr::from((address, PORT)),
        };
        let socket = bind(at, is_beside)?;
        send_by(&socket, address, interface, loops)?;
        Self::new(address, socket)
    }

    /// Binds an address that a socket of this process has, too, and shares.
    pub(super) fn bind_beside(address: IpAddr, interface: u32, loops: bool) -> io::Result<Self> {
        Self::bind_at(address, interface, loops, true)
    }

    /// A socket of an address, which is given as a GID, that the daemon has lent.
    pub fn lent(gid: &[u8; 16], fd: OwnedFd) -> Option<Self> {
        Self::new(ip::address(gid), fd.into()).ok()
    }

    /// The socket itself.
    pub fn as_udp(&self) -> &UdpSocket {
        &self.socket
    }

    /// Of a socket that is bound to an own address or a group's.
    pub fn new(address: IpAddr, socket: UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let this = Self { address, socket };
        for (privileged, name) in
            [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
        {
            // A refusal costs speed only.
            let _ = this
                .set(libc::SOL_SOCKET, privileged, BUFFER)
                .or_else(|_| this.set(libc::SOL_SOCKET, name, BUFFER));
        }
        // Packets in a row may come as one message; without, one by one.
        let _ = this.set(libc::SOL_UDP, libc::UDP_GRO, 1);
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

    /// Sends what `messages` say, and returns how many of them.
    ///
    /// # Errors
    ///
    /// The first of them could not be sent; `WouldBlock` if there is no room now.
    pub fn send(&self, messages: &[Message<'_>]) -> io::Result<usize> {
        let messages = &messages[..messages.len().min(MESSAGES)];
        let mut names = ArrayVec::<_, MESSAGES>::new();
        let name = |message: &Message<'_>| sockaddr(SocketAddr::from((message.path.peer, PORT)));
        names.extend(messages.iter().map(name));
        let mut controls = ArrayVec::<_, MESSAGES>::new();
        let control = |message: &Message<'_>| Control::of(&message.path, message.segment);
        controls.extend(messages.iter().map(control));
        // SAFETY: plain numbers and null pointers, for which zeros are good.
        let mut parts: [libc::iovec; MESSAGES] = unsafe { zeroed() };
        // SAFETY: plain numbers and null pointers, here as well.
        let mut headers: [libc::mmsghdr; MESSAGES] = unsafe { zeroed() };
        for (index, message) in messages.iter().enumerate() {
            parts[index].iov_base = message.bytes.as_ptr().cast_mut().cast();
            parts[index].iov_len = message.bytes.len();
            let header = &mut headers[index].msg_hdr;
            let (name, bytes) = &mut names[index];
            header.msg_name = (&raw mut *name).cast();
            header.msg_namelen = *bytes;
            header.msg_iov = &raw mut parts[index];
            header.msg_iovlen = 1;
            if !controls[index].is_empty() {
                controls[index].attach(header);
            }
        }
        // SAFETY: all parts of the headers live through the call.
        let sent = unsafe {
            libc::sendmmsg(
                self.socket.as_raw_fd(),
                headers.as_mut_ptr(),
                messages.len() as libc::c_uint,
                libc::MSG_DONTWAIT,
            )
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// Receives as many messages as there are and `inbox` has room for; `WouldBlock` if there are
    /// none.
    pub fn receive(&self, inbox: &mut Inbox) -> io::Result<usize> {
        // SAFETY: plain numbers and null pointers, for which zeros are good.
        let mut parts: [libc::iovec; MESSAGES] = unsafe { zeroed() };
        // SAFETY: plain numbers and null pointers, here as well.
        let mut headers: [libc::mmsghdr; MESSAGES] = unsafe { zeroed() };
        for (index, slot) in inbox.0.iter_mut().enumerate() {
            parts[index].iov_base = slot.bytes.as_mut_ptr().cast();
            parts[index].iov_len = slot.bytes.len();
            let header = &mut headers[index].msg_hdr;
            header.msg_name = (&raw mut slot.name).cast();
            header.msg_namelen = size_of_val(&slot.name) as libc::socklen_t;
            header.msg_iov = &raw mut parts[index];
            header.msg_iovlen = 1;
            header.msg_control = slot.control.as_mut_ptr().cast();
            header.msg_controllen = size_of_val(&slot.control) as _;
        }
        // SAFETY: all parts of the headers live through the call.
        let received = unsafe {
            libc::recvmmsg(
                self.socket.as_raw_fd(),
                headers.as_mut_ptr(),
                MESSAGES as libc::c_uint,
                libc::MSG_DONTWAIT | libc::MSG_TRUNC,
                null_mut(),
            )
        };
        let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        for (slot, header) in inbox.0.iter_mut().zip(&headers).take(received) {
            let length = header.msg_len as usize;
            slot.length = length.min(slot.bytes.len());
            slot.datagram = address(&slot.name).map(|from| Datagram::new(from, &header.msg_hdr));
        }
        Ok(received)
    }
}

impl Datagram {
    /// The metadata in the header of a message, and the length of the packets in it, if there
    /// are several.
    fn new(from: SocketAddr, header: &libc::msghdr) -> (Self, Option<NonZeroUsize>) {
        let mut segment = None;
        let mut datagram = Self { length: 0, from, hop_limit: 64, traffic_class: 0, flow_label: 0 };
        // SAFETY: the header is as the call has left it.
        let mut next = unsafe { libc::CMSG_FIRSTHDR(header) };
        // SAFETY: null or an entry within the header's control.
        while let Some(entry) = unsafe { next.as_ref() } {
            // SAFETY: an entry has at least one byte of data, the first of its number.
            let data = unsafe { libc::CMSG_DATA(next) };
            // SAFETY: all kinds below but the first are numbers of this size.
            let number = || unsafe { data.cast::<libc::c_int>().read_unaligned() };
            match (entry.cmsg_level, entry.cmsg_type) {
                // SAFETY: a type of service is one byte.
                (libc::IPPROTO_IP, libc::IP_TOS) => datagram.traffic_class = unsafe { *data },
                (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                    datagram.hop_limit = number() as u8;
                }
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    datagram.traffic_class = number() as u8;
                }
                (libc::IPPROTO_IPV6, libc::IPV6_FLOWINFO) => {
                    // In network byte order.
                    datagram.flow_label = u32::from_be(number() as u32) & 0xf_ffff;
                }
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    segment = usize::try_from(number()).ok().and_then(NonZeroUsize::new);
                }
                _ => {}
            }
            // SAFETY: `next` is an entry of this header, whose buffer outlives the loop.
            next = unsafe { libc::CMSG_NXTHDR(header, next) };
        }
        (datagram, segment)
    }
}

/// Room for messages that are received.
#[derive(Debug)]
pub struct Inbox(Vec<Slot>);

#[derive(Debug)]
struct Slot {
    bytes: Box<[u8]>,
    name: libc::sockaddr_storage,
    control: [u64; 24],
    length: usize,
    /// `None` if the sender has no address.
    datagram: Option<(Datagram, Option<NonZeroUsize>)>,
}

impl Inbox {
    /// Room for as many messages as one call receives.
    #[allow(clippy::new_without_default, reason = "it takes a MiB")]
    pub fn new() -> Self {
        let slot = || Slot {
            bytes: vec![0; LONGEST].into_boxed_slice(),
            // SAFETY: plain numbers, for which zeros are good.
            name: unsafe { zeroed() },
            control: [0; 24],
            length: 0,
            datagram: None,
        };
        Self(std::iter::repeat_with(slot).take(MESSAGES).collect())
    }

    /// Room for none.
    pub(super) fn empty() -> Self {
        Self(Vec::new())
    }

    /// The packets of a message that was received.
    pub fn packets(&self, index: usize) -> impl Iterator<Item = (Datagram, &[u8])> {
        let slot = self.0.get(index);
        let known = slot.and_then(|slot| Some((slot.datagram?, &slot.bytes[..slot.length])));
        known.into_iter().flat_map(|((datagram, segment), bytes)| {
            let packets = bytes.chunks(segment.map_or(LONGEST, NonZeroUsize::get));
            packets.map(move |packet| (Datagram { length: packet.len(), ..datagram }, packet))
        })
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A socket with an own address. One of IPv6 may still be in duplicate address detection, which takes
/// the system a second or two; the socket hears what comes for it from then on.
fn bind(at: SocketAddr, is_beside: bool) -> io::Result<UdpSocket> {
    let family = match at {
        SocketAddr::V4(_) => libc::AF_INET,
        SocketAddr::V6(_) => libc::AF_INET6,
    };
    let socket = new_socket(family)?;
    if at.is_ipv6() {
        // Kernels before 4.15 do not know it.
        let _ = set_option(&socket, libc::IPPROTO_IPV6, IPV6_FREEBIND, &1i32);
    }
    if is_beside {
        reuse(&socket)?;
    }
    bind_to(&socket, at)?;
    Ok(socket)
}

/// A socket for datagrams without an address.
pub fn new_socket(family: libc::c_int) -> io::Result<UdpSocket> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
    // SAFETY: creates a descriptor that is nobody else's.
    let fd = check(unsafe { libc::socket(family, kind, 0) })?;
    // SAFETY: `socket` has created it above, and nobody else has it.
    Ok(UdpSocket::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// Gives a socket its address.
pub fn bind_to(socket: &UdpSocket, at: SocketAddr) -> io::Result<()> {
    let (name, bytes) = sockaddr(at);
    // SAFETY: the address lives through the call.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const name).cast(), bytes) }).map(drop)
}

/// A group at an interface (`ip(7)`).
pub fn group_at(group: Ipv4Addr, interface: u32) -> libc::ip_mreqn {
    libc::ip_mreqn {
        imr_multiaddr: libc::in_addr { s_addr: group.to_bits().to_be() },
        imr_address: libc::in_addr { s_addr: 0 },
        imr_ifindex: interface as libc::c_int,
    }
}

/// Has what a socket sends to groups leave by an interface. It comes back to this machine only if it
/// `loops`; otherwise who is in the same fabric has got it in the arena.
fn send_by(socket: &UdpSocket, own: IpAddr, interface: u32, loops: bool) -> io::Result<()> {
    match own {
        IpAddr::V4(_) => {
            let by = group_at(Ipv4Addr::UNSPECIFIED, interface);
            set_option(socket, libc::IPPROTO_IP, libc::IP_MULTICAST_IF, &by)?;
            socket.set_multicast_loop_v4(loops)
        }
        IpAddr::V6(_) => {
            let by = interface as libc::c_int;
            set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_IF, &by)?;
            socket.set_multicast_loop_v6(loops)
        }
    }
}

/// Lets other sockets of this user bind the address, too.
pub(super) fn reuse(socket: &UdpSocket) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_REUSEPORT, &1i32)
}

/// Sets an option of a socket.
pub fn set_option<T: Copy>(
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
fn sockaddr(address: SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
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
