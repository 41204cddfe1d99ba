//! Addresses, GIDs and paths of an id, for its program.

use soft_hca_core::errno::{Errno, Refusal, Result, ensure};
use soft_hca_core::uapi::ucma::{
    AddressAnswer, AhAttr, IbAddress, PathRecord, QUERY_ADDR_MIN, Query, RouteAnswer, Sockaddr,
    Target, path_answer, query,
};

use super::bind::UNBOUND;
use super::cm::Cm;
use super::host::{Call, Cx, Host, NO_ROOM};
use super::id::Key;
use super::ids::Id;
use crate::device::{LinkLayer, Source};

/// The port of an address: its GID, and on InfiniBand its LID.
fn end_of(id: &Id, host: &dyn Host, address: Option<Sockaddr>) -> ([u8; 16], u16) {
    let own = id.source.as_ref().and_then(Source::port);
    let Some(address) = address else { return ([0; 16], 0) };
    if own.is_none_or(|port| port.link_layer == LinkLayer::Ethernet) {
        return (address.gid(), 0);
    }
    let source = address.ip().and_then(|ip| host.find_source(ip.ip()));
    let port = source.as_ref().and_then(Source::port);
    port.map_or(([0; 16], 0), |port| (port.gids.gid(0), port.lid))
}

/// An IP address as an InfiniBand one: its GID, and its port in the service id.
fn as_ib(id: &Id, host: &dyn Host, address: Sockaddr) -> Sockaddr {
    match address {
        Sockaddr::Ib(_) => address,
        Sockaddr::Ip(ip) => Sockaddr::Ib(IbAddress {
            // An id without a device has no GIDs.
            gid: id.source.as_ref().map_or([0; 16], |_| end_of(id, host, Some(address)).0),
            pkey: id.pkey(),
            sid: id.space.service_id(ip.port()),
            ..IbAddress::default()
        }),
    }
}

/// QUERY for addresses needs more room than for paths.
fn enough_room(call: &Call<'_>) -> Result<()> {
    ensure(call.room >= QUERY_ADDR_MIN, NO_ROOM)
}

impl Id {
    fn path(&self, host: &dyn Host) -> PathRecord {
        let (dgid, dlid) = end_of(self, host, self.dst);
        let (sgid, slid) = end_of(self, host, self.src);
        PathRecord {
            service_id: self.connection.as_ref().map_or(0, |connection| connection.service_id),
            dgid,
            sgid,
            dlid,
            slid,
            flow_label: self.flow_label,
            traffic_class: self.type_of_service,
            mtu: self.path_mtu(),
            packet_life_time: self.packet_life_time(),
        }
    }
}

impl Cm {
    /// The way from an id to its peer.
    pub(super) fn ah_attr(&self, host: &dyn Host, key: Key) -> Result<AhAttr> {
        let id = self.ids.id(key)?;
        let source = id.source()?;
        let (dgid, dlid) = end_of(id, host, Some(id.dst.ok_or(UNBOUND)?));
        Ok(AhAttr {
            dgid,
            dlid,
            is_by_lid: dlid != 0,
            flow_label: id.flow_label,
            port_num: source.port_num,
            sgid_index: source.gid_index,
            traffic_class: id.type_of_service,
        })
    }

    pub(super) fn query(&mut self, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Vec<u8>> {
        let request = Query::decode(call.payload)?;
        let id = self.ids.id(self.ids.find(call.file, request.id)?)?;
        let device = id.device();
        match request.option {
            query::ADDR => {
                enough_room(call)?;
                Ok(AddressAnswer { device, pkey: id.pkey(), src: id.src, dst: id.dst }.encode())
            }
            query::PATH => {
                let path = id.has_path.then(|| id.path(cx.host));
                Ok(path_answer(path.as_slice(), call.room))
            }
            query::GID => {
                enough_room(call)?;
                let none = Sockaddr::Ib(IbAddress::default());
                let ib = |address: Option<Sockaddr>| {
                    Some(address.map_or(none, |address| as_ib(id, cx.host, address)))
                };
                let (pkey, src, dst) = (id.pkey(), ib(id.src), ib(id.dst));
                Ok(AddressAnswer { device, pkey, src, dst }.encode())
            }
            _ => Err(Errno::ENOSYS.because(Refusal::NoSuchQuery)),
        }
    }

    pub(super) fn query_route(&mut self, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Vec<u8>> {
        let key = self.ids.find(call.file, Target::decode(call.payload)?.id)?;
        let id = self.ids.id(key)?;
        let answer = RouteAnswer {
            device: id.device(),
            path: id.path(cx.host),
            is_resolved: id.has_path,
            src: id.src,
            dst: id.dst,
        };
        Ok(answer.encode())
    }
}
