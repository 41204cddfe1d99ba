//! Completion queues and shared receive queues.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread;

use super::fabric::*;
use crate::engine::{Actor, Async, Reading, Tokens};
use crate::uapi::rxe::Cqe;
use crate::uapi::verbs::{opcode, status};

fn add(world: &World, cq: u32, status: u32, solicited: bool) -> bool {
    let cqe = Cqe::error(1, status, 2);
    world.actor(US).add_completion(cq, &cqe, solicited);
    !world.env.take_wakes().is_empty()
}

#[test]
fn an_armed_queue_tells_once() {
    let world = World::new();
    let cq = world.cq_with_channel(15);
    let actor = world.actor(US);
    assert!(!add(&world, cq, 0, true), "not armed");
    actor.arm(cq, false);
    assert!(world.env.take_wakes().is_empty(), "for what is there already");
    world.actor(US).add_completion(cq, &Cqe::default(), false);
    assert_eq!(world.env.take_wakes(), [(cq, 100 + cq)]);
    assert_eq!(world.arena.cqs[cq as usize].pending_events.load(Acquire), 1);
    assert!(!add(&world, cq, 0, true), "disarmed by the event");
}

#[test]
fn solicited_or_failed() {
    let world = World::new();
    let cq = world.cq_with_channel(31);
    let actor = world.actor(US);
    actor.arm(cq, true);
    assert!(!add(&world, cq, 0, false));
    assert!(add(&world, cq, 0, true));
    actor.arm(cq, true);
    assert!(add(&world, cq, status::WR_FLUSH_ERR, false));
    // "Any" is the stronger wish, in either order.
    actor.arm(cq, false);
    actor.arm(cq, true);
    assert!(add(&world, cq, 0, false));
    actor.arm(cq, true);
    actor.arm(cq, false);
    assert!(add(&world, cq, 0, false));
    assert_eq!(world.arena.cqs[cq as usize].pending_events.load(Acquire), 4);
}

#[test]
fn without_a_channel_nobody_is_woken() {
    let world = World::new();
    let cq = world.cq(3);
    world.actor(US).arm(cq, false);
    assert!(!add(&world, cq, 0, false));
    let closed = world.cq_with_channel(3);
    world.arena.channels[closed as usize].live.store(0, Release);
    world.actor(US).arm(closed, false);
    assert!(!add(&world, closed, 0, false));
    assert_eq!(world.arena.cqs[closed as usize].pending_events.load(Acquire), 0);
    // No such queue
    world.actor(US).arm(u32::MAX, false);
    assert!(!add(&world, u32::MAX, 0, false));
}

/// A queue whose event's token somebody was about to give when he was killed.
fn with_a_missing_token(world: &World) -> u32 {
    let cq = world.cq_with_channel(3);
    world.actor(US).arm(cq, false);
    assert!(add(world, cq, 0, false));
    world.arena.cqs[cq as usize].token_due_from.store(US as u32 + 1, Release);
    cq
}

fn tokens_of(world: &World, cq: u32, is_readable: bool) -> Tokens {
    world.actor(DAEMON).tokens_of((cq, 100 + cq), [cq as usize, 99], || is_readable)
}

#[test]
fn only_the_dead_owe_tokens() {
    let world = World::new();
    let cq = world.cq_with_channel(3);
    world.actor(US).arm(cq, false);
    assert!(add(&world, cq, 0, false));
    let missing_tokens_of = |dead| world.actor(DAEMON).missing_tokens_of(dead, [cq as usize, 99]);
    assert_eq!(missing_tokens_of(US), (vec![], true), "the token has been given");
    let cq = with_a_missing_token(&world);
    let missing_tokens_of = |dead| world.actor(DAEMON).missing_tokens_of(dead, [cq as usize, 99]);
    assert_eq!(missing_tokens_of(THEM), (vec![], true));
    let guard = world.arena.cqs[cq as usize].lock.lock(THEM, || {});
    assert_eq!(missing_tokens_of(US), (vec![], false), "somebody else has the queue's lock");
    drop(guard);
    assert_eq!(missing_tokens_of(US), (vec![(cq, 100 + cq)], true));
    assert_eq!(missing_tokens_of(US), (vec![], true), "once");
    assert_eq!(world.env.take_wakes(), [], "that is not clear yet");
}

