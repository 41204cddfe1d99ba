//! Where packets leave and come in: sockets, checks, counters.

use std::cell::RefCell;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use arrayvec::ArrayVec;
use soft_hca_roce::wire::bth::{DEFAULT_PKEY, Qpn, pkeys_match};
use soft_hca_roce::wire::icrc::{self, Right};
use soft_hca_roce::wire::ip::{Addresses, Flow, IpHeader};
use soft_hca_roce::wire::mad::GSI_QPN;
use soft_hca_roce::wire::opcode::Service;
use soft_hca_roce::wire::packet::{Headers, MAX_BYTES, PORT, Packet};

use crate::arena::Mapping;
use crate::arena::port_counters::{Counters, DropReason, octets};
use crate::engine::{Actor, trace_packet};
use crate::port::outbox::Outbox;
use crate::port::path::Path;
use crate::port::socket::{Datagram, Message, Socket};
use crate::trace::event;

/// Packets that are built together.
pub const RUN: usize = 64;

/// Sends a packet; false if the system has no room for it now.
pub type Put<'a> = &'a dyn Fn(&Path, &[u8]) -> bool;

/// A layer between a port and its sockets, such as faults on purpose or a recording.
pub trait Tap {
    /// Whether there is anything.
    fn is_on(&self) -> bool;

