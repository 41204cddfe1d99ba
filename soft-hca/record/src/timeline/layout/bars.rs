//! Bars, for what takes time: work requests in their queues, waits, and the participants' lifelines.

use std::collections::HashMap;

use super::picture::{Bar, BarKind, Layout, Lifeline};
use super::rows::Draft;
use crate::correlation::Correlation;
use crate::entry::{Seen, What};
use crate::severity::Severity;
use crate::timeline::frame::{Lane, TRACK};

/// Tracks of a lane that are told apart.
const TRACKS: usize = 32;
/// Pixels that are left of a bar for which its lane has no room.
const STUB: f64 = 8.0;

/// Something that takes time, from an entry to another; or for ever.
#[derive(Clone, Copy, Debug)]
struct Span {
    from: usize,
    to: Option<usize>,
    /// Of a receive that was posted some time before `from`: the last entry after which that can have been.
    since: Option<usize>,
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
        BarKind::Receive | BarKind::Before => Lane::ReceiveQueue,
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
            let taken = if arrival.over_link { arrival.completion } else { transfer.executed };
            if let (Some(from), Some(to)) = (arrival.receive, taken) {
                ends.insert(from, to);
            }
        }
    }
    for pair in correlation.returned.iter().chain(&correlation.returns) {
        ends.insert(pair.from, pair.to);
    }
    let mut all: Vec<Span> = Vec::new();
    let mut busy: HashMap<(usize, Lane), Vec<usize>> = HashMap::new();
    // The lower end of the last bar in each track, and whether that is a stub.
    let mut last: HashMap<(usize, Lane, usize), (usize, bool)> = HashMap::new();
    let mut shown: Vec<usize> =
        (0..correlation.entries.len()).filter(|&at| order[at].is_some()).collect();
    shown.sort_by_key(|&at| order[at]);
    for at in shown {
        let kind = match correlation.entries[at].what {
            What::SendPosted(_) => BarKind::Send,
            What::ReceivePosted(_) => BarKind::Receive,
            What::Wait { .. } => BarKind::Wait,
            What::Call(ref call) if call.unacknowledged > 0 => BarKind::Wait,
            _ => continue,
        };
        let to = ends.get(&at).copied();
        let begin = order[at].unwrap_or(0);
        let end = to.map_or(usize::MAX, |to| order[to].unwrap_or(begin));
        let (participant, lane) = (correlation.participant[at], lane(correlation, at, kind));
        let tracks = busy.entry((participant, lane)).or_default();
        let track = match tracks.iter().position(|&until| until < begin) {
            Some(track) => track,
            None if tracks.len() < TRACKS => {
                tracks.push(0);
                tracks.len() - 1
            }
            None => tracks.len(),
        };
        if let Some(until) = tracks.get_mut(track) {
            *until = end;
        }
        // Not into the bar above, of which a stub is left where its end is not in the picture.
        let is_stub = to.is_some_and(|to| order[to].is_none());
        let lower = to.filter(|to| order[*to] > order[at]).unwrap_or(at);
        let above = last.insert((participant, lane, track), (lower, is_stub));
        let since = looked(correlation, at).filter(|since| order[*since].is_some());
        let since = since.and_then(|since| match above {
            Some((above, is_stub)) if order[above] >= order[since] => (!is_stub).then_some(above),
            _ => Some(since),
        });
        // Folded entries may stand in another order.
        let is_later = |at: usize| order[at].is_some_and(|at| at >= begin);
        let since = since.filter(|since| !is_later(*since) && to.is_none_or(is_later));
        all.push(Span { from: at, to, since, kind, track });
    }
    let most = busy.into_iter().map(|(key, tracks)| (key, tracks.len())).collect();
    Spans { all, most }
}

/// When somebody looked at a receive queue the last time before a receive was seen there that was posted some time
/// before.
fn looked(correlation: &Correlation<'_>, at: usize) -> Option<usize> {
    let entry = &correlation.entries[at];
    let What::ReceivePosted(receive) = &entry.what else { return None };
    let mut before = (0..at).rev().filter(|&at| correlation.entries[at].process == entry.process);
    let is_look = |before: &usize| match &correlation.entries[*before].what {
        What::Call(_) | What::ProcessBegan { .. } => true,
        What::ReceivePosted(other) => other.queue == receive.queue,
        _ => false,
    };
    if receive.seen == Seen::AtPost { None } else { before.find(is_look) }
}

/// Draws them, and the lifelines.
pub(super) fn draw(correlation: &Correlation<'_>, layout: &mut Layout, spans: &Spans) {
    lifelines(correlation, layout);
    for span in &spans.all {
        let Some(from) = layout.positions[span.from] else { continue };
        let participant = correlation.participant[span.from];
        let x = x(layout, participant, lane(correlation, span.from, span.kind), span.track, spans);
        let severity = outcome(correlation, span);
        let to = span.to.and_then(|to| layout.positions[to]);
        let ends = to.is_some();
        let to = match (to, span.to) {
            (Some(to), _) => (to.block, to.y),
            // Its end is not in the picture.
            (None, Some(_)) => (from.block, from.y + STUB),
            (None, None) => end(layout, participant, from.block),
        };
        let crowded = span.track >= layout.frame.dimensions.tracks;
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
        if let Some(since) = span.since.and_then(|since| layout.positions[since]) {
            let before = ((since.block, since.y), (from.block, from.y));
            put(layout, span.from, BarKind::Before, severity, x, before, true);
        }
        put(layout, span.from, span.kind, severity, x, ((from.block, from.y), to), ends);
    }
}

/// Puts a bar into the blocks that it crosses.
fn put(
    layout: &mut Layout,
    entry: usize,
    kind: BarKind,
    severity: Severity,
    x: f64,
    (from, to): ((usize, f64), (usize, f64)),
    ends: bool,
) {
    let pieces = layout.pieces(from, to);
    let last = pieces.len() - 1;
    for (number, (block, from, to)) in pieces.into_iter().enumerate() {
        let (begins, ends) = (number == 0, ends && number == last);
        layout.blocks[block].bars.push(Bar { entry, kind, severity, x, from, to, begins, ends });
    }
}

/// The middle of a track.
fn x(layout: &Layout, participant: usize, lane: Lane, track: usize, spans: &Spans) -> f64 {
    let column = &layout.frame.columns[participant];
    let middle = column.lane(lane);
    let most = layout.frame.dimensions.tracks;
    let tracks = spans.tracks(participant, lane).clamp(1, most);
    let track = track.min(most - 1) as f64;
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
    let executed = correlation.transfer_of(span.from).and_then(|transfer| transfer.executed);
    let end = if span.kind == BarKind::Send { executed } else { span.to };
    end.map_or(Severity::Well, |end| Severity::of(&correlation.entries[end]))
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
                is && correlation.participant[at] == participant && layout.positions[at].is_some()
            })
        };
        let place = |at: usize| layout.positions[at].map(|place| (place.block, place.y));
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
