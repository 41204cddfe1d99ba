//! Unreliable connections.

use super::network::{Faults, Network, Random};
use super::world::*;
use crate::transport::attributes::Mtu;
use crate::transport::queue_pair::{NotConnected, QueuePair, State};
use crate::transport::request::{Opcode, Remote, Status};
use crate::transport::target::Received;
use crate::transport::uc;
use crate::wire::opcode::{SendEnd, Service};
use crate::wire::packet::Packet;

/// Bytes of a receive, and of the memory for each write.
const ROOM: usize = 2048;

/// An exchange takes less time, on its own clock.
const LIMIT_NS: u64 = 1_000_000_000;

/// Sends and writes messages that carry their place in the order, and returns the places of those
/// that arrived.
fn exchange(seed: u64, faults: Faults, busy: u32, messages: u64) -> Vec<u64> {
    let mut random = Random::new(seed);
    let attributes = attributes(Mtu::B256, random.number() as u32);
    let [mut source, mut destination] =
        [0, 1].map(|_| QueuePair::new(Service::Uc, attributes).unwrap());
    source.modify_to_rts(attributes);
    let mut sender = Program::new(seed, 0, busy);
    let mut silent = Program::new(seed, 0, 0);
    let mut receiver = Program::new(seed, messages as usize * ROOM, busy);
    receiver.receives = (0..messages).map(|_| (0, ROOM)).collect();
    let mut network = Network::new(seed, faults);
    let work: Vec<_> = (0..messages)
        .map(|id| {
            let mut bytes = vec![id as u8; 8 + random.below(2000) as usize];
            bytes[..8].copy_from_slice(&id.to_ne_bytes());
            let remote = Remote { address: BASE + id * ROOM as u64, rkey: KEY };
            let opcode = match id % 3 {
                0 => Opcode::Write(remote, Some((id as u32).to_ne_bytes())),
                _ => Opcode::Send(SendEnd::Plain),
            };
            Work { request: request(id, opcode, bytes.len() as u32), bytes }
        })
        .collect();
    sender.work.clone_from(&work);
    let mut now = 0;
    let mut arrived = Vec::new();
    loop {
        assert!(now < LIMIT_NS, "{} of {messages} messages are sent", sender.completed.len());
        let mut port =
            NetworkPort { network: &mut network, random: &mut random, busy, now_ns: now, to: 1 };
        while source.poll(now, 1, &mut port, &mut sender, &mut silent) {}
        now += 500;
        while let Some((_, bytes)) = network.arrive(now) {
            let packet = Packet::parse(&bytes).unwrap();
            assert!(!packet.headers.ack_req);
            destination.handle_packets(now, &[packet], &mut silent, &mut receiver);
        }
        for (completion, receive) in receiver.received.drain(..) {
            let (place, bytes) = match completion.received {
                Received::Write(immediate) => {
                    let place = u32::from_ne_bytes(immediate).into();
                    (place, &receiver.memory[place as usize * ROOM..])
                }
                _ => (u64::from_ne_bytes(receive[..8].try_into().unwrap()), &receive[..]),
            };
            let sent = &work[place as usize].bytes;
            assert_eq!(completion.length as usize, sent.len());
            assert!(bytes[..sent.len()] == sent[..], "bytes of message {place}");
            arrived.push(place);
        }
        let is_done = sender.completed.len() == work.len() && source.deadline().is_none();
        if is_done && network.next_arrival().is_none() {
            break;
        }
    }
    assert!(sender.completed.iter().copied().eq((0..messages).map(|id| (id, Status::Success))));
    assert_eq!((source.state(), destination.state()), (State::Rts, State::Rtr));
    arrived
}

#[test]
fn messages_arrive_whole_in_order_and_at_most_once() {
    let mut arrived = 0;
    for seed in 0..300 {
        let faults = Faults { lost: 20, duplicated: 50, overtaken: 50, late: 2 };
        let places = exchange(seed, faults, 10, 40);
        assert!(places.is_sorted_by(|a, b| a < b), "{seed}: {places:?}");
        arrived += places.len();
    }
    assert!(arrived > 300 * 40 / 4, "{arrived}");
}

#[test]
fn nothing_is_lost_that_the_network_delivers() {
    for seed in 0..50 {
        let faults = Faults::default();
        assert_eq!(exchange(seed, faults, 0, 40), (0..40).collect::<Vec<_>>());
    }
}

#[test]
fn datagrams_are_not_connected() {
    for service in [Service::Ud, Service::Cnp] {
        let refused = QueuePair::new(service, attributes(Mtu::B256, 0));
        assert_eq!(refused.err(), Some(NotConnected(service)));
    }
}

#[test]
fn unreliable_connections_send_and_write_only() {
    let remote = Remote { address: 0, rkey: 0 };
    for opcode in [Opcode::Read(remote), Opcode::Send(SendEnd::Invalidate(1))] {
        let mut requester = uc::UcRequester::new(attributes(Mtu::B256, 0));
        let mut program = Program::new(0, 0, 0);
        requester.post(request(0, opcode, 1));
        assert_eq!(requester.transmit(|_| panic!("a packet")), 0);
        requester.complete(&mut program);
        assert_eq!(program.completed, [(0, Status::LocalOperation)]);
        assert!(requester.has_failed() && !requester.wants_request());
    }
}

#[test]
fn a_message_that_does_not_fit_its_receive_is_dropped() {
    let attributes = attributes(Mtu::B256, 0);
    for is_shared in [false, true] {
        let (mut requester, mut responder) =
            (uc::UcRequester::new(attributes), uc::UcResponder::new(attributes));
        let mut program = Program::new(0, 0, 0);
        program.is_shared = is_shared;
        program.receives.extend([(0, 600), (0, 900)]);
        // Of several packets, the last one of which does not fit.
        for (id, length) in [(0, 700), (1, 500)] {
            requester.post(request(id, Opcode::Send(SendEnd::Plain), length));
            let mut packets = Vec::new();
            requester.transmit(|outgoing| {
                packets.extend_from_slice(outgoing);
                Ok(())
            });
            for packet in packets {
                let payload = vec![id as u8; packet.payload.length as usize];
                let packet = Packet { headers: packet.headers, payload: &payload };
                responder.on_packets(&[packet], &mut program);
            }
            requester.complete(&mut program);
        }
        assert_eq!(program.completed, [(0, Status::Success), (1, Status::Success)]);
        assert_eq!((program.failed, responder.has_failed()), (None, false));
        let [(completion, bytes)] = &program.received[..] else { panic!("one has arrived") };
        assert_eq!((completion.length, &bytes[..500]), (500, &[1; 500][..]));
        assert_eq!(bytes.len(), if is_shared { 900 } else { 600 });
        assert_eq!(program.released, usize::from(is_shared));
    }
}
