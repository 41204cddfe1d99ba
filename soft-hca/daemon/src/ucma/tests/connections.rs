use soft_hca_core::uapi::ucma::event_type::{
    CONNECT_REQUEST, CONNECT_RESPONSE, DISCONNECTED, ESTABLISHED, INTERNAL, REJECTED,
    TIMEWAIT_EXIT, UNREACHABLE,
};

use super::*;
use crate::ucma::timer::{GIVE_UP_NS, LISTENER_NS, RESPONSE_NS, TIME_WAIT_NS};

fn asked() -> ConnParam {
    ConnParam {
        qp_num: 0x000011,
        private_data: b"hello".to_vec(),
        srq: 1,
        responder_resources: 4,
        initiator_depth: 3,
        flow_control: 1,
        retry_count: 9,
        rnr_retry_count: 6,
        ..ConnParam::default()
    }
}

fn answered() -> ConnParam {
    ConnParam {
        qp_num: 0x000012,
        private_data: b"welcome".to_vec(),
        srq: 0,
        responder_resources: 2,
        initiator_depth: 1,
        flow_control: 1,
        retry_count: 5,
        rnr_retry_count: 7,
        ..ConnParam::default()
    }
}

fn qp_attr(world: &mut World, file: FileId, id: u32, state: u32) -> Result<Vec<u8>> {
    world.about(file, command::INIT_QP_ATTR, id, state)
}

#[test]
fn a_whole_connection_byte_by_byte() {
    let (mut world, server, client) = World::with_files();
    let listener = world.listener(server, 0x51, TCP, "0.0.0.0:7471");
    let active = world.routed(client, 0xc1, TCP, "10.9.0.1:7471");
    // Before the request: nothing but what every queue pair needs.
    let attr = qp_attr(&mut world, client, active, 2).unwrap();
    assert_eq!((word(&attr, 0), word(&attr, 4), word(&attr, 36)), (0x39, 2, 0));

    world.connect(client, active, &asked()).unwrap();
    let request = 2;
    let event = world.event(server).unwrap();
    let param: &[u8] = &[0x11, 0, 0, 0, 0, 0, 0, 0, b'h', b'e', b'l', b'l', b'o'];
    let expected = bytes(
        336,
        &[
            (0, &[0x51]),
            (8, &[request as u8]),
            (12, &[4]),
            (20, param),
            (284, &[56, 1, 3, 4, 1, 7, 6]),
        ],
    );
    assert_eq!(event[..], expected);
    assert_eq!(world.event(server), None);

    // The passive side's queue pair, before it accepts.
    let attr = qp_attr(&mut world, server, request, 1).unwrap();
    assert_eq!((word(&attr, 0), word(&attr, 36), attr[133]), (0x39, 0x0e, 1));
    let passive_rtr = qp_attr(&mut world, server, request, 2).unwrap();
    assert_eq!((word(&passive_rtr, 0), word(&passive_rtr, 12)), (0x129181, 3));
    assert_eq!((word(&passive_rtr, 32), passive_rtr[131], passive_rtr[132]), (0x11, 3, 0));
    let passive_rts = qp_attr(&mut world, server, request, 3).unwrap();
    assert_eq!(word(&passive_rts, 0), 0x12e01);
    // max_rd_atomic; timeout, retry_cnt, rnr_retry
    assert_eq!((passive_rts[130], &passive_rts[134..137]), (4, &[19, 7, 6][..]));
    // The active side's can only be initialised so far.
    assert_eq!(word(&qp_attr(&mut world, client, active, 1).unwrap(), 36), 0x0e);
    assert_eq!(qp_attr(&mut world, client, active, 2), Err(Errno::EINVAL));

    world.accept(server, request, 0x5a, &answered()).unwrap();
    let event = world.event(client).unwrap();
    let param: &[u8] = &[0x12, 0, 0, 0, 0, 0, 0, 0, b'w', b'e', b'l', b'c', b'o', b'm', b'e'];
    let expected = bytes(
        336,
        &[
            (0, &[0xc1]),
            (8, &[active as u8]),
            (12, &[5]),
            (20, param),
            (284, &[196, 0, 1, 2, 1, 0, 7]),
        ],
    );
    assert_eq!(event[..], expected);

    let rtr = qp_attr(&mut world, client, active, 2).unwrap();
    let rts = qp_attr(&mut world, client, active, 3).unwrap();
    assert_eq!((word(&rtr, 32), rtr[131]), (0x12, 1));
    assert_eq!(rtr[40..56], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, 1]);
    assert_eq!((rtr[60], rtr[61], rtr[69], rtr[70]), (1, 64, 1, 1));
    assert_eq!((rts[130], &rts[134..137]), (2, &[19, 7, 7][..]));
    // One side expects the PSN that the other sends first.
    assert_eq!(word(&rtr, 24), word(&passive_rts, 28));
    assert_eq!(word(&rts, 28), word(&passive_rtr, 24));
    assert_ne!(word(&rtr, 24), word(&passive_rtr, 24));

    world.establish(client, active).unwrap();
    let expected = bytes(336, &[(0, &[0x5a]), (8, &[request as u8]), (12, &[9])]);
    assert_eq!(world.event(server).unwrap()[..], expected);
    assert_eq!(world.event(client), None);

    // The peer hears at once; whoever disconnects hears when the peer has answered.
    world.disconnect(client, active).unwrap();
    let expected = bytes(336, &[(0, &[0x5a]), (8, &[request as u8]), (12, &[10])]);
    assert_eq!(world.event(server).unwrap()[..], expected);
    assert_eq!(world.event(client), None);
    assert_eq!(qp_attr(&mut world, client, active, 1), Err(Errno::EINVAL));
    world.disconnect(server, request).unwrap();
    let expected = bytes(336, &[(0, &[0xc1]), (8, &[active as u8]), (12, &[10])]);
    assert_eq!(world.event(client).unwrap()[..], expected);
    // Again is fine.
    world.disconnect(server, request).unwrap();
    world.disconnect(client, active).unwrap();

    world.pass(TIME_WAIT_NS - 1);
    assert_eq!((world.events(server), world.events(client)), (vec![], vec![]));
    world.pass(1);
    assert_eq!(
        (world.events(server), world.events(client)),
        (vec![TIMEWAIT_EXIT], vec![TIMEWAIT_EXIT])
    );
    assert_eq!(world.cm.next_timer(), None);

    // 0, 2, 5, 10, 15; 9, 10, 15; one request
    assert_eq!(world.destroy(client, active), Ok(5));
    assert_eq!(world.destroy(server, request), Ok(3));
    assert_eq!(world.destroy(server, listener), Ok(1));
    assert_eq!(world.cm.listing(), []);
}