    /// Sends a packet, if nothing keeps it. False if there is no room and it has to be sent again.
    fn send(&self, path: &Path, packet: &[u8], put: Put<'_>) -> bool;

    /// Sends packets that were kept and whose time has come.
    fn send_held(&self, put: Put<'_>);

    /// A packet has been sent.
    fn sent(&self, path: &Path, packet: &[u8]);

    /// A packet has come to an own address. False if it is to be handled at once.
    fn received(&self, own: IpAddr, datagram: &Datagram, packet: &[u8], is_from_us: bool) -> bool;
}

/// Nothing in between.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTap;

impl Tap for NoTap {
    fn is_on(&self) -> bool {
        false
    }

    fn send(&self, path: &Path, packet: &[u8], put: Put<'_>) -> bool {
        put(path, packet)
    }

    fn send_held(&self, _: Put<'_>) {}

    fn sent(&self, _: &Path, _: &[u8]) {}

    fn received(&self, _: IpAddr, _: &Datagram, _: &[u8], _: bool) -> bool {
        false
    }
}

/// The sockets by which packets leave, one for each own address, for one thread.
#[derive(Debug)]
pub struct LinkPort<T> {
    /// The sockets.
    pub sockets: Vec<Socket>,
    /// Where packets are counted.
    arena: Arc<Mapping>,
    /// The layer between the port and its sockets.
    pub tap: T,
    /// Packets that wait at each socket.
    outboxes: RefCell<Vec<Outbox>>,
}

/// A packet that has passed all checks that need no queue pair.
#[derive(Debug)]
pub struct Arrived<'p> {
    /// Own address, and the sender's.
    pub path: (IpAddr, IpAddr),
    /// The IP header that it had.
    pub ip: IpHeader,
    /// The packet.
    pub packet: Packet<'p>,
}

impl<T: Tap> LinkPort<T> {
    /// A port with these sockets, whose packets are counted in a fabric's arena.
    pub fn new(sockets: Vec<Socket>, arena: Arc<Mapping>, tap: T) -> Self {
        let outboxes = sockets.iter().map(|_| Outbox::new()).collect();
        Self { sockets, arena, tap, outboxes: RefCell::new(outboxes) }
    }

    /// Counts of packets that were sent, received and dropped.
    pub fn counters(&self) -> &Counters {
        &self.arena.port_counters
    }

    /// Builds a packet as [`LinkPort::send_all`].
    pub fn send<E>(
        &self,
        path: &Path,
        headers: &Headers,
        payload: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Option<Result<(), E>> {
        let packet = std::iter::once((*headers, payload));
        self.send_all(path, packet, |parts| match parts {
            [bytes] => fill(bytes),
            _ => Ok(()),
        })
    }

    /// Builds packets for one queue pair, all or none: for each the headers and the length of the payload,
    /// which `fill` copies. They leave with [`LinkPort::flush`], or when there are many. `None` if the system
    /// has no room for them now. A packet that it refuses for another reason counts as sent and
    /// lost.
    pub fn send_all<E>(
        &self,
        path: &Path,
        packets: impl ExactSizeIterator<Item = (Headers, usize)>,
        fill: impl FnOnce(&mut [&mut [u8]]) -> Result<(), E>,
    ) -> Option<Result<(), E>> {
        let Some(index) = self.sockets.iter().position(|socket| socket.address == path.own) else {
            return Some(Ok(()));
        };
        let outbox = &mut self.outboxes.borrow_mut()[index];
        let needed = packets.len() * MAX_BYTES;
        if outbox.room(needed).is_none() {
            self.leave(&self.sockets[index], outbox);
        }
        let mut room = outbox.room(needed)?;
        let mut to = Qpn::new(0);
        let mut lengths = ArrayVec::<usize, RUN>::new();
        let mut payloads = ArrayVec::<&mut [u8], RUN>::new();
        for (headers, payload) in packets.take(RUN) {
            let Ok(layout) = headers.build(payload, room) else {
                self.counters().count(DropReason::Unsendable);
                return Some(Ok(()));
            };
            let (packet, rest) = room.split_at_mut(layout.length);
            to = headers.dest_qpn;
            lengths.push(layout.length);
            payloads.push(&mut packet[layout.payload]);
            room = rest;
        }
        if let Err(error) = fill(&mut payloads) {
            return Some(Err(error));
        }
        drop(payloads);
        if self.tap.is_on() {
            return self.send_through_tap(path, outbox.room(needed)?, &lengths).then_some(Ok(()));
        }
        lengths.into_iter().for_each(|length| outbox.put(*path, to, length));
        Some(Ok(()))
    }

    /// Sends packets one by one. False if there is no room for the first. If there is none for a
    /// later one, that one counts as lost.
    fn send_through_tap(&self, path: &Path, mut bytes: &mut [u8], lengths: &[usize]) -> bool {
        let Some(addresses) = Addresses::new(path.own, path.peer) else { return true };
        let flow = Flow { addresses, source_port: PORT, destination_port: PORT };
        let mut is_sent = false;
        for &length in lengths {
            let (packet, rest) = bytes.split_at_mut(length);
            icrc::seal(&flow, packet);
            if !self.tap.send(path, packet, &|path, packet| self.put(path, packet)) {
                break;
            }
            is_sent = true;
            bytes = rest;
        }
        is_sent
    }

    /// Sends a packet that is whole. False if the system has no room for it now.
    fn put(&self, path: &Path, packet: &[u8]) -> bool {
        let Some(socket) = self.sockets.iter().find(|socket| socket.address == path.own) else {
            return true;
        };
        match socket.send(&[Message { path: *path, bytes: packet, segment: None }]) {
            Ok(_) => {
                self.counters().count_sent(path.peer, 1, octets(path.peer, packet.len()));
                self.tap.sent(path, packet);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            Err(error) => {
                let (to, bytes) = (path.peer, packet.len());
                tracing::debug!(%to, bytes, "a packet cannot be sent: {error}");
                self.counters().count(DropReason::Unsendable);
            }
        }
        true
    }

    /// Sends an empty datagram, which goes no further than to the next host, so that the system
    /// resolves that host's hardware address.
    pub fn send_nothing(&self, own: IpAddr, to: IpAddr) {
        let path = Path { hop_limit: Some(1), ..Path::new(own, to) };
        if let Some(socket) = self.sockets.iter().find(|socket| socket.address == own) {
            let _ = socket.send(&[Message { path, bytes: &[], segment: None }]);
        }
    }

    /// Takes packets that have come to an own address, as many as are handled together, and leaves out
    /// what the tap keeps and what is no good. They are in `arrived` then, and nothing else.
    pub fn take<'p>(
        &self,
        own: IpAddr,
        packets: impl Iterator<Item = (Datagram, &'p [u8])>,
        arrived: &mut ArrayVec<Arrived<'p>, RUN>,
    ) {
        let is_taken =
            |(datagram, bytes): &(Datagram, &[u8])| !self.tap_received(own, datagram, bytes);
        let packets = packets.take(RUN).filter(is_taken);
        arrived.clear();
        arrived.extend(packets.filter_map(|(datagram, bytes)| self.check(own, &datagram, bytes)));
    }

    /// Checks a packet that has come to an own address. A bad one is dropped.
    pub fn check<'p>(
        &self,
        own: IpAddr,
        datagram: &Datagram,
        bytes: &'p [u8],
    ) -> Option<Arrived<'p>> {
        let from = datagram.from.ip().to_canonical();
        check(own, datagram, bytes).map_err(|reason| self.count_drop(from, reason)).ok()
    }

    /// Counts a packet that is dropped.
    pub fn count_drop(&self, from: IpAddr, reason: DropReason) {
        self.counters().count(reason);
        tracing::debug!(%from, ?reason, "a packet is dropped");
    }

    /// Counts a packet that has come, and gives it to the tap. False if it is to be handled at
    /// once; see [`Tap::received`].
    fn tap_received(&self, own: IpAddr, datagram: &Datagram, bytes: &[u8]) -> bool {
        self.counters().count_received(own, octets(own, datagram.length));
        if !self.tap.is_on() {
            return false;
        }
        let from = datagram.from.ip().to_canonical();
        let is_from_us = self.sockets.iter().any(|socket| socket.address == from);
        self.tap.received(own, datagram, bytes, is_from_us)
    }

    /// Sends the packets whose time has come.
    pub fn send_held(&self) {
        self.tap.send_held(&|path, packet| self.put(path, packet));
    }

    /// Sends what waits. Whether nothing waits any longer.
    pub fn flush(&self) -> bool {
        let mut outboxes = self.outboxes.borrow_mut();
        for (socket, outbox) in self.sockets.iter().zip(outboxes.iter_mut()) {
            self.leave(socket, outbox);
        }
        outboxes.iter().all(Outbox::is_empty)
    }

    fn leave(&self, socket: &Socket, outbox: &mut Outbox) {
        let count = |to, packets, octets| self.counters().count_sent(to, packets, octets);
        let refused = outbox.flush(socket, count);
        (0..refused).for_each(|_| self.counters().count(DropReason::Unsendable));
    }
}

/// Checks a datagram that has come to an own address: the ICRC, with the addresses that it really
/// has, and whether it is a packet.
fn check<'p>(own: IpAddr, datagram: &Datagram, bytes: &'p [u8]) -> Result<Arrived<'p>, DropReason> {
    let from = datagram.from.ip().to_canonical();
    let bytes = bytes.get(..datagram.length).ok_or(DropReason::Malformed)?;
    let addresses = Addresses::new(from, own).ok_or(DropReason::Malformed)?;
    let flow = Flow { addresses, source_port: datagram.from.port(), destination_port: PORT };
    let packet = Packet::parse(bytes).map_err(|_| DropReason::Malformed)?;
    let (id, dont_fragment) = match icrc::check(&flow, bytes).ok_or(DropReason::Icrc)? {
        Right::V4 { id, dont_fragment } => (id, dont_fragment),
        Right::V6 => (0, true),
    };
    if !pkeys_match(packet.headers.pkey, DEFAULT_PKEY) {
        return Err(DropReason::Partition);
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

/// Whether a packet is looked at together with the one before.
pub fn goes_with(before: &Arrived<'_>, packet: &Arrived<'_>) -> bool {
    let (before, packet) = (&before.packet.headers, &packet.packet.headers);
    packet.service == before.service
        && packet.service != Service::Ud
        && packet.dest_qpn == before.dest_qpn
}

/// Traces packets that have come for one queue pair, whose path has these ends if it is a connected one that
/// is known.
pub fn trace_arrived(actor: &Actor<'_>, run: &[Arrived<'_>], queue_pair: Option<(IpAddr, IpAddr)>) {
    if !actor.is_traced() {
        return;
    }
    for Arrived { path: (own, from), packet, .. } in run {
        let headers = &packet.headers;
        if headers.dest_qpn == GSI_QPN {
            continue;
        }
        trace_packet(actor.arena, actor.env, || {
            let ignored = match headers.service {
                Service::Rc | Service::Uc if queue_pair.is_none() => 1,
                Service::Rc | Service::Uc if queue_pair != Some((*own, *from)) => 2,
                _ => 0,
            };
            let length = packet.payload.len() as u32;
            let read = event::Packet::of(headers, (*from, *own));
            event::Packet { qpn: headers.dest_qpn.get(), is_received: 1, length, ignored, ..read }
        });
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::net::SocketAddr;

    use soft_hca_roce::wire::bth::Psn;
    use soft_hca_roce::wire::headers::{Aeth, Syndrome};
    use soft_hca_roce::wire::opcode::{Operation, Service};

    use super::*;
    use crate::port::socket::Inbox;

    /// A packet without payload, with its ICRC.
    pub(in crate::port) fn sealed(headers: &Headers, from: SocketAddr, to: SocketAddr) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        let layout = headers.build(0, &mut bytes).unwrap();
        bytes.truncate(layout.length);
        icrc::seal(&Flow::new(from, to).unwrap(), &mut bytes);
        bytes
    }

    /// A sealed packet from one address to another, as a datagram.
    fn sent(from: SocketAddr, to: IpAddr, pkey: u16) -> (Datagram, Vec<u8>) {
        let aeth = Aeth { syndrome: Syndrome::ACK, msn: 1 };
        let operation = Operation::Acknowledge(aeth);
        let headers =
            Headers { pkey, ..Headers::new(Service::Rc, operation, Qpn::new(0x11), Psn::new(1)) };
        let bytes = sealed(&headers, from, SocketAddr::from((to, PORT)));
        let length = bytes.len();
        (Datagram { length, from, hop_limit: 63, traffic_class: 2, flow_label: 0 }, bytes)
    }

    #[test]
    fn what_is_wrong_is_dropped_for_its_reason() {
        let own: IpAddr = "192.0.2.1".parse().unwrap();
        let from: SocketAddr = "192.0.2.2:49152".parse().unwrap();
        let (datagram, good) = sent(from, own, DEFAULT_PKEY);
        let arrived = check(own, &datagram, &good).unwrap();
        assert_eq!(
            (arrived.path, arrived.packet.headers.dest_qpn),
            ((own, from.ip()), Qpn::new(0x11))
        );
        assert_eq!((arrived.ip.hop_limit, arrived.ip.traffic_class, arrived.ip.id), (63, 2, 0));
        let reason = |own, datagram: &Datagram, bytes: &[u8]| check(own, datagram, bytes).err();
        let mut damaged = good.clone();
        damaged[10] ^= 0x55;
        damaged[15] ^= 0xaa;
        assert_eq!(reason(own, &datagram, &damaged), Some(DropReason::Icrc));
        // Not from where it says, or not for this address.
        let spoofed = Datagram { from: "192.0.2.3:49152".parse().unwrap(), ..datagram };
        assert_eq!(reason(own, &spoofed, &good), Some(DropReason::Icrc));
        let other = "192.0.2.9".parse().unwrap();
        assert_eq!(reason(other, &datagram, &good), Some(DropReason::Icrc));
        let mixed = "2001:db8::1".parse().unwrap();
        assert_eq!(reason(mixed, &datagram, &good), Some(DropReason::Malformed));
        // Longer than the buffer, or no packet at all.
        let long = Datagram { length: good.len() + 1, ..datagram };
        assert_eq!(reason(own, &long, &good), Some(DropReason::Malformed));
        for length in 0..good.len() {
            let short = Datagram { length, ..datagram };
            assert_eq!(reason(own, &short, &good), Some(DropReason::Malformed), "{length}");
        }
        let (datagram, foreign) = sent(from, own, 0x7ffe);
        assert_eq!(reason(own, &datagram, &foreign), Some(DropReason::Partition));
        let (datagram, limited) = sent(from, own, 0x7fff);
        assert!(check(own, &datagram, &limited).is_ok());
    }

    /// Waits for messages.
    fn receive(socket: &Socket, inbox: &mut Inbox) -> usize {
        loop {
            match socket.receive(inbox) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    std::thread::yield_now();
                }
                received => break received.unwrap(),
            }
        }
    }

    #[test]
    fn one_port_hears_the_other() {
        let arena = Arc::new(Mapping::create().unwrap());
        let [own, peer] = ["127.7.91.1", "127.7.91.2"].map(|text| text.parse().unwrap());
        let path = Path { traffic_class: 0x68, hop_limit: Some(9), ..Path::new(own, peer) };
        // Free unless the kernel has Soft-RoCE, which takes the port on all addresses.
        let sockets = [own, peer].map(|ip| Socket::bind(ip, 0, false).unwrap()).into();
        let port = LinkPort::new(sockets, Arc::clone(&arena), NoTap);
        let headers =
            |psn| Headers::new(Service::Uc, Operation::SendFirst, Qpn::new(0x12), Psn::new(psn));
        let fill = |bytes: &mut [u8]| -> Result<(), ()> {
            bytes.copy_from_slice(b"payload!");
            Ok(())
        };
        assert_eq!(port.send(&path, &headers(0), 8, |_| Err(7)), Some(Err(7)));
        for psn in 0..100 {
            assert_eq!(port.send(&path, &headers(psn), 8, fill), Some(Ok(())));
        }
        // A shorter one ends a run.
        let empty = |_: &mut [u8]| -> Result<(), ()> { Ok(()) };
        assert_eq!(port.send(&path, &headers(100), 0, empty), Some(Ok(())));
        assert_eq!(port.send(&path, &headers(101), 8, fill), Some(Ok(())));
        let mut inbox = Inbox::new();
        assert!(port.sockets[1].receive(&mut inbox).is_err());
        assert!(port.flush());
        let mut psn = 0;
        while psn < 102 {
            for index in 0..receive(&port.sockets[1], &mut inbox) {
                for (datagram, bytes) in inbox.packets(index) {
                    let arrived = check(peer, &datagram, bytes).unwrap();
                    assert_eq!(arrived.path, (peer, own));
                    assert_eq!((arrived.ip.traffic_class, arrived.ip.hop_limit), (0x68, 9));
                    let payload: &[u8] = if psn == 100 { b"" } else { b"payload!" };
                    assert_eq!(arrived.packet, Packet { headers: headers(psn), payload });
                    psn += 1;
                }
            }
        }
        assert_eq!(arena.port_counters.to_string(), "102 packets sent, 0 received");
        // Too long for what the operation is: nothing is sent.
        let long = port.send(&path, &headers(0), 5000, |_| Ok::<(), ()>(()));
        assert_eq!(long, Some(Ok(())));
        assert_eq!(arena.port_counters.dropped(DropReason::Unsendable), 1);
        assert!(port.flush() && port.sockets[1].receive(&mut inbox).is_err());
    }
}
