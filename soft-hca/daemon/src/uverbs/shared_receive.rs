//! Shared receive queues: `rxe_srq.c`.

use std::sync::atomic::Ordering::{Acquire, Release};

use soft_hca_core::errno::{Errno, Label, Refusal, Result, ensure};
use soft_hca_core::uapi::rxe::abi::{self, MmInfo};
use soft_hca_core::uapi::uverbs::answer::{self, WithDriverData};
use soft_hca_core::uapi::uverbs::request;
use soft_hca_core::uapi::verbs::{DeviceLimit, SrqAttrMask};

use crate::device::Limits;
use crate::fabric::{GONE, RingOf};
use crate::objects::SrqObject;
use crate::uverbs::object::Kind;
use crate::uverbs::{Context, Object, Outcome};

const LIMIT: Errno = Errno::EINVAL.because(Refusal::SrqLimit);

/// The refusal of a device without shared receive queues.
pub(super) const NO_SRQ: Errno =
    Errno::EOPNOTSUPP.because(Refusal::DeviceLimit(DeviceLimit::SharedReceiveQueues));

/// CREATE_SRQ's answer.
pub(super) type CreateSrqAnswer = WithDriverData<answer::CreateSrq, abi::CreateSrqResp>;

fn check_size(max_wr: u32, limits: &Limits) -> Result<()> {
    ensure(max_wr != 0, Errno::EINVAL.because(Refusal::EmptySrq))?;
    ensure(
        max_wr <= limits.max_srq_wr,
        Errno::EINVAL
            .because(Refusal::DeviceLimit(DeviceLimit::SrqWr))
            .beyond(max_wr.into(), limits.max_srq_wr.into()),
    )
}

pub(super) fn create_srq(
    cx: &mut Context<'_>,
    request: &request::CreateSrq,
) -> Result<Outcome<CreateSrqAnswer>> {
    let request::CreateSrq { user_handle, max_wr, srq_limit: limit, .. } = *request;
    let max_sge = request.max_sge.max(1);
    let pd = cx.file.handles.pd(request.pd_handle)?;
    let limits = &cx.file.device.limits;
    ensure(limits.has_srq, NO_SRQ)?;
    check_size(max_wr, limits)?;
    let is_allowed = max_sge <= limits.max_srq_sge;
    ensure(
        is_allowed,
        Errno::EINVAL
            .because(Refusal::DeviceLimit(DeviceLimit::SrqSge))
            .beyond(max_sge.into(), limits.max_srq_sge.into()),
    )?;
    ensure(limit <= max_wr, LIMIT.beyond(limit.into(), max_wr.into()))?;
    let object = SrqObject { file: cx.file.id, user_handle, pd, max_sge };
    let index = cx.fabric.take_srq(object)?;
    let place = match cx.fabric.new_ring(max_wr, cx.file.device.provider.recv_slot(max_sge)) {
        Ok(place) => place,
        Err(error) => {
            cx.fabric.srqs.release(index);
            return Err(error);
        }
    };
    // As many as the ring has room for.
    let (max_wr, mi) = (place.mask.load(Acquire), MmInfo::of(&place));
    cx.fabric.place_ring(RingOf::Shared(index), place);
    let generation = cx.fabric.new_generation();
    let srq = &cx.fabric.arena.srqs[index];
    srq.proc.store(cx.file.proc as u32, Release);
    srq.pd.store(pd, Release);
    srq.limit.store(limit, Release);
    srq.max_sge.store(max_sge, Release);
    srq.live.store(generation, Release);
    let srq_handle = cx.file.handles.insert(Object::Srq { index, pd });
    let number = index as u32 + 1;
    let answer = answer::CreateSrq { srq_handle, max_wr, max_sge, srqn: number };
    let driver_data = abi::CreateSrqResp { mi, srq_num: number, reserved: 0 };
    Ok(WithDriverData(answer, driver_data).into())
}

/// The place of a new ring is the answer's bytes; the client writes it where the provider wants
/// it, which is not at the usual place of an answer.
pub(super) fn modify_srq(
    cx: &mut Context<'_>,
    request: &request::ModifySrq,
) -> Result<Outcome<Option<MmInfo>>> {
    const UNKNOWN: Errno = Errno::EINVAL.because(Refusal::SrqAttribute);
    let request::ModifySrq { max_wr, srq_limit: limit, .. } = *request;
    let index = cx.file.handles.index(request.srq_handle, Kind::Srq)?;
    let srq = &cx.fabric.arena.srqs[index];
    let given = SrqAttrMask::from_bits(request.attr_mask).ok_or(UNKNOWN)?;
    let capacity =
        if given.contains(SrqAttrMask::MAX_WR) { max_wr } else { srq.ring.mask.load(Acquire) };
    let is_within = limit <= capacity || !given.contains(SrqAttrMask::LIMIT);
    ensure(is_within, LIMIT.beyond(limit.into(), capacity.into()))?;
    let mut new_place = None;
    if given.contains(SrqAttrMask::MAX_WR) {
        check_size(max_wr, &cx.file.device.limits)?;
        new_place = Some(resize(cx, index, max_wr)?);
    }
    if given.contains(SrqAttrMask::LIMIT) {
        cx.fabric.arena.srqs[index].limit.store(limit, Release);
    }
    Ok(new_place.into())
}

fn resize(cx: &mut Context<'_>, index: usize, max_wr: u32) -> Result<MmInfo> {
    let object = cx.fabric.srqs.get(index).ok_or(GONE)?;
    let slot = cx.file.device.provider.recv_slot(object.max_sge);
    Ok(MmInfo::of(cx.fabric.resize_ring(RingOf::Shared(index), max_wr, slot)?))
}

pub(super) fn query_srq(
    cx: &mut Context<'_>,
    request: &request::QuerySrq,
) -> Result<Outcome<answer::QuerySrq>> {
    let index = cx.file.handles.index(request.srq_handle, Kind::Srq)?;
    let srq = &cx.fabric.arena.srqs[index];
    let answer = answer::QuerySrq {
        max_wr: srq.ring.mask.load(Acquire),
        max_sge: srq.max_sge.load(Acquire),
        srq_limit: srq.limit.load(Acquire),
        reserved: 0,
    };
    Ok(answer.into())
}

pub(super) fn destroy_srq(
    cx: &mut Context<'_>,
    request: &request::DestroySrq,
) -> Result<Outcome<answer::DestroySrq>> {
    let handle = request.srq_handle;
    let index = cx.file.handles.index(handle, Kind::Srq)?;
    let users = cx.fabric.qps.iter().filter(|(_, qp)| qp.srq == Some(index));
    Errno::EBUSY
        .because(Refusal::SrqInUse)
        .unless_unused(users.map(|(_, qp)| (Label::Qp, qp.qpn.into())))?;
    cx.fabric.release_srq(index)?;
    cx.file.handles.remove(handle);
    let reported = cx.file.forget_async(handle);
    Ok(answer::DestroySrq { events_reported: reported }.into())
}
