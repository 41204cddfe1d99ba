//! Where packets leave the link and come in: sockets, checks, counters.

use std::io;
use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use soft_hca_roce::wire::bth::DEFAULT_PKEY;
use soft_hca_roce::wire::icrc::{self, Right};
use soft_hca_roce::wire::ip::{Addresses, Flow, IpHeader};
use soft_hca_roce::wire::packet::{Headers, MAX_BYTES, PORT, Packet};

use crate::link::counters::{Counters, Drop};
use crate::link::path::Path;
use crate::link::socket::{Datagram, Socket};
use crate::link::tap::Tap;

/// The sockets of a link.
#[derive(Debug)]
pub(super) struct Port {
    pub sockets: Vec<Socket>,
    pub counters: Arc<Counters>,
    /// What is between the port and its sockets.
    pub tap: Tap,
    /// Only the link's thread uses it.
    buffer: Mutex<Box<[u8; MAX_BYTES]>>,
}

/// A packet that has passed all checks that need no queue pair.
#[derive(Debug)]
pub(super) struct Arrived<'p> {
    /// Own address, and the sender's.
    pub path: (IpAddr, IpAddr),
    /// The IP header that it had.
    pub ip: IpHeader,
    pub packet: Packet<'p>,
}

impl Port {
    pub(super) fn new(sockets: Vec<Socket>, counters: Arc<Counters>, tap: Tap) -> Self {
        Self { sockets, counters, tap, buffer: Mutex::new(Box::new([0; MAX_BYTES])) }
    }

    /// Builds a packet, whose payload `fill` copies, and sends it. `None` if the system has no room
    /// for it now. What the system refuses otherwise counts as sent, and lost.
    pub(super) fn send<E>(
        &self,
        path: &Path,
        headers: &Headers,
        payload: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Option<Result<(), E>> {
        let mut buffer = self.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(addresses) = self.way(path) else { return Some(Ok(())) };
        let Ok(layout) = headers.build(payload, &mut buffer[..]) else {
            self.counters.count(Drop::Unsendable);
            return Some(Ok(()));
        };
        if let Err(error) = fill(&mut buffer[layout.payload]) {
            return Some(Err(error));
        }
        let packet = &mut buffer[..layout.length];
        icrc::seal(&Flow { addresses, source_port: PORT, destination_port: PORT }, packet);
        let has_room = self.tap.send(path, packet, &|path, packet| self.put(path, packet));
        has_room.then_some(Ok(()))
    }

    fn way(&self, path: &Path) -> Option<Addresses> {
        let has_socket = self.sockets.iter().any(|socket| socket.address == path.own);
        if has_socket { Addresses::new(path.own, path.peer) } else { None }
    }

    /// Sends a packet that is whole. False if the system has no room for it now.
    fn put(&self, path: &Path, packet: &[u8]) -> bool {
        let Some(socket) = self.sockets.iter().find(|socket| socket.address == path.own) else {
            return true;
        };
        match socket.send(path, packet) {
            Ok(()) => {
                self.counters.sent.fetch_add(1, Relaxed);
                self.tap.sent(path, packet);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            Err(error) => {
                let (to, bytes) = (path.peer, packet.len());
                tracing::debug!(%to, bytes, "a packet cannot be sent: {error}");
                self.counters.count(Drop::Unsendable);
            }
        }
        true
    }

    /// A packet has come; false if it is to be taken as it is, see [`Tap::received`].
    pub(super) fn heard(&self, own: IpAddr, datagram: &Datagram, bytes: &[u8]) -> bool {
        self.counters.received.fetch_add(1, Relaxed);
        let from = datagram.from.ip().to_canonical();
        let is_from_us = self.sockets.iter().any(|socket| socket.address == from);
        self.tap.received(own, datagram, bytes, is_from_us)
    }

    /// Sends the packets whose time has come.
    pub(super) fn send_held(&self) {
        self.tap.send_held(&|path, packet| self.put(path, packet));
    }
}

/// Checks a datagram that has come to an own address: the ICRC, with the addresses that it really
/// has, and whether it is a packet.
pub(super) fn check<'p>(
    own: IpAddr,
    datagram: &Datagram,
    bytes: &'p [u8],
) -> Result<Arrived<'p>, Drop> {
    let from = datagram.from.ip().to_canonical();
    let bytes = bytes.get(..datagram.length).ok_or(Drop::Malformed)?;
    let addresses = Addresses::new(from, own).ok_or(Drop::Malformed)?;
    let flow = Flow { addresses, source_port: datagram.from.port(), destination_port: PORT };
    let packet = Packet::parse(bytes).map_err(|_| Drop::Malformed)?;
    let (id, dont_fragment) = match icrc::check(&flow, bytes).ok_or(Drop::Icrc)? {
        Right::V4 { id, dont_fragment } => (id, dont_fragment),
        Right::V6 => (0, true),
    };
    if packet.headers.pkey & 0x7fff != DEFAULT_PKEY & 0x7fff {
        return Err(Drop::Partition);
    }
    let ip = IpHeader {
        traffic_class: datagram.traffic_class,
        flow_label: datagram.flow_label,
        hop_limit: datagram.hop_limit,
        id,
        dont_fragment,
        ..IpHeader::new(addresses, bytes.len())
    };
    Ok(Arrived { path: (own, from), ip, packet })
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use soft_hca_roce::wire::bth::Psn;
    use soft_hca_roce::wire::headers::{Aeth, Syndrome};
    use soft_hca_roce::wire::opcode::{Operation, Service};

