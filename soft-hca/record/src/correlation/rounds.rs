//! Repeats in a run.
//!
//! Two runs of the same program never interleave their two sides' entries in quite the same way. So
//! rounds are looked for in a shorter sequence: calls, events, and each work request with all that
//! became of it as one. What has no place in it, such as waits and polls, goes with what is before it.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use super::Correlation;
use crate::entry::{Outcome, Seen, What};

/// The longest round that is looked for.
const LONGEST: usize = 32;
/// Rounds that are shown before those that are folded, and behind them.
const BEFORE: usize = 2;
const BEHIND: usize = 1;
/// Rounds that are folded at least.
const FEWEST: usize = 3;

/// A piece of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Its entries, in the order of time.
    pub(crate) entries: Vec<usize>,
    /// The rounds, if it is folded.
    pub(crate) folded: Option<Folded>,
}

/// Rounds that are all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Folded {
    /// How many.
    pub(crate) rounds: usize,
    /// Nanoseconds that they took.
    pub(crate) duration: u64,
    /// Work requests in them.
    pub(crate) transfers: usize,
}

/// Cuts a run into pieces that are shown and pieces that are folded.
pub(crate) fn pieces(correlation: &Correlation<'_>) -> Vec<Piece> {
    let (places, signatures) = sequence(correlation);
    let first = correlation
        .transfers
        .iter()
        .filter_map(|transfer| transfer.posted.or(transfer.executed))
        .min();
    let first = first.and_then(|at| signatures.get(places[at])).copied();
    let folds = repeats(&signatures, first);
    let mut ranges: Vec<(Range<usize>, Option<usize>)> = Vec::new();
    let mut from = 0;
    for Repeat { begin, period, rounds } in folds {
        let hidden = begin + BEFORE * period..begin + (rounds - BEHIND) * period;
        ranges.push((from..hidden.start, None));
        from = hidden.end;
        ranges.push((hidden, Some(rounds - BEFORE - BEHIND)));
    }
    ranges.push((from..signatures.len().max(1), None));
    let mut pieces: Vec<_> =
        ranges.iter().map(|_| Piece { entries: Vec::new(), folded: None }).collect();
    for (at, place) in places.iter().enumerate() {
        // Ranges are in order and cover all places.
        let piece = ranges.partition_point(|(range, _)| range.end <= *place);
        pieces[piece.min(ranges.len() - 1)].entries.push(at);
    }
    for (piece, (_, rounds)) in pieces.iter_mut().zip(&ranges) {
        let Some(rounds) = *rounds else { continue };
        let time = |at: Option<&usize>| at.map_or(0, |&at| correlation.entries[at].t);
        let executed = |at: &&usize| matches!(correlation.entries[**at].what, What::Executed(_));
        piece.folded = Some(Folded {
            rounds,
            duration: time(piece.entries.last()) - time(piece.entries.first()),
            transfers: piece.entries.iter().filter(executed).count(),
        });
    }
    pieces.retain(|piece| !piece.entries.is_empty());
    pieces
}

/// The place of each entry in the sequence, and what stands at each place.
fn sequence(correlation: &Correlation<'_>) -> (Vec<usize>, Vec<u64>) {
    let mut signatures: Vec<u64> = Vec::new();
    let mut places = Vec::with_capacity(correlation.entries.len());
    let mut of_transfer: HashMap<usize, usize> = HashMap::new();
    let mut sending = false;
    // Receives belong to what their process does next.
    let mut waiting: HashMap<usize, Vec<usize>> = HashMap::new();
    for (at, entry) in correlation.entries.iter().enumerate() {
        let participant = correlation.participant[at];
        let mut own = |what: &dyn Fn(&mut DefaultHasher)| {
            let mut hasher = DefaultHasher::new();
            participant.hash(&mut hasher);
            what(&mut hasher);
            signatures.push(hasher.finish());
            signatures.len() - 1
        };
        let place = match &entry.what {
            What::ProcessBegan { .. } | What::ProcessEnded { .. } | What::Dropped { .. } => {
                own(&|hasher| at.hash(hasher))
            }
            What::Call(call) if call.name != "ibv_req_notify_cq" => own(&|hasher| {
                call.name.hash(hasher);
                matches!(call.result, Outcome::Done(_)).hash(hasher);
            }),
            What::ConnectionEvent(event) => own(&|hasher| {
                event.event.hash(hasher);
                event.status.hash(hasher);
            }),
            What::AsyncEvent { event, .. } => own(&|hasher| event.hash(hasher)),
            // Before the first message, receives are what there is to see; later one side posts
            // them sooner or later than the other acts, as it happens.
            What::ReceivePosted(receive) if !sending && receive.seen != Seen::AtMessage => {
                own(&|hasher| ("receive", receive.length).hash(hasher))
            }
            What::SendPosted(_)
            | What::Executed(_)
            | What::Completion(_)
            | What::Stalled { .. } => {
                sending = true;
                match correlation.transfer[at] {
                    Some(transfer) => *of_transfer
                        .entry(transfer)
                        .or_insert_with(|| own(&|hasher| whole(correlation, transfer, hasher))),
                    None => own(&|hasher| at.hash(hasher)),
                }
            }
            What::ReceivePosted(_) if correlation.transfer[at].is_some() && sending => {
                let place =
                    correlation.transfer[at].and_then(|transfer| of_transfer.get(&transfer));
                place.copied().unwrap_or(signatures.len().saturating_sub(1))
            }
            _ => signatures.len().saturating_sub(1),
        };
        places.push(place);
        let is_receive = matches!(entry.what, What::ReceivePosted(_));
        if is_receive && sending && entry.by.is_none() {
            waiting.entry(participant).or_default().push(at);
        } else if entry.by.is_none()
            && !matches!(entry.what, What::Wait { .. } | What::Woken { .. } | What::Polled(_))
        {
            for receive in waiting.remove(&participant).unwrap_or_default() {
                places[receive] = place;
            }
        }
    }
    (places, signatures)
}

