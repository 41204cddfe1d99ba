//! Locks that the daemon takes before it executes a request.

use std::sync::atomic::Ordering::Acquire;

use crate::arena::Guard;
use crate::engine::actor::Actor;
use crate::engine::locking::{atomics_of, lock_cq};
use crate::engine::request::Requester;
use crate::engine::responder;
use crate::engine::route::local_peer;
use crate::uapi::verbs::opcode;

/// As many locks as a request can need.
pub(super) type RequestLocks<'a> = [Option<Guard<'a>>; 5];

/// Has the daemon take what the request at the head of a send queue may need, so that nothing of it
/// fails halfway for want of a lock. `None` if somebody else has one of them. (Programs take locks when
/// they need them.)
#[inline]
pub(super) fn take_ahead<'a>(
    actor: &Actor<'a>,
    requester: &Requester<'a>,
) -> Option<Option<RequestLocks<'a>>> {
    if actor.is_daemon() { take(actor, requester).map(Some) } else { Some(None) }
}

fn take<'a>(actor: &Actor<'a>, requester: &Requester<'a>) -> Option<RequestLocks<'a>> {
    let send_cq = lock_cq(actor, requester.send_cq)?;
    let kind = requester.wqe(requester.head()).opcode;
    if matches!(kind, opcode::LOCAL_INV | opcode::BIND_MW) {
        // Both wait for the requests of others that use the window.
        return Some([send_cq, Some(actor.lock(&requester.qp.recv_lock)?), None, None, None]);
    }
    let Some(peer) = local_peer(actor.arena, requester.qp) else {
        return Some([send_cq, None, None, None, None]);
    };
    let [recv, recv_cq, srq] = responder::lock_ahead(actor, peer)?;
    let is_atomic = matches!(
        kind,
        opcode::ATOMIC_CMP_AND_SWP | opcode::ATOMIC_FETCH_AND_ADD | opcode::ATOMIC_WRITE
    );
    let atomics = match atomics_of(actor.arena, peer.proc.load(Acquire) as usize) {
        Some(lock) if is_atomic => Some(actor.lock(lock)?),
        _ => None,
    };
    Some([send_cq, recv, recv_cq, srq, atomics])
}
