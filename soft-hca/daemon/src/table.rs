//! The entries of one table of the arena: which are taken, and what the daemon alone knows of each.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::free::Free;

/// Entries with a value each, which programs cannot reach.
#[derive(Debug)]
pub(crate) struct Table<P> {
    taken: BTreeMap<usize, P>,
    free: Free,
    next: usize,
}

impl<P> Table<P> {
    /// A table with entries of these indices, none taken. The first one that will be is `next`, or
    /// whatever entry of the table that number leads to.
    pub(crate) fn new(indices: Range<usize>, next: usize) -> Self {
        let next = indices.start + next % indices.len();
        Self { taken: BTreeMap::new(), free: Free::new(indices), next }
    }

    /// Takes the next free entry, `None` if there is none. So an index is not used again soon.
    pub(crate) fn take(&mut self, value: P) -> Option<usize> {
        let index = self.free.take_from(self.next)?;
        self.next = index + 1;
        self.taken.insert(index, value);
        Some(index)
    }

    /// Takes the next free entry of these indices, `None` if there is none among them.
    pub(crate) fn take_in(&mut self, indices: Range<usize>, value: P) -> Option<usize> {
        let next = if indices.contains(&self.next) { self.next } else { indices.start };
        let index = self.free.take_in(indices, next)?;
        self.next = index + 1;
        self.taken.insert(index, value);
        Some(index)
    }

    /// The indices among these that are taken.
    pub(crate) fn taken_in(&self, indices: Range<usize>) -> impl Iterator<Item = usize> + '_ {
        self.taken.range(indices).map(|(index, _)| *index)
    }

    /// Takes the lowest free entry, `None` if there is none.
    pub(crate) fn take_lowest(&mut self, value: P) -> Option<usize> {
        let index = self.free.take_lowest()?;
        self.taken.insert(index, value);
        Some(index)
    }

    /// Gives an entry back.
    pub(crate) fn release(&mut self, index: usize) -> Option<P> {
        let value = self.taken.remove(&index)?;
        self.free.release(index);
        Some(value)
    }

    /// The value of an entry, if it is taken.
    pub(crate) fn get(&self, index: usize) -> Option<&P> {
        self.taken.get(&index)
    }

    /// The same, to be changed.
    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut P> {
        self.taken.get_mut(&index)
    }

    /// The entries that are taken, by index.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &P)> + '_ {
        self.taken.iter().map(|(&index, value)| (index, value))
    }

    /// The same, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut P)> + '_ {
        self.taken.iter_mut().map(|(&index, value)| (index, value))
    }

    /// How many entries are taken.
    pub(crate) fn len(&self) -> usize {
        self.taken.len()
    }

    /// The indices that are taken.
    pub(crate) fn taken(&self) -> impl Iterator<Item = usize> + '_ {
        self.taken.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_rotate() {
        let mut table = Table::new(1..4, 0);
        assert_eq!(table.take('a'), Some(1));
        assert_eq!(table.release(1), Some('a'));
        assert_eq!(
            [table.take('b'), table.take('c'), table.take('d')],
            [Some(2), Some(3), Some(1)]
        );
        assert_eq!(table.take('e'), None);
        assert_eq!(table.release(2), Some('b'));
        assert_eq!(table.take_lowest('f'), Some(2));
        assert_eq!((table.get(2), table.get(4)), (Some(&'f'), None));
    }

    #[test]
    fn the_first_index_can_be_any() {
        for (next, first) in [(0, 5), (2, 7), (3, 5), (usize::MAX, 5)] {
            assert_eq!(Table::new(5..8, next).take(()), Some(first), "{next}");
        }
    }
}
