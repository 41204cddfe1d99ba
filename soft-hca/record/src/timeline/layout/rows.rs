//! Rows: which entries share one, how high it is, and where a long time passes.

use std::collections::HashMap;

use super::{Break, Row, Text};
use crate::entry::{Seen, What};
use crate::story::Story;
use crate::timeline::frame::Frame;
use crate::timeline::text::{fit, mono, sans, wrap};
use crate::words::{self, Grade};

/// Pixels of a row with one line, of each further line, and to the middle of the first.
const ROW: f64 = 25.0;
const LINE: f64 = 16.0;
pub(super) const MIDDLE: f64 = 12.5;
/// Pixels of a break.
const BREAK: f64 = 34.0;
/// Sizes of the text.
pub(crate) const NAME_SIZE: f64 = 12.5;
pub(crate) const REASON_SIZE: f64 = 12.0;
/// Pixels of the number that says which party a text is about, where they share a column.
pub(crate) const TAG: f64 = 26.0;
/// Times that are worth a break: so many nanoseconds, and so many times what is usual.
const IDLE: u64 = 400_000;
const UNUSUAL: u64 = 6;

/// A row before it has its place.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) entries: Vec<usize>,
    /// The entry with a text, for each column.
    texts: Vec<Option<usize>>,
}

/// Rows with their places.
pub(super) struct Placed {
    pub(super) rows: Vec<Row>,
    pub(super) breaks: Vec<Break>,
    pub(super) height: f64,
}

/// Puts entries into rows.
pub(super) fn share(story: &Story<'_>, entries: &[usize], columns: usize) -> Vec<Draft> {
    let column = |at: usize| if columns == 1 { 0 } else { story.party[at] };
    let mut rows: Vec<Draft> = Vec::new();
    let mut row_of: HashMap<usize, usize> = HashMap::new();
    // The last row with a text of each column.
    let mut last: Vec<Option<usize>> = vec![None; columns];
    for (number, &at) in entries.iter().enumerate() {
        let column = column(at);
        let beside = beside(story, at, entries.get(number + 1).copied());
        let shared = match beside {
            Beside::Nothing | Beside::Silent => None,
            Beside::Entry(other) => row_of.get(&other).copied(),
        };
        let shared = shared.filter(|&row| {
            rows[row].texts[column].is_none() && last[column].is_none_or(|last| last <= row)
        });
        // The end of a wait is where the event is that ended it.
        let before = rows.last().and_then(|row| row.entries.last()).copied();
        let after_wait = before.filter(|&before| {
            matches!(beside_event(story, before, at), Some(()))
                && column == self_column(story, before, columns)
        });
        let row = match (shared, after_wait) {
            (Some(row), _) => row,
            (None, Some(_)) => rows.len() - 1,
            (None, None) => {
                rows.push(Draft { entries: Vec::new(), texts: vec![None; columns] });
                rows.len() - 1
            }
        };
        rows[row].entries.push(at);
        row_of.insert(at, row);
        if !matches!(beside, Beside::Silent) {
            rows[row].texts[column] = Some(at);
            last[column] = Some(row);
        }
    }
    rows
}

fn self_column(story: &Story<'_>, at: usize, columns: usize) -> usize {
    if columns == 1 { 0 } else { story.party[at] }
}

/// What an entry can share a row with.
enum Beside {
    /// It needs its own.
    Nothing,
    /// Nothing, and it has no text: others say it.
    Silent,
    /// This one's.
    Entry(usize),
}

fn beside(story: &Story<'_>, at: usize, next: Option<usize>) -> Beside {
    let transfer = story.transfer[at].map(|transfer| &story.transfers[transfer]);
    match (&story.entries[at].what, transfer) {
        (What::Executed(_), Some(transfer)) if transfer.completion.is_some() => Beside::Silent,
        (What::Woken { .. }, _) => match next.and_then(|next| beside_event(story, at, next)) {
            Some(()) => Beside::Silent,
            None => Beside::Nothing,
        },
        (What::Completion(_), Some(transfer)) => {
            transfer.executed.map_or(Beside::Nothing, Beside::Entry)
        }
        (What::ReceivePosted(receive), Some(transfer)) if receive.seen == Seen::AtMessage => {
            transfer.posted.map_or(Beside::Nothing, Beside::Entry)
        }
        _ => Beside::Nothing,
    }
}

