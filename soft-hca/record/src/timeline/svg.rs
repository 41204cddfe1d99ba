//! The picture: each block as images of a few rows, one beneath the other.
//!
//! Several images let a page break between rows when it is printed, and let the browser paint only
//! what is seen. What crosses a border is in both images, and each shows its part.

use std::fmt::Write as _;

use super::frame::{Frame, Lane};
use super::layout::{
    Bar, BarKind, Block, Break, Kind, Layout, Line, LineKind, NAME_SIZE, Row, TAG, Text,
};
use crate::correlation::Correlation;
use crate::entry::What;
use crate::words::{self, Severity};

/// Rows of an image.
const ROWS: usize = 24;
/// Pixels of the head.
const HEAD: f64 = 52.0;
/// And of a head where the titles stand above the lanes.
const HIGH_HEAD: f64 = 84.0;
/// Pixels of the strip behind a heading and a fold.
pub(super) const STRIP: f64 = 46.0;
/// Pixels of a label above its base line; below it there are half as many.
const LABEL: f64 = 12.0;
/// Half of a mark.
const MARK: f64 = 5.0;

/// A text as HTML and SVG want it, in elements and in attributes.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for sign in text.chars() {
        match sign {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Browsers refuse the other control characters in places.
            sign if sign.is_control() => escaped.push('\u{fffd}'),
            sign => escaped.push(sign),
        }
    }
    escaped
}

/// A coordinate, as short as it can be.
fn n(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

fn open(frame: &Frame, class: &str, top: f64, height: f64) -> String {
    let (width, shown) = (n(frame.width), n(height));
    format!("<svg class=\"{class}\" viewBox=\"0 {} {width} {shown}\">", n(top))
}

/// The panels behind the participants' lanes.
fn panels(frame: &Frame, top: f64, height: f64, out: &mut String) {
    for column in &frame.columns {
        let (from, to) = column.span();
        let (x, width) = (n(from - 4.0), n(to - from + 8.0));
        let (y, height) = (n(top), n(height));
        let _ = write!(
            out,
            "<rect class=\"panel\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>"
        );
    }
}

/// Who stands where, and the lanes' names.
pub(super) fn head(correlation: &Correlation<'_>, frame: &Frame) -> String {
    let alone = frame.text_columns.len() == 1;
    let height = if alone { HIGH_HEAD } else { HEAD };
    let mut out = open(frame, "head", 0.0, height);
    panels(frame, 0.0, height, &mut out);
    let _ = write!(
        out,
        "<text class=\"unit\" x=\"{}\" y=\"{}\">{}</text>",
        n(frame.time),
        n(height - 10.0),
        unit(correlation)
    );
    for (number, (column, participant)) in
        frame.columns.iter().zip(&correlation.participants).enumerate()
    {
        let (lanes_from, lanes_to) = column.span();
        // Two have their titles above their texts, others above their lanes.
        let (x, room) = if alone || !participant.recorded {
            (lanes_from, lanes_to - lanes_from)
        } else {
            let text_column = frame.text_columns[column.text_column];
            (text_column.x, text_column.width)
        };
        let title = match alone && correlation.participants.len() > 1 {
            true => format!("{} {}", number + 1, participant.title),
            false => participant.title.clone(),
        };
        let title = super::text::fit(&title, 15.5, room, super::text::sans);
        let subtitle = super::text::fit(&participant.subtitle, 12.0, room, super::text::sans);
        let y = if alone { [20.0, 37.0] } else { [height - 32.0, height - 12.0] };
        let _ = write!(
            out,
            "<text class=\"participant\" x=\"{x}\" y=\"{}\">{}<title>{}</title></text>\
             <text class=\"pid\" x=\"{x}\" y=\"{}\">{}</text>",
            n(y[0]),
            escape(&title),
            escape(&participant.title),
            n(y[1]),
            escape(&subtitle),
            x = n(x),
        );
        for (lane, middle, _) in &column.lanes {
            for (line, y) in lane.heading().into_iter().zip([height - 22.0, height - 10.0]) {
                if !line.is_empty() {
                    let (x, y) = (n(*middle), n(y));
                    let _ = write!(out, "<text class=\"lane\" x=\"{x}\" y=\"{y}\">{line}</text>");
                }
            }
        }
    }
    out + "</svg>"
}

/// What the times are counted in.
fn unit(correlation: &Correlation<'_>) -> &'static str {
    if in_seconds(correlation) { "s" } else { "ms" }
}

fn in_seconds(correlation: &Correlation<'_>) -> bool {
    correlation.entries.last().is_some_and(|last| last.t >= 100_000_000_000)
}

/// A time, in the unit of the run.
pub(super) fn time(correlation: &Correlation<'_>, t: u64) -> String {
    if in_seconds(correlation) {
        format!("{}.{:06}", t / 1_000_000_000, t % 1_000_000_000 / 1_000)
    } else {
        format!("{}.{:03}", t / 1_000_000, t % 1_000_000 / 1_000)
    }
}

/// A time with its unit.
pub(super) fn time_and_unit(correlation: &Correlation<'_>, t: u64) -> String {
    format!("{} {}", time(correlation, t), unit(correlation))
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
        let _ = write!(out, "<path class=\"life\" d=\"M{} {}V{}\"/>", n(*x), n(from), n(to));
    }
}

/// The row behind the last one of the image that begins with a row: a border is no label's place.
fn image_end(layout: &Layout, block: &Block, first: usize) -> usize {
    let end = first + ROWS;
    let is_free = |row: &usize| {
        block.rows.get(*row).is_none_or(|row| {
            let mut labels = block.lines.iter().filter(|line| line.label.is_some());
            !labels.any(|line| {
                let (_, _, base) = label_place(layout, line);
                (base - LABEL..base + LABEL / 2.0).contains(&row.y)
            })
        })
    };
    (first + ROWS / 2..=end).rev().find(is_free).unwrap_or(end).min(block.rows.len())
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
            let y = row.y + 12.5;
            let time = time(correlation, row.t);
            let _ = write!(
                out,
                "<text class=\"time\" x=\"{}\" y=\"{}\">{time}</text>",
                n(layout.frame.time),
                n(y + 4.0)
            );
            for &at in &row.entries {
                let text = row.texts.iter().find(|text| text.entry == at);
                draw_entry(correlation, layout, block, row, at, text, &mut out);
            }
        }
        // Labels stay legible above everything.
        for line in block.lines.iter().filter(|line| crosses(line.from.1, line.to.1)) {
            draw_label(layout, line, &mut out);
        }
        out += "</svg>";
    }
    out
}

