use soft_hca_core::uapi::ucma::event_type::{CONNECT_REQUEST, UNREACHABLE};

use super::*;
use crate::ucma::timer::{GIVE_UP_NS, LISTENER_NS};

#[test]
fn a_service_is_found_byte_by_byte() {
    let (mut world, server, client) = World::with_files();
    let listener = world.listener(server, 0x51, UDP, "0.0.0.0:7174");
    let active = world.routed(client, 0xc1, UDP, "10.9.0.1:7174");
    let attr = world.about(client, command::INIT_QP_ATTR, active, 1).unwrap();
    assert_eq!((word(&attr, 0), word(&attr, 20)), (0x71, 0x0123_4567));

    let param = ConnParam { qp_num: 0x11, private_data: vec![3; 180], ..ConnParam::default() };
    let too_long = ConnParam { private_data: vec![3; 181], ..param.clone() };
    assert_eq!(world.connect(client, active, &too_long), Err(Errno::EINVAL));
    world.connect(client, active, &param).unwrap();
    let event = world.event(server).unwrap();
    let expected =
        bytes(336, &[(0, &[0x51]), (8, &[2]), (12, &[4]), (60, &[3; 180]), (316, &[180])]);
    assert_eq!(event[..], expected);
    let request = 2;
    // A request for a service has no path.
    assert_eq!(world.about(server, command::QUERY, request, 1).unwrap(), [0; 8]);
    let attr = world.about(server, command::INIT_QP_ATTR, request, 1).unwrap();
    assert_eq!(word(&attr, 0), 0x71);

    let answer = ConnParam { qp_num: 0x12, private_data: b"yes".to_vec(), ..ConnParam::default() };
    world.accept(server, request, 0x5a, &answer).unwrap();
    let event = world.event(client).unwrap();
    let flow = event[44..48].to_vec();
    let gid = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, 1];
    let expected = bytes(
        336,
        &[
            (0, &[0xc1]),
            (8, &[active as u8]),
            (12, &[9]),
            (20, &[0x12, 0, 0, 0, 0x67, 0x45, 0x23, 0x01]),
            (28, &gid),
            (44, &flow),
            (48, &[1, 64]),
            (57, &[1, 1]),
            (60, b"yes"),
            (316, &[136]),
        ],
    );
    assert_eq!(event[..], expected);
    // The side that was asked hears nothing, and there is nothing to disconnect or expire.
    assert_eq!(world.events(server), [0; 0]);
    assert_eq!(world.disconnect(client, active), Err(Errno::EINVAL));
    assert_eq!(world.disconnect(server, request), Err(Errno::EINVAL));
    assert_eq!(world.accept(server, request, 1, &answer), Err(Errno::EINVAL));
    assert_eq!(world.cm.next_timer(), None);
    assert_eq!(world.destroy(client, active), Ok(3));
    assert_eq!(world.destroy(server, request), Ok(0));
    assert_eq!(world.destroy(server, listener), Ok(1));
}

fn active(world: &mut World, client: FileId) -> u32 {
    let active = world.routed(client, 0xc1, UDP, "10.9.0.1:7174");
    world.connect(client, active, &ConnParam::default()).unwrap();
    active
}

#[test]
fn nobody_offers_the_service() {
    let (mut world, server, client) = World::with_files();
    // The same port of the other space is another thing.
    world.listener(server, 1, TCP, "10.9.0.1:7174");
    active(&mut world, client);
    assert_eq!(world.events(client), [0; 0]);
    world.pass(LISTENER_NS);
    let event = world.event(client).unwrap();
    assert_eq!((word(&event, 12), word(&event, 16), event[316]), (7, 1, 136));
}

#[test]
fn somebody_offers_the_service_in_time() {
    let (mut world, server, client) = World::with_files();
    active(&mut world, client);
    world.listener(server, 1, UDP, "10.9.0.1:7174");
    assert_eq!(world.events(server), [CONNECT_REQUEST]);
    world.pass(LISTENER_NS);
    assert_eq!(world.events(client), [0; 0]);
}

#[test]
fn a_refused_service() {
    let (mut world, server, client) = World::with_files();
    world.listener(server, 1, UDP, "10.9.0.1:7174");
    active(&mut world, client);
    let request = word(&world.event(server).unwrap(), 8);
    assert_eq!(world.reject(server, request, 0, &[1; 137]), Err(Errno::EINVAL));
    world.reject(server, request, 0, b"no").unwrap();
    let event = world.event(client).unwrap();
    assert_eq!((word(&event, 12), word(&event, 16), event[316]), (7, 2, 136));
    assert_eq!(event[60..63], *b"no\0");
    assert_eq!(world.reject(server, request, 0, &[]), Err(Errno::EINVAL));

    active(&mut world, client);
    let request = word(&world.event(server).unwrap(), 8);
    world.destroy(server, request).unwrap();
    assert_eq!(world.statuses(client), [(UNREACHABLE, 2)]);

    active(&mut world, client);
    let request = word(&world.event(server).unwrap(), 8);
    let too_long = ConnParam { private_data: vec![1; 137], ..ConnParam::default() };
    assert_eq!(world.accept(server, request, 1, &too_long), Err(Errno::EINVAL));
    assert_eq!(world.statuses(client), [(UNREACHABLE, 2)]);
}

#[test]
fn a_service_request_that_nobody_answers() {
    let (mut world, server, client) = World::with_files();
    world.listener(server, 1, UDP, "10.9.0.1:7174");
    active(&mut world, client);
    world.pass(GIVE_UP_NS - 1);
    assert_eq!(world.events(client), [0; 0]);
    world.pass(1);
    assert_eq!(world.statuses(client), [(UNREACHABLE, TIMED_OUT)]);
    // A late answer does no harm.
    let request = word(&world.event(server).unwrap(), 8);
    world.accept(server, request, 1, &ConnParam::default()).unwrap();
    assert_eq!(world.events(client), [0; 0]);
}

#[test]
fn whoever_asks_leaves() {
    let (mut world, server, client) = World::with_files();
    world.listener(server, 1, UDP, "10.9.0.1:7174");
    let active = active(&mut world, client);
    world.destroy(client, active).unwrap();
    let request = word(&world.event(server).unwrap(), 8);
    world.accept(server, request, 1, &ConnParam::default()).unwrap();
    assert_eq!((world.events(server), world.events(client)), (vec![], vec![]));
    assert_eq!(world.cm.next_timer(), None);
}

#[test]
fn a_full_backlog_refuses_services() {
    let (mut world, server, client) = World::with_files();
    let listener = world.create(server, 1, UDP);
    world.bind(server, listener, "10.9.0.1:7174").unwrap();
    world.listen(server, listener, 1).unwrap();
    active(&mut world, client);
    assert_eq!(world.events(client), [0; 0]);
    active(&mut world, client);
    assert_eq!(world.statuses(client), [(UNREACHABLE, 2)]);
}
