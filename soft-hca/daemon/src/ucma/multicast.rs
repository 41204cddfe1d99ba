//! Membership in multicast groups.
//!
//! Only the addressing: programs attach their queue pairs to the group's GID by a verbs command,
//! and that is what makes messages arrive.

use soft_hca_core::errno::{Errno, Refusal, Result, ensure};
use soft_hca_core::uapi::ucma::{
    AhAttr, Event, JoinMcast, Param, Target, UDP_QKEY, UdParam, event_type,
};
use soft_hca_roce::wire::bth::MULTICAST_QPN;

use super::cm::Cm;
use super::host::{Call, Cx};
use super::id::State;
use super::mgid::mgid;

impl Cm {
    pub(super) fn join_mcast(&mut self, _: &mut Cx<'_>, call: &Call<'_>) -> Result<Vec<u8>> {
        self.join(call, &JoinMcast::decode(call.payload)?)
    }

    pub(super) fn join_ip_mcast(&mut self, _: &mut Cx<'_>, call: &Call<'_>) -> Result<Vec<u8>> {
        self.join(call, &JoinMcast::decode_ip(call.payload)?)
    }

    /// Joins a group. An address that is none of a group's is accepted here, as by the kernel;
    /// it fails when the queue pair is attached to it.
    fn join(&mut self, call: &Call<'_>, request: &JoinMcast) -> Result<Vec<u8>> {
        let key = self.ids.find_with_device(call.file, request.id)?;
        self.files.room_for_event(call.file)?;
        let id = self.ids.id(key)?;
        let is_ready = matches!(id.state, State::Bound | State::AddrResolved);
        let is_address = request.address.ip().is_some() && !request.address.is_unspecified();
        ensure(is_ready, id.state.refusal())?;
        ensure(id.is_datagram, Errno::EINVAL.because(Refusal::JoinOfConnected))?;
        ensure(is_address, Errno::EINVAL.because(Refusal::GroupWithoutAddress))?;
        let source = id.source()?;
        let is_infiniband = source.port().is_some_and(|port| port.gids.is_infiniband());
        let group = request.address.ip().filter(|_| is_infiniband);
        let (dgid, dlid) = match group {
            Some(group) => {
                let gid = mgid(group.ip(), id.space);
                (gid, self.groups.lid(gid))
            }
            None => (request.address.gid(), 0),
        };
        let ah_attr = AhAttr {
            dgid,
            dlid,
            is_by_lid: false,
            flow_label: 0,
            port_num: source.port_num,
            sgid_index: source.gid_index,
            traffic_class: id.type_of_service,
        };
        let number = self.groups.join(key)?;
        let param = UdParam {
            qp_num: MULTICAST_QPN.into(),
            qkey: UDP_QKEY,
            ah_attr: Some(ah_attr),
            private_data: Vec::new(),
        };
        let event = Event {
            uid: request.uid,
            id: number,
            event: event_type::MULTICAST_JOIN,
            param: Param::Ud(param),
            ..Event::default()
        };
        self.push_membership(key, &event);
        Ok(number.to_le_bytes().to_vec())
    }

    pub(super) fn leave_mcast(&mut self, _: &mut Cx<'_>, call: &Call<'_>) -> Result<Vec<u8>> {
        const NO_MEMBER: Errno = Errno::ENOENT.because(Refusal::NoMembership);
        let number = Target::decode(call.payload)?.id;
        let membership = self.groups.get(number).ok_or(NO_MEMBER)?;
        let events_reported = membership.events_reported;
        let file = self.ids.id(membership.id)?.file;
        ensure(file == call.file, Errno::EINVAL.because(Refusal::MembershipOfOtherFile))?;
        self.files.forget_events(file, |event| event.membership == Some(number));
        self.groups.leave(number);
        Ok(events_reported.to_le_bytes().to_vec())
    }
}
