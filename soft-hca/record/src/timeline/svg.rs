//! The picture: each block as images of some rows, one beneath the other.
//!
//! Several images let a page break between rows when it is printed, and let the browser paint only
//! what is seen. What crosses a border is in both images, and each shows its part.
//!
//! | file | what |
//! | --- | --- |
//! | `around` | the head and the legend |
//! | `entries` | texts and marks |
//! | `lines` | bars, breaks and arrows |
//! | `elements` | elements of SVG |
//! | `values` | numbers, times and texts |

mod around;
mod elements;
mod entries;
mod lines;
mod values;

use super::frame::Frame;
use super::layout::{Bar, Block, Kind, Layout, Line, MIDDLE, STRIP};
use crate::correlation::Correlation;

pub(super) use around::{head, legend};
pub(super) use values::{escape, time_and_unit};

use elements::path;
use entries::{draw_entry, grounds};
use lines::{draw_bar, draw_break, draw_label, draw_line, label_place};
use values::{n, time};

/// Pixels of an image with more than one row: a page that is printed ends between two.
const TALL: f64 = 200.0;
/// Pixels of a label above its base line; below it there are half as many.
const LABEL: f64 = 12.0;

/// An image of the picture's width.
fn open(frame: &Frame, class: &str, top: f64, height: f64) -> String {
    let (width, shown) = (n(frame.width), n(height));
    format!("<svg class=\"{class}\" viewBox=\"0 {} {width} {shown}\">", n(top))
}

/// The panels behind the participants' lanes, if no texts stand there.
fn panels(frame: &Frame, top: f64, height: f64, out: &mut String) {
    if frame.dimensions.is_stacked {
        return;
    }
    for column in &frame.columns {
        let (from, to) = column.span();
        *out += &elements::rect("class=\"panel\"", [from - 4.0, top, to - from + 8.0, height]);
    }
}

/// A strip with all that passes from the block above to the one below, for behind a heading or a
/// fold.
pub(super) fn strip(layout: &Layout, above: Option<usize>, below: usize, class: &str) -> String {
    // A fold's is the one that is nearer to the block.
    let is_folded = layout.blocks[below].kind != Kind::Shown;
    let has_two = is_folded && layout.blocks[below].heading.is_some();
    let half = match (has_two, class.contains("torn")) {
        (false, _) => (0.0, 1.0),
        (true, false) => (0.0, 0.5),
        (true, true) => (0.5, 1.0),
    };
    let frame = &layout.frame;
    let mut out = open(frame, class, 0.0, STRIP);
    panels(frame, 0.0, STRIP, &mut out);
    let block = &layout.blocks[below];
    let passes = |participant: usize| {
        let is_in =
            |block: &Block| block.lifelines.iter().any(|line| line.participant == participant);
        let goes_on =
            block.lifelines.iter().any(|line| line.participant == participant && line.from <= 0.0);
        above.is_some_and(|above| is_in(&layout.blocks[above]))
            && (goes_on || block.rows.is_empty())
    };
    for (participant, column) in frame.columns.iter().enumerate() {
        if passes(participant) {
            lanes(column, 0.0, STRIP, &mut out);
        }
    }
    for bar in block.bars.iter().filter(|bar| !bar.begins) {
        draw_bar(&Bar { from: 0.0, to: STRIP, ends: false, ..*bar }, 0.0, STRIP, &mut out);
    }
    for line in &block.lines {
        let upper = if line.from.1 <= line.to.1 { line.from } else { line.to };
        if upper.1 <= 0.0 {
            let at = |part: f64| line.above + (upper.0 - line.above) * part;
            let piece = Line {
                from: (at(half.0), 0.0),
                to: (at(half.1), STRIP),
                begins: false,
                heads: [false; 2],
                ..line.clone()
            };
            draw_line(&piece, &mut out);
        }
    }
    out + "</svg>"
}

fn lanes(column: &super::frame::Column, from: f64, to: f64, out: &mut String) {
    for (_, x, _) in &column.lanes {
        *out += &path("class=\"life\"", &format!("M{} {}V{}", n(*x), n(from), n(to)));
    }
}

/// The row behind the last one of the image that begins with a row: a border is no label's place.
fn image_end(layout: &Layout, block: &Block, first: usize) -> usize {
    let high = block.rows[first..]
        .iter()
        .take_while(|row| row.y + row.height <= block.rows[first].y + TALL);
    let rows = high.count().max(1);
    let end = first + rows;
    let is_free = |row: &usize| {
        block.rows.get(*row).is_none_or(|row| {
            let mut labels = block.lines.iter().filter(|line| line.label.is_some());
            !labels.any(|line| {
                let (_, _, base) = label_place(layout, line);
                (base - LABEL..base + LABEL / 2.0).contains(&row.y)
            })
        })
    };
    (first + rows.div_ceil(2)..=end).rev().find(is_free).unwrap_or(end).min(block.rows.len())
}

/// A block as images.
pub(super) fn block(correlation: &Correlation<'_>, layout: &Layout, number: usize) -> String {
    let block = &layout.blocks[number];
    let mut out = String::new();
    let mut behind = 0;
    while behind < block.rows.len() {
        let first = behind;
        behind = image_end(layout, block, first);
        let top = if first == 0 { 0.0 } else { block.rows[first].y };
        let bottom = block.rows.get(behind).map_or(block.height, |next| next.y);
        let rows = &block.rows[first..behind];
        out += &open(&layout.frame, "rows", top, bottom - top);
        panels(&layout.frame, top, bottom - top, &mut out);
        grounds(correlation, layout, rows, &mut out);
        let crosses = |from: f64, to: f64| from.min(to) <= bottom && from.max(to) >= top;
        for lifeline in block.lifelines.iter().filter(|l| crosses(l.from, l.to)) {
            let column = &layout.frame.columns[lifeline.participant];
            lanes(column, lifeline.from.max(top), lifeline.to.min(bottom), &mut out);
        }
        for pause in block.breaks.iter().filter(|pause| crosses(pause.y, pause.y)) {
            draw_break(layout, pause, &mut out);
        }
        for bar in block.bars.iter().filter(|bar| crosses(bar.from, bar.to)) {
            draw_bar(bar, top, bottom, &mut out);
        }
        for line in block.lines.iter().filter(|line| crosses(line.from.1, line.to.1)) {
            draw_line(line, &mut out);
        }
        for row in rows {
            // Above marks there is no place for a time alone.
            if !row.texts.is_empty() || !layout.frame.dimensions.is_stacked {
                // Its head has no place for the unit.
                let time = match layout.frame.dimensions.is_stacked {
                    true => time_and_unit(correlation, row.t),
                    false => time(correlation, row.t),
                };
                let y = row.y + MIDDLE + 4.0;
                out += &elements::text("class=\"time\"", layout.frame.time, y, &time);
            }
            for &at in &row.entries {
                let text = row.texts.iter().find(|text| text.entry == at);
                draw_entry(correlation, layout, block, row, at, text, &mut out);
            }
        }
        // Labels stay legible above everything.
        let is_here = |line: &&Line| (top..bottom).contains(&label_place(layout, line).2);
        for line in block.lines.iter().filter(is_here) {
            draw_label(layout, line, &mut out);
        }
        out += "</svg>";
    }
    out
}
