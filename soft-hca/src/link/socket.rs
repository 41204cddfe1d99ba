//! UDP sockets that send and receive RoCE v2 packets.
#![allow(unsafe_code, reason = "options of sockets and what comes with a datagram")]

use std::io;
use std::mem::{MaybeUninit, size_of, size_of_val, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::null_mut;

use soft_hca_roce::wire::packet::PORT;

use crate::system::check;

/// Bytes that may wait in either direction; the system allows as much as it likes.
const BUFFER: libc::c_int = 4 << 20;
/// `UDP_NO_CHECK6_RX` (`linux/udp.h`): datagrams without a checksum are good.
const UDP_NO_CHECK6_RX: libc::c_int = 102;
/// Messages of one call.
const MESSAGES: usize = 16;
/// The longest message: bytes of payload of a UDP datagram of IPv4, rounded up.
const LONGEST: usize = 1 << 16;
/// What it takes to tell the system the length of packets, in words of 8 bytes.
const SEGMENT_WORDS: usize = 3;

/// The socket of one own address. It is never connected: only so has what it sends the
/// identification 0, which the ICRC covers.
#[derive(Debug)]
pub(super) struct Socket {
    pub address: IpAddr,
    socket: UdpSocket,
}

/// Packets that go to another host at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message<'b> {
    pub to: IpAddr,
    /// The packets, one behind the other.
    pub bytes: &'b [u8],
    /// The length of each packet but the last, which may be shorter; none if there is but one.
    pub segment: Option<u16>,
}

/// What came with a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Datagram {
    pub from: SocketAddr,
    /// Time to live, or hop limit.
    pub hop_limit: u8,
    /// Type of service, or traffic class.
    pub traffic_class: u8,
    /// The length of the packets in the message, but of the last; 0 if there is but one.
    pub segment: usize,
}

impl Socket {
    /// Binds an address.
    pub(super) fn bind(address: IpAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind((address, PORT))?;
        socket.set_nonblocking(true)?;
        let this = Self { address, socket };
        for (privileged, name) in
            [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
        {
            // What the system does not grant is done without.
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
                // Kernel Soft-RoCE sends none.
                this.set(libc::IPPROTO_UDP, UDP_NO_CHECK6_RX, 1)?;
            }
        }
        Ok(this)
    }

    fn set(&self, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
        let length = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: the value lives through the call and is as long as said.
        let set = unsafe {
            libc::setsockopt(
                self.socket.as_raw_fd(),
                level,
                name,
                (&raw const value).cast(),
                length,
            )
        };
        check(set).map(drop)
    }

    /// Sends what `messages` say, and returns how many of them.
    ///
    /// # Errors
    ///
    /// The first of them could not be sent; `WouldBlock` if there is no room now.
    pub(super) fn send(&self, messages: &[Message<'_>]) -> io::Result<usize> {
        let messages = &messages[..messages.len().min(MESSAGES)];
        let mut names = [const { MaybeUninit::<SockAddr>::uninit() }; MESSAGES];
        // SAFETY: plain numbers and null pointers, for which zeros are good.
        let mut parts: [libc::iovec; MESSAGES] = unsafe { zeroed() };
        let mut controls = [[0u64; SEGMENT_WORDS]; MESSAGES];
        // SAFETY: as above.
        let mut headers: [libc::mmsghdr; MESSAGES] = unsafe { zeroed() };
        for (index, message) in messages.iter().enumerate() {
            let name = names[index].write(SockAddr::new(message.to));
            parts[index].iov_base = message.bytes.as_ptr().cast_mut().cast();
            parts[index].iov_len = message.bytes.len();
            let header = &mut headers[index].msg_hdr;
            (header.msg_name, header.msg_namelen) = name.as_raw();
            header.msg_iov = &raw mut parts[index];
            header.msg_iovlen = 1;
            if let Some(segment) = message.segment {
                header.msg_control = controls[index].as_mut_ptr().cast();
                header.msg_controllen = size_of_val(&controls[index]) as _;
                // SAFETY: the header's control has room for one entry with a number of 16 bits.
                unsafe {
                    let entry = libc::CMSG_FIRSTHDR(header);
                    (*entry).cmsg_level = libc::SOL_UDP;
                    (*entry).cmsg_type = libc::UDP_SEGMENT;
                    (*entry).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as u32) as _;
                    libc::CMSG_DATA(entry).cast::<u16>().write_unaligned(segment);
                }
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
    pub(super) fn receive(&self, inbox: &mut Inbox) -> io::Result<usize> {
        // SAFETY: plain numbers and null pointers, for which zeros are good.
        let mut parts: [libc::iovec; MESSAGES] = unsafe { zeroed() };
        // SAFETY: as above.
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
            slot.datagram = address(&slot.name).map(|from| Datagram::new(from, &header.msg_hdr));
            slot.length = length;
        }
        Ok(received)
    }
}

impl Datagram {
    /// What the system says in the header of a message.
    fn new(from: SocketAddr, header: &libc::msghdr) -> Self {
        let mut datagram = Self { from, hop_limit: 64, traffic_class: 0, segment: 0 };
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
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    datagram.segment = usize::try_from(number()).unwrap_or(0);
                }
                _ => {}
            }
            // SAFETY: an entry of this header.
            next = unsafe { libc::CMSG_NXTHDR(header, next) };
        }
        datagram
    }
}

/// Room for messages that are received.
pub(super) struct Inbox(Vec<Slot>);

struct Slot {
    bytes: Box<[u8]>,
    name: libc::sockaddr_storage,
    control: [u64; 24],
    length: usize,
    /// `None` if the sender has no address.
    datagram: Option<Datagram>,
}

impl Inbox {
    pub(super) fn new() -> Self {
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

    /// A message that was received, and the packets in it.
    pub(super) fn packets(
        &self,
        index: usize,
    ) -> Option<(Datagram, impl Iterator<Item = &[u8]> + Clone)> {
        let slot = self.0.get(index)?;
        let datagram = slot.datagram?;
        let bytes = &slot.bytes[..slot.length.min(slot.bytes.len())];
        let segment = if datagram.segment == 0 { LONGEST } else { datagram.segment };
        Some((datagram, bytes.chunks(segment)))
    }
}

/// The address of a socket, as the system takes it.
enum SockAddr {
    V4(libc::sockaddr_in),
    V6(libc::sockaddr_in6),
}

impl SockAddr {
    fn new(to: IpAddr) -> Self {
        match to {
            IpAddr::V4(to) => Self::V4(libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: PORT.to_be(),
                sin_addr: libc::in_addr { s_addr: to.to_bits().to_be() },
                sin_zero: [0; 8],
            }),
            IpAddr::V6(to) => Self::V6(libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: PORT.to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr { s6_addr: to.octets() },
                sin6_scope_id: 0,
            }),
        }
    }

    fn as_raw(&mut self) -> (*mut libc::c_void, libc::socklen_t) {
        match self {
            Self::V4(name) => ((&raw mut *name).cast(), size_of_val(name) as libc::socklen_t),
            Self::V6(name) => ((&raw mut *name).cast(), size_of_val(name) as libc::socklen_t),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
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
