//! Completion channels and queues: `rxe_cq.c`.

use std::sync::atomic::Ordering::{Acquire, Release};

use soft_hca_core::arena::RingLocation;
use soft_hca_core::engine;
use soft_hca_core::errno::{Errno, Label, Refusal, Result, ensure};
use soft_hca_core::rpc::{ChannelId, Created};
use soft_hca_core::uapi::rxe::abi::{self, MmInfo};
use soft_hca_core::uapi::uverbs::answer::{self, WithDriverData};
use soft_hca_core::uapi::uverbs::request;
use soft_hca_core::uapi::verbs::DeviceLimit;

use crate::device::Limits;
use crate::fabric::{Fabric, RingOf};
use crate::objects::CqObject;
use crate::uverbs::object::Kind;
use crate::uverbs::{Context, Object, Outcome};

/// "No completion channel".
const NO_CHANNEL: i32 = -1;
const NO_SUCH_CHANNEL: Errno = Errno::EBADF.because(Refusal::NoChannel);

/// CREATE_CQ's answer.
pub(super) type CreateCqAnswer = WithDriverData<answer::CreateCq, abi::CreateCqResp>;
/// The extended CREATE_CQ's answer.
pub(super) type ExCreateCqAnswer = WithDriverData<answer::ExCreateCq, abi::CreateCqResp>;
/// RESIZE_CQ's answer.
pub(super) type ResizeCqAnswer = WithDriverData<answer::ResizeCq, abi::ResizeCqResp>;

/// The client puts its descriptor's number into the answer.
pub(super) fn create_channel(
    cx: &mut Context<'_>,
    _: &request::CreateCompChannel,
) -> Result<Outcome<answer::CreateCompChannel>> {
    let (index, generation, fd) = cx.fabric.new_channel(cx.file.proc)?;
    cx.file.channels.push(index);
    let created = Created::Channel(ChannelId { index: index as u32, generation });
    let answer = answer::CreateCompChannel::default();
    Ok(Outcome { created: Some(created), fd: Some(fd), ..Outcome::from(answer) })
}

pub(super) fn create_cq(
    cx: &mut Context<'_>,
    request: &request::CreateCq,
) -> Result<Outcome<CreateCqAnswer>> {
    let (answer, driver_data, created) = new_cq(cx, &(*request).into())?;
    Ok(Outcome::from(WithDriverData(answer, driver_data)).with_created(created))
}

pub(super) fn create_cq_ex(
    cx: &mut Context<'_>,
    request: &request::ExCreateCq,
) -> Result<Outcome<ExCreateCqAnswer>> {
    let is_plain = request.flags == 0;
    ensure(is_plain, Errno::EOPNOTSUPP.because(Refusal::CqFlag))?;
    let (answer, driver_data, created) = new_cq(cx, request)?;
    let answer = answer::ExCreateCq::new(answer);
    Ok(Outcome::from(WithDriverData(answer, driver_data)).with_created(created))
}

fn check_size(cqe: u32, limits: &Limits) -> Result<()> {
    ensure(cqe != 0, Errno::EINVAL.because(Refusal::EmptyCq))?;
    ensure(
        cqe <= limits.max_cqe,
        Errno::EINVAL
            .because(Refusal::DeviceLimit(DeviceLimit::Cqe))
            .beyond(cqe.into(), limits.max_cqe.into()),
    )
}