#[test]
fn a_token_is_missed_if_there_is_an_event_and_nobody_at_it() {
    let world = World::new();
    let cq = with_a_missing_token(&world);
    let (queue, channel) = (&world.arena.cqs[cq as usize], &world.arena.channels[cq as usize]);
    assert_eq!(tokens_of(&world, cq, false), Tokens::Unclear, "somebody is about to give it");
    world.actor(DAEMON).missing_tokens_of(US, [cq as usize]);
    assert_eq!(tokens_of(&world, cq, false), Tokens::Missing);
    assert_eq!(tokens_of(&world, cq, true), Tokens::Unclear);
    let reading = Reading::begin(&channel.reads);
    assert_eq!(tokens_of(&world, cq, false), Tokens::Unclear, "it may be in his hands");
    drop(reading);
    assert_eq!(tokens_of(&world, cq, false), Tokens::Missing);
    let reads_meanwhile = || {
        drop(Reading::begin(&channel.reads));
        false
    };
    let found = world.actor(DAEMON).tokens_of((cq, 100 + cq), [cq as usize], reads_meanwhile);
    assert_eq!(found, Tokens::Unclear, "it may have been taken just now");
    queue.pending_events.store(0, Release);
    assert_eq!(tokens_of(&world, cq, false), Tokens::Settled, "it was there, and is read");
    queue.pending_events.store(1, Release);
    channel.live.store(7, Release);
    assert_eq!(tokens_of(&world, cq, false), Tokens::Settled, "the channel is gone");
}

#[test]
fn the_dead_leave_no_completion_without_an_event() {
    let world = World::new();
    let cq = world.cq_with_channel(3);
    let queue = &world.arena.cqs[cq as usize];
    assert!(!add(&world, cq, 0, false));
    // As if it had been killed right before it counted the event.
    world.actor(US).arm(cq, false);
    queue.token_due_from.store(US as u32 + 1, Release);
    let missing_tokens = world.actor(DAEMON).missing_tokens_of(US, [cq as usize]);
    assert_eq!(missing_tokens, (vec![(cq, 100 + cq)], true));
    assert_eq!(world.env.take_wakes(), [(cq, 100 + cq)]);
    assert_eq!(queue.pending_events.load(Acquire), 1);
    // Nothing to tell.
    world.poll_cq(cq);
    world.actor(US).arm(cq, false);
    queue.token_due_from.store(US as u32 + 1, Release);
    world.actor(DAEMON).missing_tokens_of(US, [cq as usize]);
    assert_eq!(world.env.take_wakes(), []);
}

#[test]
fn several_queue_pairs_share_receives() {
    let world = World::new();
    let srq = world.srq(7);
    let mut room = world.buffer(THEM, vec![0; 100]);
    let pairs = [world.rc(), world.rc()];
    for (i, (_, b)) in pairs.into_iter().enumerate() {
        set(&world.entry(b).srq, srq + 1);
        world.receive_shared(srq, 20 + i as u64, &[room.sge(50 * i, 50)]);
    }
    world.put(pairs[1].0, &Wr::new(1, opcode::SEND).inline(b"one"));
    world.doorbell(pairs[1].0);
    world.send(pairs[0].0, &Wr::new(2, opcode::SEND).inline(b"two"));
    assert_eq!(world.statuses(pairs[1].1), [(20, 0)]);
    assert_eq!(world.statuses(pairs[0].1), [(21, 0)]);
    assert_eq!((&room.bytes[..3], &room.bytes[50..53]), (&b"one"[..], &b"two"[..]));
    // Empty: the sender waits.
    world.send(pairs[0].0, &Wr::new(3, opcode::SEND));
    assert_eq!(world.statuses(pairs[0].0), [(2, 0)]);
    assert_eq!(world.env.take_rescheduled().len(), 1);
}

