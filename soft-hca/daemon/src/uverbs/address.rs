//! Address handles: `rxe_av.c`.

use std::sync::Arc;
use std::sync::atomic::Ordering::Release;

use soft_hca_core::errno::Result;
use soft_hca_core::uapi::rxe::abi;
use soft_hca_core::uapi::uverbs::answer::{self, WithDriverData};
use soft_hca_core::uapi::uverbs::request::{self, QpDest};

use crate::fabric::store_gid;
use crate::objects::AhObject;
use crate::paths::{packet_octets, route_of, source_gid};
use crate::uverbs::object::Kind;
use crate::uverbs::{Context, Object, Outcome};

/// The same address as a connected queue pair's.
fn dest_of(request: &request::CreateAh) -> QpDest {
    let request::AhAttr { grh, dlid, sl, src_path_bits, static_rate, is_global, port_num, .. } =
        request.attr;
    QpDest {
        dgid: grh.dgid,
        flow_label: grh.flow_label,
        dlid,
        sgid_index: grh.sgid_index,
        hop_limit: grh.hop_limit,
        traffic_class: grh.traffic_class,
        sl,
        src_path_bits,
        static_rate,
        is_global,
        port_num,
        ..QpDest::default()
    }
}

type CreateAhAnswer = WithDriverData<answer::CreateAh, abi::CreateAhResp>;

pub(super) fn create_ah(
    cx: &mut Context<'_>,
    request: &request::CreateAh,
) -> Result<Outcome<CreateAhAnswer>> {
    let pd = cx.file.handles.pd(request.pd_handle)?;
    let grh = request.attr.grh;
    let device = Arc::clone(&cx.file.device);
    let port = device.port(request.attr.port_num)?;
    let object = AhObject { device: device.index, dest: dest_of(request) };
    let route = route_of(cx.fabric, &device, port.number, &object.dest)?;
    let sgid = source_gid(&port.gids, grh.sgid_index)?;
    let mtu = port.active_mtu();
    // From a receive's header; on InfiniBand there need not be one.
    let dgid = match request.attr.is_global {
        0 => cx.fabric.gid_of_lid(request.attr.dlid),
        _ => grh.dgid,
    };
    let index = cx.fabric.take_ah(object)?;
    let ah = &cx.fabric.arena.ahs[index];
    ah.proc.store(cx.file.proc as u32, Release);
    ah.pd.store(pd, Release);
    ah.mtu.store(mtu.into(), Release);
    ah.traffic_class.store(grh.traffic_class.into(), Release);
    ah.hop_limit.store(grh.hop_limit.into(), Release);
    ah.flow_label.store(grh.flow_label, Release);
    ah.port.store(port.number.into(), Release);
    ah.sgid_index.store(grh.sgid_index.into(), Release);
    store_gid(&ah.sgid, sgid);
    ah.slid.store(port.source_lid(request.attr.src_path_bits).into(), Release);
    let path_bits = cx.fabric.path_bits_of_lid(request.attr.dlid);
    ah.dlid_path_bits.store(path_bits.into(), Release);
    ah.packet_octets.store(packet_octets(port, &object.dest), Release);
    store_gid(&ah.dgid, dgid);
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
