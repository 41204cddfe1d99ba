//! UD and multicast.

use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Release;

use super::fabric::*;
use crate::engine::{DatagramReceiver, LINK, Route};
use crate::uapi::rxe::{Cqe, Sge};
use crate::uapi::verbs::{
    opcode, qp_type, send_flag, state,
    status::{LOC_LEN_ERR, LOC_PROT_ERR, LOC_QP_OP_ERR, WR_FLUSH_ERR},
    wc_flag, wc_opcode,
};

const LOCAL: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, 1];
const GROUP: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3];

fn set_gid(to: &[AtomicU8; 16], gid: [u8; 16]) {
    to.iter().zip(gid).for_each(|(to, byte)| to.store(byte, Release));
}

/// An address handle; its number.
fn handle(world: &World, index: usize, dgid: [u8; 16]) -> u32 {
    let ah = &world.arena.ahs[index];
    set(&ah.proc, US as u32);
    set(&ah.pd, PD);
    set(&ah.mtu, 3);
    set_gid(&ah.sgid, LOCAL);
    set_gid(&ah.dgid, dgid);
    ah.live.store(index as u32 + 1, Release);
    index as u32 + 1
}

/// One of an address of this fabric.
pub(super) fn local_handle(world: &World) -> u32 {
    handle(world, 0, LOCAL)
}

fn to(wr_id: u64, qpn: u32, qkey: u32, ah: u32) -> Wr {
    Wr::new(wr_id, opcode::SEND).word(24, qpn).word(28, qkey).word(36, ah)
}

struct Case {
    world: World,
    a: u32,
    b: u32,
    ah: u32,
    ours: Buffer,
    theirs: Buffer,
}

impl Case {
    fn new() -> Self {
        let world = World::new();
        let (a, b) = (world.qp(qp_type::UD, US), world.qp(qp_type::UD, THEM));
        let ah = handle(&world, 0, LOCAL);
        let ours = world.buffer(US, pattern(1, 5000));
        let theirs = world.buffer(THEM, vec![0; 5000]);
        Self { world, a, b, ah, ours, theirs }
    }
}

/// A request by a provider of rdma-core before 39, which writes the address vector into it.
fn by_vector(wr: Wr, dgid: [u8; 16], sgid_index: u8, hop_limit: u8) -> Wr {
    let word = |at: usize| u32::from_ne_bytes([dgid[at], dgid[at + 1], dgid[at + 2], dgid[at + 3]]);
    let wr = [0, 4, 8, 12].into_iter().fold(wr.word(56, 1), |wr, at| wr.word(64 + at, word(at)));
    wr.word(80, 7).word(84, u32::from_ne_bytes([sgid_index, hop_limit, 9, 0]))
}

#[test]
fn an_address_vector_stands_for_the_handle_that_it_made() {
    let mut case = Case::new();
    // The first handles are of another address and of another protection domain.
    handle(&case.world, 0, GROUP);
    set(&case.world.arena.ahs[handle(&case.world, 1, LOCAL) as usize - 1].pd, PD + 1);
    handle(&case.world, 2, LOCAL);
    set(&case.world.arena.ahs_used, 3);
    for ah in &case.world.arena.ahs[..3] {
        for (field, value) in [
            (&ah.port, 1),
            (&ah.sgid_index, 3),
            (&ah.hop_limit, 64),
            (&ah.traffic_class, 9),
            (&ah.flow_label, 7),
        ] {
            set(field, value);
        }
    }
    case.world.receive(case.b, 20, &[case.theirs.whole()]);
    let wr = by_vector(to(1, case.b, 0x1111, 0).sge(case.ours.sge(0, 16)), LOCAL, 3, 64);
    case.world.send(case.a, &wr);
    assert_eq!(case.world.statuses(case.a), [(1, 0)]);
    assert_eq!(case.world.statuses(case.b), [(20, 0)]);
    assert_eq!(case.theirs.bytes[40..56], case.ours.bytes[..16]);
    // A vector with which no handle was created.
    let mut elsewhere = LOCAL;
    elsewhere[15] ^= 1;
    for (dgid, sgid_index, hop_limit) in [(elsewhere, 3, 64), (LOCAL, 2, 64), (LOCAL, 3, 65)] {
        let mut case = Case::new();
        handle(&case.world, 0, LOCAL);
        set(&case.world.arena.ahs_used, 1);
        let wr = to(1, case.b, 0x1111, 0).sge(case.ours.sge(0, 16));
        case.world.send(case.a, &by_vector(wr, dgid, sgid_index, hop_limit));
        assert_eq!(case.world.statuses(case.a), [(1, LOC_QP_OP_ERR)]);
    }
}

