//! Files whose events come late.

use std::num::NonZeroU64;

use soft_hca_core::rpc::LateEvents;
use soft_hca_core::uapi::ucma::event_type::{
    ADDR_RESOLVED, CONNECT_REQUEST, CONNECT_RESPONSE, DISCONNECTED, ESTABLISHED, ROUTE_RESOLVED,
};

use soft_hca_verbs::NumberSpan;

use super::*;
use crate::ucma::MIGRATE_ID;

/// No event comes later than this.
const LATEST_NS: u64 = 10_000_000;

/// Timers that end before an event comes, at most.
const MOST_TIMERS: u32 = 1000;

fn put_off(world: &mut World, file: FileId, seed: u64, numbers: NumberSpan) {
    let seed = NonZeroU64::new(seed).unwrap();
    world.cm.put_off_events(file, Some(LateEvents { seed, numbers }));
}

/// Two files, the events of the first one late.
fn with_late_files(seed: u64) -> (World, FileId, FileId) {
    let (mut world, late, other) = World::with_files();
    put_off(&mut world, late, seed, NumberSpan::ALL);
    (world, late, other)
}

/// The next event of a file, as soon as there is one: its type and its id.
fn next(world: &mut World, file: FileId) -> (u32, u32) {
    let end = world.now + S;
    for _ in 0..MOST_TIMERS {
        if let Some(event) = world.event(file) {
            return (word(&event, 12), word(&event, 8));
        }
        // The clock of new fabrics is the system's.
        let times = [world.cm.next_timer(), world.cm.next_late()];
        let due = times.into_iter().flatten().min().unwrap();
        assert!(due < end, "no event comes within a second");
        world.pass(due - world.now);
    }
    panic!("no event comes with {MOST_TIMERS} timers, the last at {}", world.now);
}

#[test]
fn an_ids_events_come_later_and_in_their_order() {
    for seed in 1..50 {
        let (mut world, late, other) = with_late_files(seed);
        world.listener(late, 1, TCP, "10.9.0.1:7471");
        let active = world.routed(other, 2, TCP, "10.9.0.1:7471");
        world.connect(other, active, &ConnParam::default()).unwrap();
        assert_eq!(world.events(late), [0; 0]);
        let began = world.now;
        let (event, request) = next(&mut world, late);
        assert_eq!(event, CONNECT_REQUEST);
        assert!((20_000..=LATEST_NS).contains(&(world.now - began)));
        world.accept(late, request, 3, &ConnParam::default()).unwrap();
        assert_eq!(world.events(other), [CONNECT_RESPONSE]);
        world.establish(other, active).unwrap();
        world.disconnect(other, active).unwrap();
        assert_eq!(world.events(late), [0; 0]);
        assert_eq!(next(&mut world, late), (ESTABLISHED, request));
        assert_eq!(next(&mut world, late), (DISCONNECTED, request));
        check(&world);
    }
}

#[test]
fn only_events_with_some_numbers_come_late() {
    let (mut world, late, _) = World::with_files();
    put_off(&mut world, late, 1, NumberSpan::new(2, 2).unwrap());
    for uid in [1, 2] {
        let id = world.create(late, uid, TCP);
        world.resolve(late, id, "10.9.0.1:1").unwrap();
        let began = world.now;
        assert_eq!((next(&mut world, late), world.now), ((ADDR_RESOLVED, id), began));
        world.route(late, id).unwrap();
        assert_eq!(next(&mut world, late), (ROUTE_RESOLVED, id));
        assert!(world.now > began);
    }
    check(&world);
}

#[test]
fn events_of_different_ids_come_in_any_order() {
    let first = |seed| {
        let (mut world, late, _) = with_late_files(seed);
        let ids = [1, 2].map(|uid| world.create(late, uid, TCP));
        for id in ids {
            world.resolve(late, id, "10.9.0.1:1").unwrap();
        }
        let came = [next(&mut world, late), next(&mut world, late)];
        assert!(came.iter().all(|(event, _)| *event == ADDR_RESOLVED));
        let place = came.iter().position(|(_, id)| *id == ids[0]);
        place.unwrap()
    };
    let swapped: usize = (1..200).map(first).sum();
    assert!((50..150).contains(&swapped), "{swapped}");
    assert_eq!((1..50).map(first).collect::<Vec<_>>(), (1..50).map(first).collect::<Vec<_>>());
}

#[test]
fn events_that_have_not_come_go_with_their_id() {
    let (mut world, late, other) = with_late_files(1);
    let listener = world.listener(late, 1, TCP, "10.9.0.1:7471");
    let active = world.routed(other, 2, TCP, "10.9.0.1:7471");
    world.connect(other, active, &ConnParam::default()).unwrap();
    // The request that nobody has fetched is refused.
    assert_eq!(world.destroy(late, listener), Ok(0));
    assert_eq!(world.statuses(other), [(8, CONSUMER_DEFINED)]);
    world.pass(LATEST_NS);
    assert_eq!(world.events(late), [0; 0]);
    // Events that move to another file have come by then.
    let id = world.create(late, 1, TCP);
    world.resolve(late, id, "10.9.0.1:1").unwrap();
    world.route(late, id).unwrap();
    assert_eq!(world.about(other, MIGRATE_ID, id, late).map(|answer| word(&answer, 0)), Ok(0));
    assert_eq!(world.events(other), [ADDR_RESOLVED, ROUTE_RESOLVED]);
    world.pass(LATEST_NS);
    assert_eq!(world.events(late), [0; 0]);
    check(&world);
}

#[test]
fn who_does_not_fetch_is_refused_more_events() {
    let (mut world, late, _) = with_late_files(1);
    let id = world.create(late, 1, TCP);
    let write = bytes(304, &[(0, &id.to_le_bytes()), (8, &18u32.to_le_bytes())]);
    let written = (0..).take_while(|_| world.run(late, command::WRITE_CM_EVENT, &write).is_ok());
    assert_eq!(written.take(0x5000).count(), 0x4000);
}
