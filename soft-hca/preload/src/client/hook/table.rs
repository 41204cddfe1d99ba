//! Which functions stand behind ours, by the address of a queue or of a context. Who polls or posts a
//! receive looks here each time, so there is no lock on that way.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicUsize};

use crate::client::cq::Queue;
use crate::client::of_process::OfProcess;

/// Addresses that are known at most.
const ENTRIES: usize = 16384;
/// How far an entry may lie behind the one that its address leads to.
const PROBES: usize = 8;

/// The functions of a context or a queue that are called through ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Own {
    pub poll_cq: usize,
    pub start_poll: usize,
    pub next_poll: usize,
    pub end_poll: usize,
    pub post_recv: usize,
    pub post_srq_recv: usize,
}

impl Own {
    /// Of a context, which has no functions of an extended queue: `post_send` has the word of one of these,
    /// so that all that is known is in one line of the processor's cache.
    pub(super) fn with_post_send(self, post_send: usize) -> Self {
        Self { end_poll: post_send, ..self }
    }

    /// The context's function.
    pub(super) fn post_send(&self) -> usize {
        self.end_poll
    }
}

/// What is known of an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Hooked {
    pub own: Own,
    /// None for a context.
    pub queue: Queue,
}

/// What a look needs is in one line of the processor's cache.
#[repr(align(64))]
struct Entry {
    /// The address, or 0.
    key: AtomicUsize,
    poll_cq: AtomicUsize,
    start_poll: AtomicUsize,
    next_poll: AtomicUsize,
    end_poll: AtomicUsize,
    post_recv: AtomicUsize,
    post_srq_recv: AtomicUsize,
    index: AtomicU32,
    generation: AtomicU32,
}

impl Entry {
    const fn empty() -> Self {
        Self {
            key: AtomicUsize::new(0),
            poll_cq: AtomicUsize::new(0),
            start_poll: AtomicUsize::new(0),
            next_poll: AtomicUsize::new(0),
            end_poll: AtomicUsize::new(0),
            post_recv: AtomicUsize::new(0),
            post_srq_recv: AtomicUsize::new(0),
            index: AtomicU32::new(0),
            generation: AtomicU32::new(0),
        }
    }
}

static TABLE: [Entry; ENTRIES + PROBES] = [const { Entry::empty() }; ENTRIES + PROBES];

/// Taken to change the table.
static CHANGING: OfProcess<()> = OfProcess::new();

/// The entries in which an address may be.
fn entries(key: usize) -> &'static [Entry] {
    // Addresses of structures differ in the bits in the middle.
    let hash = (key as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let first = hash as usize % ENTRIES;
    &TABLE[first..first + PROBES]
}

/// What is known of an address.
#[inline]
pub(super) fn find(key: usize) -> Option<Hooked> {
    let entry = entries(key).iter().find(|entry| entry.key.load(Acquire) == key)?;
    Some(Hooked {
        own: Own {
            poll_cq: entry.poll_cq.load(Relaxed),
            start_poll: entry.start_poll.load(Relaxed),
            next_poll: entry.next_poll.load(Relaxed),
            end_poll: entry.end_poll.load(Relaxed),
            post_recv: entry.post_recv.load(Relaxed),
            post_srq_recv: entry.post_srq_recv.load(Relaxed),
        },
        queue: Queue {
            index: entry.index.load(Relaxed),
            generation: entry.generation.load(Relaxed),
        },
    })
}

/// The index in the arena of a completion queue that is watched, by the program's name for it.
pub(super) fn index_of(cq: usize) -> Option<u32> {
    find(cq)
        .map(|hooked| hooked.queue)
        .filter(|queue| queue.generation != 0)
        .map(|queue| queue.index)
}

/// Remembers an address, in the place of what was known of it. False if there is no room.
pub(super) fn insert(key: usize, hooked: Hooked) -> bool {
    let _changing = CHANGING.lock();
    let of = |key| entries(key).iter().find(move |entry| entry.key.load(Acquire) == key);
    let empty = || entries(key).iter().find(|entry| entry.key.load(Acquire) == 0);
    let Some(entry) = of(key).or_else(empty) else { return false };
    entry.poll_cq.store(hooked.own.poll_cq, Relaxed);
    entry.start_poll.store(hooked.own.start_poll, Relaxed);
    entry.next_poll.store(hooked.own.next_poll, Relaxed);
    entry.end_poll.store(hooked.own.end_poll, Relaxed);
    entry.post_recv.store(hooked.own.post_recv, Relaxed);
    entry.post_srq_recv.store(hooked.own.post_srq_recv, Relaxed);
    entry.index.store(hooked.queue.index, Relaxed);
    entry.generation.store(hooked.queue.generation, Relaxed);
    entry.key.store(key, Release);
    true
}

/// Forgets an address.
pub(super) fn remove(key: usize) {
    let _changing = CHANGING.lock();
    if let Some(entry) = entries(key).iter().find(|entry| entry.key.load(Acquire) == key) {
        entry.key.store(0, Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::*;

    /// One of the tests fills the table, which is one for the process.
    fn the_table() -> MutexGuard<'static, ()> {
        static TAKEN: Mutex<()> = Mutex::new(());
        TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hooked(number: usize) -> Hooked {
        let queue = Queue { index: number as u32, generation: 1 };
        let own = Own { poll_cq: number, post_recv: number + 1, ..Own::default() };
        Hooked { own, queue }
    }

    #[test]
    fn an_address_is_found_until_it_is_removed_and_may_come_back() {
        let _table = the_table();
        let key = 0x7000_0000_1230;
        assert_eq!(find(key), None);
        assert!(insert(key, hooked(1)));
        assert!(insert(key, hooked(2)));
        assert!(insert(key + 16, hooked(3)));
        assert_eq!((find(key), find(key + 16)), (Some(hooked(2)), Some(hooked(3))));
        remove(key);
        assert_eq!((find(key), find(key + 16)), (None, Some(hooked(3))));
        assert!(insert(key, hooked(4)));
        assert_eq!(find(key), Some(hooked(4)));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let _table = the_table();
        let keys = (1..100_000).map(|number| 0x6000_0000_0000 + number * 64);
        let known: Vec<usize> = keys.filter(|key| insert(*key, hooked(*key % 1000))).collect();
        assert!((ENTRIES / 4..=ENTRIES + PROBES).contains(&known.len()), "{}", known.len());
        assert!(known.iter().all(|key| find(*key) == Some(hooked(*key % 1000))));
        known.into_iter().for_each(remove);
    }
}
