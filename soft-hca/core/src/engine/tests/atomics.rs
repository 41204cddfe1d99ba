//! Compare and swap, fetch and add, atomic write.

use std::sync::atomic::AtomicU32;
use std::thread;

use super::fabric::*;
use crate::uapi::rxe::Sge;
use crate::uapi::verbs::{
    access, opcode, qp_type, state,
    status::{
        LOC_LEN_ERR, LOC_PROT_ERR, LOC_QP_OP_ERR, REM_ACCESS_ERR, REM_INV_REQ_ERR, WR_FLUSH_ERR,
    },
    wc_opcode,
};

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Eight bytes at an address that is a multiple of eight, in a buffer of more than that.
fn aligned(buffer: &mut Buffer) -> (usize, u64) {
    let at = buffer.addr().next_multiple_of(8) - buffer.addr();
    (at as usize, buffer.addr() + at)
}

#[test]
fn old_values_come_back() {
    for me in [US, DAEMON] {
        let world = World::new();
        let (a, b) = world.rc();
        let mut ours = world.buffer(US, vec![0; 16]);
        let mut theirs = world.buffer(THEM, vec![0; 32]);
        let (at, addr) = aligned(&mut theirs);
        theirs.bytes[at..at + 8].copy_from_slice(&100u64.to_ne_bytes());
        let key = theirs.key;
        // opcode, compare or add, swap, old value, new value
        for (opcode, compare_add, swap, old, new) in [
            (opcode::ATOMIC_FETCH_AND_ADD, 5, 0, 100, 105),
            (opcode::ATOMIC_CMP_AND_SWP, 100, 7, 105, 105),
            (opcode::ATOMIC_CMP_AND_SWP, 105, 7, 105, 7),
            (opcode::ATOMIC_FETCH_AND_ADD, u64::MAX, 0, 7, 6),
        ] {
            let sges = [ours.sge(0, 3), ours.sge(8, 8)];
            let wr = Wr::new(1, opcode).sge(sges[0]).sge(sges[1]);
            world.put(a, &wr.atomic(addr, key, compare_add, swap));
            world.actor(me).run_send_queue(a);
            let [cqe] = world.poll(a).try_into().unwrap();
            let expected = match opcode {
                opcode::ATOMIC_CMP_AND_SWP => wc_opcode::COMP_SWAP,
                _ => wc_opcode::FETCH_ADD,
            };
            assert_eq!((cqe.status, cqe.opcode, cqe.byte_len), (0, expected, 8));
            let mut result = ours.bytes[..3].to_vec();
            result.extend(&ours.bytes[8..13]);
            assert_eq!(word(&result, 0), old);
            assert_eq!(word(&theirs.bytes, at), new);
        }
        assert_eq!(ours.bytes[13..], [0; 3]);
        assert_eq!(world.poll(b), []);
    }
}

#[test]
fn an_atomic_write_needs_no_memory_of_ours() {
    let world = World::new();
    let (a, _) = world.rc();
    let mut theirs = world.buffer(THEM, vec![0; 32]);
    let (at, addr) = aligned(&mut theirs);
    let wr = Wr::new(1, opcode::ATOMIC_WRITE).inline(&0xfeed_u64.to_ne_bytes());
    world.send(a, &wr.remote(addr, theirs.key));
    let [cqe] = world.poll(a).try_into().unwrap();
    assert_eq!((cqe.status, cqe.opcode, cqe.byte_len), (0, wc_opcode::ATOMIC_WRITE, 8));
    assert_eq!(word(&theirs.bytes, at), 0xfeed);
}

#[test]
fn errors() {
    /// Changes something about the fabric and the request.
    type Break = fn(&World, u32, u32, &mut Buffer, Wr) -> Wr;
    let cases: [(Break, u32, bool); 9] = [
        (|_, _, _, _, wr| wr.word(48, 0x6600), REM_ACCESS_ERR, true),
        (
            |_, _, _, theirs, wr| {
                let addr = aligned(theirs).1 + 4;
                wr.long(24, addr)
            },
            REM_INV_REQ_ERR,
            true,
        ),
        (
            |_, _, _, theirs, wr| {
                let addr = aligned(theirs).1 + 64;
                wr.long(24, addr)
            },
            REM_ACCESS_ERR,
            true,
        ),
        (
            |world, _, b, _, wr| {
                set(&world.entry(b).access, ALL & !access::REMOTE_ATOMIC);
                wr
            },
            REM_INV_REQ_ERR,
            true,
        ),
        (
            |world, _, b, _, wr| {
                set(&world.entry(b).max_dest_rd_atomic, 0);
                wr
            },
            REM_INV_REQ_ERR,
            true,
        ),
        (
            |world, _, _, theirs, wr| {
                set(&world.arena.mr(theirs.key).unwrap().access, ALL & !access::REMOTE_ATOMIC);
                wr
            },
            REM_ACCESS_ERR,
            true,
        ),
        (
            |world, a, _, _, wr| {
                set(&world.entry(a).max_rd_atomic, 0);
                wr
            },
            LOC_QP_OP_ERR,
            false,
        ),
        (
            |_, _, _, _, mut wr| {
                wr.sges[0].length = 7;
                wr
            },
            LOC_LEN_ERR,
            false,
        ),
        (
            |_, _, _, _, mut wr| {
                wr.sges[0] = Sge { lkey: 3, ..wr.sges[0] };
                wr
            },
            LOC_PROT_ERR,
            false,
        ),
    ];
    for (i, (cause, status, breaks_peer)) in cases.into_iter().enumerate() {
        for opcode in [opcode::ATOMIC_FETCH_AND_ADD, opcode::ATOMIC_CMP_AND_SWP] {
            let world = World::new();
            let (a, b) = world.rc();
            let mut ours = world.buffer(US, vec![0; 8]);
            let mut theirs = world.buffer(THEM, vec![0; 32]);
            let (_, addr) = aligned(&mut theirs);
            world.receive(b, 20, &[]);
            let wr = Wr::new(1, opcode).sge(ours.whole()).atomic(addr, theirs.key, 0, 1);
            let wr = cause(&world, a, b, &mut theirs, wr);
            world.send(a, &wr);
            assert_eq!(world.statuses(a), [(1, status)], "{i}");
            let flushed: &[_] = if breaks_peer { &[(20, WR_FLUSH_ERR)] } else { &[] };
            assert_eq!(world.statuses(b), flushed, "{i}");
            assert_eq!(world.state(b) == state::ERR, breaks_peer, "{i}");
            assert_eq!(theirs.bytes, [0; 32], "{i}");
            world.assert_unlocked();
        }
    }
}