/// Hashes what makes a work request equal to that of another round.
fn whole(correlation: &Correlation<'_>, transfer: usize, hasher: &mut DefaultHasher) {
    let transfer = &correlation.transfers[transfer];
    for at in transfer.posted.into_iter().chain(transfer.executed) {
        match &correlation.entries[at].what {
            What::SendPosted(send) => (send.qp, &send.opcode, send.length).hash(hasher),
            What::Executed(executed) => (executed.qp, &executed.status).hash(hasher),
            _ => {}
        }
    }
    transfer.completion.is_some().hash(hasher);
    transfer.stalls.is_empty().hash(hasher);
    for arrival in &transfer.arrivals {
        (arrival.process, arrival.completion.is_some()).hash(hasher);
    }
}

/// A part of a sequence that is made of equal rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Repeat {
    begin: usize,
    period: usize,
    rounds: usize,
}

/// Finds the repeats of a sequence from its beginning on; of those that begin together the one that
/// covers most. A round begins with `first`, if that is in it.
fn repeats(signatures: &[u64], first: Option<u64>) -> Vec<Repeat> {
    let mut found = Vec::new();
    let mut begin = 0;
    while begin < signatures.len() {
        let mut best: Option<Repeat> = None;
        for period in 1..=LONGEST.min(signatures.len() - begin) {
            let rest = &signatures[begin..];
            let equal = rest.iter().zip(&rest[period..]).take_while(|(a, b)| a == b).count();
            let rounds = equal / period + 1;
            let covers = |repeat: Repeat| repeat.period * repeat.rounds;
            let repeat = Repeat { begin, period, rounds };
            if rounds >= BEFORE + BEHIND + FEWEST
                && best.is_none_or(|best| covers(repeat) > covers(best) + best.period)
            {
                best = Some(repeat);
            }
        }
        match best {
            Some(mut repeat) => {
                let Repeat { period, rounds, .. } = repeat;
                let round = &signatures[begin..begin + period];
                let shift = round.iter().position(|sign| Some(*sign) == first).unwrap_or(0);
                begin += period * rounds;
                if shift > 0 && rounds > BEFORE + BEHIND + FEWEST {
                    repeat.begin += shift;
                    repeat.rounds -= 1;
                    begin -= period - shift;
                }
                found.push(repeat);
            }
            None => begin += 1,
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(usize, usize, usize)> {
        let signatures: Vec<u64> = text.bytes().map(u64::from).collect();
        repeats(&signatures, Some(u64::from(b'F')))
            .iter()
            .map(|r| (r.begin, r.period, r.rounds))
            .collect()
    }

    #[test]
    fn rounds_are_found_wherever_they_begin() {
        assert_eq!(found(""), []);
        assert_eq!(found("abcdefgh"), []);
        assert_eq!(found("aaaaa"), [], "too few");
        assert_eq!(found("xaaaaaaaay"), [(1, 1, 8)]);
        assert_eq!(found("setupABABABABABABend"), [(5, 2, 6)]);
        assert_eq!(found("ABCABCABCABCABCABCAB"), [(0, 3, 6)]);
        // A round begins with what comes first.
        assert_eq!(found("xBFBFBFBFBFBFBFBz"), [(2, 2, 6)]);
        // A difference cuts a run in two.
        assert_eq!(found("aaaaaaaaBaaaaaaaa"), [(0, 1, 8), (9, 1, 8)]);
    }
}
