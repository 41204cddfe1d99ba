//! Why a work request fails, found out to be traced: the same checks once more, one by one,
//! with the values that they compare.

use std::sync::atomic::Ordering::Acquire;

use crate::arena::{Arena, Qp};
use crate::engine::cause::{Cause, Peer, Place, Senseless};
use crate::engine::memory::{GATHER, Owner, SCATTER, Wanted};
use crate::engine::request::Requester;
use crate::engine::responder::{ANSWERED, Responder};
use crate::engine::{Actor, Route, wc_status};
use crate::uapi::rxe::{BindWr, MAX_SGE, RemoteWr, SendWqe};
use crate::uapi::verbs::mw_type::TYPE_2;
use crate::uapi::verbs::{access, opcode, qp_type, send_flag, state, status};

impl Owner {
    /// Why memory may not be used.
    #[cold]
    pub(super) fn why_not(&self, arena: &Arena, wanted: Wanted, place: Place) -> Cause {
        let key = wanted.key;
        let Some(mr) = arena.mr(key) else { return Cause::Key { place, key } };
        if mr.proc.load(Acquire) as usize != self.proc {
            return Cause::Key { place, key };
        }
        if mr.pd.load(Acquire) != self.pd {
            return Cause::Domain { place, key };
        }
        let allowed = mr.access.load(Acquire);
        if allowed & wanted.access != wanted.access {
            return Cause::Access { place, key, needed: wanted.access, allowed };
        }
        let kind = mr.kind.load(Acquire);
        if kind != 0
            && (place != Place::Remote || kind == 2 && mr.bound_qpn.load(Acquire) != self.qpn)
        {
            return Cause::Window { place, key };
        }
        let region = (mr.iova.load(Acquire), mr.length.load(Acquire));
        Cause::Bounds { place, key, access: (wanted.addr, wanted.length), region }
    }
}

impl Responder<'_> {
    /// Why memory that the peer names is not reached.
    #[cold]
    pub(super) fn why_not(
        &self,
        arena: &Arena,
        right: u32,
        remote: RemoteWr,
        length: u64,
    ) -> Cause {
        let RemoteWr { addr, rkey } = remote;
        let wanted = Wanted { key: rkey, addr, length, access: right };
        self.why_refused(right).unwrap_or_else(|| self.owner.why_not(arena, wanted, Place::Remote))
    }

    /// Why the queue pair itself refuses a request that needs these rights, whatever memory it names.
    #[cold]
    pub(super) fn why_refused(&self, right: u32) -> Option<Cause> {
        let allowed = self.qp.access.load(Acquire);
        if allowed & right != right {
            return Some(Cause::Access { place: Place::Remote, key: 0, needed: right, allowed });
        }
        let lacks_resources = right & ANSWERED != 0 && !self.has_resources();
        lacks_resources.then_some(Cause::Malformed(Senseless::NoReadsServed))
    }
}

