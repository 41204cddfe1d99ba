//! Which functions stand behind ours, by the address of a context or of a queue. Whoever polls or posts a
//! receive looks here each time, so there is no lock on that way.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicUsize};

use crate::client::cq::Queue;
use crate::client::functions::{EndPoll, NextPoll, PollCq, Post, Slot, StartPoll};
use crate::client::of_process::OfProcess;

/// How far an entry may lie behind the one that its address leads to.
const PROBES: usize = 8;

/// The functions of a context that are called through ours.
#[derive(Debug)]
pub(super) struct Context {
    pub poll_cq: Slot<PollCq>,
    pub post_send: Slot<Post>,
    pub post_recv: Slot<Post>,
    pub post_srq_recv: Slot<Post>,
}

/// A completion queue, and the functions that are called through ours: that of its context, and its own if it is an
/// extended one.
#[derive(Debug)]
pub(super) struct CompletionQueue {
    pub poll_cq: Slot<PollCq>,
    pub start_poll: Slot<StartPoll>,
    pub next_poll: Slot<NextPoll>,
    pub end_poll: Slot<EndPoll>,
    index: AtomicU32,
    generation: AtomicU32,
}

impl CompletionQueue {
    /// The queue as the arena knows it.
    #[inline]
    pub(super) fn queue(&self) -> Queue {
        Queue { index: self.index.load(Relaxed), generation: self.generation.load(Relaxed) }
    }

    /// Makes it a queue of which only `poll_cq` is known.
    pub(super) fn begin(&self, queue: Queue, poll_cq: Option<PollCq>) {
        self.poll_cq.store(poll_cq, Relaxed);
        self.start_poll.store(None, Relaxed);
        self.next_poll.store(None, Relaxed);
        self.end_poll.store(None, Relaxed);
        self.index.store(queue.index, Relaxed);
        self.generation.store(queue.generation, Relaxed);
    }
}

/// A value that an entry holds for its address.
pub(super) trait Value: 'static {
    /// The value of an entry without an address.
    const EMPTY: Self;
}

impl Value for Context {
    const EMPTY: Self = Self {
        poll_cq: Slot::empty(),
        post_send: Slot::empty(),
        post_recv: Slot::empty(),
        post_srq_recv: Slot::empty(),
    };
}

impl Value for CompletionQueue {
    const EMPTY: Self = Self {
        poll_cq: Slot::empty(),
        start_poll: Slot::empty(),
        next_poll: Slot::empty(),
        end_poll: Slot::empty(),
        index: AtomicU32::new(0),
        generation: AtomicU32::new(0),
    };
}

/// All that a lookup needs is in one cache line.
#[repr(align(64))]
struct Entry<T> {
    /// The address, or 0.
    key: AtomicUsize,
    known: T,
}

/// Entries by address: an address leads to one of those that are followed by `PROBES` others.
pub(super) struct Table<T, const LENGTH: usize> {
    entries: [Entry<T>; LENGTH],
    /// Taken to change the table.
    changing: OfProcess<()>,
}

/// The contexts whose functions are replaced.
pub(super) static CONTEXTS: Table<Context, { 1024 + PROBES }> = Table::new();

/// The queues of these contexts.
pub(super) static QUEUES: Table<CompletionQueue, { 16384 + PROBES }> = Table::new();

impl<T: Value, const LENGTH: usize> Table<T, LENGTH> {
    const fn new() -> Self {
        let entries = [const { Entry { key: AtomicUsize::new(0), known: T::EMPTY } }; LENGTH];
        Self { entries, changing: OfProcess::new() }
    }

