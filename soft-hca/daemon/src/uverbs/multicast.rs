//! Membership in multicast groups: `rxe_mcast.c`.

use soft_hca_core::errno::{Errno, Refusal, Result, ensure};
use soft_hca_core::uapi::uverbs::request;
use soft_hca_core::uapi::verbs::qp_type;
use soft_hca_roce::wire::ip::is_multicast;

use crate::fabric::{GONE, Membership};
use crate::uverbs::object::Kind;
use crate::uverbs::{Context, Outcome};

/// Attaching once more changes nothing.
pub(super) fn attach(cx: &mut Context<'_>, request: &request::AttachMcast) -> Result<Outcome<()>> {
    let gid = request.gid;
    let qp = cx.file.handles.index(request.qp_handle, Kind::Qp)?;
    let object = *cx.fabric.qps.get(qp).ok_or(GONE)?;
    ensure(is_multicast(&gid), Errno::EINVAL.because(Refusal::NoMulticastGid))?;
    let is_ud = object.qp_type == qp_type::UD;
    ensure(is_ud, Errno::EINVAL.because(Refusal::MulticastNeedsUd))?;
    if find(cx, gid, qp).is_some() {
        return Ok(().into());
    }
    cx.fabric.add_member(Membership { qp, gid }, cx.file.device.limits.max_mcast_qp_attach)?;
    Ok(().into())
}

pub(super) fn detach(cx: &mut Context<'_>, request: &request::DetachMcast) -> Result<Outcome<()>> {
    const NO_MEMBER: Errno = Errno::EINVAL.because(Refusal::NotAttached);
    let gid = request.gid;
    let qp = cx.file.handles.index(request.qp_handle, Kind::Qp)?;
    let index = find(cx, gid, qp).ok_or(NO_MEMBER)?;
    cx.fabric.release_member(index);
    Ok(().into())
}

fn find(cx: &Context<'_>, gid: [u8; 16], qp: usize) -> Option<usize> {
    cx.fabric.members_of(qp).find(|(_, group)| *group == gid).map(|(index, _)| index)
}