impl Actor<'_> {
    /// Why a request fails with a status on its own side.
    #[cold]
    pub(super) fn why(
        &self,
        requester: &Requester<'_>,
        wqe: &SendWqe<'_>,
        failed: u32,
    ) -> Option<Cause> {
        match failed {
            wc_status::LOCAL_MEMORY => Some(self.why_local(requester, wqe)),
            wc_status::MALFORMED => Some(Cause::Malformed(self.why_malformed(requester, wqe))),
            wc_status::TOO_LONG => Some(self.why_long(requester, wqe)),
            status::WR_FLUSH_ERR => Some(Cause::Flushed),
            _ => None,
        }
    }

    fn why_local(&self, requester: &Requester<'_>, wqe: &SendWqe<'_>) -> Cause {
        let is_written = matches!(
            wqe.opcode,
            opcode::RDMA_READ | opcode::ATOMIC_CMP_AND_SWP | opcode::ATOMIC_FETCH_AND_ADD
        );
        let access = if is_written { SCATTER } else { GATHER };
        let count = (wqe.num_sge as usize).min(wqe.room()).min(MAX_SGE);
        let elements = (0..count).map(|index| wqe.sge(index)).filter(|sge| sge.length > 0);
        for sge in elements {
            if requester.owner.local(self.arena, sge, access).is_none() {
                let (addr, length) = (sge.addr, sge.length.into());
                let wanted = Wanted { key: sge.lkey, addr, length, access };
                return requester.owner.why_not(self.arena, wanted, Place::Local);
            }
        }
        Cause::Unmapped { place: Place::Local }
    }

    fn why_malformed(&self, requester: &Requester<'_>, wqe: &SendWqe<'_>) -> Senseless {
        let may = (requester.qp.max_send_sge.load(Acquire) as usize).min(wqe.room()).min(MAX_SGE);
        let is_inline = wqe.flags & send_flag::INLINE != 0;
        let has_list = !matches!(wqe.opcode, opcode::FLUSH | opcode::ATOMIC_WRITE);
        if has_list && !is_inline && wqe.num_sge as usize > may {
            Senseless::Elements
        } else if opcode::has_response(wqe.opcode)
            && requester.kind == qp_type::RC
            && requester.check_read_depth().is_err()
        {
            Senseless::NoReads
        } else if requester.kind == qp_type::UD
            && matches!(wqe.opcode, opcode::SEND | opcode::SEND_WITH_IMM)
        {
            Senseless::AddressHandle
        } else {
            Senseless::Opcode
        }
    }

    fn why_long(&self, requester: &Requester<'_>, wqe: &SendWqe<'_>) -> Cause {
        if wqe.flags & send_flag::INLINE != 0 || wqe.num_sge == 0 {
            let limit = requester.qp.max_inline.load(Acquire).into();
            return Cause::Long { length: wqe.length().into(), limit };
        }
        let count = (wqe.num_sge as usize).min(wqe.room()).min(MAX_SGE);
        let length = (0..count).map(|index| u64::from(wqe.sge(index).length)).sum();
        Cause::Long { length, limit: wc_status::MAX_MESSAGE }
    }

    /// Why a window is not bound.
    #[cold]
    pub(super) fn why_not_bound(&self, owner: &Owner, wanted: BindWr) -> Cause {
        let Some(mw) = self.window(owner, wanted.rkey) else {
            return Cause::Malformed(Senseless::NoWindow);
        };
        let is_free = mw.kind.load(Acquire) != TYPE_2 || mw.bound.load(Acquire) == 0;
        if wanted.length == 0 || !is_free {
            return Cause::Malformed(Senseless::WindowBound);
        }
        let (place, key) = (Place::Bound, wanted.lkey);
        let is_region = |mr: &&crate::arena::Mr| {
            mr.proc.load(Acquire) as usize == owner.proc && mr.kind.load(Acquire) == 0
        };
        let Some(region) = self.arena.mr(key).filter(is_region) else {
            return Cause::Key { place, key };
        };
        if region.pd.load(Acquire) != owner.pd {
            return Cause::Domain { place, key };
        }
        let allowed = region.access.load(Acquire);
        let writes = wanted.access & access::REMOTE_MODIFY != 0;
        let needed = access::MW_BIND | if writes { access::LOCAL_WRITE } else { 0 };
        if allowed & needed != needed {
            return Cause::Access { place, key, needed, allowed };
        }
        let region = (region.iova.load(Acquire), region.length.load(Acquire));
        let offset = wanted.addr.checked_sub(region.0);
        let end = offset.and_then(|offset| offset.checked_add(wanted.length));
        if end.is_none_or(|end| end > region.1) {
            return Cause::Bounds { place, key, access: (wanted.addr, wanted.length), region };
        }
        Cause::Malformed(Senseless::WindowBase)
    }

    /// Why the oldest request to another host fails: its peer says no more than a status.
    #[cold]
    pub(super) fn why_remote(
        &self,
        requester: &Requester<'_>,
        wqe: &SendWqe<'_>,
        failed: u32,
    ) -> Option<Cause> {
        let qp: &Qp = requester.qp;
        let refused = Some(Cause::Refused { status: failed });
        match failed {
            status::RETRY_EXC_ERR => Some(Cause::NoResponse {
                waited: 0,
                timeout: qp.timeout.load(Acquire),
                retries: qp.retry_cnt.load(Acquire),
                peer: Peer::Remote,
            }),
            status::RNR_RETRY_EXC_ERR
            | status::BAD_RESP_ERR
            | status::REM_INV_REQ_ERR
            | status::REM_ACCESS_ERR
            | status::REM_OP_ERR => refused,
            local => self.why(requester, wqe, local),
        }
    }

    /// What is known of a peer that does not answer.
    #[cold]
    pub(super) fn why_silent(&self, requester: &Requester<'_>) -> Peer {
        let qp: &Qp = requester.qp;
        if matches!(Route::load(&qp.route), Some(Route::Remote | Route::Everywhere)) {
            return Peer::Remote;
        }
        let qpn = qp.dest_qpn.load(Acquire);
        let Some(peer) = self.local_peer(qp).filter(|peer| peer.live.load(Acquire) == qpn) else {
            return Peer::Gone;
        };
        let current = peer.state.load(Acquire);
        if !(state::RTR..=state::SQE).contains(&current) {
            return Peer::State(current);
        }
        let dest = peer.dest_qpn.load(Acquire);
        if dest != requester.qpn {
            return Peer::Elsewhere(dest);
        }
        let (expected, sent) = (peer.rq_psn.load(Acquire), qp.sq_psn.load(Acquire));
        if requester.kind == qp_type::RC && expected != sent {
            return Peer::Psn(expected, sent);
        }
        Peer::Unreachable
    }
}