#[test]
fn private_data_limits() {
    let (mut world, server, client) = World::with_files();
    world.listener(server, 1, TCP, "10.9.0.1:7471");
    let active = world.routed(client, 2, TCP, "10.9.0.1:7471");
    let with = |len| ConnParam { private_data: vec![1; len], ..ConnParam::default() };
    let refusal = world.connect(client, active, &with(57)).unwrap_err();
    assert_eq!(refusal, Errno::EINVAL);
    assert_eq!(refusal.values().to_string(), ": requested 57, limit 56");
    world.connect(client, active, &with(56)).unwrap();
    let request = word(&world.event(server).unwrap(), 8);
    assert_eq!(world.accept(server, request, 3, &with(197)), Err(Errno::EINVAL));
    // A side that cannot accept has rejected.
    assert_eq!(world.statuses(client), [(REJECTED, CONSUMER_DEFINED)]);

    let active = world.routed(client, 2, TCP, "10.9.0.1:7471");
    world.connect(client, active, &with(0)).unwrap();
    let request = word(&world.event(server).unwrap(), 8);
    assert_eq!(world.reject(server, request, 0, &[1; 149]), Err(Errno::EINVAL));
    world.accept(server, request, 3, &with(196)).unwrap();
    let event = world.event(client).unwrap();
    assert_eq!((event[284], event[28], event[223]), (196, 1, 1));
}

#[test]
fn connecting_needs_a_route_and_valid_parameters() {
    let (mut world, _, client) = World::with_files();
    let active = world.create(client, 1, TCP);
    let param = ConnParam::default();
    assert_eq!(world.connect(client, active, &param), Err(Errno::EINVAL));
    world.resolve(client, active, "10.9.0.1:1").unwrap();
    assert_eq!(world.connect(client, active, &param), Err(Errno::EINVAL));
    world.route(client, active).unwrap();
    let invalid = bytes(288, &[(272, &active.to_le_bytes())]);
    assert_eq!(world.done(client, command::CONNECT, &invalid), Err(Errno::EINVAL));
    world.connect(client, active, &param).unwrap();
}

