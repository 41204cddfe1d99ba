//! Requests that are executed and not yet completed, as when a peer answers by packets.

use std::sync::atomic::Ordering::Acquire;

use super::fabric::*;
use crate::engine::Async;
use crate::uapi::verbs::{opcode, send_flag, state, status};

const FENCED: u32 = send_flag::SIGNALED | send_flag::FENCE;

/// Two connected queue pairs; of the first's requests the given ones are in flight.
fn with_in_flight(wrs: &[Wr]) -> (World, u32, u32) {
    let world = World::new();
    let (a, b) = world.rc();
    wrs.iter().for_each(|wr| world.put(a, wr));
    set(&world.entry(a).sq_in_flight, wrs.len() as u32);
    (world, a, b)
}

fn cursors(world: &World, qpn: u32) -> (u32, u32) {
    let qp = world.entry(qpn);
    (qp.sq_consumer.load(Acquire), qp.sq_in_flight.load(Acquire))
}

#[test]
fn within_the_fabric_nothing_is_in_flight() {
    let (world, a, b) = with_in_flight(&[]);
    world.receive(b, 20, &[]);
    world.send(a, &Wr::new(1, opcode::SEND).flags(FENCED));
    assert_eq!(world.statuses(a), [(1, 0)]);
    assert_eq!(cursors(&world, a), (1, 0));
}

#[test]
fn completions_come_in_the_order_of_the_requests() {
    let mut wr = Wr::new(1, opcode::RDMA_WRITE);
    let (world, a, b) = with_in_flight(&[wr.clone(), Wr::new(2, opcode::SEND).inline(b"abc")]);
    wr.wr_id = 3;
    (20..22).for_each(|wr_id| world.receive(b, wr_id, &[]));
    world.send(a, &Wr::new(4, opcode::SEND));
    world.send(a, &wr);
    assert_eq!(world.statuses(b), [(20, 0)], "it is executed");
    assert_eq!(world.statuses(a), [], "but not completed before those in flight");
    assert_eq!(cursors(&world, a), (0, 4));
    assert!(world.actor(US).complete_in_flight(a, 1));
    assert_eq!(world.statuses(a), [(1, 0)]);
    assert_eq!(cursors(&world, a), (1, 3));
    assert!(world.actor(US).complete_in_flight(a, 100));
    let completed = world.poll(a);
    assert_eq!(completed.iter().map(|cqe| cqe.wr_id).collect::<Vec<_>>(), [2, 4, 3]);
    assert_eq!(completed[0].byte_len, 3);
    assert_eq!(cursors(&world, a), (4, 0));
    world.assert_unlocked();
}

#[test]
fn the_daemon_completes_nothing_while_somebody_has_a_lock() {
    let (world, a, _) = with_in_flight(&[Wr::new(1, opcode::SEND)]);
    let qp = world.entry(a);
    for lock in [&qp.send_lock, &world.arena.cqs[qp.send_cq.load(Acquire) as usize].lock] {
        let _guard = lock.lock(US, || {});
        assert!(!world.actor(DAEMON).complete_in_flight(a, 1));
        assert_eq!((world.statuses(a), cursors(&world, a)), (vec![], (0, 1)));
    }
    assert!(world.actor(DAEMON).complete_in_flight(a, 1));
    assert_eq!((world.statuses(a), cursors(&world, a)), (vec![(1, 0)], (1, 0)));
}

#[test]
fn a_fence_waits_for_reads_and_atomics() {
    for (in_flight, waits) in [
        (opcode::RDMA_READ, true),
        (opcode::ATOMIC_CMP_AND_SWP, true),
        (opcode::ATOMIC_FETCH_AND_ADD, true),
        (opcode::RDMA_WRITE, false),
        (opcode::SEND, false),
    ] {
        let (world, a, b) = with_in_flight(&[Wr::new(1, in_flight)]);
        (20..22).for_each(|wr_id| world.receive(b, wr_id, &[]));
        // Both are there when the queue is run, and would go in one batch.
        world.put(a, &Wr::new(2, opcode::SEND));
        world.send(a, &Wr::new(3, opcode::SEND).flags(FENCED));
        let begun = world.statuses(b).len();
        assert_eq!(begun, if waits { 1 } else { 2 }, "{in_flight}");
        assert_eq!(world.env.take_rescheduled(), [], "whoever completes it comes back");
        assert!(world.actor(US).complete_in_flight(a, 100));
        assert_eq!(world.statuses(a), [(1, 0), (2, 0), (3, 0)]);
        assert_eq!(world.statuses(b).len(), 2 - begun);
        assert_eq!(cursors(&world, a), (3, 0));
    }
}

#[test]
fn a_failure_waits_for_what_is_in_flight() {
    let (world, a, _) = with_in_flight(&[Wr::new(1, opcode::RDMA_WRITE)]);
    world.send(a, &Wr::new(2, opcode::TSO));
    assert_eq!((world.statuses(a), world.state(a)), (vec![], state::RTS));
    assert!(world.actor(US).complete_in_flight(a, 1));
    assert_eq!(world.statuses(a), [(1, 0), (2, status::LOC_QP_OP_ERR)]);
    assert_eq!(world.state(a), state::ERR);
}

#[test]
fn what_is_in_flight_is_flushed() {
    let (world, a, _) = with_in_flight(&[Wr::new(1, opcode::SEND), Wr::new(2, opcode::RDMA_READ)]);
    world.put(a, &Wr::new(3, opcode::SEND));
    assert!(world.actor(DAEMON).enter_error(a));
    let flushed = (1..4).map(|wr_id| (wr_id, status::WR_FLUSH_ERR)).collect::<Vec<_>>();
    assert_eq!(world.statuses(a), flushed);
    assert_eq!(cursors(&world, a), (3, 0));
    assert!(world.actor(DAEMON).complete_in_flight(a, 2));
    assert_eq!((world.statuses(a), cursors(&world, a)), (vec![], (3, 0)), "too late");
}

#[test]
fn a_queue_with_requests_in_flight_is_not_drained() {
    let (world, a, _) = with_in_flight(&[Wr::new(1, opcode::SEND)]);
    set(&world.entry(a).sqd_notify, 1);
    set(&world.entry(a).state, state::SQD);
    world.actor(DAEMON).run_send_queue(a);
    assert_eq!(world.env.take_raised(), []);
    assert!(world.actor(DAEMON).complete_in_flight(a, 1));
    assert_eq!(world.env.take_raised(), [Async::SqDrained(a)]);
    assert_eq!(world.statuses(a), [(1, 0)]);
}

#[test]
fn a_count_that_makes_no_sense_is_not_believed() {
    let (world, a, _) = with_in_flight(&[Wr::new(1, opcode::SEND)]);
    set(&world.entry(a).sq_in_flight, u32::MAX);
    world.doorbell(a);
    world.actor(DAEMON).run_again([0]);
    assert_eq!(world.env.take_rescheduled(), [], "nothing is left to be executed");
    assert!(world.actor(US).complete_in_flight(a, u32::MAX));
    assert_eq!((world.statuses(a), cursors(&world, a)), (vec![(1, 0)], (1, 0)));
}