    use super::*;

    /// A sealed packet from one address to another, as a datagram.
    fn sent(from: SocketAddr, to: IpAddr, pkey: u16) -> (Datagram, Vec<u8>) {
        let aeth = Aeth { syndrome: Syndrome::ACK, msn: 1 };
        let operation = Operation::Acknowledge(aeth);
        let headers = Headers { pkey, ..Headers::new(Service::Rc, operation, 0x11, Psn::new(1)) };
        let mut bytes = vec![0; 64];
        let layout = headers.build(0, &mut bytes).unwrap();
        bytes.truncate(layout.length);
        let flow = Flow::new(from, SocketAddr::from((to, PORT))).unwrap();
        icrc::seal(&flow, &mut bytes);
        let length = bytes.len();
        (Datagram { length, from, hop_limit: 63, traffic_class: 2, flow_label: 0 }, bytes)
    }

    #[test]
    fn what_is_wrong_is_dropped_for_its_reason() {
        let own: IpAddr = "192.0.2.1".parse().unwrap();
        let from: SocketAddr = "192.0.2.2:49152".parse().unwrap();
        let (datagram, good) = sent(from, own, DEFAULT_PKEY);
        let arrived = check(own, &datagram, &good).unwrap();
        assert_eq!((arrived.path, arrived.packet.headers.dest_qpn), ((own, from.ip()), 0x11));
        assert_eq!((arrived.ip.hop_limit, arrived.ip.traffic_class, arrived.ip.id), (63, 2, 0));
        let reason = |own, datagram: &Datagram, bytes: &[u8]| check(own, datagram, bytes).err();
        let mut damaged = good.clone();
        damaged[10] ^= 0x55;
        damaged[15] ^= 0xaa;
        assert_eq!(reason(own, &datagram, &damaged), Some(Drop::Icrc));
        // Not from where it says, or not for this address.
        let spoofed = Datagram { from: "192.0.2.3:49152".parse().unwrap(), ..datagram };
        assert_eq!(reason(own, &spoofed, &good), Some(Drop::Icrc));
        let other = "192.0.2.9".parse().unwrap();
        assert_eq!(reason(other, &datagram, &good), Some(Drop::Icrc));
        let mixed = "2001:db8::1".parse().unwrap();
        assert_eq!(reason(mixed, &datagram, &good), Some(Drop::Malformed));
        // Longer than the buffer, or no packet at all.
        let long = Datagram { length: good.len() + 1, ..datagram };
        assert_eq!(reason(own, &long, &good), Some(Drop::Malformed));
        for length in 0..good.len() {
            let short = Datagram { length, ..datagram };
            assert_eq!(reason(own, &short, &good), Some(Drop::Malformed), "{length}");
        }
        let (datagram, foreign) = sent(from, own, 0x7ffe);
        assert_eq!(reason(own, &datagram, &foreign), Some(Drop::Partition));
        let (datagram, limited) = sent(from, own, 0x7fff);
        assert!(check(own, &datagram, &limited).is_ok());
    }

    #[test]
    fn one_port_hears_the_other() {
        let counters = Arc::new(Counters::default());
        let [own, peer] = ["127.7.91.1", "127.7.91.2"].map(|text| text.parse().unwrap());
        let path = Path { traffic_class: 0x68, hop_limit: Some(9), ..Path::new(own, peer) };
        let Ok(sockets) = [own, peer].map(|ip| Socket::bind(ip, 0)).into_iter().collect() else {
            return;
        };
        let port = Port::new(sockets, Arc::clone(&counters), Tap::default());
        let headers = Headers::new(Service::Uc, Operation::SendFirst, 0x12, Psn::new(7));
        let fill = |bytes: &mut [u8]| -> Result<(), ()> {
            bytes.copy_from_slice(b"payload!");
            Ok(())
        };
        assert_eq!(port.send(&path, &headers, 8, fill), Some(Ok(())));
        assert_eq!(port.send(&path, &headers, 8, |_| Err(7)), Some(Err(7)));
        let mut buffer = [0; 128];
        let datagram = loop {
            match port.sockets[1].receive(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    std::thread::yield_now();
                }
                received => break received.unwrap(),
            }
        };
        let arrived = check(peer, &datagram, &buffer).unwrap();
        assert_eq!(arrived.path, (peer, own));
        assert_eq!((arrived.ip.traffic_class, arrived.ip.hop_limit), (0x68, 9));
        assert_eq!(arrived.packet, Packet { headers, payload: b"payload!" });
        assert_eq!(counters.to_string(), "1 packets sent, 0 received");
        // Too long for what the operation is: nothing is sent.
        let long = port.send(&path, &headers, 5000, |_| Ok::<(), ()>(()));
        assert_eq!(long, Some(Ok(())));
        assert_eq!(counters.dropped(Drop::Unsendable), 1);
        assert!(port.sockets[1].receive(&mut buffer).is_err());
    }
}
