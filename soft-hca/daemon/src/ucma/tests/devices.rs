//! Several devices and ports: an id is bound to the one that has its address.

use soft_hca_core::uapi::ucma::event_type::{
    ADDR_ERROR, ADDR_RESOLVED, DEVICE_REMOVAL, DISCONNECTED, ROUTE_RESOLVED,
};

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
    let other = Device { ports, index: 1, ..Device::rxe("rxe1", OTHER_GUID, &[], 1) };
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

/// Two devices of InfiniBand, limited members of the default partition or not. Who may not hear the
/// other does not find it either.
#[test]
fn an_address_is_found_in_a_partition() {
    for (words, is_found) in
        [(["", ""], true), (["", ",pkey=0x7fff"], true), ([",pkey=0x7fff", ",pkey=0x7fff"], false)]
    {
        let spec = |(index, words): (usize, &str)| {
            let text = format!("rxe{index}:infiniband,address=10.8.0.{index},pkey=0x8001{words}");
            text.parse().unwrap()
        };
        let specs: Vec<_> = words.into_iter().enumerate().map(spec).collect();
        let (mut world, file, _) = World::with_files();
        let devices = crate::device::devices(&specs, GUID, &[]);
        world.machine.devices = devices.into_iter().map(Arc::new).collect();
        let id = world.create(file, 1, TCP);
        world.resolve_from(file, id, Some("10.8.0.0:0"), "10.8.0.1:7471").unwrap();
        assert_eq!(world.events(file).contains(&ADDR_RESOLVED), is_found, "{words:?}");
        let addresses = world.about(file, command::QUERY, id, 0).unwrap();
        assert_eq!(addresses[10..12], [0xff, 0xff]);
        // The P_Key is the table's first.
        let attr = world.about(file, command::INIT_QP_ATTR, id, 1).unwrap();
        assert_eq!(attr[128..130], [0, 0]);
        world.pass(2 * S);
        assert_eq!(world.events(file).contains(&ADDR_ERROR), !is_found, "{words:?}");
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

#[test]
fn a_device_is_removed() {
    let (mut world, server, client) = world();
    let everywhere = world.listener(server, 1, TCP, "0.0.0.0:7471");
    let own = world.listener(server, 9, TCP, "10.9.2.1:7472");
    let active = world.create(client, 2, TCP);
    world.resolve_from(client, active, Some("10.9.0.1:0"), "10.9.2.1:7471").unwrap();
    world.route(client, active).unwrap();
    let param = ConnParam { qp_num: 0x11, ..ConnParam::default() };
    world.connect(client, active, &param).unwrap();
    let accepted = word(&world.event(server).unwrap(), 8);
    world.accept(server, accepted, 3, &param).unwrap();
    world.establish(client, active).unwrap();
    [server, client].iter().for_each(|file| drop(world.events(*file)));
    let now = world.now;
    world.cm.remove_device(&mut world.machine, 1, now);
    // Each id that is bound to the device, and their peers.
    assert_eq!(world.statuses(server), [(DEVICE_REMOVAL, 0), (DEVICE_REMOVAL, 0)]);
    assert_eq!(world.events(client), [DISCONNECTED]);
    for id in [own, accepted] {
        assert_eq!(world.about(server, command::QUERY, id, 0), Err(Errno::ENXIO));
        assert_eq!(world.disconnect(server, id), Err(Errno::ENXIO));
        assert!(world.destroy(server, id).is_ok_and(|reported| reported > 0));
        assert_eq!(world.destroy(server, id), Err(Errno::ENOENT));
    }
    assert!(world.about(server, command::QUERY, everywhere, 0).is_ok());
    world.close(server);
    world.close(client);
    check_empty(&world);
}

/// No event comes after the removal's.
#[test]
fn both_ends_are_of_the_device_that_is_removed() {
    let (mut world, server, client) = World::with_files();
    world.connected(server, client);
    [server, client].iter().for_each(|file| drop(world.events(*file)));
    let now = world.now;
    world.cm.remove_device(&mut world.machine, 0, now);
    assert_eq!(
        (world.events(server), world.events(client)),
        (vec![DEVICE_REMOVAL; 2], vec![DEVICE_REMOVAL])
    );
    world.close(server);
    world.close(client);
    check_empty(&world);
}
