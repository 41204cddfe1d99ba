//! Programs that are run strictly: their requests are executed as late, and as awkwardly, as the
//! specification allows.
//!
//! A queue pair with a seed rings its doorbell at the daemon, which puts the request at the head off for a
//! while. Until then bytes of its message may come in any order: some of its pieces are moved at once,
//! as if the packets between them had been lost, and where a message goes into a receive all other places get
//! a pattern. When the time has come the rest is moved, from what the sender's memory has by then; of a message that goes
//! into a receive all of it once more, as a retransmission would (IBTA volume 1, 9.4 and 10.2.2: buffers belong to the
//! adapter until the completion). The memory that RDMA operations name is its program's meanwhile: no byte comes there
//! twice, and no word in halves. A message that finds no receive is not put off.
//!
//! The answer to a read or an atomic operation is late: requests behind it without a fence may have been begun by
//! then. A write may have its completion before it is in the peer's memory, where it is before anything behind it on
//! the same queue pair, but for writes to a region with relaxed ordering, and before a window that it has gone through is
//! useless. An atomic operation is none to the peer's processor.
//!
//! All choices are made by the queue pair's seed, and by their kind and the number of the request ([`strict_choice`]).
//!
//! [`strict_choice`]: super::strict_choice

use std::sync::atomic::Ordering::{Acquire, Release};

use arrayvec::ArrayVec;
use soft_hca_verbs::Choice;

use crate::arena::{Mapping, Qp};
use crate::engine::actor::Actor;
use crate::engine::datagram::MAX_OVERTAKING;
use crate::engine::deferred::Deferred;
use crate::engine::in_transit::{Ahead, Begun, Transit};
use crate::engine::plan::consumes_receive;
use crate::engine::request::Requester;
use crate::engine::responder::has_receive;
use crate::engine::route::local_peer;
use crate::engine::strict_bytes::{self, PIECES, Places};
use crate::engine::strict_choice::{draws, draws_behind};
use crate::engine::turn::{Bytes, Turn};
use crate::put_off::{self, DELAYS, Delays, Draws};
use crate::uapi::rxe::SendWqe;
use crate::uapi::verbs::{Mtu, WrOpcode, access, opcode, qp_type, send_flag};

/// Content of a receive's memory while its message is on its way.
const PATTERN: u8 = 0xa5;
/// Bytes of a message that are moved early, or get the pattern, at most.
const EARLY_BYTES: u64 = 1 << 20;
/// Of so many messages one comes early as a whole.
const WHOLE_ONE_IN: u64 = 8;
/// Of so many other RDMA writes and reads none of one comes early.
const LATE_ONE_IN: u64 = 4;
/// Requests that are executed together, at most.
const TOGETHER: u64 = 16;
/// Of so many datagrams one is lost.
const LOST_ONE_IN: u64 = 100;
/// Of so many datagrams one is overtaken, if there are others behind it.
const REORDERED_ONE_IN: u64 = 4;
/// Of so many reads all but one are overtaken, if what is behind them may do that.
const IN_ORDER_ONE_IN: u64 = 4;
/// How many requests overtake one, at most.
const MAX_AHEAD: u32 = 8;
/// Of so many writes one is in the memory before its completion.
const IN_TIME_ONE_IN: u64 = 3;

/// How long RDMA writes are put off: who watches the memory is to have the time to see what has come early.
const DELAYS_OF_WRITES: Delays = [(8, 1_000_000), (13, 5_000_000), (16, 60_000_000)];

/// How long a write is on its way after its completion.
const DELAYS_OF_LANDING: Delays = [(8, 1_000_000), (13, 5_000_000), (16, 20_000_000)];

/// For how many nanoseconds the next request is put off.
fn delay(qp: &Qp, kind: u32) -> u64 {
    let delays = if kind == opcode::RDMA_WRITE { DELAYS_OF_WRITES } else { DELAYS };
    draws(qp, Choice::Delay)
        .map_or(put_off::LEAST_NS, |mut draws| put_off::delay_ns(delays, &mut draws))
}

