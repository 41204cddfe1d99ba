//! Threads that poll in vain on a processor that others want, too.
//!
//! A thread that polls is never done, so it has its processor for the whole of its time slice, and the peer whose
//! message it polls for may be one of those that wait for this processor. Two programs that are put on the same one, with
//! others on the rest, exchange one message in each round of slices, which takes milliseconds. To yield changes little:
//! the system then counts the slice as used. A thread that sleeps has not used it, and takes the processor from who
//! computes when it wakes up. So one that was put aside while it polled sleeps for a moment whenever it has polled in
//! vain for a while. Nothing of this happens where processors are free.

use std::cell::Cell;

use soft_hca_core::system;

/// Polls in vain that are this many nanoseconds apart may have been put aside in between: much longer than such polls
/// take, shorter than a slice.
const GAP_NS: u64 = 200_000;
/// For so long after it was put aside a thread is taken to share its processor.
const SHARED_NS: u64 = 1_000_000_000;
/// So long a thread polls before it sleeps: longer than a peer needs that runs.
const SPIN_NS: u64 = 50_000;

/// A thread that polls. Times are `CLOCK_MONOTONIC` nanoseconds.
#[derive(Debug)]
struct Polling {
    /// When a poll was first seen to find nothing, since one has found something or the thread has slept; 0 for none.
    since: Cell<u64>,
    /// When one was seen last; 0 for never.
    seen: Cell<u64>,
    /// How often the thread had been put aside by then.
    preemptions: Cell<u64>,
    /// Until when it is taken to share its processor.
    shared_until: Cell<u64>,
}

impl Polling {
    const fn new() -> Self {
        Self {
            since: Cell::new(0),
            seen: Cell::new(0),
            preemptions: Cell::new(0),
            shared_until: Cell::new(0),
        }
    }

    /// A poll finds nothing. Whether the thread is to sleep.
    fn in_vain(&self, now: u64, preemptions: impl FnOnce() -> u64) -> bool {
        let last = self.seen.replace(now);
        if self.since.get() == 0 {
            self.since.set(now);
        }
        if now.saturating_sub(last) >= GAP_NS {
            let count = preemptions();
            let is_put_aside = self.preemptions.replace(count) != count;
            if is_put_aside && last != 0 {
                self.shared_until.set(now + SHARED_NS);
            }
        }
        let sleeps = now < self.shared_until.get() && now - self.since.get() >= SPIN_NS;
        if sleeps {
            self.begin_again();
        }
        sleeps
    }

    /// It has not polled in vain from now on.
    fn begin_again(&self) {
        self.since.set(0);
    }
}

thread_local! {
    static POLLING: Polling = const { Polling::new() };
}

/// A poll of this thread has found something.
#[inline]
pub(super) fn found() {
    // Not in a thread that is ending.
    let _ = POLLING.try_with(Polling::begin_again);
}

/// Polls of this thread find nothing; `now` are `CLOCK_MONOTONIC` nanoseconds. Sleeps for a moment if another thread waits for the
/// processor.
pub(super) fn nothing(now: u64) {
    if POLLING.try_with(|polling| polling.in_vain(now, system::preemptions)) == Ok(true) {
        system::nap();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Polls for so long, once in a microsecond; gives how often it would have slept.
    fn poll(polling: &Polling, now: &mut u64, duration: u64, preemptions: u64) -> usize {
        let end = *now + duration;
        let mut sleeps = 0;
        while *now < end {
            *now += 1000;
            sleeps += usize::from(polling.in_vain(*now, || preemptions));
        }
        sleeps
    }

    #[test]
    fn a_thread_that_was_put_aside_sleeps_now_and_then() {
        let (polling, mut now) = (Polling::new(), 1_000_000);
        // Whatever was before it has polled.
        assert_eq!(poll(&polling, &mut now, SHARED_NS, 7), 0);
        // It has done something else for a while.
        now += 10 * GAP_NS;
        assert_eq!(poll(&polling, &mut now, SHARED_NS, 7), 0);
        now += 10 * GAP_NS;
        let most = (SHARED_NS / SPIN_NS) as usize;
        let sleeps = poll(&polling, &mut now, SHARED_NS, 8);
        assert!((most / 2..=most).contains(&sleeps), "{sleeps} of {most}");
        assert_eq!(poll(&polling, &mut now, SHARED_NS, 8), 0);
    }

    #[test]
    fn who_finds_something_goes_on() {
        let (polling, mut now) = (Polling::new(), 1_000_000);
        poll(&polling, &mut now, 1000, 7);
        polling.begin_again();
        now += 10 * GAP_NS;
        for _ in 0..10 {
            assert_eq!(poll(&polling, &mut now, SPIN_NS - 1000, 8), 0);
            polling.begin_again();
        }
        assert_eq!(poll(&polling, &mut now, SPIN_NS + 1000, 8), 1);
    }
}
