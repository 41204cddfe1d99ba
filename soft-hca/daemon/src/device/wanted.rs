//! From what a command line says of a fabric's devices to the devices.

use std::net::IpAddr;

use soft_hca_core::device_spec::DeviceSpec;

use super::Device;
use super::interfaces::interfaces;

/// Node GUIDs of a fabric's devices are so far apart: between them are those of ports.
const GUIDS: u64 = 16;

/// The devices that these specifications ask for, the first with this GUID, and with the addresses of
/// the fabric's link to other hosts, if it has one.
pub fn devices(specs: &[DeviceSpec], node_guid: u64, link: &[IpAddr]) -> Vec<Device> {
    let mut lid = 1;
    let device = |(index, spec): (usize, &DeviceSpec)| {
        let (name, guid) = (spec.name.to_string(), node_guid + index as u64 * GUIDS);
        let device = if spec.is_infiniband {
            let first_lid = lid;
            lid += u16::from(spec.ports);
            Device::infiniband(&name, guid, spec.ports, first_lid, &interfaces())
        } else {
            Device::local(&name, guid, link)
        };
        Device { index, ..device }
    };
    specs.iter().enumerate().map(device).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::LinkLayer;

    #[test]
    fn devices_as_they_are_asked_for() {
        let specs =
            ["rxe0:infiniband,ports=2", "rxe1", "rxe2:infiniband"].map(|s| s.parse().unwrap());
        let devices = devices(&specs, 0x200, &[]);
        let guids = devices.iter().map(|device| device.node_guid);
        assert!(guids.eq([0x200, 0x210, 0x220]));
        let lids = devices.iter().map(|device| device.ports.iter().map(|port| port.lid).collect());
        let lids: Vec<Vec<u16>> = lids.collect();
        assert_eq!(lids, [vec![1, 2], vec![0], vec![3]]);
        let port = &devices[0].ports[1];
        assert_eq!((port.link_layer, port.sm_lid), (LinkLayer::InfiniBand, 1));
        assert_eq!(port.gids.gid(0)[..9], [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(port.gids.gid(0)[14..], [2, 2]);
        assert!(port.has_lid(2) && !port.has_lid(1) && !port.has_lid(0));
        assert!(!devices[1].ports[0].has_lid(0));
    }
}
