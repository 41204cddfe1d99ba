//! From what a command line says of a fabric's devices to the devices.

use std::net::{IpAddr, Ipv4Addr};

use soft_hca_core::device_spec::DeviceSpec;

use super::Device;
use super::infiniband::Subnet;
use super::interfaces::interfaces;
use super::like;
use super::rxe::usual_netdev;

/// Node GUIDs of a fabric's devices are so far apart: between them are those of ports.
const GUIDS: u64 = 16;

/// The address of a port that has none of the machine's: of a network for measurements, which leads
/// nowhere (RFC 2544).
fn made_up(device: usize, port: u8) -> IpAddr {
    Ipv4Addr::new(198, 18, device as u8, port).into()
}

/// The devices that these specifications ask for, the first with this GUID, and with the addresses
/// of the fabric's link to other hosts, if it has one.
pub fn devices(specs: &[DeviceSpec], node_guid: u64, link: &[IpAddr]) -> Vec<Device> {
    let (mut lid, mut sm_lid) = (1_u16, None);
    let interfaces = interfaces();
    let of_machine = || interfaces.iter().flat_map(|i| i.addresses.iter().copied());
    let device = |(index, spec): (usize, &DeviceSpec)| {
        let (name, guid) = (spec.name.to_string(), node_guid + index as u64 * GUIDS);
        let addresses = |port: u8| match &spec.addresses[..] {
            [] if index == 0 && port == 1 => of_machine().collect(),
            [_, ..] if port == 1 => spec.addresses.clone(),
            _ => vec![made_up(index, port)],
        };
        let device = if spec.is_infiniband {
            let first_lid = lid.next_multiple_of(1 << spec.lmc);
            lid = first_lid + (u16::from(spec.ports) << spec.lmc);
            // The subnet manager is at the fabric's first port.
            let sm_lid = *sm_lid.get_or_insert(first_lid);
            let subnet = Subnet { first_lid, lmc: spec.lmc, sm_lid, pkeys: spec.pkey_table() };
            let ports = (1..=spec.ports).map(addresses);
            let mut device = Device::infiniband(&name, guid, ports, &subnet);
            if index == 0 && spec.addresses.is_empty() {
                device.ports[0].netdev = usual_netdev(&interfaces);
            }
            device
        } else if index == 0 && spec.addresses.is_empty() {
            Device::local(&name, guid, link)
        } else {
            Device::with_addresses(&name, guid, addresses(1), &interfaces)
        };
        let mut device = Device { index, numa_node: spec.numa_node, pci: spec.pci, ..device };
        if let Some(profile) = spec.like.as_deref().and_then(like::profile) {
            profile.shape(&mut device);
        }
        device
    };
    specs.iter().enumerate().map(device).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{LinkLayer, Port};

    #[test]
    fn devices_as_they_are_asked_for() {
        let specs = ["rxe0:infiniband,ports=2", "rxe1", "rxe2:infiniband,address=10.7.0.1"]
            .map(|s| s.parse().unwrap());
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
        let ips =
            devices.iter().flat_map(|device| &device.ports).map(|port| port.gids.ips().last());
        let ips: Vec<Option<IpAddr>> = ips.skip(1).collect();
        let expected = ["198.18.0.2", "198.18.1.1", "10.7.0.1"];
        assert_eq!(ips, expected.map(|ip| ip.parse().ok()));
        assert_eq!(devices[1].ports[0].gids.gid(1)[10..], [0xff, 0xff, 198, 18, 1, 1]);
    }

    #[test]
    fn each_port_has_lids_of_its_own() {
        let specs = ["rxe0:infiniband,ports=2", "rxe1:infiniband,ports=2,lmc=2", "rxe2:infiniband"];
        let devices = devices(&specs.map(|s| s.parse().unwrap()), 0x200, &[]);
        let ports: Vec<&Port> = devices.iter().flat_map(|device| &device.ports).collect();
        let lids = ports.iter().map(|port| port.lid);
        assert!(lids.eq([1, 2, 4, 8, 12]));
        for lid in 0..16 {
            let is_one_of_two = lid == 1 || lid == 2 || (4..=12).contains(&lid);
            let found = ports.iter().filter(|port| port.has_lid(lid)).count();
            assert_eq!(found, usize::from(is_one_of_two), "{lid}");
        }
        assert!(ports.iter().all(|port| port.sm_lid == 1));
        assert_eq!([0, 3, 4, 0x7f].map(|bits| ports[2].source_lid(bits)), [4, 7, 4, 7]);
        assert_eq!((ports[0].source_lid(1), ports[3].path_bits(10)), (1, 2));
        let first = super::devices(&["rxe0:infiniband,lmc=7".parse().unwrap()], 0, &[]);
        assert_eq!((first[0].ports[0].lid, first[0].ports[0].sm_lid), (128, 128));
    }

    #[test]
    fn each_port_has_the_devices_p_keys() {
        let spec = "rxe0:infiniband,ports=2,pkey=0x8001,pkey=2".parse().unwrap();
        let devices = devices(&[spec], 0x200, &[]);
        for port in &devices[0].ports {
            let pkeys = [0, 1, 2, 3, 15, 16].map(|index| port.pkey(index));
            assert_eq!(pkeys, [Some(0xffff), Some(0x8001), Some(2), None, None, None]);
            assert_eq!(port.pkeys.len(), usize::from(devices[0].limits.max_pkeys));
        }
    }
}
