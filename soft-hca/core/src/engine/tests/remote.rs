//! Queue pairs whose peer is on another host, as the link's thread uses them.

use std::sync::atomic::Ordering::{AcqRel, Acquire};

use soft_hca_roce::transport::request::{Remote, SendQueue, Status};
use soft_hca_roce::transport::target::{Access, Completion, Received, Refusal, Target};
use soft_hca_roce::wire::opcode::SendEnd;

use super::fabric::*;
use super::waiting::MS;
use crate::engine::remote::{Arriving, RemoteSends, RemoteTarget, Sending};
use crate::engine::{Async, LINK, Route};
use crate::uapi::rxe::Cqe;
use crate::uapi::verbs::{access, opcode, qp_type, state, status};

const SUCCESS: u32 = status::SUCCESS;
const FLUSHED: u32 = status::WR_FLUSH_ERR;

/// A connected queue pair with a peer on another host.
fn remote(world: &World) -> u32 {
    let (qpn, _) = world.rc();
    Route::Remote.store(&world.entry(qpn).route);
    qpn
}

/// The same with a shared receive queue.
fn remote_with_srq(world: &World) -> (u32, u32) {
    let (qpn, srq) = (remote(world), world.srq(7));
    set(&world.entry(qpn).srq, srq + 1);
    (qpn, srq)
}

fn target<'a, 'q>(world: &'a World, qpn: u32, arriving: &'q mut Arriving) -> RemoteTarget<'a, 'q> {
    RemoteTarget { actor: world.actor(LINK), qpn, kind: qp_type::RC, arriving }
}

const MESSAGE: Completion =
    Completion { received: Received::Send(SendEnd::Plain), length: 0, solicited: false };

/// Posts requests, and has the link take them.
fn in_flight(world: &World, qpn: u32, wrs: &[Wr]) {
    for wr in wrs {
        world.put(qpn, wr);
        let (actor, mut sending) = (world.actor(LINK), Sending::default());
        let next = RemoteSends { actor, qpn, sending: &mut sending }.next_request();
        assert!(matches!(next, Ok(Some(_))), "{next:?}");
    }
}

/// The answer to the oldest request has come; whether it could be noted.
fn answered(world: &World, qpn: u32, sending: &mut Sending) -> bool {
    let mut sends = RemoteSends { actor: world.actor(LINK), qpn, sending };
    sends.complete(0, Status::Success).is_ok()
}

#[test]
fn a_completion_waits_for_room_in_the_senders_queue() {
    let world = World::new();
    let qpn = remote(&world);
    let small = world.cq(1);
    set(&world.entry(qpn).send_cq, small);
    set(&world.entry(qpn).sq_sig_all, 0);
    let wr = |wr_id| Wr::new(wr_id, opcode::SEND);
    in_flight(&world, qpn, &[wr(0), wr(1), wr(2).flags(0), wr(3)]);
    let mut sending = Sending::default();
    assert!(answered(&world, qpn, &mut sending));
    for _ in 0..3 {
        assert!(!answered(&world, qpn, &mut sending), "the queue is full");
    }
    assert_eq!(world.poll_cq(small)[0].wr_id, 0);
    assert!(answered(&world, qpn, &mut sending));
    assert!(sending.full.is_none());
    assert!(answered(&world, qpn, &mut sending), "it has no completion and needs no room");
    // It polls, and another request is faster: the time begins anew.
    assert!(!answered(&world, qpn, &mut sending));
    world.env.now_ns.fetch_add(1999 * MS, AcqRel);
    assert_eq!(world.poll_cq(small)[0].wr_id, 1);
    world.actor(DAEMON).add_completion(small, &Cqe::default(), false);
    assert!(!answered(&world, qpn, &mut sending));
    // A program that does not poll loses completions after a time.
    world.env.now_ns.fetch_add(1999 * MS, AcqRel);
    assert!(!answered(&world, qpn, &mut sending));
    assert_eq!(world.env.take_raised(), []);
    world.env.now_ns.fetch_add(MS, AcqRel);
    assert!(answered(&world, qpn, &mut sending));
    assert_eq!(world.env.take_raised(), [Async::CqOverflow(small), Async::QpFatal(qpn)]);
    assert_eq!(world.poll_cq(small).len(), 1);
    assert_eq!(world.entry(qpn).sq_in_flight.load(Acquire), 0);
    world.assert_unlocked();
}

#[test]
fn a_completion_waits_for_room_in_the_receivers_queue() {
    let world = World::new();
    let qpn = remote(&world);
    let small = world.cq(1);
    set(&world.entry(qpn).recv_cq, small);
    let mut arriving = Arriving::default();
    let mut target = target(&world, qpn, &mut arriving);
    for wr_id in 0..3 {
        world.receive(qpn, wr_id, &[]);
    }
    assert_eq!(target.consume_receive(), Ok(()));
    assert_eq!(target.complete(MESSAGE), Ok(()));
    assert_eq!(target.consume_receive(), Ok(()));
    assert_eq!(target.complete(MESSAGE), Err(Refusal::Busy));
    assert_eq!(world.poll_cq(small)[0].wr_id, 0);
    assert_eq!(target.complete(MESSAGE), Ok(()));
    assert_eq!(target.consume_receive(), Ok(()));
    assert_eq!(target.complete(MESSAGE), Err(Refusal::Busy));
    world.env.now_ns.fetch_add(2000 * MS, AcqRel);
    assert_eq!(target.complete(MESSAGE), Ok(()));
    assert_eq!(world.env.take_raised(), [Async::CqOverflow(small), Async::QpFatal(qpn)]);
    world.assert_unlocked();
}

