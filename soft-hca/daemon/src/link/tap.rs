//! The layer between the port and its sockets, if it is requested: faults on purpose ([`fault`]) and
//! a recording ([`pcap`]).
//!
//! ```text
//!  port ── send ──> faults ──────────┬──> socket
//!                                    │ recording
//!  thread <── next_received ── faults┴─── socket
//! ```
//!
//! [`fault`]: super::fault
//! [`pcap`]: super::pcap

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use soft_hca_core::port::Path;
use soft_hca_core::port::packets::{self, Put};
use soft_hca_core::port::socket::Datagram;
use soft_hca_core::system;
use soft_hca_fault::{Destination, Direction, Plan};
use soft_hca_roce::wire::bth::Qpn;
use soft_hca_roce::wire::ip::Flow;
use soft_hca_roce::wire::opcode::Service;
use soft_hca_roce::wire::packet::PORT;
use soft_hca_roce::wire::pcapng;

use crate::link::fault::{FaultCounters, FaultyPacket, PacketInjector};
use crate::link::pcap::{About, Pcap};

/// Packets that may be held in one direction before sending blocks, and receiving loses.
const MAX_HELD: usize = 16_384;
/// The hop limit that the system gives packets unless it is told another.
const USUAL_HOP_LIMIT: u8 = 64;
/// The time after which a packet is sent again for which the system had no room.
const NO_ROOM_NS: u64 = 100_000;

/// Faults and a recording; neither by default. Only the link's thread uses it.
#[derive(Debug, Default)]
pub(super) struct Tap {
    faults: Option<Faults>,
    pcap: Option<RefCell<Pcap>>,
}

#[derive(Debug)]
struct Faults {
    injector: RefCell<PacketInjector<TappedPacket>>,
    counters: Arc<FaultCounters>,
}

/// A packet on its way.
#[derive(Clone, Debug)]
struct TappedPacket {
    way: Way,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum Way {
    /// To another host.
    Out(Path),
    /// To an own address.
    In(IpAddr, Datagram),
}

impl FaultyPacket for TappedPacket {
    fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Tap {
    /// With what goes wrong, and what is recorded.
    pub(super) fn new(faults: Option<(&Plan, Arc<FaultCounters>)>, pcap: Option<Pcap>) -> Self {
        let faults = faults.map(|(plan, counters)| Faults {
            injector: RefCell::new(PacketInjector::new(plan)),
            counters,
        });
        Self { faults, pcap: pcap.map(RefCell::new) }
    }

    /// The next packet that has come, its bytes at the buffer's beginning, and to which address.
    pub(super) fn next_received(&self, buffer: &mut [u8]) -> Option<(IpAddr, Datagram)> {
        let faults = self.faults.as_ref()?;
        let packet = faults.injector.borrow_mut().pop(system::now_ns(), Direction::Receive)?;
        buffer.get_mut(..packet.bytes.len())?.copy_from_slice(&packet.bytes);
        match packet.way {
            Way::In(own, datagram) => Some((own, datagram)),
            Way::Out(_) => None,
        }
    }

    /// When [`packets::Tap::send_held`] and [`Tap::next_received`] are to be called at the latest.
    pub(super) fn deadline(&self) -> Option<u64> {
        self.faults.as_ref()?.injector.borrow_mut().deadline()
    }

    /// Writes what has been recorded.
    pub(super) fn flush(&self) {
        if let Some(pcap) = &self.pcap {
            pcap.borrow_mut().flush();
        }
    }

    fn record(
        &self,
        direction: pcapng::Direction,
        (source, destination): (SocketAddr, SocketAddr),
        (hop_limit, traffic_class): (u8, u8),
        packet: &[u8],
    ) {
        let Some(pcap) = &self.pcap else { return };
        if let Some(flow) = Flow::new(source, destination) {
            pcap.borrow_mut().record(&About { direction, flow, hop_limit, traffic_class }, packet);
        }
    }
}

impl packets::Tap for Tap {
    /// Whether there is anything between the port and its sockets.
    fn is_on(&self) -> bool {
        self.faults.is_some() || self.pcap.is_some()
    }

    /// Sends a packet, unless a fault keeps it. False if there is no room and it has to be sent
    /// again.
    fn send(&self, path: &Path, packet: &[u8], put: Put<'_>) -> bool {
        let Some(faults) = &self.faults else { return put(path, packet) };
        if faults.injector.borrow_mut().len(Direction::Send) >= MAX_HELD {
            return false;
        }
        faults.take(Direction::Send, Way::Out(*path), packet);
        self.send_held(put);
        true
    }

    /// Sends packets whose time has come.
    fn send_held(&self, put: Put<'_>) {
        let Some(faults) = &self.faults else { return };
        let now = system::now_ns();
        loop {
            let popped = faults.injector.borrow_mut().pop(now, Direction::Send);
            let Some(packet @ TappedPacket { way: Way::Out(path), .. }) = popped else { break };
            if !put(&path, &packet.bytes) {
                let until = now + NO_ROOM_NS;
                faults.injector.borrow_mut().put_back(Direction::Send, packet, until);
                break;
            }
        }
    }

    /// A packet has been sent.
    fn sent(&self, path: &Path, packet: &[u8]) {
        let ends = (SocketAddr::from((path.own, PORT)), SocketAddr::from((path.peer, PORT)));
        let hop_limit = path.hop_limit.unwrap_or(USUAL_HOP_LIMIT);
        self.record(pcapng::Direction::Sent, ends, (hop_limit, path.traffic_class), packet);
    }

    /// A packet has come to an own address. One from an own address was recorded when it was sent.
    /// False if there are no faults; else [`Tap::next_received`] gives what they leave of it.
    fn received(&self, own: IpAddr, datagram: &Datagram, packet: &[u8], is_from_us: bool) -> bool {
        let Some(packet) = packet.get(..datagram.length) else { return false };
        if !is_from_us {
            let ends = (datagram.from, SocketAddr::from((own, PORT)));
            let header = (datagram.hop_limit, datagram.traffic_class);
            self.record(pcapng::Direction::Received, ends, header, packet);
        }
        let Some(faults) = &self.faults else { return false };
        if faults.injector.borrow_mut().len(Direction::Receive) < MAX_HELD {
            faults.take(Direction::Receive, Way::In(own, *datagram), packet);
        }
        true
    }
}

impl Faults {
    fn take(&self, direction: Direction, way: Way, packet: &[u8]) {
        // BTH has the opcode in its first byte and the destination's number in 5 to 7.
        let to = match packet {
            [opcode, _, _, _, _, high, middle, low, ..] => {
                let qpn = Qpn::new(u32::from_be_bytes([0, *high, *middle, *low]));
                Some(Destination { qpn, service: Service::of(*opcode) })
            }
            _ => None,
        };
        let packet = TappedPacket { way, bytes: packet.to_vec() };
        let now = system::now_ns();
        self.injector.borrow_mut().take(now, direction, to, packet, &self.counters);
    }
}
