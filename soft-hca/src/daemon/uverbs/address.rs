//! Address handles: `rxe_av.c`.

use std::net::Ipv6Addr;
use std::sync::atomic::Ordering::Release;

use crate::daemon::fabric::store_gid;
use crate::daemon::uverbs::object::Kind;
use crate::daemon::uverbs::{Context, Object, Outcome};
use crate::device::Addresses;
use crate::engine::Route;
use crate::errno::{Errno, Result};
use crate::uapi::uverbs::Answer;

/// The way from one GID to another, as `rdma_addr_find_l2_eth_by_grh` looks for it: both are IPv4
/// addresses, or neither is, and somebody has the other. A kernel waits a second for the neighbour
/// to answer; here it is known at once that there is none.
pub(super) fn route_to(addresses: &Addresses, from: [u8; 16], to: [u8; 16]) -> Result<Route> {
    let from = Ipv6Addr::from(from).to_canonical();
    let to = Ipv6Addr::from(to).to_canonical();
    if to.is_multicast() {
        Ok(Route::Local)
    } else if from.is_ipv4() != to.is_ipv4() {
        Err(Errno::EINVAL)
    } else if addresses.find(to).is_none() {
        Err(Errno::ETIMEDOUT)
    } else {
        Ok(Route::Local)
    }
}

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
    let route = route_to(&cx.fabric.addresses, sgid, dgid)?;
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
    route.store(&ah.route);
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

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_way_leads_to_somebody_of_the_same_family() {
        let addresses = Addresses::local();
        let mapped = |a, b, c, d| Ipv4Addr::new(a, b, c, d).to_ipv6_mapped().octets();
        let route = |from, to| route_to(&addresses, from, to);
        let here = mapped(127, 0, 0, 1);
        assert_eq!(route(here, here), Ok(Route::Local));
        assert_eq!(route(here, mapped(239, 0, 0, 1)), Ok(Route::Local));
        assert_eq!(route(here, mapped(203, 0, 113, 77)), Err(Errno::ETIMEDOUT));
        assert_eq!(route(here, [0; 16]), Err(Errno::EINVAL));
        let link_local = addresses.gid(0);
        assert_eq!(route(link_local, link_local), Ok(Route::Local));
        assert_eq!(route(link_local, here), Err(Errno::EINVAL));
    }
}
