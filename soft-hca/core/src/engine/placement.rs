//! RDMA FLUSH: IBTA volume 1, annex A19 (memory placement extensions); `rxe_resp.c`, `process_flush`.
//!
//! When a request that writes is done, its bytes are in the responder's memory, where every processor
//! and every device sees them: global visibility needs nothing but a fence. Persistence is never
//! given, for no region allows it.

use std::sync::atomic::Ordering::{Acquire, SeqCst};
use std::sync::atomic::fence;

use crate::arena::Arena;
use crate::engine::cause::{Cause, Place, Senseless};
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
        if let Err(status) = self.serve_flush(&responder, flush) {
            if self.is_traced() {
                deferred.cause = Some(self.why_no_flush(&responder, flush));
            }
            responder.refuse(self, status, deferred);
            return Err(RequestError::Failed(status));
        }
        requester.count_packets(Some(&responder), 0);
        drop(responder);
        requester.complete(self, [(SendCompletion::of(wqe, 0), None)], deferred);
        Ok(())
    }

    /// The responder's part of a flush. Else the status that the peer gets.
    pub(super) fn serve_flush(&self, responder: &Responder<'_>, flush: FlushWr) -> Result<(), u32> {
        let rights = rights(flush).ok_or(wc_status::REMOTE_REFUSES)?;
        responder.allow(rights)?;
        if is_too_long(flush) {
            return Err(wc_status::REMOTE_REFUSES);
        }
        let wanted = wanted(self.arena, flush, rights);
        responder.owner.remote(self.arena, wanted).ok_or(wc_status::REMOTE_MEMORY)?;
        fence(SeqCst);
        Ok(())
    }

    /// Why the responder refuses.
    #[cold]
    fn why_no_flush(&self, responder: &Responder<'_>, flush: FlushWr) -> Cause {
        let Some(rights) = rights(flush) else {
            return Cause::Malformed(Senseless::Placement);
        };
        let wanted = wanted(self.arena, flush, rights);
        if let Some(refused) = responder.why_refused(rights) {
            refused
        } else if is_too_long(flush) {
            Cause::Long { length: wanted.length, limit: wc_status::MAX_MESSAGE }
        } else {
            responder.owner.why_not(self.arena, wanted, Place::Remote)
        }
    }
}
