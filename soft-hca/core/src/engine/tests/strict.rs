//! Programs that are run strictly.

use std::sync::atomic::Ordering::{Acquire, Release};

use super::fabric::*;
use crate::engine::{LINK, Route};
use crate::uapi::verbs::status::{RNR_RETRY_EXC_ERR, SUCCESS, WR_FLUSH_ERR};
use crate::uapi::verbs::{opcode, qp_type, send_flag, state};

const SEED: u64 = 11;
/// Longer than anything is put off.
const LATER_NS: u64 = 100_000_000;

fn strictly(world: &World, qpn: u32, seed: u64) {
    world.entry(qpn).make_strict(seed, &soft_hca_verbs::Choices::ALL);
}

/// The daemon executes what is due after a time. How often it was asked to come back.
fn run_later(world: &World, qpn: u32, after_ns: u64) -> usize {
    world.env.now_ns.fetch_add(after_ns, Release);
    world.actor(DAEMON).run_send_queue(qpn);
    world.env.take_rescheduled().len()
}

#[test]
fn buffers_are_read_late_and_bytes_come_in_any_order() {
    let mut seen = Vec::new();
    for seed in (1..40).chain([1]) {
        let world = World::new();
        let (a, b) = world.rc();
        strictly(&world, a, seed);
        let mut source = world.buffer(US, vec![1; 100]);
        let mut target = world.buffer(THEM, vec![0; 200]);
        world.receive(b, 7, &[target.sge(0, 50), target.sge(60, 100)]);
        world.put(a, &Wr::new(1, opcode::SEND).sge(source.whole()));
        world.actor(US).strict_doorbell(a).unwrap();
        assert_eq!(world.env.take_rescheduled(), [(a, 0)]);
        assert_eq!(target.bytes, [0; 200]);
        assert_eq!(run_later(&world, a, 0), 1);
        assert_eq!((world.statuses(a), world.statuses(b)), (vec![], vec![]));
        let early = [&target.bytes[..50], &target.bytes[60..110]].concat();
        assert!(early.iter().all(|byte| [1, 0xa5].contains(byte)), "{early:?}");
        assert!(target.bytes[110..] == [0; 90], "what the message does not fill stays");
        seen.push(early);
        source.bytes.fill(2);
        // Another doorbell does not make it come earlier.
        assert_eq!(run_later(&world, a, 0), 1);
        run_later(&world, a, LATER_NS);
        assert_eq!(
            (world.statuses(a), world.statuses(b)),
            (vec![(1, SUCCESS)], vec![(7, SUCCESS)])
        );
        assert!([&target.bytes[..50], &target.bytes[60..110]].concat() == [2; 100]);
        world.assert_unlocked();
    }
    let last_first = |early: &&Vec<u8>| early[0] == 0xa5 && early[99] == 1;
    assert!(seen.iter().any(|early| last_first(&early)), "{seen:?}");
    assert!(seen.iter().any(|early| early[..] == [1; 100]), "{seen:?}");
    assert_eq!(seen.first(), seen.last(), "the same seed");
}

#[test]
fn writes_and_reads_come_in_any_order_too() {
    for kind in [opcode::RDMA_WRITE, opcode::RDMA_READ] {
        let (mut early, mut seed) = (0, 0);
        while early == 0 {
            seed += 1;
            assert!(seed < 1000, "all bytes come at once");
            let world = World::new();
            let (a, b) = world.rc();
            strictly(&world, a, seed);
            let mut ours = world.buffer(US, vec![1; 100]);
            let mut theirs = world.buffer(THEM, vec![2; 100]);
            let wr = Wr::new(1, kind).sge(ours.whole()).remote(theirs.addr(), theirs.key);
            world.put(a, &wr);
            run_later(&world, a, 0);
            assert_eq!(world.statuses(a), []);
            let (to, from) = if kind == opcode::RDMA_READ { (&ours, 2) } else { (&theirs, 1) };
            early = to.bytes.iter().filter(|byte| **byte == from).count();
            run_later(&world, a, LATER_NS);
            assert_eq!(world.statuses(a), [(1, SUCCESS)]);
            // A write may be late.
            run_later(&world, a, LATER_NS);
            assert_eq!(if kind == opcode::RDMA_READ { &ours } else { &theirs }.bytes, [from; 100]);
            assert_eq!(world.statuses(b), []);
        }
    }
}

