//! Claims of room in completion queues: who has one finds room, whatever the others do.

use loom::sync::Arc;
use loom::sync::atomic::AtomicU32;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use loom::thread;
use soft_hca_loom::claims::{claim, release};
use soft_hca_loom::lock::Lock;

/// A completion queue, as far as its room goes. Its indices do not wrap.
struct Queue {
    size: u32,
    lock: Lock,
    claimed: AtomicU32,
    /// Room that is there for sure. Written under the lock.
    room: AtomicU32,
    /// Completions that were added. Written under the lock.
    producer: AtomicU32,
    /// Completions that were polled.
    consumer: AtomicU32,
}

impl Queue {
    fn new(size: u32, unread: u32) -> Self {
        Self {
            size,
            lock: Lock::default(),
            claimed: AtomicU32::new(0),
            room: AtomicU32::new(size - unread),
            producer: AtomicU32::new(unread),
            consumer: AtomicU32::new(0),
        }
    }

    fn counted(&self) -> u32 {
        let consumer = self.consumer.load(Acquire);
        self.size - (self.producer.load(Acquire) - consumer)
    }

    fn claim(&self, wanted: u32) -> u32 {
        claim(&self.claimed, wanted, || self.room.load(Acquire), || self.counted())
    }

    /// Adds completions, as the engine does; none may be lost.
    fn add(&self, me: usize, count: u32) {
        let _guard = self.lock.lock(me, || {});
        let mut room = self.room.load(Acquire);
        if room < count {
            room = self.counted();
        }
        assert!(room >= count, "a completion is lost");
        self.room.store(room - count, Release);
        self.producer.store(self.producer.load(Relaxed) + count, Release);
    }

    /// Adds up to `wanted` completions for which there is room; gives how many.
    fn add_with_claim(&self, me: usize, wanted: u32) -> u32 {
        let free = self.claim(wanted);
        if free > 0 {
            self.add(me, free);
            release(&self.claimed, free);
        }
        free
    }

    /// The program polls one.
    fn poll(&self) -> bool {
        let consumer = self.consumer.load(Relaxed);
        let is_there = self.producer.load(Acquire) > consumer;
        self.consumer.store(consumer + u32::from(is_there), Release);
        is_there
    }
}

/// A thread that adds completions, and tells how many.
fn adds(queue: &Arc<Queue>, me: usize, wanted: u32) -> thread::JoinHandle<u32> {
    let queue = queue.clone();
    thread::spawn(move || queue.add_with_claim(me, wanted))
}

#[test]
fn the_last_room_is_one_requests() {
    loom::model(|| {
        let queue = Arc::new(Queue::new(1, 0));
        let other = adds(&queue, 1, 1);
        let ours = queue.add_with_claim(2, 1);
        assert!(ours + other.join().unwrap() <= 1);
        assert_eq!(queue.claimed.load(Relaxed), 0);
    });
}

#[test]
fn several_claim_more_than_there_is() {
    loom::model(|| {
        let queue = Arc::new(Queue::new(3, 0));
        let other = adds(&queue, 1, 2);
        let ours = queue.add_with_claim(2, 2);
        assert!(ours + other.join().unwrap() <= 3);
        assert_eq!(queue.claimed.load(Relaxed), 0);
        // Nobody else is there: all that is left is free.
        assert_eq!(queue.claim(3), queue.counted());
    });
}

#[test]
fn what_is_polled_meanwhile_is_given_to_one() {
    loom::model(|| {
        let queue = Arc::new(Queue::new(1, 1));
        let other = adds(&queue, 1, 1);
        let poller = {
            let queue = queue.clone();
            thread::spawn(move || queue.poll())
        };
        let ours = queue.add_with_claim(2, 1);
        assert!(poller.join().unwrap());
        assert!(ours + other.join().unwrap() <= 1);
        assert_eq!(queue.claimed.load(Relaxed), 0);
    });
}

/// The daemon forgets all claims when a program has died: room may be claimed twice then, but no
/// claim remains and none becomes less than nothing.
#[test]
fn forgotten_claims_end() {
    loom::model(|| {
        let queue = Arc::new(Queue::new(2, 0));
        let claimer = {
            let queue = queue.clone();
            thread::spawn(move || {
                let free = queue.claim(1);
                release(&queue.claimed, free);
            })
        };
        queue.claimed.store(0, Release);
        claimer.join().unwrap();
        assert_eq!(queue.claimed.load(Relaxed), 0);
        assert_eq!(queue.claim(2), 2);
    });
}
