//! Events that are traced while somebody records.

use super::fabric::*;
use crate::arena::{Clock, OperationKind, Place, Subject};
use crate::engine::{DAEMON, ReceiveQueue};
use crate::trace::event::Seen;
use crate::uapi::verbs::{opcode, qp_type, send_flag};

fn traced() -> World {
    let world = World::new();
    set(&world.arena.trace_generation, 1);
    world
}

#[test]
fn a_ping_pong_is_traced_in_order() {
    let world = traced();
    let (a, b) = world.rc();
    let mut ours = world.buffer(US, pattern(1, 8));
    let mut theirs = world.buffer(THEM, vec![0; 8]);
    world.receive(b, 20, &[theirs.whole()]);
    world.receive(a, 30, &[ours.whole()]);
    world.send(a, &Wr::new(1, opcode::SEND).sge(ours.whole()));
    let solicited = send_flag::SIGNALED | send_flag::SOLICITED;
    world.send(b, &Wr::new(2, opcode::SEND_WITH_IMM).flags(solicited).sge(theirs.sge(0, 5)));
    let expected = [
        format!("completion 1 ({b}, 20, 128, 0) false false"),
        format!("request {a} (1, 2) 8 0 Some(({b}, 20))"),
        format!("completion 0 ({a}, 1, 0, 0) false false"),
        format!("completion 0 ({a}, 30, 128, 0) true false"),
        format!("request {b} (2, 3) 5 0 Some(({a}, 30))"),
        format!("completion 1 ({b}, 2, 0, 0) false false"),
    ];
    assert_eq!(world.env.take_traced(), expected);
}

#[test]
fn each_receive_is_traced_once_where_it_is_seen_first() {
    let world = traced();
    let (a, b) = world.rc();
    let seen = || {
        let receives = std::mem::take(&mut *world.env.receives.lock().unwrap());
        let seen = |(posted, t): (crate::trace::event::ReceivePosted, _)| {
            assert_eq!(({ posted.queue }, { posted.is_shared }), (b, 0));
            (posted.wr_id, Seen::of(posted.seen).unwrap(), t)
        };
        receives.into_iter().map(seen).collect::<Vec<_>>()
    };
    let posted = |t| world.actor(THEM).trace_posted_receives(ReceiveQueue::Own(b), t);
    world.receive(b, 20, &[]);
    posted(None);
    world.receive(b, 21, &[]);
    world.receive(b, 22, &[]);
    posted(Some(5));
    posted(Some(6));
    assert_eq!(
        seen(),
        [(20, Seen::AtCall, None), (21, Seen::AtPost, Some(5)), (22, Seen::AtPost, Some(5))]
    );
    world.receive(b, 23, &[]);
    (1..5).for_each(|wr_id| world.send(a, &Wr::new(wr_id, opcode::SEND)));
    assert_eq!(seen(), [(23, Seen::AtMessage, None)]);
    world.receive(b, 24, &[]);
    posted(Some(7));
    world.actor(THEM).trace_posted_to([b]);
    assert_eq!(seen(), [(24, Seen::AtPost, Some(7))]);
}

/// Another process executes it, or the queue pair's failure flushes it, before its poster rings the doorbell.
#[test]
fn each_send_is_traced_once_whoever_sees_it_first() {
    let world = traced();
    let (a, b) = world.rc();
    let seen = || std::mem::take(&mut *world.env.sends.lock().unwrap());
    world.receive(b, 20, &[]);
    world.put(a, &Wr::new(1, opcode::SEND));
    world.actor(DAEMON).run_send_queue(a);
    assert_eq!(world.statuses(a), [(1, 0)]);
    assert_eq!(seen(), [(US as u32, 1)]);
    world.doorbell(a);
    assert!(seen().is_empty());
    world.put(a, &Wr::new(2, opcode::SEND));
    assert!(world.actor(DAEMON).enter_error(a));
    assert_eq!(seen(), [(US as u32, 2)]);
    world.put(a, &Wr::new(3, opcode::SEND));
    world.doorbell(a);
    assert_eq!(seen(), [(US as u32, 3)]);
}

#[test]
fn nothing_is_traced_while_nobody_records() {
    let world = World::new();
    let (a, b) = world.rc();
    world.receive(b, 20, &[]);
    world.send(a, &Wr::new(1, opcode::SEND));
    assert_eq!(world.statuses(a), [(1, 0)]);
    assert_eq!(world.env.take_traced(), [""; 0]);
}

#[test]
fn every_request_of_a_list_is_traced_also_without_completion() {
    let world = traced();
    let (a, _) = world.rc();
    let mut theirs = world.buffer(THEM, vec![0; 8]);
    let write = |wr_id| Wr::new(wr_id, opcode::RDMA_WRITE).flags(0).inline(b"abc");
    let (addr, key) = (theirs.addr(), theirs.key);
    (1..3).for_each(|wr_id| world.put(a, &write(wr_id).remote(addr, key)));
    world.doorbell(a);
    let expected = (1..3).map(|wr_id| format!("request {a} ({wr_id}, 0) 3 0 None"));
    assert_eq!(world.env.take_traced(), expected.collect::<Vec<_>>());
}

