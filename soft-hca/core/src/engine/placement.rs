//! RDMA FLUSH: IBTA volume 1, annex A19 (memory placement extensions); `rxe_resp.c`, `process_flush`.
//!
//! When a request that writes is done, its bytes are in the responder's memory, where every processor
//! and every device sees them: global visibility needs nothing but a fence. Persistence is never
//! given, for no region allows it.

use std::sync::atomic::Ordering::{Acquire, SeqCst};
use std::sync::atomic::fence;

use soft_hca_verbs::cause::{Cause, Malformed};

use crate::arena::Arena;
use crate::engine::check::CheckError;
use crate::engine::deferred::Deferred;
use crate::engine::memory::Wanted;
use crate::engine::request::{RequestError, Requester, SendCompletion};
use crate::engine::responder::Responder;
use crate::engine::{Actor, wc_status};
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

/// What a flush names. Of a whole region it names the key only. Unlike a write's, the key counts
/// also where there are no bytes (oA19-13).
fn wanted(arena: &Arena, flush: FlushWr, rights: u32) -> Wanted {
    let key = flush.remote.rkey;
    let (addr, length) = match u32::from(flush.selectivity) {
        selectivity::RANGE => (flush.remote.addr, flush.length.into()),
        _ => arena.mr(key).map_or((0, 0), |mr| (mr.iova.load(Acquire), mr.length.load(Acquire))),
    };
    Wanted { key, addr, length, access: rights }
}

impl<'a> Actor<'a> {
    /// Executes an RDMA FLUSH.
    pub(super) fn flush_memory(
        &self,
        requester: &Requester<'a>,
        wqe: &SendWqe<'_>,
        deferred: &mut Deferred,
    ) -> Result<(), RequestError> {
        requester.check_read_depth()?;
        let flush = wqe.flush();
        let mut responder = requester.responder(self).ok_or(RequestError::NoResponse)?;
        self.settle(responder.qp.recv_cq.load(Acquire));
        if let Err(error) = self.serve_flush(&responder, flush) {
            responder.refuse(self, error.status(), deferred);
            return Err(error.into());
        }
        requester.count(Some(&responder), [(wqe.opcode, 0, false)]);
        drop(responder);
        requester.complete(self, [(SendCompletion::of(wqe, 0), None)], None, deferred);
        Ok(())
    }

    /// The responder's part of a flush.
    pub(super) fn serve_flush(
        &self,
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
        responder.owner.remote(self.arena, wanted(self.arena, flush, rights))?;
        fence(SeqCst);
        Ok(())
    }
}
