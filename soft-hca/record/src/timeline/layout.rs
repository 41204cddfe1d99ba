//! Blocks and rows from top to bottom.
//!
//! A run is a pile of blocks: a part of it that is shown, rounds that are folded, or a word about
//! what was left out. A block has rows; where a long time passes between two, there is a break.
//! Sides that face each other share a row where something happens to both at once.

mod bars;
mod blocks;
mod lines;
mod picture;
mod rows;

use super::frame::{Dimensions, Frame, PAPER, PHONE, SCREEN};
use crate::correlation::Correlation;
use picture::Position;

pub(super) use picture::{
    Bar, BarKind, Block, Break, Kind, Layout, Line, LineKind, Row, STRIP, Text,
};
pub(super) use rows::{FURTHER, LINE, MIDDLE, NAME_SIZE, TAG};

impl Layout {
    /// For a screen.
    pub(super) fn of(correlation: &Correlation<'_>) -> Self {
        Self::with(correlation, SCREEN)
    }

    /// For paper, with all that is told in larger letters.
    pub(super) fn on_paper(correlation: &Correlation<'_>) -> Self {
        Self::with(correlation, PAPER)
    }

    /// For a phone, with texts above the marks.
    pub(super) fn on_phone(correlation: &Correlation<'_>) -> Self {
        Self::with(correlation, PHONE)
    }

    fn with(correlation: &Correlation<'_>, dimensions: Dimensions) -> Self {
        let mut drafts = blocks::cut(correlation, dimensions.most);
        let has_two = correlation.participants.len() == 2 && !dimensions.is_stacked;
        let text_columns = if has_two { 2 } else { 1 };
        let mut rows: Vec<Vec<rows::Draft>> = drafts
            .iter()
            .map(|draft| rows::share(correlation, &draft.entries, text_columns))
            .collect();
        let spans = bars::spans(correlation, &rows);
        let frame =
            Frame::of(correlation, dimensions, |participant, lane| spans.tracks(participant, lane));
        let mut positions = vec![None; correlation.entries.len()];
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
                    positions[at] = Some(Position {
                        block: number,
                        row: number_of_row,
                        y: row.y + row.middle,
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
        let mut layout = Self { frame, blocks, positions };
        bars::draw(correlation, &mut layout, &spans);
        lines::draw(correlation, &mut layout);
        layout
    }
}
