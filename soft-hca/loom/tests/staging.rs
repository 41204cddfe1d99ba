//! Payloads that wait in a ring for the receiver's poll: who sees a completion finds its payload, none
//! is moved twice or lost, and what goes straight to memory comes behind what was staged.

use loom::sync::Arc;
use loom::sync::atomic::AtomicU32;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use loom::thread;
use soft_hca_loom::lock::Lock;
use soft_hca_loom::staging::{Indices, free_slots, is_waiting, move_all};

/// Slots, one of which stays empty. Each has the number of the message whose payload it holds.
struct Ring {
    producer: AtomicU32,
    consumer: AtomicU32,
    slots: Vec<AtomicU32>,
}

impl Indices for Ring {
    fn mask(&self) -> u32 {
        self.slots.len() as u32 - 1
    }

    fn producer(&self) -> u32 {
        self.producer.load(Acquire)
    }

    fn consumer(&self) -> u32 {
        self.consumer.load(Acquire)
    }

    fn set_consumer(&self, index: u32) {
        self.consumer.store(index & self.mask(), Release);
    }
}

/// A completion queue of the receiver's, and the memory of its receives. A message has a receive of its own.
struct Queue {
    lock: Lock,
    eager_lock: Lock,
    free: AtomicU32,
    ring: Ring,
    /// Completions in their order: numbers of messages.
    completions: Vec<AtomicU32>,
    completed: AtomicU32,
    /// How often the payload of a message has come.
    memory: Vec<AtomicU32>,
}

impl Queue {
    fn new(slots: usize, messages: usize) -> Self {
        let words = |count| (0..count).map(|_| AtomicU32::new(0)).collect();
        let ring =
            Ring { producer: AtomicU32::new(0), consumer: AtomicU32::new(0), slots: words(slots) };
        Self {
            lock: Lock::default(),
            eager_lock: Lock::default(),
            free: AtomicU32::new(0),
            ring,
            completions: words(messages),
            completed: AtomicU32::new(0),
            memory: words(messages),
        }
    }

    /// Brings a payload to its place.
    fn bring(&self, message: u32) {
        let place = &self.memory[message as usize];
        place.store(place.load(Relaxed) + 1, Relaxed);
    }

    /// Leaves a payload for the receiver, if there is room.
    fn stage(&self, me: usize, message: u32) -> bool {
        let _guard = self.lock.lock(me, || {});
        self.put(message)
    }

    /// The same where nobody else sends.
    fn put(&self, message: u32) -> bool {
        let Some(free) = free_slots(&self.ring, self.free.load(Acquire), 1) else { return false };
        let producer = self.ring.producer();
        self.ring.slots[producer as usize].store(message, Relaxed);
        self.free.store(free - 1, Release);
        self.ring.producer.store((producer + 1) & self.ring.mask(), Release);
        true
    }

    fn drain(&self, me: usize) {
        if is_waiting(&self.ring) {
            let _guard = self.eager_lock.lock(me, || {});
            move_all(&self.ring, |index, _| {
                self.bring(self.ring.slots[index as usize].load(Relaxed));
                Some(1)
            });
        }
    }

    fn complete(&self, me: usize, message: u32) {
        let _guard = self.lock.lock(me, || {});
        let completed = self.completed.load(Relaxed);
        self.completions[completed as usize].store(message, Relaxed);
        self.completed.store(completed + 1, Release);
    }

    /// Sends a message, as the engine does; tells whether its payload waited in the ring.
    fn send(&self, me: usize, message: u32) -> bool {
        let is_staged = self.stage(me, message);
        if !is_staged {
            self.drain(me);
            self.bring(message);
        }
        self.complete(me, message);
        is_staged
    }

    /// Polls for all completions that are there behind those that were polled before: each has its payload.
    fn poll(&self, me: usize, polled: &mut usize) {
        let completed = self.completed.load(Acquire) as usize;
        if completed > *polled {
            self.drain(me);
        }
        for completion in &self.completions[*polled..completed] {
            let message = completion.load(Relaxed) as usize;
            assert_eq!(self.memory[message].load(Relaxed), 1, "the payload of {message}");
        }
        *polled = completed;
    }
}

/// A thread that sends messages.
fn sends(queue: &Arc<Queue>, me: usize, messages: &'static [u32]) -> thread::JoinHandle<()> {
    let queue = queue.clone();
    thread::spawn(move || {
        for message in messages {
            queue.send(me, *message);
        }
    })
}

/// A thread that polls once for what was there in the beginning, or moves payloads for another reason.
fn drains(queue: &Arc<Queue>, me: usize) -> thread::JoinHandle<()> {
    let queue = queue.clone();
    thread::spawn(move || queue.drain(me))
}

/// All has come in the end, once each.
fn check_all(queue: &Queue, me: usize, polled: &mut usize) {
    queue.poll(me, polled);
    assert_eq!(*polled, queue.memory.len(), "a completion is lost");
}

/// The ring is full now and then: one payload fits.
#[test]
fn who_sees_a_completion_finds_its_payload() {
    loom::model(|| {
        let queue = Arc::new(Queue::new(2, 2));
        let sender = sends(&queue, 1, &[0, 1]);
        let mut polled = 0;
        queue.poll(2, &mut polled);
        sender.join().unwrap();
        check_all(&queue, 2, &mut polled);
    });
}

#[test]
fn two_senders_share_a_queue() {
    loom::model(|| {
        let queue = Arc::new(Queue::new(2, 2));
        let senders = [sends(&queue, 1, &[0]), sends(&queue, 2, &[1])];
        let mut polled = 0;
        queue.poll(3, &mut polled);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        check_all(&queue, 3, &mut polled);
    });
}

/// Another thread moves the first payload, while the ring is filled until its producer is back at the
/// beginning: who has seen the completion of the second must not take the ring for empty.
#[test]
fn a_ring_that_goes_around_while_another_thread_moves_payloads() {
    loom::model(|| {
        let queue = Arc::new(Queue::new(4, 4));
        queue.put(0);
        let other = drains(&queue, 1);
        let sender = {
            let queue = queue.clone();
            thread::spawn(move || {
                queue.put(1);
                queue.completed.store(1, Release);
                let _ = queue.put(2) && queue.put(3);
            })
        };
        if queue.completed.load(Acquire) == 1 && !is_waiting(&queue.ring) {
            assert_eq!(queue.memory[1].load(Relaxed), 1, "it has not been moved");
        }
        sender.join().unwrap();
        other.join().unwrap();
    });
}

/// A request that goes straight to memory comes behind what the same sender has staged before, whoever
/// moves that.
#[test]
fn what_goes_straight_to_memory_comes_last() {
    loom::model(|| {
        let queue = Arc::new(Queue::new(2, 1));
        let sender = {
            let queue = queue.clone();
            thread::spawn(move || {
                assert!(queue.send(1, 0));
                queue.drain(1);
                assert_eq!(queue.memory[0].load(Relaxed), 1, "it would be overwritten");
                queue.memory[0].store(7, Relaxed);
            })
        };
        let other = drains(&queue, 2);
        sender.join().unwrap();
        other.join().unwrap();
        assert_eq!(queue.memory[0].load(Relaxed), 7);
    });
}
