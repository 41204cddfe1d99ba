//! Requests about memory windows: BIND_MW and LOCAL_INV. `rxe_mw.c`.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use soft_hca_verbs::cause::{Cause, Malformed, MemoryRole};

use crate::arena::{Arena, KEY_VARIANT, Mr};
use crate::engine::actor::Actor;
use crate::engine::check::CheckError;
use crate::engine::deferred::Deferred;
use crate::engine::memory::{Owner, bounds};
use crate::engine::request::{Requester, SendCompletion};
use crate::engine::request_error::RequestError;
use crate::engine::{wc_status, window};
use crate::uapi::rxe::{BindWr, SendWqe};
use crate::uapi::verbs::mw_type::TYPE_2;
use crate::uapi::verbs::{AccessFlags, access};

/// LOCAL_INV.
pub(super) fn local_invalidate<'a>(
    actor: &Actor<'a>,
    requester: &Requester<'a>,
    wqe: &SendWqe<'_>,
    deferred: &mut Deferred,
) -> Result<(), RequestError> {
    if !window::can_invalidate(actor.arena, &requester.owner, wqe.imm) {
        let cause = Cause::Window { memory: MemoryRole::Local, key: wqe.imm };
        return Err(CheckError::new(wc_status::INVALIDATE, cause).into());
    }
    window::invalidate(actor.arena, &requester.owner, wqe.imm);
    // Requests that came in before and use the window are done when this lock is free.
    drop(actor.lock(&requester.qp.recv_lock).ok_or(RequestError::Busy)?);
    requester.complete(actor, [(SendCompletion::of(wqe, 0), None)], None, deferred);
    Ok(())
}

/// BIND_MW: of type 1 as `ibv_bind_mw` posts it, of type 2 as a work request of the program.
pub(super) fn bind<'a>(
    actor: &Actor<'a>,
    requester: &Requester<'a>,
    wqe: &SendWqe<'_>,
    deferred: &mut Deferred,
) -> Result<(), RequestError> {
    let request = wqe.bind();
    let malformed = |why| CheckError::memory(MemoryRole::Bound, Cause::Malformed { why });
    let mw = window::find(actor.arena, &requester.owner, request.rkey);
    let mw = mw.ok_or_else(|| malformed(Malformed::Window))?;
    let kind = mw.kind.load(Acquire);
    // Of type 2 it has to be free, and is not freed by binding it to nothing.
    if kind == TYPE_2 && (request.length == 0 || mw.bound.load(Acquire) != 0) {
        return Err(malformed(Malformed::WindowBound).into());
    }
    let region = match request.length {
        0 => None,
        _ => Some(region_to_bind(actor.arena, &requester.owner, request, kind)?),
    };
    window::unbind(actor.arena, mw);
    if let Some((index, region)) = region {
        let offset = request.addr.wrapping_sub(region.iova.load(Acquire));
        let is_zero_based = request.access & access::ZERO_BASED != 0;
        mw.addr.store(region.addr.load(Acquire).wrapping_add(offset), Release);
        mw.length.store(request.length, Release);
        mw.iova.store(if is_zero_based { 0 } else { request.addr }, Release);
        mw.bound_qpn.store(if kind == TYPE_2 { requester.qpn } else { 0 }, Release);
        region.bound.fetch_add(1, AcqRel);
        mw.bound.store(index as u32 + 1, Release);
    }
    // Of the new key the lowest byte is the program's choice (IBTA 10.6.7.2).
    let new_key = request.rkey & !KEY_VARIANT | request.new_rkey & KEY_VARIANT;
    mw.live.store(new_key, Release);
    if region.is_some() {
        mw.access.store(request.access & AccessFlags::REMOTE.bits(), Release);
    }
    drop(actor.lock(&requester.qp.recv_lock).ok_or(RequestError::Busy)?);
    requester.complete(actor, [(SendCompletion::of(wqe, 0), None)], None, deferred);
    Ok(())
}

/// The region that a window is to be bound to, with its index, if that is allowed.
fn region_to_bind<'a>(
    arena: &'a Arena,
    owner: &Owner,
    request: BindWr,
    kind: u32,
) -> Result<(usize, &'a Mr), CheckError> {
    let (memory, key) = (MemoryRole::Bound, request.lkey);
    let refused = |cause| CheckError::memory(memory, cause);
    let is_region =
        |mr: &&Mr| mr.proc.load(Acquire) as usize == owner.proc && mr.kind.load(Acquire) == 0;
    let region = arena.key_index(key).zip(arena.mr(key).filter(is_region));
    let (index, region) = region.ok_or_else(|| refused(Cause::Key { memory, key }))?;
    if region.pd.load(Acquire) != owner.pd {
        return Err(refused(Cause::ProtectionDomain { memory, key }));
    }
    let writes = request.access & AccessFlags::REMOTE_MODIFY.bits() != 0;
    let needed = access::MW_BIND | if writes { access::LOCAL_WRITE } else { 0 };
    let allowed = region.access.load(Acquire);
    if allowed & needed != needed {
        let [needed, allowed] = [needed, allowed].map(AccessFlags::from_bits_retain);
        return Err(refused(Cause::Access { memory, key, needed, allowed }));
    }
    let is_zero_based = allowed & access::ZERO_BASED != 0
        || kind != TYPE_2 && request.access & access::ZERO_BASED != 0;
    if is_zero_based {
        return Err(refused(Cause::Malformed { why: Malformed::WindowBase }));
    }
    let (start, length) = (region.iova.load(Acquire), region.length.load(Acquire));
    let offset = request.addr.checked_sub(start);
    let end = offset.and_then(|offset| offset.checked_add(request.length));
    if end.is_none_or(|end| end > length) {
        let (access, region) = ((request.addr, request.length), (start, length));
        return Err(refused(bounds(memory, key, access, region)));
    }
    Ok((index, region))
}