/// Whole packets are there of a write that ends in the middle, at either end, and none without those before.
#[test]
fn a_write_that_is_cut_off_has_written_whole_packets() {
    const MTU: usize = 1024;
    let mut partial = 0;
    for (seed, ends_peer) in SEEDS.flat_map(|seed| [(seed, false), (seed, true)]) {
        let world = World::new();
        let (a, b) = world.rc();
        strictly(&world, a, seed);
        world.entry(a).path_mtu.store(3, Release);
        let mut ours = world.buffer(US, vec![1; 8 * MTU + 100]);
        let mut theirs = world.buffer(THEM, vec![0; 8 * MTU + 100]);
        let wr = Wr::new(1, opcode::RDMA_WRITE).sge(ours.whole());
        world.put(a, &wr.remote(theirs.addr(), theirs.key));
        run_later(&world, a, 0);
        let begun = theirs.bytes.contains(&1);
        let ends = if ends_peer { b } else { a };
        world.actor(DAEMON).land_writes(Some(ends));
        let written = theirs.bytes.iter().take_while(|byte| **byte == 1).count();
        assert!(theirs.bytes[written..].iter().all(|byte| *byte == 0), "seed {seed}");
        assert!(written.is_multiple_of(MTU) || written == 8 * MTU + 100, "seed {seed}: {written}");
        assert_eq!(begun, written > 0);
        partial += usize::from(begun && written < 8 * MTU);
    }
    assert!(partial > 0);
}

/// Seeds by which something may happen.
const SEEDS: std::ops::Range<u64> = 1..200;

/// A write or a read is its program's memory at the other end: what the program writes to a word that has come stays, and
/// a word comes as a whole.
#[test]
fn no_byte_of_an_operation_comes_twice_and_no_word_in_halves() {
    let mut kept = 0;
    for (seed, kind) in
        SEEDS.flat_map(|seed| [(seed, opcode::RDMA_WRITE), (seed, opcode::RDMA_READ)])
    {
        let world = World::new();
        let (a, _) = world.rc();
        strictly(&world, a, seed);
        let [mut ours, mut theirs] = [US, THEM].map(|proc| world.buffer(proc, vec![0; 120]));
        let is_read = kind == opcode::RDMA_READ;
        if is_read { &mut theirs } else { &mut ours }.bytes.fill(1);
        let wr = Wr::new(1, kind).sge(ours.sge(3, 100)).remote(theirs.addr() + 5, theirs.key);
        world.put(a, &wr);
        run_later(&world, a, 0);
        let (to, first) = if is_read { (&mut ours, 3) } else { (&mut theirs, 5) };
        let begin = to.addr() as usize;
        let has_come: Vec<bool> = to.bytes.iter().map(|byte| *byte == 1).collect();
        for (at, has_come) in (first..first + 100).zip(&has_come[first..first + 100]) {
            let is_same_word = at > first && (begin + at) % 8 != 0;
            assert!(!is_same_word || *has_come == (at > first && to.bytes[at - 1] == 2), "{at}");
            if *has_come {
                to.bytes[at] = 2;
            }
        }
        run_later(&world, a, LATER_NS);
        run_later(&world, a, LATER_NS);
        assert_eq!(world.statuses(a), [(1, SUCCESS)]);
        let to = if is_read { &ours } else { &theirs };
        let expected = |at: usize| if has_come[at] { 2 } else { 1 };
        assert!((first..first + 100).all(|at| to.bytes[at] == expected(at)), "seed {seed}");
        kept += has_come.iter().filter(|has_come| **has_come).count();
    }
    assert!(kept > 0);
}

