//! What takes time: work requests in their queues, waits, and the participants' lifelines.

use std::collections::HashMap;

use super::rows::Draft;
use super::{Bar, BarKind, Layout, Lifeline};
use crate::correlation::Correlation;
use crate::entry::{Entry, What};
use crate::timeline::frame::{Lane, TRACK, TRACKS};
use crate::words::{self, Severity};

/// Pixels that are left of a bar for which its lane has no room.
const STUB: f64 = 8.0;

/// Something that takes time, from an entry to another; or for ever.
#[derive(Clone, Copy, Debug)]
struct Span {
    from: usize,
    to: Option<usize>,
    kind: BarKind,
    track: usize,
}

/// All of it, with tracks.
pub(super) struct Spans {
    all: Vec<Span>,
    most: HashMap<(usize, Lane), usize>,
}

impl Spans {
    /// How many tracks a participant's lane needs.
    pub(super) fn tracks(&self, participant: usize, lane: Lane) -> usize {
        self.most.get(&(participant, lane)).copied().unwrap_or(0)
    }
}

fn lane(correlation: &Correlation<'_>, at: usize, kind: BarKind) -> Lane {
    match kind {
        BarKind::Send => Lane::SendQueue,
        BarKind::Receive => Lane::ReceiveQueue,
        BarKind::Wait => crate::timeline::frame::lane(correlation, at),
    }
}

/// Finds what takes time, and gives each its track: the first that is free.
pub(super) fn spans(correlation: &Correlation<'_>, blocks: &[Vec<Draft>]) -> Spans {
    let mut order: Vec<Option<usize>> = vec![None; correlation.entries.len()];
    for (number, row) in blocks.iter().flatten().enumerate() {
        row.entries.iter().for_each(|&at| order[at] = Some(number));
    }
    let mut ends: HashMap<usize, usize> = HashMap::new();
    for transfer in &correlation.transfers {
        if let (Some(from), Some(to)) = (transfer.posted, transfer.executed) {
            ends.insert(from, to);
        }
        for arrival in &transfer.arrivals {
            let taken = if transfer.over_link { arrival.completion } else { transfer.executed };
            if let (Some(from), Some(to)) = (arrival.receive, taken) {
                ends.insert(from, to);
            }
        }
    }
    for pair in correlation.returned.iter().chain(&correlation.waits) {
        ends.insert(pair.from, pair.to);
    }
    let mut all: Vec<Span> = Vec::new();
    let mut busy: HashMap<(usize, Lane), Vec<usize>> = HashMap::new();
    let mut shown: Vec<usize> =
        (0..correlation.entries.len()).filter(|&at| order[at].is_some()).collect();
    shown.sort_by_key(|&at| order[at]);
    for at in shown {
        let kind = match correlation.entries[at].what {
            What::SendPosted(_) => BarKind::Send,
            What::ReceivePosted(_) => BarKind::Receive,
            What::Wait { .. } => BarKind::Wait,
            What::Call(ref call) if call.unacknowledged > 0 => {
                ends.extend(next(correlation, at).map(|to| (at, to)));
                BarKind::Wait
            }
            _ => continue,
        };
        let to = ends.get(&at).copied();
        let begin = order[at].unwrap_or(0);
        let end = to.map_or(usize::MAX, |to| order[to].unwrap_or(begin));
        let tracks =
            busy.entry((correlation.participant[at], lane(correlation, at, kind))).or_default();
        let track = match tracks.iter().position(|&until| until < begin) {
            Some(track) => track,
            None if tracks.len() < 4 * TRACKS => {
                tracks.push(0);
                tracks.len() - 1
            }
            None => tracks.len(),
        };
        if let Some(until) = tracks.get_mut(track) {
            *until = end;
        }
        all.push(Span { from: at, to, kind, track });
    }
    let most = busy.into_iter().map(|(key, tracks)| (key, tracks.len())).collect();
    Spans { all, most }
}

/// What the thread of an entry does next.
fn next(correlation: &Correlation<'_>, at: usize) -> Option<usize> {
    let entry = &correlation.entries[at];
    let is_its = |later: &Entry| {
        later.process == entry.process && later.thread == entry.thread && later.by.is_none()
    };
    (at + 1..correlation.entries.len()).find(|&later| is_its(&correlation.entries[later]))
}

