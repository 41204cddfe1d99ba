//! RC and UC: what goes wrong, with the status on each side and the states afterwards.

use std::mem;

use super::fabric::*;
use crate::engine::Async;
use crate::engine::responder::Responder;
use crate::uapi::rxe::Sge;
use crate::uapi::verbs::{access, opcode, qp_type, state, status};

use status::{
    LOC_ACCESS_ERR, LOC_LEN_ERR, LOC_PROT_ERR, LOC_QP_OP_ERR, REM_ACCESS_ERR, REM_INV_REQ_ERR,
    REM_OP_ERR, WR_FLUSH_ERR,
};

impl Case {
    /// Executes the request with two receives of `room` bytes posted, as its owner and, in a
    /// fresh fabric, as the daemon. The failing one is not signalled, which changes nothing.
    fn check(
        make: impl Fn(&mut Case) -> Wr,
        receive: impl Fn(&mut Case) -> Sge,
        ours: u32,
        theirs: &[u32],
        states: (u32, u32),
    ) {
        for by_daemon in [false, true] {
            let mut case = Case::new();
            let sge = receive(&mut case);
            let wr = make(&mut case).flags(0);
            let Case { world, a, b, .. } = &case;
            world.receive(*b, 20, &[sge]);
            world.receive(*b, 21, &[sge]);
            world.put(*a, &wr);
            world.put(*a, &Wr::new(2, opcode::SEND));
            if by_daemon {
                world.actor(DAEMON).run_send_queue(*a);
            } else {
                world.doorbell(*a);
            }
            assert_eq!(world.statuses(*a), [(wr.wr_id, ours), (2, WR_FLUSH_ERR)]);
            let expected: Vec<_> =
                theirs.iter().enumerate().map(|(i, s)| (20 + i as u64, *s)).collect();
            assert_eq!(world.statuses(*b), expected);
            assert_eq!((world.state(*a), world.state(*b)), states);
            // Where no receive tells why the responder has failed, an event does.
            let event = match ours {
                REM_ACCESS_ERR if theirs == FLUSHED => Some(Async::QpAccess(*b)),
                REM_INV_REQ_ERR if theirs == FLUSHED => Some(Async::QpRequest(*b)),
                _ => None,
            };
            assert_eq!(world.env.take_raised(), Vec::from_iter(event));
            assert_eq!(case.theirs.bytes, [0; 64], "nothing was written");
            // Later posts are flushed, too.
            case.world.send(*a, &Wr::new(3, opcode::SEND).flags(0));
            assert_eq!(case.world.statuses(*a), [(3, WR_FLUSH_ERR)]);
            case.world.assert_unlocked();
        }
    }
}

fn good(case: &mut Case) -> Sge {
    case.theirs.sge(0, 32)
}

const BOTH: (u32, u32) = (state::ERR, state::ERR);
const OURS: (u32, u32) = (state::ERR, state::RTS);
const FLUSHED: &[u32] = &[WR_FLUSH_ERR, WR_FLUSH_ERR];

fn write(case: &mut Case) -> Wr {
    Wr::new(1, opcode::RDMA_WRITE).sge(case.ours.sge(0, 8))
}

fn read(case: &mut Case) -> Wr {
    Wr::new(1, opcode::RDMA_READ).sge(case.ours.sge(0, 8))
}

#[test]
fn a_bad_remote_key() {
    Case::check(
        |case| {
            let (wr, addr) = (write(case), case.theirs.addr());
            wr.remote(addr, 0x12300)
        },
        good,
        REM_ACCESS_ERR,
        FLUSHED,
        BOTH,
    );
    Case::check(
        |case| {
            let (wr, addr) = (read(case), case.theirs.addr());
            wr.remote(addr, 0)
        },
        good,
        REM_ACCESS_ERR,
        FLUSHED,
        BOTH,
    );
}

