//! Memory that nobody reaches but its owner.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread;

use super::fabric::*;
use crate::arena::key_index;
use crate::engine::bounce::{Job, SlotGuard};
use crate::engine::bounce_buffer::{self, Way};
use crate::engine::helper::Helper;
use crate::engine::process_memory::{self, CopyError};
use crate::engine::segments::{Fault, Memory, Region, Segment};
use crate::engine::{Actor, Copier, LocalCopier, Registered, Registry, guard};
use crate::uapi::rxe::{Sge, Wr};
use crate::uapi::verbs::{access, opcode, status};

/// A process that takes part in nothing.
const OTHER: usize = 7;

/// Nobody has such an id.
const NO_PID: u32 = i32::MAX as u32;

/// A fabric in which a process cannot be reached, and its helper.
fn closed_world() -> (World, Helper) {
    let world = World::new();
    close(&world, THEM);
    let helper = start_helper(&world, THEM);
    (world, helper)
}

fn start_helper(world: &World, proc: usize) -> Helper {
    let (arena, registry) = (Arc::clone(&world.arena), Arc::clone(&world.registry));
    Helper::start(arena, proc, registry, Box::new(|_| false)).unwrap()
}

fn close(world: &World, proc: usize) {
    world.announce(proc, NO_PID);
    world.arena.procs[proc].closed.store(1, Release);
}

/// Stretches that are all in the region with this key.
fn within(key: u32, segments: &[Segment]) -> Vec<(Segment, Region)> {
    let region = Region::at(key_index(key, KEY_BASE).unwrap());
    segments.iter().map(|segment| (*segment, region)).collect()
}

fn job(way: Way, proc: usize, key: u32, segments: &[Segment]) -> Job {
    Job { way, proc, offset: 0, segments: within(key, segments) }
}

/// Asks the helper that moves a process's memory; a requester may ask for anything.
fn ask(world: &World, job: Job) -> Result<(), CopyError> {
    SlotGuard::acquire(&world.arena, US).unwrap().ask(US, job)
}

/// Their helper takes a request, and does nothing yet.
fn claim(world: &World) -> Job {
    let mut job = None;
    eventually("a request to the helper", || {
        job = world.arena.bounce_slots[0].claim(THEM);
        job.is_some()
    });
    job.unwrap()
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
    let _helper = start_helper(&world, DAEMON);
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
    taken.ask(US, job(Way::Out, THEM, theirs.key, &[there])).unwrap();
    assert_eq!(theirs.bytes, bytes);
}

#[test]
fn only_what_is_registered_is_touched() {
    let (world, _helper) = closed_world();
    let mut bytes = vec![1u8; 3000];
    let addr = process_memory::ours_mut(&mut bytes).addr;
    let readable = world.register(THEM, addr, 1000, 0);
    let writable = world.register(THEM, addr + 1000, 1000, access::LOCAL_WRITE);
    let ours = world.register(US, addr + 2000, 1000, access::LOCAL_WRITE);
    let ask_for = |way, key, start: u64, length| {
        ask(&world, job(way, THEM, key, &[Segment { addr: addr.wrapping_add(start), length }]))
    };
    assert_eq!(ask_for(Way::In, readable, 0, 1000), Ok(()));
    assert_eq!(ask_for(Way::In, writable, 1000, 1000), Ok(()));
    assert_eq!(ask_for(Way::Out, writable, 1000, 1000), Ok(()));
    let refused = Err(CopyError::Fault);
    assert_eq!(ask_for(Way::Out, readable, 999, 1), refused, "not to be written");
    assert_eq!(ask_for(Way::In, readable, 999, 2), refused, "beyond its end");
    assert_eq!(ask_for(Way::In, writable, 999, 2), refused, "before its start");
    assert_eq!(ask_for(Way::In, ours, 2000, 1), refused, "another process's");
    assert_eq!(ask_for(Way::In, readable, u64::MAX - addr, 2), refused);
    assert_eq!(ask_for(Way::In, readable, 0, u64::MAX), refused);
    let nowhere = [(Segment { addr, length: 1 }, Region::NONE)].into();
    let unnamed = Job { segments: nowhere, ..job(Way::In, THEM, readable, &[]) };
    assert_eq!(ask(&world, unnamed), refused, "in no region");
    assert!(world.registry.deregister(readable).unwrap().is_unused());
    assert_eq!(ask_for(Way::In, readable, 0, 1), refused, "no longer registered");
    // More than a bounce buffer has, though all of it is registered.
    let there = Segment { addr: addr + 1000, length: 1000 };
    assert_eq!(ask(&world, job(Way::Out, THEM, writable, &[there; 64])), Ok(()));
    let far = Job { offset: 256 << 10, ..job(Way::Out, THEM, writable, &[there]) };
    assert_eq!(ask(&world, far), refused);
    assert_eq!(bytes[..1000], [1; 1000]);
    assert_eq!(bytes[2000..], [1; 1000]);
}

