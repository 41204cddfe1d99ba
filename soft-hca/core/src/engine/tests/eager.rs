//! Payloads that wait in the arena for the receiver's poll.

use std::sync::atomic::Ordering::{Acquire, Release};

use proptest::prelude::*;

use super::fabric::{ALL, Case, DAEMON, KEY_BASE, THEM, US, World, pattern};
use crate::arena::key_index;
use crate::engine::eager::{has_staged, stage_or_move};
use crate::engine::segments::{Memory, Region, Segment};
use crate::engine::{CqSet, EAGER_SLOTS, process_memory};
use crate::uapi::rxe::{Sge, Wr};
use crate::uapi::verbs::{opcode, state};

impl Case {
    /// The receive completion queue of the second queue pair.
    fn cq(&self) -> u32 {
        self.world.entry(self.b).recv_cq.load(Acquire)
    }

    fn has_staged(&self) -> bool {
        has_staged(&self.world.arena, self.cq())
    }

    /// A send that has arrived, and waits for a poll.
    fn staged() -> Self {
        let mut case = Self::new();
        case.world.receive(case.b, 20, &[case.theirs.whole()]);
        case.world.send(case.a, &Wr::new(1, opcode::SEND).sge(case.ours.whole()));
        case
    }
}

#[test]
fn the_receivers_poll_brings_what_was_sent() {
    let mut case = Case::staged();
    assert_eq!(case.world.statuses(case.a), [(1, 0)]);
    assert!(case.has_staged());
    assert_eq!(case.theirs.bytes, [0; 64]);
    // The sender's memory is its own again.
    let sent = std::mem::replace(&mut case.ours.bytes, vec![9; 64]);
    assert_eq!(case.world.statuses(case.b), [(20, 0)]);
    assert_eq!(case.theirs.bytes, sent);
    assert!(!case.has_staged());
    case.world.assert_unlocked();
}

#[test]
fn what_goes_straight_to_memory_comes_behind_it() {
    for (kind, me) in [
        (opcode::RDMA_WRITE, US),
        (opcode::RDMA_READ, US),
        (opcode::ATOMIC_FETCH_AND_ADD, US),
        (opcode::ATOMIC_FETCH_AND_ADD, DAEMON),
        (opcode::RDMA_WRITE_WITH_IMM, US),
        (opcode::RDMA_READ, DAEMON),
    ] {
        let mut case = Case::staged();
        let mut other = case.world.buffer(US, vec![0; 8]);
        case.world.receive(case.b, 21, &[]);
        let remote = case.theirs.addr().next_multiple_of(8);
        let wr = Wr::new(2, kind).sge(other.whole());
        let wr = match kind {
            opcode::ATOMIC_FETCH_AND_ADD => wr.atomic(remote, case.theirs.key, 1, 0),
            _ => wr.remote(remote, case.theirs.key),
        };
        case.world.put(case.a, &wr);
        case.world.actor(me).run_send_queue(case.a);
        assert!(!case.has_staged(), "{kind}");
        assert_eq!(case.world.statuses(case.a), [(1, 0), (2, 0)], "{kind}");
        let at = (remote - case.theirs.addr()) as usize;
        let mut expected = case.ours.bytes.clone();
        match kind {
            opcode::RDMA_WRITE | opcode::RDMA_WRITE_WITH_IMM => expected[at..at + 8].fill(0),
            _ => assert_eq!(other.bytes, expected[at..at + 8], "{kind}"),
        }
        if kind == opcode::ATOMIC_FETCH_AND_ADD {
            let sum = u64::from_ne_bytes(expected[at..at + 8].try_into().unwrap()).wrapping_add(1);
            expected[at..at + 8].copy_from_slice(&sum.to_ne_bytes());
        }
        assert_eq!(case.theirs.bytes, expected, "{kind}");
        case.world.assert_unlocked();
    }
}

