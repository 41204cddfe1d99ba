//! States: before RTS, SQD, the error state.

use std::sync::atomic::Ordering::Acquire;

use super::fabric::*;
use crate::engine::Async;
use crate::errno::Errno;
use crate::uapi::verbs::{opcode, state, status::WR_FLUSH_ERR};

#[test]
fn what_is_refused_before_rts_is_dropped() {
    let world = World::new();
    let (a, b) = world.rc();
    world.receive(b, 20, &[]);
    // Around the ring's end, and as many as it holds.
    for count in [40, 63, 1] {
        for early in [state::RESET, state::INIT, state::RTR] {
            set(&world.entry(a).state, early);
            (0..count).for_each(|wr_id| world.put(a, &Wr::new(wr_id, opcode::SEND)));
            assert_eq!(world.actor(US).doorbell(a), Err(Errno::EINVAL));
        }
    }
    assert_eq!(world.actor(US).doorbell(0x3333), Err(Errno::ENOENT));
    set(&world.entry(a).state, state::RTS);
    world.actor(DAEMON).run_send_queue(a);
    assert_eq!((world.poll(a), world.poll(b)), (vec![], vec![]));
    world.send(a, &Wr::new(70, opcode::SEND));
    assert_eq!((world.statuses(a), world.statuses(b)), (vec![(70, 0)], vec![(20, 0)]));
}

#[test]
fn a_responder_needs_no_more_than_rtr() {
    let world = World::new();
    let (a, b) = world.rc();
    for (i, enough) in [state::RTR, state::RTS, state::SQD, state::SQE].into_iter().enumerate() {
        set(&world.entry(b).state, enough);
        world.receive(b, 20, &[]);
        world.send(a, &Wr::new(i as u64, opcode::SEND));
        assert_eq!(world.statuses(b), [(20, 0)]);
    }
}

#[test]
fn drained_and_going_on() {
    let world = World::new();
    let (a, b) = world.rc();
    set(&world.entry(a).sqd_notify, 1);
    set(&world.entry(a).state, state::SQD);
    world.actor(DAEMON).run_send_queue(a);
    assert_eq!(world.env.take_raised(), [Async::SqDrained(a)]);
    world.receive(b, 20, &[]);
    world.send(a, &Wr::new(1, opcode::SEND));
    assert_eq!((world.poll(a), world.env.take_raised()), (vec![], vec![]));
    set(&world.entry(a).state, state::RTS);
    world.actor(DAEMON).run_send_queue(a);
    assert_eq!(world.statuses(a), [(1, 0)]);
}

#[test]
fn draining_waits_for_what_has_begun() {
    let world = World::new();
    let (a, b) = world.rc();
    world.put(a, &Wr::new(1, opcode::SEND));
    world.put(a, &Wr::new(2, opcode::SEND));
    world.doorbell(a);
    set(&world.entry(a).sqd_notify, 1);
    set(&world.entry(a).state, state::SQD);
    world.actor(DAEMON).run_send_queue(a);
    assert_eq!(world.env.take_raised(), []);
    world.receive(b, 20, &[]);
    world.receive(b, 21, &[]);
    world.actor(DAEMON).run_send_queue(a);
    assert_eq!(world.env.take_raised(), [Async::SqDrained(a)]);
    assert_eq!(world.statuses(a), [(1, 0)], "the second has not begun");
}

#[test]
fn everything_posted_is_flushed() {
    let world = World::new();
    let (a, b) = world.rc();
    let mut memory = world.buffer(US, vec![0; 8]);
    for i in 0..3 {
        world.receive(a, 30 + i, &[memory.whole()]);
        world.put(a, &Wr::new(i, opcode::SEND).flags(0));
    }
    assert!(world.actor(DAEMON).enter_error(a));
    let all = world.poll(a);
    assert!(all.iter().all(|cqe| (cqe.opcode, cqe.byte_len, cqe.qp_num) == (0, 0, a)));
    let ids: Vec<_> = all.iter().map(|cqe| (cqe.wr_id, cqe.status)).collect();
    assert_eq!(ids, [0, 1, 2, 30, 31, 32].map(|wr_id| (wr_id, WR_FLUSH_ERR)));
    assert_eq!(world.state(a), state::ERR);
    // Later ones as well; for receives somebody has to look.
    world.send(a, &Wr::new(9, opcode::SEND));
    world.receive(a, 39, &[memory.whole()]);
    assert_eq!(world.statuses(a), [(9, WR_FLUSH_ERR)]);
    world.actor(DAEMON).poll_error_receives_of(a);
    assert_eq!(world.statuses(a), [(39, WR_FLUSH_ERR)]);
    world.receive(b, 20, &[]);
    world.actor(DAEMON).poll_error_receives_of(b);
    assert_eq!((world.poll(a), world.poll(b)), (vec![], vec![]));
    world.assert_unlocked();
}

