//! Rows: which entries share one, how high it is, and where a long time passes.

use std::collections::HashMap;

use soft_hca_verbs::WcStatus;

use super::picture::{Break, Row, Text};
use crate::correlation::Correlation;
use crate::entry::{Seen, What};
use crate::severity::Severity;
use crate::timeline::frame::Frame;
use crate::timeline::text::{fill, fit, mono, sans, wrap};

/// Pixels of a row with one line, of each further line, and to the middle of the first.
const ROW: f64 = 25.0;
pub(crate) const LINE: f64 = 16.0;
pub(crate) const MIDDLE: f64 = 12.5;
/// Pixels of marks below their texts, and to the middle of marks.
const MARKS: f64 = 20.0;
const MIDDLE_OF_MARKS: f64 = 8.0;
/// Pixels of a break.
const BREAK: f64 = 34.0;
/// Sizes of the text.
pub(crate) const NAME_SIZE: f64 = 12.5;
pub(crate) const REASON_SIZE: f64 = 12.5;
/// Pixels of the number that says which participant a text is about, where they share a column of
/// texts.
pub(crate) const TAG: f64 = 26.0;
/// By how much further lines of a text stand to the right of the first.
pub(crate) const FURTHER: f64 = 14.0;
/// Lines of a text at most: a record may come from anybody.
const LINES: usize = 12;
/// Times that are worth a break: so many nanoseconds, and so many times what is usual.
const IDLE: u64 = 1_500_000;
const UNUSUAL: u64 = 12;

/// A row before it has its place.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) entries: Vec<usize>,
    /// The entry with a text, for each column of texts.
    texts: Vec<Option<usize>>,
}

/// Rows with their places.
pub(super) struct Placed {
    pub(super) rows: Vec<Row>,
    pub(super) breaks: Vec<Break>,
    pub(super) height: f64,
}

/// Puts entries into rows.
pub(super) fn share(
    correlation: &Correlation<'_>,
    entries: &[usize],
    text_columns: usize,
) -> Vec<Draft> {
    let mut rows: Vec<Draft> = Vec::new();
    // Where each work request was posted, and where it met its end.
    let mut posted: HashMap<usize, usize> = HashMap::new();
    let mut met: HashMap<(usize, bool), usize> = HashMap::new();
    // Over the link the sides meet theirs one after the other.
    let side = |transfer: usize, at: usize| {
        let mut arrivals = correlation.transfers[transfer].arrivals.iter();
        arrivals.any(|one| one.over_link && one.completion == Some(at))
    };
    // Ends of waits, which are where the events are that ended them.
    let mut woken: HashMap<usize, usize> = HashMap::new();
    // The last row with a text of each column of texts.
    let mut last: Vec<Option<usize>> = vec![None; text_columns];
    for (number, &at) in entries.iter().enumerate() {
        let text_column = if text_columns == 1 { 0 } else { correlation.participant[at] };
        if let Some(event) = event_of(correlation, at, &entries[number + 1..]) {
            woken.insert(event, at);
            continue;
        }
        let transfer = correlation.transfer[at];
        let has_text = !is_told(correlation, at);
        let shared = transfer.and_then(|transfer| match &correlation.entries[at].what {
            What::Executed(_) | What::Completion(_) => {
                met.get(&(transfer, side(transfer, at))).copied()
            }
            What::ReceivePosted(receive) if receive.seen == Seen::AtMessage => {
                posted.get(&transfer).copied()
            }
            _ => None,
        });
        let shared = shared.filter(|&row| {
            let free = rows[row].texts[text_column].is_none()
                && last[text_column].is_none_or(|l| l <= row);
            free || !has_text
        });
        let row = shared.unwrap_or_else(|| {
            rows.push(Draft { entries: Vec::new(), texts: vec![None; text_columns] });
            rows.len() - 1
        });
        rows[row].entries.extend(woken.remove(&at));
        rows[row].entries.push(at);
        if has_text {
            rows[row].texts[text_column] = Some(at);
            last[text_column] = Some(row);
        }
        if let Some(transfer) = transfer {
            match &correlation.entries[at].what {
                What::SendPosted(_) => posted.insert(transfer, row),
                What::Executed(_) | What::Completion(_) => {
                    Some(*met.entry((transfer, side(transfer, at))).or_insert(row))
                }
                _ => None,
            };
        }
    }
    rows
}

/// Whether others tell what there is to tell of an entry.
fn is_told(correlation: &Correlation<'_>, at: usize) -> bool {
    correlation.has_completed(at) && matches!(correlation.entries[at].what, What::Executed(_))
}

/// The event that has ended a wait: what its thread does next, if that is soon.
fn event_of(correlation: &Correlation<'_>, at: usize, behind: &[usize]) -> Option<usize> {
    const SOON: usize = 16;
    let woken = &correlation.entries[at];
    if !matches!(woken.what, What::Woken { .. }) {
        return None;
    }
    let mut own = behind.iter().take(SOON).copied().filter(|&at| {
        let entry = &correlation.entries[at];
        entry.process == woken.process && entry.thread == woken.thread
    });
    own.next().filter(|&at| matches!(correlation.entries[at].what, What::ConnectionEvent(_)))
}

