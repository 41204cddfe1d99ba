//! Programs that are run strictly: their requests are executed as late, and as awkwardly, as the
//! specification allows.
//!
//! A queue pair with a seed rings its doorbell at the daemon, which puts the request at the head off for a
//! while. Until then bytes of its message may come in any order: some of its pieces are moved at once,
//! as if the packets between them had been lost, and where a message goes into a receive all other places get
//! a pattern. When the time has come the whole message is moved, from what the sender's memory has by then,
//! as a retransmission would (IBTA volume 1, 9.4 and 10.2.2: buffers belong to the adapter until the
//! completion). A message that finds no receive is not put off.
//!
//! All choices are made by the queue pair's seed and by how many were made before.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use arrayvec::ArrayVec;

use crate::arena::{Mapping, Qp};
use crate::engine::actor::Actor;
use crate::engine::deferred::Deferred;
use crate::engine::plan::{self, Batch, consumes_receive};
use crate::engine::process_memory;
use crate::engine::request::Requester;
use crate::engine::responder::has_receive;
use crate::engine::route::local_peer;
use crate::engine::segments::{Memory, SegmentList};
use crate::engine::turn::{Bytes, Turn};
use crate::put_off::{self, DELAYS, Delays};
use crate::uapi::verbs::{WrOpcode, opcode, qp_type};

/// Content of a receive's memory while its message is on its way.
const PATTERN: u8 = 0xa5;
/// Bytes of a message that are moved early, or get the pattern, at most.
const EARLY_BYTES: u64 = 1 << 20;
/// Pieces in which a message comes, at most.
const PIECES: usize = 8;
/// Of so many messages one comes early as a whole, and all of it is written again later.
const WHOLE_ONE_IN: u64 = 4;
/// Requests that are executed together, at most.
const TOGETHER: u64 = 16;
/// Of so many datagrams one is lost.
const LOST_ONE_IN: u64 = 100;

/// How long RDMA writes are put off: who watches the memory is to have the time to see what has come early.
const DELAYS_OF_WRITES: Delays = [(8, 1_000_000), (13, 5_000_000), (16, 60_000_000)];

/// The next choice of a queue pair: a number below a limit.
fn choose(qp: &Qp, limit: u64) -> u64 {
    let number = qp.put_off_choices.fetch_add(1, AcqRel);
    put_off::choice(qp.strict_seed.load(Acquire), number.into(), limit)
}

/// For how many nanoseconds the next request is put off.
fn delay(qp: &Qp, kind: u32) -> u64 {
    let delays = if kind == opcode::RDMA_WRITE { DELAYS_OF_WRITES } else { DELAYS };
    put_off::delay_ns(delays, |limit| choose(qp, limit))
}

/// Whether a queue pair's program is run strictly.
pub(super) fn is_strict(qp: &Qp) -> bool {
    qp.strict_seed.load(Acquire) != 0
}

/// The share of `limit` requests from the head on that is executed now; `None` if none is, and the daemon
/// comes back. For the daemon, which holds what the request at the head needs.
pub(super) fn turn(
    actor: &Actor<'_>,
    requester: &Requester<'_>,
    limit: u32,
    deferred: &mut Deferred,
) -> Option<Turn> {
    let limit = limit_now(actor, requester, limit, deferred)?;
    let is_lost = requester.kind == qp_type::UD && choose(requester.qp, LOST_ONE_IN) == 0;
    Some(Turn { limit, bytes: if is_lost { Bytes::Lost } else { Bytes::Move } })
}

/// How many of `limit` requests from the head on are executed now.
fn limit_now(
    actor: &Actor<'_>,
    requester: &Requester<'_>,
    limit: u32,
    deferred: &mut Deferred,
) -> Option<u32> {
    let qp = requester.qp;
    // A request that waits for the peer waits for that alone.
    if qp.wait.load(Acquire) != 0 || lacks_receive(actor.arena, requester) {
        return Some(limit);
    }
    let now = actor.env.now_ns();
    let mut due = qp.put_off_until_ns.load(Acquire);
    if due == 0 {
        due = now + delay(qp, requester.wqe(requester.head()).opcode);
        move_some(actor, requester, deferred);
    }
    if now < due {
        qp.put_off_until_ns.store(due, Release);
        deferred.rescheduled.push((requester.qpn, due - now));
        return None;
    }
    qp.put_off_until_ns.store(0, Release);
    Some(limit.min(1 + choose(qp, TOGETHER) as u32))
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

/// Moves some pieces of the message at the head, the last ones first. An error shows when the message is
/// executed.
fn move_some(actor: &Actor<'_>, requester: &Requester<'_>, deferred: &mut Deferred) {
    let wqe = requester.wqe(requester.head());
    let is_message = WrOpcode(wqe.opcode).is_send()
        || matches!(
            wqe.opcode,
            opcode::RDMA_WRITE | opcode::RDMA_WRITE_WITH_IMM | opcode::RDMA_READ
        );
    if requester.kind != qp_type::RC || !is_message || requester.is_fenced(&wqe) {
        return;
    }
    let Some(responder) = requester.responder(actor) else { return };
    // A receive of a shared queue that is taken cannot be put back.
    if responder.is_shared() && consumes_receive(wqe.opcode) {
        return;
    }
    let mut batch = Batch::new(1);
    if plan::plan(actor, requester, Some(&responder), &wqe, &mut batch, deferred).is_err() {
        return;
    }
    let procs = [batch.local_proc.unwrap_or(requester.owner.proc), responder.owner.proc];
    let (local, remote) = (&batch.local, &batch.remote);
    let length = local.bytes().min(EARLY_BYTES);
    // Bytes that cannot be moved now fail later.
    let copy = |from: Memory<'_>, to: Memory<'_>| {
        let _ = actor.copy(from, to);
    };
    if WrOpcode(wqe.opcode).is_send() {
        let pattern = vec![PATTERN; length as usize];
        let ours = [process_memory::ours(&pattern)];
        let to = remote.piece(0, length);
        copy(Memory::unregistered(actor.me, &ours), to.of_process(procs[1]));
    }
    for (start, bytes) in pieces(requester.qp, length) {
        let piece = |list: &SegmentList| list.piece(start, bytes);
        let (local, remote) = (piece(local), piece(remote));
        let (local, remote) = (local.of_process(procs[0]), remote.of_process(procs[1]));
        if wqe.opcode == opcode::RDMA_READ {
            copy(remote, local);
        } else {
            copy(local, remote);
        }
    }
}

/// Some pieces of a message of so many bytes: where each begins, and how long it is.
fn pieces(qp: &Qp, length: u64) -> ArrayVec<(u64, u64), PIECES> {
    if length > 0 && choose(qp, WHOLE_ONE_IN) == 0 {
        return ArrayVec::from_iter([(0, length)]);
    }
    let mut cuts = ArrayVec::<u64, { PIECES + 1 }>::from_iter([0, length]);
    while !cuts.is_full() && (cuts.len() as u64) <= length {
        cuts.push(choose(qp, length));
    }
    cuts.sort_unstable();
    let pieces = cuts.windows(2).map(|cut| (cut[0], cut[1] - cut[0])).rev();
    pieces.filter(|(_, bytes)| *bytes > 0 && choose(qp, 2) == 0).collect()
}