#[test]
fn nobody_listens() {
    let (mut world, _, client) = World::with_files();
    let active = world.routed(client, 7, TCP, "10.9.0.1:7471");
    world.connect(client, active, &ConnParam::default()).unwrap();
    world.pass(LISTENER_NS - 1);
    assert_eq!(world.events(client), [0; 0]);
    world.pass(1);
    let expected =
        bytes(336, &[(0, &[7]), (8, &[active as u8]), (12, &[8]), (16, &[8]), (284, &[148])]);
    assert_eq!(world.event(client).unwrap()[..], expected);
    // The id cannot be used again, and there is nothing to disconnect.
    assert_eq!(world.connect(client, active, &ConnParam::default()), Err(Errno::EINVAL));
    assert_eq!(world.accept(client, active, 7, &ConnParam::default()), Err(Errno::EINVAL));
    assert_eq!(world.reject(client, active, 0, &[]), Err(Errno::EINVAL));
    assert_eq!(world.establish(client, active), Err(Errno::EINVAL));
    assert_eq!(qp_attr(&mut world, client, active, 1), Err(Errno::EINVAL));
    assert_eq!(world.events(client), [0; 0]);
    assert_eq!(world.destroy(client, active), Ok(3));
}

#[test]
fn somebody_listens_in_time() {
    let (mut world, server, client) = World::with_files();
    let active = world.routed(client, 7, TCP, "10.9.0.1:7471");
    world.connect(client, active, &ConnParam::default()).unwrap();
    // Neither of them is meant.
    world.listener(server, 1, TCP, "10.9.0.1:7472");
    world.listener(server, 2, UDP, "10.9.0.1:7471");
    world.pass(LISTENER_NS - 1);
    world.listener(server, 3, TCP, "10.9.0.1:7471");
    assert_eq!(world.events(server), [CONNECT_REQUEST]);
    world.pass(LISTENER_NS);
    assert_eq!(world.events(client), [0; 0]);
}

fn one_request(world: &mut World, server: FileId, client: FileId) -> (u32, u32) {
    world.listener(server, 0x51, TCP, "10.9.0.1:7471");
    let active = world.routed(client, 0xc1, TCP, "10.9.0.1:7471");
    world.connect(client, active, &ConnParam::default()).unwrap();
    (active, word(&world.event(server).unwrap(), 8))
}

#[test]
fn a_rejected_request() {
    let (mut world, server, client) = World::with_files();
    let (_, request) = one_request(&mut world, server, client);
    assert_eq!(world.reject(server, request, 9, &[]), Err(Errno::EINVAL));
    world.reject(server, request, 0, b"no").unwrap();
    let event = world.event(client).unwrap();
    assert_eq!((word(&event, 12), word(&event, 16), event[284]), (8, 28, 148));
    assert_eq!(event[28..31], *b"no\0");
    assert_eq!(world.reject(server, request, 0, &[]), Err(Errno::EINVAL));
    assert_eq!(world.accept(server, request, 1, &ConnParam::default()), Err(Errno::EINVAL));
    world.disconnect(server, request).unwrap();
}

/// The timeout that a program chooses for its side tells the other one how long the way is.
#[test]
fn both_sides_wait_for_acknowledgements_as_the_asking_one_says() {
    let (mut world, server, client) = World::with_files();
    let listener = world.listener(server, 0x51, TCP, "0.0.0.0:7471");
    // An adapter's delay is 15: a shorter way and back adds one to it, a longer one takes it in.
    for (chosen, expected) in [(8, 15), (14, 16), (20, 20), (31, 31)] {
        let active = world.routed(client, 0xc1, TCP, "10.9.0.1:7471");
        world.option(client, active, (0, 3), &[chosen]).unwrap();
        let qp_num = 0x100 + u32::from(chosen);
        world.connect(client, active, &ConnParam { qp_num, ..asked() }).unwrap();
        let request = word(&world.event(server).unwrap(), 8);
        let passive = qp_attr(&mut world, server, request, 3).unwrap();
        assert_eq!(passive[134], expected, "{chosen}");
        let qp_num = 0x200 + u32::from(chosen);
        world.accept(server, request, 0x5a, &ConnParam { qp_num, ..answered() }).unwrap();
        world.event(client).unwrap();
        let active = qp_attr(&mut world, client, active, 3).unwrap();
        assert_eq!(active[134], chosen);
    }
    // The passive side may choose, too.
    let active = world.routed(client, 0xc1, TCP, "10.9.0.1:7471");
    world.connect(client, active, &asked()).unwrap();
    let request = word(&world.event(server).unwrap(), 8);
    world.option(server, request, (0, 3), &[12]).unwrap();
    assert_eq!(qp_attr(&mut world, server, request, 3).unwrap()[134], 12);
    world.destroy(server, listener).unwrap();
}