/// The share of `limit` requests from the head on that is executed now; `None` if none is, and the daemon
/// comes back. For the daemon, which holds what the request at the head needs.
pub(super) fn turn(
    actor: &Actor<'_>,
    requester: &Requester<'_>,
    limit: u32,
    deferred: &mut Deferred,
) -> Option<Turn> {
    let Some(in_transit) = actor.env.in_transit() else { return Some(Turn::at_once(limit)) };
    let mut transit = in_transit.take(requester.qpn);
    let head = requester.head();
    transit.reach(head, requester.ring.advance(head, 1));
    reach(requester);
    let turn = turn_of(actor, requester, limit, &mut transit, deferred);
    in_transit.put(requester.qpn, transit);
    turn
}

/// The request at the head is the place of choices from here on: its number among those that were ever at the
/// head, which is the same whatever was chosen before.
fn reach(requester: &Requester<'_>) {
    let before = requester.qp.put_off_choices.load(Acquire);
    let passed = requester.ring.distance(before, requester.head());
    requester.qp.put_off_choices.store(before.wrapping_add(passed), Release);
}

fn turn_of(
    actor: &Actor<'_>,
    requester: &Requester<'_>,
    limit: u32,
    transit: &mut Transit,
    deferred: &mut Deferred,
) -> Option<Turn> {
    let qp = requester.qp;
    let wqe = requester.wqe(requester.head());
    let passes_late = is_relaxed(actor.arena, requester, &wqe);
    // A request that waits for the peer waits for that alone.
    if qp.wait.load(Acquire) == 0 && !lacks_receive(actor.arena, requester) {
        let now = actor.env.put_off_now_ns();
        let mut due = qp.put_off_until_ns.load(Acquire);
        if due == 0 {
            due = now + delay(qp, wqe.opcode);
            let early = draws(qp, Choice::Early);
            // Nothing else of it passes a write of before, which may stay on its way for as long.
            let begins =
                |draws: &mut Draws| passes_late || transit.late.is_empty() || draws.below(2) == 0;
            if let Some(mut early) = early.and_then(|mut early| begins(&mut early).then_some(early))
            {
                if !passes_late {
                    strict_bytes::land(actor, transit.late.drain(..));
                }
                begin(actor, requester, &wqe, transit, (&mut early, deferred));
            }
        }
        if now < due {
            qp.put_off_until_ns.store(due, Release);
            deferred.put_off.push((requester.qpn, due));
            return None;
        }
        qp.put_off_until_ns.store(0, Release);
    }
    if !passes_late {
        strict_bytes::land(actor, transit.late.drain(..));
    }
    if matches!(wqe.opcode, opcode::LOCAL_INV | opcode::BIND_MW) {
        // No peer writes by the window's key any more, whose writes may have completed.
        land_all(actor, None);
    }
    if requester.kind == qp_type::UD {
        return Some(turn_of_datagrams(qp, limit));
    }
    if WrOpcode(wqe.opcode).has_response() {
        overtake(actor, requester, limit, transit, deferred);
        let bytes = finish(actor, requester, &wqe, transit, deferred);
        return Some(Turn { limit: 1, bytes });
    }
    let bytes = finish(actor, requester, &wqe, transit, deferred);
    // Those behind it do not pass a write that it has passed.
    let is_alone = bytes == Bytes::Moved || !transit.ahead.is_empty() || !transit.late.is_empty();
    let together = if is_alone { 1 } else { together(qp) };
    Some(Turn { limit: limit.min(together), bytes })
}

