//! Counts of queue pairs for messages that are executed within the fabric.

use soft_hca_roce::transport::events::Event;

use super::fabric::*;
use crate::arena::Tally;
use crate::uapi::verbs::{opcode, qp_type};

/// Ethernet, IPv4, UDP, BTH and ICRC.
const AROUND: u64 = 14 + 20 + 8 + 12 + 4;
const ACK: u64 = AROUND + 4;

/// A pair with an MTU of 1024 bytes, whose memory is registered.
fn pair(world: &World, kind: u32) -> (u32, u32) {
    let (a, b) = world.pair(kind);
    for qpn in [a, b] {
        set(&world.entry(qpn).path_mtu, 3);
        set(&world.entry(qpn).packet_octets, AROUND as u32);
    }
    (a, b)
}

/// The count that a message of 2500 bytes adds, the same on both sides.
fn counted(kind: u32, opcode: u32) -> Tally {
    let world = World::new();
    let (a, b) = pair(&world, kind);
    let mut ours = world.buffer(US, vec![0; 2500]);
    let mut theirs = world.buffer(THEM, vec![0; 2500]);
    world.receive(b, 20, &[theirs.whole()]);
    let wr = Wr::new(1, opcode).sge(ours.whole());
    world.send(
        a,
        &match opcode {
            opcode::ATOMIC_FETCH_AND_ADD => {
                wr.atomic(theirs.addr().next_multiple_of(8), theirs.key, 1, 0)
            }
            _ => wr.remote(theirs.addr(), theirs.key),
        },
    );
    assert_eq!(world.statuses(a), [(1, 0)]);
    let (sent, received) = (world.entry(a).sent.load(), world.entry(b).received.load());
    assert_eq!(sent, received);
    assert_eq!(world.entry(a).received.load(), Tally::default());
    assert_eq!(world.entry(b).sent.load(), Tally::default());
    sent
}

#[test]
fn a_message_is_as_many_packets_as_on_a_network() {
    // 2500 bytes are 1024, 1024 and 452.
    let send = Tally {
        packets: 3,
        octets: 3 * AROUND + 2500,
        sends: 1,
        answers: 1,
        answer_octets: ACK,
        multicast: 0,
    };
    assert_eq!(counted(qp_type::RC, opcode::SEND), send);
    let unanswered = Tally { answers: 0, answer_octets: 0, ..send };
    assert_eq!(counted(qp_type::UC, opcode::SEND), unanswered);
    let immediate = Tally { octets: send.octets + 4, ..send };
    assert_eq!(counted(qp_type::RC, opcode::SEND_WITH_IMM), immediate);
    let write = Tally { octets: send.octets + 16, sends: 0, ..send };
    assert_eq!(counted(qp_type::RC, opcode::RDMA_WRITE), write);
    let immediate = Tally { octets: write.octets + 4, ..write };
    assert_eq!(counted(qp_type::RC, opcode::RDMA_WRITE_WITH_IMM), immediate);
    let read = Tally {
        packets: 1,
        octets: AROUND + 16,
        answers: 3,
        answer_octets: 3 * AROUND + 2500 + 2 * 4,
        ..Tally::default()
    };
    assert_eq!(counted(qp_type::RC, opcode::RDMA_READ), read);
    let atomic = Tally {
        packets: 1,
        octets: AROUND + 28,
        answers: 1,
        answer_octets: ACK + 8,
        ..Tally::default()
    };
    assert_eq!(counted(qp_type::RC, opcode::ATOMIC_FETCH_AND_ADD), atomic);
}

/// The payload is filled up to a multiple of four bytes, and an empty message is a packet.
#[test]
fn messages_of_a_batch_are_counted_each() {
    let world = World::new();
    let (a, b) = pair(&world, qp_type::RC);
    let mut ours = world.buffer(US, vec![0; 8]);
    let mut theirs = world.buffer(THEM, vec![0; 8]);
    for (wr_id, length) in [(1, 5), (2, 0), (3, 8)] {
        world.receive(b, wr_id, &[theirs.whole()]);
        world.put(a, &Wr::new(wr_id, opcode::SEND).sge(ours.sge(0, length)));
    }
    world.doorbell(a);
    let expected = Tally {
        packets: 3,
        octets: 3 * AROUND + 16,
        sends: 3,
        answers: 3,
        answer_octets: 3 * ACK,
        multicast: 0,
    };
    assert_eq!(world.entry(a).sent.load(), expected);
    assert_eq!(world.entry(b).received.load(), expected);
}

/// A lost datagram has left its sender.
#[test]
fn a_lost_message_is_sent_only() {
    let world = World::new();
    let (a, b) = pair(&world, qp_type::UC);
    world.send(a, &Wr::new(1, opcode::SEND));
    assert_eq!(world.entry(a).sent.load().packets, 1);
    assert_eq!(world.entry(b).received.load().packets, 0);
}

#[test]
fn who_finds_no_receive_is_told_so() {
    let world = World::new();
    let (a, b) = pair(&world, qp_type::RC);
    set(&world.entry(a).rnr_retry, 2);
    world.send(a, &Wr::new(1, opcode::SEND));
    let happened = |qpn: u32, event: Event| world.entry(qpn).events.load()[event as usize];
    assert_eq!((happened(a, Event::RnrReceived), happened(b, Event::RnrSent)), (1, 1));
    assert_eq!(world.entry(a).sent.load(), Tally::default());
    world.env.now_ns.store(u64::MAX / 2, std::sync::atomic::Ordering::Release);
    world.actor(DAEMON).run_send_queue(a);
    assert_eq!(world.statuses(a), [(1, crate::uapi::verbs::status::RNR_RETRY_EXC_ERR)]);
    // Each of the retries has found none, either.
    assert_eq!((happened(a, Event::RnrReceived), happened(b, Event::RnrSent)), (3, 3));
    assert_eq!(happened(a, Event::RnrRetriesExceeded), 1);
}

#[test]
fn who_gets_no_answer_tries_again() {
    let world = World::new();
    let (a, b) = pair(&world, qp_type::RC);
    set(&world.entry(b).state, crate::uapi::verbs::state::RESET);
    set(&world.entry(a).timeout, 1);
    set(&world.entry(a).retry_cnt, 5);
    world.send(a, &Wr::new(1, opcode::SEND));
    world.env.now_ns.store(u64::MAX / 2, std::sync::atomic::Ordering::Release);
    world.actor(DAEMON).run_send_queue(a);
    let events = world.entry(a).events.load();
    assert_eq!(events[Event::Retried as usize], 5);
    assert_eq!(events[Event::RetriesExceeded as usize], 1);
}
