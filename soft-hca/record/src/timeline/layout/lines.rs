//! Arrows.

use std::collections::HashSet;

use soft_hca_verbs::cause::{Cause, Lost, Side};
use soft_hca_verbs::{WcStatus, WrOpcode};

use super::picture::{Kind, Layout, Line, LineKind, Position};
use crate::correlation::{Correlation, other_host};
use crate::entry::{Direction, Packet, What};
use crate::requests::Request;
use crate::severity::Severity;
use crate::timeline::frame::{Lane, reaches_memory};

/// Pixels by which an arrow goes round.
const ROUND: f64 = 13.0;

/// Draws all of them.
pub(super) fn draw(correlation: &Correlation<'_>, layout: &mut Layout) {
    for transfer in &correlation.transfers {
        of_transfer(correlation, layout, transfer);
    }
    for flow in &correlation.flows {
        if let (Some(from), Some(to)) = (layout.positions[flow.from], layout.positions[flow.to]) {
            put(layout, [flow.from, flow.to], LineKind::Leads, (from, from.x), (to, to.x));
        }
    }
    for pair in &correlation.packets {
        let (What::Packet(packet), Some(from), Some(to)) = (
            &correlation.entries[pair.from].what,
            layout.positions[pair.from],
            layout.positions[pair.to],
        ) else {
            continue;
        };
        let line = put(layout, [pair.from, pair.to], LineKind::Packet, (from, from.x), (to, to.x));
        line.label = Some(packet.opcode.clone());
        line.failed = [pair.from, pair.to]
            .iter()
            .any(|at| Severity::of(&correlation.entries[*at]) == Severity::Failure);
    }
    let arrived: HashSet<usize> =
        correlation.packets.iter().flat_map(|pair| [pair.from, pair.to]).collect();
    for (at, entry) in correlation.entries.iter().enumerate() {
        let What::Packet(packet) = &entry.what else { continue };
        if arrived.contains(&at) {
            continue;
        }
        let host = other_host(entry).and_then(|host| {
            correlation.participants.iter().position(|p| !p.recorded && p.title == host)
        });
        if let (Some(place), Some(host)) = (layout.positions[at], host) {
            let there = layout.frame.columns[host].lane(Lane::Host);
            let (from, to) = match packet.direction {
                Direction::Sent => (place.x, there),
                Direction::Received => (there, place.x),
            };
            let line = put(layout, [at, at], LineKind::Packet, (place, from), (place, to));
            line.label = Some(packet.opcode.clone());
            line.failed = Severity::of(entry) != Severity::Well;
        } else if let (Some(place), Direction::Sent) = (layout.positions[at], packet.direction) {
            let peer =
                receiver(correlation, packet).filter(|&peer| peer != correlation.participant[at]);
            let Some(peer) = peer else { continue };
            // It gets lost on the way.
            let there = layout.frame.columns[peer].lane(Lane::Packets);
            let end = place.x + (there - place.x) / 2.0;
            let line = put(layout, [at, at], LineKind::Packet, (place, place.x), (place, end));
            line.label = Some(format!("{} lost", packet.opcode));
            line.failed = true;
        }
    }
}

/// The participant that a packet's queue pair belongs to, if others have come there.
fn receiver(correlation: &Correlation<'_>, packet: &Packet) -> Option<usize> {
    let mut pairs = correlation.packets.iter();
    let known = pairs.find(|pair| match &correlation.entries[pair.to].what {
        What::Packet(known) => known.dest_qp == packet.dest_qp,
        _ => false,
    })?;
    Some(correlation.participant[known.to])
}

/// Where the bar of a posted request is, or else its lane.
fn bar(layout: &Layout, at: Option<usize>, place: Position, participant: usize, lane: Lane) -> f64 {
    let blocks =
        [at.and_then(|at| layout.positions[at]).map(|place| place.block), Some(place.block)];
    let bars = blocks.into_iter().flatten().flat_map(|block| &layout.blocks[block].bars);
    let own = bars.filter(|bar| Some(bar.entry) == at).map(|bar| bar.x).next();
    own.unwrap_or_else(|| layout.frame.columns[participant].lane(lane))
}