#[test]
fn a_range_beyond_the_region() {
    for (offset, length) in [(-1i64, 8), (57, 8), (64, 1), (i64::MIN, 8), (-8, 8)] {
        let make = |opcode| {
            move |case: &mut Case| {
                let (addr, key) = (case.theirs.addr().wrapping_add_signed(offset), case.theirs.key);
                Wr::new(1, opcode).sge(case.ours.sge(0, length)).remote(addr, key)
            }
        };
        Case::check(make(opcode::RDMA_WRITE), good, REM_ACCESS_ERR, FLUSHED, BOTH);
        Case::check(make(opcode::RDMA_READ), good, REM_ACCESS_ERR, FLUSHED, BOTH);
    }
}

#[test]
fn a_region_without_the_right() {
    for (make, missing) in
        [(write as fn(&mut Case) -> Wr, access::REMOTE_WRITE), (read, access::REMOTE_READ)]
    {
        let wr = |case: &mut Case| {
            let (addr, key) = (case.theirs.addr(), case.theirs.key);
            set(&case.world.arena.mr(key).unwrap().access, ALL & !missing);
            make(case).remote(addr, key)
        };
        Case::check(
            wr,
            |case| {
                let key = case.world.register(THEM, case.theirs.addr(), 64, ALL);
                Sge { lkey: key, ..good(case) }
            },
            REM_ACCESS_ERR,
            FLUSHED,
            BOTH,
        );
    }
}

/// The receive that the write takes tells of it, if it is known when the key is: in one packet.
#[test]
fn a_bad_remote_key_with_immediate_data() {
    let make = |length| {
        move |case: &mut Case| {
            let key = case.world.register(US, 0, u64::MAX, ALL);
            let sge = Sge { length, lkey: key, ..case.ours.whole() };
            let wr = Wr::new(1, opcode::RDMA_WRITE_WITH_IMM).sge(sge);
            wr.remote(case.theirs.addr(), 0x12300)
        }
    };
    Case::check(make(1024), good, REM_ACCESS_ERR, &[LOC_ACCESS_ERR, WR_FLUSH_ERR], BOTH);
    Case::check(make(1025), good, REM_ACCESS_ERR, FLUSHED, BOTH);
    // Memory that is registered and gone is no better.
    let unmapped = |case: &mut Case| {
        let key = case.world.register(THEM, 0x1000, 64, ALL);
        let wr = Wr::new(1, opcode::RDMA_WRITE_WITH_IMM).sge(case.ours.sge(0, 8));
        wr.remote(0x1000, key)
    };
    Case::check(unmapped, good, REM_ACCESS_ERR, &[LOC_ACCESS_ERR, WR_FLUSH_ERR], BOTH);
    // A queue pair that allows no writes takes no receive for one.
    let forbidden = |case: &mut Case| {
        set(&case.world.entry(case.b).access, ALL & !access::REMOTE_WRITE);
        make(8)(case)
    };
    Case::check(forbidden, good, REM_INV_REQ_ERR, FLUSHED, BOTH);
}

/// Without a receive nobody looks at the key yet.
#[test]
fn a_bad_remote_key_with_immediate_data_waits_for_a_receive() {
    let case = Case::new();
    let wr = Wr::new(1, opcode::RDMA_WRITE_WITH_IMM).inline(b"12345678").remote(0, 0x12300);
    case.world.send(case.a, &wr);
    assert_eq!(case.world.statuses(case.a), []);
    case.world.receive(case.b, 20, &[]);
    case.world.actor(DAEMON).run_send_queue(case.a);
    assert_eq!(case.world.statuses(case.a), [(1, REM_ACCESS_ERR)]);
    assert_eq!(case.world.statuses(case.b), [(20, LOC_ACCESS_ERR)]);
}

