//! A lock in shared memory that survives its owner.
//!
//! The word holds who has it: the process's index in the arena + 1. When a process dies the
//! daemon releases what it held ([`Lock::release_of`]); what the lock protects is kept in an order
//! that is consistent at every step, so there is nothing to repair.

use std::sync::atomic::{AtomicU32, Ordering};
use std::{hint, thread};

/// The lock; 0 is free.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Lock {
    owner: AtomicU32,
}

/// Spins so often before it lets others run. Critical sections are short, but on few processors
/// the owner may have been put aside.
const SPINS: u32 = 200;

impl Lock {
    /// Takes the lock for process `me` (an index in the table of processes).
    pub fn lock(&self, me: usize) -> Guard<'_> {
        let mut spins = 0;
        loop {
            if let Some(guard) = self.try_lock(me) {
                return guard;
            }
            spins += 1;
            if spins < SPINS {
                hint::spin_loop();
            } else {
                thread::yield_now();
            }
        }
    }

    /// Takes the lock as [`Lock::lock`] does; while that lasts, does something else now and then.
    pub fn lock_meanwhile(&self, me: usize, mut meanwhile: impl FnMut()) -> Guard<'_> {
        loop {
            for _ in 0..SPINS {
                if let Some(guard) = self.try_lock(me) {
                    return guard;
                }
                thread::yield_now();
            }
            meanwhile();
        }
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self, me: usize) -> Option<Guard<'_>> {
        let owner = me as u32 + 1;
        self.owner
            .compare_exchange(0, owner, Ordering::Acquire, Ordering::Relaxed)
            .ok()
            .map(|_| Guard { lock: self })
    }

    /// The process that has it, if one does.
    pub fn owner(&self) -> Option<usize> {
        (self.owner.load(Ordering::Relaxed) as usize).checked_sub(1)
    }

    /// Releases the lock if process `dead` has it. Only the daemon calls this, after that
    /// process's end.
    pub fn release_of(&self, dead: usize) -> bool {
        let owner = dead as u32 + 1;
        self.owner.compare_exchange(owner, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// Has the lock until it is dropped.
#[derive(Debug)]
pub struct Guard<'a> {
    lock: &'a Lock,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.lock.owner.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excludes_and_releases() {
        let lock = Lock::default();
        let guard = lock.lock(3);
        assert_eq!(lock.owner(), Some(3));
        assert!(lock.try_lock(4).is_none());
        drop(guard);
        assert_eq!(lock.owner(), None);
        assert!(lock.try_lock(4).is_some());
    }

    #[test]
    fn a_dead_owner_is_released() {
        let lock = Lock::default();
        std::mem::forget(lock.lock(3));
        assert!(!lock.release_of(2));
        assert!(lock.release_of(3));
        assert!(lock.try_lock(1).is_some());
    }

    #[test]
    fn something_else_is_done_while_the_lock_is_waited_for() {
        let lock = Lock::default();
        std::mem::forget(lock.lock(3));
        drop(lock.lock_meanwhile(1, || {
            lock.release_of(3);
        }));
        assert_eq!(lock.owner(), None);
    }

    #[test]
    fn many_threads_count_right() {
        let lock = Lock::default();
        let counter = AtomicU32::new(0);
        thread::scope(|scope| {
            for me in 0..4 {
                let (lock, counter) = (&lock, &counter);
                scope.spawn(move || {
                    for _ in 0..1000 {
                        let _guard = lock.lock(me);
                        let seen = counter.load(Ordering::Relaxed);
                        counter.store(seen + 1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(counter.into_inner(), 4000);
    }
}
