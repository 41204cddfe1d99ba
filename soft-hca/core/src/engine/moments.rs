//! Moments at which something happens that was put off, and threads of strict programs that wait for the next one.
//!
//! A thread that polls in vain while something is put off sleeps until it happens, and so does one that is stopped for
//! a while. The daemon sees that all threads of its programs sleep: then what is due next happens at once.
//!
//! The word in the arena has in its lowest bit whether anything is put off, and above it the number of the moment.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::{Duration, Instant};

use crate::arena::Arena;
use crate::engine::futex;

/// Whether anything is put off.
const IS_PUT_OFF: u32 = 1;

/// A moment that a thread has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment(u32);

impl Moment {
    /// Whether something is put off, so that there will be another moment.
    #[inline]
    #[must_use]
    pub fn is_before_others(self) -> bool {
        self.0 & IS_PUT_OFF != 0
    }

    fn next(self, has_happened: bool, is_put_off: bool) -> Self {
        let number = (self.0 & !IS_PUT_OFF).wrapping_add(u32::from(has_happened) << 1);
        Self(number | u32::from(is_put_off))
    }
}

impl Arena {
    /// The last moment.
    #[inline]
    #[must_use]
    pub fn moment(&self) -> Moment {
        Moment(self.moments.load(Acquire))
    }

    /// Sleeps until another moment, so long at most; it may also return for no reason.
    pub fn await_moment(&self, seen: Moment, limit: Duration) {
        futex::wait(&self.moments, seen.0, Some(limit));
    }

    /// For the daemon: whether something has happened that may have been put off, and whether anything still is. Threads
    /// that wait go on if so, or if nothing is.
    pub fn set_moment(&self, has_happened: bool, is_put_off: bool) {
        let before = self.moment();
        let after = before.next(has_happened, is_put_off);
        if after != before {
            self.moments.store(after.0, Release);
            futex::wake(&self.moments);
        }
    }

    /// Whether the calling thread is the one of a process that can be stopped.
    pub fn begins_pause(&self, proc: usize) -> bool {
        self.pause(proc).is_some_and(|word| word.compare_exchange(0, 1, Acquire, Acquire).is_ok())
    }

    /// Stops the thread until the daemon has it [go on](Self::ends_pause), so long at most.
    pub fn await_end_of_pause(&self, proc: usize, limit: Duration) {
        let Some(word) = self.pause(proc) else { return };
        let end = Instant::now() + limit;
        loop {
            let seen = self.moment();
            let left = end.saturating_duration_since(Instant::now());
            if word.load(Acquire) == 0 || left.is_zero() {
                break;
            }
            self.await_moment(seen, left);
        }
        word.store(0, Release);
    }

    /// For the daemon: the thread of a process that is stopped goes on, with the next moment.
    pub fn ends_pause(&self, proc: usize) {
        if let Some(word) = self.pause(proc) {
            word.store(0, Release);
        }
    }

    fn pause(&self, proc: usize) -> Option<&AtomicU32> {
        self.procs.get(proc).map(|proc| &proc.pause)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::arena::Mapping;

    /// Longer than anything takes.
    const LONG: Duration = Duration::from_secs(100);

    #[test]
    fn moments_are_counted_while_something_is_put_off() {
        let arena = Mapping::create().unwrap();
        let first = arena.moment();
        assert!(!first.is_before_others());
        arena.set_moment(true, false);
        // A pause may end before it is told that anything is put off.
        assert!(arena.moment() != first && !arena.moment().is_before_others());
        arena.set_moment(false, true);
        let begun = arena.moment();
        assert!(begun.is_before_others());
        arena.set_moment(false, true);
        assert_eq!(arena.moment(), begun);
        arena.set_moment(true, true);
        assert!(arena.moment() != begun && arena.moment().is_before_others());
        arena.set_moment(false, false);
        assert!(!arena.moment().is_before_others());
    }

    #[test]
    fn threads_wait_for_the_next_moment() {
        let arena = Mapping::create().unwrap();
        arena.set_moment(false, true);
        let seen = arena.moment();
        thread::scope(|scope| {
            let waits = scope.spawn(|| {
                while arena.moment() == seen {
                    arena.await_moment(seen, LONG);
                }
            });
            arena.set_moment(true, true);
            waits.join().unwrap();
        });
    }

    #[test]
    fn a_thread_of_each_process_is_stopped_until_it_goes_on() {
        let arena = Mapping::create().unwrap();
        arena.set_moment(false, true);
        assert!(arena.begins_pause(3) && !arena.begins_pause(3) && arena.begins_pause(4));
        thread::scope(|scope| {
            let stopped = scope.spawn(|| arena.await_end_of_pause(3, LONG));
            arena.set_moment(true, true);
            arena.ends_pause(3);
            arena.set_moment(true, true);
            stopped.join().unwrap();
        });
        // The daemon may have gone.
        arena.await_end_of_pause(4, Duration::from_millis(1));
        assert!(arena.begins_pause(3) && arena.begins_pause(4));
        assert!(!arena.begins_pause(usize::MAX));
    }
}
