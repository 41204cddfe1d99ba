//! RC and UC: what goes well.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Acquire;

use super::fabric::*;
use crate::uapi::rxe::Cqe;
use crate::uapi::verbs::{opcode, qp_type, send_flag, status, wc_flag, wc_opcode};

#[test]
fn a_send_completes_on_both_sides() {
    let world = World::new();
    let (a, b) = world.rc();
    let mut source = world.buffer(US, pattern(1, 100));
    let mut target = world.buffer(THEM, vec![0; 200]);
    world.receive(b, 20, &[target.whole()]);
    world.send(a, &Wr::new(10, opcode::SEND).sge(source.whole()));
    let sent = Cqe { wr_id: 10, byte_len: 100, qp_num: a, ..Cqe::default() };
    let received = Cqe {
        wr_id: 20,
        opcode: wc_opcode::RECV,
        byte_len: 100,
        qp_num: b,
        wc_flags: wc_flag::GRH,
        port_num: 1,
        ..Cqe::default()
    };
    assert_eq!(world.poll(a), [sent]);
    assert_eq!(world.poll(b), [received]);
    assert_eq!(target.bytes[..100], source.bytes);
    assert_eq!(target.bytes[100..], [0; 100]);
    world.assert_unlocked();
}

#[test]
fn the_same_by_the_daemon_and_within_one_process() {
    let world = World::new();
    for (owner, other, me) in [(US, THEM, DAEMON), (US, US, US), (THEM, US, US)] {
        let (a, b) = (world.qp(qp_type::RC, owner), world.qp(qp_type::RC, other));
        world.connect(a, b);
        let mut source = world.buffer(owner, pattern(3, 300_000));
        let mut target = world.buffer(other, vec![0; 300_000]);
        world.receive(b, 1, &[target.sge(0, 7), target.sge(7, 299_993)]);
        world.receive(b, 2, &[target.sge(0, 5)]);
        world.put(a, &Wr::new(1, opcode::SEND).sge(source.whole()));
        world.put(a, &Wr::new(2, opcode::SEND).inline(b"hello"));
        world.actor(me).run_send_queue(a);
        assert_eq!(world.statuses(a), [(1, 0), (2, 0)]);
        assert_eq!(world.statuses(b), [(1, 0), (2, 0)]);
        assert_eq!(target.bytes[..5], *b"hello");
        assert!(target.bytes[5..] == source.bytes[5..]);
    }
}

#[test]
fn a_queue_pair_may_talk_to_itself() {
    let world = World::new();
    let a = world.qp(qp_type::RC, US);
    world.connect(a, a);
    set(&world.entry(a).rq_psn, 5);
    set(&world.entry(a).sq_psn, 5);
    let mut memory = world.buffer(US, pattern(1, 64));
    world.receive(a, 2, &[memory.sge(32, 32)]);
    world.send(a, &Wr::new(1, opcode::SEND).sge(memory.sge(0, 32)));
    assert_eq!(world.statuses(a), [(2, 0), (1, 0)]);
    assert_eq!(memory.bytes[..32], memory.bytes[32..]);
}

#[test]
fn immediate_data_and_solicitation() {
    let world = World::new();
    let (a, b) = world.rc();
    let mut target = world.buffer(THEM, vec![0; 8]);
    let cq = world.entry(b).recv_cq.load(Acquire);
    for opcode in [opcode::SEND_WITH_IMM, opcode::RDMA_WRITE_WITH_IMM] {
        for flags in [0, send_flag::SOLICITED] {
            world.actor(THEM).arm(cq, true);
            world.receive(b, 5, &[]);
            let wr = Wr::new(1, opcode).flags(flags).imm(0xdead_beef);
            world.send(a, &wr.remote(target.addr(), target.key));
            let woken = !world.env.take_wakes().is_empty();
            assert_eq!(woken, flags != 0);
            assert_eq!(world.poll(a), [], "not signalled");
            let [cqe] = world.poll(b).try_into().unwrap();
            let expected = match opcode {
                opcode::SEND_WITH_IMM => wc_opcode::RECV,
                _ => wc_opcode::RECV_RDMA_WITH_IMM,
            };
            assert_eq!((cqe.opcode, cqe.imm), (expected, 0xdead_beef));
            assert_eq!(cqe.wc_flags, wc_flag::GRH | wc_flag::WITH_IMM);
            set(&world.arena.cqs[cq as usize].armed, 0);
        }
    }
    // The sender's own completion tells of the immediate, too.
    world.receive(b, 5, &[]);
    world.send(a, &Wr::new(1, opcode::SEND_WITH_IMM));
    assert_eq!(world.poll(a)[0].wc_flags, wc_flag::WITH_IMM);
}

