//! Arming of completion queues: no event is lost, and none is there twice.

use loom::sync::Arc;
use loom::sync::atomic::AtomicU32;
use loom::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use loom::thread;
use soft_hca_loom::arming::{arm, armed_for, give_event};
use soft_hca_loom::lock::Lock;

/// A completion queue, as far as its event goes.
#[derive(Default)]
struct Queue {
    lock: Lock,
    armed: AtomicU32,
    /// Completions that were added.
    producer: AtomicU32,
    /// Events that are not yet read.
    pending_events: AtomicU32,
}

impl Queue {
    /// Adds a completion, as the engine does.
    fn add(&self, me: usize, is_solicited: bool) {
        let _guard = self.lock.lock(me, || {});
        self.producer.store(self.producer.load(Acquire) + 1, Release);
        if let Some(armed) = armed_for(&self.armed, is_solicited) {
            give_event(&self.armed, armed, &self.pending_events);
        }
    }

    fn completions(&self) -> u32 {
        self.producer.load(Acquire)
    }

    fn events(&self) -> u32 {
        self.pending_events.load(Acquire)
    }
}

/// A thread that adds one completion.
fn adds(queue: &Arc<Queue>, me: usize, is_solicited: bool) -> thread::JoinHandle<()> {
    let queue = queue.clone();
    thread::spawn(move || queue.add(me, is_solicited))
}

/// A thread that arms and then finds nothing is woken.
#[test]
fn a_completion_is_seen_or_gives_an_event() {
    for solicited_only in [false, true] {
        loom::model(move || {
            let queue = Arc::new(Queue::default());
            let adder = adds(&queue, 1, true);
            arm(&queue.armed, solicited_only);
            let seen = queue.completions();
            adder.join().unwrap();
            assert!(seen == 1 || queue.events() == 1, "the event is lost");
        });
    }
}

#[test]
fn what_is_not_solicited_gives_no_event_to_who_waits_for_that() {
    loom::model(|| {
        let queue = Arc::new(Queue::default());
        arm(&queue.armed, true);
        adds(&queue, 1, false).join().unwrap();
        assert_eq!(queue.events(), 0);
        adds(&queue, 1, true).join().unwrap();
        assert_eq!(queue.events(), 1);
    });
}

#[test]
fn any_completion_is_the_stronger_wish() {
    for wishes in [[true, false], [false, true]] {
        loom::model(move || {
            let queue = Arc::new(Queue::default());
            wishes.into_iter().for_each(|solicited_only| arm(&queue.armed, solicited_only));
            adds(&queue, 1, false).join().unwrap();
            assert_eq!(queue.events(), 1);
        });
    }
}

/// However many completions come, one arming gives one event.
#[test]
fn an_event_comes_once() {
    loom::model(|| {
        let queue = Arc::new(Queue::default());
        arm(&queue.armed, false);
        let adders = [1, 2].map(|me| adds(&queue, me, true));
        adders.into_iter().for_each(|adder| adder.join().unwrap());
        assert_eq!((queue.completions(), queue.events()), (2, 1));
    });
}

/// Queues share channels, and a token that another queue has given lets a program read an event as
/// soon as it is there. Who then arms again waits for the next completion.
#[test]
fn an_event_that_is_read_at_once_is_followed_by_the_next() {
    loom::model(|| {
        let queue = Arc::new(Queue::default());
        arm(&queue.armed, false);
        let adder = {
            let queue = queue.clone();
            thread::spawn(move || (0..2).for_each(|_| queue.add(1, true)))
        };
        if queue.events() == 1 {
            queue.pending_events.fetch_sub(1, AcqRel);
            arm(&queue.armed, false);
            let seen = queue.completions();
            adder.join().unwrap();
            assert!(seen == 2 || queue.events() == 1, "the event is lost");
        }
    });
}
