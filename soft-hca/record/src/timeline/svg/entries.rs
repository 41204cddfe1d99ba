//! The entries: their texts and marks, and the grounds of those that are not as they should be.

use std::fmt::Write as _;

use soft_hca_verbs::WcStatus;

use super::elements::{self, path, rounded};
use super::values::{class_of, escape, n, time_and_unit};
use crate::correlation::Correlation;
use crate::entry::{Entry, What};
use crate::severity::Severity;
use crate::timeline::frame::{Lane, lane};
use crate::timeline::layout::{Block, FURTHER, LINE, Layout, MIDDLE, NAME_SIZE, Row, TAG, Text};

/// Half of a mark.
const MARK: f64 = 5.0;

/// The ground of a text and its mark.
fn ground(layout: &Layout, correlation: &Correlation<'_>, row: &Row, text: &Text) -> [f64; 4] {
    let text_column = layout.frame.text_columns[text.text_column];
    let (from, to) = layout.frame.columns[correlation.participant[text.entry]].span();
    let left = text_column.x.min(from) - 6.0;
    let right = match layout.frame.text_columns.len() {
        1 => layout.frame.width,
        _ => (text_column.x + text_column.width).max(to) + 4.0,
    };
    [left, row.y + 1.0, right - left, row.height - 2.0]
}

/// The grounds of what is not as it should be.
pub(super) fn grounds(
    correlation: &Correlation<'_>,
    layout: &Layout,
    rows: &[Row],
    out: &mut String,
) {
    for row in rows {
        for text in row
            .texts
            .iter()
            .filter(|text| text.severity == Severity::Failure || !text.reason.is_empty())
        {
            let class = format!("class=\"ground{}\"", class_of(text.severity));
            *out += &rounded(&class, ground(layout, correlation, row, text), 3);
        }
    }
}

/// An entry: its text, a thin line from there, and its mark.
pub(super) fn draw_entry(
    correlation: &Correlation<'_>,
    layout: &Layout,
    block: &Block,
    row: &Row,
    at: usize,
    text: Option<&Text>,
    out: &mut String,
) {
    let Some(place) = layout.positions[at] else { return };
    let participant = correlation.participant[at];
    let entry = &correlation.entries[at];
    let x =
        block.bars.iter().find(|bar| bar.entry == at && bar.begins).map_or(place.x, |bar| bar.x);
    let x = ends(correlation, block, at).unwrap_or(x);
    let y = place.y;
    let (class, mark) = mark(entry, x, y);
    let severity = class_of(Severity::of(entry));
    let label = correlation.label(at);
    let spoken = format!(
        "{}, {}: {} {}{}",
        time_and_unit(correlation, entry.t),
        correlation.participants[participant].title,
        label.name,
        label.rest,
        label.reason.map(|why| format!("; {why}")).unwrap_or_default()
    );
    if layout.frame.dimensions.is_still {
        let _ = write!(out, "<g class=\"e {class}{severity}\">");
    } else {
        let _ = write!(
            out,
            "<g class=\"e {class}{severity}\" data-i=\"{at}\" tabindex=\"-1\" role=\"button\" aria-label=\"{}\">",
            escape(&spoken)
        );
    }
    if let Some(text) = text {
        let text_column = layout.frame.text_columns[text.text_column];
        if !layout.frame.dimensions.is_still {
            *out += &rounded("class=\"hit\"", ground(layout, correlation, row, text), 3);
        }
        let leader = match text_column.x > x {
            true => (x + MARK + 3.0, text_column.x - 5.0),
            false => (text.end + 7.0, x - MARK - 3.0),
        };
        if leader.1 - leader.0 > 6.0 && !layout.frame.dimensions.is_stacked {
            let d = format!("M{} {}H{}", n(leader.0), n(y), n(leader.1));
            *out += &path("class=\"leader\"", &d);
        }
        let (mut from, y) = (text_column.x, row.y + MIDDLE);
        if layout.frame.text_columns.len() == 1 {
            if correlation.participants.len() > 1 {
                let number = (participant + 1).to_string();
                *out += &elements::text("class=\"tag\"", from, y + 4.0, &number);
            }
            from += TAG;
        }
        let below = |number: usize| y + NAME_SIZE / 3.0 + LINE * number as f64;
        let mut first = format!("<tspan class=\"n\">{}</tspan>", escape(&text.name));
        if !text.rest.is_empty() {
            first += &format!("<tspan class=\"r\" dx=\"8\">{}</tspan>", escape(&text.rest));
        }
        *out += &elements::text("class=\"t\"", from, below(0), &first);
        for (line, number) in text.more.iter().zip(1..) {
            let inner = format!("<tspan class=\"r\">{}</tspan>", escape(line));
            *out += &elements::text("class=\"t\"", from + FURTHER, below(number), &inner);
        }
        for (line, number) in text.reason.iter().zip(text.more.len() + 1..) {
            *out += &elements::text("class=\"why\"", from, below(number), &escape(line));
        }
    }
    *out += &mark;
    // Its thread, where the lane does not tell it.
    let thread =
        correlation.threads.told_apart(at).filter(|_| correlation.threads.count(participant) > 1);
    if let Some(thread) = thread.filter(|_| !matches!(lane(correlation, at), Lane::Thread(_))) {
        let x = layout.frame.columns[participant].lane(Lane::Thread(thread));
        *out += &elements::circle("class=\"m by\"", x, y, 2.5);
    }
    *out += "</g>";
}

