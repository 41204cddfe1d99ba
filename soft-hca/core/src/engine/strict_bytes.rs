//! Moving the bytes of requests that are put off ([`strict`](super::strict)): early or late, in pieces.

use std::sync::atomic::Ordering::Acquire;
use std::thread;
use std::time::Duration;

use arrayvec::ArrayVec;
use soft_hca_verbs::Choice;

use crate::arena::Qp;
use crate::engine::actor::Actor;
use crate::engine::deferred::Deferred;
use crate::engine::in_transit::Late;
use crate::engine::plan::{self, Batch, consumes_receive};
use crate::engine::proc::DAEMON;
use crate::engine::process_memory;
use crate::engine::request::Requester;
use crate::engine::segments::{Fault, Memory, Segment, SegmentList};
use crate::engine::strict_choice::{draws, is_strict};
use crate::uapi::rxe::SendWqe;
use crate::uapi::verbs::{WrOpcode, opcode, qp_type};

/// Pieces in which a message comes, at most.
pub(super) const PIECES: usize = 8;
/// Of so many atomic operations one takes so long that the processor may change the word meanwhile.
const SLOW_ONE_IN: u64 = 2;
const SLOW: Duration = Duration::from_micros(100);
/// Pieces begin at addresses that are multiples of this, or where a stretch of memory does: an adapter does not
/// tear words.
const WORD: u64 = 8;

/// Places of a message's bytes at both ends.
pub(super) struct Places<'a> {
    batch: Batch<'a>,
    local_proc: usize,
    remote_proc: usize,
    is_read: bool,
    /// Index of the completion queue of the peer's receives.
    receives: u32,
}

/// Whether the bytes of a request are moved: those of messages of reliable connections.
pub(super) fn is_moved(requester: &Requester<'_>, wqe: &SendWqe<'_>) -> bool {
    let is_message = WrOpcode(wqe.opcode).is_send()
        || matches!(
            wqe.opcode,
            opcode::RDMA_WRITE | opcode::RDMA_WRITE_WITH_IMM | opcode::RDMA_READ
        );
    requester.kind == qp_type::RC && is_message
}

impl<'a> Places<'a> {
    /// Those of a request's; `None` if they are not to be moved before the request is executed, or not at all. An
    /// error shows then.
    pub(super) fn of(
        actor: &Actor<'a>,
        requester: &Requester<'a>,
        wqe: &SendWqe<'a>,
        deferred: &mut Deferred,
    ) -> Option<Self> {
        if !is_moved(requester, wqe) {
            return None;
        }
        let responder = requester.responder(actor)?;
        // A receive of a shared queue that is taken cannot be put back.
        if responder.is_shared() && consumes_receive(wqe.opcode) {
            return None;
        }
        let mut batch = Batch::new(1);
        plan::plan(actor, requester, Some(&responder), wqe, &mut batch, deferred).ok()?;
        Some(Self {
            local_proc: batch.local_proc.unwrap_or(requester.owner.proc),
            remote_proc: responder.owner.proc,
            is_read: wqe.opcode == opcode::RDMA_READ,
            receives: responder.qp.recv_cq.load(Acquire),
            batch,
        })
    }

    /// Payloads that were sent before come before.
    pub(super) fn drain(&self, actor: &Actor<'_>) {
        actor.drain_staged(self.receives);
    }

    /// How many bytes there are.
    pub(super) fn length(&self) -> u64 {
        self.batch.local.bytes()
    }

    /// Where the bytes go.
    fn target(&self) -> &SegmentList {
        if self.is_read { &self.batch.local } else { &self.batch.remote }
    }

    /// Moves a piece: so many bytes behind the first `start`.
    pub(super) fn move_piece(
        &self,
        actor: &Actor<'_>,
        (start, bytes): (u64, u64),
    ) -> Result<(), Fault> {
        let piece = |list: &SegmentList| list.piece(start, bytes);
        let (local, remote) = (piece(&self.batch.local), piece(&self.batch.remote));
        let (local, remote) =
            (local.of_process(self.local_proc), remote.of_process(self.remote_proc));
        if self.is_read { actor.copy(remote, local) } else { actor.copy(local, remote) }
    }

    /// Reads pieces of what is sent, one behind the other.
    pub(super) fn read(&self, actor: &Actor<'_>, pieces: &[(u64, u64)]) -> Result<Vec<u8>, Fault> {
        let mut all = Vec::new();
        for (start, length) in pieces {
            let mut bytes = vec![0; *length as usize];
            let ours = [process_memory::ours_mut(&mut bytes)];
            let from = self.batch.local.piece(*start, *length);
            actor.copy(from.of_process(self.local_proc), Memory::unregistered(actor.me, &ours))?;
            all.append(&mut bytes);
        }
        Ok(all)
    }