#[test]
fn a_datagram_has_a_header() {
    for me in [US, DAEMON] {
        for flag in [0, send_flag::INLINE] {
            let mut case = Case::new();
            let sges = [case.theirs.sge(0, 30), case.theirs.sge(100, 200)];
            case.world.receive(case.b, 20, &sges);
            let mut wr = to(1, case.b, 0x1111, case.ah).imm(5).sge(case.ours.sge(0, 16));
            if flag != 0 {
                wr = wr.inline(&case.ours.bytes[..16]);
            }
            wr.opcode = opcode::SEND_WITH_IMM;
            case.world.put(case.a, &wr);
            case.world.actor(me).run_send_queue(case.a);
            let sent = Cqe {
                wr_id: 1,
                byte_len: 16,
                qp_num: case.a,
                wc_flags: wc_flag::WITH_IMM,
                ..Cqe::default()
            };
            assert_eq!(case.world.poll(case.a), [sent]);
            let received = Cqe {
                wr_id: 20,
                opcode: wc_opcode::RECV,
                byte_len: 56,
                imm: 5,
                qp_num: case.b,
                src_qp: case.a,
                wc_flags: wc_flag::GRH | wc_flag::WITH_IMM,
                sl: 0xa,
                port_num: 1,
                ..Cqe::default()
            };
            assert_eq!(case.world.poll(case.b), [received]);
            assert_eq!(case.theirs.bytes[..20], [0; 20]);
            assert_eq!(case.theirs.bytes[20], 0x45);
            // The header is split over both elements.
            assert_eq!(case.theirs.bytes[102..110], [10, 9, 0, 1, 10, 9, 0, 1]);
            assert_eq!(case.theirs.bytes[110..126], case.ours.bytes[..16]);
        }
    }
}

#[test]
fn the_receive_names_the_network() {
    let mut case = Case::new();
    let group = [[0xff, 0x0e].as_slice(), &[0; 14]].concat().try_into().unwrap();
    let ipv6 = handle(&case.world, 1, group);
    let member = &case.world.arena.members[0];
    set_gid(&member.gid, group);
    member.live.store(case.b, Release);
    set(&case.world.arena.members_used, 1);
    for (ah, expected) in [(case.ah, 0xa), (ipv6, 0x9)] {
        case.world.receive(case.b, 20, &[case.theirs.sge(0, 40)]);
        case.world.send(case.a, &to(1, case.b, 0x1111, ah));
        assert_eq!(case.world.poll(case.b)[0].sl, expected);
    }
}

#[test]
fn an_empty_datagram() {
    let mut case = Case::new();
    case.world.receive(case.b, 20, &[case.theirs.sge(0, 40)]);
    case.world.send(case.a, &to(1, case.b, 0x1111, case.ah));
    assert_eq!(case.world.poll(case.b)[0].byte_len, 40);
}