/// Requests behind a read without a fence may be read, and a write may come to the peer, before the read is answered.
#[test]
fn reads_are_overtaken_unless_there_is_a_fence() {
    let mut seen = [false; 2];
    for (seed, is_fenced) in SEEDS.flat_map(|seed| [(seed, true), (seed, false)]) {
        let world = World::new();
        let (a, b) = world.rc();
        strictly(&world, a, seed);
        let mut ours = world.buffer(US, vec![0; 8]);
        let mut theirs = world.buffer(THEM, [[1; 8], [0; 8], [0; 8]].concat());
        world.receive(b, 7, &[theirs.sge(16, 8)]);
        let (addr, key) = (theirs.addr(), theirs.key);
        let flags = if is_fenced { send_flag::FENCE } else { 0 } | send_flag::SIGNALED;
        world.put(a, &Wr::new(1, opcode::RDMA_READ).sge(ours.whole()).remote(addr, key));
        let back = Wr::new(2, opcode::RDMA_WRITE).sge(ours.whole()).remote(addr, key);
        world.put(a, &back.flags(flags));
        let send = Wr::new(3, opcode::SEND).sge(ours.whole());
        world.put(a, &send);
        for _ in 0..8 {
            run_later(&world, a, LATER_NS);
        }
        assert_eq!(world.statuses(a), [1, 2, 3].map(|number| (number, SUCCESS)));
        assert_eq!(world.statuses(b), [(7, SUCCESS)]);
        // The write has put back what was there before the read, or what the read had brought.
        let is_old = theirs.bytes[..8] == [0; 8];
        assert!(!(is_old && is_fenced), "seed {seed}");
        seen[0] |= is_old;
        // It was there before the read: the read has brought what it has put.
        seen[1] |= ours.bytes == [0; 8];
        world.assert_unlocked();
    }
    assert_eq!(seen, [true; 2]);
}

/// Until a write is in the memory a program may have its completion; it is there before anything of the queue pair's
/// behind it, when it is due, and when somebody gives memory up.
#[test]
fn writes_may_be_late_until_something_comes_behind_them() {
    let (mut late, mut late_on) = (0, 0);
    for (seed, kind) in SEEDS.flat_map(|seed| [0, 1, 2].map(|kind| (seed, kind))) {
        let world = World::new();
        let (a, b) = world.rc();
        strictly(&world, a, seed);
        let mut ours = world.buffer(US, vec![1; 8]);
        let mut theirs = world.buffer(THEM, vec![0; 8]);
        let write = Wr::new(1, opcode::RDMA_WRITE).sge(ours.whole());
        world.put(a, &write.remote(theirs.addr(), theirs.key));
        run_later(&world, a, 0);
        run_later(&world, a, LATER_NS);
        assert_eq!(world.statuses(a), [(1, SUCCESS)]);
        late += u32::from(theirs.bytes == [0; 8]);
        // The program may use its buffer again.
        ours.bytes.fill(2);
        match kind {
            0 => drop(run_later(&world, a, LATER_NS)),
            1 => world.actor(DAEMON).land_writes(None),
            _ => {
                world.receive(b, 7, &[]);
                world.put(a, &Wr::new(2, opcode::SEND));
                run_later(&world, a, 0);
                late_on += u32::from(theirs.bytes == [0; 8]);
                // Longer than a send is put off, and not as long as a write may be on its way.
                run_later(&world, a, 10_000_000);
                assert_eq!(world.statuses(b), [(7, SUCCESS)]);
            }
        }
        assert_eq!(theirs.bytes, [1; 8], "seed {seed}");
    }
    assert!(late > 0 && late_on > 0);
}

/// Of a queue pair that ends nothing is on its way any more.
#[test]
fn another_life_of_a_queue_pair_begins_with_nothing() {
    for seed in SEEDS {
        let world = World::new();
        let (a, _) = world.rc();
        strictly(&world, a, seed);
        let mut ours = world.buffer(US, vec![1; 64]);
        let mut theirs = world.buffer(THEM, vec![0; 64]);
        let write = Wr::new(1, opcode::RDMA_WRITE).sge(ours.whole());
        let write = write.remote(theirs.addr(), theirs.key);
        world.put(a, &write);
        run_later(&world, a, 0);
        world.actor(DAEMON).land_writes(Some(a));
        theirs.bytes.fill(0);
        run_later(&world, a, LATER_NS);
        assert_eq!((world.statuses(a), &theirs.bytes[..]), (vec![(1, SUCCESS)], &[1; 64][..]));
    }
}

