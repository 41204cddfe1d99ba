//! Completions that are polled late: some polls find nothing although there is something. What was there when
//! the program armed the queue, or took an event of it, is given at once: of that no further event
//! tells. And threads that stop where it matters.

use std::collections::HashMap;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering::Acquire;
use std::time::Duration;

use soft_hca_core::arena::Mapping;
use soft_hca_core::put_off::Draws;
use soft_hca_verbs::Choice;

use crate::client::of_process::OfProcess;
use crate::client::process::Process;
use crate::client::strict::choices::draws;
use crate::client::strict::wait;

/// Polls in a row that find nothing, at most.
const MOST: u64 = 3;

/// A completion queue.
#[derive(Debug)]
struct Queue {
    seed: u64,
    /// Completions that were taken from it, up to which place of its ring.
    taken: u32,
    consumer: u32,
    /// How often it was armed.
    armings: u32,
    /// Completions that are to be given at once.
    owed: u32,
    /// Polls that are to find nothing yet; `None` if that has not been chosen.
    left: Option<u64>,
    /// Whether all polls give completions to who counts them, see `depth`.
    is_followed: bool,
}

fn queues() -> MutexGuard<'static, HashMap<u32, Queue>> {
    static QUEUES: OfProcess<HashMap<u32, Queue>> = OfProcess::new();
    QUEUES.lock()
}

/// Completions in a queue, after it has noted which were taken.
fn unread(arena: &Mapping, index: u32, queue: &mut Queue) -> u32 {
    let cq = arena.cqs.get(index as usize).filter(|cq| cq.live.load(Acquire) != 0);
    let Some(ring) = cq.and_then(|cq| arena.ring(&cq.ring)) else { return 0 };
    let consumer = ring.consumer();
    let taken = ring.distance(queue.consumer, consumer);
    (queue.taken, queue.consumer) = (queue.taken.wrapping_add(taken), consumer);
    ring.unread()
}

/// A queue was created.
pub(crate) fn begin(index: u32, seed: u64, is_followed: bool) {
    let queue = Queue { seed, taken: 0, consumer: 0, armings: 0, owed: 0, left: None, is_followed };
    queues().insert(index, queue);
}

/// Whether the polls of a queue are all seen one by one.
pub(crate) fn is_followed(index: u32) -> bool {
    queues().get(&index).is_some_and(|queue| queue.is_followed)
}

/// A queue was armed, or an event of it was taken.
pub(crate) fn owe(arena: &Mapping, index: u32) {
    if let Some(queue) = queues().get_mut(&index) {
        queue.owed = unread(arena, index, queue);
    }
}

/// Whether a poll finds nothing yet.
pub(crate) fn is_late(arena: &Mapping, index: u32) -> bool {
    let mut queues = queues();
    let Some(queue) = queues.get_mut(&index) else { return false };
    let unread = unread(arena, index, queue);
    if unread == 0 || queue.owed > 0 {
        return false;
    }
    let chosen = queue.left.unwrap_or_else(|| {
        let draws = draws(queue.seed, Choice::Poll, queue.taken);
        draws.map_or(0, |mut draws| draws.below(2) * (1 + draws.below(MOST)))
    });
    let is_late = chosen > 0;
    queue.left = is_late.then(|| chosen - 1);
    if !is_late {
        // All that has gathered meanwhile comes together.
        queue.owed = unread;
    }
    is_late
}

/// The calling thread stops for a while before it goes on, as the scheduler may have it at any point: of so
/// many times once.
fn pause(process: &Process, draws: Option<Draws>, one_in: u64, most: Duration) {
    let time = draws.and_then(|mut draws| {
        (draws.below(one_in) == 0).then(|| draws.below(most.as_micros() as u64))
    });
    if let Some(microseconds) = time {
        wait::stop(process, Duration::from_micros(microseconds));
    }
}

/// A queue is about to be armed: completions may come before that.
pub(crate) fn before_arming(process: &Process, index: u32) {
    let draws = queues().get_mut(&index).and_then(|queue| {
        let before = queue.armings;
        queue.armings = before.wrapping_add(1);
        draws(queue.seed, Choice::Pause, before)
    });
    pause(process, draws, 2, Duration::from_millis(10));
}

/// A receive is about to be posted to a queue pair that had so many: a message may come before that.
pub(crate) fn before_receive(process: &Process, qpn: u32, before: u32) {
    let seed = process.arena.qp(qpn).map(|qp| qp.strict_seed.load(Acquire));
    let draws = seed.and_then(|seed| draws(seed, Choice::Pause, before));
    pause(process, draws, 4, Duration::from_millis(2));
}

/// A poll has found so many completions.
pub(crate) fn found(index: u32, count: u32) {
    if let Some(queue) = queues().get_mut(&index) {
        queue.owed = queue.owed.saturating_sub(count);
    }
}