fn of_transfer(correlation: &Correlation<'_>, layout: &mut Layout, transfer: &Request) {
    let Some(at) = transfer.executed else { return };
    let Some(place) = layout.positions[at] else { return };
    let What::Executed(executed) = &correlation.entries[at].what else { return };
    let participant = correlation.participant[at];
    let own = bar(layout, transfer.posted, place, participant, Lane::SendQueue);
    let label = correlation.message(transfer);
    // A datagram may be lost without a word to its sender.
    let failed = executed.status != WcStatus::SUCCESS || executed.reason.is_some();
    for arrival in &transfer.arrivals {
        // Over the link it is received before its sender knows.
        let received = arrival.completion.filter(|_| arrival.over_link);
        let (first, place) = match received.and_then(|at| layout.positions[at]) {
            Some(place) => {
                let posted = transfer.posted.filter(|at| layout.positions[*at].is_some());
                (posted.unwrap_or(at), place)
            }
            None => (at, place),
        };
        let Some(&receiver) = correlation.of_process.get(&arrival.process) else { continue };
        let there = bar(layout, arrival.receive, place, receiver, Lane::ReceiveQueue);
        let second = arrival.receive.or(arrival.completion).unwrap_or(at);
        let line = put(layout, [first, second], LineKind::Message, (place, own), (place, there));
        line.failed = failed;
        line.label = Some(label.clone());
        if let Some(done) = arrival.completion {
            if let Some(to) = layout.positions[done] {
                put(layout, [first, done], LineKind::Completes, (place, there), (to, to.x));
            }
        }
    }
    // Where nothing has left the requester, no arrow does.
    let leaves = match executed.reason {
        Some(Cause::NotTaken { why: Lost::NoPath }) => false,
        Some(cause) => cause.side() == Some(Side::Responder),
        None => !failed,
    };
    let kind =
        if reaches_memory(correlation, transfer) { LineKind::Memory } else { LineKind::Message };
    let is_message = kind == LineKind::Memory
        || correlation.operation(transfer).is_some_and(|(opcode, _)| opcode.is_send());
    if let Some(peer) = correlation.peer(transfer) {
        if transfer.arrivals.is_empty() && leaves && is_message && peer != participant {
            let lane = if kind == LineKind::Memory { Lane::Memory } else { Lane::ReceiveQueue };
            let there = layout.frame.columns[peer].lane(lane);
            let reads = executed.opcode == WrOpcode::RDMA_READ && !failed;
            let (from, to) = if reads { (there, own) } else { (own, there) };
            let line = put(layout, [at, at], kind, (place, from), (place, to));
            line.failed = failed;
            line.reads = reads;
            line.label = Some(label);
            // The old value comes back.
            line.heads[0] = executed.opcode.is_atomic() && !failed;
        }
    }
    if let Some(done) = transfer.completion {
        if let Some(to) = layout.positions[done] {
            let line = put(layout, [at, done], LineKind::Completes, (place, own), (to, to.x));
            line.failed = failed;
        }
    }
}

/// Puts an arrow into the blocks that it crosses, and gives its last piece.
fn put(
    layout: &mut Layout,
    entries: [usize; 2],
    kind: LineKind,
    (from, from_x): (Position, f64),
    (to, to_x): (Position, f64),
) -> &mut Line {
    let whole = ((from.block, from.y), (to.block, to.y));
    let pieces = layout.pieces(whole.0, whole.1);
    let down = whole.0 <= whole.1;
    // Folded rows take no height before they are unfolded.
    let shown = |layout: &Layout, (block, top, bottom): (usize, f64, f64)| {
        if matches!(layout.blocks[block].kind, Kind::Shown) { bottom - top } else { 0.0 }
    };
    let strips = |layout: &Layout, number: usize, block: usize| {
        if number == 0 { 0.0 } else { layout.blocks[block].strips() }
    };
    let heights = pieces
        .iter()
        .enumerate()
        .map(|(number, piece)| strips(layout, number, piece.0) + shown(layout, *piece));
    let height: f64 = heights.sum();
    let (upper, lower) = if down { (from_x, to_x) } else { (to_x, from_x) };
    // A straight arrow would be hidden behind its lane.
    let mirrored = layout.frame.columns.len() == 2 && from_x > layout.frame.width / 2.0;
    let round = match kind {
        LineKind::Leads if (from_x - to_x).abs() < 1.0 => {
            if mirrored {
                -ROUND
            } else {
                ROUND
            }
        }
        _ => 0.0,
    };
    let mut passed = 0.0;
    let count = pieces.len();
    let target = to.block;
    for (number, piece) in pieces.into_iter().enumerate() {
        let (block, top, bottom) = piece;
        let at = |passed: f64| match height > 0.0 {
            true => upper + (lower - upper) * passed / height,
            false => upper,
        };
        let above = at(passed);
        passed += strips(layout, number, block);
        let begin = (at(passed), top);
        passed += shown(layout, piece);
        let end = (if number + 1 == count { lower } else { at(passed) }, bottom);
        let (from, to) = if down { (begin, end) } else { (end, begin) };
        let (begins, last) = match (number == 0, number + 1 == count) {
            (first, last) if down => (first, last),
            (first, last) => (last, first),
        };
        layout.blocks[block].lines.push(Line {
            entries,
            kind,
            from,
            to,
            above,
            begins,
            heads: [false, last],
            round,
            reads: false,
            failed: false,
            label: None,
        });
    }
    let lines = &mut layout.blocks[target].lines;
    let last = lines.len() - 1;
    &mut lines[last]
}