#[test]
fn rejected_because_of_the_vendors_options() {
    let (mut world, server, client) = World::with_files();
    let (_, request) = one_request(&mut world, server, client);
    world.reject(server, request, 35, &[]).unwrap();
    assert_eq!(world.statuses(client), [(REJECTED, 35)]);
}

#[test]
fn an_unaccepted_request_is_rejected_by_its_end() {
    let (mut world, server, client) = World::with_files();
    let (_, request) = one_request(&mut world, server, client);
    assert_eq!(world.destroy(server, request), Ok(0));
    assert_eq!(world.statuses(client), [(REJECTED, CONSUMER_DEFINED)]);
}

#[test]
fn an_unfetched_request_is_rejected_by_its_listeners_end() {
    let (mut world, server, client) = World::with_files();
    let listener = world.listener(server, 1, TCP, "10.9.0.1:7471");
    let active = world.routed(client, 2, TCP, "10.9.0.1:7471");
    world.connect(client, active, &ConnParam::default()).unwrap();
    assert_eq!(world.cm.pending_events(server), 1);
    assert_eq!(world.destroy(server, listener), Ok(0));
    assert_eq!(world.cm.pending_events(server), 0);
    assert_eq!(world.statuses(client), [(REJECTED, CONSUMER_DEFINED)]);
    assert_eq!(world.cm.listing().len(), 1);
}

#[test]
fn the_asking_side_leaves_before_the_answer() {
    let (mut world, server, client) = World::with_files();
    let (active, request) = one_request(&mut world, server, client);
    world.destroy(client, active).unwrap();
    assert_eq!(world.events(server), [0; 0]);
    assert_eq!(qp_attr(&mut world, server, request, 1), Err(Errno::EINVAL));
    assert_eq!(world.accept(server, request, 3, &ConnParam::default()), Err(Errno::EINVAL));
    assert_eq!(world.destroy(server, request), Ok(0));
}

#[test]
fn the_asking_side_leaves_between_answer_and_use() {
    let (mut world, server, client) = World::with_files();
    let (active, request) = one_request(&mut world, server, client);
    world.accept(server, request, 0x5a, &ConnParam::default()).unwrap();
    world.destroy(client, active).unwrap();
    assert_eq!(world.statuses(server), [(REJECTED, CONSUMER_DEFINED)]);
}

#[test]
fn either_side_changes_its_mind_after_the_answer() {
    let (mut world, server, client) = World::with_files();
    let (active, request) = one_request(&mut world, server, client);
    world.accept(server, request, 0x5a, &ConnParam::default()).unwrap();
    assert_eq!(world.events(client), [CONNECT_RESPONSE]);
    world.reject(client, active, 0, b"sorry").unwrap();
    assert_eq!(world.statuses(server), [(REJECTED, CONSUMER_DEFINED)]);

    // Accepting twice is an error, which rejects.
    let active = world.routed(client, 0xc2, TCP, "10.9.0.1:7471");
    world.connect(client, active, &ConnParam::default()).unwrap();
    let request = word(&world.event(server).unwrap(), 8);
    world.accept(server, request, 0x5b, &ConnParam::default()).unwrap();
    let again = world.accept(server, request, 0x5b, &ConnParam::default());
    assert_eq!(again, Err(Errno::EINVAL));
    assert_eq!(world.statuses(client), [(CONNECT_RESPONSE, 0), (REJECTED, CONSUMER_DEFINED)]);
}

#[test]
fn accepting_what_is_no_request() {
    let (mut world, server, client) = World::with_files();
    let (listener, accepted, active) = world.connected(server, client);
    let param = ConnParam::default();
    assert_eq!(world.accept(server, listener, 1, &param), Err(Errno::EINVAL));
    let fresh = world.create(server, 9, TCP);
    assert_eq!(world.accept(server, fresh, 1, &param), Err(Errno::EINVAL));
    // An established connection is neither accepted again nor harmed by the attempt.
    assert_eq!(world.accept(server, accepted, 1, &param), Err(Errno::EINVAL));
    assert_eq!(world.establish(client, active), Err(Errno::EINVAL));
    assert_eq!(world.reject(client, active, 0, &[]), Err(Errno::EINVAL));
    assert_eq!((world.events(server), world.events(client)), (vec![], vec![]));
    assert!(qp_attr(&mut world, server, accepted, 3).is_ok());
}

