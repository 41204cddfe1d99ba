//! Address handles: `rxe_av.c`.

use std::net::Ipv6Addr;
use std::sync::atomic::Ordering::Release;

use crate::daemon::fabric::{Fabric, store_gid};
use crate::daemon::uverbs::object::Kind;
use crate::daemon::uverbs::{Context, Object, Outcome};
use crate::errno::{Errno, Result};
use crate::uapi::uverbs::Answer;

/// Whether there is a way from one GID to another, as `rdma_addr_find_l2_eth_by_grh` looks for it:
/// both are IPv4 addresses, or neither is, and somebody has the other. A kernel waits a second for
/// the neighbour to answer; here it is known at once that there is none.
pub(super) fn check_way(fabric: &Fabric, sgid: [u8; 16], dgid: [u8; 16]) -> Result<()> {
    let from = Ipv6Addr::from(sgid).to_canonical();
    let to = Ipv6Addr::from(dgid).to_canonical();
    if to.is_multicast() {
        Ok(())
    } else if from.is_ipv4() != to.is_ipv4() {
        Err(Errno::EINVAL)
    } else if !fabric.has_gid(dgid) {
        Err(Errno::ETIMEDOUT)
    } else {
        Ok(())
    }
}

pub(super) fn create_ah(cx: &mut Context<'_>) -> Result<Outcome> {
    let command = cx.command;
    let pd = cx.file.handles.pd(command.u32(16)?)?;
    let dgid = command.gid(24)?;
    let flow_label = command.u32(40)?;
    let (sgid_index, hop_limit) = (command.u8(44)?, command.u8(45)?);
    let (traffic_class, is_global, port) = (command.u8(46)?, command.u8(53)?, command.u8(54)?);
    // Without a global route nobody is reached: on RoCE there is no such address.
    if is_global == 0 {
        return Err(Errno::EINVAL);
    }
    let sgid = cx.file.device.port(port)?.gids.gid(sgid_index);
    if sgid == [0; 16] {
        return Err(Errno::ENODATA);
    }
    check_way(cx.fabric, sgid, dgid)?;
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

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::Arc;

    use super::*;
    use crate::device::Device;

    #[test]
    fn a_way_leads_to_somebody_of_the_same_family() {
        let device = Arc::new(Device::local("rxe0", 7));
        let fabric = Fabric::new(Arc::clone(&device), 0).unwrap();
        let mapped = |a, b, c, d| Ipv4Addr::new(a, b, c, d).to_ipv6_mapped().octets();
        let check = |from, to| check_way(&fabric, from, to);
        let here = mapped(127, 0, 0, 1);
        assert_eq!(check(here, here), Ok(()));
        assert_eq!(check(here, mapped(239, 0, 0, 1)), Ok(()));
        assert_eq!(check(here, mapped(203, 0, 113, 77)), Err(Errno::ETIMEDOUT));
        assert_eq!(check(here, [0; 16]), Err(Errno::EINVAL));
        let link_local = device.ports[0].gids.gid(0);
        assert_eq!(check(link_local, link_local), Ok(()));
        assert_eq!(check(link_local, here), Err(Errno::EINVAL));
    }
}