/// Draws them, and the lifelines.
pub(super) fn draw(correlation: &Correlation<'_>, layout: &mut Layout, spans: &Spans) {
    lifelines(correlation, layout);
    for span in &spans.all {
        let Some(from) = layout.places[span.from] else { continue };
        let participant = correlation.participant[span.from];
        let x = x(layout, participant, lane(correlation, span.from, span.kind), span.track, spans);
        let severity = outcome(correlation, span);
        let to = span.to.and_then(|to| layout.places[to]);
        let ends = to.is_some();
        let to = match (to, span.to) {
            (Some(to), _) => (to.block, to.y),
            // Its end is not in the picture.
            (None, Some(_)) => (from.block, from.y + STUB),
            (None, None) => end(layout, participant, from.block),
        };
        let crowded = span.track >= TRACKS;
        if crowded && span.kind != BarKind::Wait {
            let (from_y, entry) = (from.y, span.from);
            let bar = Bar {
                entry,
                kind: span.kind,
                severity,
                x,
                from: from_y - STUB / 2.0,
                to: from_y + STUB / 2.0,
                begins: true,
                ends: true,
            };
            layout.blocks[from.block].bars.push(bar);
            continue;
        }
        let last = layout.pieces((from.block, from.y), to).len() - 1;
        for (number, (block, top, bottom)) in
            layout.pieces((from.block, from.y), to).into_iter().enumerate()
        {
            layout.blocks[block].bars.push(Bar {
                entry: span.from,
                kind: span.kind,
                severity,
                x,
                from: top,
                to: bottom,
                begins: number == 0,
                ends: ends && number == last,
            });
        }
    }
}

/// The middle of a track.
fn x(layout: &Layout, participant: usize, lane: Lane, track: usize, spans: &Spans) -> f64 {
    let column = &layout.frame.columns[participant];
    let middle = column.lane(lane);
    let tracks = spans.tracks(participant, lane).clamp(1, TRACKS);
    let track = track.min(TRACKS - 1) as f64;
    match lane {
        // Beside the marks of calls.
        Lane::Thread(_) => middle + track.min(3.0) * 7.0,
        _ => {
            let off = (track - (tracks as f64 - 1.0) / 2.0) * TRACK;
            middle + if column.mirrored { -off } else { off }
        }
    }
}

/// How what a bar stands for has ended.
fn outcome(correlation: &Correlation<'_>, span: &Span) -> Severity {
    let transfer = correlation.transfer[span.from].map(|transfer| &correlation.transfers[transfer]);
    let executed = transfer.and_then(|transfer| transfer.executed);
    let end = if span.kind == BarKind::Send { executed } else { span.to };
    end.map_or(Severity::Well, |end| words::severity(&correlation.entries[end]))
}

/// Where a participant's lifeline ends, for what never ended before.
fn end(layout: &Layout, participant: usize, from: usize) -> (usize, f64) {
    for block in (from..layout.blocks.len()).rev() {
        let lifelines = &layout.blocks[block].lifelines;
        if let Some(lifeline) =
            lifelines.iter().find(|lifeline| lifeline.participant == participant)
        {
            return (block, lifeline.to);
        }
    }
    (from, layout.blocks[from].height)
}

/// From where a participant begins to where it ends.
fn lifelines(correlation: &Correlation<'_>, layout: &mut Layout) {
    for participant in 0..correlation.participants.len() {
        let find = |ends: bool| {
            (0..correlation.entries.len()).find(|&at| {
                let is = match correlation.entries[at].what {
                    What::ProcessBegan { .. } => !ends,
                    What::ProcessEnded { .. } => ends,
                    _ => false,
                };
                is && correlation.participant[at] == participant && layout.places[at].is_some()
            })
        };
        let place = |at: usize| layout.places[at].map(|place| (place.block, place.y));
        let from = find(false).and_then(place).unwrap_or((0, 0.0));
        let last = layout.blocks.len().saturating_sub(1);
        let bottom = layout.blocks.last().map_or(0.0, |block| block.height);
        let to = find(true).and_then(place).unwrap_or((last, bottom));
        if layout.blocks.is_empty() || to < from {
            continue;
        }
        for (block, from, to) in layout.pieces(from, to) {
            layout.blocks[block].lifelines.push(Lifeline { participant, from, to });
        }
    }
}