#[test]
fn shared_receives_are_not_flushed() {
    let world = World::new();
    let (a, _) = world.rc();
    let srq = world.srq(7);
    set(&world.entry(a).srq, srq + 1);
    world.receive_shared(srq, 1, &[]);
    assert!(world.actor(DAEMON).enter_error(a));
    assert_eq!(world.env.take_raised(), [Async::LastWqeReached(a)]);
    assert!(world.actor(DAEMON).enter_error(a));
    assert_eq!(world.env.take_raised(), [], "once");
    world.actor(DAEMON).poll_error_receives_of(a);
    assert_eq!(world.poll(a), []);
    assert_eq!(world.arena.srqs[srq as usize].consumer.load(Acquire), 0);
}

#[test]
fn a_failed_peer_flushes_its_sends_too() {
    let world = World::new();
    let (a, b) = world.rc();
    // The peer has something to send, which waits.
    world.send(b, &Wr::new(50, opcode::SEND).flags(0));
    world.env.take_rescheduled();
    world.send(a, &Wr::new(1, opcode::RDMA_WRITE).inline(b"x").remote(1, 2));
    assert_eq!(world.statuses(b), [(50, WR_FLUSH_ERR)]);
    // The daemon knows of both, and of each once.
    let mut told = world.env.take_rescheduled();
    told.sort_unstable();
    assert_eq!(told, [(a, 0), (b, 0)]);
    assert_eq!(world.entry(b).wait.load(Acquire), 0);
    assert_eq!((world.state(a), world.state(b)), (state::ERR, state::ERR));
}

#[test]
fn a_reset_peer_is_not_dragged_into_the_error_state() {
    let world = World::new();
    let (a, _) = world.rc();
    for current in [state::RESET, state::INIT] {
        set(&world.entry(a).state, current);
        let mut deferred = crate::engine::deferred::Deferred::default();
        let can_fail = crate::engine::flush::can_fail;
        crate::engine::flush::set_error(world.entry(a), a, can_fail, &mut deferred);
        assert_eq!(world.state(a), current);
    }
}

#[test]
fn memory_is_quiet_when_both_sides_are() {
    let world = World::new();
    let (a, _) = world.rc();
    let daemon = world.actor(DAEMON);
    for lock in [&world.entry(a).send_lock, &world.entry(a).recv_lock] {
        let guard = lock.lock(US, || {});
        let mut all = daemon.quiesce(0..3, US, None);
        // Those of somebody else do not count.
        let mut theirs = daemon.quiesce([1], US, None);
        assert!(daemon.is_quiet(&mut theirs));
        assert!(!daemon.is_quiet(&mut all));
        drop(guard);
        assert!(daemon.is_quiet(&mut all));
        let _later = lock.lock(US, || {});
        assert!(daemon.is_quiet(&mut all), "who begins later uses other memory");
    }
}

#[test]
fn an_error_needs_all_locks_or_changes_nothing() {
    let world = World::new();
    let (a, _) = world.rc();
    let qp = world.entry(a);
    let cqs = [&qp.send_cq, &qp.recv_cq].map(|cq| &world.arena.cqs[cq.load(Acquire) as usize].lock);
    for lock in [&qp.send_lock, &qp.recv_lock, cqs[0], cqs[1]] {
        let _guard = lock.lock(US, || {});
        assert!(!world.actor(DAEMON).enter_error(a));
        assert_eq!(world.state(a), state::RTS);
    }
    assert!(world.actor(DAEMON).enter_error(a));
    assert_eq!(world.state(a), state::ERR);
}
