//! Address handles: `rxe_av.c`.

use std::sync::atomic::Ordering::Release;

use crate::daemon::fabric::store_gid;
use crate::daemon::uverbs::object::Kind;
use crate::daemon::uverbs::{Context, Object, Outcome};
use crate::errno::{Errno, Result};
use crate::uapi::uverbs::Answer;

pub(super) fn create_ah(cx: &mut Context<'_>) -> Result<Outcome> {
    let command = cx.command;
    let pd = cx.file.handles.pd(command.u32(16)?)?;
    let dgid = command.gid(24)?;
    let flow_label = command.u32(40)?;
    let (sgid_index, hop_limit) = (command.u8(44)?, command.u8(45)?);
    let (traffic_class, is_global, port) = (command.u8(46)?, command.u8(53)?, command.u8(54)?);
    // On RoCE there is no address without a global route.
    if is_global == 0 || port != 1 {
        return Err(Errno::EINVAL);
    }
    let sgid = cx.fabric.addresses.gid(sgid_index);
    if sgid == [0; 16] {
        return Err(Errno::ENODATA);
    }
    let index = cx.fabric.take_ah()?;
    let ah = &cx.fabric.arena.ahs[index];
    ah.proc.store(cx.file.proc as u32, Release);
    ah.pd.store(pd, Release);
    ah.sgid_index.store(sgid_index.into(), Release);
    ah.traffic_class.store(traffic_class.into(), Release);
    ah.hop_limit.store(hop_limit.into(), Release);
    ah.flow_label.store(flow_label, Release);
    store_gid(&ah.sgid, sgid);
    store_gid(&ah.dgid, dgid);
    let number = index as u32 + 1;
    ah.live.store(number, Release);
    let mut answer = Answer::new(12);
    answer.u32(0, cx.file.handles.insert(Object::Ah { index, pd })).u32(4, number);
    Ok(answer.into())
}

pub(super) fn destroy_ah(cx: &mut Context<'_>) -> Result<Outcome> {
    let handle = cx.command.u32(0)?;
    let index = cx.file.handles.index(handle, Kind::Ah)?;
    cx.file.handles.remove(handle);
    cx.fabric.release_ah(index);
    Ok(Outcome::done())
}
