//! The path of a packet, and how a socket is told its IP header.

use std::fmt;
use std::mem::{size_of, size_of_val};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// The way of a packet from this host to another one or to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Path {
    /// An own address.
    pub own: IpAddr,
    /// Where it goes.
    pub peer: IpAddr,
    /// Type of service, or traffic class.
    pub traffic_class: u8,
    /// Time to live, or hop limit. `None` is that of the system's route, which the kernel takes for
    /// all packets that are for one host, whatever the program asks for
    /// (`ib_resolve_unicast_gid_dmac`).
    pub hop_limit: Option<u8>,
}

impl Path {
    /// With the system's usual header.
    pub fn new(own: IpAddr, peer: IpAddr) -> Self {
        Self { own, peer, traffic_class: 0, hop_limit: None }
    }
}

/// A control message with a number.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Entry {
    header: libc::cmsghdr,
    value: libc::c_int,
}

impl Entry {
    const NONE: Self =
        Self { header: libc::cmsghdr { cmsg_len: 0, cmsg_level: 0, cmsg_type: 0 }, value: 0 };
}

/// The control messages that go with a packet (`ip(7)`, `ipv6(7)`).
#[derive(Clone, Copy)]
pub struct Control {
    entries: [Entry; 3],
    used: usize,
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").field("used", &self.used).finish_non_exhaustive()
    }
}

impl Control {
    /// The unusual attributes of a path, and the length of the packets that a message is to be cut
    /// into.
    pub fn of(path: &Path, segment: Option<u16>) -> Self {
        let mut this = Self { entries: [Entry::NONE; 3], used: 0 };
        let (level, class, limit) = match path.peer {
            IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TOS, libc::IP_TTL),
            IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, libc::IPV6_HOPLIMIT),
        };
        if path.traffic_class != 0 {
            this.add(level, class, path.traffic_class);
        }
        if let Some(hop_limit) = path.hop_limit {
            this.add(level, limit, hop_limit);
        }
        if let Some(segment) = segment {
            let [low, high] = segment.to_ne_bytes();
            let value = libc::c_int::from_ne_bytes([low, high, 0, 0]);
            this.push(libc::SOL_UDP, libc::UDP_SEGMENT, value, size_of::<u16>());
        }
        this
    }

    fn add(&mut self, level: libc::c_int, kind: libc::c_int, value: u8) {
        self.push(level, kind, value.into(), size_of::<libc::c_int>());
    }

    /// `bytes` of the value, its first in memory, are the message.
    fn push(&mut self, level: libc::c_int, kind: libc::c_int, value: libc::c_int, bytes: usize) {
        let entry = &mut self.entries[self.used];
        let length = size_of::<libc::cmsghdr>() + bytes;
        entry.header.cmsg_len = length as _;
        entry.header.cmsg_level = level;
        entry.header.cmsg_type = kind;
        entry.value = value;
        self.used += 1;
    }

    /// Whether there is anything to tell.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Makes a header name them. They have to live as long as it is used.
    pub fn attach(&mut self, header: &mut libc::msghdr) {
        header.msg_control = self.entries.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&self.entries[..self.used]) as _;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_not_usual_is_told() {
        let [own, peer] = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse::<IpAddr>().unwrap());
        let path = Path::new(own, peer);
        assert!(Control::of(&path, None).is_empty());
        let of = |path: Path| {
            let control = Control::of(&path, None);
            let told = control.entries[..control.used].iter();
            told.map(|entry| (entry.header.cmsg_type, entry.value)).collect::<Vec<_>>()
        };
        assert_eq!(of(Path { traffic_class: 0x68, ..path }), [(libc::IP_TOS, 0x68)]);
        let both = Path { traffic_class: 3, hop_limit: Some(0), ..path };
        assert_eq!(of(both), [(libc::IP_TOS, 3), (libc::IP_TTL, 0)]);
        let v6 = Path { hop_limit: Some(64), ..Path::new(own, "2001:db8::1".parse().unwrap()) };
        assert_eq!(of(v6), [(libc::IPV6_HOPLIMIT, 64)]);
    }
}
