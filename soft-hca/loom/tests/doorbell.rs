//! The doorbell of the link's thread: what is posted is seen, or the thread is woken.

use loom::sync::Arc;
use loom::sync::atomic::AtomicU32;
use loom::sync::atomic::Ordering::{Acquire, Release};
use loom::thread;
use soft_hca_loom::doorbell::{is_set, may_sleep, set, take, wake_up};
use soft_hca_loom::seq_cst;

/// The link's thread and a send queue for it.
#[derive(Default)]
struct Link {
    doorbells: seq_cst::AtomicU64,
    sleeps: seq_cst::AtomicU32,
    /// Requests in the send queue.
    producer: AtomicU32,
    /// Writes to the descriptor that the thread sleeps on.
    woken: AtomicU32,
}

impl Link {
    /// A program posts a request and rings.
    fn post(&self, bit: u64) {
        self.producer.fetch_add(1, Release);
        if set(&self.doorbells, bit, &self.sleeps) {
            self.woken.fetch_add(1, Release);
        }
    }

    /// Whether the thread goes on because of what it finds, or sleeps.
    fn goes_on(&self) -> bool {
        !may_sleep(&self.sleeps, || is_set(&self.doorbells))
    }
}

fn posts(link: &Arc<Link>, bit: u64) -> thread::JoinHandle<()> {
    let link = link.clone();
    thread::spawn(move || link.post(bit))
}

#[test]
fn who_posts_is_seen_or_wakes() {
    loom::model(|| {
        let link = Arc::new(Link::default());
        let program = posts(&link, 1);
        let goes_on = link.goes_on();
        program.join().unwrap();
        assert!(goes_on || link.woken.load(Acquire) == 1, "it sleeps for ever");
    });
}

/// The thread has looked at the doorbells before: whatever it has taken then, it sees what was
/// posted for that.
#[test]
fn what_is_posted_behind_a_look_is_not_missed() {
    loom::model(|| {
        let link = Arc::new(Link::default());
        let program = posts(&link, 1);
        let taken = take(&link.doorbells);
        if taken == 0 {
            let goes_on = link.goes_on();
            program.join().unwrap();
            assert!(goes_on || link.woken.load(Acquire) == 1, "it sleeps for ever");
            assert_eq!(take(&link.doorbells), 1);
        } else {
            assert_eq!(taken, 1);
            assert_eq!(link.producer.load(Acquire), 1, "what was posted is there");
            program.join().unwrap();
        }
    });
}

#[test]
fn of_several_who_ring_one_wakes() {
    loom::model(|| {
        let link = Arc::new(Link::default());
        assert!(!link.goes_on());
        let programs = [1, 2].map(|bit| posts(&link, bit));
        programs.into_iter().for_each(|program| program.join().unwrap());
        assert_eq!(link.woken.load(Acquire), 1);
        wake_up(&link.sleeps);
        assert_eq!(take(&link.doorbells), 3);
    });
}