/// In `comp_channel` the client has put the channel's index in the arena.
fn new_cq(
    cx: &mut Context<'_>,
    request: &request::ExCreateCq,
) -> Result<(answer::CreateCq, abi::CreateCqResp, Created)> {
    let request::ExCreateCq { user_handle, cqe, comp_vector, comp_channel, .. } = *request;
    let limits = &cx.file.device.limits;
    check_size(cqe, limits)?;
    let is_vector = comp_vector < limits.num_comp_vectors;
    ensure(
        is_vector,
        Errno::EINVAL
            .because(Refusal::CompletionVector)
            .beyond(comp_vector.into(), u64::from(limits.num_comp_vectors) - 1),
    )?;
    let channel = match usize::try_from(comp_channel) {
        _ if comp_channel == NO_CHANNEL => None,
        Ok(index) if cx.file.channels.contains(&index) => {
            Some((index, cx.fabric.env.generation(index).ok_or(NO_SUCH_CHANNEL)?))
        }
        _ => return Err(NO_SUCH_CHANNEL),
    };
    let index = cx.fabric.take_cq(CqObject { file: cx.file.id, user_handle, channel })?;
    let channel = channel.map_or(0, |(index, _)| index as u32 + 1);
    let entries = engine::ring_entries(cqe);
    let rings = rings_of_cq(cx.fabric, entries, cx.file.device.provider.cqe_bytes);
    if rings.is_err() {
        cx.fabric.cqs.release(index);
    }
    let (place, eager) = rings?;
    cx.fabric.place_ring(RingOf::Eager(index), eager);
    let (cqe, mi) = (engine::cqe_of(place.mask.load(Acquire)), MmInfo::of(&place));
    cx.fabric.place_ring(RingOf::Completions(index), place);
    let generation = cx.fabric.new_generation();
    let cq = &cx.fabric.arena.cqs[index];
    cq.proc.store(cx.file.proc as u32, Release);
    cq.channel.store(channel, Release);
    cq.user_handle.store(user_handle, Release);
    cq.live.store(generation, Release);
    let cq_handle = cx.file.handles.insert(Object::Cq { index });
    let created = Created::Cq { handle: cq_handle, index: index as u32, generation };
    Ok((answer::CreateCq { cq_handle, cqe }, abi::CreateCqResp { mi }, created))
}

/// A completion queue's two rings: of completions, and of payloads that wait for a poll.
fn rings_of_cq(
    fabric: &mut Fabric,
    entries: u32,
    slot: u32,
) -> Result<(RingLocation, RingLocation)> {
    let completions = fabric.new_ring(entries, slot)?;
    let eager = fabric.new_untouched_ring(engine::EAGER_SLOTS - 1, engine::EAGER_SLOT_BYTES);
    let eager = eager.inspect_err(|_| fabric.release_ring(&completions))?;
    Ok((completions, eager))
}

/// Unread completions move to the new ring.
pub(super) fn resize_cq(
    cx: &mut Context<'_>,
    request: &request::ResizeCq,
) -> Result<Outcome<ResizeCqAnswer>> {
    let index = cx.file.handles.index(request.cq_handle, Kind::Cq)?;
    let cqe = request.cqe;
    check_size(cqe, &cx.file.device.limits)?;
    let slot = cx.file.device.provider.cqe_bytes;
    let entries = engine::ring_entries(cqe);
    let place = cx.fabric.resize_ring(RingOf::Completions(index), entries, slot)?;
    let cqe = engine::cqe_of(place.mask.load(Acquire));
    let answer = answer::ResizeCq { cqe, reserved: 0 };
    Ok(WithDriverData(answer, abi::ResizeCqResp { mi: MmInfo::of(place) }).into())
}

/// The client fills in how many completion events it has handed out.
pub(super) fn destroy_cq(
    cx: &mut Context<'_>,
    request: &request::DestroyCq,
) -> Result<Outcome<answer::DestroyCq>> {
    let handle = request.cq_handle;
    let index = cx.file.handles.index(handle, Kind::Cq)?;
    let users = cx.fabric.qps.iter().filter(|(_, qp)| qp.cqs.contains(&index));
    Errno::EBUSY
        .because(Refusal::CqInUse)
        .unless_unused(users.map(|(_, qp)| (Label::Qp, qp.qpn.into())))?;
    cx.fabric.release_cq(index)?;
    cx.file.handles.remove(handle);
    let reported = cx.file.forget_async(handle);
    Ok(answer::DestroyCq { comp_events_reported: 0, async_events_reported: reported }.into())
}
