//! Shared receive queues: `rxe_srq.c`.

use std::sync::atomic::Ordering::{Acquire, Release};

use crate::daemon::fabric::RingOf;
use crate::daemon::known::KnownSrq;
use crate::daemon::uverbs::object::Kind;
use crate::daemon::uverbs::{Context, Object, Outcome};
use crate::device;
use crate::errno::{Errno, Result};
use crate::uapi::uverbs::Answer;

/// Bytes of a receive work request before its scatter-gather elements.
pub(super) const RECV_WQE: u32 = 40;
/// Bytes of a scatter-gather element.
pub(super) const SGE: u32 = 16;

/// `ibv_srq_attr_mask`.
const MAX_WR: u32 = 1;
const LIMIT: u32 = 2;

pub(super) fn create_srq(cx: &mut Context<'_>) -> Result<Outcome> {
    let command = cx.command;
    let (user_handle, pd) = (command.u64(8)?, command.u32(16)?);
    let (max_wr, max_sge) = (command.u32(20)?, command.u32(24)?.max(1));
    let limit = command.u32(28)?;
    let pd = cx.file.handles.pd(pd)?;
    if max_wr == 0 || max_wr > device::MAX_SRQ_WR || max_sge > device::MAX_SRQ_SGE || limit > max_wr
    {
        return Err(Errno::EINVAL);
    }
    let known = KnownSrq { file: cx.file.id, user_handle, pd, max_sge };
    let index = cx.fabric.take_srq(known)?;
    let place = match cx.fabric.new_ring(max_wr, RECV_WQE + max_sge * SGE) {
        Ok(place) => place,
        Err(error) => {
            cx.fabric.srqs.release(index);
            return Err(error);
        }
    };
    let mminfo = place.mminfo();
    cx.fabric.place_ring(RingOf::Shared(index), place);
    let generation = cx.fabric.new_generation();
    let srq = &cx.fabric.arena.srqs[index];
    srq.proc.store(cx.file.proc as u32, Release);
    srq.pd.store(pd, Release);
    srq.limit.store(limit, Release);
    srq.max_sge.store(max_sge, Release);
    srq.live.store(generation, Release);
    let mut answer = Answer::new(40);
    answer.u32(0, cx.file.handles.insert(Object::Srq { index, pd }));
    answer.u32(4, max_wr).u32(8, max_sge).u32(12, index as u32 + 1);
    answer.put(16, &mminfo).u32(32, index as u32 + 1);
    Ok(answer.into())
}

/// The place of a new ring is the answer's bytes; the client writes it where the provider wants
/// it, which is not at the usual place of an answer.
pub(super) fn modify_srq(cx: &mut Context<'_>) -> Result<Outcome> {
    let command = cx.command;
    let index = cx.file.handles.index(command.u32(0)?, Kind::Srq)?;
    let (attr_mask, max_wr, limit) = (command.u32(4)?, command.u32(8)?, command.u32(12)?);
    let srq = &cx.fabric.arena.srqs[index];
    if attr_mask & !(MAX_WR | LIMIT) != 0 {
        return Err(Errno::EINVAL);
    }
    let capacity = if attr_mask & MAX_WR != 0 { max_wr } else { srq.ring.mask.load(Acquire) };
    if attr_mask & LIMIT != 0 && limit > capacity {
        return Err(Errno::EINVAL);
    }
    let mut outcome = Outcome::done();
    if attr_mask & MAX_WR != 0 {
        if max_wr == 0 || max_wr > device::MAX_SRQ_WR {
            return Err(Errno::EINVAL);
        }
        outcome = Answer(resize(cx, index, max_wr)?.to_vec()).into();
    }
    if attr_mask & LIMIT != 0 {
        cx.fabric.arena.srqs[index].limit.store(limit, Release);
    }
    Ok(outcome)
}

fn resize(cx: &mut Context<'_>, index: usize, max_wr: u32) -> Result<[u8; 16]> {
    let known = cx.fabric.srqs.get(index).ok_or(Errno::EINVAL)?;
    let slot = RECV_WQE + known.max_sge * SGE;
    Ok(cx.fabric.resize_ring(RingOf::Shared(index), max_wr, slot)?.mminfo())
}

pub(super) fn query_srq(cx: &mut Context<'_>) -> Result<Outcome> {
    let index = cx.file.handles.index(cx.command.u32(8)?, Kind::Srq)?;
    let srq = &cx.fabric.arena.srqs[index];
    let mut answer = Answer::new(16);
    answer.u32(0, srq.ring.mask.load(Acquire)).u32(4, srq.max_sge.load(Acquire));
    answer.u32(8, srq.limit.load(Acquire));
    Ok(answer.into())
}

pub(super) fn destroy_srq(cx: &mut Context<'_>) -> Result<Outcome> {
    let handle = cx.command.u32(8)?;
    let index = cx.file.handles.index(handle, Kind::Srq)?;
    if cx.fabric.qps.iter().any(|(_, qp)| qp.srq == Some(index)) {
        return Err(Errno::EBUSY);
    }
    cx.fabric.release_srq(index)?;
    cx.file.handles.remove(handle);
    let reported = cx.file.forget_async(handle);
    let mut answer = Answer::new(4);
    answer.u32(0, reported);
    Ok(answer.into())
}
