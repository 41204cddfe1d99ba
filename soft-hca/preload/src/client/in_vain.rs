//! Threads that poll a queue in vain, for `soft-hca ls --why`: since when, and that they still do. Who polls does so
//! millions of times in a second, so that only now and then is there a look at the clock.

use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;

use soft_hca_core::arena::Mapping;
use soft_hca_core::system;

use crate::client::process;

/// Polls between two looks at the clock. It is odd, so that of queues that are polled in turn each has one.
const BETWEEN: u32 = 61;

/// A thread that was not seen to poll for this many nanoseconds is taken to have stopped.
const PAUSE_NS: u64 = 500_000_000;

thread_local! {
    /// Polls of this thread that have found nothing.
    static POLLS: Cell<u32> = const { Cell::new(0) };
}

/// A poll of a queue with an index in the arena has found nothing.
#[inline]
pub(super) fn nothing(index: u32) {
    // Not in a thread that is ending.
    let count = POLLS.try_with(|polls| polls.replace(polls.get().wrapping_add(1))).unwrap_or(1);
    if count % BETWEEN == 0 {
        note(index);
    }
}

#[cold]
fn note(index: u32) {
    if let Some(process) = process::current() {
        seen(&process.arena, index, system::now_ns());
    }
}

fn seen(arena: &Mapping, index: u32, now: u64) {
    let Some(cq) = arena.cqs.get(index as usize) else { return };
    let before = cq.in_vain_until.swap(now, Relaxed);
    if before == 0 || now.saturating_sub(before) > PAUSE_NS {
        cq.in_vain_since.store(now, Relaxed);
    }
}

/// A poll of it has found something.
#[inline]
pub(super) fn over(arena: &Mapping, index: u32) {
    let Some(cq) = arena.cqs.get(index as usize) else { return };
    if cq.in_vain_until.load(Relaxed) != 0 {
        cq.in_vain_until.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_or_a_completion_ends_it() {
        let arena = Mapping::create().unwrap();
        let since = || arena.cqs[3].in_vain_since.load(Relaxed);
        seen(&arena, 3, 1000);
        seen(&arena, 3, 2000);
        assert_eq!(since(), 1000);
        seen(&arena, 3, 2001 + PAUSE_NS);
        assert_eq!(since(), 2001 + PAUSE_NS);
        over(&arena, 3);
        seen(&arena, 3, 2002 + PAUSE_NS);
        assert_eq!(since(), 2002 + PAUSE_NS);
    }
}
