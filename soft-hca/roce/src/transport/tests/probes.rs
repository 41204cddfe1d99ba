//! Packets that are sent once more before the time for their answer is over.

use super::details::{acknowledge, numbers, requester, sent};
use super::network::Faults;
use super::world::{Work, World, attributes, request};
use crate::transport::attributes::{Attributes, Mtu};
use crate::transport::probe::FIRST_NS;
use crate::transport::request::{Opcode, Outgoing, Remote, Status};
use crate::transport::requester::RcRequester;
use crate::transport::timers::ack_timeout_ns;
use crate::wire::headers::{NakCode, Syndrome};
use crate::wire::opcode::SendEnd;

const SEND: Opcode = Opcode::Send(SendEnd::Plain);
const MTU: Mtu = Mtu::B256;
const ACK: Syndrome = Syndrome::ACK;
/// Connections of the manager wait so long: 2.1 seconds.
const TIMEOUT: u8 = 19;

fn patient() -> Attributes {
    Attributes { timeout: TIMEOUT, ..attributes(MTU, super::details::FIRST) }
}

/// What is sent at a time.
fn sent_at(requester: &mut RcRequester, now_ns: u64) -> Vec<Outgoing> {
    let mut packets = Vec::new();
    while requester.transmit(now_ns, |run| {
        packets.extend_from_slice(run);
        Ok(())
    }) > 0
    {}
    packets
}

#[test]
fn the_waits_become_longer_up_to_the_time_out() {
    let (mut requester, mut program) = requester(patient(), &[(SEND, 1)]);
    assert_eq!(numbers(&sent(&mut requester)), [0]);
    let timeout = ack_timeout_ns(TIMEOUT).unwrap();
    let mut at = 0;
    let mut times = Vec::new();
    while at < timeout {
        at = requester.deadline().unwrap();
        requester.on_timer(at - 1, &mut program);
        assert!(!requester.can_transmit());
        requester.on_timer(at, &mut program);
        let packets = sent_at(&mut requester, at);
        assert_eq!(numbers(&packets), [0]);
        assert!(packets[0].headers.ack_req);
        times.push(at / FIRST_NS);
    }
    assert_eq!(times, [1, 3, 7, 15, 31, 63, 127, 255, 511, 512]);
    // The next wait is that of a peer that may have ended.
    assert_eq!(requester.deadline(), Some(timeout + 2 * timeout));
    acknowledge(&mut requester, &mut program, 0, ACK);
    assert_eq!(program.completed, [(0, Status::Success)]);
    assert_eq!(requester.deadline(), None);
}

#[test]
fn they_do_not_count_as_retries() {
    let patient = Attributes { retry_cnt: 0, ..patient() };
    let (mut requester, mut program) = requester(patient, &[(SEND, 1)]);
    sent(&mut requester);
    // Of a last attempt the wait is four times as long.
    let end = 4 * ack_timeout_ns(TIMEOUT).unwrap();
    while let Some(at) = requester.deadline() {
        assert_eq!(program.completed, []);
        assert!(at <= end);
        requester.on_timer(at, &mut program);
        sent_at(&mut requester, at);
    }
    assert_eq!(program.completed, [(0, Status::RetryExceeded)]);
}

#[test]
fn short_time_outs_need_none() {
    let short = Attributes { timeout: 10, ..patient() };
    let (mut requester, _) = requester(short, &[(SEND, 1)]);
    sent(&mut requester);
    assert_eq!(requester.deadline(), ack_timeout_ns(10));
}

#[test]
fn a_lost_acknowledgement_costs_one_packet() {
    let (mut requester, mut program) = requester(patient(), &[(SEND, 1); 5]);
    assert_eq!(numbers(&sent(&mut requester)), [0, 1, 2, 3, 4]);
    requester.on_timer(FIRST_NS, &mut program);
    assert_eq!(numbers(&sent_at(&mut requester, FIRST_NS)), [0]);
    // The peer has them all, and says so.
    acknowledge(&mut requester, &mut program, 4, ACK);
    assert!(requester.is_idle());
}

#[test]
fn a_packet_that_is_lost_twice_brings_what_follows_it_again() {
    let (mut requester, mut program) = requester(patient(), &[(SEND, 1); 5]);
    sent(&mut requester);
    acknowledge(&mut requester, &mut program, 1, Syndrome::Nak(NakCode::PsnSequence));
    assert_eq!(numbers(&sent(&mut requester)), [1, 2, 3, 4]);
    // The responder does not ask a second time.
    requester.on_timer(FIRST_NS, &mut program);
    assert_eq!(numbers(&sent_at(&mut requester, FIRST_NS)), [1]);
    acknowledge(&mut requester, &mut program, 1, ACK);
    assert_eq!(numbers(&sent(&mut requester)), [2, 3, 4]);
    acknowledge(&mut requester, &mut program, 4, ACK);
    assert!(requester.is_idle());
}

#[test]
fn a_peer_that_is_slow_is_not_sent_all_twice() {
    let (mut requester, mut program) = requester(patient(), &[(SEND, 1); 5]);
    sent(&mut requester);
    requester.on_timer(FIRST_NS, &mut program);
    assert_eq!(numbers(&sent_at(&mut requester, FIRST_NS)), [0]);
    acknowledge(&mut requester, &mut program, 2, ACK);
    assert!(sent(&mut requester).is_empty());
    acknowledge(&mut requester, &mut program, 4, ACK);
    assert!(requester.is_idle());
}

#[test]
fn of_a_read_what_is_missing_is_asked_for() {
    let read = Opcode::Read(Remote { address: super::world::BASE, rkey: super::world::KEY });
    let (mut requester, mut program) = requester(patient(), &[(SEND, 1), (read, 600), (SEND, 1)]);
    assert_eq!(numbers(&sent(&mut requester)), [0, 1, 4]);
    acknowledge(&mut requester, &mut program, 0, ACK);
    requester.on_timer(FIRST_NS, &mut program);
    let probe = sent_at(&mut requester, FIRST_NS);
    assert_eq!(numbers(&probe), [1]);
}

/// A stream in a network that loses one packet in fifty takes milliseconds for each that only time
/// brings back, not the time-out.
#[test]
fn a_network_that_loses_packets_is_not_slow() {
    let faults = Faults { lost: 20, ..Faults::default() };
    let patient = [attributes(MTU, 0); 2].map(|a| Attributes { timeout: TIMEOUT, ..a });
    let mut world = World::new(1, patient, faults, 0, 0);
    let count = 2000;
    let work = |id| Work { request: request(id, SEND, 256), bytes: vec![0; 256] };
    for end in 0..2 {
        world.ends[end].receiver.receives = (0..count).map(|_| (0, 256)).collect();
        world.work(end, (0..count).map(work).collect());
    }
    world.run();
    for end in &world.ends {
        assert!(end.sender.completed.iter().all(|(_, status)| *status == Status::Success));
        assert_eq!(end.receiver.received.len(), count as usize);
    }
    assert!(world.now_ns < 500_000_000, "{} ms", world.now_ns / 1_000_000);
}
