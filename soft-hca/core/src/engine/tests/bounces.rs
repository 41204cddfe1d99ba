//! Memory that nobody reaches but its owner.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread;

use super::fabric::*;
use crate::engine::Copier;
use crate::engine::bounce::{Job, SlotGuard};
use crate::engine::bounce_buffer::{self, Way};
use crate::engine::helper::Helper;
use crate::engine::process_memory::{self, CopyError};
use crate::engine::segments::{Fault, Memory, Region, Segment};
use crate::uapi::verbs::access;

/// A process that takes part in nothing.
const OTHER: usize = 7;

/// Nobody has such an id.
const NO_PID: u32 = i32::MAX as u32;

/// A fabric in which a process cannot be reached, and its helper.
fn closed_world() -> (World, Helper) {
    let world = World::new();
    close(&world, THEM);
    let helper = Helper::start(Arc::clone(&world.arena), THEM, Box::new(|_| false)).unwrap();
    (world, helper)
}

fn close(world: &World, proc: usize) {
    world.announce(proc, NO_PID);
    world.arena.procs[proc].closed.store(1, Release);
}

/// Stretches of which nobody says where they are registered.
fn unnamed(segments: &[Segment]) -> Vec<(Segment, Region)> {
    segments.iter().map(|segment| (*segment, Region::NONE)).collect()
}

fn job(way: Way, proc: usize, segments: &[Segment]) -> Job {
    Job { way, proc, offset: 0, segments: unnamed(segments) }
}

/// Their helper takes a request, and does nothing yet.
fn claim(world: &World) -> Job {
    loop {
        if let Some(job) = world.arena.bounce_slots[0].claim(THEM) {
            return job;
        }
        thread::yield_now();
    }
}

#[test]
fn every_kind_of_request_works() {
    for me in [US, DAEMON] {
        let (world, _helper) = closed_world();
        let (a, b) = world.rc();
        const LENGTH: usize = 700_000;
        let mut ours = world.buffer(US, pattern(1, LENGTH));
        let mut theirs = world.buffer(THEM, vec![0; LENGTH]);
        let (addr, key) = (theirs.addr(), theirs.key);
        let receive = [theirs.sge(0, 300_000), theirs.sge(300_000, 400_000)];
        world.receive(b, 20, &receive);
        let expected = every_kind(&world, me, a, &mut ours, addr, key);
        assert_eq!(world.statuses(b), [(20, 0)]);
        assert!(theirs.bytes == expected);
        world.assert_unlocked();
    }
}

#[test]
fn a_closed_process_reaches_others_by_the_daemon() {
    let world = World::new();
    world.announce(DAEMON, std::process::id());
    let _helper = Helper::start(Arc::clone(&world.arena), DAEMON, Box::new(|_| false)).unwrap();
    let mut theirs = world.buffer(THEM, vec![0; 8]);
    let bytes = *b"12345678";
    let taken = SlotGuard::acquire(&world.arena, US).unwrap();
    bounce_buffer::transfer(
        &world.arena,
        Way::In,
        taken.index,
        0,
        &[process_memory::ours(&bytes)],
        8,
    )
    .unwrap();
    let there = Segment { addr: theirs.addr(), length: 8 };
    taken.ask(US, job(Way::Out, THEM, &[there])).unwrap();
    assert_eq!(theirs.bytes, bytes);
}

#[test]
fn only_what_is_registered_is_touched() {
    let (world, _helper) = closed_world();
    let mut bytes = vec![1u8; 3000];
    let addr = process_memory::ours_mut(&mut bytes).addr;
    let readable = world.register(THEM, addr, 1000, 0);
    world.register(THEM, addr + 1000, 1000, access::LOCAL_WRITE);
    world.register(US, addr + 2000, 1000, access::LOCAL_WRITE);
    let ask = |way, start: u64, length| {
        let taken = SlotGuard::acquire(&world.arena, US).unwrap();
        taken.ask(US, job(way, THEM, &[Segment { addr: addr + start, length }]))
    };
    assert_eq!(ask(Way::In, 0, 2000), Ok(()), "regions that follow each other");
    assert_eq!(ask(Way::Out, 1000, 1000), Ok(()));
    let refused = Err(CopyError::Fault);
    assert_eq!(ask(Way::Out, 999, 2), refused, "not to be written");
    assert_eq!(ask(Way::In, 1999, 2), refused, "another process's");
    assert_eq!(ask(Way::In, u64::MAX - addr, 2), refused);
    assert_eq!(ask(Way::In, 0, u64::MAX), refused);
    world.arena.mr(readable).unwrap().live.store(0, Release);
    assert_eq!(ask(Way::In, 0, 1), refused, "no longer registered");
    // More than a bounce buffer has, though all of it is registered.
    let taken = SlotGuard::acquire(&world.arena, US).unwrap();
    let there = Segment { addr: addr + 1000, length: 1000 };
    assert_eq!(taken.ask(US, job(Way::Out, THEM, &[there; 64])), Ok(()));
    let far = Job { offset: 256 << 10, ..job(Way::Out, THEM, &[there]) };
    assert_eq!(taken.ask(US, far), refused);
    assert_eq!(bytes[..1000], [1; 1000]);
    assert_eq!(bytes[2000..], [1; 1000]);
}

