//! Values that all threads of a process share behind a lock, and that begin anew in a child of `fork`.
//!
//! Another thread of the parent may have held the lock at the fork, and have been in the midst of a change. The child
//! does not have that thread, so an ordinary lock would stay taken for ever.
#![allow(unsafe_code, reason = "values that live as long as the process")]

use std::ptr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicPtr, AtomicU64};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The number of forks between the process that loaded the library and this one.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// Begins all values anew, as the first thing in a child of `fork`.
pub(super) fn is_forked() {
    GENERATION.fetch_add(1, Relaxed);
}

struct Value<T> {
    generation: u64,
    locked: Mutex<T>,
}

/// A value that begins as its type's default in each process.
pub(crate) struct OfProcess<T>(AtomicPtr<Value<T>>);

impl<T: Default> OfProcess<T> {
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// The process's own value. The parent's stays where it is.
    fn own(&'static self) -> &'static Mutex<T> {
        let generation = GENERATION.load(Relaxed);
        loop {
            let known = self.0.load(Acquire);
            // SAFETY: null, or leaked below, by this process or by one whose memory it has a copy of.
            if let Some(value) = unsafe { known.as_ref() }.filter(|v| v.generation == generation) {
                return &value.locked;
            }
            let new = Box::into_raw(Box::new(Value { generation, locked: Mutex::default() }));
            if self.0.compare_exchange(known, new, AcqRel, Acquire).is_err() {
                // SAFETY: the value was made above, and no other thread has seen it.
                drop(unsafe { Box::from_raw(new) });
            }
        }
    }

    /// The value, locked.
    pub(crate) fn lock(&'static self) -> MutexGuard<'static, T> {
        self.own().lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, unless another thread holds the lock.
    pub(crate) fn try_lock(&'static self) -> Option<MutexGuard<'static, T>> {
        self.own().try_lock().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_finds_it_free_and_as_it_begins() {
        static VALUE: OfProcess<Vec<u32>> = OfProcess::new();
        VALUE.lock().push(7);
        let held = VALUE.lock();
        assert!(VALUE.try_lock().is_none());
        // SAFETY: the child looks at its own memory and leaves.
        let child = unsafe { libc::fork() };
        if child == 0 {
            is_forked();
            let is_free = VALUE.try_lock().is_some_and(|value| value.is_empty());
            // SAFETY: ends the child without anything of the parent's being run.
            unsafe { libc::_exit(i32::from(!is_free)) };
        }
        let mut status = -1;
        // SAFETY: waits for the child made above.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
        drop(held);
        assert_eq!(*VALUE.lock(), [7]);
    }
}