/// A program of the fabric can write the tables, so a helper goes by its registry.
#[test]
fn helpers_do_not_believe_the_tables() {
    for (proc, helper) in [(THEM, THEM), (THEM, DAEMON), (DAEMON, DAEMON)] {
        let world = World::new();
        world.announce(DAEMON, std::process::id());
        if helper == THEM {
            close(&world, THEM);
        }
        let _helper = start_helper(&world, helper);
        let mut bytes = vec![1u8; 64];
        let addr = process_memory::ours_mut(&mut bytes).addr;
        let refused = |job: Job| {
            assert_eq!(ask(&world, job.clone()), Err(CopyError::Fault), "{proc} {helper} {job:?}");
        };
        let whole = Segment { addr, length: 64 };
        // A region that nobody has registered.
        let forged = world.forge(proc, addr, 64, ALL);
        for way in [Way::In, Way::Out] {
            refused(job(way, proc, forged, &[whole]));
        }
        // A registered region, of which the table says too much.
        let small = world.register(proc, addr + 8, 8, 0);
        let entry = world.arena.mr(small).unwrap();
        for (field, value) in [(&entry.addr, addr), (&entry.iova, addr), (&entry.length, 64)] {
            field.store(value, Release);
        }
        set(&entry.access, ALL);
        refused(job(Way::In, proc, small, &[whole]));
        refused(job(Way::Out, proc, small, &[Segment { addr: addr + 8, length: 8 }]));
        // A region that was deregistered, and is still in the table.
        let gone = world.register(proc, addr, 64, ALL);
        world.registry.deregister(gone);
        refused(job(Way::In, proc, gone, &[whole]));
        // A region of another process.
        let ours = world.register(US, addr, 64, ALL);
        set(&world.arena.mr(ours).unwrap().proc, proc as u32);
        refused(job(Way::Out, proc, ours, &[whole]));
        assert_eq!(bytes, [1; 64]);
    }
}

/// The daemon does not trust the tables' process ids either: it would reach a stranger's memory.
#[test]
fn the_daemon_knows_processes_by_itself() {
    let world = World::new();
    world.announce(DAEMON, std::process::id());
    let _helper = start_helper(&world, DAEMON);
    let mut theirs = world.buffer(THEM, vec![1; 8]);
    let there = [Segment { addr: theirs.addr(), length: 8 }];
    set(&world.arena.procs[THEM].pid, NO_PID);
    assert_eq!(ask(&world, job(Way::In, THEM, theirs.key, &there)), Ok(()));
    world.announce(THEM, NO_PID);
    set(&world.arena.procs[THEM].pid, std::process::id());
    let unreachable = Err(CopyError::Unreachable);
    assert_eq!(ask(&world, job(Way::In, THEM, theirs.key, &there)), unreachable);
}

/// Requests that the daemon executes for a program go by the registry, too.
#[test]
fn the_daemon_executes_no_request_with_a_forged_region() {
    let mut secret = vec![1u8; 64];
    let at = process_memory::ours_mut(&mut secret).addr;
    for (kind, is_local) in
        [(opcode::RDMA_WRITE, true), (opcode::RDMA_WRITE, false), (opcode::RDMA_READ, false)]
    {
        let world = World::new();
        let (a, _) = world.rc();
        // The requester's memory is forged and the responder's good, or the other way round.
        let (forger, other) = if is_local { (US, THEM) } else { (THEM, US) };
        let mut good = world.buffer(other, vec![0; 64]);
        let forged = world.forge(forger, at, 64, ALL);
        let element = Sge { addr: at, length: 64, lkey: forged };
        let wr = match is_local {
            true => Wr::new(1, kind).sge(element).remote(good.addr(), good.key),
            false => Wr::new(1, kind).sge(good.whole()).remote(at, forged),
        };
        world.put(a, &wr);
        world.actor(DAEMON).run_send_queue(a);
        let status = if is_local { status::LOC_PROT_ERR } else { status::REM_ACCESS_ERR };
        assert_eq!(world.statuses(a), [(1, status)], "{kind} {is_local}");
        assert_eq!((&good.bytes[..], &secret[..]), (&[0; 64][..], &[1; 64][..]));
    }
}