/// What a text and its mark stand on.
fn ground(layout: &Layout, correlation: &Correlation<'_>, row: &Row, text: &Text) -> [String; 4] {
    let text_column = layout.frame.text_columns[text.text_column];
    let (from, to) = layout.frame.columns[correlation.participant[text.entry]].span();
    let left = text_column.x.min(from) - 6.0;
    let right = match layout.frame.text_columns.len() {
        1 => layout.frame.width,
        _ => (text_column.x + text_column.width).max(to) + 4.0,
    };
    [left, row.y + 1.0, right - left, row.height - 2.0].map(n)
}

/// The grounds of what is not as it should be.
fn grounds(correlation: &Correlation<'_>, layout: &Layout, rows: &[Row], out: &mut String) {
    for row in rows {
        for text in row
            .texts
            .iter()
            .filter(|text| text.severity == Severity::Failure || !text.reason.is_empty())
        {
            let [x, y, width, height] = ground(layout, correlation, row, text);
            let class = bad(text.severity);
            let _ = write!(
                out,
                "<rect class=\"ground{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"3\"/>"
            );
        }
    }
}

fn draw_break(layout: &Layout, pause: &Break, out: &mut String) {
    for column in &layout.frame.columns {
        let (from, to) = column.span();
        let (from, to) = (from - 4.0, to + 4.0);
        let mut path = format!("M{} {}", n(from), n(pause.y));
        // A zigzag across all lanes.
        let count = ((to - from) / 14.0).round().max(1.0);
        let step = (to - from) / count / 2.0;
        for _ in 0..count as usize {
            path += &format!("l{s} -3.5l{s} 3.5", s = n(step));
        }
        let band = path.clone();
        let _ =
            write!(out, "<path class=\"band\" d=\"{band}\"/><path class=\"zigzag\" d=\"{path}\"/>");
    }
    let text = words::duration(pause.duration);
    let (x, y) = (n(layout.frame.time + 4.0), n(pause.y + 3.5));
    let _ = write!(out, "<text class=\"pause\" x=\"{x}\" y=\"{y}\">{text} later</text>");
}

fn bad(severity: Severity) -> &'static str {
    match severity {
        Severity::Well => "",
        Severity::Notable => " note",
        Severity::Failure => " bad",
    }
}

