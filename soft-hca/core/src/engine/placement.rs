//! RDMA FLUSH: IBTA volume 1, annex A19 (memory placement extensions); `rxe_resp.c`, `process_flush`.
//!
//! When a request that writes is done, its bytes are in the responder's memory, where every processor
//! and every device sees them: global visibility needs nothing but a fence. Persistence is never
//! given, for no region allows it.

use std::sync::atomic::Ordering::{Acquire, SeqCst};
use std::sync::atomic::fence;

use soft_hca_verbs::cause::{Cause, Malformed};

use crate::arena::Arena;
use crate::engine::actor::Actor;
use crate::engine::check::CheckError;
use crate::engine::deferred::Deferred;
use crate::engine::memory::KeyedAccess;
use crate::engine::request::{Requester, SendCompletion};
use crate::engine::request_error::RequestError;
use crate::engine::responder::Responder;
use crate::engine::wc_status;
use crate::uapi::rxe::{FlushWr, SendWqe};
use crate::uapi::verbs::{access, placement, selectivity};

/// The rights that a flush needs; `None` if it guarantees nothing, or what is not known.
fn rights(flush: FlushWr) -> Option<u32> {
    if u32::from(flush.selectivity) > selectivity::MR {
        return None;
    }
    const BOTH: u32 = placement::GLOBAL | placement::PERSISTENT;
    match u32::from(flush.placement) {
        placement::GLOBAL => Some(access::FLUSH_GLOBAL),
        placement::PERSISTENT => Some(access::FLUSH_PERSISTENT),
        BOTH => Some(access::FLUSH_GLOBAL | access::FLUSH_PERSISTENT),
        _ => None,
    }
}

/// Whether its range is longer than any message may be.
fn is_too_long(flush: FlushWr) -> bool {
    u32::from(flush.selectivity) == selectivity::RANGE
        && u64::from(flush.length) > wc_status::MAX_MESSAGE
}

/// The memory that a flush names; of a whole region it names the key only. Unlike a write's, the key counts
/// also where there are no bytes (oA19-13).
fn access_of(arena: &Arena, flush: FlushWr, rights: u32) -> KeyedAccess {
    let key = flush.remote.rkey;
    let (addr, length) = match u32::from(flush.selectivity) {
        selectivity::RANGE => (flush.remote.addr, flush.length.into()),
        _ => arena.mr(key).map_or((0, 0), |mr| (mr.iova.load(Acquire), mr.length.load(Acquire))),
    };
    KeyedAccess { key, addr, length, access: rights }
}

/// Executes an RDMA FLUSH.
pub(super) fn execute<'a>(
    actor: &Actor<'a>,
    requester: &Requester<'a>,
    wqe: &SendWqe<'_>,
    deferred: &mut Deferred,
) -> Result<(), RequestError> {
    requester.check_read_depth()?;
    let flush = wqe.flush();
    let mut responder = requester.responder(actor).ok_or(RequestError::NoResponse)?;
    actor.drain_staged(responder.qp.recv_cq.load(Acquire));
    if let Err(error) = serve(actor.arena, &responder, flush) {
        responder.refuse(actor, error.status(), deferred);
        return Err(error.into());
    }
    requester.count(Some(&responder), [(wqe.opcode, 0, false)]);
    drop(responder);
    requester.complete(actor, [(SendCompletion::of(wqe, 0), None)], None, deferred);
    Ok(())
}

/// The responder's part of a flush.
pub(super) fn serve(
    arena: &Arena,
    responder: &Responder<'_>,
    flush: FlushWr,
) -> Result<(), CheckError> {
    let refused = |cause| CheckError::new(wc_status::REMOTE_REFUSES, cause);
    let unknown = || refused(Cause::Malformed { why: Malformed::Placement });
    let rights = rights(flush).ok_or_else(unknown)?;
    responder.allow(rights)?;
    if is_too_long(flush) {
        let (length, limit) = (flush.length.into(), wc_status::MAX_MESSAGE);
        return Err(refused(Cause::MessageTooLong { length, limit }));
    }
    responder.owner.remote(arena, access_of(arena, flush, rights))?;
    fence(SeqCst);
    Ok(())
}
