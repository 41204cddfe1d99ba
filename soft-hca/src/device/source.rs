//! Where packets come from: a device, a port of it and a GID of that port.

use std::net::IpAddr;
use std::sync::Arc;

use super::{Device, Port};

/// A GID of a port of a device (`struct ib_gid_attr`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The device.
    pub device: Arc<Device>,
    /// The port's number.
    pub port_num: u8,
    /// Index in the port's GID table.
    pub gid_index: u8,
}

impl Source {
    /// The port.
    pub fn port(&self) -> Option<&Port> {
        self.device.port(self.port_num).ok()
    }
}

/// The first of the devices' ports that has an address.
pub fn find_source(devices: &[Arc<Device>], ip: IpAddr) -> Option<Source> {
    devices.iter().find_map(|device| {
        device.ports.iter().find_map(|port| {
            let gid_index = port.gids.find(ip)?;
            Some(Source { device: Arc::clone(device), port_num: port.number, gid_index })
        })
    })
}
