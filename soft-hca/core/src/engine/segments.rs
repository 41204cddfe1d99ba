//! Stretches of a process's memory, and lists of them on the stack.

use arrayvec::ArrayVec;

/// Segments that one system call is given at most.
pub(super) const MAX_SEGMENTS: usize = 64;

/// A stretch of a process's memory. The same as the system's `iovec`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Segment {
    /// First address in that process.
    pub addr: u64,
    /// Bytes.
    pub length: u64,
}

/// The memory region that a stretch lies in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Region(u32);

impl Region {
    /// None: inline data in a ring, or a variable of ours.
    pub(crate) const NONE: Self = Self(0);

    /// The one with this index in the arena.
    pub(super) fn at(index: usize) -> Self {
        Self(index as u32 + 1)
    }

    /// Its index in the arena, if it is one.
    pub(super) fn index(self) -> Option<usize> {
        (self.0 as usize).checked_sub(1)
    }

    /// As a word of the arena, where anybody may write another.
    pub(super) fn to_word(self) -> u32 {
        self.0
    }

    /// The region of a word of [`Region::to_word`].
    pub(super) fn from_word(word: u32) -> Self {
        Self(word)
    }
}

/// Memory of one process, as one stream of bytes.
#[derive(Clone, Copy, Debug)]
pub struct Memory<'a> {
    /// Index of the process in the arena.
    pub proc: usize,
    /// The stretches in order.
    pub segments: &'a [Segment],
    /// The region of each stretch; empty if they are in none.
    pub regions: &'a [Region],
}

impl<'a> Memory<'a> {
    /// Memory that is in no region.
    pub(crate) fn unregistered(proc: usize, segments: &'a [Segment]) -> Self {
        Self { proc, segments, regions: &[] }
    }

    /// The region of a stretch.
    pub(super) fn region(&self, index: usize) -> Region {
        self.regions.get(index).copied().unwrap_or(Region::NONE)
    }
}

/// Why bytes could not be moved. Some of them may have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The source is not there, or may not be read.
    Source,
    /// The destination is not there, or may not be written.
    Destination,
    /// A process has ended or does not answer.
    Unreachable,
}

/// Bytes of all segments.
pub(super) fn length(segments: &[Segment]) -> u64 {
    segments.iter().fold(0, |sum: u64, segment| sum.saturating_add(segment.length))
}

/// A piece of a list of segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    /// The segment that it begins in.
    pub first: usize,
    /// Segments.
    pub count: usize,
    /// Bytes.
    pub bytes: u64,
}

/// Cuts a piece out of a list and puts it into `out`: `limit` bytes at most, behind the first
/// `skip`.
pub(super) fn window(
    segments: &[Segment],
    mut skip: u64,
    limit: u64,
    out: &mut [Segment; MAX_SEGMENTS],
) -> Window {
    let (mut first, mut count, mut bytes) = (0, 0, 0);
    for segment in segments {
        if segment.length <= skip {
            skip -= segment.length;
            first += 1;
            continue;
        }
        if bytes == limit || count == out.len() {
            break;
        }
        let length = (segment.length - skip).min(limit - bytes);
        out[count] = Segment { addr: segment.addr.wrapping_add(skip), length };
        skip = 0;
        count += 1;
        bytes += length;
    }
    Window { first, count, bytes }
}