#[test]
fn failures_and_what_they_flush_are_traced() {
    let world = traced();
    let (a, b) = world.rc();
    world.receive(b, 20, &[]);
    world.put(a, &Wr::new(1, opcode::RDMA_READ).sge(Default::default()).remote(0, 0));
    world.put(a, &Wr::new(2, opcode::TSO));
    world.put(a, &Wr::new(3, opcode::SEND));
    world.doorbell(a);
    let expected = [
        format!("request {a} (1, 4) 0 0 None"),
        format!("completion 0 ({a}, 1, 2, 0) false false"),
        format!("request {a} (2, 10) 0 2 None"),
        format!("completion 0 ({a}, 2, 0, 2) false false"),
        format!("completion 0 ({a}, 3, 0, 5) false false"),
    ];
    assert_eq!(world.env.take_traced(), expected);
}

#[test]
fn lost_completions_and_events_are_traced() {
    let world = traced();
    let cq = world.cq(1);
    let cqe = crate::uapi::rxe::Cqe::error(5, 2, 17);
    (0..2).for_each(|_| world.actor(US).add_completion(cq, &cqe, false));
    let expected = [
        "completion 0 (17, 5, 0, 2) false false",
        "completion 0 (17, 5, 0, 2) false true",
        "Async(CqOverflow(0))",
    ];
    assert_eq!(world.env.take_traced(), expected);
}

#[test]
fn a_datagram_names_the_receive_that_has_taken_it() {
    let world = traced();
    let (a, b) = world.pair(qp_type::UD);
    let mut header = world.buffer(THEM, vec![0; 40]);
    let ah = &world.arena.ahs[0];
    for (field, value) in [(&ah.proc, US as u32), (&ah.pd, PD), (&ah.live, 1)] {
        set(field, value);
    }
    let wr = Wr::new(1, opcode::SEND).word(24, b).word(28, 0x1111).word(36, 1);
    world.send(a, &wr);
    world.receive(b, 20, &[header.whole()]);
    world.send(a, &wr);
    let mut requests = world.env.take_traced();
    requests.retain(|line| line.starts_with("request"));
    let lost = format!("request {a} (1, 2) 0 0 None");
    assert_eq!(requests, [lost, format!("request {a} (1, 2) 0 0 Some(({b}, 20))")]);
}

/// A process with a sanitizer wants to know what peers do at its memory, and where they have posted it.
#[test]
fn a_peer_is_told_of_operations_that_were_executed() {
    let world = World::new();
    let (a, _) = world.pair(qp_type::UC);
    let mut source = world.buffer(US, pattern(1, 10));
    let mut target = world.buffer(THEM, vec![0; 30]);
    let (addr, key) = (target.addr(), target.key);
    let write = |wr_id, key| Wr::new(wr_id, opcode::RDMA_WRITE).remote(addr, key);
    let actor = world.actor(US);
    let mut done = |wr_id: u64, key: u32, place: u32| {
        world.put(a, &write(wr_id, key).sge(source.whole()));
        actor.set_origins(a, 0, || place);
        world.doorbell(a);
    };
    let operations = &world.arena.operations[THEM];
    done(1, key, 1);
    assert_eq!(operations.count(), 0);
    set(&world.arena.procs[THEM].wants_operations, 1);
    world.arena.watch();
    world.arena.places[US].set(1, Place::new("client.c:88"));
    done(2, key, 1);
    // Nobody allows this one, so that it is lost.
    done(3, 0xbad00, 1);
    done(4, key, 0);
    let mut taken = 0;
    let told: Vec<_> = std::iter::from_fn(|| operations.next(&mut taken))
        .map(|done| (done.kind, done.address, done.length, done.wr_id, done.place.text()))
        .collect();
    let told_of = |wr_id, place: Option<&str>| {
        (OperationKind::Write, addr, 10, wr_id, place.map(str::to_string))
    };
    assert_eq!(told, [told_of(2, Some("client.c:88")), told_of(4, None)]);
}

/// It is told of messages, too, and of the moment at which its peer has posted them.
#[test]
fn a_peer_is_told_of_messages_and_their_moments() {
    let world = World::new();
    let (a, b) = world.pair(qp_type::RC);
    let mut source = world.buffer(US, pattern(1, 10));
    let mut target = world.buffer(THEM, vec![0; 30]);
    let actor = world.actor(US);
    set(&world.arena.procs[THEM].wants_operations, 1);
    world.arena.watch();
    let clock = |moment| {
        let mut clock = Clock::default();
        clock.learn(Subject::Process(US as u32), moment);
        clock
    };
    (1..=2).for_each(|moment| world.arena.clocks[US].begin(moment, &clock(moment)));
    world.receive(b, 20, &[target.whole()]);
    world.receive(b, 21, &[target.whole()]);
    let (addr, key) = (target.addr(), target.key);
    let write = Wr::new(2, opcode::RDMA_WRITE_WITH_IMM).remote(addr, key);
    for (moment, wr) in [(1, Wr::new(1, opcode::SEND)), (2, write)] {
        world.put(a, &wr.sge(source.whole()));
        actor.set_origins(a, moment, || 0);
    }
    world.doorbell(a);
    let mut taken = 0;
    let told: Vec<_> =
        std::iter::from_fn(|| world.arena.operations[THEM].next(&mut taken)).collect();
    let words = told.iter().map(|told| (told.kind, told.wr_id, told.moment));
    let expected = [
        (OperationKind::Message, 1, 1),
        (OperationKind::Write, 2, 2),
        (OperationKind::Message, 2, 2),
    ];
    assert_eq!(words.collect::<Vec<_>>(), expected);
    assert!(told.iter().all(|told| (told.qpn, told.to, told.peer) == (a, b, US as u32)));
    assert_eq!(world.arena.clocks[US].at(told[0].moment), clock(1));
}
