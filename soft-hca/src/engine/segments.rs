//! A list of segments on the stack.

use arrayvec::ArrayVec;

use crate::engine::link::Segment;
use crate::engine::process_memory::{self, MAX_SEGMENTS};

/// Segments of one process, with room for those of two messages at least. Room that is not used
/// costs nothing: there are two lists for every doorbell.
#[derive(Debug)]
pub(super) struct SegmentList {
    segments: ArrayVec<Segment, MAX_SEGMENTS>,
    bytes: u64,
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
        Self { segments: ArrayVec::new_const(), bytes: 0 }
    }

    /// How many more segments are sure to fit.
    pub(super) fn room(&self) -> usize {
        self.segments.remaining_capacity()
    }

    /// Bytes of all segments.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn as_slice(&self) -> &[Segment] {
        &self.segments
    }

    /// Appends a segment; one that goes on where the last has ended becomes part of it. The caller
    /// has seen that there is room; without it the list stays as it is.
    pub(super) fn push(&mut self, addr: u64, length: u64) {
        if length == 0 {
            return;
        }
        if let Some(last) = self.segments.last_mut()
            && last.addr.checked_add(last.length) == Some(addr)
        {
            last.length += length;
        } else if self.segments.try_push(Segment { addr, length }).is_err() {
            return;
        }
        self.bytes += length;
    }

    pub(super) fn mark(&self) -> Mark {
        let last_length = self.as_slice().last().map_or(0, |last| last.length);
        Mark { count: self.segments.len(), last_length, bytes: self.bytes }
    }

    /// Takes the list back to what it was.
    pub(super) fn restore(&mut self, mark: Mark) {
        self.segments.truncate(mark.count);
        self.bytes = mark.bytes;
        if let Some(last) = self.segments.last_mut() {
            last.length = mark.last_length;
        }
    }

    /// `length` bytes of the list behind the first `skip`.
    pub(super) fn piece(&self, skip: u64, length: u64) -> Self {
        let mut out = [Segment::default(); MAX_SEGMENTS];
        let (count, bytes) = process_memory::window(self.as_slice(), skip, length, &mut out);
        let mut segments = ArrayVec::from(out);
        segments.truncate(count);
        Self { segments, bytes }
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