/// The queue pair fails in one way or another while a message is half there; the status of the
/// receive.
fn fails_in_mid_message(fail: impl FnOnce(&World, u32, &mut RemoteTarget<'_, '_>), status: u32) {
    let world = World::new();
    let (qpn, srq) = remote_with_srq(&world);
    let mut memory = world.buffer(US, vec![0; 8]);
    for wr_id in [20, 21, 22] {
        world.receive_shared(srq, wr_id, &[memory.whole()]);
    }
    let mut arriving = Arriving::default();
    let mut target = target(&world, qpn, &mut arriving);
    assert_eq!(target.consume_receive(), Ok(()));
    assert_eq!((target.scatter(0, &[b"1234"]), target.complete(MESSAGE)), (Ok(()), Ok(())));
    assert_eq!(world.statuses(qpn), [(20, SUCCESS)]);
    assert_eq!((target.consume_receive(), target.scatter(0, &[b"5678"])), (Ok(()), Ok(())));
    fail(&world, qpn, &mut target);
    assert_eq!(world.state(qpn), state::ERR);
    assert_eq!(world.statuses(qpn), [(21, status)], "and no other receive of the shared queue");
    let raised = world.env.take_raised();
    assert!(raised.contains(&Async::LastWqeReached(qpn)), "{raised:?}");
    world.actor(DAEMON).poll_error_receives_of(qpn);
    assert_eq!(world.statuses(qpn), []);
    assert_eq!(target.scatter(4, &[b"90"]), Err(Refusal::Busy), "nothing more comes");
    world.assert_unlocked();
}

#[test]
fn a_receive_taken_from_a_shared_queue_is_not_lost_when_the_program_ends_the_connection() {
    fails_in_mid_message(|world, qpn, _| assert!(world.actor(DAEMON).enter_error(qpn)), FLUSHED);
}

#[test]
fn a_receive_taken_from_a_shared_queue_is_not_lost_when_the_peer_breaks_the_rules() {
    let fail = |_: &World, _, target: &mut RemoteTarget<'_, '_>| {
        assert_eq!(target.fail(Refusal::InvalidRequest), Ok(()));
    };
    fails_in_mid_message(fail, status::LOC_QP_OP_ERR);
}

#[test]
fn a_receive_taken_from_a_shared_queue_is_not_lost_when_a_send_fails() {
    let fail = |world: &World, qpn, _: &mut RemoteTarget<'_, '_>| {
        let (qp, send_cq) = (world.entry(qpn), world.cq(7));
        set(&qp.send_cq, send_cq);
        in_flight(world, qpn, &[Wr::new(1, opcode::SEND)]);
        let (actor, sending) = (world.actor(LINK), &mut Sending::default());
        let mut sends = RemoteSends { actor, qpn, sending };
        assert_eq!(sends.complete(0, Status::RetryExceeded), Ok(()));
        assert_eq!(world.statuses(qpn), [(1, status::RETRY_EXC_ERR)]);
        set(&qp.send_cq, qp.recv_cq.load(Acquire));
    };
    fails_in_mid_message(fail, FLUSHED);
}

#[test]
fn a_receive_taken_from_a_shared_queue_is_not_lost_for_want_of_a_lock() {
    let fail = |world: &World, qpn, _: &mut RemoteTarget<'_, '_>| {
        in_flight(world, qpn, &[Wr::new(1, opcode::SEND)]);
        let held = world.entry(qpn).recv_lock.try_lock(THEM).unwrap();
        let (actor, sending) = (world.actor(LINK), &mut Sending::default());
        let mut sends = RemoteSends { actor, qpn, sending };
        assert_eq!(sends.complete(0, Status::RetryExceeded), Ok(()));
        drop(held);
        assert_eq!(world.statuses(qpn), [(1, status::RETRY_EXC_ERR)]);
        world.actor(DAEMON).poll_error_receives_of(qpn);
    };
    fails_in_mid_message(fail, FLUSHED);
}

