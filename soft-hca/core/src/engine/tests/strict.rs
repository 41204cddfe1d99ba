//! Programs that are run strictly.

use std::sync::atomic::Ordering::{Acquire, Release};

use super::fabric::*;
use crate::engine::{LINK, Route};
use crate::uapi::verbs::status::{RNR_RETRY_EXC_ERR, SUCCESS};
use crate::uapi::verbs::{opcode, qp_type};

const SEED: u64 = 11;
/// Longer than anything is put off.
const LATER_NS: u64 = 100_000_000;

fn strictly(world: &World, qpn: u32, seed: u64) {
    world.entry(qpn).strict_seed.store(seed, Release);
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
        // Who rings once more does not make it come earlier.
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
            assert_eq!(if kind == opcode::RDMA_READ { &ours } else { &theirs }.bytes, [from; 100]);
            assert_eq!(world.statuses(b), []);
        }
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