#[test]
fn inline_data_of_both_kinds() {
    let world = World::new();
    let (a, b) = world.rc();
    let mut target = world.buffer(THEM, vec![0; 304]);
    let bytes = pattern(9, 304);
    for with_flag in [true, false] {
        target.bytes.fill(0);
        let mut wr = Wr::new(1, opcode::RDMA_WRITE).inline(&bytes);
        if !with_flag {
            wr.flags = send_flag::SIGNALED;
        }
        world.send(a, &wr.remote(target.addr(), target.key));
        assert_eq!(world.poll(a)[0].byte_len, 304);
        assert_eq!(target.bytes, bytes);
    }
    assert_eq!(world.poll(b), []);
}

#[test]
fn messages_without_bytes_need_no_key() {
    let world = World::new();
    let (a, b) = world.rc();
    for opcode in [opcode::RDMA_WRITE, opcode::RDMA_READ] {
        world.send(a, &Wr::new(1, opcode).remote(1, 0));
        assert_eq!(world.statuses(a), [(1, 0)]);
    }
    world.receive(b, 2, &[]);
    world.send(a, &Wr::new(1, opcode::SEND));
    assert_eq!((world.statuses(a), world.statuses(b)), (vec![(1, 0)], vec![(2, 0)]));
}

#[test]
fn read_and_write() {
    let world = World::new();
    let (a, b) = world.rc();
    let mut ours = world.buffer(US, pattern(1, 5000));
    let mut theirs = world.buffer(THEM, vec![0; 5000]);
    let (first, rest) = (ours.sge(0, 1), ours.sge(1, 4000));
    world.send(
        a,
        &Wr::new(1, opcode::RDMA_WRITE).sge(first).sge(rest).remote(theirs.addr() + 9, theirs.key),
    );
    let cqe = world.poll(a)[0];
    assert_eq!((cqe.opcode, cqe.byte_len), (wc_opcode::RDMA_WRITE, 4001));
    assert_eq!(theirs.bytes[9..4010], ours.bytes[..4001]);
    ours.bytes.fill(0);
    let sges = [ours.sge(100, 50), ours.sge(3, 0), ours.sge(200, 25)];
    let wr = sges.into_iter().fold(Wr::new(2, opcode::RDMA_READ), Wr::sge);
    world.send(a, &wr.remote(theirs.addr() + 10, theirs.key));
    let cqe = world.poll(a)[0];
    assert_eq!((cqe.opcode, cqe.byte_len), (wc_opcode::RDMA_READ, 75));
    assert_eq!(ours.bytes[100..150], theirs.bytes[10..60]);
    assert_eq!(ours.bytes[200..225], theirs.bytes[60..85]);
    assert_eq!(ours.bytes[150..200], [0; 50]);
    assert_eq!(world.poll(b), [], "the responder learns nothing");
}

#[test]
fn a_write_with_immediate_ignores_the_receive() {
    let world = World::new();
    let (a, b) = world.rc();
    let mut ours = world.buffer(US, pattern(1, 50));
    let mut theirs = world.buffer(THEM, vec![0; 50]);
    let nonsense = crate::uapi::rxe::Sge { addr: 1, length: 3, lkey: 99 };
    world.receive(b, 4, &[nonsense]);
    let wr = Wr::new(1, opcode::RDMA_WRITE_WITH_IMM).imm(3).sge(ours.whole());
    world.send(a, &wr.remote(theirs.addr(), theirs.key));
    let cqe = world.poll(b)[0];
    assert_eq!((cqe.wr_id, cqe.byte_len, cqe.status), (4, 50, status::SUCCESS));
    assert_eq!(theirs.bytes, ours.bytes);
}

#[test]
fn posted_lists_arrive_in_order() {
    let world = World::new();
    let (a, b) = world.rc();
    let mut source = world.buffer(US, pattern(1, 60 * 200));
    let mut target = world.buffer(THEM, vec![0; 60 * 200]);
    // The layout of both sides differs, so that the lists get long.
    let pieces = |i: usize| 1 + i % 4;
    for i in 0..60 {
        let (first, second) = (target.sge(i * 200, 100 + i), target.sge(i * 200 + 150, 50));
        world.receive(b, 1000 + i as u64, &[first, second]);
        let count = pieces(i);
        let wr = (0..count).fold(Wr::new(i as u64, opcode::SEND), |wr, k| {
            wr.sge(source.sge(i * 200 + k * 40, 30))
        });
        world.put(a, &wr.flags(if i % 3 == 0 { send_flag::SIGNALED } else { 0 }));
    }
    world.doorbell(a);
    let received = world.poll(b);
    assert_eq!(received.len(), 60);
    for (i, cqe) in received.iter().enumerate() {
        assert_eq!((cqe.wr_id, cqe.byte_len), (1000 + i as u64, 30 * pieces(i) as u32));
        let sent: Vec<u8> =
            (0..pieces(i)).flat_map(|k| source.bytes[i * 200 + k * 40..][..30].to_vec()).collect();
        let first = sent.len().min(100 + i);
        assert_eq!(target.bytes[i * 200..][..first], sent[..first]);
        assert_eq!(target.bytes[i * 200 + 150..][..sent.len() - first], sent[first..]);
    }
    let ids: Vec<u64> = world.poll(a).iter().map(|cqe| cqe.wr_id).collect();
    assert_eq!(ids, (0..60).step_by(3).collect::<Vec<_>>());
    // All slots are free again, and the numbers of packets agree.
    let ring = world.arena.ring(&world.entry(a).sq).unwrap();
    assert_eq!(ring.unread(), 0);
    let load = |field: &AtomicU32| field.load(Acquire);
    assert_eq!(load(&world.entry(a).sq_psn), load(&world.entry(b).rq_psn));
    assert_eq!(load(&world.entry(a).sq_psn), 65);
}

