//! Threads that wait: by polls that find nothing, and where they are stopped. While something is put off they sleep,
//! so that the daemon sees that they wait, and lets it happen ([`Moment`]).

use std::cell::Cell;
use std::thread;
use std::time::Duration;

use soft_hca_core::arena::Arena;
use soft_hca_core::engine::Moment;
use soft_hca_core::rpc::Request;
use soft_hca_core::system;

use crate::client::process::Process;

/// Polls in a row, of any queues, that find nothing before the thread sleeps: enough to look at several queues and
/// other places.
const LOOKS: u32 = 32;

/// A thread that polls sleeps so long at most: something else may have happened that it looks for.
const SLEEP: Duration = Duration::from_millis(10);

/// A thread that has slept goes on as soon as it is woken, though others compute.
const TIME_SLICE_NS: u64 = 100_000;

/// The daemon may be so late with a thread that is stopped. It may have gone.
const LATE: Duration = Duration::from_secs(1);

/// Longer than any program runs: a time that can be added to the system's.
const LONGEST: Duration = Duration::from_secs(1 << 32);

thread_local! {
    /// How often this thread has polled in vain since a moment.
    static IN_VAIN: Cell<(Moment, u32)> = Cell::default();
    /// Whether this thread has slept.
    static HAS_SLEPT: Cell<bool> = const { Cell::new(false) };
}

/// A poll of the calling thread has found nothing.
pub(crate) fn nothing(arena: &Arena) {
    let moment = arena.moment();
    if !moment.is_before_others() {
        // The thread that could bring something may need the processor.
        return thread::yield_now();
    }
    let count = |looks: &Cell<(Moment, u32)>| {
        let (before, count) = looks.get();
        let count = if before == moment { count + 1 } else { 1 };
        looks.set((moment, count.min(LOOKS)));
        count
    };
    // Not in a thread that is ending.
    if IN_VAIN.try_with(count).is_ok_and(|count| count >= LOOKS) {
        begins_to_sleep();
        arena.await_moment(moment, SLEEP);
    }
}

fn begins_to_sleep() {
    if HAS_SLEPT.try_with(|has| !has.replace(true)).unwrap_or(false) {
        system::set_time_slice(TIME_SLICE_NS);
    }
}

/// A poll has found something.
pub(crate) fn over() {
    let _ = IN_VAIN.try_with(|looks| looks.set(Default::default()));
}

/// The calling thread is stopped for so long by the fabric's clock; by the system's if that goes so.
pub(super) fn stop(process: &Process, time: Duration) {
    match process.arena.computed_ns() {
        None => thread::sleep(time),
        Some(now_ns) => {
            let until_ns = now_ns.saturating_add(system::as_ns(time));
            while !is_stopped_until(process, until_ns, time + LATE) {}
        }
    }
}

/// The calling thread sleeps for so long by the fabric's clock, if time is computed. An error has the rest, after a signal.
pub(super) fn sleep(process: &Process, time: Duration) -> Option<Result<(), Duration>> {
    let until_ns = process.arena.computed_ns()?.saturating_add(system::as_ns(time));
    let limit = time.saturating_add(LATE).min(LONGEST);
    if is_stopped_until(process, until_ns, limit) {
        return Some(Ok(()));
    }
    let left_ns = until_ns.saturating_sub(process.arena.computed_ns().unwrap_or(until_ns));
    Some(Err(Duration::from_nanos(left_ns)))
}

/// Stops the calling thread until a time by the fabric's clock, so long at most by the system's. False if a signal has
/// interrupted that.
fn is_stopped_until(process: &Process, until_ns: u64, limit: Duration) -> bool {
    begins_to_sleep();
    process.env.tell(&Request::Pause { until_ns });
    process.arena.await_time(until_ns, limit)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use soft_hca_core::arena::Mapping;

    use super::*;

    /// How long so many polls in vain take.
    fn polls(arena: &Arena, count: u32) -> Duration {
        let began = Instant::now();
        (0..count).for_each(|_| nothing(arena));
        began.elapsed()
    }

    #[test]
    fn who_polls_in_vain_sleeps_while_something_is_put_off() {
        let arena = Mapping::create().unwrap();
        let is_awake = || (0..100).any(|_| polls(&arena, LOOKS - 1) < SLEEP);
        assert!((0..100).any(|_| polls(&arena, 100) < SLEEP), "nothing is put off");
        arena.set_moment(false, true);
        assert!(polls(&arena, LOOKS - 1) < Duration::from_secs(1));
        let sleeps = |_: u32| polls(&arena, 1) >= SLEEP;
        // A sleep may end for no reason.
        assert!((0..100).any(sleeps) && (0..100).any(sleeps));
        arena.set_moment(true, true);
        assert!(is_awake(), "something has happened");
        over();
        assert!(is_awake());
    }
}
