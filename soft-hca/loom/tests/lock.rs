//! The lock of the arena: who has it has it alone, and sees what was done under it before.

use loom::sync::Arc;
use loom::sync::atomic::AtomicU32;
use loom::sync::atomic::Ordering::Relaxed;
use loom::thread;
use soft_hca_loom::lock::{Guard, Lock};

const DAEMON: usize = 0;

/// A count that comes out wrong if two add to it at the same time, or if one does not see what the
/// one before has written.
#[derive(Default)]
struct Counted {
    lock: Lock,
    count: AtomicU32,
}

impl Counted {
    /// Adds one under the lock.
    fn add(&self, _guard: &Guard<'_>) {
        let seen = self.count.load(Relaxed);
        self.count.store(seen + 1, Relaxed);
    }

    fn lock_and_add(&self, me: usize) {
        let guard = self.lock.lock(me, || {});
        self.add(&guard);
    }

    /// Adds one if nobody else has the lock; tells how many.
    fn try_to_add(&self, me: usize) -> u32 {
        let guard = self.lock.try_lock(me);
        guard.iter().for_each(|guard| self.add(guard));
        u32::from(guard.is_some())
    }

    /// Adds one and ends without releasing the lock, as who is killed.
    fn add_and_die(&self, me: usize) {
        let guard = self.lock.lock(me, || {});
        self.add(&guard);
        std::mem::forget(guard);
    }

    fn counted(&self) -> u32 {
        self.count.load(Relaxed)
    }
}

#[test]
fn one_at_a_time_has_it() {
    loom::model(|| {
        let counted = Arc::new(Counted::default());
        let others = [1, 2].map(|me| {
            let counted = counted.clone();
            thread::spawn(move || counted.try_to_add(me))
        });
        let ours = counted.try_to_add(3);
        let theirs: u32 = others.map(|other| other.join().unwrap()).iter().sum();
        // The first one finds it free.
        assert!(ours + theirs >= 1);
        assert_eq!(counted.counted(), ours + theirs);
        assert_eq!(counted.lock.owner(), None);
    });
}

#[test]
fn who_waits_gets_it() {
    loom::model(|| {
        let counted = Arc::new(Counted::default());
        let other = {
            let counted = counted.clone();
            thread::spawn(move || counted.lock_and_add(1))
        };
        counted.lock_and_add(2);
        other.join().unwrap();
        assert_eq!(counted.counted(), 2);
    });
}

/// The daemon takes it from a dead process, and others who want it see what that one has done.
#[test]
fn a_dead_owner_loses_it_once() {
    loom::model(|| {
        let counted = Arc::new(Counted::default());
        counted.add_and_die(1);
        let daemon = {
            let counted = counted.clone();
            thread::spawn(move || assert!(counted.lock.release_of(1)))
        };
        let other = {
            let counted = counted.clone();
            thread::spawn(move || counted.try_to_add(2))
        };
        let ours = counted.try_to_add(3);
        daemon.join().unwrap();
        let others = other.join().unwrap();
        assert_eq!(counted.counted(), 1 + ours + others);
        assert_eq!(counted.lock.owner(), None);
    });
}

/// When the daemon has died every program may find that out, also when another one has the lock
/// by then.
#[test]
fn a_dead_daemon_loses_it_to_one_program() {
    loom::model(|| {
        let counted = Arc::new(Counted::default());
        counted.add_and_die(DAEMON);
        let program = |me| {
            let counted = counted.clone();
            thread::spawn(move || {
                counted.lock.release_of(DAEMON);
                counted.try_to_add(me)
            })
        };
        let added: u32 =
            [program(1), program(2)].map(|program| program.join().unwrap()).iter().sum();
        assert!(added >= 1);
        assert_eq!(counted.counted(), 1 + added);
        assert_eq!(counted.lock.owner(), None);
    });
}

/// An owner that has lost it, as one that was taken for dead, and knows nothing of it, releases nobody else's.
#[test]
fn who_has_lost_it_releases_nobody_elses() {
    loom::model(|| {
        let counted = Arc::new(Counted::default());
        let lost = counted.lock.lock(1, || {});
        assert!(counted.lock.release_of(1));
        let other = {
            let counted = counted.clone();
            thread::spawn(move || counted.lock_and_add(2))
        };
        drop(lost);
        let ours = counted.try_to_add(3);
        other.join().unwrap();
        assert_eq!(counted.counted(), 1 + ours);
    });
}

/// [`Guard`] looks and then stores: a live owner must not lose the lock in between, which is why
/// only a dead one's is released.
#[test]
#[should_panic(expected = "assertion `left == right` failed: two have had it")]
fn a_live_owner_may_release_it_twice() {
    loom::model(|| {
        let counted = Arc::new(Counted::default());
        let guard = counted.lock.lock(1, || {});
        let wrong = {
            let counted = counted.clone();
            thread::spawn(move || {
                counted.lock.release_of(1);
                counted.try_to_add(2)
            })
        };
        let third = {
            let counted = counted.clone();
            thread::spawn(move || counted.try_to_add(3))
        };
        drop(guard);
        let added = wrong.join().unwrap() + third.join().unwrap();
        assert_eq!(counted.counted(), added, "two have had it");
    });
}