/// The datagram at the head is lost, or overtaken by some of those behind it, or neither. One that will be lost overtakes
/// none.
fn turn_of_datagrams(qp: &Qp, limit: u32) -> Turn {
    let is_lost = |distance: u32| {
        draws_behind(qp, distance, Choice::Lost)
            .is_some_and(|mut draws| draws.below(LOST_ONE_IN) == 0)
    };
    if is_lost(0) {
        return Turn { limit: 1, bytes: Bytes::Lost };
    }
    let overtaking = draws(qp, Choice::Reordered).map_or(0, |mut draws| {
        let is_overtaken = draws.below(REORDERED_ONE_IN) == 0;
        if is_overtaken { 1 + draws.below(MAX_OVERTAKING as u64) as u32 } else { 0 }
    });
    match (1..=overtaking).take_while(|distance| !is_lost(*distance)).count() {
        0 => Turn::at_once(limit),
        count => Turn { limit: limit.min(1 + count as u32), bytes: Bytes::Overtaken },
    }
}

/// Whether a request writes to a region with relaxed ordering, and its completion tells the peer nothing: it may be in the
/// peer's memory before writes that were posted before it.
fn is_relaxed(arena: &Mapping, requester: &Requester<'_>, wqe: &SendWqe<'_>) -> bool {
    requester.kind == qp_type::RC
        && wqe.opcode == opcode::RDMA_WRITE
        && arena
            .mr(wqe.remote().rkey)
            .is_some_and(|mr| mr.access.load(Acquire) & access::RELAXED_ORDERING != 0)
}

/// How many requests are executed together.
fn together(qp: &Qp) -> u32 {
    1 + draws(qp, Choice::Together).map_or(0, |mut draws| draws.below(TOGETHER) as u32)
}

/// Whether the request at the head takes a receive, and its peer has none.
fn lacks_receive(arena: &Mapping, requester: &Requester<'_>) -> bool {
    let wqe = requester.wqe(requester.head());
    let peer = match requester.kind {
        qp_type::UD => arena.qp(wqe.datagram().qpn),
        _ if consumes_receive(wqe.opcode) => local_peer(arena, requester.qp),
        _ => None,
    };
    peer.is_some_and(|peer| !has_receive(arena, peer))
}

/// Moves some pieces of the message at the head, the last ones first.
fn begin(
    actor: &Actor<'_>,
    requester: &Requester<'_>,
    wqe: &SendWqe<'_>,
    transit: &mut Transit,
    (early, deferred): (&mut Draws, &mut Deferred),
) {
    let index = requester.head();
    if requester.is_fenced(wqe) || transit.ahead_at(index).is_some() {
        return;
    }
    let Some(places) = Places::of(actor, requester, wqe, deferred) else { return };
    let is_send = WrOpcode(wqe.opcode).is_send();
    if is_send {
        places.fill(actor, PATTERN, EARLY_BYTES);
    }
    let is_whole = early.below(WHOLE_ONE_IN) == 0;
    let is_in_part = is_send || early.below(LATE_ONE_IN) != 0;
    let (mut left, mut reached) = (Vec::new(), 0);
    for piece in pieces(early, &places).into_iter().rev() {
        let is_early = is_whole || (is_in_part && early.below(2) == 0);
        // Bytes that cannot be moved now fail later.
        if !is_early || places.move_piece(actor, piece).is_err() {
            left.push(piece);
        } else {
            reached = reached.max(piece.0 + piece.1);
        }
    }
    let length = places.length();
    if length > EARLY_BYTES {
        left.push((EARLY_BYTES, length - EARLY_BYTES));
    }
    if !is_send {
        let mtu = Mtu(requester.qp.path_mtu.load(Acquire)).bytes();
        let is_write = matches!(wqe.opcode, opcode::RDMA_WRITE | opcode::RDMA_WRITE_WITH_IMM);
        let packets = is_write.then(|| reached.next_multiple_of(mtu.into()));
        let packets = packets.and_then(|end| places.read_up_to(actor, &left, end));
        transit.begun = Some(Begun { index, left, packets });
    }
}

