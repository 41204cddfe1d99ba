//! Paths: where an address vector leads, and what becomes of connected queue pairs when ports go
//! down and come up.

use std::net::Ipv6Addr;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

use soft_hca_core::arena::port_counters::octets;
use soft_hca_core::engine::{Async, Env, Route};
use soft_hca_core::errno::{Errno, Label, Refusal, Result, Values, ensure};
use soft_hca_core::uapi::uverbs::request::QpDest;
use soft_hca_core::uapi::verbs::{PortState, qp_type, state};
use soft_hca_roce::wire::bth::{Bth, DEFAULT_PKEY};
use soft_hca_roce::wire::ip::{self, GRH_BYTES};
use soft_hca_roce::wire::packet::ICRC_BYTES;

use crate::device::{Device, GidTable, LinkLayer, PhysState, Port};
use crate::fabric::{Fabric, GONE};
use crate::migration::{Event, Outcome, State};
use crate::objects::{Path, QpObject};

/// LIDs from here on are multicast groups' (IBTA 4.1.3).
pub(crate) const FIRST_MLID: u16 = 0xc000;

/// Where a path leads that begins at a port of a device. On InfiniBand the LID decides, and one
/// that nobody has, or whose port is down, leads nowhere.
pub(crate) fn route_of(fabric: &Fabric, device: &Device, port: u8, to: &QpDest) -> Result<Route> {
    let port = device.port(port)?;
    if port.link_layer == LinkLayer::Ethernet {
        let is_global = to.is_global != 0;
        ensure(is_global, Errno::EINVAL.because(Refusal::NeedsGrh))?;
        let sgid = source_gid(&port.gids, to.sgid_index)?;
        let route = route_to(fabric, sgid, to.dgid)?;
        let leads_on = fabric.port_of_gid(to.dgid).is_none_or(Port::is_up);
        return Ok(if port.is_up() && leads_on { route } else { Route::Nowhere });
    }
    if to.is_global != 0 {
        source_gid(&port.gids, to.sgid_index)?;
    }
    let leads_on = to.dlid >= FIRST_MLID || fabric.port_of_lid(to.dlid).is_some_and(Port::is_up);
    Ok(if port.is_up() && leads_on { Route::Local } else { Route::Nowhere })
}

/// Octets of a packet that leaves by a port for a destination, without its payload and extended
/// headers: from the LRH (IBTA 7.7, 8.3), or the Ethernet header, to the ICRC.
pub(crate) fn packet_octets(port: &Port, to: &QpDest) -> u32 {
    const LRH: usize = 8;
    let transport = Bth::BYTES + ICRC_BYTES;
    let octets = match port.link_layer {
        LinkLayer::Ethernet => octets(ip::address(&to.dgid), transport),
        LinkLayer::InfiniBand if to.is_global != 0 => LRH + GRH_BYTES + transport,
        LinkLayer::InfiniBand => LRH + transport,
    };
    octets as u32
}

/// The way from one GID to another, as `rdma_addr_find_l2_eth_by_grh` looks for it: both are IPv4
/// addresses, or neither is, and somebody has the other. A kernel waits a second for the neighbour
/// to answer; here it is known at once that there is none.
pub(crate) fn route_to(fabric: &Fabric, sgid: [u8; 16], dgid: [u8; 16]) -> Result<Route> {
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
    } else if to.is_unspecified() {
        Err(Errno::EINVAL.because(Refusal::ZeroDgid))
    } else if from.is_ipv4() != to.is_ipv4() {
        Err(Errno::EINVAL.because(Refusal::GidFamilies))
    } else if !fabric.has_gid(dgid) {
        let nobody = Errno::ETIMEDOUT.because(Refusal::UnknownDgid);
        if fabric.roce.has_way(from, to) { Ok(Route::Remote) } else { Err(nobody) }
    } else if fabric.roce.is_taken_to_self(from, to) {
        Ok(Route::Remote)
    } else {
        Ok(Route::Local)
    }
}

/// The GID at an index of a port's table: `ENODATA` in an empty slot, as since Linux 5.10
/// (`rdma_get_gid_attr`), `EINVAL` beyond the table.
pub(crate) fn source_gid(gids: &GidTable, index: u8) -> Result<[u8; 16]> {
    let sgid = gids.gid(index);
    if sgid != [0; 16] {
        return Ok(sgid);
    }
    let is_in_table = u16::from(index) < gids.slots();
    let refusal = if is_in_table { Errno::ENODATA } else { Errno::EINVAL };
    let used = gids.entries().iter().filter(|entry| entry.gid != [0; 16]);
    Err(refusal.because(Refusal::SgidIndex).with(Values::of([
        (Label::Requested, index.into()),
        (Label::Entries, used.count() as u64),
        (Label::Limit, u64::from(gids.slots()) - 1),
    ])))
}

