//! Numbers that both sides draw alike, and bytes that tell where they belong.

use std::cell::Cell;

/// The finalizer of SplitMix64: every bit of the result depends on every bit of the number.
fn mix(mut number: u64) -> u64 {
    number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

fn key(of: &[u64]) -> u64 {
    of.iter().fold(STEP, |key, &number| mix(key.wrapping_add(STEP) ^ mix(number)))
}

/// A sequence of numbers (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence that belongs to some numbers.
    pub fn new(of: &[u64]) -> Self {
        Self(key(of))
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A number below a limit, which is not 0.
    pub fn below(&mut self, limit: u32) -> u32 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u32
    }

    /// True once in so many times.
    pub fn once_in(&mut self, times: u32) -> bool {
        self.below(times) == 0
    }
}

/// An endless text. Two texts, and two places of one, have nothing in common but by chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern(u64);

const WORD: usize = 8;

impl Pattern {
    /// The text that belongs to some numbers.
    pub fn new(of: &[u64]) -> Self {
        Self(key(of))
    }

    fn word(self, index: u64) -> [u8; WORD] {
        mix(self.0.wrapping_add(index.wrapping_mul(STEP))).to_le_bytes()
    }

    /// The byte at a place.
    pub fn byte(self, at: u64) -> u8 {
        self.word(at / WORD as u64)[at as usize % WORD]
    }

    /// Writes the text from place `at` on.
    pub fn fill(self, at: u64, cells: &[Cell<u8>]) {
        let (head, words) = split(at, cells);
        (at..).zip(head).for_each(|(at, cell)| cell.set(self.byte(at)));
        let first = (at + head.len() as u64) / WORD as u64;
        for (index, cells) in (first..).zip(words.chunks(WORD)) {
            cells.iter().zip(self.word(index)).for_each(|(cell, byte)| cell.set(byte));
        }
    }

    /// Index of the first cell that is not as the text from place `at` on.
    pub fn differs(self, at: u64, cells: &[Cell<u8>]) -> Option<usize> {
        let is_wrong = |&(at, cell): &(u64, &Cell<u8>)| cell.get() != self.byte(at);
        let (head, words) = split(at, cells);
        let start = at + head.len() as u64;
        let index = (start / WORD as u64..).zip(words.chunks(WORD)).find(|(index, cells)| {
            let text = self.word(*index);
            cells.iter().zip(text).any(|(cell, byte)| cell.get() != byte)
        });
        let place = (at..).zip(head).find(is_wrong).map(|(at, _)| at).or_else(|| {
            let (index, cells) = index?;
            (index * WORD as u64..).zip(cells).find(is_wrong).map(|(at, _)| at)
        })?;
        Some((place - at) as usize)
    }
}

/// The cells before the first whole word of the text, and the others.
fn split(at: u64, cells: &[Cell<u8>]) -> (&[Cell<u8>], &[Cell<u8>]) {
    let head = (at.next_multiple_of(WORD as u64) - at) as usize;
    cells.split_at(head.min(cells.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_filled_is_found_again() {
        let pattern = Pattern::new(&[1, 2, 3]);
        for at in 0..20 {
            for length in 0..40 {
                let mut bytes = vec![0; length];
                let cells = Cell::from_mut(&mut bytes[..]).as_slice_of_cells();
                pattern.fill(at, cells);
                assert_eq!(pattern.differs(at, cells), None);
                for (index, cell) in cells.iter().enumerate() {
                    assert_eq!(cell.get(), pattern.byte(at + index as u64));
                    cell.set(!cell.get());
                    assert_eq!(pattern.differs(at, cells), Some(index));
                    cell.set(!cell.get());
                }
            }
        }
    }

    #[test]
    fn texts_differ() {
        let mut bytes = [0; 256];
        let cells = Cell::from_mut(&mut bytes[..]).as_slice_of_cells();
        Pattern::new(&[1, 2]).fill(0, cells);
        for other in [Pattern::new(&[2, 1]), Pattern::new(&[1, 3]), Pattern::new(&[1])] {
            assert!(other.differs(0, cells).is_some_and(|index| index < 4));
        }
        assert!(Pattern::new(&[1, 2]).differs(1, cells).is_some_and(|index| index < 4));
    }

    #[test]
    fn numbers_stay_below_their_limit() {
        let mut random = Random::new(&[7]);
        let numbers: Vec<u32> = (0..1000).map(|_| random.below(10)).collect();
        assert!((0..10).all(|number| numbers.contains(&number)));
        assert!(numbers.iter().all(|&number| number < 10));
    }
}
