//! What stands where from top to bottom.
//!
//! A run is a pile of blocks: a part of it that is shown, rounds that are folded, or a word about
//! what was left out. A block has rows; where a long time passes between two, there is a break.
//! Sides that face each other share a row where something happens to both at once.

mod bars;
mod blocks;
mod lines;
mod rows;

use super::frame::{Frame, PAPER, Room, SCREEN};
use super::svg::STRIP;
use crate::correlation::Correlation;
use crate::correlation::phases::Phase;
use crate::correlation::rounds::Folded;
use crate::words::Severity;

pub(super) use rows::{FURTHER, LINE, NAME_SIZE, TAG};

/// A picture without its ink.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) frame: Frame,
    pub(super) blocks: Vec<Block>,
    /// Where each entry is; none if it is left out.
    pub(super) places: Vec<Option<Place>>,
}

/// Where an entry is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Place {
    pub(super) block: usize,
    pub(super) row: usize,
    /// The middle of its line, in the block.
    pub(super) y: f64,
    /// Where its mark is.
    pub(super) x: f64,
}

/// What a block is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
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
pub(super) struct Block {
    /// The part of the run that begins with it.
    pub(super) heading: Option<Phase>,
    pub(super) kind: Kind,
    pub(super) rows: Vec<Row>,
    pub(super) height: f64,
    pub(super) breaks: Vec<Break>,
    pub(super) lifelines: Vec<Lifeline>,
    pub(super) bars: Vec<Bar>,
    pub(super) lines: Vec<Line>,
}

/// A row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) y: f64,
    pub(super) height: f64,
    /// Nanoseconds of its first entry.
    pub(super) t: u64,
    /// All that is in it.
    pub(super) entries: Vec<usize>,
    pub(super) texts: Vec<Text>,
}

/// An entry's text in a row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Text {
    pub(super) entry: usize,
    pub(super) text_column: usize,
    pub(super) severity: Severity,
    pub(super) name: String,
    pub(super) rest: String,
    /// What has no room there, in lines below.
    pub(super) more: Vec<String>,
    /// Where the first line ends.
    pub(super) end: f64,
    /// The reason, in lines below all that.
    pub(super) reason: Vec<String>,
}

/// A time in which nothing happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Break {
    pub(super) y: f64,
    pub(super) duration: u64,
}

/// A participant's presence in a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Lifeline {
    pub(super) participant: usize,
    pub(super) from: f64,
    pub(super) to: f64,
}

/// What a bar is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BarKind {
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
pub(super) struct Bar {
    pub(super) entry: usize,
    pub(super) kind: BarKind,
    pub(super) severity: Severity,
    pub(super) x: f64,
    pub(super) from: f64,
    pub(super) to: f64,
    /// Whether it begins and ends here.
    pub(super) begins: bool,
    pub(super) ends: bool,
}

/// What a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineKind {
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
pub(super) struct Line {
    /// Whose it is: all else of these belongs to it.
    pub(super) entries: [usize; 2],
    pub(super) kind: LineKind,
    pub(super) from: (f64, f64),
    pub(super) to: (f64, f64),
    /// Where it enters the strips above the block, if it comes from there or goes there.
    pub(super) above: f64,
    /// Whether it begins in this block.
    pub(super) begins: bool,
    /// Whether it has a head at the beginning and at the end.
    pub(super) heads: [bool; 2],
    /// Of an arrow that goes straight down: by how much it goes round what is between, to the right.
    pub(super) round: f64,
    /// Of an operation on remote memory: whether that is where it begins.
    pub(super) reads: bool,
    /// It did not get where it should.
    pub(super) failed: bool,
    pub(super) label: Option<String>,
}

impl Block {
    /// Pixels of the strips above it: behind its heading, and in the place of what is folded.
    fn strips(&self) -> f64 {
        let count = usize::from(self.heading.is_some()) + usize::from(self.kind != Kind::Shown);
        count as f64 * STRIP
    }
}

impl Layout {
    /// For a screen.
    pub(super) fn of(correlation: &Correlation<'_>) -> Self {
        Self::with(correlation, SCREEN)
    }

    /// For paper, with all that is told in larger letters.
    pub(super) fn on_paper(correlation: &Correlation<'_>) -> Self {
        Self::with(correlation, PAPER)
    }

    fn with(correlation: &Correlation<'_>, room: Room) -> Self {
        let mut drafts = blocks::cut(correlation);
        let text_columns = if correlation.participants.len() == 2 { 2 } else { 1 };
        let mut rows: Vec<Vec<rows::Draft>> = drafts
            .iter()
            .map(|draft| rows::share(correlation, &draft.entries, text_columns))
            .collect();
        let spans = bars::spans(correlation, &rows);
        let frame =
            Frame::of(correlation, room, |participant, lane| spans.tracks(participant, lane));
        let mut places = vec![None; correlation.entries.len()];
        let idle = rows::idle(correlation, &rows);
        let mut before = None;
        let mut blocks: Vec<Block> = Vec::new();
        for (number, draft) in drafts.drain(..).enumerate() {
            let rows = std::mem::take(&mut rows[number]);
            // Across what is not shown, no time can be measured.
            if !matches!(draft.kind, Kind::Shown) {
                before = None;
            }
            let placed = rows::place(correlation, &frame, rows, before, idle);
            before = draft.entries.last().map(|&at| correlation.entries[at].t);
            if !matches!(draft.kind, Kind::Shown) {
                before = None;
            }
            for (row, number_of_row) in placed.rows.iter().zip(0..) {
                for &at in &row.entries {
                    let column = &frame.columns[correlation.participant[at]];
                    places[at] = Some(Place {
                        block: number,
                        row: number_of_row,
                        y: row.y + rows::MIDDLE,
                        x: column.lane(super::frame::lane(correlation, at)),
                    });
                }
            }
            blocks.push(Block {
                heading: draft.heading,
                kind: draft.kind,
                rows: placed.rows,
                height: placed.height,
                breaks: placed.breaks,
                lifelines: Vec::new(),
                bars: Vec::new(),
                lines: Vec::new(),
            });
        }
        let mut layout = Self { frame, blocks, places };
        bars::draw(correlation, &mut layout, &spans);
        lines::draw(correlation, &mut layout);
        layout
    }

    /// A distance from one block to another as the pieces of it: the block, and where in it.
    fn pieces(&self, from: (usize, f64), to: (usize, f64)) -> Vec<(usize, f64, f64)> {
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