/// The pieces in which a message's bytes come, as far as they may come early.
fn pieces(early: &mut Draws, places: &Places<'_>) -> ArrayVec<(u64, u64), PIECES> {
    let length = places.length().min(EARLY_BYTES);
    let mut cuts = ArrayVec::<u64, { PIECES + 1 }>::from_iter([0, length]);
    while !cuts.is_full() && (cuts.len() as u64) <= length {
        cuts.push(places.cut(early.below(length)));
    }
    cuts.sort_unstable();
    strict_bytes::between(&cuts)
}

/// Lets requests behind the one at the head, which is waiting for its answer, begin: what they send is read, and
/// writes come to the peer's memory.
fn overtake(
    actor: &Actor<'_>,
    requester: &Requester<'_>,
    limit: u32,
    transit: &mut Transit,
    deferred: &mut Deferred,
) {
    let Some(mut draws) = draws(requester.qp, Choice::Overtaken) else { return };
    if requester.kind != qp_type::RC
        || !transit.ahead.is_empty()
        || draws.below(IN_ORDER_ONE_IN) == 0
    {
        return;
    }
    let lands = draws.below(IN_ORDER_ONE_IN) != 0;
    for number in 1..limit.min(MAX_AHEAD) {
        let index = requester.ring.advance(requester.head(), number);
        let wqe = requester.wqe(index);
        if wqe.flags & send_flag::FENCE != 0 {
            break;
        }
        if wqe.opcode == opcode::RDMA_READ {
            transit.ahead.push_back(Ahead { index, bytes: None, has_landed: false });
            continue;
        }
        let Some(ahead) = begin_ahead(actor, requester, (index, &wqe), lands, deferred) else {
            break;
        };
        let goes_on = ahead.has_landed;
        transit.ahead.push_back(ahead);
        if !goes_on {
            break;
        }
    }
    // Reads answer in their order.
    while transit.ahead.back().is_some_and(|ahead| ahead.bytes.is_none()) {
        transit.ahead.pop_back();
    }
}