/// A receive of a shared queue is not lost, whoever tells of the failure.
#[test]
fn a_bad_remote_key_with_immediate_data_and_a_shared_queue() {
    for (length, key, told) in [(8, 0x12300, true), (1025, 0x12300, false), (8, 0, true)] {
        let mut case = Case::new();
        let srq = case.world.srq(7);
        set(&case.world.entry(case.b).srq, srq + 1);
        case.world.receive_shared(srq, 20, &[]);
        let lkey = case.world.register(US, 0, u64::MAX, ALL);
        let sge = Sge { length, lkey, ..case.ours.whole() };
        let (addr, key) = match key {
            0 => (0x1000, case.world.register(THEM, 0x1000, 64, ALL)),
            key => (0, key),
        };
        let wr = Wr::new(1, opcode::RDMA_WRITE_WITH_IMM).sge(sge).remote(addr, key);
        case.world.send(case.a, &wr);
        assert_eq!(case.world.statuses(case.a), [(1, REM_ACCESS_ERR)]);
        let received = told.then_some((20, LOC_ACCESS_ERR));
        assert_eq!(case.world.statuses(case.b), Vec::from_iter(received));
        let last = Async::LastWqeReached(case.b);
        let raised = if told { vec![last] } else { vec![Async::QpAccess(case.b), last] };
        assert_eq!(case.world.env.take_raised(), raised);
    }
}

/// An unreliable connection drops such a write, and the responder goes on.
#[test]
fn a_bad_remote_key_of_an_unreliable_connection() {
    let world = World::new();
    let (a, b) = world.pair(qp_type::UC);
    world.receive(b, 20, &[]);
    for opcode in [opcode::RDMA_WRITE, opcode::RDMA_WRITE_WITH_IMM] {
        world.put(a, &Wr::new(1, opcode).inline(b"1").remote(0, 0x12300));
    }
    world.put(a, &Wr::new(2, opcode::SEND));
    world.doorbell(a);
    assert_eq!(world.statuses(a), [(1, 0), (1, 0), (2, 0)]);
    assert_eq!((world.statuses(b), world.state(b)), (vec![(20, 0)], state::RTS));
    assert_eq!(world.env.take_raised(), []);
}

#[test]
fn a_region_of_another_domain_or_process() {
    for own in [true, false] {
        let wr = |case: &mut Case| {
            let key = case.world.register(THEM, case.theirs.addr(), 64, ALL);
            let mr = case.world.arena.mr(key).unwrap();
            if own {
                set(&mr.pd, PD + 1)
            } else {
                set(&mr.proc, US as u32)
            }
            let addr = case.theirs.addr();
            write(case).remote(addr, key)
        };
        Case::check(wr, good, REM_ACCESS_ERR, FLUSHED, BOTH);
    }
}

#[test]
fn a_queue_pair_without_the_right() {
    for (make, missing) in
        [(write as fn(&mut Case) -> Wr, access::REMOTE_WRITE), (read, access::REMOTE_READ)]
    {
        let wr = |case: &mut Case| {
            set(&case.world.entry(case.b).access, ALL & !missing);
            let (addr, key) = (case.theirs.addr(), case.theirs.key);
            make(case).remote(addr, key)
        };
        Case::check(wr, good, REM_INV_REQ_ERR, FLUSHED, BOTH);
    }
}

#[test]
fn reads_beyond_what_was_agreed() {
    let ours = |case: &mut Case| {
        set(&case.world.entry(case.a).max_rd_atomic, 0);
        let (addr, key) = (case.theirs.addr(), case.theirs.key);
        read(case).remote(addr, key)
    };
    Case::check(ours, good, LOC_QP_OP_ERR, &[], OURS);
    let theirs = |case: &mut Case| {
        set(&case.world.entry(case.b).max_dest_rd_atomic, 0);
        let (addr, key) = (case.theirs.addr(), case.theirs.key);
        read(case).remote(addr, key)
    };
    Case::check(theirs, good, REM_INV_REQ_ERR, FLUSHED, BOTH);
}

