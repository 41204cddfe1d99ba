//! What takes time: work requests in their queues, waits, and the parties' lifelines.

use std::collections::HashMap;

use super::rows::Draft;
use super::{Bar, BarKind, Layout, Lifeline};
use crate::entry::What;
use crate::story::Story;
use crate::timeline::frame::{Lane, TRACK, TRACKS};
use crate::words::{self, Grade};

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
    /// How many tracks a party's lane needs.
    pub(super) fn tracks(&self, party: usize, lane: Lane) -> usize {
        self.most.get(&(party, lane)).copied().unwrap_or(0)
    }
}

fn lane(kind: BarKind) -> Lane {
    match kind {
        BarKind::Send => Lane::SendQueue,
        BarKind::Receive => Lane::ReceiveQueue,
        BarKind::Wait => Lane::Calls,
    }
}

/// Finds what takes time, and gives each its track: the first that is free.
pub(super) fn spans(story: &Story<'_>, blocks: &[Vec<Draft>]) -> Spans {
    let mut order: Vec<Option<usize>> = vec![None; story.entries.len()];
    for (number, row) in blocks.iter().flatten().enumerate() {
        row.entries.iter().for_each(|&at| order[at] = Some(number));
    }
    let mut ends: HashMap<usize, usize> = HashMap::new();
    for transfer in &story.transfers {
        if let (Some(from), Some(to)) = (transfer.posted, transfer.executed) {
            ends.insert(from, to);
        }
        for arrival in &transfer.arrivals {
            if let (Some(from), Some(to)) = (arrival.receive, transfer.executed) {
                ends.insert(from, to);
            }
        }
    }
    for pair in story.returned.iter().chain(&story.waits) {
        ends.insert(pair.from, pair.to);
    }
    let mut all: Vec<Span> = Vec::new();
    let mut busy: HashMap<(usize, Lane), Vec<usize>> = HashMap::new();
    let mut shown: Vec<usize> =
        (0..story.entries.len()).filter(|&at| order[at].is_some()).collect();
    shown.sort_by_key(|&at| order[at]);
    for at in shown {
        let kind = match story.entries[at].what {
            What::SendPosted(_) => BarKind::Send,
            What::ReceivePosted(_) => BarKind::Receive,
            What::Wait { .. } => BarKind::Wait,
            _ => continue,
        };
        let to = ends.get(&at).copied();
        let begin = order[at].unwrap_or(0);
        let end = to.map_or(usize::MAX, |to| order[to].unwrap_or(begin));
        let tracks = busy.entry((story.party[at], lane(kind))).or_default();
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

/// Draws them, and the lifelines.
pub(super) fn draw(story: &Story<'_>, layout: &mut Layout, spans: &Spans) {
    lifelines(story, layout);
    for span in &spans.all {
        let Some(from) = layout.places[span.from] else { continue };
        let party = story.party[span.from];
        let x = x(layout, party, lane(span.kind), span.track, spans);
        let grade = outcome(story, span);
        let to = span.to.and_then(|to| layout.places[to]);
        let ends = to.is_some();
        let to = match (to, span.to) {
            (Some(to), _) => (to.block, to.y),
            // Its end is not in the picture.
            (None, Some(_)) => (from.block, from.y + STUB),
            (None, None) => end(layout, party, from.block),
        };
        let crowded = span.track >= TRACKS;
        if crowded && span.kind != BarKind::Wait {
            let (from_y, entry) = (from.y, span.from);
            let bar = Bar {
                entry,
                kind: span.kind,
                grade,
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
                grade,
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
fn x(layout: &Layout, party: usize, lane: Lane, track: usize, spans: &Spans) -> f64 {
    let seat = &layout.frame.seats[party];
    let middle = seat.lane(lane);
    let tracks = spans.tracks(party, lane).clamp(1, TRACKS);
    let track = track.min(TRACKS - 1) as f64;
    match lane {
        // Beside the marks of calls.
        Lane::Calls => middle + track.min(3.0) * 7.0,
        _ => {
            let off = (track - (tracks as f64 - 1.0) / 2.0) * TRACK;
            middle + if seat.mirrored { -off } else { off }
        }
    }
}

/// How what a bar stands for has ended.
fn outcome(story: &Story<'_>, span: &Span) -> Grade {
    let transfer = story.transfer[span.from].map(|transfer| &story.transfers[transfer]);
    let executed = transfer.and_then(|transfer| transfer.executed);
    let end = if span.kind == BarKind::Send { executed } else { span.to };
    end.map_or(Grade::Well, |end| words::grade(&story.entries[end]))
}

/// Where a party's lifeline ends, for what never ended before.
fn end(layout: &Layout, party: usize, from: usize) -> (usize, f64) {
    for block in (from..layout.blocks.len()).rev() {
        let lifelines = &layout.blocks[block].lifelines;
        if let Some(lifeline) = lifelines.iter().find(|lifeline| lifeline.party == party) {
            return (block, lifeline.to);
        }
    }
    (from, layout.blocks[from].height)
}

/// From where a party begins to where it ends.
fn lifelines(story: &Story<'_>, layout: &mut Layout) {
    for party in 0..story.parties.len() {
        let find = |ends: bool| {
            (0..story.entries.len()).find(|&at| {
                let is = match story.entries[at].what {
                    What::ProcessBegan { .. } => !ends,
                    What::ProcessEnded => ends,
                    _ => false,
                };
                is && story.party[at] == party && layout.places[at].is_some()
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
            layout.blocks[block].lifelines.push(Lifeline { party, from, to });
        }
    }
}
