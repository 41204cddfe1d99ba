//! The time by which requests and events of strict programs are put off.
//!
//! It goes as the system's does, or stands still while programs that are about to wait run, and skips to what is due
//! next when all of them do: see `server::put_off`.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A clock. A new one goes, and says what the system's does.
#[derive(Debug, Default)]
pub(crate) struct Clock(Mutex<State>);

/// How it goes from a time of the system's on (`CLOCK_MONOTONIC` nanoseconds).
#[derive(Debug, Default)]
struct State {
    /// Its own time then.
    said_ns: u64,
    /// The system's time; none while it stands still.
    since_ns: Option<u64>,
    has_stopped: bool,
}

impl State {
    fn at(&self, real_ns: u64) -> u64 {
        match self.since_ns {
            Some(since_ns) => self.said_ns + real_ns.saturating_sub(since_ns),
            None if self.has_stopped => self.said_ns,
            None => real_ns,
        }
    }
}

impl Clock {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its time at one of the system's.
    pub(crate) fn at(&self, real_ns: u64) -> u64 {
        self.lock().at(real_ns)
    }

    /// The system's time at which it says a time; none if it has to skip for that.
    pub(crate) fn real_of(&self, due_ns: u64, now_ns: u64) -> Option<u64> {
        let state = self.lock();
        let left_ns = due_ns.saturating_sub(state.at(now_ns));
        let is_still = state.has_stopped && state.since_ns.is_none();
        (left_ns == 0 || !is_still).then(|| now_ns.saturating_add(left_ns))
    }

    /// It stands still from a time on.
    pub(crate) fn stop(&self, now_ns: u64) {
        let mut state = self.lock();
        *state = State { said_ns: state.at(now_ns), since_ns: None, has_stopped: true };
    }

    /// It goes from a time on.
    pub(crate) fn go(&self, now_ns: u64) {
        let mut state = self.lock();
        *state = State { said_ns: state.at(now_ns), since_ns: Some(now_ns), has_stopped: true };
    }

    /// One that stands still says a later time from now on.
    pub(crate) fn skip_to(&self, due_ns: u64) {
        let mut state = self.lock();
        state.said_ns = state.said_ns.max(due_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stands_still_skips_and_goes_on() {
        let clock = Clock::default();
        assert_eq!((clock.at(100), clock.real_of(150, 100)), (100, Some(150)));
        clock.stop(200);
        assert_eq!((clock.at(900), clock.real_of(201, 900)), (200, None));
        clock.skip_to(250);
        clock.skip_to(240);
        assert_eq!((clock.at(900), clock.real_of(250, 900)), (250, Some(900)));
        clock.go(1000);
        assert_eq!((clock.at(1010), clock.real_of(300, 1010)), (260, Some(1050)));
        clock.stop(1020);
        clock.stop(1030);
        assert_eq!(clock.at(2000), 270);
    }
}