#[test]
fn a_bad_local_key() {
    let send = |case: &mut Case| {
        Wr::new(1, opcode::SEND)
            .sge(case.ours.sge(0, 4))
            .sge(Sge { lkey: 0x7700, ..case.ours.sge(4, 4) })
    };
    Case::check(send, good, LOC_PROT_ERR, &[], OURS);
    // Beyond the region, of another process, a window's key
    let beyond = |case: &mut Case| Wr::new(1, opcode::SEND).sge(case.ours.sge(60, 5));
    Case::check(beyond, good, LOC_PROT_ERR, &[], OURS);
    let foreign = |case: &mut Case| Wr::new(1, opcode::SEND).sge(case.theirs.sge(0, 5));
    Case::check(foreign, good, LOC_PROT_ERR, &[], OURS);
    let window = |case: &mut Case| {
        set(&case.world.arena.mr(case.ours.key).unwrap().kind, 1);
        Wr::new(1, opcode::SEND).sge(case.ours.sge(0, 5))
    };
    Case::check(window, good, LOC_PROT_ERR, &[], OURS);
    // Read-only memory can be sent but not read into.
    let read_only = |case: &mut Case| {
        set(&case.world.arena.mr(case.ours.key).unwrap().access, 0);
        let (addr, key) = (case.theirs.addr(), case.theirs.key);
        read(case).remote(addr, key)
    };
    Case::check(read_only, good, LOC_PROT_ERR, &[], OURS);
}

#[test]
fn a_receive_that_does_not_fit() {
    let send = |case: &mut Case| Wr::new(1, opcode::SEND).sge(case.ours.sge(0, 8));
    let errors = |first| [first, WR_FLUSH_ERR];
    Case::check(send, |case| case.theirs.sge(0, 7), REM_INV_REQ_ERR, &errors(LOC_LEN_ERR), BOTH);
    Case::check(
        send,
        |case| Sge { lkey: 0x3300, ..good(case) },
        REM_OP_ERR,
        &errors(LOC_PROT_ERR),
        BOTH,
    );
    Case::check(send, |case| case.ours.sge(0, 8), REM_OP_ERR, &errors(LOC_PROT_ERR), BOTH);
    let read_only = |case: &mut Case| {
        let key = case.world.register(THEM, case.theirs.addr(), 64, 0);
        Sge { lkey: key, ..good(case) }
    };
    Case::check(send, read_only, REM_OP_ERR, &errors(LOC_PROT_ERR), BOTH);
}

/// An unreliable connection drops the message, and its receive is for the next one; a receive of a
/// shared queue is gone, and says why.
#[test]
fn an_unreliable_message_that_does_not_fit_its_receive() {
    for (me, is_shared) in [(US, false), (DAEMON, false), (US, true), (DAEMON, true)] {
        let world = World::new();
        let (a, b) = world.pair(qp_type::UC);
        let mut ours = world.buffer(US, pattern(3, 64));
        let mut theirs = world.buffer(THEM, vec![0; 64]);
        let rooms = [theirs.sge(0, 7), theirs.sge(32, 8)];
        if is_shared {
            let srq = world.srq(7);
            set(&world.entry(b).srq, srq + 1);
            for (wr_id, room) in (20..).zip(rooms) {
                world.receive_shared(srq, wr_id, &[room]);
            }
        } else {
            (20..).zip(rooms).for_each(|(wr_id, room)| world.receive(b, wr_id, &[room]));
        }
        for (wr_id, length) in [(1, 8), (2, 6), (3, 8)] {
            world.put(a, &Wr::new(wr_id, opcode::SEND).sge(ours.sge(wr_id as usize, length)));
        }
        world.actor(me).run_send_queue(a);
        assert_eq!(world.statuses(a), [(1, 0), (2, 0), (3, 0)]);
        assert_eq!((world.state(a), world.state(b)), (state::RTS, state::RTS));
        assert_eq!(world.env.take_raised(), []);
        let (received, sent) = if is_shared {
            ([(20, LOC_LEN_ERR), (21, 0)], (32..38, 2..8))
        } else {
            ([(20, 0), (21, 0)], (0..6, 2..8))
        };
        assert_eq!(world.statuses(b), received);
        assert_eq!(theirs.bytes[sent.0], ours.bytes[sent.1]);
        if !is_shared {
            assert_eq!(theirs.bytes[32..40], ours.bytes[3..11]);
        }
        world.assert_unlocked();
    }
}

