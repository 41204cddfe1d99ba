//! Several threads and the daemon at once: nothing is lost, doubled or stuck, and every work
//! request has one completion, in order, whatever goes wrong meanwhile.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread;
use std::time::{Duration, Instant};

use super::fabric::*;
use crate::arena::{MAX_PROCS, Mapping};
use crate::engine::{Actor, Async, Env, LocalCopier};
use crate::uapi::rxe::{Cqe, Sge};
use crate::uapi::verbs::{opcode, status};

/// The clock of this machine, and a list of what the daemon is to do.
struct ClockEnv {
    start: Instant,
    rescheduled: Mutex<Vec<(u64, u32)>>,
    /// The daemon is one thread at a time.
    daemon: Mutex<()>,
}

impl ClockEnv {
    fn take_due(&self) -> Vec<u32> {
        let now = self.now_ns();
        let mut rescheduled = self.rescheduled.lock().unwrap();
        let due = rescheduled.iter().filter(|(at, _)| *at <= now).map(|(_, qpn)| *qpn).collect();
        rescheduled.retain(|(at, _)| *at > now);
        due
    }
}

impl Env for ClockEnv {
    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn wake_channel(&self, _channel: u32, _generation: u32) {}

    fn reschedule(&self, qpn: u32, after_ns: u64) {
        let at = self.now_ns().saturating_add(after_ns);
        self.rescheduled.lock().unwrap().push((at, qpn));
    }

    fn raise(&self, _what: Async) {}
}

/// The daemon of a fabric with one program, number 1.
struct OneIsThere;

impl Env for OneIsThere {
    fn now_ns(&self) -> u64 {
        0
    }
    fn wake_channel(&self, _channel: u32, _generation: u32) {}
    fn reschedule(&self, _qpn: u32, _after_ns: u64) {}
    fn raise(&self, _what: Async) {}
    fn is_there(&self, proc: usize) -> bool {
        proc == 1
    }
}

#[test]
fn the_daemon_waits_for_nobody() {
    let arena = Mapping::create().unwrap();
    let copier = LocalCopier::default();
    let daemon = Actor { arena: &arena, me: DAEMON, env: &OneIsThere, copier: &copier };
    let lock = &arena.procs[2].atomics;
    let program = lock.lock(1, || {});
    assert!(daemon.lock(lock).is_none());
    drop(program);
    let first = daemon.lock(lock).unwrap();
    drop(daemon.lock(lock).unwrap());
    assert_eq!(lock.owner(), Some(DAEMON), "it had it before");
    drop(first);
    assert_eq!(lock.owner(), None);
    for nobody in [7, MAX_PROCS, MAX_PROCS + 1] {
        std::mem::forget(lock.lock(nobody, || {}));
        assert!(daemon.lock(lock).is_some(), "{nobody}");
        assert_eq!(lock.owner(), None);
    }
}

/// A program whose daemon has ended.
struct Orphan;

impl Env for Orphan {
    fn now_ns(&self) -> u64 {
        0
    }
    fn wake_channel(&self, _channel: u32, _generation: u32) {}
    fn reschedule(&self, _qpn: u32, _after_ns: u64) {}
    fn raise(&self, _what: Async) {}
    fn is_daemon_gone(&self) -> bool {
        true
    }
}

#[test]
fn nobody_waits_for_a_daemon_that_has_ended() {
    let arena = Mapping::create().unwrap();
    let copier = LocalCopier::default();
    let program = Actor { arena: &arena, me: 2, env: &Orphan, copier: &copier };
    let lock = &arena.procs[2].atomics;
    std::mem::forget(lock.lock(DAEMON, || {}));
    drop(program.lock(lock));
    assert_eq!(lock.owner(), None);
}

/// One queue pair and its thread: it receives, sends and polls.
struct Side<'a> {
    world: &'a World,
    actor: Actor<'a>,
    qpn: u32,
    /// Receives and sends: posted and completed.
    posted: [u64; 2],
    completed: [u64; 2],
    failed: bool,
}

const RECEIVES: u64 = 1 << 32;
const SLOT: usize = 512;
/// Posted and not yet completed, at most.
const WINDOW: u64 = 16;

impl Side<'_> {
    /// Takes completions; they come in the order of posting, each once.
    fn poll(&mut self, mut check: impl FnMut(u64, &Cqe)) {
        for cqe in self.world.poll(self.qpn) {
            let kind = usize::from(cqe.wr_id < RECEIVES);
            let number = cqe.wr_id % RECEIVES;
            assert_eq!(number, self.completed[kind], "in order and once");
            self.completed[kind] += 1;
            if cqe.status == status::SUCCESS {
                assert!(!self.failed || kind == 1 || cqe.opcode != 0);
                check(number, &cqe);
            } else {
                self.failed = true;
            }
        }
    }

    fn outstanding(&self, kind: usize) -> u64 {
        self.posted[kind] - self.completed[kind]
    }

    fn receive(&mut self, sge: Sge) {
        self.world.receive(self.qpn, RECEIVES | self.posted[0], &[sge]);
        self.posted[0] += 1;
    }

    fn send(&mut self, wr: Wr) {
        self.world.put(self.qpn, &Wr { wr_id: self.posted[1], ..wr });
        self.posted[1] += 1;
    }
}