/// The shortest time that is worth a break in this run.
pub(super) fn idle(correlation: &Correlation<'_>, blocks: &[Vec<Draft>]) -> u64 {
    let mut steps: Vec<u64> = Vec::new();
    for rows in blocks {
        let times = rows.iter().filter_map(|row| row.entries.first());
        let times: Vec<u64> = times.map(|&at| correlation.entries[at].t).collect();
        steps.extend(times.windows(2).map(|pair| pair[1].saturating_sub(pair[0])));
    }
    steps.sort_unstable();
    let usual = steps.get(steps.len() / 2).copied().unwrap_or(0);
    IDLE.max(usual.saturating_mul(UNUSUAL))
}

/// Gives rows their places. `before` is the time of the entry before them, if that is shown.
pub(super) fn place(
    correlation: &Correlation<'_>,
    frame: &Frame,
    drafts: Vec<Draft>,
    mut before: Option<u64>,
    idle: u64,
) -> Placed {
    let mut placed = Placed { rows: Vec::new(), breaks: Vec::new(), height: 0.0 };
    for draft in drafts {
        let Some(&first) = draft.entries.first() else { continue };
        let told = draft.texts.iter().flatten().map(|&at| correlation.entries[at].t).min();
        let t = told.unwrap_or(correlation.entries[first].t);
        if let Some(pause) = before.map(|before| t.saturating_sub(before)).filter(|p| *p >= idle) {
            placed.breaks.push(Break { y: placed.height + BREAK / 2.0, duration: pause });
            placed.height += BREAK;
        }
        let until = draft.entries.iter().map(|&at| correlation.entries[at].t).max();
        before = before.max(until);
        let written = draft.texts.iter().flatten().map(|&at| write(correlation, frame, at));
        let texts: Vec<Text> = written.collect();
        let lines = texts.iter().map(|text| text.more.len() + text.reason.len()).max().unwrap_or(0);
        let extra = if lines == 0 { 0.0 } else { lines as f64 * LINE + 3.0 };
        let told = if texts.is_empty() { 0.0 } else { (lines + 1) as f64 * LINE + 4.0 };
        let (height, middle) = match frame.dimensions.is_stacked {
            true => (told + MARKS, told + MIDDLE_OF_MARKS),
            false => (ROW + extra, MIDDLE),
        };
        let row = Row { y: placed.height, height, middle, t, entries: draft.entries, texts };
        placed.height += row.height;
        placed.rows.push(row);
    }
    placed
}

/// A name as much of it as there is room for, up to a `_`, and the rest.
fn halves(name: &str, room: f64) -> (String, Option<String>) {
    if mono(name, NAME_SIZE) > room {
        let ends = name.match_indices('_').map(|(at, _)| at + 1);
        if let Some(end) = ends.rev().find(|end| mono(&name[..*end], NAME_SIZE) <= room) {
            return (name[..end].to_owned(), Some(name[end..].to_owned()));
        }
    }
    (name.to_owned(), None)
}

/// An entry's text as it fits its column of texts.
fn write(correlation: &Correlation<'_>, frame: &Frame, at: usize) -> Text {
    let label = correlation.label(at);
    let number = frame.columns[correlation.participant[at]].text_column;
    let text_column = frame.text_columns[number];
    let indent = if frame.text_columns.len() == 1 { TAG } else { 0.0 };
    let room = text_column.width - indent;
    let (name, name_goes_on) = halves(&label.name, room);
    let name = fit(&name, NAME_SIZE, room, mono);
    let used = mono(&name, NAME_SIZE) + 8.0;
    // An argument stays in one piece.
    let mut parts: Vec<String> = label
        .rest
        .replace('|', " | ")
        .split_inclusive(", ")
        .map(|part| part.trim_end().into())
        .collect();
    let goes_on = name_goes_on.is_some();
    parts.splice(0..0, name_goes_on);
    parts.extend(Some(label.result).filter(|result| !result.is_empty()));
    // A name that goes on does so in the next line.
    let first = if goes_on { 0.0 } else { room - used };
    let mut lines = fill(&parts, NAME_SIZE, first, room - FURTHER);
    if lines.len() > LINES {
        lines.truncate(LINES);
        lines[LINES - 1].push('\u{2026}');
    }
    let rest = lines.remove(0);
    let severity = Severity::of(&correlation.entries[at]);
    let reason = label.reason.filter(|_| severity != Severity::Well);
    // A flushed request is the consequence of something that is told elsewhere.
    let flushed = matches!(&correlation.entries[at].what, What::Completion(c) if c.status == WcStatus::WR_FLUSH_ERR);
    let reason = reason.filter(|_| !flushed);
    let reason = reason.map(|why| wrap(&why, REASON_SIZE, room - 4.0)).unwrap_or_default();
    let end = text_column.x + indent + used + sans(&rest, NAME_SIZE);
    Text { entry: at, text_column: number, severity, name, rest, more: lines, end, reason }
}
