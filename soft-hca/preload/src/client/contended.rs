//! Threads that poll in vain on a processor that others want, too.
//!
//! A thread that polls uses its processor for the whole of its time slice, and the peer whose message it polls for may
//! be one of the threads that wait for this processor. Two programs that the scheduler puts on one processor, with
//! others on the rest, exchange one message in each round of slices, which takes milliseconds. `sched_yield` changes
//! little: the kernel then counts the slice as used. A thread that sleeps keeps its slice, and preempts a thread that
//! computes when it wakes up. So a thread that was preempted while it polled sleeps for a moment whenever it has polled
//! in vain for a while. A peer that runs answers soon then; a thread that still finds nothing polls on without sleep.
//! Nothing of this happens where processors are free.

use std::cell::Cell;

use soft_hca_core::system;

/// A thread whose polls in vain are this many nanoseconds apart may have been preempted in between: much longer than
/// such polls take, shorter than a slice.
const GAP_NS: u64 = 200_000;
/// A thread is taken to share its processor for so long after it was preempted.
const SHARED_NS: u64 = 1_000_000_000;
/// A thread polls for so long before it sleeps: longer than a peer that runs needs.
const SPIN_NS: u64 = 50_000;
/// A thread stops sleeping after so long without a completion: the peer is not waiting for a processor.
const PATIENCE_NS: u64 = 200_000_000;

/// A thread that polls. Times are `CLOCK_MONOTONIC` nanoseconds.
#[derive(Debug)]
struct Polling {
    /// The time of the first poll in vain since one has found something; 0 for none.
    since: Cell<u64>,
    /// The same, or the time of the first poll after a sleep; 0 for neither.
    spins_since: Cell<u64>,
    /// The time of the last poll in vain; 0 for never.
    seen: Cell<u64>,
    /// How often the thread had been preempted by then.
    preemptions: Cell<u64>,
    /// The time until which it is taken to share its processor.
    shared_until: Cell<u64>,
}

impl Polling {
    const fn new() -> Self {
        Self {
            since: Cell::new(0),
            spins_since: Cell::new(0),
            seen: Cell::new(0),
            preemptions: Cell::new(0),
            shared_until: Cell::new(0),
        }
    }

    /// Takes note of a poll that finds nothing. Returns whether the thread is to sleep.
    fn in_vain(&self, now: u64, preemptions: impl FnOnce() -> u64) -> bool {
        let last = self.seen.replace(now);
        if self.since.get() == 0 {
            self.since.set(now);
            self.spins_since.set(0);
        }
        if self.spins_since.get() == 0 {
            self.spins_since.set(now);
        }
        if now.saturating_sub(last) >= GAP_NS {
            let count = preemptions();
            let is_put_aside = self.preemptions.replace(count) != count;
            if is_put_aside && last != 0 {
                self.shared_until.set(now + SHARED_NS);
            }
        }
        let sleeps = now < self.shared_until.get()
            && now - self.spins_since.get() >= SPIN_NS
            && now - self.since.get() < PATIENCE_NS;
        if sleeps {
            self.spins_since.set(0);
        }
        sleeps
    }

    /// Takes note of a poll that finds something.
    fn found(&self) {
        self.since.set(0);
    }
}

thread_local! {
    static POLLING: Polling = const { Polling::new() };
}

/// Takes note of a poll of this thread that has found something.
#[inline]
pub(super) fn found() {
    // A thread that is ending has no such value any more.
    let _ = POLLING.try_with(Polling::found);
}

/// Takes note of polls of this thread that find nothing, and sleeps for a moment if another thread waits for the
/// processor; `now` is in `CLOCK_MONOTONIC` nanoseconds.
pub(super) fn nothing(now: u64) {
    if POLLING.try_with(|polling| polling.in_vain(now, system::preemptions)) == Ok(true) {
        system::nap();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Polls for so long, once in a microsecond; returns how often the thread would have slept.
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
        // The thread was preempted before its first poll only, which does not count.
        assert_eq!(poll(&polling, &mut now, PATIENCE_NS / 2, 7), 0);
        // The thread has done something else for a while, without being preempted.
        now += 10 * GAP_NS;
        polling.found();
        assert_eq!(poll(&polling, &mut now, PATIENCE_NS / 2, 7), 0);
        now += 10 * GAP_NS;
        polling.found();
        let most = (PATIENCE_NS / SPIN_NS) as usize;
        let sleeps = poll(&polling, &mut now, SHARED_NS / 2, 8);
        assert!((most / 2..=most).contains(&sleeps), "{sleeps} of {most}");
        // The preemption is long ago by then.
        polling.found();
        poll(&polling, &mut now, SHARED_NS, 8);
        polling.found();
        assert_eq!(poll(&polling, &mut now, PATIENCE_NS, 8), 0);
    }

    #[test]
    fn who_finds_something_goes_on() {
        let (polling, mut now) = (Polling::new(), 1_000_000);
        poll(&polling, &mut now, 1000, 7);
        polling.found();
        now += 10 * GAP_NS;
        for _ in 0..10 {
            assert_eq!(poll(&polling, &mut now, SPIN_NS - 1000, 8), 0);
            polling.found();
        }
        assert_eq!(poll(&polling, &mut now, SPIN_NS + 1000, 8), 1);
    }
}