    /// Bytes of some pieces in front of an end, with their places at the peer. None if they cannot be read.
    pub(super) fn read_up_to(
        &self,
        actor: &Actor<'_>,
        pieces: &[(u64, u64)],
        end: u64,
    ) -> Option<Late> {
        let before = |&(start, length): &(u64, u64)| (start, end.saturating_sub(start).min(length));
        let mut pieces: Vec<_> = pieces.iter().map(before).collect();
        pieces.retain(|(_, length)| *length > 0);
        let bytes = self.read(actor, &pieces).ok()?;
        Some(self.late(bytes, &pieces, u64::MAX, false))
    }

    /// Bytes of ours that go to pieces at the peer, one behind the other, at a time; whether they may pass others.
    pub(super) fn late(
        &self,
        bytes: Vec<u8>,
        pieces: &[(u64, u64)],
        due_ns: u64,
        is_relaxed: bool,
    ) -> Late {
        let mut to = SegmentList::new();
        for (start, length) in pieces {
            let parts = self.batch.remote.piece(*start, *length);
            parts.parts().for_each(|(segment, region)| to.push(segment, region));
        }
        Late { proc: self.remote_proc, to, bytes, due_ns, is_relaxed }
    }

    /// Writes the same byte to all places at the peer, up to so many.
    pub(super) fn fill(&self, actor: &Actor<'_>, byte: u8, limit: u64) {
        let length = self.length().min(limit);
        let pattern = vec![byte; length as usize];
        let ours = [process_memory::ours(&pattern)];
        let to = self.batch.remote.piece(0, length);
        let from = Memory::unregistered(actor.me, &ours);
        // Bytes that cannot be moved now fail later.
        let _ = actor.copy(from, to.of_process(self.remote_proc));
    }

    /// The nearest place before an offset where a piece may begin.
    pub(super) fn cut(&self, offset: u64) -> u64 {
        cut(self.target().parts().map(|(segment, _)| segment), offset)
    }
}

fn cut(segments: impl Iterator<Item = Segment>, offset: u64) -> u64 {
    let mut start = 0;
    for Segment { addr, length } in segments {
        if offset < start + length {
            let within = offset - start;
            return offset - within.min(addr.wrapping_add(within) % WORD);
        }
        start += length;
    }
    start
}

/// Pieces between sorted cuts.
pub(super) fn between(cuts: &[u64]) -> ArrayVec<(u64, u64), PIECES> {
    let pieces = cuts.windows(2).map(|cut| (cut[0], cut[1] - cut[0]));
    pieces.filter(|(_, bytes)| *bytes > 0).take(PIECES).collect()
}

/// Brings late writes to where they go. A process or a region that has gone meanwhile gets none.
pub(super) fn land(actor: &Actor<'_>, late: impl IntoIterator<Item = Late>) {
    for Late { proc, to, bytes, .. } in late {
        let ours = [process_memory::ours(&bytes)];
        let _ = actor.copy(Memory::unregistered(actor.me, &ours), to.of_process(proc));
    }
}

/// Another access comes between what an atomic operation reads and what it writes, be it the processor's.
pub(super) fn interrupt(actor: &Actor<'_>, qp: &Qp, proc: usize, word: Segment) {
    let is_slow =
        || draws(qp, Choice::Interrupted).is_some_and(|mut draws| draws.below(SLOW_ONE_IN) == 0);
    if actor.me != DAEMON || !is_strict(qp) || !is_slow() {
        return;
    }
    if let Some(in_transit) = actor.env.in_transit() {
        land(actor, in_transit.take_late_at(proc, word));
    }
    thread::sleep(SLOW);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_is_cut() {
        let segments = [Segment { addr: 0x1003, length: 20 }, Segment { addr: 0x2000, length: 8 }];
        let cut = |offset| cut(segments.into_iter(), offset);
        let cuts: Vec<u64> = (0..=28).map(cut).collect();
        let mut expected = [[0; 5].as_slice(), &[5; 8], &[13; 7], &[20; 8], &[28]].concat();
        expected.truncate(cuts.len());
        assert_eq!(cuts, expected);
    }

    #[test]
    fn pieces_are_all_there_is() {
        assert_eq!(between(&[0, 8, 8, 20])[..], [(0, 8), (8, 12)]);
        assert!(between(&[0, 0]).is_empty());
    }
}