#[test]
fn without_a_receive_nothing_is_put_off() {
    let world = World::new();
    let (a, b) = world.rc();
    strictly(&world, a, SEED);
    set(&world.entry(a).rnr_retry, 0);
    world.put(a, &Wr::new(1, opcode::SEND));
    run_later(&world, a, 0);
    assert_eq!(world.statuses(a), [(1, RNR_RETRY_EXC_ERR)]);
    assert_eq!(world.statuses(b), []);
}

#[test]
fn some_datagrams_are_lost() {
    let world = World::new();
    let (a, b) = (world.qp(qp_type::UD, US), world.qp(qp_type::UD, THEM));
    strictly(&world, a, SEED);
    let ah = super::datagrams::local_handle(&world);
    let mut target = world.buffer(THEM, vec![0; 40]);
    let (mut has_receive, mut received) = (false, 0);
    for number in 0..2000 {
        if !has_receive {
            world.receive(b, 20, &[target.whole()]);
        }
        let wr = Wr::new(number, opcode::SEND).word(24, b).word(28, 0x1111).word(36, ah);
        world.put(a, &wr);
        run_later(&world, a, 0);
        run_later(&world, a, LATER_NS);
        assert_eq!(world.statuses(a), [(number, SUCCESS)]);
        let taken = world.statuses(b).len();
        received += taken;
        has_receive = taken == 0;
    }
    assert!((1900..2000).contains(&received), "{received}");
}

/// The link's thread, which sends what the daemon has put off, does not put it off once more.
#[test]
fn a_datagram_to_another_host_is_put_off_once() {
    let world = World::new();
    let a = world.qp(qp_type::UD, US);
    strictly(&world, a, SEED);
    let ah = super::datagrams::local_handle(&world);
    Route::Remote.store(&world.arena.ahs[ah as usize - 1].route);
    let mut source = world.buffer(US, vec![1; 8]);
    let wr = Wr::new(1, opcode::SEND).word(24, 0xff_ffff).word(28, 0x1111).word(36, ah);
    world.put(a, &wr.sge(source.whole()));
    assert_eq!(run_later(&world, a, 0), 1);
    assert_eq!(*world.env.link_doorbells.lock().unwrap(), []);
    run_later(&world, a, LATER_NS);
    assert_eq!(*world.env.link_doorbells.lock().unwrap(), [a]);
    world.actor(LINK).run_send_queue(a);
    assert_eq!(world.statuses(a), [(1, SUCCESS)]);
    assert_eq!(*world.env.away.lock().unwrap(), [[1; 8]]);
}

#[test]
fn a_completion_queue_holds_what_was_requested() {
    let world = World::new();
    let (a, b) = world.rc();
    let cq = world.entry(a).send_cq.load(Acquire);
    set(&world.arena.cqs[cq as usize].exact, 5);
    let mut target = world.buffer(THEM, vec![0; 8]);
    for number in 0..6 {
        let wr = Wr::new(number, opcode::RDMA_WRITE).inline(&[1; 8]);
        world.send(a, &wr.remote(target.addr(), target.key));
    }
    let raised = world.env.take_raised();
    assert!(raised.contains(&crate::engine::Async::CqOverflow(cq)), "{raised:?}");
    assert_eq!(world.statuses(a).len(), 5);
    assert_eq!(world.statuses(b), []);
}

/// Of a request that has failed a strict program learns no more than is promised, and others nothing that is wrong.
#[test]
fn fields_of_failed_completions_that_are_not_valid_hold_anything() {
    let mut kinds = std::collections::BTreeSet::new();
    for seed in (1..20).chain([0]) {
        let world = World::new();
        let (a, _) = world.rc();
        strictly(&world, a, seed);
        world.entry(a).state.store(state::ERR, Release);
        world.put(a, &Wr::new(5, opcode::RDMA_WRITE));
        world.actor(DAEMON).run_send_queue(a);
        let [cqe] = world.poll(a).try_into().unwrap();
        assert_eq!((cqe.wr_id, cqe.status, cqe.qp_num), (5, WR_FLUSH_ERR, a));
        assert_eq!(cqe.byte_len == 0 && cqe.imm == 0 && cqe.src_qp == 0, seed == 0);
        if seed != 0 {
            kinds.insert(cqe.opcode);
        }
    }
    assert!(kinds.len() > 2, "{kinds:?}");
}