    /// The entries in which an address may be.
    #[inline]
    fn entries(&self, key: usize) -> &[Entry<T>] {
        // Addresses of structures differ in the bits in the middle.
        let hash = (key as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let first = hash as usize % (LENGTH - PROBES);
        &self.entries[first..first + PROBES]
    }

    /// The value of an address. Once that is removed, the entry may become another one's.
    #[inline]
    pub(super) fn find(&self, key: usize) -> Option<&T> {
        let entry = self.entries(key).iter().find(|entry| entry.key.load(Acquire) == key)?;
        Some(&entry.known)
    }

    /// Enters an address, of which `fill` says what is known, in the place of what was known of it. False if there is
    /// no room.
    pub(super) fn insert(&'static self, key: usize, fill: impl FnOnce(&T)) -> bool {
        let _changing = self.changing.lock();
        let of = |key| self.entries(key).iter().find(move |entry| entry.key.load(Acquire) == key);
        let empty = || self.entries(key).iter().find(|entry| entry.key.load(Acquire) == 0);
        let Some(entry) = of(key).or_else(empty) else { return false };
        fill(&entry.known);
        entry.key.store(key, Release);
        true
    }

    /// Forgets an address.
    pub(super) fn remove(&'static self, key: usize) {
        let _changing = self.changing.lock();
        if let Some(entry) = self.entries(key).iter().find(|entry| entry.key.load(Acquire) == key) {
            entry.key.store(0, Release);
        }
    }
}

/// The index in the arena of a completion queue that is watched, by the program's name for it.
pub(super) fn index_of(cq: usize) -> Option<u32> {
    QUEUES.find(cq).map(|known| known.queue().index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter<const ENTRIES: usize>(
        table: &'static Table<CompletionQueue, ENTRIES>,
        key: usize,
        index: u32,
    ) -> bool {
        table.insert(key, |known| known.begin(Queue { index, generation: 1 }, None))
    }

    fn find<const ENTRIES: usize>(
        table: &'static Table<CompletionQueue, ENTRIES>,
        key: usize,
    ) -> Option<u32> {
        table.find(key).map(|known| known.queue().index)
    }

    #[test]
    fn an_address_is_found_until_it_is_removed_and_may_come_back() {
        static TABLE: Table<CompletionQueue, 64> = Table::new();
        let key = 0x7000_0000_1230;
        assert_eq!(find(&TABLE, key), None);
        assert!(enter(&TABLE, key, 1) && enter(&TABLE, key, 2) && enter(&TABLE, key + 16, 3));
        assert_eq!((find(&TABLE, key), find(&TABLE, key + 16)), (Some(2), Some(3)));
        TABLE.remove(key);
        assert_eq!((find(&TABLE, key), find(&TABLE, key + 16)), (None, Some(3)));
        assert!(enter(&TABLE, key, 4));
        assert_eq!(find(&TABLE, key), Some(4));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        const ENTRIES: usize = 256;
        static TABLE: Table<CompletionQueue, ENTRIES> = Table::new();
        let index = |key: usize| (key % 1000) as u32;
        let keys = (1..2_000).map(|number| 0x6000_0000_0000 + number * 64);
        let known: Vec<usize> = keys.filter(|key| enter(&TABLE, *key, index(*key))).collect();
        assert!((ENTRIES / 4..=ENTRIES).contains(&known.len()), "{}", known.len());
        assert!(known.iter().all(|key| find(&TABLE, *key) == Some(index(*key))));
    }

    #[test]
    fn a_look_is_at_one_line_of_the_cache() {
        assert_eq!((size_of::<Entry<Context>>(), size_of::<Entry<CompletionQueue>>()), (64, 64));
    }

    /// An address where an extended queue was may be that of a plain one later.
    #[test]
    fn a_queue_begins_without_the_functions_of_one_before() {
        unsafe extern "C-unwind" fn ends(_: *mut std::ffi::c_void) {}
        static TABLE: Table<CompletionQueue, 64> = Table::new();
        assert!(enter(&TABLE, 64, 1));
        TABLE.find(64).unwrap().end_poll.store(Some(ends), Relaxed);
        TABLE.remove(64);
        assert!(enter(&TABLE, 64, 2));
        assert!(TABLE.find(64).unwrap().end_poll.load(Relaxed).is_none());
    }
}