fn draw_bar(bar: &Bar, top: f64, bottom: f64, out: &mut String) {
    let class = match bar.kind {
        BarKind::Send => "send",
        BarKind::Receive => "receive",
        BarKind::Wait => "wait",
    };
    let half = if bar.kind == BarKind::Wait { 2.0 } else { 3.5 };
    // What goes on beyond the image is drawn to beyond its border.
    let from = if bar.begins && bar.from >= top { bar.from } else { bar.from.max(top) - 4.0 };
    let to = if bar.ends && bar.to <= bottom { bar.to } else { bar.to.min(bottom) + 4.0 };
    let _ = write!(
        out,
        "<rect class=\"bar {class}{}\" data-b=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"2\"/>",
        bad(bar.severity),
        bar.entry,
        n(bar.x - half),
        n(from),
        n(half * 2.0),
        n((to - from).max(1.0)),
    );
}

fn draw_line(line: &Line, out: &mut String) {
    let class = match line.kind {
        LineKind::Message => "message",
        LineKind::Memory => "memory",
        LineKind::Completes => "completes",
        LineKind::Leads => "leads",
        LineKind::Packet => "packet",
    };
    let failed = if line.failed { " bad" } else { "" };
    let ((x0, y0), (x1, y1)) = (line.from, line.to);
    let length = (x1 - x0).hypot(y1 - y0);
    if length < 1.0 {
        return;
    }
    let (dx, dy) = ((x1 - x0) / length, (y1 - y0) / length);
    // From the edge of a mark to the edge of a mark.
    let gap = (length / 4.0).min(if line.kind == LineKind::Completes { 5.0 } else { 7.0 });
    let (x0, y0) = if line.begins { (x0 + dx * gap, y0 + dy * gap) } else { (x0, y0) };
    let (x1, y1) = if line.heads[1] { (x1 - dx * gap, y1 - dy * gap) } else { (x1, y1) };
    let mut path = format!("M{} {}L{} {}", n(x0), n(y0), n(x1), n(y1));
    let mut tip = |x: f64, y: f64, dx: f64, dy: f64| {
        let size = if line.kind == LineKind::Completes { 4.5 } else { 6.5 };
        let (bx, by) = (x - dx * size, y - dy * size);
        let (wx, wy) = (-dy * size * 0.55, dx * size * 0.55);
        path += &format!(
            "M{} {}L{} {}L{} {}",
            n(bx + wx),
            n(by + wy),
            n(x),
            n(y),
            n(bx - wx),
            n(by - wy)
        );
    };
    if line.heads[1] && !(line.failed && line.kind != LineKind::Completes) {
        tip(x1, y1, dx, dy);
    }
    if line.heads[0] {
        tip(x0, y0, -dx, -dy);
    }
    if line.kind == LineKind::Memory && !line.failed {
        // The memory, at the end that is not the requester's.
        let (x, dx) = if line.reads { (line.from.0, -dx) } else { (line.to.0, dx) };
        let (x, y) = (n(x - 3.0 + dx * 2.0), n(line.from.1 - 4.0));
        path += &format!("M{x} {y}h6v8h-6z");
    }
    if line.failed && line.heads[1] && line.kind != LineKind::Completes {
        // It is crossed out where it ends.
        path += &format!("M{} {}l8 8m0 -8l-8 8", n(x1 - 4.0 - dx * 4.0), n(y1 - 4.0 - dy * 4.0));
    }
    let belongs = belongs(line);
    let _ = write!(out, "<path class=\"line {class}{failed}\" data-b=\"{belongs}\" d=\"{path}\"/>");
}

/// Whose an arrow is, for the script.
fn belongs(line: &Line) -> String {
    let [a, b] = line.entries;
    if a == b { a.to_string() } else { format!("{a} {b}") }
}

/// Left and right end of where a line's label can be, and its base line.
fn label_place(layout: &Layout, line: &Line) -> (f64, f64, f64) {
    let (left, right) = (line.from.0.min(line.to.0), line.from.0.max(line.to.0));
    let (mut from, mut to) = (left, right);
    if let [first, second] = layout.frame.columns.as_slice() {
        from = from.max(first.span().1 + 4.0);
        to = to.min(second.span().0 - 4.0);
    }
    let share = if right > left {
        ((from + to) / 2.0 - line.from.0) / (line.to.0 - line.from.0)
    } else {
        0.5
    };
    (from, to, line.from.1 + (line.to.1 - line.from.1) * share - 5.0)
}