/// Begins the request at an index; `None` if that is not to be.
fn begin_ahead(
    actor: &Actor<'_>,
    requester: &Requester<'_>,
    (index, wqe): (u32, &SendWqe<'_>),
    lands: bool,
    deferred: &mut Deferred,
) -> Option<Ahead> {
    let kind = WrOpcode(wqe.opcode);
    let may_overtake = matches!(
        wqe.opcode,
        opcode::SEND | opcode::SEND_WITH_IMM | opcode::RDMA_WRITE | opcode::RDMA_WRITE_WITH_IMM
    );
    if kind.has_response() || !may_overtake {
        return None;
    }
    let places = Places::of(actor, requester, wqe, deferred)?;
    let all = [(0, places.length())];
    if places.length() > EARLY_BYTES {
        return None;
    }
    let bytes = places.read(actor, &all).ok()?;
    let has_landed = lands && wqe.opcode == opcode::RDMA_WRITE;
    if has_landed {
        strict_bytes::land(actor, [places.late(bytes.clone(), &all, 0, false)]);
    }
    Some(Ahead { index, bytes: Some(bytes), has_landed })
}

/// Moves what is left of the request at the head, which is due, and says what is still to be done with its bytes.
fn finish(
    actor: &Actor<'_>,
    requester: &Requester<'_>,
    wqe: &SendWqe<'_>,
    transit: &mut Transit,
    deferred: &mut Deferred,
) -> Bytes {
    let qp = requester.qp;
    let index = requester.head();
    let is_known = transit.begun.is_some() || transit.ahead_at(index).is_some();
    let places = if is_known { Places::of(actor, requester, wqe, deferred) } else { None };
    let Some(places) = places else { return Bytes::Move };
    let (left, bytes) = match (transit.ahead_at(index), &transit.begun) {
        (Some(ahead), _) if ahead.has_landed => return Bytes::Moved,
        (Some(Ahead { bytes: Some(bytes), .. }), None) => {
            (vec![(0, places.length())], Some(bytes.clone()))
        }
        (_, Some(begun)) => (begun.left.clone(), None),
        _ => return Bytes::Move,
    };
    places.drain(actor);
    let may_be_late = wqe.opcode == opcode::RDMA_WRITE && places.length() <= EARLY_BYTES;
    let landing = draws(qp, Choice::Landing).filter(|_| may_be_late);
    let lands_after = landing.and_then(|mut draws| {
        let is_late = draws.below(IN_TIME_ONE_IN) != 0;
        is_late.then(|| put_off::delay_ns(DELAYS_OF_LANDING, &mut draws))
    });
    if lands_after.is_some() || bytes.is_some() {
        let bytes = bytes.map_or_else(|| places.read(actor, &left), Ok);
        let Ok(bytes) = bytes else { return Bytes::Move };
        let due = actor.env.put_off_now_ns() + lands_after.unwrap_or(0);
        let is_relaxed = is_relaxed(actor.arena, requester, wqe);
        let late = places.late(bytes, &left, due, is_relaxed);
        if lands_after.is_some() {
            deferred.put_off.push((requester.qpn, due));
            transit.late.push(late);
        } else {
            strict_bytes::land(actor, [late]);
        }
    } else if left.iter().any(|piece| places.move_piece(actor, *piece).is_err()) {
        return Bytes::Move;
    }
    transit.begun = Some(Begun { index, left: Vec::new(), packets: None });
    Bytes::Moved
}

/// Writes of a queue pair that are due come to their memory.
pub(super) fn land_due(actor: &Actor<'_>, qpn: u32, deferred: &mut Deferred) {
    let Some(in_transit) = actor.env.in_transit() else { return };
    let (due, next) = in_transit.take_due(qpn, actor.env.put_off_now_ns());
    strict_bytes::land(actor, due);
    deferred.put_off.extend(next.map(|next| (qpn, next)));
}

/// All writes come to their memory, which somebody may be about to give up; a queue pair that is about to leave the
/// states in which requests are executed begins anew. Writes that this cuts off, its own and its peer's, have written whole
/// packets, as each is executed when it arrives (IBTA volume 1, 9.7.5).
pub(super) fn land_all(actor: &Actor<'_>, ends: Option<u32>) {
    let Some(in_transit) = actor.env.in_transit() else { return };
    strict_bytes::land(actor, in_transit.take_late());
    if let Some(qpn) = ends {
        let peer = actor.arena.qp(qpn).and_then(|qp| local_peer(actor.arena, qp));
        let senders = [Some(qpn), peer.map(|peer| peer.live.load(Acquire))];
        let packets = senders.into_iter().flatten().filter_map(|qpn| in_transit.take_packets(qpn));
        strict_bytes::land(actor, packets);
        drop(in_transit.take(qpn));
    }
}

#[cfg(test)]
mod tests {
    use soft_hca_verbs::Choices;

    use super::*;

    #[test]
    fn datagrams_are_lost_or_overtaken_now_and_then() {
        let arena = Mapping::create().unwrap();
        let qp = &arena.qps[0];
        qp.make_strict(7, &Choices::ALL);
        let turn = |number: u32| {
            qp.put_off_choices.store(number, Release);
            turn_of_datagrams(qp, 8)
        };
        const ALL: u32 = 4000;
        let of = |bytes| (0..ALL).filter(|number| turn(*number).bytes == bytes).count();
        assert!((20..60).contains(&of(Bytes::Lost)), "{}", of(Bytes::Lost));
        assert!((800..1200).contains(&of(Bytes::Overtaken)), "{}", of(Bytes::Overtaken));
        for number in 0..ALL {
            let Turn { limit, bytes } = turn(number);
            if bytes == Bytes::Overtaken {
                assert!((2..=4).contains(&limit));
                let is_lost = |behind| turn(number + behind).bytes == Bytes::Lost;
                assert!(!(1..limit).any(is_lost), "{number}");
            }
        }
    }
}
