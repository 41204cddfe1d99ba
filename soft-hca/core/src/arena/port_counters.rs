//! Packets that the link has sent and received, and the reasons why it has dropped some.

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::traffic::Tally;
use soft_hca_roce::wire::ip::{IPV4_BYTES, IPV6_BYTES, UDP_BYTES};

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum DropReason {
    /// No packet: too short or long, an unknown opcode.
    Malformed,
    /// A wrong ICRC.
    Icrc,
    /// Another partition.
    Partition,
    /// No such queue pair, another type, not in a state to receive, or a datagram that nobody
    /// takes.
    QueuePair,
    /// Not from the address that the queue pair is connected to.
    Address,
    /// The system does not send it: too long, or there is no route.
    Unsendable,
}

const NAMES: [&str; 6] =
    ["malformed", "wrong ICRC", "other partition", "no receiver", "wrong address", "not sendable"];

/// Octets of an Ethernet header: what is counted of a packet begins with it, as it does with the LRH
/// on InfiniBand.
pub const ETHERNET_BYTES: usize = 14;

/// Octets of a packet to or from an address, which has so many behind the UDP header.
pub fn octets(ip: IpAddr, length: usize) -> usize {
    let header = if ip.is_ipv4() { IPV4_BYTES } else { IPV6_BYTES };
    ETHERNET_BYTES + header + UDP_BYTES + length
}

/// Packets in one direction.
#[repr(C)]
#[derive(Debug, Default)]
struct Direction {
    packets: AtomicU64,
    octets: AtomicU64,
    multicast: AtomicU64,
}

impl Direction {
    fn count(&self, ip: IpAddr, packets: usize, octets: usize) {
        self.packets.fetch_add(packets as u64, Relaxed);
        self.octets.fetch_add(octets as u64, Relaxed);
        if ip.is_multicast() {
            self.multicast.fetch_add(packets as u64, Relaxed);
        }
    }

    fn load(&self) -> Tally {
        Tally {
            packets: self.packets.load(Relaxed),
            octets: self.octets.load(Relaxed),
            multicast: self.multicast.load(Relaxed),
            ..Tally::default()
        }
    }
}

/// Counters of a link.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Counters {
    sent: Direction,
    received: Direction,
    dropped: [AtomicU64; NAMES.len()],
}

/// Values of the counters of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// Packets sent.
    pub sent: Tally,
    /// Packets received, those that were dropped among them.
    pub received: Tally,
    /// Received, and no packets.
    pub damaged: u64,
    /// Received, and of another partition.
    pub other_partition: u64,
    /// Not sent: the system refuses them.
    pub unsendable: u64,
}

impl Counters {
    /// Packets to an address were sent, so many and with so many octets in all.
    pub fn count_sent(&self, to: IpAddr, packets: usize, octets: usize) {
        self.sent.count(to, packets, octets);
    }

    /// A packet has come to an address, with so many octets.
    pub fn count_received(&self, to: IpAddr, octets: usize) {
        self.received.count(to, 1, octets);
    }

    /// The values now.
    pub fn load(&self) -> LinkCounts {
        let dropped = |reason: DropReason| self.dropped[reason as usize].load(Relaxed);
        LinkCounts {
            sent: self.sent.load(),
            received: self.received.load(),
            damaged: dropped(DropReason::Malformed) + dropped(DropReason::Icrc),
            other_partition: dropped(DropReason::Partition),
            unsendable: dropped(DropReason::Unsendable),
        }
    }

    /// A packet is dropped.
    pub fn count(&self, reason: DropReason) {
        self.dropped[reason as usize].fetch_add(1, Relaxed);
    }

    /// How many were dropped for a reason.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.dropped[reason as usize].load(Relaxed)
    }
}

impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sent, received) = (self.sent.load().packets, self.received.load().packets);
        write!(f, "{sent} packets sent, {received} received")?;
        for (name, count) in NAMES.iter().zip(&self.dropped) {
            match count.load(Relaxed) {
                0 => {}
                count => write!(f, ", {count} dropped ({name})")?,
            }
        }
        Ok(())
    }
}
