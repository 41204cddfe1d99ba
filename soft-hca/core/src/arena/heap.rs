//! Which parts of the heap are taken. Only the daemon allocates.

use std::collections::BTreeMap;

use crate::arena::layout::{ARENA_BYTES, HEAP_START};
use crate::system::page_bytes;

/// The free ranges of the heap, in bytes from the arena's start.
#[derive(Debug)]
pub struct Heap {
    /// Start and length of each free range; no two touch.
    free: BTreeMap<usize, usize>,
}

impl Default for Heap {
    fn default() -> Self {
        Self { free: BTreeMap::from([(HEAP_START, ARENA_BYTES - HEAP_START)]) }
    }
}

impl Heap {
    /// Takes `bytes`, rounded up to pages: the first range that is big enough. `None` if there
    /// is none.
    pub fn allocate(&mut self, bytes: usize) -> Option<usize> {
        let bytes = bytes.checked_next_multiple_of(page_bytes())?;
        let (&start, &length) = self.free.iter().find(|&(_, &length)| length >= bytes)?;
        self.free.remove(&start);
        if length > bytes {
            self.free.insert(start + bytes, length - bytes);
        }
        Some(start)
    }

    /// Gives back what `allocate(bytes)` has given.
    pub fn release(&mut self, start: usize, bytes: usize) {
        let (mut start, mut length) = (start, bytes.next_multiple_of(page_bytes()));
        if let Some(after) = self.free.remove(&(start + length)) {
            length += after;
        }
        if let Some((&before, &before_length)) = self.free.range(..start).next_back() {
            if before + before_length == start {
                start = before;
                length += before_length;
            }
        }
        self.free.insert(start, length);
    }

    /// Bytes that nobody has.
    pub fn free_bytes(&self) -> usize {
        self.free.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_do_not_overlap_and_come_back() {
        let mut heap = Heap::default();
        let whole = heap.free.clone();
        let sizes = [1, 4096, 4097, 1 << 20, 100];
        let starts: Vec<usize> = sizes.iter().map(|&size| heap.allocate(size).unwrap()).collect();
        for (i, (&start, &size)) in starts.iter().zip(&sizes).enumerate() {
            for (&other, &other_size) in starts.iter().zip(&sizes).skip(i + 1) {
                assert!(start + size <= other || other + other_size <= start);
            }
        }
        for i in [2, 0, 4, 1, 3] {
            heap.release(starts[i], sizes[i]);
        }
        assert_eq!(heap.free, whole);
    }

    #[test]
    fn more_than_there_is() {
        assert_eq!(Heap::default().allocate(usize::MAX), None);
        assert_eq!(Heap::default().allocate(ARENA_BYTES), None);
    }
}
