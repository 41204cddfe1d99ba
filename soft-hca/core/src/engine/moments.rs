//! Moments at which something happens that was put off, and threads of strict programs that wait for the next one.
//!
//! A thread that polls in vain while something is put off sleeps until it happens, and so does one that is stopped until a
//! time. The daemon sees that all threads of its programs sleep: then what is due next happens at once.
//!
//! The word in the arena has in its lowest bit whether anything is put off, and above it the number of the moment.

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

    /// The time by the clock of strict programs; none if that goes as the system's does.
    #[must_use]
    pub fn computed_ns(&self) -> Option<u64> {
        Some(self.computed_ns.load(Acquire)).filter(|computed_ns| *computed_ns != 0)
    }

    /// For the daemon: sets that clock. Threads that wait for the time go on with the next moment.
    pub fn set_computed_ns(&self, computed_ns: u64) {
        self.computed_ns.store(computed_ns, Release);
    }

    /// Stops the thread until that clock says a time, so long at most by the system's. False if a signal has interrupted
    /// that.
    pub fn await_time(&self, until_ns: u64, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        loop {
            let seen = self.moment();
            let left = end.saturating_duration_since(Instant::now());
            if self.computed_ns().is_some_and(|computed_ns| computed_ns >= until_ns)
                || left.is_zero()
            {
                return true;
            }
            if !futex::wait(&self.moments, seen.0, Some(left)) {
                return false;
            }
        }
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
    fn threads_are_stopped_until_a_time() {
        let arena = Mapping::create().unwrap();
        assert_eq!(arena.computed_ns(), None);
        arena.set_computed_ns(5);
        arena.set_moment(false, true);
        assert!(arena.await_time(5, LONG));
        thread::scope(|scope| {
            let stopped = [6, 7].map(|until_ns| {
                let arena = &arena;
                scope.spawn(move || {
                    assert!(arena.await_time(until_ns, LONG));
                    arena.computed_ns().unwrap() >= until_ns
                })
            });
            for computed_ns in [6, 8] {
                arena.set_computed_ns(computed_ns);
                arena.set_moment(true, true);
            }
            assert!(stopped.into_iter().all(|stopped| stopped.join().unwrap()));
        });
        // The daemon may have gone.
        assert!(arena.await_time(9, Duration::from_millis(1)));
    }
}