#[test]
fn receives_of_a_shared_queue_have_its_protection_domain() {
    let world = World::new();
    let srq = world.srq(7);
    let (a, b) = world.rc();
    set(&world.entry(b).srq, srq + 1);
    let mut theirs = world.buffer(THEM, vec![0; 8]);
    let mut shared = world.buffer(THEM, vec![0; 8]);
    set(&world.arena.mr(shared.key).unwrap().pd, PD + 1);
    set(&world.arena.srqs[srq as usize].pd, PD + 1);
    world.receive_shared(srq, 20, &[shared.whole()]);
    world.send(a, &Wr::new(1, opcode::SEND).inline(b"abc"));
    assert_eq!((world.statuses(a), world.statuses(b)), (vec![(1, 0)], vec![(20, 0)]));
    assert_eq!(&shared.bytes[..3], b"abc");
    // The peer reaches regions of the queue pair's domain only.
    let (addr, key) = (theirs.addr(), theirs.key);
    world.send(a, &Wr::new(2, opcode::RDMA_WRITE).inline(b"abc").remote(addr, key));
    assert_eq!(world.statuses(a), [(2, 0)]);
    world.receive_shared(srq, 21, &[theirs.whole()]);
    world.send(a, &Wr::new(3, opcode::SEND).inline(b"abc"));
    assert_eq!(world.statuses(b), [(21, status::LOC_PROT_ERR)]);
}

#[test]
fn the_limit_is_told_once() {
    let world = World::new();
    let srq = world.srq(7);
    let (a, b) = world.rc();
    set(&world.entry(b).srq, srq + 1);
    let entry = &world.arena.srqs[srq as usize];
    entry.limit.store(3, Release);
    for wr_id in 0..5 {
        world.receive_shared(srq, wr_id, &[]);
    }
    let mut raised = Vec::new();
    for wr_id in 0..4 {
        world.send(a, &Wr::new(wr_id, opcode::SEND));
        raised.push(world.env.take_raised());
    }
    assert_eq!(raised, [vec![], vec![], vec![Async::SrqLimit(srq)], vec![]]);
    assert_eq!((entry.limit.load(Acquire), entry.limit_reached.load(Acquire)), (0, 1));
}

/// A consumer that arms, polls and sleeps never sleeps for ever: an event is never lost.
#[test]
fn no_wake_up_is_lost() {
    const COMPLETIONS: u32 = 20_000;
    let world = World::new();
    let cq = world.cq_with_channel(63);
    let (arena, copier) = (&world.arena, &world.copier);
    let seen = AtomicU32::new(0);
    let env = TestEnv::default();
    let actor = || Actor { arena, me: US, env: &env, copier };
    let ring = || arena.ring(&arena.cqs[cq as usize].ring).unwrap();
    let poll = || {
        let ring = ring();
        let any = ring.unread();
        ring.set_consumer(ring.advance(ring.consumer(), any));
        seen.fetch_add(any, Release);
        any > 0
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..COMPLETIONS {
                eventually("a poll of the queue", || ring().unread() < 63);
                actor().add_completion(cq, &Cqe::default(), false);
            }
        });
        scope.spawn(|| {
            while seen.load(Acquire) < COMPLETIONS {
                actor().arm(cq, false);
                if poll() {
                    continue;
                }
                // Asleep: only an event wakes.
                eventually("an event for a completion", || {
                    arena.cqs[cq as usize].pending_events.swap(0, Release) != 0
                });
                poll();
            }
        });
    });
    assert_eq!(arena.cqs[cq as usize].overflows.load(Acquire), 0);
}
