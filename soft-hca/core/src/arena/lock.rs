//! A lock in shared memory that survives its owner.
//!
//! The word is the owner's number: the process's index in the arena + 1. When a process dies the
//! daemon releases its locks ([`Lock::release_of`]). Whatever a lock protects is changed in an order
//! that is consistent at every step, so there is nothing to repair.

use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{hint, thread};

/// The lock; 0 is free.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Lock {
    owner: AtomicU32,
}

/// A lock of the threads that wait for completions, apart from the words of those that add them: neither
/// takes a cache line from the other.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct LockApart(Lock);

impl std::ops::Deref for LockApart {
    type Target = Lock;

    fn deref(&self) -> &Lock {
        &self.0
    }
}

/// The word of a lock that nobody has.
const FREE: u32 = 0;

/// Spins so often before it lets others run. Critical sections are short, but on few processors
/// the owner may have been put aside.
const SPINS: u32 = 200;

impl Lock {
    /// Takes the lock for process `me` (an index in the table of processes). While that lasts, does
    /// something else now and then.
    pub fn lock(&self, me: usize, mut meanwhile: impl FnMut()) -> Guard<'_> {
        for _ in 0..SPINS {
            if let Some(guard) = self.try_lock(me) {
                return guard;
            }
            hint::spin_loop();
        }
        loop {
            for _ in 0..SPINS {
                thread::yield_now();
                if let Some(guard) = self.try_lock(me) {
                    return guard;
                }
            }
            meanwhile();
        }
    }

    /// The word, to sleep on.
    pub(crate) fn word(&self) -> &AtomicU32 {
        &self.owner
    }

    /// Stands for a lock that the caller has already, and releases nothing.
    pub(crate) fn again(&self) -> Guard<'_> {
        Guard { lock: self, owner: FREE }
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self, me: usize) -> Option<Guard<'_>> {
        let owner = me as u32 + 1;
        self.owner
            .compare_exchange(FREE, owner, Ordering::Acquire, Ordering::Relaxed)
            .ok()
            .map(|_| Guard { lock: self, owner })
    }

    /// The process that has it, if one does.
    pub fn owner(&self) -> Option<usize> {
        (self.owner.load(Ordering::Relaxed) as usize).checked_sub(1)
    }

    /// Releases the lock if process `dead` has it. Only the daemon calls this, after that
    /// process's end, or whoever finds that the daemon itself is gone.
    pub fn release_of(&self, dead: usize) -> bool {
        let owner = dead as u32 + 1;
        self.owner.compare_exchange(owner, FREE, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// Has the lock until it is dropped, or it was taken away as from one that has died.
#[derive(Debug)]
pub struct Guard<'a> {
    lock: &'a Lock,
    owner: u32,
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        // Two steps, for a locked instruction in each of a message's locks would be felt: only if
        // the lock is taken away in this very moment it is released once more.
        if self.owner != FREE && self.lock.owner.load(Ordering::Relaxed) == self.owner {
            self.lock.owner.store(FREE, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excludes_and_releases() {
        let lock = Lock::default();
        let guard = lock.lock(3, || {});
        assert_eq!(lock.owner(), Some(3));
        assert!(lock.try_lock(4).is_none());
        drop(guard);
        assert_eq!(lock.owner(), None);
        assert!(lock.try_lock(4).is_some());
    }

    #[test]
    fn a_dead_owner_is_released() {
        let lock = Lock::default();
        std::mem::forget(lock.lock(3, || {}));
        assert!(!lock.release_of(2));
        assert!(lock.release_of(3));
        assert!(lock.try_lock(1).is_some());
    }

    #[test]
    fn who_has_lost_it_releases_nobody_elses() {
        let lock = Lock::default();
        let lost = lock.lock(3, || {});
        assert!(lock.release_of(3));
        let guard = lock.lock(4, || {});
        drop(lost);
        assert_eq!(lock.owner(), Some(4));
        drop(guard);
        assert_eq!(lock.owner(), None);
    }

    #[test]
    fn what_is_had_already_is_released_once() {
        let lock = Lock::default();
        let guard = lock.lock(3, || {});
        drop(lock.again());
        assert_eq!(lock.owner(), Some(3));
        drop(guard);
        assert_eq!(lock.owner(), None);
    }

    #[test]
    fn something_else_is_done_while_the_lock_is_waited_for() {
        let lock = Lock::default();
        std::mem::forget(lock.lock(3, || {}));
        drop(lock.lock(1, || {
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
                        let _guard = lock.lock(me, || {});
                        let seen = counter.load(Ordering::Relaxed);
                        counter.store(seen + 1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(counter.into_inner(), 4000);
    }
}
