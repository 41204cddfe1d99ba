//! Unreliable connections and datagrams.

use super::network::{Faults, Network, Random};
use super::world::*;
use crate::transport::attributes::Mtu;
use crate::transport::request::{Failure, Opcode, Payload, Remote, Status};
use crate::transport::target::{Completion, Received};
use crate::transport::{uc, ud};
use crate::wire::headers::Deth;
use crate::wire::opcode::SendEnd;
use crate::wire::packet::{Headers, Packet};

/// Bytes of a receive, and of the memory for each write.
const ROOM: usize = 2048;

/// Sends and writes messages that carry their place in the order, and returns the places of those
/// that arrived.
fn exchange(seed: u64, faults: Faults, busy: u32, messages: u64) -> Vec<u64> {
    let mut random = Random::new(seed);
    let attributes = attributes(Mtu::B256, random.number() as u32);
    let mut requester = uc::Requester::new(attributes);
    let mut responder = uc::Responder::new(attributes);
    let mut sender = Program::new(seed, 0, 0);
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
    let mut now = 0;
    let mut posted = 0;
    let mut arrived = Vec::new();
    loop {
        if requester.wants_request() && posted < work.len() {
            requester.post(work[posted].request);
            posted += 1;
        }
        let sent = requester.transmit(|packets| {
            if random.permille(busy) {
                return Err(Failure::Busy);
            }
            for packet in packets {
                let Payload { id, offset, length } = packet.payload;
                let bytes = &work[id as usize].bytes[offset as usize..][..length as usize];
                assert!(!packet.headers.ack_req);
                network.send(now, 1, &packet.headers, bytes);
            }
            Ok(())
        });
        requester.complete(&mut sender);
        now += 500;
        while let Some((_, bytes)) = network.arrive(now) {
            responder.on_packets(&[Packet::parse(&bytes).unwrap()], &mut receiver);
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
        let is_done = sent == 0 && requester.wants_request() && posted == work.len();
        if is_done && network.next_arrival().is_none() {
            break;
        }
    }
    assert!(sender.completed.iter().copied().eq((0..messages).map(|id| (id, Status::Success))));
    assert!(!responder.has_failed());
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
fn unreliable_connections_send_and_write_only() {
    let mut requester = uc::Requester::new(attributes(Mtu::B256, 0));
    let mut program = Program::new(0, 0, 0);
    let remote = Remote { address: 0, rkey: 0 };
    requester.post(request(0, Opcode::Read(remote), 1));
    assert_eq!(requester.transmit(|_| panic!("a packet")), 0);
    requester.complete(&mut program);
    assert_eq!(program.completed, [(0, Status::LocalOperation)]);
    assert!(requester.has_failed() && !requester.wants_request());
}

const QKEY: u32 = 0x1111_1111;

fn datagram(length: u32) -> ud::Datagram {
    ud::Datagram {
        dest_qpn: 0x22,
        deth: Deth { qkey: QKEY, source_qpn: 0x33 },
        immediate: Some([1, 2, 3, 4]),
        solicited: true,
        payload: Payload { id: 0, offset: 0, length },
    }
}

#[test]
fn a_datagram_lies_behind_its_header() {
    let mtu = Mtu::B512;
    let mut requester = ud::Requester::new(Default::default());
    let mut responder = ud::Responder::new(mtu);
    let mut program = Program::new(0, 0, 0);
    let header = [7; 40];
    let mut deliver = |program: &mut Program, headers: Headers, payload: &[u8], qkey| {
        responder.on_packet(&Packet { headers, payload }, qkey, &header, program)
    };
    assert_eq!(requester.packet(&datagram(513), mtu), None);
    let headers = requester.packet(&datagram(512), mtu).unwrap().headers;
    assert_eq!(headers.psn.get(), 0);
    assert_eq!(requester.packet(&datagram(0), mtu).unwrap().headers.psn.get(), 1);

    assert!(!deliver(&mut program, headers, &[5; 512], QKEY), "no receive");
    program.receives.push_back((0, 600));
    assert!(!deliver(&mut program, headers, &[5; 512], QKEY + 1));
    assert!(!deliver(&mut program, headers, &[5; 513], QKEY));
    assert!(deliver(&mut program, headers, &[5; 512], QKEY));
    let (completion, bytes) = program.received.pop().unwrap();
    let received = Received::Datagram { source_qpn: 0x33, immediate: Some([1, 2, 3, 4]) };
    assert_eq!(completion, Completion { received, length: 552, solicited: true });
    assert_eq!(bytes[..40], header);
    assert_eq!(bytes[40..552], [5; 512]);

    // One that does not fit is dropped, and its receive is for the next one.
    program.receives.push_back((0, 551));
    assert!(!deliver(&mut program, headers, &[5; 512], QKEY));
    assert!(deliver(&mut program, headers, &[6; 511], QKEY));
    assert_eq!((program.failed, program.receives.len()), (None, 0));
    assert_eq!(program.received.pop().unwrap().1[40..], [6; 511]);
    // One of a shared queue is gone.
    program.is_shared = true;
    program.receives.extend([(0, 551), (0, 552)]);
    assert!(!deliver(&mut program, headers, &[5; 512], QKEY));
    assert!(deliver(&mut program, headers, &[5; 512], QKEY));
    assert_eq!((program.failed, program.released), (None, 1));
}

#[test]
fn a_message_that_does_not_fit_its_receive_is_dropped() {
    let attributes = attributes(Mtu::B256, 0);
    for is_shared in [false, true] {
        let (mut requester, mut responder) =
            (uc::Requester::new(attributes), uc::Responder::new(attributes));
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