/// Both sides send `messages` messages to each other, each with its number in it; if `breaks`,
/// one side's memory gets a bad key on the way.
fn exchange(world: &World, env: &ClockEnv, pair: (u32, u32), messages: u64, breaks: Option<u64>) {
    let (arena, copier): (&Mapping, &LocalCopier) = (&world.arena, &world.copier);
    for qpn in [pair.0, pair.1] {
        set(&world.entry(qpn).rnr_retry, 7);
    }
    thread::scope(|scope| {
        for (me, qpn, fails_at) in [(US, pair.0, breaks), (THEM, pair.1, None)] {
            scope.spawn(move || {
                let actor = Actor { arena, me, env, copier };
                let mut inbox = world.buffer(me, vec![0; SLOT * WINDOW as usize]);
                let mut outbox = world.buffer(me, vec![0; SLOT * WINDOW as usize]);
                let mut side =
                    Side { world, actor, qpn, posted: [0; 2], completed: [0; 2], failed: false };
                let place = |number: u64| (number % WINDOW) as usize * SLOT;
                let deadline = Instant::now() + Duration::from_secs(60);
                while side.completed.iter().any(|count| *count < messages) {
                    assert!(Instant::now() < deadline, "stuck: {:?}", side.completed);
                    while side.posted[0] < messages && side.outstanding(0) < WINDOW / 2 {
                        let sge = inbox.sge(place(side.posted[0]), SLOT);
                        side.receive(sge);
                    }
                    let mut any = false;
                    while side.posted[1] < messages && side.outstanding(1) < WINDOW {
                        let number = side.posted[1];
                        let at = place(number);
                        let length = 8 + (number * 37 % 500) as usize;
                        outbox.bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
                        outbox.bytes[at + 8..at + length].fill(number as u8);
                        let mut sge = outbox.sge(at, length);
                        if fails_at == Some(number) {
                            sge.lkey ^= 1;
                        }
                        side.send(Wr::new(0, opcode::SEND).sge(sge));
                        any = true;
                    }
                    if any {
                        side.actor.doorbell(qpn).unwrap();
                    }
                    let seen = &inbox.bytes;
                    side.poll(|number, cqe| {
                        if cqe.opcode != 0 {
                            let message = &seen[place(number)..];
                            let length = 8 + (number * 37 % 500) as usize;
                            assert_eq!(cqe.byte_len as usize, length);
                            assert_eq!(message[..8], number.to_le_bytes());
                            assert!(message[8..length].iter().all(|byte| *byte == number as u8));
                        }
                    });
                    if side.failed {
                        // As a program does that finds its connection broken.
                        world.as_daemon(env, |daemon| daemon.enter_error(qpn));
                        world.as_daemon(env, |daemon| daemon.enter_error(world.peer(qpn)));
                        world.as_daemon(env, |daemon| {
                            daemon.poll_error_receives_of(qpn);
                            true
                        });
                    }
                    thread::yield_now();
                }
                assert_eq!(side.failed, breaks.is_some());
            });
        }
    });
}

impl World {
    fn actor_with<'a>(&'a self, env: &'a ClockEnv, me: usize) -> Actor<'a> {
        Actor { arena: &self.arena, me, env, copier: &self.copier }
    }

    /// Has the daemon do something, again and again until it says that it is done.
    fn as_daemon(&self, env: &ClockEnv, mut work: impl FnMut(Actor<'_>) -> bool) {
        eventually("all locks that the daemon needs", || {
            let _turn = env.daemon.lock().unwrap();
            work(self.actor_with(env, DAEMON))
        });
    }

    fn peer(&self, qpn: u32) -> u32 {
        self.entry(qpn).dest_qpn.load(Acquire)
    }
}

/// With a daemon that does what is due.
fn with_daemon(work: impl FnOnce(&World, &ClockEnv) + Send) {
    let world = World::new();
    let env =
        ClockEnv { start: Instant::now(), rescheduled: Mutex::default(), daemon: Mutex::default() };
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let daemon = scope.spawn(|| {
            while !is_done.load(Acquire) {
                for qpn in env.take_due() {
                    world.as_daemon(&env, |daemon| {
                        daemon.run_send_queue(qpn);
                        true
                    });
                }
                thread::yield_now();
            }
        });
        let worker = scope.spawn(|| work(&world, &env));
        let outcome = worker.join();
        is_done.store(true, Release);
        daemon.join().unwrap();
        outcome.unwrap();
    });
    world.assert_unlocked();
}

#[test]
fn both_ways_at_once() {
    with_daemon(|world, env| exchange(world, env, world.rc(), 3000, None));
}

#[test]
fn many_pairs_at_once() {
    with_daemon(|world, env| {
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| exchange(world, env, world.rc(), 1000, None));
            }
        });
    });
}

#[test]
fn failures_at_any_time() {
    for at in [0, 1, 7, 50, 333, 700] {
        with_daemon(|world, env| exchange(world, env, world.rc(), 1000, Some(at)));
    }
}