/// The label of an arrow, in the middle between the participants.
fn draw_label(layout: &Layout, line: &Line, out: &mut String) {
    let Some(label) = &line.label else { return };
    let (from, to, base) = label_place(layout, line);
    let room = to - from - 16.0;
    let whole = super::text::sans(label, 11.5);
    if room < whole.min(60.0) {
        return;
    }
    let text = super::text::fit(label, 11.5, room, super::text::sans);
    let class = if line.failed { "label bad" } else { "label" };
    let belongs = belongs(line);
    let _ = write!(
        out,
        "<text class=\"{class}\" data-b=\"{belongs}\" x=\"{}\" y=\"{}\">{}</text>",
        n((from + to) / 2.0),
        n(base),
        escape(&text)
    );
}

/// An entry: its text, a thin line from there, and its mark.
fn draw_entry(
    correlation: &Correlation<'_>,
    layout: &Layout,
    block: &Block,
    row: &Row,
    at: usize,
    text: Option<&Text>,
    out: &mut String,
) {
    let Some(place) = layout.places[at] else { return };
    let participant = correlation.participant[at];
    let entry = &correlation.entries[at];
    let x =
        block.bars.iter().find(|bar| bar.entry == at && bar.begins).map_or(place.x, |bar| bar.x);
    let x = ends(correlation, layout, block, at).unwrap_or(x);
    let y = place.y;
    let (class, mark) = mark(entry, x, y);
    let severity = bad(words::severity(entry));
    let label = correlation.label(at);
    let spoken = format!(
        "{}, {}: {} {}{}",
        time_and_unit(correlation, entry.t),
        correlation.participants[participant].title,
        label.name,
        label.rest,
        label.reason.map(|why| format!("; {why}")).unwrap_or_default()
    );
    let _ = write!(
        out,
        "<g class=\"e {class}{severity}\" data-i=\"{at}\" tabindex=\"-1\" role=\"button\" aria-label=\"{}\">",
        escape(&spoken)
    );
    if let Some(text) = text {
        let text_column = layout.frame.text_columns[text.text_column];
        let [rect_x, rect_y, width, height] = ground(layout, correlation, row, text);
        let _ = write!(
            out,
            "<rect class=\"hit\" x=\"{rect_x}\" y=\"{rect_y}\" width=\"{width}\" height=\"{height}\" rx=\"3\"/>"
        );
        let leader = match text_column.x > x {
            true => (x + MARK + 3.0, text_column.x - 5.0),
            false => (text.end + 7.0, x - MARK - 3.0),
        };
        if leader.1 - leader.0 > 6.0 {
            let _ = write!(
                out,
                "<path class=\"leader\" d=\"M{} {}H{}\"/>",
                n(leader.0),
                n(y),
                n(leader.1)
            );
        }
        let mut from = text_column.x;
        if layout.frame.text_columns.len() == 1 {
            if correlation.participants.len() > 1 {
                let _ = write!(
                    out,
                    "<text class=\"tag\" x=\"{}\" y=\"{}\">{}</text>",
                    n(from),
                    n(y + 4.0),
                    participant + 1
                );
            }
            from += TAG;
        }
        let _ = write!(
            out,
            "<text class=\"t\" x=\"{}\" y=\"{}\"><tspan class=\"n\">{}</tspan>",
            n(from),
            n(y + NAME_SIZE / 3.0),
            escape(&text.name)
        );
        if !text.rest.is_empty() {
            let _ = write!(out, "<tspan class=\"r\" dx=\"8\">{}</tspan>", escape(&text.rest));
        }
        *out += "</text>";
        for (line, number) in text.reason.iter().zip(1..) {
            let y = y + 4.0 + 16.0 * f64::from(number);
            let _ = write!(
                out,
                "<text class=\"why\" x=\"{}\" y=\"{}\">{}</text>",
                n(from),
                n(y),
                escape(line)
            );
        }
    }
    *out += &mark;
    *out += "</g>";
}

/// Where the bar is that an entry ends.
fn ends(correlation: &Correlation<'_>, layout: &Layout, block: &Block, at: usize) -> Option<f64> {
    let begin = match &correlation.entries[at].what {
        What::Executed(_) | What::Stalled { .. } => {
            correlation.transfers[correlation.transfer[at]?].posted?
        }
        What::Woken { .. } => correlation.waits.iter().find(|wait| wait.to == at)?.from,
        _ => return None,
    };
    let _ = layout;
    block.bars.iter().find(|bar| bar.entry == begin).map(|bar| bar.x)
}

