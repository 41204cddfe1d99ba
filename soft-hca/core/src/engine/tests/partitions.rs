//! Queue pairs of different partitions, and paths that differ in bits of the LID.

use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Release;

use soft_hca_verbs::cause::{Cause, Peer};

use super::fabric::*;
use crate::engine::Route;
use crate::uapi::verbs::{opcode, placement, qp_type, state, status};

/// P_Keys of a sender and a receiver, and whether they match.
const PAIRS: [(u32, u32, bool); 7] = [
    (0xffff, 0xffff, true),
    (0x8001, 0x8001, true),
    (0x0001, 0x8001, true),
    (0x8001, 0x0001, true),
    (0x0001, 0x0001, false),
    (0x8001, 0x8002, false),
    (0xffff, 0x8001, false),
];

const GROUP: [u8; 16] = [0xff, 0x12, 0x40, 0x01, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

fn set_gid(to: &[AtomicU8; 16], gid: [u8; 16]) {
    to.iter().zip(gid).for_each(|(to, byte)| to.store(byte, Release));
}

fn pair(kind: u32, own: u32, its: u32) -> Case {
    let mut case = Case::new();
    (case.a, case.b) = case.world.pair(kind);
    set(&case.world.entry(case.a).pkey, own);
    set(&case.world.entry(case.b).pkey, its);
    case
}

/// A datagram by an address handle that leads anywhere within the fabric.
fn datagram(wr_id: u64, qpn: u32) -> Wr {
    Wr::new(wr_id, opcode::SEND).word(24, qpn).word(28, 0x1111).word(36, 1)
}

fn handle(world: &World) {
    let ah = &world.arena.ahs[0];
    for (field, value) in [(&ah.proc, US as u32), (&ah.pd, PD), (&ah.mtu, 5), (&ah.live, 1)] {
        set(field, value);
    }
}

#[test]
fn a_reliable_request_is_not_answered_in_another_partition() {
    for (own, its, is_heard) in PAIRS {
        for kind in [opcode::SEND, opcode::RDMA_READ, opcode::ATOMIC_FETCH_AND_ADD, opcode::FLUSH] {
            let mut case = pair(qp_type::RC, own, its);
            set(&case.world.arena.trace_generation, 1);
            case.world.receive(case.b, 20, &[case.theirs.whole()]);
            let (addr, key) = (case.theirs.addr(), case.theirs.key);
            let wr = Wr::new(1, kind).remote(addr, key).sge(case.ours.sge(0, 8));
            let wr = match kind {
                opcode::ATOMIC_FETCH_AND_ADD => wr.atomic(addr, key, 1, 0),
                opcode::FLUSH => Wr::new(1, kind).flush(addr, key, 8, placement::GLOBAL),
                _ => wr,
            };
            case.world.send(case.a, &wr);
            if is_heard {
                assert_eq!(case.world.statuses(case.a), [(1, 0)], "{own:#x} {its:#x} {kind}");
                continue;
            }
            assert_eq!((case.world.poll(case.a), case.world.poll(case.b)), (vec![], vec![]));
            let peer = Peer::OtherPartition { own: own as u16, its: its as u16 };
            let waits = Cause::NoResponse { waited: 0, timeout: 14, retry_cnt: 6, peer };
            assert_eq!(case.world.env.take_causes(), [waits]);
            case.world.env.now_ns.store(1 << 40, Release);
            case.world.actor(DAEMON).run_send_queue(case.a);
            assert_eq!(case.world.statuses(case.a), [(1, status::RETRY_EXC_ERR)]);
            assert_eq!(
                (case.world.state(case.a), case.world.state(case.b)),
                (state::ERR, state::RTS)
            );
        }
    }
}

#[test]
fn an_unreliable_message_is_lost_on_the_way_to_another_partition() {
    for (own, its, is_heard) in PAIRS {
        let mut case = pair(qp_type::UC, own, its);
        case.world.receive(case.b, 20, &[case.theirs.whole()]);
        case.world.send(case.a, &Wr::new(1, opcode::SEND).sge(case.ours.sge(0, 8)));
        assert_eq!(case.world.statuses(case.a), [(1, 0)]);
        let received = if is_heard { vec![(20, 0)] } else { vec![] };
        assert_eq!(case.world.statuses(case.b), received, "{own:#x} {its:#x}");
    }
}

#[test]
fn a_path_that_leads_nowhere_loses_unreliable_messages() {
    let mut case = pair(qp_type::UC, 0xffff, 0xffff);
    case.world.receive(case.b, 20, &[case.theirs.whole()]);
    Route::Nowhere.store(&case.world.entry(case.a).route);
    case.world.send(case.a, &Wr::new(1, opcode::SEND).sge(case.ours.sge(0, 8)));
    Route::Local.store(&case.world.entry(case.a).route);
    case.world.send(case.a, &Wr::new(2, opcode::SEND).sge(case.ours.sge(0, 8)));
    assert_eq!(case.world.statuses(case.a), [(1, 0), (2, 0)]);
    assert_eq!(case.world.statuses(case.b), [(20, 0)]);
}

#[test]
fn a_datagram_is_for_its_partition() {
    for (own, its, is_heard) in PAIRS {
        let mut case = pair(qp_type::UD, own, its);
        handle(&case.world);
        case.world.receive(case.b, 20, &[case.theirs.whole()]);
        case.world.send(case.a, &datagram(1, case.b));
        assert_eq!(case.world.statuses(case.a), [(1, 0)]);
        let received = if is_heard { vec![(20, 0)] } else { vec![] };
        assert_eq!(case.world.statuses(case.b), received, "{own:#x} {its:#x}");
    }
}

#[test]
fn members_of_a_group_hear_their_partition() {
    let mut case = pair(qp_type::UD, 0x0001, 0x8001);
    let limited = case.world.qp(qp_type::UD, THEM);
    let other = case.world.qp(qp_type::UD, THEM);
    set(&case.world.entry(limited).pkey, 0x0001);
    for (index, qpn) in [case.b, limited, other].into_iter().enumerate() {
        let member = &case.world.arena.members[index];
        set_gid(&member.gid, GROUP);
        member.live.store(qpn, Release);
        case.world.receive(qpn, 20, &[case.theirs.whole()]);
    }
    set(&case.world.arena.members_used, 3);
    handle(&case.world);
    set_gid(&case.world.arena.ahs[0].dgid, GROUP);
    case.world.send(case.a, &datagram(1, 0xff_ffff));
    let heard = [case.b, limited, other].map(|qpn| case.world.statuses(qpn).len());
    assert_eq!(heard, [1, 0, 0]);
}

#[test]
fn a_datagram_tells_by_which_path_it_has_come() {
    let mut case = pair(qp_type::UD, 0xffff, 0xffff);
    handle(&case.world);
    set(&case.world.arena.ahs[0].slid, 0x86);
    set(&case.world.arena.ahs[0].dlid_path_bits, 3);
    case.world.receive(case.b, 20, &[case.theirs.whole()]);
    case.world.send(case.a, &datagram(1, case.b));
    let received = case.world.poll(case.b)[0];
    assert_eq!((received.slid, received.dlid_path_bits), (0x86, 3));
}