#[test]
fn destroying_disconnects() {
    let (mut world, server, client) = World::with_files();
    let (_, accepted, active) = world.connected(server, client);
    world.destroy(client, active).unwrap();
    assert_eq!(world.statuses(server), [(DISCONNECTED, 0)]);
    // The answer finds nobody.
    world.disconnect(server, accepted).unwrap();
    world.pass(TIME_WAIT_NS);
    assert_eq!(world.statuses(server), [(TIMEWAIT_EXIT, 0)]);
}

#[test]
fn destroying_answers_a_disconnection() {
    let (mut world, server, client) = World::with_files();
    let (_, accepted, active) = world.connected(server, client);
    world.disconnect(client, active).unwrap();
    world.destroy(server, accepted).unwrap();
    assert_eq!(world.statuses(client), [(DISCONNECTED, 0)]);
    world.pass(TIME_WAIT_NS);
    assert_eq!(world.statuses(client), [(TIMEWAIT_EXIT, 0)]);
}

#[test]
fn a_disconnection_that_nobody_answers() {
    let (mut world, server, client) = World::with_files();
    let (_, _, active) = world.connected(server, client);
    world.disconnect(client, active).unwrap();
    world.disconnect(client, active).unwrap();
    world.pass(GIVE_UP_NS - 1);
    assert_eq!(world.statuses(client), []);
    world.pass(1);
    assert_eq!(world.statuses(client), [(DISCONNECTED, TIMED_OUT)]);
    world.pass(TIME_WAIT_NS);
    assert_eq!(world.statuses(client), [(TIMEWAIT_EXIT, 0)]);
    assert_eq!(world.statuses(server), [(DISCONNECTED, 0)]);
}

#[test]
fn disconnecting_what_never_was() {
    let (mut world, server, client) = World::with_files();
    let listener = world.listener(server, 1, TCP, "10.9.0.1:7471");
    assert_eq!(world.disconnect(server, listener), Err(Errno::EINVAL));
    let fresh = world.create(client, 1, TCP);
    assert_eq!(world.disconnect(client, fresh), Err(Errno::EINVAL));
    let active = world.routed(client, 1, TCP, "10.9.0.1:7471");
    assert_eq!(world.disconnect(client, active), Err(Errno::EINVAL));
    assert_eq!(world.disconnect(client, 77), Err(Errno::ENOENT));
    assert_eq!(world.disconnect(server, active), Err(Errno::EINVAL));
}

#[test]
fn a_full_backlog_drops_requests_which_come_again() {
    let (mut world, server, client) = World::with_files();
    let listener = world.create(server, 1, TCP);
    world.bind(server, listener, "10.9.0.1:7471").unwrap();
    world.listen(server, listener, 1).unwrap();
    let first = world.routed(client, 2, TCP, "10.9.0.1:7471");
    let second = world.routed(client, 3, TCP, "10.9.0.1:7471");
    world.connect(client, first, &ConnParam::default()).unwrap();
    world.connect(client, second, &ConnParam::default()).unwrap();
    assert_eq!(world.cm.pending_events(server), 1);
    assert_eq!(world.cm.pending_events(client), 0);
    world.pass(RESPONSE_NS);
    assert_eq!(world.cm.pending_events(server), 1);
    // Fetching makes room, and the next attempt succeeds.
    assert_eq!(world.events(server), [CONNECT_REQUEST]);
    world.pass(RESPONSE_NS);
    let request = word(&world.event(server).unwrap(), 8);
    world.accept(server, request, 9, &ConnParam::default()).unwrap();
    let event = world.event(client).unwrap();
    assert_eq!(summary(&event), (5, 0, 3, second));
    assert_eq!(world.cm.next_timer(), None);
}