#[test]
fn what_is_lost_silently() {
    let mut case = Case::new();
    let rc = case.world.qp(qp_type::RC, THEM);
    let (early, late) = (case.world.qp(qp_type::UD, THEM), case.world.qp(qp_type::UD, THEM));
    set(&case.world.entry(early).state, state::INIT);
    set(&case.world.entry(late).state, state::ERR);
    case.world.receive(case.b, 20, &[case.theirs.whole()]);
    let mut wr_id = 0;
    let mut send = |qpn, qkey, length| {
        wr_id += 1;
        let sge = case.ours.sge(0, length);
        case.world.send(case.a, &to(wr_id, qpn, qkey, case.ah).sge(sge));
        assert_eq!(case.world.statuses(case.a), [(wr_id, 0)]);
    };
    send(case.b, 0x1112, 8);
    send(0x3333, 0x1111, 8);
    for qpn in [rc, early, late] {
        send(qpn, 0x1111, 8);
    }
    assert_eq!(case.world.poll(case.b), [], "the receive is still posted");
    // The longest; and the sender's own key, which the top bit asks for
    send(case.b, 0x1111, 1024);
    case.world.receive(case.b, 21, &[case.theirs.whole()]);
    send(case.b, 0x8000_0000, 8);
    assert_eq!(case.world.statuses(case.b), [(20, 0), (21, 0)]);
    send(case.b, 0x1111, 8);
    assert_eq!(case.world.poll(case.b), [], "no receive");
}

/// To one queue pair or to a group, here or on another host.
#[test]
fn a_datagram_that_is_longer_than_the_mtu() {
    let routes = [(LOCAL, Route::Local), (GROUP, Route::Local)];
    let ways = [(LOCAL, Route::Remote), (GROUP, Route::Remote), (GROUP, Route::MulticastLoopback)];
    for (code, mtu) in [(1, 256), (3, 1024), (5, 4096)] {
        for (dgid, route) in routes.into_iter().chain(ways) {
            let mut case = Case::new();
            let ah = handle(&case.world, 0, dgid);
            set(&case.world.arena.ahs[0].mtu, code);
            route.store(&case.world.arena.ahs[0].route);
            let member = &case.world.arena.members[0];
            set_gid(&member.gid, GROUP);
            member.live.store(case.b, Release);
            set(&case.world.arena.members_used, 1);
            for wr_id in [20, 21] {
                case.world.receive(case.b, wr_id, &[case.theirs.whole()]);
            }
            for (wr_id, length) in [(1, mtu), (2, mtu + 1)] {
                let sge = case.ours.sge(0, length);
                case.world.put(case.a, &to(wr_id, case.b, 0x1111, ah).sge(sge));
            }
            let me = if route == Route::Local { US } else { LINK };
            case.world.actor(me).run_send_queue(case.a);
            assert_eq!(case.world.statuses(case.a), [(1, 0), (2, LOC_LEN_ERR)], "{mtu}");
            assert_eq!(case.world.state(case.a), state::ERR);
            let away = usize::from(route != Route::Local);
            assert_eq!(case.world.env.away.lock().unwrap().len(), away);
            assert!(case.world.statuses(case.b).len() <= 1);
            assert_eq!(case.world.state(case.b), state::RTS);
        }
    }
}

#[test]
fn a_receive_that_does_not_fit() {
    // It remains for the next datagram.
    let mut case = Case::new();
    case.world.receive(case.b, 20, &[case.theirs.sge(0, 47)]);
    case.world.receive(case.b, 21, &[case.theirs.sge(100, 48)]);
    for (wr_id, length) in [(1, 8), (2, 7), (3, 8)] {
        let sge = case.ours.sge(wr_id as usize, length);
        case.world.send(case.a, &to(wr_id, case.b, 0x1111, case.ah).sge(sge));
    }
    assert_eq!(case.world.statuses(case.a), [(1, 0), (2, 0), (3, 0)]);
    assert_eq!(case.world.statuses(case.b), [(20, 0), (21, 0)]);
    assert_eq!(case.theirs.bytes[40..47], case.ours.bytes[2..9]);
    assert_eq!(case.theirs.bytes[140..148], case.ours.bytes[3..11]);
    // Of a shared queue it was taken, and says why.
    let mut case = Case::new();
    let srq = case.world.srq(7);
    set(&case.world.entry(case.b).srq, srq + 1);
    for (wr_id, length) in [(20, 39), (21, 48)] {
        case.world.receive_shared(srq, wr_id, &[case.theirs.sge(0, length)]);
    }
    for wr_id in [1, 2] {
        case.world.send(case.a, &to(wr_id, case.b, 0x1111, case.ah).sge(case.ours.sge(0, 8)));
    }
    assert_eq!(case.world.statuses(case.a), [(1, 0), (2, 0)]);
    assert_eq!(case.world.statuses(case.b), [(20, LOC_LEN_ERR), (21, 0)]);
    assert_eq!((case.world.state(case.b), case.world.env.take_raised()), (state::RTS, vec![]));
    // Memory that may not be used is the program's own mistake.
    let mut case = Case::new();
    let sge = case.theirs.sge(0, 48);
    case.world.receive(case.b, 20, &[Sge { lkey: 0x9900, ..sge }]);
    case.world.receive(case.b, 21, &[sge]);
    case.world.send(case.a, &to(1, case.b, 0x1111, case.ah).sge(case.ours.sge(0, 8)));
    assert_eq!(case.world.statuses(case.a), [(1, 0)]);
    assert_eq!(case.world.statuses(case.b), [(20, LOC_PROT_ERR), (21, WR_FLUSH_ERR)]);
    assert_eq!(case.world.state(case.b), state::ERR);
}

