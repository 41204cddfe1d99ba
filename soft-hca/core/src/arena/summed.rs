//! Words in shared memory that are written without a lock: whoever reads them gets all as they were written, or none.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The words of something that has a number, which goes up. Two may write to one place at once: then the sum is wrong, and
/// neither is read.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Summed<const WORDS: usize> {
    /// From 1 on, once all else is written.
    number: AtomicU64,
    /// Of the number and the words.
    sum: AtomicU64,
    pub(super) words: [AtomicU64; WORDS],
}

/// A sum in which each word and its place count.
fn sum<const WORDS: usize>(number: u64, words: &[u64; WORDS]) -> u64 {
    let add =
        |sum: u64, word: &u64| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    words.iter().fold(number, add)
}

impl<const WORDS: usize> Summed<WORDS> {
    /// Writes what has a number.
    pub(super) fn write(&self, number: u64, words: &[u64; WORDS]) {
        self.sum.store(sum(number, words), Relaxed);
        for (place, word) in self.words.iter().zip(words) {
            place.store(*word, Relaxed);
        }
        self.number.fetch_max(number, Release);
    }

    /// The number of what was written last.
    pub(super) fn number(&self) -> u64 {
        self.number.load(Acquire)
    }

    /// The entry with this number, if it is there and whole.
    pub(super) fn read(&self, number: u64) -> Option<[u64; WORDS]> {
        let words = self.words.each_ref().map(|word| word.load(Relaxed));
        let is_whole = self.number() == number && self.sum.load(Relaxed) == sum(number, &words);
        is_whole.then_some(words)
    }

    #[cfg(test)]
    pub(super) fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self { number: zero(), sum: zero(), words: std::array::from_fn(|_| zero()) }
    }
}
