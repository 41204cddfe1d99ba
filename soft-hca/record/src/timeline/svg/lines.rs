//! Lines between the marks: bars, breaks, and arrows with their labels.

use super::elements;
use super::values::{class_of, escape, n};
use crate::timeline::layout::{Bar, BarKind, Break, Layout, Line, LineKind};
use crate::timeline::text::{fit, sans};
use crate::words;

pub(super) fn draw_break(layout: &Layout, pause: &Break, out: &mut String) {
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
        *out += &elements::path("class=\"band\"", &path);
        *out += &elements::path("class=\"zigzag\"", &path);
    }
    let text = words::duration(pause.duration);
    let text = format!("{text} later");
    let most = layout.frame.time + 4.0;
    // Above the zigzag, where that is everywhere.
    let (x, up) = match layout.frame.dimensions.is_stacked {
        true => (most.max(sans(&text, layout.frame.dimensions.small)), 6.0),
        false => (most, -3.5),
    };
    *out += &elements::text("class=\"pause\"", x, pause.y - up, &text);
}

pub(super) fn draw_bar(bar: &Bar, top: f64, bottom: f64, out: &mut String) {
    let class = match bar.kind {
        BarKind::Send => "send",
        BarKind::Receive => "receive",
        BarKind::Before => "receive before",
        BarKind::Wait => "wait",
    };
    let half = if matches!(bar.kind, BarKind::Wait | BarKind::Before) { 2.0 } else { 3.5 };
    // A bar that goes on beyond the image is drawn to beyond its border.
    let from = if bar.begins && bar.from >= top { bar.from } else { bar.from.max(top) - 4.0 };
    let to = if bar.ends && bar.to <= bottom { bar.to } else { bar.to.min(bottom) + 4.0 };
    let attributes =
        format!("class=\"bar {class}{}\" data-b=\"{}\"", class_of(bar.severity), bar.entry);
    let place = [bar.x - half, from, half * 2.0, (to - from).max(1.0)];
    *out += &elements::rounded(&attributes, place, 2);
}

pub(super) fn draw_line(line: &Line, out: &mut String) {
    let class = match line.kind {
        LineKind::Message => "message",
        LineKind::Memory => "memory",
        LineKind::Completes => "completes",
        LineKind::Leads => "leads",
        LineKind::Packet => "packet",
    };
    let failed = if line.failed { " bad" } else { "" };
    if line.round != 0.0 {
        return draw_round(line, class, out);
    }
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
    let attributes = format!("class=\"line {class}{failed}\" data-b=\"{belongs}\"");
    *out += &elements::path(&attributes, &path);
}

/// An arrow that goes round what is between its ends, one above the other.
fn draw_round(line: &Line, class: &str, out: &mut String) {
    const EDGE: f64 = 7.0;
    let side = line.round.signum();
    let (x, y0, y1) = (line.from.0, line.from.1, line.to.1);
    let far = x + line.round;
    let mut path = match line.begins {
        true => format!("M{} {}L{} {}", n(x + EDGE * side), n(y0), n(far), n(y0)),
        false => format!("M{} {}", n(far), n(y0)),
    };
    path += &format!("L{} {}", n(far), n(y1));
    if line.heads[1] {
        let tip = x + EDGE * side;
        let back = n(tip + 5.0 * side);
        path += &format!(
            "L{t} {y}M{back} {}L{t} {y}L{back} {}",
            n(y1 - 3.5),
            n(y1 + 3.5),
            t = n(tip),
            y = n(y1)
        );
    }
    let attributes = format!("class=\"line {class}\" data-b=\"{}\"", belongs(line));
    *out += &elements::path(&attributes, &path);
}

/// Whose an arrow is, for the script.
fn belongs(line: &Line) -> String {
    let [a, b] = line.entries;
    if a == b { a.to_string() } else { format!("{a} {b}") }
}

/// Left and right end of where a line's label can be, and its base line.
pub(super) fn label_place(layout: &Layout, line: &Line) -> (f64, f64, f64) {
    let (left, right) = (line.from.0.min(line.to.0), line.from.0.max(line.to.0));
    let (mut from, mut to) = (left, right);
    let columns = layout.frame.columns.as_slice();
    // Where lanes are narrow, it stands on them as well.
    if let ([first, second], false) = (columns, layout.frame.dimensions.is_stacked) {
        from = from.max(first.span().1 + 4.0);
        to = to.min(second.span().0 - 4.0);
    }
    let share = if right > left {
        ((from + to) / 2.0 - line.from.0) / (line.to.0 - line.from.0)
    } else {
        0.5
    };
    // Above the line, or on it where a text is above.
    let up = if layout.frame.dimensions.is_stacked { -4.0 } else { 5.0 };
    (from, to, line.from.1 + (line.to.1 - line.from.1) * share - up)
}

/// The label of an arrow, in the middle between the participants.
pub(super) fn draw_label(layout: &Layout, line: &Line, out: &mut String) {
    let Some(label) = &line.label else { return };
    let (from, to, base) = label_place(layout, line);
    let room = to - from - 16.0;
    let whole = sans(label, layout.frame.dimensions.small);
    if room < whole.min(60.0) {
        return;
    }
    let text = fit(label, layout.frame.dimensions.small, room, sans);
    let class = if line.failed { "label bad" } else { "label" };
    let attributes = format!("class=\"{class}\" data-b=\"{}\"", belongs(line));
    *out += &elements::text(&attributes, (from + to) / 2.0, base, &escape(&text));
}