/// An entry's class and mark.
fn mark(entry: &crate::entry::Entry, x: f64, y: f64) -> (&'static str, String) {
    let square = |half: f64| {
        let size = n(half * 2.0);
        format!(
            "<rect class=\"m\" x=\"{}\" y=\"{}\" width=\"{size}\" height=\"{size}\" rx=\"2\"/>",
            n(x - half),
            n(y - half)
        )
    };
    let circle =
        |r: f64| format!("<circle class=\"m\" cx=\"{}\" cy=\"{}\" r=\"{}\"/>", n(x), n(y), n(r));
    let cross =
        || format!("<path class=\"m x\" d=\"M{} {}l9 9m0 -9l-9 9\"/>", n(x - 4.5), n(y - 4.5));
    match &entry.what {
        What::ProcessBegan { .. } => ("life-mark", circle(4.5)),
        What::ProcessEnded => ("life-mark", cross()),
        What::Call(_) => ("call", square(MARK)),
        What::ConnectionEvent(_) | What::AsyncEvent { .. } => ("event", circle(MARK + 0.3)),
        What::SendPosted(_) => ("send", square(MARK - 0.5)),
        What::ReceivePosted(_) => ("receive", square(MARK - 0.5)),
        What::Stalled { .. } => ("send stalled", circle(MARK)),
        What::Executed(executed) if executed.status == words::SUCCESS => ("send", circle(2.5)),
        What::Executed(_) => ("send", cross()),
        What::Completion(_) => {
            let r = n(MARK + 1.4);
            let path = format!("M{} {}l{r} {r}l-{r} {r}l-{r} -{r}z", n(x), n(y - MARK - 1.4));
            ("completion", format!("<path class=\"m\" d=\"{path}\"/>"))
        }
        What::Wait { .. } | What::Woken { .. } => ("wait", circle(3.0)),
        What::Packet(_) => ("packet", square(3.5)),
        What::Dropped { .. } => ("call", circle(MARK)),
    }
}

/// Where each entry with a text of its own is said, for the tests.
#[cfg(test)]
pub(super) fn count(html: &str) -> std::collections::HashMap<usize, usize> {
    let mut counts = std::collections::HashMap::new();
    for piece in html.split("data-i=\"").skip(1) {
        if let Ok(at) = piece.split('"').next().unwrap_or("").parse() {
            *counts.entry(at).or_insert(0) += 1;
        }
    }
    counts
}

/// What marks mean, as images of their own.
pub(super) fn legend(lanes: &[Lane], waits: bool, failures: bool) -> String {
    let mut out = String::new();
    let mut item = |class: &str, inner: &str, text: &str| {
        let _ = write!(
            out,
            "<li class=\"e {class}\"><svg viewBox=\"0 0 30 16\" width=\"30\" height=\"16\" aria-hidden=\"true\">\
             {inner}</svg>{text}</li>"
        );
    };
    let has = |lane: Lane| lanes.contains(&lane);
    item(
        "call",
        "<rect class=\"m\" x=\"10\" y=\"3\" width=\"10\" height=\"10\" rx=\"2\"/>",
        "call",
    );
    if has(Lane::Events) {
        item("event", "<circle class=\"m\" cx=\"15\" cy=\"8\" r=\"5.3\"/>", "event");
    }
    let bar = |class: &str| {
        format!(
            "<rect class=\"bar {class}\" x=\"2\" y=\"4.5\" width=\"26\" height=\"7\" rx=\"2\"/>\
             <rect class=\"m\" x=\"2\" y=\"3.5\" width=\"9\" height=\"9\" rx=\"2\"/>"
        )
    };
    let arrow =
        |class: &str| format!("<path class=\"line {class}\" d=\"M2 8H27M21 4L27 8L21 12\"/>");
    if has(Lane::SendQueue) {
        item("send", &bar("send"), "work request in the send queue");
        item("send", &arrow("message"), "message");
    }
    if has(Lane::ReceiveQueue) {
        item("receive", &bar("receive"), "receive in its queue");
    }
    if has(Lane::Memory) {
        item("", &arrow("memory"), "access to remote memory");
    }
    if has(Lane::Completions) {
        item(
            "completion",
            "<path class=\"m\" d=\"M15 1.6l6.4 6.4l-6.4 6.4l-6.4 -6.4z\"/>",
            "completion",
        );
    }
    if has(Lane::Packets) {
        item("packet", &arrow("packet"), "packet");
    }
    if waits {
        item(
            "wait",
            "<rect class=\"bar wait\" x=\"2\" y=\"6\" width=\"26\" height=\"4\" rx=\"2\"/>",
            "thread waits",
        );
    }
    if failures {
        item("bad", "<path class=\"m x\" d=\"M10.5 3.5l9 9m0 -9l-9 9\"/>", "failure");
    }
    out
}
