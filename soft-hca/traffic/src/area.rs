//! Memory of which is known what every byte has to be.

use std::cell::Cell;
use std::fmt;

use crate::pattern::Pattern;

/// A range of bytes in an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Bytes from the area's start.
    pub offset: u32,
    /// Bytes.
    pub length: u32,
}

/// The expected content of a range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Part of a message: its text from a place on.
    Message(Pattern, u64),
    /// Eight bytes, a number in the machine's byte order.
    Word(u64),
    /// Nobody knows.
    Unknown,
}

/// A range of an area that is not background.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Where it is.
    pub segment: Segment,
    /// Its content.
    pub content: Content,
}

/// A byte that is not what it has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    offset: usize,
    found: u8,
    expected: u8,
    in_message: bool,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, found, expected, .. } = self;
        let place =
            if self.in_message { "in a message" } else { "where nothing was to be written" };
        write!(f, "byte {offset} is 0x{found:02x} instead of 0x{expected:02x}, {place}")
    }
}

/// Bytes, with what they are where nothing else is known of them.
#[derive(Clone, Copy, Debug)]
pub struct Area<'a> {
    /// The bytes.
    pub cells: &'a [Cell<u8>],
    /// Their background.
    pub background: Pattern,
}

impl<'a> Area<'a> {
    fn cells(&self, segment: Segment) -> &'a [Cell<u8>] {
        &self.cells[segment.offset as usize..][..segment.length as usize]
    }

    /// The background between pieces, and after the last one.
    fn gaps(&self, pieces: &[Piece]) -> impl Iterator<Item = Segment> {
        let starts = pieces.iter().map(|piece| piece.segment.offset + piece.segment.length);
        let ends = pieces.iter().map(|piece| piece.segment.offset);
        let all = std::iter::once(0).chain(starts).zip(ends.chain([self.cells.len() as u32]));
        all.map(|(start, end)| Segment { offset: start, length: end - start })
    }

    /// Writes the pieces, which are in order, and the background around them.
    pub fn fill(&self, pieces: &[Piece]) {
        for gap in self.gaps(pieces) {
            self.background.fill(u64::from(gap.offset), self.cells(gap));
        }
        for piece in pieces {
            let cells = self.cells(piece.segment);
            match piece.content {
                Content::Message(text, at) => text.fill(at, cells),
                Content::Word(word) => {
                    cells.iter().zip(word.to_ne_bytes()).for_each(|(cell, byte)| cell.set(byte));
                }
                Content::Unknown => {}
            }
        }
    }

    /// Looks at every byte.
    pub fn check(&self, pieces: &[Piece]) -> Result<(), Mismatch> {
        for gap in self.gaps(pieces) {
            self.check_text(gap, self.background, u64::from(gap.offset), false)?;
        }
        for piece in pieces {
            match piece.content {
                Content::Message(text, at) => self.check_text(piece.segment, text, at, true)?,
                Content::Word(word) => {
                    let cells = self.cells(piece.segment).iter().zip(word.to_ne_bytes());
                    let mut wrong =
                        cells.enumerate().filter(|(_, (cell, byte))| cell.get() != *byte);
                    if let Some((index, (cell, expected))) = wrong.next() {
                        let offset = piece.segment.offset as usize + index;
                        let found = cell.get();
                        return Err(Mismatch { offset, found, expected, in_message: true });
                    }
                }
                Content::Unknown => {}
            }
        }
        Ok(())
    }

    fn check_text(
        &self,
        segment: Segment,
        text: Pattern,
        at: u64,
        in_message: bool,
    ) -> Result<(), Mismatch> {
        let cells = self.cells(segment);
        text.differs(at, cells).map_or(Ok(()), |index| {
            Err(Mismatch {
                offset: segment.offset as usize + index,
                found: cells[index].get(),
                expected: text.byte(at + index as u64),
                in_message,
            })
        })
    }
}

/// The pieces of a message that lies in `segments` one after the other, behind `skip` bytes of
/// which nothing is known. What is left of the last segments is background.
pub fn along(
    segments: &[Segment],
    skip: u32,
    length: u32,
    text: Pattern,
) -> impl Iterator<Item = Piece> {
    let mut skip = skip;
    let mut done = 0;
    segments.iter().flat_map(move |segment| {
        let unknown = skip.min(segment.length);
        let known = (segment.length - unknown).min(length - done);
        let head = Segment { offset: segment.offset, length: unknown };
        let body = Segment { offset: segment.offset + unknown, length: known };
        let content = Content::Message(text, u64::from(done));
        skip -= unknown;
        done += known;
        let pieces =
            [Piece { segment: head, content: Content::Unknown }, Piece { segment: body, content }];
        pieces.into_iter().filter(|piece| piece.segment.length > 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_is_looked_at() {
        let (text, background) = (Pattern::new(&[1]), Pattern::new(&[2]));
        let mut bytes = [0; 200];
        let cells = Cell::from_mut(&mut bytes[..]).as_slice_of_cells();
        let area = Area { cells, background };
        let segments = [(3, 10), (20, 5), (30, 100)];
        let segments = segments.map(|(offset, length)| Segment { offset, length });
        let mut pieces: Vec<Piece> = along(&segments, 12, 60, text).collect();
        let word = Segment { offset: 150, length: 8 };
        pieces.push(Piece { segment: word, content: Content::Word(77) });
        area.fill(&pieces);
        assert_eq!(area.check(&pieces), Ok(()));
        // Of the message 3 bytes lie in the second segment and 57 in the third.
        assert_eq!(cells[15].get(), background.byte(15));
        assert_eq!(cells[22].get(), text.byte(0));
        for (index, cell) in cells.iter().enumerate() {
            let is_unknown = (3..13).contains(&index) || (20..22).contains(&index);
            cell.set(!cell.get());
            let found = area.check(&pieces);
            assert_eq!(found.is_ok(), is_unknown, "{index}");
            assert!(found.err().is_none_or(|mismatch| mismatch.offset == index));
            cell.set(!cell.get());
        }
    }
}
