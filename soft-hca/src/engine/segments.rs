//! A list of segments on the stack.

use crate::engine::link::Segment;
use crate::engine::peer::{self, MAX_SEGMENTS};

/// Segments of one process, with room for those of two messages at least.
#[derive(Debug)]
pub(super) struct SegmentList {
    segments: [Segment; MAX_SEGMENTS],
    count: usize,
    bytes: u64,
    /// Segments before this one stay as they are.
    sealed: usize,
}

/// A state of a list to which it can be taken back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    count: usize,
    last_length: u64,
    bytes: u64,
}

impl SegmentList {
    pub(super) fn new() -> Self {
        Self { segments: [Segment::default(); MAX_SEGMENTS], count: 0, bytes: 0, sealed: 0 }
    }

    /// How many more segments are sure to fit.
    pub(super) fn room(&self) -> usize {
        MAX_SEGMENTS - self.count
    }

    /// Bytes of all segments.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn as_slice(&self) -> &[Segment] {
        &self.segments[..self.count]
    }

    /// Appends a segment; one that goes on where the last has ended becomes part of it. The caller
    /// has seen that there is room; without it the list stays as it is.
    pub(super) fn push(&mut self, addr: u64, length: u64) {
        if length == 0 {
            return;
        }
        let last = self.segments[self.sealed..self.count].last_mut();
        if let Some(last) = last
            && last.addr.checked_add(last.length) == Some(addr)
        {
            last.length += length;
        } else if let Some(next) = self.segments.get_mut(self.count) {
            *next = Segment { addr, length };
            self.count += 1;
        } else {
            return;
        }
        self.bytes += length;
    }

    /// Has the next segment be one of its own, whatever the last is.
    pub(super) fn seal(&mut self) {
        self.sealed = self.count;
    }

    pub(super) fn mark(&self) -> Mark {
        let last_length = self.as_slice().last().map_or(0, |last| last.length);
        Mark { count: self.count, last_length, bytes: self.bytes }
    }

    /// Takes the list back to what it was.
    pub(super) fn restore(&mut self, mark: Mark) {
        self.count = mark.count;
        self.sealed = self.sealed.min(mark.count);
        self.bytes = mark.bytes;
        if let Some(last) = mark.count.checked_sub(1) {
            self.segments[last].length = mark.last_length;
        }
    }

    /// `length` bytes of the list behind the first `skip`.
    pub(super) fn piece(&self, skip: u64, length: u64) -> Self {
        let mut piece = Self::new();
        (piece.count, piece.bytes) =
            peer::window(self.as_slice(), skip, length, &mut piece.segments);
        piece
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn neighbours_become_one() {
        let mut list = SegmentList::new();
        list.push(100, 10);
        list.push(110, 5);
        let mark = list.mark();
        list.push(115, 5);
        list.push(0, 0);
        list.push(400, 1);
        assert_eq!(list.as_slice().len(), 2);
        assert_eq!(list.bytes(), 21);
        list.restore(mark);
        assert_eq!(list.as_slice(), [Segment { addr: 100, length: 15 }]);
        assert_eq!(list.bytes(), 15);
    }

    #[test]
    fn a_sealed_segment_does_not_grow() {
        let mut list = SegmentList::new();
        list.push(100, 10);
        list.seal();
        list.push(110, 5);
        list.push(115, 5);
        let both = [Segment { addr: 100, length: 10 }, Segment { addr: 110, length: 10 }];
        assert_eq!(list.as_slice(), both);
    }

    #[test]
    fn a_full_list_stays_as_it_is() {
        let mut list = SegmentList::new();
        for i in 0..100 {
            list.push(i * 10, 1);
        }
        assert_eq!((list.room(), list.bytes()), (0, MAX_SEGMENTS as u64));
        list.push(u64::MAX, 5);
        list.push(3, 5);
        assert_eq!(list.bytes(), MAX_SEGMENTS as u64);
    }

    proptest! {
        #[test]
        fn marks_restore_and_pieces_fit(
            before in proptest::collection::vec((0u64..60, 0u64..20), 0..20),
            after in proptest::collection::vec((0u64..60, 0u64..20), 0..20),
        ) {
            let stream = |list: &SegmentList| -> Vec<u64> {
                list.as_slice().iter().flat_map(|s| s.addr..s.addr + s.length).collect()
            };
            let mut list = SegmentList::new();
            before.iter().for_each(|&(addr, length)| list.push(addr, length));
            let (mark, expected) = (list.mark(), stream(&list));
            after.iter().for_each(|&(addr, length)| list.push(addr, length));
            let whole = stream(&list);
            let skip = list.bytes() / 3;
            prop_assert_eq!(stream(&list.piece(skip, 7)), whole.iter().skip(skip as usize).take(7).copied().collect::<Vec<_>>());
            list.restore(mark);
            prop_assert_eq!(stream(&list), expected);
        }
    }
}
