//! Protection domains, memory regions and windows: `rxe_mr.c`, `rxe_mw.c`.

use std::sync::atomic::Ordering::{Acquire, Release};

use crate::arena::PAGE;
use crate::daemon::uverbs::object::Kind;
use crate::daemon::uverbs::{Context, Object, Outcome};
use crate::errno::{Errno, Result};
use crate::uapi::uverbs::Answer;

/// Access flags (`ibv_access_flags`).
mod access {
    pub(super) const LOCAL_WRITE: u32 = 1;
    pub(super) const REMOTE_WRITE: u32 = 2;
    pub(super) const REMOTE_READ: u32 = 4;
    pub(super) const REMOTE_ATOMIC: u32 = 8;
    pub(super) const ZERO_BASED: u32 = 32;
    /// What Soft-RoCE takes: without ON_DEMAND, with HUGETLB.
    pub(super) const SUPPORTED: u32 = 0x3f | 128;
    /// Flags that a device may ignore.
    pub(super) const OPTIONAL: u32 = 0x3ff0_0000;
}

pub(super) fn alloc_pd(cx: &mut Context<'_>) -> Result<Outcome> {
    let pd = cx.fabric.new_pd();
    let mut answer = Answer::new(4);
    answer.u32(0, cx.file.handles.insert(Object::Pd { pd }));
    Ok(answer.into())
}

pub(super) fn dealloc_pd(cx: &mut Context<'_>) -> Result<Outcome> {
    let handle = cx.command.u32(0)?;
    let pd = cx.file.handles.pd(handle)?;
    if cx.file.handles.iter().any(|(_, object)| object.uses_pd() == Some(pd)) {
        return Err(Errno::EBUSY);
    }
    cx.file.handles.remove(handle);
    Ok(Outcome::done())
}

/// The client has checked that the memory is there and may be accessed so.
pub(super) fn reg_mr(cx: &mut Context<'_>) -> Result<Outcome> {
    let (start, length) = (cx.command.u64(8)?, cx.command.u64(16)?);
    let (hca_va, pd) = (cx.command.u64(24)?, cx.command.u32(32)?);
    let flags = cx.command.u32(36)? & !access::OPTIONAL;
    let pd = cx.file.handles.pd(pd)?;
    let writes_remotely = flags & (access::REMOTE_WRITE | access::REMOTE_ATOMIC) != 0;
    // A kernel counts pages: nothing at the start of a page is none, elsewhere it is one.
    let is_no_page = length == 0 && start.is_multiple_of(PAGE as u64);
    if is_no_page
        || start.checked_add(length).is_none()
        || flags & !access::SUPPORTED != 0
        || (writes_remotely && flags & access::LOCAL_WRITE == 0)
    {
        return Err(Errno::EINVAL);
    }
    let index = cx.fabric.take_mr()?;
    let key = cx.fabric.new_key(index);
    let mr = &cx.fabric.arena.mrs[index];
    mr.proc.store(cx.file.proc as u32, Release);
    mr.pd.store(pd, Release);
    mr.access.store(flags, Release);
    mr.addr.store(start, Release);
    mr.length.store(length, Release);
    mr.iova.store(if flags & access::ZERO_BASED != 0 { 0 } else { hca_va }, Release);
    mr.live.store(key, Release);
    let is_remote =
        flags & (access::REMOTE_WRITE | access::REMOTE_READ | access::REMOTE_ATOMIC) != 0;
    let mut answer = Answer::new(12);
    answer.u32(0, cx.file.handles.insert(Object::Mr { index, pd }));
    answer.u32(4, key).u32(8, if is_remote { key } else { 0 });
    Ok(answer.into())
}

pub(super) fn dereg_mr(cx: &mut Context<'_>) -> Result<Outcome> {
    let handle = cx.command.u32(0)?;
    let index = cx.file.handles.index(handle, Kind::Mr)?;
    // With a window bound to it the region stays (EINVAL on rxe).
    if cx.fabric.arena.mrs[index].bound.load(Acquire) != 0 {
        return Err(Errno::EINVAL);
    }
    cx.file.handles.remove(handle);
    cx.fabric.release_mr(index);
    Ok(Outcome { quiesce: cx.fabric.quiesce(cx.file.proc), ..Outcome::done() })
}

pub(super) fn alloc_mw(cx: &mut Context<'_>) -> Result<Outcome> {
    let (pd, kind) = (cx.command.u32(8)?, cx.command.u8(12)?);
    let pd = cx.file.handles.pd(pd)?;
    if !matches!(kind, 1 | 2) {
        return Err(Errno::EINVAL);
    }
    let index = cx.fabric.take_mr()?;
    let key = cx.fabric.new_key(index);
    let mw = &cx.fabric.arena.mrs[index];
    mw.proc.store(cx.file.proc as u32, Release);
    mw.pd.store(pd, Release);
    mw.kind.store(kind.into(), Release);
    mw.live.store(key, Release);
    let mut answer = Answer::new(8);
    answer.u32(0, cx.file.handles.insert(Object::Mw { index, pd })).u32(4, key);
    Ok(answer.into())
}

pub(super) fn dealloc_mw(cx: &mut Context<'_>) -> Result<Outcome> {
    let handle = cx.command.u32(0)?;
    let index = cx.file.handles.index(handle, Kind::Mw)?;
    cx.file.handles.remove(handle);
    cx.fabric.release_mr(index);
    Ok(Outcome { quiesce: cx.fabric.quiesce(cx.file.proc), ..Outcome::done() })
}
