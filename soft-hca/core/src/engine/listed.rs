//! The completion queues for which payloads may be staged, as a list that all programs share. A
//! command of a program looks only at those of its queues that are listed, however many it has.
//!
//! A sender lists the queue before the payload that it stages can be seen. The queue's owner takes
//! it off the list when all payloads are in their places. Both hold the queue's lock for that, so
//! nothing is staged for a queue that is not listed. Polls leave the list alone: as long as the
//! owner gives no command, a queue is listed once, and each sender reads one word more.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use crate::arena::{Arena, Cq};
use crate::engine::actor::Actor;

/// Completion queues in each word of the list.
const IN_WORD: u32 = u64::BITS;

/// Completion queues of a device file, by the words of the list: index and generation of each.
#[derive(Debug, Default)]
pub struct CqSet(BTreeMap<u32, Vec<(u32, u32)>>);

impl CqSet {
    /// A queue was created.
    pub fn insert(&mut self, index: u32, generation: u32) {
        self.0.entry(index / IN_WORD).or_default().push((index, generation));
    }

    /// A queue was destroyed.
    pub fn remove(&mut self, index: u32) {
        if let Some(queues) = self.0.get_mut(&(index / IN_WORD)) {
            queues.retain(|(other, _)| *other != index);
            if queues.is_empty() {
                self.0.remove(&(index / IN_WORD));
            }
        }
    }
}

/// A queue's bit in its word.
fn bit(index: u32) -> u64 {
    1 << (index % IN_WORD)
}

/// The word with the bit of a queue.
fn word_of(arena: &Arena, index: u32) -> Option<&AtomicU64> {
    arena.staged_cqs.get((index / IN_WORD) as usize)
}

/// Lists a queue for which a payload is about to be staged. The caller has its lock.
#[inline]
pub(super) fn add(arena: &Arena, index: u32, cq: &Cq) {
    if cq.is_listed.load(Relaxed) == 0 {
        add_cold(arena, index, cq);
    }
}

#[cold]
fn add_cold(arena: &Arena, index: u32, cq: &Cq) {
    if let Some(word) = word_of(arena, index) {
        // If this process dies in between, the next sender lists the queue once more.
        word.fetch_or(bit(index), AcqRel);
        cq.is_listed.store(1, Release);
    }
}

/// Takes a queue off the list if nothing `is_staged` for it. The queue stays listed while
/// another process has its lock: that process may be stopped, so this one does not wait.
pub(super) fn remove(actor: &Actor<'_>, index: u32, cq: &Cq, is_staged: impl FnOnce() -> bool) {
    let Some(_guard) = cq.lock.try_lock(actor.me) else { return };
    if let Some(word) = word_of(actor.arena, index).filter(|_| !is_staged()) {
        cq.is_listed.store(0, Release);
        word.fetch_and(!bit(index), AcqRel);
    }
}

/// Index and generation of those of `queues` that are listed.
pub(super) fn among(arena: &Arena, queues: &CqSet) -> impl Iterator<Item = (u32, u32)> {
    queues.0.iter().flat_map(|(word, queues)| {
        let listed = word_of(arena, word * IN_WORD).map_or(0, |word| word.load(Acquire));
        queues.iter().copied().filter(move |(index, _)| listed & bit(*index) != 0)
    })
}