/// Where the bar is that an entry ends.
fn ends(correlation: &Correlation<'_>, block: &Block, at: usize) -> Option<f64> {
    let begin = match &correlation.entries[at].what {
        What::Executed(_) | What::Stalled { .. } => correlation.transfer_of(at)?.posted?,
        What::Woken { .. } => correlation.returns.iter().find(|wait| wait.to == at)?.from,
        _ => return None,
    };
    block.bars.iter().find(|bar| bar.entry == begin).map(|bar| bar.x)
}

/// An entry's class and mark.
fn mark(entry: &Entry, x: f64, y: f64) -> (&'static str, String) {
    let square =
        |half: f64| rounded("class=\"m\"", [x - half, y - half, half * 2.0, half * 2.0], 2);
    let circle = |r: f64| elements::circle("class=\"m\"", x, y, r);
    let cross = || path("class=\"m x\"", &format!("M{} {}l9 9m0 -9l-9 9", n(x - 4.5), n(y - 4.5)));
    match &entry.what {
        What::ProcessBegan { .. } => ("life-mark", circle(4.5)),
        What::ProcessEnded { .. } => ("life-mark", cross()),
        What::Call(_) => ("call", square(MARK)),
        What::ConnectionEvent(_) | What::AsyncEvent { .. } => ("event", circle(MARK + 0.3)),
        What::SendPosted(_) => ("send", square(MARK - 0.5)),
        What::ReceivePosted(_) => ("receive", square(MARK - 0.5)),
        What::Stalled { .. } => ("send stalled", circle(MARK)),
        What::Executed(executed) if executed.status == WcStatus::SUCCESS => ("send", circle(2.5)),
        What::Executed(_) => ("send", cross()),
        What::Completion(_) => {
            let r = n(MARK + 1.4);
            let d = format!("M{} {}l{r} {r}l-{r} {r}l-{r} -{r}z", n(x), n(y - MARK - 1.4));
            ("completion", path("class=\"m\"", &d))
        }
        What::Polled(polled) => ("completion", circle(if polled.found == 0 { 1.5 } else { 2.5 })),
        What::Wait { .. } | What::Woken { .. } => ("wait", circle(3.0)),
        What::Packet(_) => ("packet", square(3.5)),
        What::Dropped { .. } => ("call", circle(MARK)),
    }
}
