//! The blocks of a picture: what is shown, folded and left out.

use super::picture::Kind;
use crate::correlation::Correlation;
use crate::correlation::phases::{Phase, Phases};
use crate::correlation::rounds::{self, Piece};
use crate::timeline::frame::Most;

/// Failures that are shown where all around them is left out.
const FAILURES_MOST: usize = 100;

/// A block before its rows are made.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) heading: Option<Phase>,
    pub(super) kind: Kind,
    pub(super) entries: Vec<usize>,
}

/// Cuts a run into blocks.
pub(super) fn cut(correlation: &Correlation<'_>, most: Most) -> Vec<Draft> {
    let mut pieces = rounds::pieces(correlation);
    for piece in &mut pieces {
        piece.entries.retain(|at| !correlation.is_beneath[*at] && !correlation.aside.contains(at));
    }
    pieces.retain(|piece| !piece.entries.is_empty());
    let shown = shown(correlation, &pieces, most.shown);
    let folds = pieces.iter().filter(|piece| piece.folded.is_some()).count().max(1);
    let phases = Phases::of(correlation);
    let mut drafts: Vec<Draft> = Vec::new();
    let mut phase = None;
    for piece in pieces {
        if let Some(rounds) = piece.folded {
            let heading =
                piece.entries.first().map(|&at| phases.at(at)).filter(|_| phase.is_none());
            let mut entries = piece.entries;
            let all = entries.len();
            // Whole rounds, so that those that are there look like what they are.
            let per_round = all.div_ceil(rounds.rounds);
            let kept = (most.folded / folds / per_round.max(1)).max(1) * per_round;
            entries.truncate(kept);
            let left_out = all - entries.len();
            drafts.push(Draft { heading, kind: Kind::Folded { rounds, left_out }, entries });
            continue;
        }
        let mut fresh = true;
        let mut left_out = 0;
        for at in piece.entries {
            if !shown[at] {
                left_out += 1;
                continue;
            }
            if left_out > 0 {
                drafts.push(gap(left_out));
                (left_out, fresh) = (0, true);
            }
            let is = phases.at(at);
            // Entries of a round go with it, even if another part of the run has begun.
            let heading = Some(is).filter(|is| phase.is_none_or(|phase| *is > phase));
            if heading.is_some() {
                (phase, fresh) = (heading, true);
            }
            if fresh {
                drafts.push(Draft { heading, kind: Kind::Shown, entries: Vec::new() });
                fresh = false;
            }
            if let Some(draft) = drafts.last_mut() {
                draft.entries.push(at);
            }
        }
        if left_out > 0 {
            drafts.push(gap(left_out));
        }
    }
    drafts
}

fn gap(entries: usize) -> Draft {
    Draft { heading: None, kind: Kind::LeftOut { entries }, entries: Vec::new() }
}

/// Which entries of what is not folded are shown: all, or the beginning, the end and the failures.
fn shown(correlation: &Correlation<'_>, pieces: &[Piece], most: usize) -> Vec<bool> {
    let mut shown = vec![false; correlation.entries.len()];
    let open = pieces.iter().filter(|piece| piece.folded.is_none());
    let open: Vec<usize> = open.flat_map(|piece| piece.entries.iter().copied()).collect();
    if open.len() <= most {
        open.iter().for_each(|&at| shown[at] = true);
        return shown;
    }
    let (first, last) = (&open[..most / 2], &open[open.len() - most / 2..]);
    first.iter().chain(last).for_each(|&at| shown[at] = true);
    for at in correlation.failures().into_iter().take(FAILURES_MOST) {
        shown[at] = true;
        for &group in &correlation.groups_of[at] {
            // A group can be as long as the run.
            correlation.groups[group].iter().take(16).for_each(|&at| shown[at] = true);
        }
    }
    shown
}
