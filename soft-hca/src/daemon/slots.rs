//! Which entries of a table are taken.

use std::collections::BTreeSet;

/// The entries of one table of the arena, handed out so that a number is not used again soon.
#[derive(Debug)]
pub struct Slots {
    taken: BTreeSet<usize>,
    capacity: usize,
    next: usize,
}

impl Slots {
    /// A table of `capacity` entries, none taken.
    pub fn new(capacity: usize) -> Self {
        Self { taken: BTreeSet::new(), capacity, next: 0 }
    }

    /// Takes the next free entry, `None` if there is none.
    pub fn take(&mut self) -> Option<usize> {
        let slot = (self.next..self.capacity)
            .chain(0..self.next)
            .find(|slot| !self.taken.contains(slot))?;
        self.taken.insert(slot);
        self.next = (slot + 1) % self.capacity;
        Some(slot)
    }

    /// Takes the lowest free entry, `None` if there is none.
    pub fn take_lowest(&mut self) -> Option<usize> {
        let slot = (0..self.capacity).find(|slot| !self.taken.contains(slot))?;
        self.taken.insert(slot);
        Some(slot)
    }

    /// Gives an entry back.
    pub fn release(&mut self, slot: usize) {
        self.taken.remove(&slot);
    }

    /// The entries that are taken.
    pub fn taken(&self) -> impl Iterator<Item = usize> + '_ {
        self.taken.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_rotate() {
        let mut slots = Slots::new(3);
        assert_eq!(slots.take(), Some(0));
        slots.release(0);
        assert_eq!((slots.take(), slots.take(), slots.take()), (Some(1), Some(2), Some(0)));
        assert_eq!(slots.take(), None);
        slots.release(1);
        assert_eq!(slots.take_lowest(), Some(1));
    }
}
