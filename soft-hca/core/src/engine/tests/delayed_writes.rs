//! RDMA writes that are delayed.

use std::sync::atomic::Ordering::Release;

use soft_hca_verbs::cause::Cause;

use super::fabric::*;
use crate::arena::Scope;
use crate::uapi::verbs::opcode;
use crate::uapi::verbs::status::SUCCESS;

/// Longer than anything is delayed.
const LATER_NS: u64 = 40_000_000;

/// A fabric of which somebody records so much.
fn recorded(scope: Scope) -> World {
    let world = World::new();
    world.arena.begin_recording(1, 1 << 20, scope);
    world
}

/// The daemon executes what is due after a time.
fn run_later(world: &World, qpn: u32, after_ns: u64) {
    world.env.now_ns.fetch_add(after_ns, Release);
    world.actor(DAEMON).run_send_queue(qpn);
}

/// Writes, and after it a message.
fn post(world: &World, (a, b): (u32, u32), source: &mut Buffer, target: &mut Buffer) {
    world.receive(b, 7, &[]);
    let write = Wr::new(1, opcode::RDMA_WRITE).sge(source.whole());
    world.put(a, &write.remote(target.addr(), target.key));
    world.send(a, &Wr::new(2, opcode::SEND));
}

#[test]
fn a_write_is_delayed_and_what_is_behind_it_waits() {
    let world = recorded(Scope::Buffers);
    let pair @ (a, b) = world.rc();
    let (mut source, mut target) = (world.buffer(US, vec![1; 8]), world.buffer(THEM, vec![0; 8]));
    post(&world, pair, &mut source, &mut target);
    assert_eq!((world.statuses(a), world.statuses(b)), (vec![], vec![]));
    assert_eq!(target.bytes, [0; 8]);
    let [(qpn, after)] = world.env.take_rescheduled()[..] else { panic!("once") };
    let [Cause::Held { duration }] = world.env.take_causes()[..] else { panic!("one cause") };
    assert!(qpn == a && after + 1 >= duration && (2_000_000..40_000_000).contains(&duration));
    // Another doorbell does not make it come earlier.
    run_later(&world, a, after - 1);
    assert_eq!((world.statuses(a), target.bytes[0]), (vec![], 0));
    assert_eq!(world.env.take_rescheduled(), [(a, 1)]);
    run_later(&world, a, 1);
    assert_eq!((world.statuses(a), &target.bytes[..]), (vec![], &[1; 8][..]));
    let [(_, shown)] = world.env.take_rescheduled()[..] else { panic!("once") };
    // Bytes that the receiver has written there since stay.
    target.bytes.fill(9);
    run_later(&world, a, shown);
    assert_eq!(world.statuses(a), [(1, SUCCESS), (2, SUCCESS)]);
    assert_eq!((world.statuses(b), target.bytes), (vec![(7, SUCCESS)], vec![9; 8]));
    assert_eq!(world.env.take_causes(), []);
    world.assert_unlocked();
}

#[test]
fn without_such_a_recording_nothing_is_delayed() {
    let other = recorded(Scope::All);
    let strict = recorded(Scope::Buffers);
    for (world, seed) in [(&World::new(), 0), (&other, 0), (&strict, 7)] {
        let pair @ (a, b) = world.rc();
        world.entry(a).make_strict(seed, &soft_hca_verbs::Choices::ALL);
        let mut source = world.buffer(US, vec![1; 8]);
        let mut target = world.buffer(THEM, vec![0; 8]);
        post(world, pair, &mut source, &mut target);
        // A strict program's are put off, by the daemon, for another reason.
        for _ in 0..if seed == 0 { 0 } else { 8 } {
            run_later(world, a, LATER_NS);
        }
        assert_eq!(world.statuses(a), [(1, SUCCESS), (2, SUCCESS)]);
        assert_eq!((world.statuses(b), world.env.take_causes()), (vec![(7, SUCCESS)], vec![]));
    }
}

#[test]
fn fewer_and_fewer_are_delayed() {
    let world = recorded(Scope::Buffers);
    let (a, _) = world.rc();
    let (mut source, mut target) = (world.buffer(US, vec![1; 8]), world.buffer(THEM, vec![0; 8]));
    let mut delayed = 0;
    for number in 0..400 {
        let write = Wr::new(number, opcode::RDMA_WRITE).sge(source.whole());
        world.send(a, &write.remote(target.addr(), target.key));
        if world.statuses(a).is_empty() {
            delayed += 1;
            assert!(number < 16 || number % 8 == 0 && number < 192, "{number}");
            run_later(&world, a, LATER_NS);
            run_later(&world, a, LATER_NS);
            assert_eq!(world.statuses(a), [(number, SUCCESS)]);
        }
    }
    assert_eq!(delayed, 16 + (192 - 16) / 8);
}

#[test]
fn who_leaves_rts_has_it_executed_before() {
    let world = recorded(Scope::Buffers);
    let pair @ (a, b) = world.rc();
    let (mut source, mut target) = (world.buffer(US, vec![1; 8]), world.buffer(THEM, vec![0; 8]));
    post(&world, pair, &mut source, &mut target);
    assert_eq!(world.statuses(a), []);
    world.actor(DAEMON).release_delayed(a);
    assert_eq!(world.statuses(a), [(1, SUCCESS), (2, SUCCESS)]);
    assert_eq!((world.statuses(b), target.bytes), (vec![(7, SUCCESS)], vec![1; 8]));
}