/// Segments of one process, as many as those of two messages at least. Capacity that is not used
/// costs nothing: there are two lists for every doorbell.
#[derive(Debug)]
pub(super) struct SegmentList {
    segments: ArrayVec<Segment, MAX_SEGMENTS>,
    /// The region of each.
    regions: ArrayVec<Region, MAX_SEGMENTS>,
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
        Self { segments: ArrayVec::new_const(), regions: ArrayVec::new_const(), bytes: 0 }
    }

    /// How many more segments are sure to fit.
    pub(super) fn remaining(&self) -> usize {
        self.segments.remaining_capacity()
    }

    /// Bytes of all segments.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    #[cfg(test)]
    fn as_slice(&self) -> &[Segment] {
        &self.segments
    }

    /// Every segment with its region.
    pub(super) fn parts(&self) -> impl Iterator<Item = (Segment, Region)> {
        self.segments.iter().copied().zip(self.regions.iter().copied())
    }

    /// The listed memory, which is a process's.
    pub(super) fn of_process(&self, proc: usize) -> Memory<'_> {
        Memory { proc, segments: &self.segments, regions: &self.regions }
    }

    /// Appends a segment; one that goes on where the last has ended, in the same region, becomes
    /// part of it. The caller has seen that one more fits; else the list stays as it is.
    pub(super) fn push(&mut self, segment: Segment, region: Region) {
        let Segment { addr, length } = segment;
        if length == 0 {
            return;
        }
        let is_same_region = self.regions.last() == Some(&region);
        let goes_on = |last: &&mut Segment| {
            is_same_region && last.addr.checked_add(last.length) == Some(addr)
        };
        if let Some(last) = self.segments.last_mut().filter(goes_on) {
            last.length += length;
        } else if self.segments.try_push(segment).is_err() {
            return;
        } else {
            self.regions.push(region);
        }
        self.bytes += length;
    }

    pub(super) fn mark(&self) -> Mark {
        let last_length = self.segments.last().map_or(0, |last| last.length);
        Mark { count: self.segments.len(), last_length, bytes: self.bytes }
    }

    /// Takes the list back to what it was.
    pub(super) fn restore(&mut self, mark: Mark) {
        self.segments.truncate(mark.count);
        self.regions.truncate(mark.count);
        self.bytes = mark.bytes;
        if let Some(last) = self.segments.last_mut() {
            last.length = mark.last_length;
        }
    }

    /// `length` bytes of the list behind the first `skip`.
    pub(super) fn piece(&self, skip: u64, length: u64) -> Self {
        let mut out = [Segment::default(); MAX_SEGMENTS];
        let Window { first, count, bytes } = window(&self.segments, skip, length, &mut out);
        let mut segments = ArrayVec::from(out);
        segments.truncate(count);
        let regions = self.regions.iter().skip(first).take(count).copied().collect();
        Self { segments, regions, bytes }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn push(list: &mut SegmentList, addr: u64, length: u64) {
        list.push(Segment { addr, length }, Region::at(3));
    }

    #[test]
    fn neighbours_of_one_region_become_one() {
        let mut list = SegmentList::new();
        push(&mut list, 100, 10);
        push(&mut list, 110, 5);
        let mark = list.mark();
        push(&mut list, 115, 5);
        push(&mut list, 0, 0);
        push(&mut list, 400, 1);
        assert_eq!(list.as_slice().len(), 2);
        assert_eq!(list.bytes(), 21);
        list.restore(mark);
        let first = Segment { addr: 100, length: 15 };
        assert_eq!(list.as_slice(), [first]);
        assert_eq!(list.bytes(), 15);
        let other = Segment { addr: 115, length: 5 };
        list.push(other, Region::at(4));
        assert_eq!(list.as_slice(), [first, other]);
        let piece = list.piece(14, 3);
        let memory = piece.of_process(1);
        let expected = [Segment { addr: 114, length: 1 }, Segment { addr: 115, length: 2 }];
        assert_eq!(memory.segments, expected);
        assert_eq!(memory.regions, [Region::at(3), Region::at(4)]);
        assert_eq!(list.piece(16, 3).of_process(1).regions, [Region::at(4)]);
    }

    #[test]
    fn a_full_list_stays_as_it_is() {
        let mut list = SegmentList::new();
        for i in 0..100 {
            push(&mut list, i * 10, 1);
        }
        assert_eq!((list.remaining(), list.bytes()), (0, MAX_SEGMENTS as u64));
        push(&mut list, u64::MAX, 5);
        push(&mut list, 3, 5);
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
            before.iter().for_each(|&(addr, length)| push(&mut list, addr, length));
            let (mark, expected) = (list.mark(), stream(&list));
            after.iter().for_each(|&(addr, length)| push(&mut list, addr, length));
            let whole = stream(&list);
            let skip = list.bytes() / 3;
            prop_assert_eq!(stream(&list.piece(skip, 7)), whole.iter().skip(skip as usize).take(7).copied().collect::<Vec<_>>());
            list.restore(mark);
            prop_assert_eq!(stream(&list), expected);
        }
    }
}