#[test]
fn kinds_may_be_mixed_in_a_list() {
    let world = World::new();
    let (a, b) = world.rc();
    let mut ours = world.buffer(US, pattern(1, 64));
    let mut theirs = world.buffer(THEM, vec![0; 64]);
    let (addr, key) = (theirs.addr(), theirs.key);
    world.receive(b, 50, &[theirs.sge(32, 32)]);
    // Bytes are written, read back and sent.
    let write = Wr::new(1, opcode::RDMA_WRITE).sge(ours.sge(0, 16)).remote(addr, key);
    let read = Wr::new(2, opcode::RDMA_READ).sge(ours.sge(16, 16)).remote(addr, key);
    let send = Wr::new(3, opcode::SEND).sge(ours.sge(16, 16));
    let add = Wr::new(4, opcode::ATOMIC_FETCH_AND_ADD).sge(ours.sge(32, 8));
    for wr in [write, read, send, add.atomic(addr + 48, key, 7, 0)] {
        world.put(a, &wr);
    }
    world.doorbell(a);
    assert_eq!(world.statuses(a), [(1, 0), (2, 0), (3, 0), (4, 0)]);
    assert_eq!(world.statuses(b), [(50, 0)]);
    assert_eq!(theirs.bytes[32..48], pattern(1, 64)[..16]);
    assert_eq!(theirs.bytes[48], 7);
}

#[test]
fn the_sender_of_uc_never_hears_of_a_loss() {
    let world = World::new();
    let (a, b) = world.pair(qp_type::UC);
    let mut source = world.buffer(US, pattern(1, 10));
    let mut target = world.buffer(THEM, vec![0; 30]);
    let (addr, key) = (target.addr(), target.key);
    let write = |wr_id, key| Wr::new(wr_id, opcode::RDMA_WRITE).remote(addr, key);
    world.put(a, &Wr::new(1, opcode::SEND).sge(source.whole()));
    world.put(a, &write(2, 0xbad00).sge(source.whole()));
    world.put(a, &write(3, key).sge(source.whole()));
    world.put(a, &write(4, 0xbad00).sge(source.whole()));
    world.doorbell(a);
    assert_eq!(world.statuses(a), [(1, 0), (2, 0), (3, 0), (4, 0)]);
    assert_eq!(target.bytes[..10], source.bytes);
    assert_eq!(world.poll(b), []);
    world.receive(b, 9, &[target.sge(20, 10)]);
    world.send(a, &Wr::new(5, opcode::SEND_WITH_IMM).imm(1).sge(source.whole()));
    assert_eq!(world.statuses(b), [(9, 0)]);
    assert_eq!(target.bytes[20..], source.bytes);
    // Nobody there at all
    set(&world.entry(a).dest_qpn, 0x999);
    world.put(a, &Wr::new(6, opcode::SEND).sge(source.whole()));
    world.put(a, &Wr::new(7, opcode::SEND).sge(source.whole()));
    world.doorbell(a);
    assert_eq!(world.statuses(a), [(5, 0), (6, 0), (7, 0)]);
}

#[test]
fn a_list_may_pass_bytes_on_within_a_process() {
    for me in [US, DAEMON] {
        let world = World::new();
        let (a, b) = (world.qp(qp_type::RC, US), world.qp(qp_type::RC, US));
        world.connect(a, b);
        let mut memory = world.buffer(US, pattern(1, 40));
        let (addr, key) = (memory.addr(), memory.key);
        let write =
            |wr_id, sge, to| Wr::new(wr_id, opcode::RDMA_WRITE).sge(sge).remote(addr + to, key);
        let (first, second) = (memory.sge(0, 10), memory.sge(10, 10));
        world.put(a, &write(1, first, 10));
        world.put(a, &write(2, second, 20));
        world.put(a, &write(3, second, 30));
        world.actor(me).run_send_queue(a);
        assert_eq!(world.statuses(a), [(1, 0), (2, 0), (3, 0)]);
        assert_eq!(memory.bytes, pattern(1, 10).repeat(4));
    }
}