#[test]
fn the_senders_errors() {
    let mut case = Case::new();
    let good = case.ours.sge(0, 8);
    let unmapped = case.world.register(US, 0x1000, 8, ALL);
    let foreign = handle(&case.world, 1, LOCAL);
    set(&case.world.arena.ahs[1].pd, PD + 1);
    let case_of = |ah, sge, expected| {
        let a = case.world.qp(qp_type::UD, US);
        case.world.receive(
            case.b,
            20,
            &[Sge { lkey: case.theirs.key, addr: case.theirs.bytes.as_ptr() as u64, length: 100 }],
        );
        case.world.send(a, &to(1, case.b, 0x1111, ah).sge(sge));
        assert_eq!(case.world.statuses(a), [(1, expected)]);
        assert_eq!(case.world.state(a), state::ERR);
        assert_eq!(case.world.poll(case.b), []);
    };
    case_of(0, good, LOC_QP_OP_ERR);
    case_of(u32::MAX, good, LOC_QP_OP_ERR);
    case_of(foreign, good, LOC_QP_OP_ERR);
    case_of(case.ah, Sge { lkey: 5, ..good }, LOC_PROT_ERR);
    case_of(case.ah, Sge { addr: 0x1000, length: 8, lkey: unmapped }, LOC_PROT_ERR);
}

#[test]
fn every_member_of_a_group_gets_it() {
    let mut case = Case::new();
    let group = handle(&case.world, 1, GROUP);
    set(&case.world.arena.ahs[1].hop_limit, 9);
    let other_key = case.world.qp(qp_type::UD, US);
    set(&case.world.entry(other_key).qkey, 0x2222);
    let stranger = case.world.qp(qp_type::UD, US);
    let members = [(case.a, GROUP), (case.b, GROUP), (other_key, GROUP), (stranger, LOCAL)];
    let mut room = case.world.buffer(US, vec![0; 64]);
    for (i, (qpn, gid)) in members.into_iter().enumerate() {
        let member = &case.world.arena.members[i];
        set_gid(&member.gid, gid);
        member.live.store(qpn, Release);
        let sge = if qpn == case.b { case.theirs.sge(0, 64) } else { room.whole() };
        case.world.receive(qpn, 20, &[sge]);
    }
    set(&case.world.arena.members_used, 4);
    for (qpn, port) in [(case.a, 1), (case.b, 2), (other_key, 2)] {
        set(&case.world.entry(qpn).port, port);
    }
    case.world.send(case.a, &to(1, 0xff_ffff, 0x1111, group).sge(case.ours.sge(0, 24)));
    // The sender is a member, too.
    assert_eq!(case.world.statuses(case.a), [(20, 0), (1, 0)]);
    assert_eq!(case.world.statuses(case.b), [(20, 0)]);
    assert_eq!((case.world.poll(other_key), case.world.poll(stranger)), (vec![], vec![]));
    assert_eq!(case.theirs.bytes[40..64], case.ours.bytes[..24]);
    assert_eq!(room.bytes[40..], case.ours.bytes[..24]);
    assert_eq!(room.bytes[28], 9, "time to live");
    // To a port with two members the packet comes once, and is taken by one.
    let received = [case.a, case.b, other_key].map(|qpn| case.world.entry(qpn).received.load());
    assert_eq!(received.map(|tally| (tally.multicast, tally.sends)), [(1, 1), (1, 1), (0, 0)]);
    let sent = case.world.entry(case.a).sent.load();
    assert_eq!((sent.packets, sent.multicast, sent.sends), (1, 1, 1));
    // A count that is too big harms nobody.
    set(&case.world.arena.members_used, u32::MAX);
    case.world.send(case.a, &to(2, 0xff_ffff, 0x1111, group));
    assert_eq!(case.world.statuses(case.a), [(2, 0)]);
}

