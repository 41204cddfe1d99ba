//! Compare and swap, fetch and add, atomic write. `rxe_resp.c`, `atomic_reply`.
//!
//! They are atomic with respect to each other, whichever queue pairs of the fabric execute them on
//! the memory of a process: its lock is held from the read to the write. (Two processes that have
//! registered the same shared memory are two memories here: one lock for all would have all wait for
//! a program that is stopped while it has it.) The processor's own atomics do not know of it, as
//! with a device that reports `IBV_ATOMIC_HCA`.

use std::sync::atomic::Ordering::Acquire;

use soft_hca_verbs::cause::{Cause, MemoryRole};

use crate::engine::actor::Actor;
use crate::engine::check::CheckError;
use crate::engine::deferred::Deferred;
use crate::engine::locking::atomics_of;
use crate::engine::memory::SCATTER;
use crate::engine::request::{Requester, SendCompletion, too_long};
use crate::engine::request_error::RequestError;
use crate::engine::responder::Responder;
use crate::engine::segments::{Memory, Segment, SegmentList};
use crate::engine::{process_memory, strict_bytes, wc_status};
use crate::uapi::rxe::{AtomicWr, SendWqe};
use crate::uapi::verbs::{access, opcode};

/// Bytes that an atomic operation works on, and the alignment they need.
pub(super) const WORD: u32 = 8;

/// Checks whether the old value fits into a list of so many bytes.
pub(super) fn check_result_capacity(capacity: u32) -> Result<(), CheckError> {
    if capacity < WORD { Err(too_long(WORD.into(), capacity.into())) } else { Ok(()) }
}

/// Rights that the responder has to give.
fn right(kind: u32) -> u32 {
    if kind == opcode::ATOMIC_WRITE { access::REMOTE_WRITE } else { access::REMOTE_ATOMIC }
}

/// Executes an atomic operation.
pub(super) fn execute<'a>(
    actor: &Actor<'a>,
    requester: &Requester<'a>,
    wqe: &SendWqe<'_>,
    deferred: &mut Deferred,
) -> Result<(), RequestError> {
    let operation = match wqe.opcode {
        opcode::ATOMIC_WRITE => {
            AtomicWr { remote: wqe.remote(), compare_add: 0, swap: wqe.atomic_write_data() }
        }
        _ => wqe.atomic(),
    };
    let mut result = SegmentList::new();
    requester.check_read_depth()?;
    if wqe.opcode != opcode::ATOMIC_WRITE {
        let capacity = requester.gather(actor, wqe, SCATTER, &mut result)?;
        check_result_capacity(capacity)?;
        result = result.piece(0, WORD.into());
    }
    let mut responder = requester.responder(actor).ok_or(RequestError::NoResponse)?;
    actor.drain_staged(responder.qp.recv_cq.load(Acquire));
    let interrupt = |word| strict_bytes::interrupt(actor, requester.qp, responder.owner.proc, word);
    let old = match operate(actor, &responder, wqe.opcode, operation, interrupt) {
        Ok(old) => old,
        Err(stop) => {
            if let RequestError::Failed(error) = &stop {
                responder.refuse(actor, error.status(), deferred);
            }
            return Err(stop);
        }
    };
    if wqe.opcode != opcode::ATOMIC_WRITE {
        let bytes = old.to_ne_bytes();
        let ours = [process_memory::ours(&bytes)];
        let from = Memory::unregistered(actor.me, &ours);
        let to = result.of_process(requester.owner.proc);
        actor.copy(from, to).map_err(|fault| RequestError::unmoved(fault, MemoryRole::Local))?;
    }
    requester.count(Some(&responder), [(wqe.opcode, WORD, false)]);
    drop(responder);
    requester.complete(actor, [(SendCompletion::of(wqe, WORD), None)], None, deferred);
    Ok(())
}

/// The responder's part: checks, then reads and writes, in between calls `interrupt` with the place of the word.
/// Gives the old value.
pub(super) fn operate(
    actor: &Actor<'_>,
    responder: &Responder<'_>,
    kind: u32,
    operation: AtomicWr,
    interrupt: impl FnOnce(Segment),
) -> Result<u64, RequestError> {
    let is_write = kind == opcode::ATOMIC_WRITE;
    let address = operation.remote.addr;
    if address % u64::from(WORD) != 0 {
        let cause = Cause::Alignment { address };
        return Err(CheckError::new(wc_status::REMOTE_REFUSES, cause).into());
    }
    responder.check_resources()?;
    let (segment, region) =
        responder.reach(actor.arena, right(kind), operation.remote, WORD.into())?;
    let remote = Memory { proc: responder.owner.proc, segments: &[segment], regions: &[region] };
    let failed = |fault| RequestError::unmoved(fault, MemoryRole::Remote);
    let lock = atomics_of(actor.arena, responder.owner.proc).ok_or(RequestError::NoResponse)?;
    let _guard = actor.lock(lock).ok_or(RequestError::Busy)?;
    let old = if is_write {
        0
    } else {
        let mut old = [0; WORD as usize];
        let ours = [process_memory::ours_mut(&mut old)];
        let ours = Memory::unregistered(actor.me, &ours);
        actor.copy(remote, ours).map_err(failed)?;
        interrupt(segment);
        u64::from_ne_bytes(old)
    };
    let new = match kind {
        opcode::ATOMIC_FETCH_AND_ADD => old.wrapping_add(operation.compare_add),
        opcode::ATOMIC_CMP_AND_SWP if old != operation.compare_add => return Ok(old),
        _ => operation.swap,
    };
    let bytes = new.to_ne_bytes();
    let ours = [process_memory::ours(&bytes)];
    let ours = Memory::unregistered(actor.me, &ours);
    actor.copy(ours, remote).map_err(failed)?;
    Ok(old)
}