/// A message that is too long for its receive: with a reliable connection that is an error, with an
/// unreliable one it is dropped, and a receive of a shared queue completes.
#[test]
fn a_receive_that_is_too_small_for_a_message_of_another_host() {
    let world = World::new();
    let qpn = remote(&world);
    let mut memory = world.buffer(US, vec![0; 8]);
    let small = memory.sge(0, 4);
    let long = |target: &mut RemoteTarget<'_, '_>| {
        assert_eq!((target.consume_receive(), target.scatter(0, &[b"1234"])), (Ok(()), Ok(())));
        assert_eq!(target.scatter(4, &[b"5"]), Err(Refusal::ReceiveTooSmall));
    };
    world.receive(qpn, 20, &[small]);
    let mut arriving = Arriving::default();
    let mut reliable = RemoteTarget { kind: qp_type::RC, ..target(&world, qpn, &mut arriving) };
    long(&mut reliable);
    assert_eq!(reliable.fail(Refusal::ReceiveTooSmall), Ok(()));
    assert_eq!(world.statuses(qpn), [(20, status::LOC_LEN_ERR)]);
    assert_eq!(world.state(qpn), state::ERR);
    for is_shared in [false, true] {
        let (qpn, _) = world.pair(qp_type::UC);
        Route::Remote.store(&world.entry(qpn).route);
        if is_shared {
            let srq = world.srq(7);
            set(&world.entry(qpn).srq, srq + 1);
            world.receive_shared(srq, 20, &[small]);
        } else {
            world.receive(qpn, 20, &[small]);
        }
        let mut arriving = Arriving::default();
        let mut target = RemoteTarget { kind: qp_type::UC, ..target(&world, qpn, &mut arriving) };
        long(&mut target);
        assert_eq!(target.release_receive(), is_shared);
        let completed = is_shared.then_some((20, status::LOC_LEN_ERR));
        assert_eq!(world.statuses(qpn), Vec::from_iter(completed));
        assert_eq!(world.state(qpn), state::RTS);
        if !is_shared {
            assert_eq!((target.scatter(0, &[b"67"]), target.complete(MESSAGE)), (Ok(()), Ok(())));
            assert_eq!(world.statuses(qpn), [(20, SUCCESS)]);
        }
        assert_eq!(target.consume_receive(), Err(Refusal::NotReady));
    }
    world.assert_unlocked();
}

/// Requests of another host that are refused: a receive tells the program, or else an event does.
#[test]
fn a_request_of_another_host_that_is_refused() {
    let refused = |reason, has_receive, told: &[(u64, u32)], event: fn(u32) -> Option<Async>| {
        let world = World::new();
        let qpn = remote(&world);
        for wr_id in [20, 21] {
            world.receive(qpn, wr_id, &[]);
        }
        let mut arriving = Arriving::default();
        let mut target = target(&world, qpn, &mut arriving);
        if has_receive {
            assert_eq!(target.consume_receive(), Ok(()));
        }
        assert_eq!(target.fail(reason), Ok(()));
        assert_eq!(world.statuses(qpn), told);
        assert_eq!(world.state(qpn), state::ERR);
        assert_eq!(world.env.take_raised(), Vec::from_iter(event(qpn)), "{reason:?}");
        world.assert_unlocked();
    };
    let flushed = [(20, FLUSHED), (21, FLUSHED)];
    let first = |status| [(20, status), (21, FLUSHED)];
    refused(Refusal::Access, false, &flushed, |qpn| Some(Async::QpAccess(qpn)));
    refused(Refusal::InvalidRequest, false, &flushed, |qpn| Some(Async::QpRequest(qpn)));
    refused(Refusal::Access, true, &first(status::LOC_ACCESS_ERR), |_| None);
    refused(Refusal::Invalidate, true, &first(status::MW_BIND_ERR), |_| None);
}

/// Without bytes nobody looks at the key, but the queue pair has to allow the request, as between
/// queue pairs of one host.
#[test]
fn a_request_of_another_host_without_bytes_needs_the_right() {
    let memory = Remote { address: 0, rkey: 0 };
    for (access, right) in
        [(Access::Read, access::REMOTE_READ), (Access::Write, access::REMOTE_WRITE)]
    {
        let world = World::new();
        let qpn = remote(&world);
        let mut arriving = Arriving::default();
        let mut target = target(&world, qpn, &mut arriving);
        assert_eq!(target.check(access, memory, 0), Ok(()));
        set(&world.entry(qpn).access, ALL & !right);
        assert_eq!(target.check(access, memory, 0), Err(Refusal::InvalidRequest));
        let kind = if access == Access::Read { opcode::RDMA_READ } else { opcode::RDMA_WRITE };
        let (a, b) = world.rc();
        set(&world.entry(b).access, ALL & !right);
        world.send(a, &Wr::new(1, kind));
        assert_eq!(world.statuses(a), [(1, status::REM_INV_REQ_ERR)]);
    }
}

#[test]
fn a_message_of_another_host_that_must_not_invalidate() {
    let world = World::new();
    let qpn = remote(&world);
    world.receive(qpn, 20, &[]);
    let mut arriving = Arriving::default();
    let mut target = target(&world, qpn, &mut arriving);
    assert_eq!(target.consume_receive(), Ok(()));
    let received = Received::Send(SendEnd::Invalidate(0x12300));
    assert_eq!(target.complete(Completion { received, ..MESSAGE }), Err(Refusal::Invalidate));
}
