use soft_hca_core::uapi::ucma::event_type::{
    ADDR_RESOLVED, CONNECT_REQUEST, CONNECT_RESPONSE, DISCONNECTED, ESTABLISHED, REJECTED,
    ROUTE_RESOLVED,
};

use super::*;
use crate::ucma::MIGRATE_ID;
use crate::ucma::timer::LISTENER_NS;

#[test]
fn a_file_ends_and_its_peers_hear() {
    let (mut world, server, client) = World::with_files();
    let (_, accepted, active) = world.connected(server, client);
    let pending = world.routed(client, 0xc2, TCP, "10.9.0.1:7471");
    world.connect(client, pending, &ConnParam::default()).unwrap();
    world.close(server);
    // The listener, with the request that it has not fetched, is the oldest id.
    assert_eq!(world.statuses(client), [(REJECTED, CONSUMER_DEFINED), (DISCONNECTED, 0)]);
    assert_eq!(world.cm.pending_events(server), 0);
    assert_eq!(world.disconnect(server, accepted), Err(Errno::EBADF));
    // The port is free at once.
    let late = world.routed(client, 0xc3, TCP, "10.9.0.1:7471");
    world.connect(client, late, &ConnParam::default()).unwrap();
    world.pass(LISTENER_NS);
    assert_eq!(world.statuses(client), [(REJECTED, 8)]);
    world.disconnect(client, active).unwrap();
    world.close(client);
    assert_eq!(world.cm.listing(), []);
    assert_eq!(world.cm.next_timer(), None);
}

#[test]
fn the_asking_process_dies() {
    let (mut world, server, client) = World::with_files();
    let (_, accepted, _) = world.connected(server, client);
    world.close(client);
    assert_eq!(world.statuses(server), [(DISCONNECTED, 0)]);
    world.disconnect(server, accepted).unwrap();
    assert_eq!(world.cm.listing().len(), 2);
}

#[test]
fn both_ends_in_one_file() {
    let (mut world, file, _) = World::with_files();
    world.listener(file, 1, TCP, "127.0.0.1:7471");
    let active = world.create(file, 2, TCP);
    world.resolve(file, active, "127.0.0.1:7471").unwrap();
    world.route(file, active).unwrap();
    world.connect(file, active, &ConnParam::default()).unwrap();
    assert_eq!(world.cm.pending_events(file), 3);
    world.close(file);
    assert_eq!(world.cm.listing(), []);
}

fn migrate(world: &mut World, to: FileId, id: u32, from: FileId) -> Result<u32> {
    world.about(to, MIGRATE_ID, id, from).map(|answer| word(&answer, 0))
}

#[test]
fn an_id_moves_with_its_events() {
    let (mut world, old, new) = World::with_files();
    let id = world.create(old, 1, TCP);
    let other = world.create(old, 2, TCP);
    world.resolve(old, id, "10.9.0.1:1").unwrap();
    assert_eq!(world.events(old), [ADDR_RESOLVED]);
    world.route(old, id).unwrap();
    world.resolve(old, other, "10.9.0.1:1").unwrap();
    assert_eq!(migrate(&mut world, new, id, new), Err(Errno::EINVAL));
    assert_eq!(migrate(&mut world, new, id, 99), Err(Errno::ENOENT));
    assert_eq!(migrate(&mut world, new, 99, old), Err(Errno::ENOENT));
    world.cm.touched();
    assert_eq!(migrate(&mut world, new, id, old), Ok(1));
    assert_eq!(world.cm.touched(), [old, new]);
    assert_eq!((world.events(old), world.events(new)), (vec![ADDR_RESOLVED], vec![ROUTE_RESOLVED]));
    assert_eq!(world.destroy(old, id), Err(Errno::EINVAL));
    assert_eq!(world.destroy(new, id), Ok(2));
}

#[test]
fn an_accepted_id_moves() {
    let (mut world, server, client) = World::with_files();
    let own = world.cm.open(1);
    let (_, accepted, active) = world.connected(server, client);
    assert_eq!(migrate(&mut world, own, accepted, server), Ok(1));
    world.disconnect(client, active).unwrap();
    assert_eq!((world.events(server), world.events(own)), (vec![], vec![DISCONNECTED]));
    world.close(server);
    assert!(world.disconnect(own, accepted).is_ok());
    assert_eq!(world.events(client), [DISCONNECTED]);
}

#[test]
fn a_listener_moves_with_unfetched_requests() {
    let (mut world, server, client) = World::with_files();
    let own = world.cm.open(1);
    let listener = world.listener(server, 1, TCP, "10.9.0.1:7471");
    let active = world.routed(client, 2, TCP, "10.9.0.1:7471");
    world.connect(client, active, &ConnParam::default()).unwrap();
    assert_eq!(migrate(&mut world, own, listener, server), Ok(0));
    let request = word(&world.event(own).unwrap(), 8);
    world.accept(own, request, 3, &ConnParam::default()).unwrap();
    assert_eq!(world.events(client), [CONNECT_RESPONSE]);
    assert_eq!(world.destroy(own, listener), Ok(1));
}

