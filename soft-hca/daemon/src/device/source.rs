//! Where packets come from: a device, a port of it and a GID of that port.

use std::net::IpAddr;
use std::sync::Arc;

use super::mtu::path_mtu_of;
use super::{Device, Port};

/// A GID of a port of a device (`struct ib_gid_attr`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    /// The device.
    pub device: Arc<Device>,
    /// The port's number.
    pub port_num: u8,
    /// Index in the port's GID table.
    pub gid_index: u8,
}

impl Source {
    /// The port.
    pub(crate) fn port(&self) -> Option<&Port> {
        self.device.port(self.port_num).ok()
    }

    /// The MTU of paths that leave this machine by the GID's network interface (`ib_mtu`), not
    /// above the port's.
    pub(crate) fn path_mtu(&self) -> u8 {
        let Some(port) = self.port() else { return 0 };
        let netdev = port.gids.entries().get(usize::from(self.gid_index));
        let netdev = netdev.and_then(|entry| entry.netdev.as_deref());
        let of_port = port.active_mtu();
        netdev.map_or(of_port, |name| of_port.min(path_mtu_of(name)))
    }
}

/// The first of the devices' ports that has an address.
pub(crate) fn find_source(devices: &[Arc<Device>], ip: IpAddr) -> Option<Source> {
    devices.iter().find_map(|device| {
        device.ports.iter().find_map(|port| {
            let gid_index = port.gids.find(ip)?;
            Some(Source { device: Arc::clone(device), port_num: port.number, gid_index })
        })
    })
}
