//! Completion queues without credits: requests wait until there are some, for a time.

use std::sync::atomic::Ordering::{Acquire, Release};

use super::fabric::*;
use super::waiting::{MS, run_daemon};
use crate::engine::credit::reserve;
use crate::engine::{Async, DAEMON};
use crate::uapi::rxe::Cqe;
use crate::uapi::verbs::{opcode, qp_type, send_flag, state, status::WR_FLUSH_ERR};

const SECOND: u64 = 1000 * MS;

/// Connected queue pairs, of which one completes sends into a queue of so many entries.
fn small_send_queue(world: &World, entries: u32) -> (u32, u32, u32) {
    let (a, b) = world.rc();
    let small = world.cq(entries);
    set(&world.entry(a).send_cq, small);
    (a, b, small)
}

#[test]
fn requests_wait_for_room_in_the_senders_queue() {
    let world = World::new();
    let (a, b, small) = small_send_queue(&world, 1);
    for wr_id in 0..3 {
        world.receive(b, wr_id, &[]);
        world.put(a, &Wr::new(wr_id, opcode::SEND));
    }
    world.doorbell(a);
    assert_eq!(world.statuses(b), [(0, 0)], "the others are not executed");
    for wr_id in 0..3 {
        assert_eq!(world.poll_cq(small)[0].wr_id, wr_id);
        run_daemon(&world, world.env.now_ns.load(Acquire) + 100 * MS);
    }
    assert_eq!(world.statuses(b), [(1, 0), (2, 0)]);
    assert_eq!(world.entry(a).wait.load(Acquire), 0);
    assert_eq!(world.env.take_raised(), []);
}

#[test]
fn requests_wait_for_room_in_the_receivers_queue() {
    let world = World::new();
    for kind in [qp_type::RC, qp_type::UC] {
        let (a, b) = world.pair(kind);
        let small = world.cq(1);
        set(&world.entry(b).recv_cq, small);
        for wr_id in 0..2 {
            world.receive(b, wr_id, &[]);
            world.put(a, &Wr::new(wr_id, opcode::SEND));
        }
        world.doorbell(a);
        assert_eq!(world.statuses(a), [(0, 0)]);
        assert_eq!(world.poll_cq(small)[0].wr_id, 0);
        // A doorbell looks whether the peer can go on.
        world.doorbell(b);
        assert_eq!(world.poll_cq(small).len(), usize::from(kind == qp_type::RC));
        run_daemon(&world, world.env.now_ns.load(Acquire) + 100 * MS);
        assert_eq!(world.statuses(a), [(1, 0)]);
    }
}

#[test]
fn what_has_no_completion_waits_for_no_room() {
    let world = World::new();
    let (a, b, small) = small_send_queue(&world, 1);
    set(&world.entry(a).sq_sig_all, 0);
    for (wr_id, flags) in [(0, send_flag::SIGNALED), (1, 0), (2, 0), (3, send_flag::SIGNALED)] {
        world.receive(b, wr_id, &[]);
        world.put(a, &Wr::new(wr_id, opcode::SEND).flags(flags));
    }
    world.doorbell(a);
    assert_eq!(world.statuses(b), [(0, 0), (1, 0), (2, 0)]);
    assert_eq!(world.poll_cq(small).len(), 1);
}

#[test]
fn who_does_not_poll_loses_completions_after_a_time() {
    let world = World::new();
    let (a, b, small) = small_send_queue(&world, 1);
    for wr_id in 0..5 {
        world.receive(b, wr_id, &[]);
        world.put(a, &Wr::new(wr_id, opcode::SEND));
    }
    world.doorbell(a);
    run_daemon(&world, SECOND);
    assert_eq!(world.arena.cqs[small as usize].overflows.load(Acquire), 0);
    // All that come after the first one do not wait.
    assert!((2 * SECOND..3 * SECOND).contains(&run_daemon(&world, 10 * SECOND)));
    assert_eq!(world.arena.cqs[small as usize].overflows.load(Acquire), 4);
    assert_eq!(world.env.take_raised(), [Async::CqOverflow(small), Async::QpFatal(a)]);
    assert_eq!(world.statuses(b).len(), 5);
    assert_eq!(world.poll_cq(small).len(), 1);
    // The slots are free all the same.
    assert_eq!(world.arena.ring(&world.entry(a).sq).unwrap().unread(), 0);
    assert_eq!((world.state(a), world.state(b)), (state::ERR, state::RTS));
    world.put(a, &Wr::new(8, opcode::SEND));
    world.doorbell(a);
    let flushed = world.poll_cq(small);
    assert_eq!((flushed.len(), flushed[0].status), (1, WR_FLUSH_ERR));
    assert_eq!(world.env.take_raised(), []);
}