/// The P_Key at an index of a port's table; `EINVAL` in an empty place and beyond the table. A RoCE
/// port has one P_Key, and rxe does not look at the index.
pub(crate) fn partition_key(port: &Port, index: u16) -> Result<u16> {
    if port.link_layer == LinkLayer::Ethernet {
        return Ok(DEFAULT_PKEY);
    }
    let refusal = Errno::EINVAL.because(Refusal::PkeyIndex);
    let used = port.pkeys.iter().filter(|pkey| **pkey != 0);
    port.pkey(index).ok_or(refusal.with(Values::of([
        (Label::Requested, index.into()),
        (Label::Entries, used.count() as u64),
        (Label::Limit, (port.pkeys.len() as u64).saturating_sub(1)),
    ])))
}

impl Fabric {
    /// The port that a LID leads to.
    fn port_of_lid(&self, lid: u16) -> Option<&Port> {
        self.ports().find(|port| port.has_lid(lid))
    }

    /// The port of the fabric that has a GID.
    fn port_of_gid(&self, gid: [u8; 16]) -> Option<&Port> {
        self.ports().find(|port| port.gids.is_here(gid))
    }

    /// The GID of the port that a LID leads to; zeros if it leads nowhere.
    pub(crate) fn gid_of_lid(&self, lid: u16) -> [u8; 16] {
        self.port_of_lid(lid).map_or([0; 16], |port| port.gids.gid(0))
    }

    /// The bits of a LID that stand for a path to the port that has it; 0 if nobody has.
    pub(crate) fn path_bits_of_lid(&self, lid: u16) -> u8 {
        self.port_of_lid(lid).map_or(0, |port| port.path_bits(lid))
    }

    fn route_by(&self, object: &QpObject, path: &Path) -> Route {
        let device = self.devices.get(object.device);
        let route = device.map(|device| route_of(self, device, path.port_num, &path.dest));
        route.and_then(Result::ok).unwrap_or(Route::Nowhere)
    }

    /// Tells the data path where a queue pair's primary path begins and what its packets are like,
    /// for the counters.
    pub(crate) fn describe_path(&self, index: usize) {
        let Some(QpObject { device, path, .. }) = self.qps.get(index) else { return };
        let Some(device) = self.devices.get(*device) else { return };
        let qp = &self.arena.qps[index];
        qp.port.store(device.index as u32 * 8 + u32::from(path.port_num), Release);
        if let Ok(port) = device.port(path.port_num) {
            qp.packet_octets.store(packet_octets(port, &path.dest), Release);
            qp.max_message.store(port.max_message, Release);
            for (word, number) in qp.vendor_errors.iter().zip(device.vendor_errors.0) {
                word.store(number, Release);
            }
            qp.timeout_floor.store(device.timeout_floor.into(), Release);
        }
    }

    /// Has a connected queue pair take the way that its primary path leads now.
    pub(crate) fn reroute(&mut self, index: usize) {
        let Some(object) = self.qps.get(index) else { return };
        let route = self.route_by(object, &object.path);
        route.store(&self.arena.qps[index].route);
        if let Some(object) = self.qps.get_mut(index) {
            object.is_remote = matches!(route, Route::Remote | Route::MulticastLoopback);
        }
    }

    /// Has a queue pair send and take packets with the P_Key that its path names.
    pub(crate) fn enter_partition(&self, index: usize) {
        let Some(object) = self.qps.get(index) else { return };
        let device = self.devices.get(object.device);
        let port = device.and_then(|device| device.port(object.path.port_num).ok());
        let pkey = port.and_then(|port| partition_key(port, object.path.pkey_index).ok());
        self.arena.qps[index].pkey.store(pkey.unwrap_or(0).into(), Release);
    }

    /// The queue pair that is connected to this one, if both are of this fabric and connected.
    fn connected_to(&self, index: usize) -> Option<usize> {
        let qp = &self.arena.qps[index];
        let is_connected = |index: usize| {
            let state = self.arena.qps[index].state.load(Acquire);
            let is_of_type =
                self.qps.get(index).is_some_and(|object| object.qp_type != qp_type::UD);
            is_of_type && (state::RTR..=state::SQE).contains(&state)
        };
        let (peer, _) = self.qp_of(qp.dest_qpn.load(Acquire))?;
        let is_mutual = self.arena.qps[peer].dest_qpn.load(Acquire) == self.qps.get(index)?.qpn;
        (is_mutual && is_connected(index) && is_connected(peer)).then_some(peer)
    }

    /// Whether one queue pair's path is the other's, seen from the other end.
    fn is_same_path(
        &self,
        (qp, path): (&QpObject, &Path),
        (peer, back): (&QpObject, &Path),
    ) -> bool {
        let leads_to = |path: &Path, of: &QpObject, back: &Path| {
            let device = self.devices.get(of.device);
            let port = device.and_then(|device| device.port(back.port_num).ok());
            port.is_some_and(|port| port.source_lid(back.dest.src_path_bits) == path.dest.dlid)
        };
        leads_to(path, peer, back) && leads_to(back, qp, path)
    }

