//! The parts of a picture.

use crate::correlation::phases::Phase;
use crate::correlation::rounds::Folded;
use crate::severity::Severity;
use crate::timeline::frame::Frame;

/// Pixels of the strip behind a heading and a fold.
pub(in crate::timeline) const STRIP: f64 = 46.0;

/// A picture without its ink.
#[derive(Debug)]
pub(in crate::timeline) struct Layout {
    pub(in crate::timeline) frame: Frame,
    pub(in crate::timeline) blocks: Vec<Block>,
    /// Where each entry is; none if it is left out.
    pub(in crate::timeline) positions: Vec<Option<Position>>,
}

/// Where an entry is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::timeline) struct Position {
    pub(in crate::timeline) block: usize,
    pub(in crate::timeline) row: usize,
    /// The middle of its mark, in the block.
    pub(in crate::timeline) y: f64,
    /// Where its mark is.
    pub(in crate::timeline) x: f64,
}

/// The kinds of blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::timeline) enum Kind {
    Shown,
    /// Rounds, of which the first are in the block, and so many entries more are not.
    Folded {
        rounds: Folded,
        left_out: usize,
    },
    /// So many entries are not in the picture.
    LeftOut {
        entries: usize,
    },
}

/// A part of the picture.
#[derive(Debug)]
pub(in crate::timeline) struct Block {
    /// The part of the run that begins with it.
    pub(in crate::timeline) heading: Option<Phase>,
    pub(in crate::timeline) kind: Kind,
    pub(in crate::timeline) rows: Vec<Row>,
    pub(in crate::timeline) height: f64,
    pub(in crate::timeline) breaks: Vec<Break>,
    pub(in crate::timeline) lifelines: Vec<Lifeline>,
    pub(in crate::timeline) bars: Vec<Bar>,
    pub(in crate::timeline) lines: Vec<Line>,
}

/// A row.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::timeline) struct Row {
    pub(in crate::timeline) y: f64,
    pub(in crate::timeline) height: f64,
    /// From its top to the middle of its marks.
    pub(in crate::timeline) middle: f64,
    /// Nanoseconds of its first entry.
    pub(in crate::timeline) t: u64,
    /// All that is in it.
    pub(in crate::timeline) entries: Vec<usize>,
    pub(in crate::timeline) texts: Vec<Text>,
}

/// An entry's text in a row.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::timeline) struct Text {
    pub(in crate::timeline) entry: usize,
    pub(in crate::timeline) text_column: usize,
    pub(in crate::timeline) severity: Severity,
    pub(in crate::timeline) name: String,
    pub(in crate::timeline) rest: String,
    /// Text that has no room there, in lines below.
    pub(in crate::timeline) more: Vec<String>,
    /// Where the first line ends.
    pub(in crate::timeline) end: f64,
    /// The reason, in lines below all that.
    pub(in crate::timeline) reason: Vec<String>,
}

/// A time in which nothing happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::timeline) struct Break {
    pub(in crate::timeline) y: f64,
    pub(in crate::timeline) duration: u64,
}

/// A participant's presence in a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::timeline) struct Lifeline {
    pub(in crate::timeline) participant: usize,
    pub(in crate::timeline) from: f64,
    pub(in crate::timeline) to: f64,
}

/// The kinds of bars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::timeline) enum BarKind {
    /// A work request in its send queue.
    Send,
    /// A receive in its queue.
    Receive,
    /// The time within which it was posted, where nobody saw that.
    Before,
    /// A thread that waits.
    Wait,
}

/// Something that takes time, or the part of it that is in a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::timeline) struct Bar {
    pub(in crate::timeline) entry: usize,
    pub(in crate::timeline) kind: BarKind,
    pub(in crate::timeline) severity: Severity,
    pub(in crate::timeline) x: f64,
    pub(in crate::timeline) from: f64,
    pub(in crate::timeline) to: f64,
    /// Whether it begins and ends here.
    pub(in crate::timeline) begins: bool,
    pub(in crate::timeline) ends: bool,
}

/// The kinds of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::timeline) enum LineKind {
    /// A message goes into a receive.
    Message,
    /// An operation on remote memory.
    Memory,
    /// A work request or a receive leads to its completion.
    Completes,
    /// A call leads to an event.
    Leads,
    /// A packet.
    Packet,
}

/// An arrow, or the part of it that is in a block.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::timeline) struct Line {
    /// Its owner: all else of these belongs to that.
    pub(in crate::timeline) entries: [usize; 2],
    pub(in crate::timeline) kind: LineKind,
    pub(in crate::timeline) from: (f64, f64),
    pub(in crate::timeline) to: (f64, f64),
    /// Where it enters the strips above the block, if it comes from there or goes there.
    pub(in crate::timeline) above: f64,
    /// Whether it begins in this block.
    pub(in crate::timeline) begins: bool,
    /// Whether it has a head at the beginning and at the end.
    pub(in crate::timeline) heads: [bool; 2],
    /// Of an arrow that goes straight down: by how much it goes round what is between, to the right.
    pub(in crate::timeline) round: f64,
    /// Of an operation on remote memory: whether that is where it begins.
    pub(in crate::timeline) reads: bool,
    /// It did not get where it should.
    pub(in crate::timeline) failed: bool,
    pub(in crate::timeline) label: Option<String>,
}

impl Block {
    /// Pixels of the strips above it: behind its heading, and in the place of what is folded.
    pub(super) fn strips(&self) -> f64 {
        let count = usize::from(self.heading.is_some()) + usize::from(self.kind != Kind::Shown);
        count as f64 * STRIP
    }
}

impl Layout {
    /// A distance from one block to another as the pieces of it: the block, and where in it.
    pub(super) fn pieces(&self, from: (usize, f64), to: (usize, f64)) -> Vec<(usize, f64, f64)> {
        let (from, to) = if from <= to { (from, to) } else { (to, from) };
        (from.0..=to.0)
            .map(|block| {
                let top = if block == from.0 { from.1 } else { 0.0 };
                let bottom = if block == to.0 { to.1 } else { self.blocks[block].height };
                (block, top, bottom)
            })
            .collect()
    }
}