#[test]
fn a_responder_whose_completion_is_lost_fails() {
    for is_shared in [false, true] {
        let world = World::new();
        let (a, b) = world.rc();
        let (small, srq) = (world.cq(1), world.srq(7));
        set(&world.entry(b).recv_cq, small);
        if is_shared {
            set(&world.entry(b).srq, srq + 1);
        }
        for wr_id in 0..2 {
            if is_shared {
                world.receive_shared(srq, wr_id, &[]);
            } else {
                world.receive(b, wr_id, &[]);
            }
            world.put(a, &Wr::new(wr_id, opcode::SEND));
        }
        world.doorbell(a);
        run_daemon(&world, 10 * SECOND);
        assert_eq!(world.statuses(a), [(0, 0), (1, 0)]);
        let mut expected = vec![Async::CqOverflow(small), Async::QpFatal(b)];
        if is_shared {
            expected.insert(1, Async::LastWqeReached(b));
        }
        assert_eq!(world.env.take_raised(), expected);
        assert_eq!((world.state(a), world.state(b)), (state::RTS, state::ERR));
        // Its sends are flushed, too.
        world.put(b, &Wr::new(8, opcode::SEND));
        world.doorbell(b);
        assert_eq!(world.statuses(b), [(8, WR_FLUSH_ERR)]);
    }
}

/// The program is told, too, of a queue pair that has failed for another reason, if the completion
/// that would have said so is lost.
#[test]
fn each_queue_pair_whose_completion_is_lost_is_told_once() {
    let world = World::new();
    let small = world.cq(1);
    let pairs: Vec<_> = (0..4).map(|_| world.rc()).collect();
    for (a, b) in &pairs {
        for (qpn, peer) in [(a, b), (b, a)] {
            set(&world.entry(*qpn).send_cq, small);
            set(&world.entry(*qpn).recv_cq, small);
            for wr_id in 0..3 {
                world.receive(*peer, 20 + wr_id, &[]);
                world.put(*qpn, &Wr::new(wr_id, opcode::SEND));
            }
        }
    }
    pairs.iter().for_each(|(a, _)| world.doorbell(*a));
    run_daemon(&world, 60 * SECOND);
    pairs.iter().for_each(|(_, b)| world.doorbell(*b));
    run_daemon(&world, 120 * SECOND);
    let raised = world.env.take_raised();
    assert_eq!(raised.iter().filter(|what| **what == Async::CqOverflow(small)).count(), 1);
    let mut failed = 0;
    for qpn in pairs.iter().flat_map(|(a, b)| [*a, *b]) {
        let told = raised.iter().filter(|what| **what == Async::QpFatal(qpn)).count();
        let is_failed = world.state(qpn) == state::ERR;
        assert_eq!(told, usize::from(is_failed), "{qpn}: {raised:?}");
        failed += told;
    }
    assert!(failed > pairs.len(), "{failed} of {}", 2 * pairs.len());
}

/// One who saw that there was plenty of room, and is put aside, loses nothing to those who use it up.
#[test]
fn who_has_seen_plenty_of_room_finds_some() {
    let world = World::new();
    let cq = world.cq(511);
    let actor = world.actor(US);
    let add = |count| {
        (0..count).for_each(|_| actor.add_completion(cq, &Cqe::default(), false));
    };
    add(1);
    let slow = reserve(&actor, cq, 1);
    assert_eq!(world.arena.cqs[cq as usize].reserved.load(Acquire), 0);
    add(510);
    assert!(!reserve(&actor, cq, 1).consume(), "the queue has 511 entries");
    add(1);
    drop(slow);
    assert_eq!(world.env.take_raised(), []);
    assert_eq!(world.poll_cq(cq).len(), 512);
}

/// Room that others are faster to get is no reason to lose anything.
#[test]
fn who_polls_is_waited_for() {
    let world = World::new();
    let (a, b, small) = small_send_queue(&world, 1);
    for wr_id in 0..2 {
        world.receive(b, wr_id, &[]);
        world.put(a, &Wr::new(wr_id, opcode::SEND));
    }
    world.doorbell(a);
    for second in 1..10 {
        assert_eq!(world.poll_cq(small).len(), 1);
        world.actor(US).add_completion(small, &Cqe::default(), false);
        run_daemon(&world, second * SECOND);
    }
    assert_eq!(world.statuses(b), [(0, 0)]);
    assert_eq!(world.env.take_raised(), []);
    assert_eq!(world.poll_cq(small).len(), 1);
    run_daemon(&world, 10 * SECOND);
    assert_eq!((world.poll_cq(small)[0].wr_id, world.statuses(b)), (1, vec![(1, 0)]));
}

#[test]
fn reservations_are_exclusive_and_end() {
    let world = World::new();
    let cq = world.cq(7);
    let actor = world.actor(US);
    let reserved = || world.arena.cqs[cq as usize].reserved.load(Acquire);
    let mut first = reserve(&actor, cq, 5);
    let mut second = reserve(&actor, cq, 5);
    assert_eq!((0..9).filter(|_| first.consume()).count(), 5);
    assert_eq!((0..9).filter(|_| second.consume()).count(), 2);
    assert!(!reserve(&actor, cq, 1).consume());
    assert_eq!(reserved(), 7);
    drop(first);
    assert!(reserve(&actor, cq, 1).consume());
    // Somebody was killed; what others had reserved is forgotten with it.
    world.actor(DAEMON).forget_reservations([cq as usize]);
    drop(second);
    assert_eq!(reserved(), 0);
    // A program can write there what it likes.
    world.arena.cqs[cq as usize].reserved.store(u32::MAX, Release);
    assert!(!reserve(&actor, cq, 1).consume());
    assert!(reserve(&actor, u32::MAX, 1).consume(), "nobody waits for a queue that is not there");
}