/// Sets a field to 0, and leaves an address as it is.
fn set_to_0(field: &AtomicU32) -> u64 {
    set(field, 0);
    0
}

/// Takes a right away, and leaves an address as it is.
fn set_no(rights: &AtomicU32, right: u32) -> u64 {
    set(rights, ALL & !right);
    0
}

#[test]
fn errors_of_an_atomic_write() {
    /// Changes something about the two queue pairs and the region, or the address.
    type Break = fn(&World, [u32; 2], u32) -> u64;
    // The defect, the status, whether the peer fails, too.
    let cases: [(Break, u32, bool); 7] = [
        (
            |world, [_, b], _| set_no(&world.entry(b).access, access::REMOTE_WRITE),
            REM_INV_REQ_ERR,
            true,
        ),
        (|world, [_, b], _| set_to_0(&world.entry(b).max_dest_rd_atomic), REM_INV_REQ_ERR, true),
        (|_, _, _| 4, REM_INV_REQ_ERR, true),
        (|_, _, _| 64, REM_ACCESS_ERR, true),
        (
            |world, _, key| set_no(&world.arena.mr(key).unwrap().access, access::REMOTE_WRITE),
            REM_ACCESS_ERR,
            true,
        ),
        (|world, _, key| set_to_0(&world.arena.mr(key).unwrap().pd), REM_ACCESS_ERR, true),
        (|world, [a, _], _| set_to_0(&world.entry(a).max_rd_atomic), LOC_QP_OP_ERR, false),
    ];
    for (i, (cause, status, breaks_peer)) in cases.into_iter().enumerate() {
        let world = World::new();
        let (a, b) = world.rc();
        let mut theirs = world.buffer(THEM, vec![0; 32]);
        let (_, addr) = aligned(&mut theirs);
        let addr = addr + cause(&world, [a, b], theirs.key);
        let wr = Wr::new(1, opcode::ATOMIC_WRITE).inline(&[1; 8]).remote(addr, theirs.key);
        world.send(a, &wr);
        assert_eq!(world.statuses(a), [(1, status)], "{i}");
        assert_eq!(world.state(b) == state::ERR, breaks_peer, "{i}");
        assert_eq!(theirs.bytes, [0; 32], "{i}");
        world.assert_unlocked();
    }
}

#[test]
fn no_addition_is_lost() {
    const THREADS: usize = 4;
    const EACH: usize = 500;
    let world = World::new();
    let mut theirs = world.buffer(THEM, vec![0; 16]);
    let (at, addr) = aligned(&mut theirs);
    let key = theirs.key;
    let qps: Vec<_> = (0..THREADS).map(|_| world.rc().0).collect();
    let mut results: Vec<_> = (0..THREADS).map(|_| world.buffer(US, vec![0; 8])).collect();
    let sges: Vec<_> = results.iter_mut().map(Buffer::whole).collect();
    let (arena, copier) = (&world.arena, &world.copier);
    thread::scope(|scope| {
        for (&qpn, &sge) in qps.iter().zip(&sges) {
            scope.spawn(move || {
                let env = TestEnv::default();
                let actor = crate::engine::Actor { arena, me: US, env: &env, copier };
                let ring = arena.ring(&arena.qp(qpn).unwrap().sq).unwrap();
                for _ in 0..EACH {
                    let wr = Wr::new(1, opcode::ATOMIC_FETCH_AND_ADD).flags(0).sge(sge);
                    wr.atomic(addr, key, 3, 0).write(&ring.slot(ring.producer()));
                    ring.set_producer(ring.advance(ring.producer(), 1));
                    actor.doorbell(qpn).unwrap();
                }
            });
        }
    });
    assert_eq!(word(&theirs.bytes, at), (3 * THREADS * EACH) as u64);
    assert_eq!(world.entry(qps[0]).qp_type.load(std::sync::atomic::Ordering::Acquire), qp_type::RC);
}
