//! Reserved credits of completion queues: who has one finds room, whatever the others do.

use loom::sync::Arc;
use loom::sync::atomic::AtomicU32;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use loom::thread;
use soft_hca_loom::lock::Lock;
use soft_hca_loom::reservation::{release, reserve};

/// A completion queue, as far as its credits go. Its indices do not wrap.
struct Queue {
    size: u32,
    lock: Lock,
    reserved: AtomicU32,
    /// Credits that are there for sure. Written under the lock.
    credits: AtomicU32,
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
            reserved: AtomicU32::new(0),
            credits: AtomicU32::new(size - unread),
            producer: AtomicU32::new(unread),
            consumer: AtomicU32::new(0),
        }
    }

    fn counted(&self) -> u32 {
        let consumer = self.consumer.load(Acquire);
        self.size - (self.producer.load(Acquire) - consumer)
    }

    fn reserve(&self, wanted: u32) -> u32 {
        reserve(&self.reserved, wanted, || self.credits.load(Acquire), || self.counted())
    }

    /// Adds completions, as the engine does; none may be lost.
    fn add(&self, me: usize, count: u32) {
        let _guard = self.lock.lock(me, || {});
        let mut credits = self.credits.load(Acquire);
        if credits < count {
            credits = self.counted();
        }
        assert!(credits >= count, "a completion is lost");
        self.credits.store(credits - count, Release);
        self.producer.store(self.producer.load(Relaxed) + count, Release);
    }

    /// Adds up to `wanted` completions that have a credit; gives how many.
    fn add_reserved(&self, me: usize, wanted: u32) -> u32 {
        let free = self.reserve(wanted);
        if free > 0 {
            self.add(me, free);
            release(&self.reserved, free);
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
    thread::spawn(move || queue.add_reserved(me, wanted))
}

#[test]
fn the_last_credit_is_one_requests() {
    loom::model(|| {
        let queue = Arc::new(Queue::new(1, 0));
        let other = adds(&queue, 1, 1);
        let ours = queue.add_reserved(2, 1);
        assert!(ours + other.join().unwrap() <= 1);
        assert_eq!(queue.reserved.load(Relaxed), 0);
    });
}

#[test]
fn several_want_more_than_there_is() {
    loom::model(|| {
        let queue = Arc::new(Queue::new(3, 0));
        let other = adds(&queue, 1, 2);
        let ours = queue.add_reserved(2, 2);
        assert!(ours + other.join().unwrap() <= 3);
        assert_eq!(queue.reserved.load(Relaxed), 0);
        // Nobody else is there: all that is left is free.
        assert_eq!(queue.reserve(3), queue.counted());
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
        let ours = queue.add_reserved(2, 1);
        assert!(poller.join().unwrap());
        assert!(ours + other.join().unwrap() <= 1);
        assert_eq!(queue.reserved.load(Relaxed), 0);
    });
}

/// The daemon forgets all reservations when a program has died: a credit may be reserved twice
/// then, but no reservation remains and none becomes less than nothing.
#[test]
fn forgotten_reservations_end() {
    loom::model(|| {
        let queue = Arc::new(Queue::new(2, 0));
        let other = {
            let queue = queue.clone();
            thread::spawn(move || {
                let free = queue.reserve(1);
                release(&queue.reserved, free);
            })
        };
        queue.reserved.store(0, Release);
        other.join().unwrap();
        assert_eq!(queue.reserved.load(Relaxed), 0);
        assert_eq!(queue.reserve(2), 2);
    });
}