#[test]
fn the_daemon_does_not_wait_for_a_program_that_is_moving_payloads() {
    let mut case = Case::staged();
    let lock = &case.world.arena.cqs[case.cq() as usize].eager_lock;
    let guard = lock.try_lock(THEM).unwrap();
    let wr = Wr::new(2, opcode::RDMA_WRITE).inline(b"abcd");
    case.world.put(case.a, &wr.remote(case.theirs.addr(), case.theirs.key));
    case.world.actor(DAEMON).run_send_queue(case.a);
    assert_eq!(case.world.statuses(case.a), [(1, 0)]);
    assert_eq!(case.world.env.take_rescheduled().len(), 1);
    drop(guard);
    case.world.actor(DAEMON).run_send_queue(case.a);
    assert_eq!(case.world.statuses(case.a), [(2, 0)]);
    assert_eq!(case.theirs.bytes[..4], *b"abcd");
    assert_eq!(case.theirs.bytes[4..], case.ours.bytes[4..]);
}

/// Its receive work request is still posted, so the next message overwrites what it has staged.
#[test]
fn a_sender_that_dies_before_it_completes_what_it_has_staged() {
    let mut case = Case::new();
    case.world.receive(case.b, 20, &[case.theirs.whole()]);
    let (bytes, to) = ([5; 64], [Segment { addr: case.theirs.addr(), length: 64 }]);
    let from = [process_memory::ours(&bytes)];
    let regions = [Region::at(key_index(case.theirs.key, KEY_BASE).unwrap())];
    let from = Memory::unregistered(US, &from);
    let to = Memory { proc: THEM, segments: &to, regions: &regions };
    assert_eq!(stage_or_move(&case.world.actor(US), case.cq(), from, to), Ok(()));
    assert!(case.has_staged());
    case.world.send(case.a, &Wr::new(1, opcode::SEND).sge(case.ours.whole()));
    assert_eq!(case.world.statuses(case.b), [(20, 0)]);
    assert_eq!(case.theirs.bytes, case.ours.bytes);
}

#[test]
fn without_room_it_goes_straight_to_memory() {
    let world = World::new();
    let (a, b) = world.rc();
    let cq = &world.arena.cqs[world.entry(b).recv_cq.load(Acquire) as usize];
    let mut ours = world.buffer(US, pattern(1, 4000));
    let mut theirs = world.buffer(THEM, vec![0; 63 * 4000]);
    let (mut was_full, mut waited) = (false, 0);
    for i in 0..60 {
        world.receive(b, i, &[theirs.sge(4000 * i as usize, 4000)]);
        world.send(a, &Wr::new(i, opcode::SEND).sge(ours.whole()));
        let ring = world.arena.ring(&cq.eager).unwrap();
        was_full |= waited > 0 && ring.unread() == 0;
        waited = ring.unread();
        assert!(waited < EAGER_SLOTS);
    }
    assert!(was_full);
    assert_eq!(world.poll(a).len(), 60);
    assert_eq!(world.poll(b).len(), 60);
    assert!(theirs.bytes.chunks(4000).take(60).all(|bytes| bytes == ours.bytes));
}

#[test]
fn who_does_not_poll_for_it_gets_it_at_once() {
    let mut case = Case::new();
    case.world.move_at_once(case.b);
    case.world.receive(case.b, 20, &[case.theirs.whole()]);
    case.world.send(case.a, &Wr::new(1, opcode::SEND).sge(case.ours.whole()));
    assert_eq!(case.theirs.bytes, case.ours.bytes);
}

#[test]
fn memory_that_is_gone() {
    // The sender's: nothing was sent.
    let mut case = Case::new();
    let key = case.world.register(US, 0x1000, 64, ALL);
    let sge = Sge { addr: 0x1000, length: 8, lkey: key };
    case.world.receive(case.b, 20, &[case.theirs.whole()]);
    case.world.send(case.a, &Wr::new(1, opcode::SEND).sge(case.ours.sge(0, 8)).sge(sge));
    assert!(!case.has_staged());
    assert_ne!(case.world.statuses(case.a), [(1, 0)]);
    // The receiver's: an adapter would write to the pages that the region has pinned.
    let case = &mut Case::new();
    let key = case.world.register(THEM, 0x1000, 64, ALL);
    case.world.receive(case.b, 20, &[Sge { addr: 0x1000, length: 64, lkey: key }]);
    case.world.receive(case.b, 21, &[case.theirs.whole()]);
    for wr_id in [1, 2] {
        case.world.send(case.a, &Wr::new(wr_id, opcode::SEND).sge(case.ours.whole()));
    }
    assert_eq!(case.world.statuses(case.a), [(1, 0), (2, 0)]);
    assert_eq!(case.world.statuses(case.b), [(20, 0), (21, 0)]);
    assert_eq!(case.theirs.bytes, case.ours.bytes);
    assert_eq!(case.world.state(case.b), state::RTS);
}

