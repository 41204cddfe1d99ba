//! Address handles: `rxe_av.c`.

use std::sync::atomic::Ordering::Release;

use soft_hca_core::errno::{Errno, Result, ensure};
use soft_hca_core::uapi::rxe::abi;
use soft_hca_core::uapi::uverbs::answer::{self, WithDriverData};
use soft_hca_core::uapi::uverbs::request;

use crate::fabric::store_gid;
use crate::paths::{route_to, source_gid};
use crate::uverbs::object::Kind;
use crate::uverbs::{Context, Object, Outcome};

type CreateAhAnswer = WithDriverData<answer::CreateAh, abi::CreateAhResp>;

pub(super) fn create_ah(
    cx: &mut Context<'_>,
    request: &request::CreateAh,
) -> Result<Outcome<CreateAhAnswer>> {
    let pd = cx.file.handles.pd(request.pd_handle)?;
    let grh = request.attr.grh;
    // Without a global route nobody is reached: on RoCE there is no such address.
    let is_global = request.attr.is_global != 0;
    ensure(
        is_global,
        Errno::EINVAL.because("an address handle on RoCE needs a global route (GRH)"),
    )?;
    let port = cx.file.device.port(request.attr.port_num)?;
    let sgid = source_gid(&port.gids, grh.sgid_index)?;
    let mtu = port.active_mtu();
    let route = route_to(cx.fabric, sgid, grh.dgid)?;
    let index = cx.fabric.take_ah()?;
    let ah = &cx.fabric.arena.ahs[index];
    ah.proc.store(cx.file.proc as u32, Release);
    ah.pd.store(pd, Release);
    ah.mtu.store(mtu.into(), Release);
    ah.traffic_class.store(grh.traffic_class.into(), Release);
    ah.hop_limit.store(grh.hop_limit.into(), Release);
    ah.flow_label.store(grh.flow_label, Release);
    store_gid(&ah.sgid, sgid);
    store_gid(&ah.dgid, grh.dgid);
    route.store(&ah.route);
    let number = index as u32 + 1;
    ah.live.store(number, Release);
    let ah_handle = cx.file.handles.insert(Object::Ah { index, pd });
    let driver_data = abi::CreateAhResp { ah_num: number, reserved: 0 };
    Ok(WithDriverData(answer::CreateAh { ah_handle }, driver_data).into())
}

pub(super) fn destroy_ah(
    cx: &mut Context<'_>,
    request: &request::DestroyAh,
) -> Result<Outcome<()>> {
    let object = cx.file.handles.get(request.ah_handle, Kind::Ah)?;
    if let Some(pd) = object.uses_pd() {
        cx.fabric.await_link_of(pd)?;
    }
    let index = cx.file.handles.index(request.ah_handle, Kind::Ah)?;
    cx.file.handles.remove(request.ah_handle);
    cx.fabric.release_ah(index);
    Ok(().into())
}