/// Whether an event is what a thread was woken for.
fn beside_event(story: &Story<'_>, woken: usize, event: usize) -> Option<()> {
    let [first, second] = [woken, event].map(|at| &story.entries[at]);
    let is = matches!(first.what, What::Woken { .. })
        && matches!(second.what, What::ConnectionEvent(_))
        && first.process == second.process
        && first.thread == second.thread;
    is.then_some(())
}

/// The shortest time that is worth a break in this run.
pub(super) fn idle(story: &Story<'_>, blocks: &[Vec<Draft>]) -> u64 {
    let mut steps: Vec<u64> = Vec::new();
    for rows in blocks {
        let times = rows.iter().filter_map(|row| row.entries.first());
        let times: Vec<u64> = times.map(|&at| story.entries[at].t).collect();
        steps.extend(times.windows(2).map(|pair| pair[1].saturating_sub(pair[0])));
    }
    steps.sort_unstable();
    let usual = steps.get(steps.len() / 2).copied().unwrap_or(0);
    IDLE.max(usual.saturating_mul(UNUSUAL))
}

/// Gives rows their places. `before` is the time of the entry before them, if that is shown.
pub(super) fn place(
    story: &Story<'_>,
    frame: &Frame,
    drafts: Vec<Draft>,
    mut before: Option<u64>,
    idle: u64,
) -> Placed {
    let mut placed = Placed { rows: Vec::new(), breaks: Vec::new(), height: 0.0 };
    for draft in drafts {
        let Some(&first) = draft.entries.first() else { continue };
        let t = story.entries[first].t;
        if let Some(pause) = before.map(|before| t.saturating_sub(before)).filter(|p| *p >= idle) {
            placed.breaks.push(Break { y: placed.height + BREAK / 2.0, duration: pause });
            placed.height += BREAK;
        }
        before = draft.entries.iter().map(|&at| story.entries[at].t).max();
        let written = draft.texts.iter().flatten().map(|&at| write(story, frame, at));
        let texts: Vec<Text> = written.collect();
        let lines = texts.iter().map(|text| text.reason.len()).max().unwrap_or(0);
        let extra = if lines == 0 { 0.0 } else { lines as f64 * LINE + 3.0 };
        let row = Row { y: placed.height, height: ROW + extra, t, entries: draft.entries, texts };
        placed.height += row.height;
        placed.rows.push(row);
    }
    placed
}

/// An entry's text as it fits its column.
fn write(story: &Story<'_>, frame: &Frame, at: usize) -> Text {
    let label = story.label(at);
    let number = frame.seats[story.party[at]].column;
    let column = frame.columns[number];
    let indent = if frame.columns.len() == 1 { TAG } else { 0.0 };
    let room = column.width - indent;
    let name = fit(&label.name, NAME_SIZE, room, mono);
    let used = mono(&name, NAME_SIZE) + 8.0;
    let result = match label.result.as_str() {
        "" => String::new(),
        result if label.rest.is_empty() => result.to_owned(),
        result => format!(" {result}"),
    };
    // The result comes first where there is not room for all.
    let left = room - used - sans(&result, NAME_SIZE);
    let rest = match left {
        left if left > 40.0 => fit(&label.rest, NAME_SIZE, left, sans) + &result,
        _ => fit(result.trim_start(), NAME_SIZE, room - used, sans),
    };
    let grade = words::grade(&story.entries[at]);
    let reason = label.reason.filter(|_| grade != Grade::Well);
    // A flushed request is the consequence of something that is told elsewhere.
    let flushed =
        matches!(&story.entries[at].what, What::Completion(c) if c.status.contains("FLUSH"));
    let reason = reason.filter(|_| !flushed);
    let reason = reason.map(|why| wrap(&why, REASON_SIZE, room - 4.0)).unwrap_or_default();
    let end = column.x + indent + used + sans(&rest, NAME_SIZE);
    Text { entry: at, column: number, grade, name, rest, end, reason }
}
