//! Memory windows: binding and invalidating. `rxe_mw.c`.
//!
//! A window is bound while its `bound` is not 0. A window of type 2 belongs to the queue pair that
//! has bound it. Regions that programs have registered cannot be invalidated.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use soft_hca_verbs::cause::{Cause, Malformed, MemoryRole};

use crate::arena::{KEY_VARIANT, Mr};
use crate::engine::check::CheckError;
use crate::engine::deferred::Deferred;
use crate::engine::memory::{Owner, bounds};
use crate::engine::request::{RequestError, Requester, SendCompletion};
use crate::engine::{Actor, wc_status};
use crate::uapi::rxe::{BindWr, SendWqe};
use crate::uapi::verbs::mw_type::{TYPE_1, TYPE_2};
use crate::uapi::verbs::{AccessFlags, access};

impl<'a> Actor<'a> {
    /// The window with this key, if the owner may do something with it.
    pub(super) fn window(&self, owner: &Owner, key: u32) -> Option<&'a Mr> {
        let mw = self.arena.mr(key)?;
        let is_ours =
            mw.proc.load(Acquire) as usize == owner.proc && mw.pd.load(Acquire) == owner.pd;
        (is_ours && matches!(mw.kind.load(Acquire), TYPE_1 | TYPE_2)).then_some(mw)
    }

    /// Whether a queue pair may invalidate this key: a window of type 2 that it has bound.
    pub(super) fn can_invalidate(&self, owner: &Owner, key: u32) -> bool {
        self.window(owner, key).is_some_and(|mw| {
            mw.kind.load(Acquire) == TYPE_2
                && mw.bound.load(Acquire) != 0
                && mw.bound_qpn.load(Acquire) == owner.qpn
        })
    }

    /// Invalidates a key, if the queue pair may.
    pub(super) fn invalidate(&self, owner: &Owner, key: u32) {
        if self.can_invalidate(owner, key) {
            if let Some(mw) = self.window(owner, key) {
                self.unbind(mw);
            }
        }
    }

    /// Makes a window useless. The access goes first, for others may be looking.
    fn unbind(&self, mw: &Mr) {
        mw.access.store(0, Release);
        mw.bound_qpn.store(0, Release);
        mw.length.store(0, Release);
        let region = (mw.bound.swap(0, AcqRel) as usize).checked_sub(1);
        if let Some(region) = region.and_then(|region| self.arena.mrs.get(region)) {
            let _ = region.bound.fetch_update(AcqRel, Acquire, |bound| bound.checked_sub(1));
        }
    }

    /// LOCAL_INV.
    pub(super) fn local_invalidate(
        &self,
        requester: &Requester<'a>,
        wqe: &SendWqe<'_>,
        deferred: &mut Deferred,
    ) -> Result<(), RequestError> {
        if !self.can_invalidate(&requester.owner, wqe.imm) {
            let cause = Cause::Window { memory: MemoryRole::Local, key: wqe.imm };
            return Err(CheckError::new(wc_status::INVALIDATE, cause).into());
        }
        self.invalidate(&requester.owner, wqe.imm);
        // Requests that came in before and use the window are done when this lock is free.
        drop(self.lock(&requester.qp.recv_lock).ok_or(RequestError::Busy)?);
        requester.complete(self, [(SendCompletion::of(wqe, 0), None)], None, deferred);
        Ok(())
    }

    /// BIND_MW: of type 1 as `ibv_bind_mw` posts it, of type 2 as a work request of the program.
    pub(super) fn bind_window(
        &self,
        requester: &Requester<'a>,
        wqe: &SendWqe<'_>,
        deferred: &mut Deferred,
    ) -> Result<(), RequestError> {
        let wanted = wqe.bind();
        let malformed = |why| CheckError::memory(MemoryRole::Bound, Cause::Malformed { why });
        let mw = self.window(&requester.owner, wanted.rkey);
        let mw = mw.ok_or_else(|| malformed(Malformed::Window))?;
        let kind = mw.kind.load(Acquire);
        // Of type 2 it has to be free, and is not freed by binding it to nothing.
        if kind == TYPE_2 && (wanted.length == 0 || mw.bound.load(Acquire) != 0) {
            return Err(malformed(Malformed::WindowBound).into());
        }
        let region = match wanted.length {
            0 => None,
            _ => Some(self.region_to_bind(&requester.owner, wanted, kind)?),
        };
        self.unbind(mw);
        if let Some((index, region)) = region {
            let offset = wanted.addr.wrapping_sub(region.iova.load(Acquire));
            let is_zero_based = wanted.access & access::ZERO_BASED != 0;
            mw.addr.store(region.addr.load(Acquire).wrapping_add(offset), Release);
            mw.length.store(wanted.length, Release);
            mw.iova.store(if is_zero_based { 0 } else { wanted.addr }, Release);
            mw.bound_qpn.store(if kind == TYPE_2 { requester.qpn } else { 0 }, Release);
            region.bound.fetch_add(1, AcqRel);
            mw.bound.store(index as u32 + 1, Release);
        }
        // Of the new key the lowest byte is the program's choice (IBTA 10.6.7.2).
        let new_key = wanted.rkey & !KEY_VARIANT | wanted.new_rkey & KEY_VARIANT;
        mw.live.store(new_key, Release);
        if region.is_some() {
            mw.access.store(wanted.access & AccessFlags::REMOTE.bits(), Release);
        }
        drop(self.lock(&requester.qp.recv_lock).ok_or(RequestError::Busy)?);
        requester.complete(self, [(SendCompletion::of(wqe, 0), None)], None, deferred);
        Ok(())
    }

    /// The region that a window is to be bound to, with its index, if that is allowed.
    fn region_to_bind(
        &self,
        owner: &Owner,
        wanted: BindWr,
        kind: u32,
    ) -> Result<(usize, &'a Mr), CheckError> {
        let (memory, key) = (MemoryRole::Bound, wanted.lkey);
        let refused = |cause| CheckError::memory(memory, cause);
        let is_region =
            |mr: &&Mr| mr.proc.load(Acquire) as usize == owner.proc && mr.kind.load(Acquire) == 0;
        let region = self.arena.key_index(key).zip(self.arena.mr(key).filter(is_region));
        let (index, region) = region.ok_or_else(|| refused(Cause::Key { memory, key }))?;
        if region.pd.load(Acquire) != owner.pd {
            return Err(refused(Cause::ProtectionDomain { memory, key }));
        }
        let writes = wanted.access & AccessFlags::REMOTE_MODIFY.bits() != 0;
        let needed = access::MW_BIND | if writes { access::LOCAL_WRITE } else { 0 };
        let allowed = region.access.load(Acquire);
        if allowed & needed != needed {
            let [needed, allowed] = [needed, allowed].map(AccessFlags::from_bits_retain);
            return Err(refused(Cause::Access { memory, key, needed, allowed }));
        }
        let is_zero_based = allowed & access::ZERO_BASED != 0
            || kind != TYPE_2 && wanted.access & access::ZERO_BASED != 0;
        if is_zero_based {
            return Err(refused(Cause::Malformed { why: Malformed::WindowBase }));
        }
        let (start, length) = (region.iova.load(Acquire), region.length.load(Acquire));
        let offset = wanted.addr.checked_sub(start);
        let end = offset.and_then(|offset| offset.checked_add(wanted.length));
        if end.is_none_or(|end| end > length) {
            let (access, region) = ((wanted.addr, wanted.length), (start, length));
            return Err(refused(bounds(memory, key, access, region)));
        }
        Ok((index, region))
    }
}
