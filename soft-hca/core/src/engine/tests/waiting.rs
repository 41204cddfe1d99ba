//! Requests that cannot be executed yet: no receive, no answer.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use super::fabric::*;
use crate::arena::Mapping;
use crate::engine::segments::{Fault, Memory};
use crate::engine::{Actor, Copier, Env, LocalCopier};
use crate::uapi::verbs::{opcode, state, status};

pub(super) const MS: u64 = 1_000_000;
/// More turns than any test's timers need.
const TURNS: u32 = 1_000_000;

/// Does what the daemon does with its timers, until nothing is due any more or `until`. How long
/// the queue pair was busy with it.
pub(super) fn run_daemon(world: &World, until_ns: u64) -> u64 {
    let mut due: Vec<(u64, u32)> = Vec::new();
    let mut last = world.env.now_ns();
    for _ in 0..TURNS {
        let now = world.env.now_ns();
        due.extend(world.env.take_rescheduled().into_iter().map(|(qpn, after)| (now + after, qpn)));
        due.sort_unstable();
        if due.first().is_none_or(|&(at, _)| at > until_ns) {
            // Those are for the next time.
            world
                .env
                .rescheduled
                .lock()
                .unwrap()
                .extend(due.iter().map(|&(at, qpn)| (qpn, at - now)));
            return last;
        }
        let (at, qpn) = due.remove(0);
        last = at;
        world.env.now_ns.store(at, Release);
        world.actor(DAEMON).run_send_queue(qpn);
    }
    panic!("queue pairs are due again and again: {due:?}");
}

#[test]
fn a_late_receive_is_found() {
    let world = World::new();
    let (a, b) = world.rc();
    let mut ours = world.buffer(US, pattern(1, 8));
    let mut theirs = world.buffer(THEM, vec![0; 8]);
    set(&world.entry(a).rnr_retry, 7);
    world.send(a, &Wr::new(1, opcode::SEND).sge(ours.whole()));
    world.put(a, &Wr::new(2, opcode::SEND).inline(b"abc"));
    assert_eq!(world.poll(a), []);
    run_daemon(&world, 1000 * MS);
    assert_eq!(world.poll(a), [], "it may wait for ever");
    // It is asked for ever more rarely, but not too rarely.
    world.env.take_rescheduled();
    world.actor(DAEMON).run_send_queue(a);
    let [(_, after)] = world.env.take_rescheduled().try_into().unwrap();
    assert!((4 * MS..10 * MS).contains(&after), "{after}");
    for wr_id in [20, 21] {
        world.receive(b, wr_id, &[theirs.whole()]);
    }
    world.actor(DAEMON).run_send_queue(a);
    assert_eq!(
        (world.statuses(a), world.statuses(b)),
        (vec![(1, 0), (2, 0)], vec![(20, 0), (21, 0)])
    );
    assert_eq!(theirs.bytes[..3], *b"abc");
    assert_eq!(world.entry(a).wait.load(Acquire), 0);
    assert_eq!(world.env.take_rescheduled(), []);
}

#[test]
fn retries_for_a_receive_end_in_time() {
    // rnr_retry, min_rnr_timer, microseconds
    for (retries, timer, limit) in
        [(0, 26, 0), (1, 26, 81_920), (3, 20, 30_720), (1, 0, 655_360), (6, 12, 3840)]
    {
        let world = World::new();
        let (a, b) = world.rc();
        set(&world.entry(a).rnr_retry, retries);
        set(&world.entry(b).min_rnr_timer, timer);
        world.put(a, &Wr::new(1, opcode::SEND).flags(0));
        world.put(a, &Wr::new(2, opcode::SEND).flags(0));
        world.doorbell(a);
        let end = run_daemon(&world, u64::MAX - 1);
        assert_eq!(end, limit * 1000, "{retries} {timer}");
        assert_eq!(world.statuses(a), [(1, status::RNR_RETRY_EXC_ERR), (2, status::WR_FLUSH_ERR)]);
        assert_eq!((world.state(a), world.state(b)), (state::ERR, state::RTS));
    }
}

#[test]
fn a_peer_that_does_not_answer() {
    /// A defect of the peer.
    type Break = fn(&World, u32, u32);
    let causes: [Break; 7] = [
        |world, _, b| world.entry(b).live.store(0, Release),
        |world, _, b| set(&world.entry(b).state, state::ERR),
        |world, _, b| set(&world.entry(b).state, state::RESET),
        |world, _, b| set(&world.entry(b).state, state::INIT),
        |world, a, _| set(&world.entry(a).dest_qpn, 0x4444),
        |world, a, _| set(&world.entry(a).sq_psn, 77),
        |world, _, b| set(&world.entry(b).dest_qpn, 0x4444),
    ];
    for (i, cause) in causes.into_iter().enumerate() {
        let world = World::new();
        let (a, b) = world.rc();
        world.receive(b, 20, &[]);
        cause(&world, a, b);
        set(&world.entry(a).retry_cnt, 1);
        world.send(a, &Wr::new(1, opcode::SEND));
        assert_eq!(world.poll(a), []);
        // 4.096 us * 2^14, twice
        assert_eq!(run_daemon(&world, u64::MAX - 1) / MS, 134, "{i}");
        assert_eq!(world.statuses(a), [(1, status::RETRY_EXC_ERR)]);
        assert_eq!(world.state(a), state::ERR);
    }
}