#[test]
fn elements_beyond_the_message_are_not_looked_at() {
    let mut case = Case::new();
    let bad = Sge { addr: 3, length: 9, lkey: 1 };
    let sges = [bad, case.theirs.sge(0, 8), bad];
    case.world.receive(case.b, 1, &[Sge { length: 0, ..sges[0] }, sges[1], sges[2]]);
    case.world.send(case.a, &Wr::new(1, opcode::SEND).sge(case.ours.sge(0, 8)));
    assert_eq!(case.world.statuses(case.b), [(1, 0)]);
}

#[test]
fn requests_without_sense() {
    let unknown = |case: &mut Case| Wr::new(1, 77).sge(case.ours.whole());
    Case::check(unknown, good, LOC_QP_OP_ERR, &[], OURS);
    for opcode in [opcode::TSO, opcode::ATOMIC_WRITE + 1, u32::MAX] {
        Case::check(move |_| Wr::new(1, opcode), good, LOC_QP_OP_ERR, &[], OURS);
    }
    let too_many = |case: &mut Case| {
        (0..20).fold(Wr::new(1, opcode::SEND), |wr, _| wr.sge(case.ours.sge(0, 1)))
    };
    Case::check(too_many, good, LOC_QP_OP_ERR, &[], OURS);
    let too_long = |_: &mut Case| Wr::new(1, opcode::SEND).inline(&[0; 304]).word(184, 305);
    let mut case = Case::new();
    let wr = too_long(&mut case);
    case.world.put(case.a, &wr);
    let ring = case.world.arena.ring(&case.world.entry(case.a).sq).unwrap();
    ring.slot(0).set_u32(184, 305);
    case.world.doorbell(case.a);
    assert_eq!(case.world.statuses(case.a), [(1, LOC_LEN_ERR)]);
}

#[test]
fn a_message_that_is_too_long() {
    let world = World::new();
    let (a, _) = world.rc();
    // Registered, and never touched.
    let key = world.register(US, 0, u64::MAX, ALL);
    let sge = Sge { addr: 4096, length: 1 << 31, lkey: key };
    world.send(a, &Wr::new(1, opcode::SEND).sge(sge).sge(Sge { length: 1, ..sge }));
    assert_eq!(world.statuses(a), [(1, LOC_LEN_ERR)]);
}

#[test]
fn a_message_that_is_longer_than_the_port_takes() {
    const MOST: u32 = 40;
    let requests = [
        (qp_type::RC, opcode::SEND),
        (qp_type::RC, opcode::SEND_WITH_IMM),
        (qp_type::RC, opcode::RDMA_WRITE),
        (qp_type::RC, opcode::RDMA_WRITE_WITH_IMM),
        (qp_type::RC, opcode::RDMA_READ),
        (qp_type::UC, opcode::SEND),
        (qp_type::UC, opcode::RDMA_WRITE),
    ];
    // In one element, and in several of which none is too long.
    for (kind, opcode) in requests {
        for cuts in [&[][..], &[20], &[1, 2]] {
            for length in [MOST, MOST + 1] {
                let world = World::new();
                let (a, b) = world.pair(kind);
                set(&world.entry(a).max_message, MOST);
                let (mut ours, mut theirs) =
                    (world.buffer(US, vec![0; 64]), world.buffer(THEM, vec![0; 64]));
                world.receive(b, 20, &[theirs.whole()]);
                let ends = cuts.iter().copied().chain([length]);
                let mut wr = Wr::new(1, opcode).remote(theirs.addr(), theirs.key);
                let mut at = 0;
                for end in ends {
                    wr = wr.sge(ours.sge(at as usize, (end - at) as usize));
                    at = end;
                }
                world.send(a, &wr);
                let expected = if length > MOST { LOC_LEN_ERR } else { status::SUCCESS };
                assert_eq!(world.statuses(a), [(1, expected)], "{kind} {opcode} {cuts:?} {length}");
                assert_eq!(world.state(b), state::RTS);
            }
        }
    }
}

