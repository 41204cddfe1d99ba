//! Compare and swap, fetch and add, atomic write. `rxe_resp.c`, `atomic_reply`.
//!
//! They are atomic with respect to each other, whichever queue pairs of the fabric execute them:
//! one lock is held from the read to the write. The processor's own atomics do not know of it, as
//! with a device that reports `IBV_ATOMIC_HCA`.

use std::sync::atomic::Ordering::Acquire;

use crate::engine::after::After;
use crate::engine::link::{Fault, Memory, Segment};
use crate::engine::memory::{SCATTER, Wanted};
use crate::engine::requester::{Done, Requester, Stop};
use crate::engine::responder::Responder;
use crate::engine::segments::SegmentList;
use crate::engine::{Actor, peer, verdict};
use crate::uapi::rxe::{AtomicWr, RemoteWr, SendWqe, access, opcode};

/// Bytes that an atomic operation works on, and the alignment they need.
const WORD: u32 = 8;

impl<'a> Actor<'a> {
    /// Executes an atomic operation.
    pub(super) fn atomic(
        &self,
        requester: &Requester<'a>,
        wqe: &SendWqe<'_>,
        after: &mut After,
    ) -> Result<(), Stop> {
        let operation = match wqe.opcode {
            opcode::ATOMIC_WRITE => {
                AtomicWr { remote: wqe.remote(), compare_add: 0, swap: wqe.atomic_write_data() }
            }
            _ => wqe.atomic(),
        };
        let mut result = SegmentList::new();
        if wqe.opcode != opcode::ATOMIC_WRITE {
            if requester.qp.max_rd_atomic.load(Acquire) == 0 {
                return Err(Stop::Failed(verdict::MALFORMED));
            }
            if requester.gather(self, wqe, SCATTER, &mut result)? < WORD {
                return Err(Stop::Failed(verdict::TOO_LONG));
            }
            result = result.piece(0, WORD.into());
        }
        let mut responder = requester.responder(self).ok_or(Stop::NoAnswer)?;
        let old = match self.operate(&responder, wqe.opcode, operation) {
            Ok(old) => old,
            Err(stop) => {
                if stop != Stop::NoAnswer {
                    responder.fail(self, None, after);
                }
                return Err(stop);
            }
        };
        if wqe.opcode != opcode::ATOMIC_WRITE {
            let bytes = old.to_ne_bytes();
            let ours = [peer::ours(&bytes)];
            let from = Memory { proc: self.me, segments: &ours };
            let to = Memory { proc: requester.owner.proc, segments: result.as_slice() };
            self.link.copy(self.arena, self.me, from, to).map_err(|fault| match fault {
                Fault::Unreachable => Stop::NoAnswer,
                _ => Stop::Failed(verdict::LOCAL_MEMORY),
            })?;
        }
        requester.count_packets(Some(&responder), WORD);
        drop(responder);
        requester.complete(self, [Done::of(wqe, WORD)], after);
        Ok(())
    }

    /// The responder's part: checks, then reads and writes. Gives the old value.
    fn operate(
        &self,
        responder: &Responder<'_>,
        kind: u32,
        operation: AtomicWr,
    ) -> Result<u64, Stop> {
        let is_write = kind == opcode::ATOMIC_WRITE;
        let right = if is_write { access::REMOTE_WRITE } else { access::REMOTE_ATOMIC };
        let RemoteWr { addr, rkey } = operation.remote;
        if responder.qp.access.load(Acquire) & right == 0
            || (!is_write && responder.qp.max_dest_rd_atomic.load(Acquire) == 0)
            || !addr.is_multiple_of(WORD.into())
        {
            return Err(Stop::Failed(verdict::REMOTE_REFUSES));
        }
        let wanted = Wanted { key: rkey, addr, length: WORD.into(), access: right };
        let addr = responder.owner.remote(self.arena, wanted);
        let addr = addr.ok_or(Stop::Failed(verdict::REMOTE_MEMORY))?;
        let remote = [Segment { addr, length: WORD.into() }];
        let remote = Memory { proc: responder.owner.proc, segments: &remote };
        let failed = |fault| match fault {
            Fault::Unreachable => Stop::NoAnswer,
            _ => Stop::Failed(verdict::REMOTE_MEMORY),
        };
        let _guard = self.lock(&self.arena.atomics);
        let old = if is_write {
            0
        } else {
            let mut old = [0; WORD as usize];
            let ours = [peer::ours_mut(&mut old)];
            let ours = Memory { proc: self.me, segments: &ours };
            self.link.copy(self.arena, self.me, remote, ours).map_err(failed)?;
            u64::from_ne_bytes(old)
        };
        let new = match kind {
            opcode::ATOMIC_FETCH_AND_ADD => old.wrapping_add(operation.compare_add),
            opcode::ATOMIC_CMP_AND_SWP if old != operation.compare_add => return Ok(old),
            _ => operation.swap,
        };
        let bytes = new.to_ne_bytes();
        let ours = [peer::ours(&bytes)];
        let ours = Memory { proc: self.me, segments: &ours };
        self.link.copy(self.arena, self.me, ours, remote).map_err(failed)?;
        Ok(old)
    }
}