#[test]
fn a_full_backlog_makes_the_listener_unreachable_in_the_end() {
    let (mut world, server, client) = World::with_files();
    let listener = world.create(server, 1, TCP);
    world.bind(server, listener, "10.9.0.1:7471").unwrap();
    world.listen(server, listener, 1).unwrap();
    for uid in [2, 3] {
        let active = world.routed(client, uid, TCP, "10.9.0.1:7471");
        world.connect(client, active, &ConnParam::default()).unwrap();
    }
    for _ in 0..15 {
        world.pass(RESPONSE_NS);
        assert_eq!(world.cm.pending_events(client), 0);
    }
    world.pass(RESPONSE_NS);
    assert_eq!(world.statuses(client), [(UNREACHABLE, TIMED_OUT)]);
    // The request in the queue stays for ever.
    world.pass(100 * S);
    assert_eq!((world.events(server), world.events(client)), (vec![CONNECT_REQUEST], vec![]));
}

#[test]
fn a_dropped_request_finds_no_listener_later() {
    let (mut world, server, client) = World::with_files();
    let listener = world.create(server, 1, TCP);
    world.bind(server, listener, "10.9.0.1:7471").unwrap();
    world.listen(server, listener, 1).unwrap();
    for uid in [2, 3] {
        let active = world.routed(client, uid, TCP, "10.9.0.1:7471");
        world.connect(client, active, &ConnParam::default()).unwrap();
    }
    world.destroy(server, listener).unwrap();
    assert_eq!(world.statuses(client), [(REJECTED, CONSUMER_DEFINED)]);
    world.pass(RESPONSE_NS);
    world.pass(LISTENER_NS);
    assert_eq!(world.statuses(client), [(REJECTED, 8)]);
}

#[test]
fn programs_write_events_of_their_own() {
    let (mut world, file, other) = World::with_files();
    let id = world.create(file, 7, TCP);
    let mut write = |file, event: u32| {
        let parts: [(usize, &[u8]); 4] = [
            (0, &id.to_le_bytes()),
            (8, &event.to_le_bytes()),
            (12, &(-5i32).to_le_bytes()),
            (16, &0x1122_3344_5566_7788u64.to_le_bytes()),
        ];
        world.run(file, command::WRITE_CM_EVENT, &bytes(304, &parts))
    };
    assert_eq!(write(file, 9), Err(Errno::EINVAL));
    assert_eq!(write(other, 18), Err(Errno::EINVAL));
    assert_eq!(write(file, 18), Ok(Vec::new()));
    assert_eq!(write(file, 19), Ok(Vec::new()));
    let event = world.event(file).unwrap();
    assert_eq!(summary(&event), (18, -5, 7, id));
    assert_eq!(event[20..28], [0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]);
    assert_eq!(world.events(file), [INTERNAL]);
    assert_eq!(world.destroy(file, id), Ok(2));
    let none = world.run(file, command::RESOLVE_IB_SERVICE, &[0; 96]);
    assert_eq!(none, Err(Errno::EOPNOTSUPP));
}

#[test]
fn the_queue_pair_notices_the_connection_first() {
    let (mut world, server, client) = World::with_files();
    let (active, request) = one_request(&mut world, server, client);
    assert_eq!(world.plain(server, command::NOTIFY, request, 4), Err(Errno::EINVAL));
    world.accept(server, request, 0x5a, &ConnParam::default()).unwrap();
    assert_eq!(world.plain(server, command::NOTIFY, request, 5), Err(Errno::EINVAL));
    world.plain(server, command::NOTIFY, request, 4).unwrap();
    assert_eq!(world.events(server), [ESTABLISHED]);
    let again = world.plain(server, command::NOTIFY, request, 4);
    assert_eq!(again, Err(Errno::EISCONN));
    world.establish(client, active).unwrap();
    assert_eq!(world.events(server), [0; 0]);
    world.disconnect(server, request).unwrap();
    assert_eq!(world.events(client), [CONNECT_RESPONSE, DISCONNECTED]);
}

#[test]
fn vendors_options_travel() {
    let (mut world, server, client) = World::with_files();
    world.listener(server, 1, TCP, "10.9.0.1:7471");
    let active = world.routed(client, 2, TCP, "10.9.0.1:7471");
    let param = valid(&ConnParam::default());
    let parts: [(usize, &[u8]); 3] =
        [(0, param.as_bytes()), (272, &active.to_le_bytes()), (280, &[0xb3, 0x15, 0, 0, 7])];
    world.done(client, command::CONNECT, &bytes(288, &parts)).unwrap();
    assert_eq!(world.event(server).unwrap()[328..], [0xb3, 0x15, 0, 0, 7, 0, 0, 0]);
}