#[test]
fn members_here_and_on_other_hosts_get_it_once() {
    let mut case = Case::new();
    let group = handle(&case.world, 1, GROUP);
    Route::Remote.store(&case.world.arena.ahs[1].route);
    let member = &case.world.arena.members[0];
    set_gid(&member.gid, GROUP);
    member.live.store(case.b, Release);
    set(&case.world.arena.members_used, 1);
    for wr_id in [20, 21, 22] {
        case.world.receive(case.b, wr_id, &[case.theirs.sge(0, 64)]);
    }
    let wr = to(1, 0xff_ffff, 0x1111, group).sge(case.ours.sge(0, 24));
    // The program, however often it rings, and a link that has no room.
    case.world.send(case.a, &wr);
    case.world.actor(US).doorbell(case.a).unwrap();
    assert_eq!(case.world.env.link_doorbells.lock().unwrap()[..], [case.a; 2]);
    set(&case.world.env.is_full, 1);
    case.world.actor(LINK).run_send_queue(case.a);
    assert_eq!(case.world.statuses(case.a), []);
    assert!(case.world.actor(DAEMON).has_unsent(case.a));
    set(&case.world.env.is_full, 0);
    case.world.actor(LINK).run_send_queue(case.a);
    assert_eq!(case.world.statuses(case.a), [(1, 0)]);
    assert!(!case.world.actor(DAEMON).has_unsent(case.a));
    assert_eq!(case.world.statuses(case.b), [(20, 0)]);
    assert_eq!(case.theirs.bytes[40..64], case.ours.bytes[..24]);
    // The next one is another one, also if the link comes first.
    case.world.put(case.a, &to(2, 0xff_ffff, 0x1111, group).sge(case.ours.sge(8, 24)));
    case.world.actor(LINK).run_send_queue(case.a);
    assert_eq!(case.world.statuses(case.a), [(2, 0)]);
    assert_eq!(case.world.statuses(case.b), [(21, 0)]);
    assert_eq!(case.theirs.bytes[40..64], case.ours.bytes[8..32]);
    let away = case.world.env.away.lock().unwrap();
    assert_eq!(away[..], [case.ours.bytes[..24].to_vec(), case.ours.bytes[8..32].to_vec()]);
}

#[test]
fn what_another_host_sends_to_a_group() {
    let mut case = Case::new();
    for (i, qpn) in [case.a, case.b].into_iter().enumerate() {
        let member = &case.world.arena.members[i];
        set_gid(&member.gid, GROUP);
        member.live.store(qpn, Release);
    }
    set(&case.world.arena.members_used, 2);
    case.world.receive(case.b, 20, &[case.theirs.sge(0, 64)]);
    let deliver = |gid, qkey| {
        let receiver = DatagramReceiver::Group(gid);
        case.world.actor(LINK).deliver_remote(&[4; 40], b"group", receiver, (qkey, 5), None, false)
    };
    assert!(!deliver(LOCAL, 0x1111) && !deliver(GROUP, 0x2222));
    assert!(deliver(GROUP, 0x1111));
    assert!(!deliver(GROUP, 0x1111), "no receive");
    assert_eq!(case.theirs.bytes[40..45], *b"group");
}
