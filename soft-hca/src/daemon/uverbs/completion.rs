//! Completion channels and queues: `rxe_cq.c`.

use std::sync::atomic::Ordering::{Acquire, Release};

use crate::daemon::fabric::RingOf;
use crate::daemon::known::KnownCq;
use crate::daemon::uverbs::object::Kind;
use crate::daemon::uverbs::{Context, Object, Outcome};
use crate::device;
use crate::errno::{Errno, Result};
use crate::uapi::uverbs::Answer;

/// Bytes of a slot: libibverbs reads the first 48.
const SLOT: u32 = 64;
/// "No completion channel".
const NO_CHANNEL: u32 = u32::MAX;

/// The client puts its descriptor's number into the answer. Extra: index and generation.
pub(super) fn create_channel(cx: &mut Context<'_>) -> Result<Outcome> {
    let (index, generation, fd) = cx.fabric.new_channel(cx.file.proc)?;
    cx.file.channels.push(index);
    let outcome = Outcome::from(Answer::new(4)).with_extra([index as u32, generation, 0, 0]);
    Ok(Outcome { fd: Some(fd), ..outcome })
}

pub(super) fn create_cq(cx: &mut Context<'_>) -> Result<Outcome> {
    let command = cx.command;
    let created =
        new_cq(cx, command.u64(8)?, command.u32(16)?, command.u32(20)?, command.u32(24)?)?;
    let mut answer = Answer::new(24);
    answer.u32(0, created.handle).u32(4, created.cqe).put(8, &created.mminfo);
    Ok(Outcome::from(answer).with_extra(created.extra))
}

pub(super) fn create_cq_ex(cx: &mut Context<'_>) -> Result<Outcome> {
    let command = cx.command;
    if command.u32(24)? != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let created = new_cq(cx, command.u64(0)?, command.u32(8)?, command.u32(12)?, command.u32(16)?)?;
    let mut answer = Answer::new(32);
    answer.u32(0, created.handle).u32(4, created.cqe).u32(12, 16).put(16, &created.mminfo);
    Ok(Outcome::from(answer).with_extra(created.extra))
}

struct Created {
    handle: u32,
    cqe: u32,
    mminfo: [u8; 16],
    extra: [u32; 4],
}

/// In `channel` the client has put the channel's index in the arena. Extra: the queue's index and
/// generation, and the channel's index + 1.
fn new_cq(
    cx: &mut Context<'_>,
    user_handle: u64,
    cqe: u32,
    comp_vector: u32,
    channel: u32,
) -> Result<Created> {
    if cqe == 0 || cqe > device::MAX_CQE || comp_vector >= device::num_comp_vectors() {
        return Err(Errno::EINVAL);
    }
    let channel = match channel {
        NO_CHANNEL => None,
        index if cx.file.channels.contains(&(index as usize)) => {
            let index = index as usize;
            Some((index, cx.fabric.env.generation(index).ok_or(Errno::EBADF)?))
        }
        _ => return Err(Errno::EBADF),
    };
    let index = cx.fabric.take_cq(KnownCq { file: cx.file.id, user_handle, channel })?;
    let channel = channel.map_or(0, |(index, _)| index as u32 + 1);
    let place = match cx.fabric.new_ring(cqe, SLOT) {
        Ok(place) => place,
        Err(error) => {
            cx.fabric.cqs.release(index);
            return Err(error);
        }
    };
    let (cqe, mminfo) = (place.mask.load(Acquire), place.mminfo());
    cx.fabric.place_ring(RingOf::Completions(index), place);
    let generation = cx.fabric.new_generation();
    let cq = &cx.fabric.arena.cqs[index];
    cq.proc.store(cx.file.proc as u32, Release);
    cq.channel.store(channel, Release);
    cq.user_handle.store(user_handle, Release);
    cq.live.store(generation, Release);
    Ok(Created {
        handle: cx.file.handles.insert(Object::Cq { index }),
        cqe,
        mminfo,
        extra: [index as u32, generation, channel, 0],
    })
}

/// Unread completions move to the new ring.
pub(super) fn resize_cq(cx: &mut Context<'_>) -> Result<Outcome> {
    let index = cx.file.handles.index(cx.command.u32(8)?, Kind::Cq)?;
    let cqe = cx.command.u32(12)?;
    if cqe == 0 || cqe > device::MAX_CQE {
        return Err(Errno::EINVAL);
    }
    let place = cx.fabric.resize_ring(RingOf::Completions(index), cqe, SLOT)?;
    let mut answer = Answer::new(24);
    answer.u32(0, place.mask.load(Acquire)).put(8, &place.mminfo());
    Ok(answer.into())
}

/// The client fills in how many completion events it has handed out.
pub(super) fn destroy_cq(cx: &mut Context<'_>) -> Result<Outcome> {
    let handle = cx.command.u32(8)?;
    let index = cx.file.handles.index(handle, Kind::Cq)?;
    let is_used = cx.fabric.qps.iter().any(|(_, qp)| qp.cqs.contains(&index));
    if is_used {
        return Err(Errno::EBUSY);
    }
    cx.fabric.release_cq(index)?;
    cx.file.handles.remove(handle);
    let reported = cx.file.forget_async(handle);
    let mut answer = Answer::new(8);
    answer.u32(4, reported);
    Ok(Outcome::from(answer).with_extra([index as u32, 0, 0, 0]))
}