    /// A port's cable is pulled, or plugged in again. Queue pairs that have an alternate path
    /// migrate to it, if it leads somewhere; the others wait, until their retries are exhausted.
    /// Gives the device as it is now, unless nothing has changed.
    pub(crate) fn set_port(
        &mut self,
        device: usize,
        number: u8,
        is_up: bool,
    ) -> Result<Option<Arc<Device>>> {
        let device = self.devices.get_mut(device).ok_or(Errno::ENODEV)?;
        let (state, phys_state) = match is_up {
            true => (PortState::ACTIVE, PhysState::LinkUp),
            false => (PortState::DOWN, PhysState::Polling),
        };
        if device.port(number)?.state == state {
            return Ok(None);
        }
        for port in &mut Arc::make_mut(device).ports {
            if port.number == number {
                (port.state, port.phys_state) = (state, phys_state);
            }
        }
        let device = Arc::clone(device);
        if !is_up {
            self.count_down((device.index, number));
        }
        self.follow_ports(|_| true)?;
        Ok(Some(device))
    }

    /// Has the queue pairs that are meant, and all address handles, take the ways that their paths
    /// lead, now that ports have changed.
    pub(crate) fn follow_ports(&mut self, is_meant: impl Fn(&QpObject) -> bool) -> Result<()> {
        let connected = self.qps.iter().filter(|(_, object)| object.path.has_vector());
        let meant = connected.filter(|(_, object)| is_meant(object));
        let connected: Vec<usize> = meant.map(|(index, _)| index).collect();
        for &index in &connected {
            self.leave_lost_path(index)?;
        }
        connected.into_iter().for_each(|index| self.reroute(index));
        for (index, object) in self.ahs.iter() {
            let device = &self.devices[object.device];
            let route = route_of(self, device, object.dest.port_num, &object.dest);
            route.unwrap_or(Route::Nowhere).store(&self.arena.ahs[index].route);
        }
        Ok(())
    }

    /// Whether a queue pair's path leads nowhere, and another one that it has somewhere.
    fn has_lost_path(&self, index: usize) -> bool {
        let Some(object) = self.qps.get(index) else { return false };
        let leads_nowhere = |path: &Path| self.route_by(object, path) == Route::Nowhere;
        leads_nowhere(&object.path) && object.alternate.is_some_and(|path| !leads_nowhere(&path))
    }

    fn leave_lost_path(&mut self, index: usize) -> Result<()> {
        if self.has_lost_path(index) { self.migration(index, Event::PathLost) } else { Ok(()) }
    }

    /// Something happens to a queue pair's migration, and what follows of it to its peer's.
    /// `EINVAL` if it is what the program may not ask for.
    pub(crate) fn migration(&mut self, index: usize, event: Event) -> Result<()> {
        let object = self.qps.get_mut(index).ok_or(GONE)?;
        let qpn = object.qpn;
        match object.migration.after(event)? {
            Outcome::Stays(state) => {
                object.migration = state;
                let is_new = state == State::Rearm && matches!(event, Event::Requested { .. });
                let peer = self.connected_to(index).filter(|_| is_new);
                let is_ready = |object: &QpObject| object.migration != State::Migrated;
                let ready = peer.filter(|peer| self.qps.get(*peer).is_some_and(is_ready));
                if let Some(peer) = ready {
                    self.migration(index, Event::PeerIsReady)?;
                    self.migration(peer, Event::PeerIsReady)?;
                    self.leave_lost_path(index)?;
                    self.leave_lost_path(peer)?;
                }
            }
            Outcome::Migrates => {
                self.keep_counts(index);
                let object = self.qps.get_mut(index).ok_or(GONE)?;
                object.migration = State::Migrated;
                if let Some(path) = object.alternate.take() {
                    object.path = path;
                }
                let timeout = object.path.timeout;
                self.arena.qps[index].timeout.store(timeout.into(), Release);
                self.enter_partition(index);
                self.describe_path(index);
                self.reroute(index);
                self.raise_of_path(index, Async::PathMigrated(qpn));
                if let Some(peer) = self.connected_to(index) {
                    let is_alternate = self.is_alternate_of(peer, index);
                    self.migration(peer, Event::PeerMigrated { is_alternate })?;
                }
            }
            Outcome::Mismatch => self.raise_of_path(index, Async::PathMigrationFailed(qpn)),
        }
        Ok(())
    }

    fn raise_of_path(&self, index: usize, what: Async) {
        self.trace_path_event(index, what.event_type());
        self.env.raise(what);
    }

    /// Whether a queue pair's alternate path is the path that its peer has now.
    fn is_alternate_of(&self, index: usize, peer: usize) -> bool {
        let Some((object, peer)) = self.qps.get(index).zip(self.qps.get(peer)) else {
            return false;
        };
        let alternate = object.alternate.as_ref();
        alternate.is_some_and(|path| self.is_same_path((object, path), (peer, &peer.path)))
    }
}

#[cfg(test)]
mod tests;