#[test]
fn without_a_timeout_there_is_no_end() {
    let world = World::new();
    let (a, b) = world.rc();
    set(&world.entry(a).timeout, 0);
    set(&world.entry(b).state, state::INIT);
    world.send(a, &Wr::new(1, opcode::RDMA_WRITE));
    run_daemon(&world, 10_000 * MS);
    assert_eq!(world.poll(a), []);
    set(&world.entry(b).state, state::RTR);
    run_daemon(&world, 10_020 * MS);
    assert_eq!(world.statuses(a), [(1, 0)]);
}

#[test]
fn what_is_awaited_may_change() {
    let world = World::new();
    let (a, b) = world.rc();
    set(&world.entry(a).rnr_retry, 7);
    world.send(a, &Wr::new(1, opcode::SEND));
    run_daemon(&world, 5000 * MS);
    assert_eq!(world.poll(a), []);
    set(&world.entry(b).state, state::ERR);
    run_daemon(&world, u64::MAX - 1);
    assert_eq!(world.statuses(a), [(1, status::RETRY_EXC_ERR)]);
}

#[test]
fn the_daemon_is_asked_once() {
    let world = World::new();
    let (a, _) = world.rc();
    for wr_id in 0..3 {
        world.send(a, &Wr::new(wr_id, opcode::SEND));
    }
    assert_eq!(world.env.take_rescheduled().len(), 1);
}

#[test]
fn who_posts_a_receive_and_rings_helps_the_peer() {
    let world = World::new();
    let (a, b) = world.rc();
    let mut ours = world.buffer(US, pattern(1, 8));
    let mut theirs = world.buffer(THEM, vec![0; 8]);
    world.send(a, &Wr::new(1, opcode::SEND).sge(ours.whole()));
    world.receive(b, 20, &[theirs.whole()]);
    world.receive(a, 30, &[]);
    world.send(b, &Wr::new(5, opcode::SEND));
    assert_eq!(world.statuses(a), [(30, 0), (1, 0)]);
    assert_eq!(world.statuses(b), [(5, 0), (20, 0)]);
    assert_eq!(theirs.bytes, ours.bytes);
}

#[test]
fn the_daemon_does_not_wait_for_a_busy_queue() {
    let world = World::new();
    let (a, b) = world.rc();
    world.receive(b, 20, &[]);
    world.put(a, &Wr::new(1, opcode::SEND));
    {
        let _guard = world.entry(a).send_lock.lock(US, || {});
        world.actor(DAEMON).run_send_queue(a);
    }
    let [(qpn, _)] = world.env.take_rescheduled().try_into().unwrap();
    world.actor(DAEMON).run_send_queue(qpn);
    assert_eq!(world.statuses(a), [(1, 0)]);
}

#[test]
fn the_daemon_comes_back_for_a_long_queue() {
    let world = World::new();
    let (a, b) = world.rc();
    let qp = world.entry(a);
    world.ring(&qp.sq, 255, 8);
    world.ring(&world.entry(b).rq, 255, 6);
    for wr_id in 0..200 {
        world.receive(b, wr_id, &[]);
        world.put(a, &Wr::new(wr_id, opcode::SEND).flags(0));
    }
    world.actor(DAEMON).run_send_queue(a);
    let first = world.poll(b).len();
    assert!(first > 0 && first < 200, "{first}");
    run_daemon(&world, u64::MAX - 1);
    assert_eq!(first + world.poll(b).len(), 200);
}

#[test]
fn a_receive_that_cannot_be_taken_is_not_waited_for_endlessly() {
    let world = World::new();
    let srq = world.srq(7);
    let (a, b) = world.rc();
    set(&world.entry(b).srq, srq + 1);
    world.receive_shared(srq, 20, &[]);
    world.arena.srqs[srq as usize].live.store(0, Release);
    world.send(a, &Wr::new(1, opcode::SEND));
    assert_eq!((world.poll(a), world.poll(b)), (vec![], vec![]));
    assert_eq!(world.env.take_rescheduled().len(), 1);
}

/// The link of one machine, with its copies counted.
#[derive(Debug, Default)]
struct CountingCopier {
    copier: LocalCopier,
    copies: AtomicU32,
}

impl Copier for CountingCopier {
    fn copy(
        &self,
        arena: &Mapping,
        me: usize,
        from: Memory<'_>,
        to: Memory<'_>,
    ) -> Result<(), Fault> {
        self.copies.fetch_add(1, AcqRel);
        self.copier.copy(arena, me, from, to)
    }
}

#[test]
fn what_has_waited_is_executed_together() {
    for me in [US, DAEMON] {
        let world = World::new();
        let copier = CountingCopier::default();
        let (a, b) = world.rc();
        world.move_at_once(b);
        let mut ours = world.buffer(US, pattern(1, 80));
        let mut theirs = world.buffer(THEM, vec![0; 80]);
        for i in 0..10 {
            world.put(a, &Wr::new(i, opcode::SEND).sge(ours.sge(8 * i as usize, 8)));
        }
        let actor = Actor { copier: &copier, ..world.actor(me) };
        actor.run_send_queue(a);
        assert_eq!((world.poll(a), copier.copies.load(Acquire)), (vec![], 0));
        for i in 0..10 {
            world.receive(b, i, &[theirs.sge(8 * i as usize, 8)]);
        }
        actor.run_send_queue(a);
        assert_eq!(world.statuses(b), (0..10).map(|i| (i, 0)).collect::<Vec<_>>());
        assert_eq!(theirs.bytes, ours.bytes);
        assert_eq!(copier.copies.load(Acquire), 1, "{me}");
    }
}
