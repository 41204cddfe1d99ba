//! Protection domains, memory regions and windows: `rxe_mr.c`, `rxe_mw.c`.

use std::sync::atomic::Ordering::{Acquire, Release};

use soft_hca_core::engine::Registered;
use soft_hca_core::errno::{Errno, Label, Refusal, Result, Values, ensure};
use soft_hca_core::system::page_bytes;
use soft_hca_core::uapi::uverbs::{answer, request};
use soft_hca_core::uapi::verbs::{AccessFlags, access, mw_type};

use crate::objects::MrObject;
use crate::uverbs::object::Kind;
use crate::uverbs::{Context, Object, Outcome};

/// The access that Soft-RoCE takes.
const SUPPORTED: u32 = access::LOCAL_WRITE
    | AccessFlags::REMOTE.bits()
    | access::MW_BIND
    | access::ZERO_BASED
    | access::ON_DEMAND
    | access::HUGETLB
    | access::RELAXED_ORDERING;
/// Flags that are ignored.
const IGNORED: AccessFlags = AccessFlags::OPTIONAL.difference(AccessFlags::RELAXED_ORDERING);
/// A known access right that no memory here has.
const LACKING: u32 = access::FLUSH_PERSISTENT;

pub(super) fn alloc_pd(
    cx: &mut Context<'_>,
    _: &request::AllocPd,
) -> Result<Outcome<answer::AllocPd>> {
    let pd = cx.fabric.new_pd(cx.file.device.limits.max_pd)?;
    Ok(answer::AllocPd { pd_handle: cx.file.handles.insert(Object::Pd { pd }) }.into())
}

pub(super) fn dealloc_pd(
    cx: &mut Context<'_>,
    request: &request::DeallocPd,
) -> Result<Outcome<()>> {
    let pd = cx.file.handles.pd(request.pd_handle)?;
    let handles = cx.file.handles.iter();
    let users = handles.filter(|(_, object)| object.uses_pd() == Some(pd));
    let users = users.filter_map(|(handle, object)| {
        Some(match object {
            Object::Qp { index, .. } => (Label::Qp, cx.fabric.qpn(index).ok()?.into()),
            Object::Srq { index, .. } => (Label::Srq, index as u64 + 1),
            Object::Mr { .. } => (Label::Mr, handle.into()),
            Object::Mw { .. } => (Label::Mw, handle.into()),
            Object::Ah { .. } => (Label::Ah, handle.into()),
            Object::Pd { .. } | Object::Cq { .. } => return None,
        })
    });
    Errno::EBUSY.because(Refusal::PdInUse).unless_unused(users)?;
    cx.file.handles.remove(request.pd_handle);
    cx.fabric.release_pd();
    Ok(().into())
}

/// The client has checked that the memory is there and may be accessed so, unless the region has
/// on-demand paging.
pub(super) fn reg_mr(
    cx: &mut Context<'_>,
    request: &request::RegMr,
) -> Result<Outcome<answer::RegMr>> {
    let request::RegMr { start, length, hca_va, .. } = *request;
    let flags = request.access_flags & !IGNORED.bits();
    let pd = cx.file.handles.pd(request.pd_handle)?;
    let writes_remotely = flags & AccessFlags::REMOTE_MODIFY.bits() != 0;
    // A kernel counts pages: nothing at the start of a page is none, elsewhere it is one.
    let is_no_page = length == 0 && start % page_bytes() as u64 == 0;
    let is_in_memory = start.checked_add(length).is_some();
    let is_implicit = flags & access::ON_DEMAND != 0 && (start, length) == (0, u64::MAX);
    let is_supported = flags & !SUPPORTED == 0;
    let may_write = !writes_remotely || flags & access::LOCAL_WRITE != 0;
    ensure(!is_no_page, Errno::EINVAL.because(Refusal::EmptyRegion))?;
    ensure(is_in_memory, Errno::EINVAL.because(Refusal::EndlessRegion))?;
    ensure(
        is_supported,
        Errno::EINVAL
            .because(Refusal::AccessFlag)
            .with(Values::of([(Label::Access, (flags & !SUPPORTED).into())])),
    )?;
    ensure(!is_implicit, Errno::EINVAL.because(Refusal::ImplicitOdp))?;
    let is_lacking = flags & LACKING != 0;
    ensure(!is_lacking, Errno::EOPNOTSUPP.because(Refusal::PersistentMemory))?;
    ensure(may_write, Errno::EINVAL.because(Refusal::NeedsLocalWrite))?;
    let index = cx.fabric.take_mr(MrObject { is_window: false, key: 0 })?;
    let key = cx.fabric.new_key(index);
    let mr = &cx.fabric.arena.mrs[index];
    mr.proc.store(cx.file.proc as u32, Release);
    mr.pd.store(pd, Release);
    mr.access.store(flags, Release);
    mr.addr.store(start, Release);
    mr.length.store(length, Release);
    mr.iova.store(if flags & access::ZERO_BASED != 0 { 0 } else { hca_va }, Release);
    let region = Registered { proc: cx.file.proc, addr: start, length, access: flags };
    cx.fabric.registry.register(key, region);
    mr.live.store(key, Release);
    let is_remote = flags & AccessFlags::REMOTE.bits() != 0;
    let mr_handle = cx.file.handles.insert(Object::Mr { index, pd });
    Ok(answer::RegMr { mr_handle, lkey: key, rkey: if is_remote { key } else { 0 } }.into())
}

pub(super) fn dereg_mr(cx: &mut Context<'_>, request: &request::DeregMr) -> Result<Outcome<()>> {
    let index = cx.file.handles.index(request.mr_handle, Kind::Mr)?;
    // A region with a window bound to it stays: IBTA 10.6.7.2.6, with the error of `rxe_dereg_mr`.
    let is_bound = cx.fabric.arena.mrs[index].bound.load(Acquire) != 0;
    ensure(!is_bound, Errno::EINVAL.because(Refusal::MrInUse))?;
    cx.file.handles.remove(request.mr_handle);
    let retired = cx.fabric.release_mr(index);
    Ok(Outcome { quiesce: cx.fabric.quiesce(cx.file.proc, retired), ..Outcome::from(()) })
}

pub(super) fn alloc_mw(
    cx: &mut Context<'_>,
    request: &request::AllocMw,
) -> Result<Outcome<answer::AllocMw>> {
    let pd = cx.file.handles.pd(request.pd_handle)?;
    let kind = u32::from(request.mw_type);
    let is_known = matches!(kind, mw_type::TYPE_1 | mw_type::TYPE_2);
    ensure(is_known, Errno::EINVAL.because(Refusal::WindowType))?;
    let index = cx.fabric.take_mr(MrObject { is_window: true, key: 0 })?;
    let key = cx.fabric.new_key(index);
    let mw = &cx.fabric.arena.mrs[index];
    mw.proc.store(cx.file.proc as u32, Release);
    mw.pd.store(pd, Release);
    mw.kind.store(kind, Release);
    mw.live.store(key, Release);
    let mw_handle = cx.file.handles.insert(Object::Mw { index, pd });
    Ok(answer::AllocMw { mw_handle, rkey: key }.into())
}

pub(super) fn dealloc_mw(
    cx: &mut Context<'_>,
    request: &request::DeallocMw,
) -> Result<Outcome<()>> {
    let index = cx.file.handles.index(request.mw_handle, Kind::Mw)?;
    cx.file.handles.remove(request.mw_handle);
    cx.fabric.release_mr(index);
    Ok(Outcome { quiesce: cx.fabric.quiesce(cx.file.proc, None), ..Outcome::from(()) })
}
