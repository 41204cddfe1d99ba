//! Packets that are sent once more before the time for their answer is over.

use super::details::{MOST_AT_ONCE, acknowledge, acknowledge_at, numbers, requester, sent};
use super::network::Faults;
use super::world::{Work, World, attributes, request};
use crate::transport::attributes::{Attributes, Mtu};
use crate::transport::probe::{FIRST_NS, LAST_FIRST_NS};
use crate::transport::request::{Opcode, Outgoing, Remote, Status};
use crate::transport::requester::RcRequester;
use crate::transport::timers::{AckTimer, ack_timeout_ns};
use crate::wire::headers::{NakCode, Syndrome};
use crate::wire::opcode::SendEnd;

const SEND: Opcode = Opcode::Send(SendEnd::Plain);
const MTU: Mtu = Mtu::B256;
const ACK: Syndrome = Syndrome::ACK;
/// Connections of the manager wait so long: 2.1 seconds.
const TIMEOUT: u8 = 19;

fn patient() -> Attributes {
    Attributes { ack: AckTimer::new(TIMEOUT), ..attributes(MTU, super::details::FIRST) }
}

/// Packets that are sent at a time.
fn sent_at(requester: &mut RcRequester, now_ns: u64) -> Vec<Outgoing> {
    let mut packets = Vec::new();
    while requester.transmit(now_ns, |run| {
        packets.extend_from_slice(run);
        assert!(packets.len() < MOST_AT_ONCE, "packets without end");
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

/// Sends messages one after the other, each of which is acknowledged after `silent_ns`. How many probes there
/// were for eight of them at a time, and the last first wait.
fn probes_of_a_peer(silent_ns: u64) -> ([usize; 8], u64) {
    let (mut requester, mut program) = requester(patient(), &[]);
    let (mut now, mut probes, mut wait) = (0, [0; 8], 0);
    for message in 0..64 {
        program.expect(1);
        requester.post(request(message.into(), SEND, 1));
        assert_eq!(numbers(&sent_at(&mut requester, now)), [message]);
        let answer = now + silent_ns;
        wait = requester.deadline().unwrap() - now;
        while let Some(at) = requester.deadline().filter(|at| *at < answer) {
            requester.on_timer(at, &mut program);
            probes[message as usize / 8] += sent_at(&mut requester, at).len();
        }
        now = answer;
        acknowledge_at(&mut requester, &mut program, message, now);
        assert!(requester.is_idle());
    }
    (probes, wait)
}

#[test]
fn a_peer_that_is_always_slow_is_probed_no_more() {
    assert_eq!(probes_of_a_peer(FIRST_NS / 100), ([0; 8], FIRST_NS));
    let (probes, wait) = probes_of_a_peer(2 * FIRST_NS);
    assert!(probes[0] >= 4, "{probes:?}");
    assert_eq!(probes[2..], [0; 6]);
    assert!(wait > 3 * FIRST_NS && wait <= 4 * FIRST_NS, "{wait}");
    // But not for ever, as it may be the network that loses packets.
    let (probes, wait) = probes_of_a_peer(40 * FIRST_NS);
    assert_eq!(wait, LAST_FIRST_NS);
    assert!(probes[7] >= 8, "{probes:?}");
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
    let short = Attributes { ack: AckTimer::new(10), ..patient() };
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
    let patient = [attributes(MTU, 0); 2].map(|a| Attributes { ack: AckTimer::new(TIMEOUT), ..a });
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
