//! The time by which requests and events of strict programs are put off.
//!
//! It goes as the system's does, or only when it is set: it stands still while programs that are about to wait run, and skips
//! to what is due next when all of them do: see `server::time`.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A clock. A new one goes, and says what the system's does.
#[derive(Debug, Default)]
pub(crate) struct Clock(Mutex<Option<u64>>);

impl Clock {
    /// The time that it says while it stands still.
    fn lock(&self) -> MutexGuard<'_, Option<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its time at one of the system's (`CLOCK_MONOTONIC` nanoseconds).
    pub(crate) fn at(&self, real_ns: u64) -> u64 {
        self.lock().unwrap_or(real_ns)
    }

    /// The system's time at which it says a time; none if it has to be set for that.
    pub(crate) fn real_of(&self, due_ns: u64, now_ns: u64) -> Option<u64> {
        match *self.lock() {
            None => Some(due_ns.max(now_ns)),
            Some(said_ns) => (due_ns <= said_ns).then_some(now_ns),
        }
    }

    /// It stands still from a time on, if it goes.
    pub(crate) fn stop(&self, now_ns: u64) {
        self.lock().get_or_insert(now_ns);
    }

    /// One that stands still says a later time from now on.
    pub(crate) fn skip_to(&self, due_ns: u64) {
        if let Some(said_ns) = &mut *self.lock() {
            *said_ns = due_ns.max(*said_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stands_still_and_skips() {
        let clock = Clock::default();
        clock.skip_to(500);
        assert_eq!((clock.at(100), clock.real_of(150, 100)), (100, Some(150)));
        clock.stop(200);
        clock.stop(300);
        assert_eq!((clock.at(900), clock.real_of(201, 900)), (200, None));
        clock.skip_to(250);
        clock.skip_to(240);
        assert_eq!((clock.at(900), clock.real_of(250, 900)), (250, Some(900)));
    }
}