/// A closed program's own requests and polls use only memory that it has registered, even if others
/// write to its queues.
#[test]
fn a_closed_program_does_not_believe_the_tables_either() {
    let mut secret = vec![1u8; 64];
    let at = process_memory::ours_mut(&mut secret).addr;
    for length in [8, 64 << 10] {
        let case = Case::new();
        let registry = Arc::new(Registry::of_process(US, KEY_BASE));
        let copier = LocalCopier::guarded(Arc::clone(&registry));
        let closed = || Actor { copier: &copier, ..case.world.actor(US) };
        let mut good = vec![2u8; length];
        let ours = process_memory::ours_mut(&mut good);
        let key = case.world.forge(US, ours.addr, ours.length, ALL);
        let known = Registered { proc: US, addr: ours.addr, length: ours.length, access: ALL };
        let sge = Sge { addr: ours.addr, length: length as u32, lkey: key };
        let mut theirs = case.world.buffer(THEM, vec![0; length]);
        case.world.receive(case.b, 20, &[theirs.whole()]);
        case.world.receive(case.b, 21, &[theirs.whole()]);
        // The message is sent with the region in the registry, and fails without it.
        registry.register(key, known);
        case.world.put(case.a, &Wr::new(1, opcode::SEND).sge(sge));
        closed().doorbell(case.a).unwrap();
        assert_eq!(case.world.statuses(case.a), [(1, 0)]);
        assert_eq!(case.world.statuses(case.b), [(20, 0)]);
        assert_eq!(theirs.bytes, good);
        registry.deregister(key);
        theirs.bytes.fill(0);
        case.world.put(case.a, &Wr::new(2, opcode::SEND).sge(sge));
        closed().doorbell(case.a).unwrap();
        assert_eq!(case.world.statuses(case.a), [(2, status::LOC_PROT_ERR)]);
        assert_eq!(theirs.bytes, vec![0; length]);
    }
    // A payload that another process has staged for it.
    for is_named in [true, false] {
        let world = World::new();
        let (a, b) = world.rc();
        let copier = LocalCopier::guarded(Arc::new(Registry::of_process(THEM, KEY_BASE)));
        let key = world.forge(THEM, at, 64, ALL);
        let mut ours = world.buffer(US, vec![9; 64]);
        world.receive(b, 20, &[Sge { addr: at, length: 64, lkey: key }]);
        world.send(a, &Wr::new(1, opcode::SEND).sge(ours.whole()));
        let cq = world.entry(b).recv_cq.load(Acquire);
        let ring = world.arena.ring(&world.arena.cqs[cq as usize].eager).unwrap();
        assert_eq!(ring.unread() > 0, guard());
        if !is_named {
            ring.slot(ring.consumer()).set_u32(12, 0);
        }
        Actor { copier: &copier, ..world.actor(THEM) }.drain_staged(cq);
        assert_eq!(secret, [1; 64]);
    }
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
            let is_requested = || world.arena.procs[THEM].requested.load(Acquire) != 0;
            eventually("a request to the helper", is_requested);
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

/// Requests of a requester that has died are not executed later.
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
                let _ = taken.ask(OTHER, job(Way::In, THEM, theirs.key, &there));
                mem::forget(taken);
            });
            eventually("a request with the slot in its hands", || {
                world.arena.bounce_slots[0].lock.owner() == Some(OTHER)
                    && world.arena.procs[THEM].requested.load(Acquire) != 0
            });
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
            taken.ask(OTHER, job(Way::In, THEM, theirs.key, &there))
        });
        let claimed = claim(&world);
        assert_eq!((claimed.proc, claimed.segments), (THEM, within(theirs.key, &there)));
        // Its requester dies meanwhile, and keeps its locks so long.
        let daemon = world.actor(DAEMON);
        assert!(!daemon.release_all_of(OTHER));
        assert_eq!(SlotGuard::acquire(&world.arena, US).unwrap().index, 1);
        let [mut theirs, mut ours] = [THEM, US].map(|proc| daemon.quiesce([], proc, None));
        assert!(!daemon.is_quiet(&mut theirs));
        assert!(daemon.is_quiet(&mut ours));
        world.arena.bounce_slots[0].finish(Ok(()));
        assert!(daemon.is_quiet(&mut theirs));
        assert!(daemon.release_all_of(OTHER));
        assert_eq!(asking.join().unwrap(), Ok(()));
    });
    assert_eq!(SlotGuard::acquire(&world.arena, US).unwrap().index, 0);
}
