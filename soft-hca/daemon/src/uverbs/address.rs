//! Address handles: `rxe_av.c`.

use std::net::Ipv6Addr;
use std::sync::atomic::Ordering::Release;

use soft_hca_core::engine::Route;
use soft_hca_core::errno::{Errno, Label, Result, Values, ensure};
use soft_hca_core::uapi::rxe::abi;
use soft_hca_core::uapi::uverbs::answer::{self, WithDriverData};
use soft_hca_core::uapi::uverbs::request;

use crate::device::GidTable;
use crate::fabric::{Fabric, store_gid};
use crate::uverbs::object::Kind;
use crate::uverbs::{Context, Object, Outcome};

/// The way from one GID to another, as `rdma_addr_find_l2_eth_by_grh` looks for it: both are IPv4
/// addresses, or neither is, and somebody has the other. A kernel waits a second for the neighbour
/// to answer; here it is known at once that there is none.
pub(super) fn route_to(fabric: &Fabric, sgid: [u8; 16], dgid: [u8; 16]) -> Result<Route> {
    let from = Ipv6Addr::from(sgid).to_canonical();
    let to = Ipv6Addr::from(dgid).to_canonical();
    if to.is_multicast() {
        Ok(if !fabric.roce.has_way_to_group(from, to) {
            Route::Local
        } else if fabric.roce.brings_back() {
            Route::MulticastLoopback
        } else {
            Route::Remote
        })
    } else if fabric.is_local_without_slot(dgid) {
        // The connection manager's, to a program of this machine.
        Ok(Route::Local)
    } else if from.is_ipv4() != to.is_ipv4() {
        Err(Errno::EINVAL.because("one of the two GIDs is an IPv4 address, the other is not"))
    } else if !fabric.has_gid(dgid) {
        let nobody = Errno::ETIMEDOUT.because("nobody has the destination GID");
        if fabric.roce.has_way(from, to) { Ok(Route::Remote) } else { Err(nobody) }
    } else if fabric.roce.is_taken_to_self(from, to) {
        Ok(Route::Remote)
    } else {
        Ok(Route::Local)
    }
}

/// The GID at an index of a port's table: `ENODATA` in an empty slot, as since Linux 5.10
/// (`rdma_get_gid_attr`), `EINVAL` beyond the table.
pub(super) fn source_gid(gids: &GidTable, index: u8) -> Result<[u8; 16]> {
    let sgid = gids.gid(index);
    if sgid != [0; 16] {
        return Ok(sgid);
    }
    let is_in_table = u16::from(index) < gids.slots();
    let refusal = if is_in_table { Errno::ENODATA } else { Errno::EINVAL };
    let used = gids.entries().iter().filter(|entry| entry.gid != [0; 16]);
    Err(refusal.because("the port's GID table has no entry at sgid_index").with(Values::of([
        (Label::Asked, index.into()),
        (Label::Entries, used.count() as u64),
        (Label::Limit, u64::from(gids.slots()) - 1),
    ])))
}

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

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::Arc;

    use super::*;
    use crate::device::Device;

    #[test]
    fn a_way_leads_to_somebody_of_the_same_family() {
        let device = Arc::new(Device::local("rxe0", 7, &[]));
        let fabric = Fabric::new(Arc::clone(&device), 0).unwrap();
        let mapped = |a, b, c, d| Ipv4Addr::new(a, b, c, d).to_ipv6_mapped().octets();
        let route = |from, to| route_to(&fabric, from, to);
        let here = mapped(127, 0, 0, 1);
        assert_eq!(route(here, here), Ok(Route::Local));
        assert_eq!(route(here, mapped(239, 0, 0, 1)), Ok(Route::Local));
        assert_eq!(route(here, mapped(203, 0, 113, 77)), Err(Errno::ETIMEDOUT));
        assert_eq!(route(here, [0; 16]), Err(Errno::EINVAL));
        let link_local = device.ports[0].gids.gid(0);
        assert_eq!(route(link_local, link_local), Ok(Route::Local));
        assert_eq!(route(link_local, here), Err(Errno::EINVAL));
    }
}