#[test]
fn what_the_type_does_not_offer() {
    let world = World::new();
    for opcode in [
        opcode::RDMA_READ,
        opcode::ATOMIC_FETCH_AND_ADD,
        opcode::SEND_WITH_INV,
        opcode::ATOMIC_WRITE,
        opcode::FLUSH,
    ] {
        let (a, b) = world.pair(qp_type::UC);
        world.put(a, &Wr::new(1, opcode));
        world.put(a, &Wr::new(2, opcode::SEND));
        world.doorbell(a);
        assert_eq!(world.statuses(a), [(1, LOC_QP_OP_ERR), (2, WR_FLUSH_ERR)]);
        assert_eq!((world.state(a), world.state(b)), OURS);
    }
    let ud = world.qp(qp_type::UD, US);
    world.send(ud, &Wr::new(1, opcode::RDMA_WRITE));
    assert_eq!(world.statuses(ud), [(1, LOC_QP_OP_ERR)]);
}

#[test]
fn memory_that_is_registered_and_gone() {
    let unmapped = 0x1000;
    for by_daemon in [false, true] {
        let me = |qpn_owner| if by_daemon { DAEMON } else { qpn_owner };
        // Our own memory
        let mut case = Case::new();
        let key = case.world.register(US, unmapped, 64, ALL);
        let sge = Sge { addr: unmapped, length: 8, lkey: key };
        let theirs = case.theirs.whole();
        case.world.receive(case.b, 20, &[theirs]);
        case.world.put(case.a, &Wr::new(1, opcode::SEND).sge(case.ours.sge(0, 8)).sge(sge));
        case.world.actor(me(US)).run_send_queue(case.a);
        assert_eq!(case.world.statuses(case.a), [(1, LOC_PROT_ERR)]);
        assert_eq!(case.world.poll(case.b), []);
        // The peer's, by a write and by a read
        for opcode in [opcode::RDMA_WRITE, opcode::RDMA_READ] {
            let mut case = Case::new();
            let key = case.world.register(THEM, unmapped, 64, ALL);
            let wr = Wr::new(1, opcode).sge(case.ours.whole());
            case.world.put(case.a, &wr.remote(unmapped, key));
            case.world.actor(me(US)).run_send_queue(case.a);
            assert_eq!(case.world.statuses(case.a), [(1, REM_ACCESS_ERR)]);
            assert_eq!(case.world.state(case.b), state::ERR);
        }
        // A receive's, behind two messages that go well
        let mut case = Case::new();
        case.world.move_at_once(case.b);
        let key = case.world.register(THEM, unmapped, 64, ALL);
        let (first, second) = (case.theirs.sge(0, 8), case.theirs.sge(8, 8));
        case.world.receive(case.b, 20, &[first]);
        case.world.receive(case.b, 21, &[second]);
        case.world.receive(case.b, 22, &[Sge { addr: unmapped, length: 8, lkey: key }]);
        case.world.receive(case.b, 23, &[first]);
        for wr_id in 0..4 {
            case.world.put(
                case.a,
                &Wr::new(wr_id, opcode::SEND).sge(case.ours.sge(8 * wr_id as usize, 8)),
            );
        }
        case.world.actor(me(US)).run_send_queue(case.a);
        assert_eq!(
            case.world.statuses(case.a),
            [(0, 0), (1, 0), (2, REM_OP_ERR), (3, WR_FLUSH_ERR)]
        );
        assert_eq!(
            case.world.statuses(case.b),
            [(20, 0), (21, 0), (22, LOC_PROT_ERR), (23, WR_FLUSH_ERR)]
        );
        assert_eq!(case.theirs.bytes[..16], case.ours.bytes[..16]);
        // Our own memory behind a good message: the receive stays posted.
        let mut case = Case::new();
        let key = case.world.register(US, unmapped, 64, ALL);
        let theirs = case.theirs.whole();
        case.world.receive(case.b, 20, &[theirs]);
        case.world.receive(case.b, 21, &[theirs]);
        case.world.put(case.a, &Wr::new(0, opcode::SEND).sge(case.ours.sge(0, 8)));
        case.world.put(
            case.a,
            &Wr::new(1, opcode::SEND).sge(Sge { addr: unmapped, length: 8, lkey: key }),
        );
        case.world.actor(me(US)).run_send_queue(case.a);
        assert_eq!(case.world.statuses(case.a), [(0, 0), (1, LOC_PROT_ERR)]);
        assert_eq!(
            (case.world.statuses(case.b), case.world.state(case.b)),
            (vec![(20, 0)], state::RTS)
        );
    }
}

