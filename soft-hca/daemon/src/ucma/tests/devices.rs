//! Several devices and ports: an id is bound to the one that has its address.

use soft_hca_core::uapi::ucma::event_type::{ADDR_RESOLVED, ROUTE_RESOLVED};

use super::*;
use crate::device::Port;

const OTHER_GUID: u64 = 0x0277_5cff_fed2_226d;

fn port(number: u8, address: &str, mtu: u32) -> Port {
    let name = format!("lan{number}");
    let addresses = vec![address.parse().unwrap()];
    let interface = Interface { name, addresses, mtu, ..Interface::default() };
    Port::rxe(number, &[interface], &[], number.into())
}

/// Beside the usual device one with 10.9.1.1 at port 1 and 10.9.2.1 at port 2.
fn world() -> (World, FileId, FileId) {
    let (mut world, server, client) = World::with_files();
    let ports = vec![port(1, "10.9.1.1", 1500), port(2, "10.9.2.1", 9000)];
    let other = Device { ports, ..Device::rxe("rxe1", OTHER_GUID, &[], 1) };
    world.machine.devices.push(Arc::new(other));
    (world, server, client)
}

#[test]
fn an_id_is_of_the_port_that_has_its_address() {
    let (mut world, file, _) = world();
    for (address, guid, port) in
        [("10.9.0.1:0", GUID, 1), ("10.9.1.1:0", OTHER_GUID, 1), ("10.9.2.1:0", OTHER_GUID, 2)]
    {
        let id = world.create(file, 1, TCP);
        world.bind(file, id, address).unwrap();
        let answer = world.about(file, command::QUERY, id, 0).unwrap();
        assert_eq!((&answer[..8], answer[8]), (&guid.to_be_bytes()[..], port), "{address}");
        let route = world.about(file, command::QUERY_ROUTE, id, 0).unwrap();
        assert_eq!((&route[..8], route[196]), (&guid.to_be_bytes()[..], port), "{address}");
        let attr = world.about(file, command::INIT_QP_ATTR, id, 1).unwrap();
        assert_eq!(attr[133], port, "{address}");
    }
}

#[test]
fn a_connection_leads_from_port_to_port() {
    let (mut world, server, client) = world();
    world.listener(server, 1, TCP, "0.0.0.0:7471");
    let active = world.create(client, 2, TCP);
    world.resolve_from(client, active, Some("10.9.2.1:0"), "10.9.0.1:7471").unwrap();
    world.route(client, active).unwrap();
    assert_eq!(world.events(client), [ADDR_RESOLVED, ROUTE_RESOLVED]);
    let param = ConnParam { qp_num: 0x11, ..ConnParam::default() };
    world.connect(client, active, &param).unwrap();
    let accepted = word(&world.event(server).unwrap(), 8);
    world.accept(server, accepted, 3, &param).unwrap();
    // For RTR: path MTU; where to, GID index and port of the address handle.
    let mut rtr = |file, id| {
        let attr = world.about(file, command::INIT_QP_ATTR, id, 2).unwrap();
        (word(&attr, 12), [attr[54], attr[55]], attr[60], attr[70])
    };
    assert_eq!(rtr(client, active), (5, [0, 1], 1, 2));
    // The path is as whoever asked has it.
    assert_eq!(rtr(server, accepted), (5, [2, 1], 1, 1));
}