#[test]
fn a_region_that_has_ended_is_not_written() {
    let case = Case::staged();
    let mr = case.world.arena.mr(case.theirs.key).unwrap();
    mr.live.store(0, Release);
    assert_eq!(case.world.statuses(case.b), [(20, 0)]);
    assert_eq!(case.theirs.bytes, [0; 64]);
}

/// A command of a program with many queues looks only at those for which payloads are staged.
#[test]
fn a_command_looks_at_queues_for_which_something_is_staged() {
    const QUEUES: u32 = 500;
    let mut case = Case::staged();
    let others: Vec<u32> = (0..QUEUES).map(|_| case.world.cq(1)).collect();
    let mut own = CqSet::default();
    others.iter().chain([&case.cq()]).for_each(|index| own.insert(*index, 1));
    let them = case.world.actor(THEM);
    assert_eq!(them.drain_all_staged(&own), 1);
    assert!(!case.has_staged());
    assert_eq!(case.theirs.bytes, case.ours.bytes);
    assert_eq!(them.drain_all_staged(&own), 0);
    // The next message lists it again.
    let mut sent = case.world.buffer(US, vec![3; 64]);
    case.world.receive(case.b, 21, &[case.theirs.whole()]);
    case.world.send(case.a, &Wr::new(2, opcode::SEND).sge(sent.whole()));
    assert_eq!((them.drain_all_staged(&own), them.drain_all_staged(&own)), (1, 0));
    assert_eq!(case.theirs.bytes, sent.bytes);
    others.iter().for_each(|index| own.remove(*index));
    assert_eq!(them.drain_all_staged(&own), 0);
    case.world.assert_unlocked();
}

/// A sender may be stopped while it stages: a command moves the payloads that are there, does not
/// wait, and looks again the next time.
#[test]
fn a_queue_that_somebody_has_stays_listed() {
    let case = Case::staged();
    let mut own = CqSet::default();
    own.insert(case.cq(), 1);
    let them = case.world.actor(THEM);
    let guard = case.world.arena.cqs[case.cq() as usize].lock.try_lock(US).unwrap();
    assert_eq!((them.drain_all_staged(&own), them.drain_all_staged(&own)), (1, 1));
    assert_eq!(case.theirs.bytes, case.ours.bytes);
    drop(guard);
    assert_eq!((them.drain_all_staged(&own), them.drain_all_staged(&own)), (1, 0));
}

/// The entry belongs to another queue, and its payloads are not ours to move.
#[test]
fn a_queue_of_another_generation_is_left_alone() {
    let case = Case::staged();
    let mut own = CqSet::default();
    own.insert(case.cq(), 7);
    case.world.actor(THEM).drain_all_staged(&own);
    assert!(case.has_staged());
}

proptest! {
    /// Whatever somebody writes to the ring: only registered memory is written, and it ends.
    #[test]
    fn nonsense_in_the_ring_does_no_harm(
        words in proptest::collection::vec((0..EAGER_SLOTS, 0..16usize, any::<u32>()), 0..40),
        indices in any::<(u32, u32)>(),
    ) {
        let mut case = Case::staged();
        let ring = case.world.arena.ring(&case.world.arena.cqs[case.cq() as usize].eager).unwrap();
        for (slot, word, value) in words {
            ring.slot(slot % 8).set_u32(4 * word, value);
        }
        let around = case.world.buffer(US, vec![7; 64]);
        if indices.0 % 2 == 0 {
            ring.set_consumer(indices.0);
            ring.set_producer(indices.1);
        }
        prop_assert!(case.world.actor(THEM).drain_staged(case.cq()));
        prop_assert!(!case.has_staged());
        prop_assert_eq!(&around.bytes, &vec![7; 64]);
        case.theirs.bytes.clear();
    }
}