#[test]
fn a_shared_receive_that_was_taken_in_vain_comes_back() {
    let mut case = Case::new();
    let srq = case.world.srq(7);
    set(&case.world.entry(case.b).srq, srq + 1);
    let theirs = case.theirs.whole();
    case.world.receive_shared(srq, 20, &[theirs]);
    let key = case.world.register(US, 0x1000, 64, ALL);
    case.world
        .send(case.a, &Wr::new(1, opcode::SEND).sge(Sge { addr: 0x1000, length: 8, lkey: key }));
    assert_eq!(case.world.statuses(case.a), [(1, LOC_PROT_ERR)]);
    assert_eq!(case.world.statuses(case.b), [(20, WR_FLUSH_ERR)]);
}

#[test]
fn uc_fails_at_the_responder_only_by_its_receive() {
    let world = World::new();
    let (a, b) = world.pair(qp_type::UC);
    let mut ours = world.buffer(US, pattern(1, 64));
    let mut theirs = world.buffer(THEM, vec![0; 64]);
    world.receive(b, 20, &[Sge { lkey: 0x3300, ..theirs.whole() }]);
    world.receive(b, 21, &[theirs.whole()]);
    world.put(a, &Wr::new(1, opcode::SEND).sge(ours.whole()));
    world.put(a, &Wr::new(2, opcode::SEND).sge(ours.whole()));
    world.doorbell(a);
    assert_eq!(world.statuses(a), [(1, 0), (2, 0)]);
    assert_eq!(world.statuses(b), [(20, LOC_PROT_ERR), (21, WR_FLUSH_ERR)]);
    assert_eq!((world.state(a), world.state(b)), (state::RTS, state::ERR));
}

#[test]
fn nothing_of_a_message_that_does_not_fit_is_written() {
    let mut case = Case::new();
    let (first, part) = (case.theirs.sge(0, 8), case.theirs.sge(8, 4));
    case.world.receive(case.b, 20, &[first]);
    case.world.receive(case.b, 21, &[part, Sge { lkey: 0x4400, ..part }]);
    case.world.put(case.a, &Wr::new(1, opcode::SEND).sge(case.ours.sge(0, 8)));
    case.world.put(case.a, &Wr::new(2, opcode::SEND).sge(case.ours.sge(0, 8)));
    case.world.doorbell(case.a);
    assert_eq!(case.world.statuses(case.a), [(1, 0), (2, REM_OP_ERR)]);
    assert_eq!(case.world.statuses(case.b), [(20, 0), (21, LOC_PROT_ERR)]);
    assert_eq!(case.theirs.bytes[8..], [0; 56]);
}

/// A peer is killed after it has given the receive's slot back and before the completion is there.
#[test]
fn a_receive_that_the_dead_was_completing_is_flushed() {
    let world = World::new();
    let (_, b) = world.rc();
    world.receive(b, 7, &[]);
    let actor = world.actor(US);
    let mut responder = Responder::lock(&actor, world.entry(b), b, qp_type::RC).unwrap();
    mem::forget(responder.retire(1));
    mem::forget(responder);
    assert!(world.entry(b).recv_lock.release_of(US));
    assert!(world.actor(DAEMON).enter_error(b));
    assert_eq!(world.statuses(b), [(7, WR_FLUSH_ERR)]);
    world.assert_unlocked();
}