#[test]
fn bad_addresses_are_faults() {
    let world = World::new();
    let transfer = |way, addr| {
        bounce_buffer::transfer(&world.arena, way, 0, 0, &[Segment { addr, length: 8 }], 8)
    };
    static READ_ONLY: [u8; 8] = [7; 8];
    let addr = process_memory::ours(&READ_ONLY).addr;
    assert_eq!(transfer(Way::In, addr), Ok(()));
    assert_eq!(transfer(Way::Out, addr), Err(CopyError::Fault));
    assert_eq!(transfer(Way::In, 8), Err(CopyError::Fault));
    assert_eq!(transfer(Way::Out, 8), Err(CopyError::Fault));
}

#[test]
fn a_helper_that_dies_is_not_waited_for() {
    for is_busy in [false, true] {
        let world = World::new();
        close(&world, THEM);
        let mut theirs = world.buffer(THEM, vec![0; 8]);
        let to = [Segment { addr: theirs.addr(), length: 8 }];
        thread::scope(|scope| {
            let copying = scope.spawn(|| {
                let bytes = [1; 8];
                let from = [process_memory::ours(&bytes)];
                let from = Memory::unregistered(US, &from);
                let to = Memory::unregistered(THEM, &to);
                world.copier.copy(&world.arena, US, from, to)
            });
            // It is asked, and perhaps it has begun; then it is no more.
            while world.arena.procs[THEM].asked.load(Acquire) == 0 {
                thread::yield_now();
            }
            if is_busy {
                claim(&world);
            }
            world.arena.procs[THEM].live.store(0, Release);
            assert!(world.actor(DAEMON).release_all_of(THEM));
            assert_eq!(copying.join().unwrap(), Err(Fault::Unreachable));
        });
        assert_eq!(SlotGuard::acquire(&world.arena, US).unwrap().index, 0, "fit for use");
        assert_eq!(theirs.bytes, [0; 8]);
    }
}

/// What a dead requester has asked for does not happen later.
#[test]
fn requests_of_the_dead_are_withdrawn() {
    let world = World::new();
    close(&world, THEM);
    let mut theirs = world.buffer(THEM, vec![0; 8]);
    let there = [Segment { addr: theirs.addr(), length: 8 }];
    // It dies with the slot in its hands, as a killed process does.
    let die_asking = || {
        thread::scope(|scope| {
            scope.spawn(|| {
                let taken = SlotGuard::acquire(&world.arena, OTHER).unwrap();
                let _ = taken.ask(OTHER, job(Way::In, THEM, &there));
                mem::forget(taken);
            });
            let dead = |world: &World| world.arena.bounce_slots[0].lock.owner() == Some(OTHER);
            while !dead(&world) || world.arena.procs[THEM].asked.load(Acquire) == 0 {
                thread::yield_now();
            }
            assert!(world.actor(DAEMON).release_all_of(OTHER));
            assert!(world.arena.bounce_slots[0].claim(THEM).is_none());
            // The thread is to end before its time.
            world.arena.procs[THEM].live.store(0, Release);
        });
    };
    die_asking();
    assert_eq!(world.arena.bounce_slots[0].lock.owner(), None);
    assert_eq!(SlotGuard::acquire(&world.arena, US).unwrap().index, 0);
}

/// A slot that a helper is still using is nobody else's, and memory stays registered so long.
#[test]
fn a_busy_helper_is_waited_for() {
    let world = World::new();
    close(&world, THEM);
    let mut theirs = world.buffer(THEM, vec![0; 8]);
    let there = [Segment { addr: theirs.addr(), length: 8 }];
    thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let taken = SlotGuard::acquire(&world.arena, OTHER).unwrap();
            taken.ask(OTHER, job(Way::In, THEM, &there))
        });
        let claimed = claim(&world);
        assert_eq!((claimed.proc, claimed.segments), (THEM, unnamed(&there)));
        // Its requester dies meanwhile, and keeps its locks so long.
        let daemon = world.actor(DAEMON);
        assert!(!daemon.release_all_of(OTHER));
        assert_eq!(SlotGuard::acquire(&world.arena, US).unwrap().index, 1);
        let [mut theirs, mut ours] = [THEM, US].map(|proc| daemon.quiesce([], proc));
        assert!(!daemon.is_quiet(&mut theirs));
        assert!(daemon.is_quiet(&mut ours));
        world.arena.bounce_slots[0].finish(Ok(()));
        assert!(daemon.is_quiet(&mut theirs));
        assert!(daemon.release_all_of(OTHER));
        assert_eq!(asking.join().unwrap(), Ok(()));
    });
    assert_eq!(SlotGuard::acquire(&world.arena, US).unwrap().index, 0);
}