#[test]
fn an_unfetched_request_moves_with_its_own_events() {
    let (mut world, server, client) = World::with_files();
    let own = world.cm.open(1);
    let listener = world.listener(server, 1, TCP, "10.9.0.1:7471");
    let active = world.routed(client, 2, TCP, "10.9.0.1:7471");
    world.connect(client, active, &ConnParam::default()).unwrap();
    // Accepted by the number that it must have.
    let request = active + 1;
    world.accept(server, request, 3, &ConnParam::default()).unwrap();
    world.establish(client, active).unwrap();
    assert_eq!(world.cm.pending_events(server), 2);
    // Wherever it was meanwhile.
    assert_eq!(migrate(&mut world, client, request, server), Ok(0));
    assert_eq!(migrate(&mut world, own, listener, server), Ok(0));
    assert_eq!(world.cm.pending_events(server), 0);
    assert_eq!(world.events(own), [CONNECT_REQUEST, ESTABLISHED]);
}

#[test]
fn numbers_are_used_again() {
    let (mut world, file, other) = World::with_files();
    let ids: Vec<u32> = (1..5).map(|uid| world.create(file, uid, TCP)).collect();
    assert_eq!(ids, [0, 1, 2, 3]);
    world.resolve(file, 1, "10.9.0.1:1").unwrap();
    assert_eq!(world.destroy(file, 1), Ok(0));
    assert_eq!(world.events(file), [0; 0]);
    assert_eq!(world.destroy(file, 1), Err(Errno::ENOENT));
    assert_eq!(world.create(other, 9, TCP), 1);
    assert_eq!(world.destroy(file, 1), Err(Errno::EINVAL));
}

#[test]
fn a_name_comes_with_acceptance() {
    let (mut world, server, client) = World::with_files();
    world.listener(server, 0, TCP, "10.9.0.1:7471");
    // An id without a name gets no events, but a listener gets its requests.
    let active = world.create(client, 0, TCP);
    world.resolve(client, active, "10.9.0.1:7471").unwrap();
    world.route(client, active).unwrap();
    assert_eq!(world.events(client), [0; 0]);
    world.connect(client, active, &ConnParam::default()).unwrap();
    assert_eq!(world.events(server), [CONNECT_REQUEST]);
}

#[test]
fn files_that_have_changed() {
    let (mut world, server, client) = World::with_files();
    world.cm.touched();
    let (..) = world.connected(server, client);
    assert_eq!(world.cm.touched(), [server, client]);
    assert_eq!(world.cm.touched(), [0; 0]);
}

#[test]
fn unknown_commands_and_small_rooms() {
    let (mut world, file, _) = World::with_files();
    assert_eq!(world.run(file, 25, &[0; 300]), Err(Errno::EINVAL));
    assert_eq!(world.run(file, u32::MAX, &[0; 300]), Err(Errno::EINVAL));
    assert_eq!(world.run(file, command::GET_OPTION, &[0; 300]), Err(Errno::ENOSYS));
    assert_eq!(world.run(file, command::GET_EVENT, &[0; 8]), Err(Errno::EAGAIN));
    assert_eq!(world.run(99, command::CREATE_ID, &[0; 24]), Err(Errno::EBADF));
    let id = world.create(file, 1, TCP);
    for (number, room) in [
        (command::CREATE_ID, 3),
        (command::DESTROY_ID, 0),
        (command::QUERY_ROUTE, 199),
        (command::INIT_QP_ATTR, 143),
        (command::GET_EVENT, 323),
        (command::JOIN_IP_MCAST, 3),
        (command::LEAVE_MCAST, 3),
        (command::MIGRATE_ID, 3),
        (command::QUERY, 100),
        (command::QUERY, 7),
        (command::JOIN_MCAST, 3),
    ] {
        let payload = bytes(152, &[(8, &id.to_le_bytes())]);
        let answer = world.cm.command(&mut world.machine, file, number, &payload, room, 0);
        assert_eq!(answer, Err(Errno::ENOSPC), "command {number} with room for {room} bytes");
    }
    // GET_EVENT as a command, for a library that knows no vendor's options.
    world.resolve(file, id, "10.9.0.1:1").unwrap();
    let answer = world.cm.command(&mut world.machine, file, command::GET_EVENT, &[0; 8], 324, 0);
    assert_eq!(answer.unwrap().len(), 324);
}

#[test]
fn whoever_never_fetches_is_stopped() {
    let (mut world, file, _) = World::with_files();
    let id = world.create(file, 1, TCP);
    world.bind(file, id, "10.9.0.1:0").unwrap();
    let mut refused = None;
    for _ in 0..0x4001 {
        refused = world.resolve(file, id, "10.9.0.99:1").err();
        world.pass(2 * S);
    }
    assert_eq!(refused, Some(Errno::ENOMEM));
    assert_eq!(world.cm.pending_events(file), 0x4000);
    world.close(file);
}
