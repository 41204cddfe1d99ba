//! Which way a request goes.

use super::fabric::*;
use crate::engine::Route;
use crate::uapi::verbs::{opcode, qp_type};

/// A route that this version does not know, as a program may write it.
const UNKNOWN: u32 = 77;

#[test]
fn a_route_is_stored_and_read_again() {
    let world = World::new();
    let qp = world.entry(world.qp(qp_type::RC, US));
    set(&qp.route, UNKNOWN);
    assert_eq!(Route::load(&qp.route), None);
    Route::Local.store(&qp.route);
    assert_eq!(Route::load(&qp.route), Some(Route::Local));
}

#[test]
fn an_unknown_route_leads_to_nobody() {
    let world = World::new();
    let (a, b) = world.rc();
    world.receive(b, 20, &[]);
    set(&world.entry(a).route, UNKNOWN);
    world.send(a, &Wr::new(1, opcode::SEND));
    assert_eq!((world.poll(a), world.poll(b)), (vec![], vec![]));
    assert_eq!(world.env.take_rescheduled().len(), 1, "tried again until the timeout");
    Route::Local.store(&world.entry(a).route);
    world.actor(DAEMON).run_send_queue(a);
    assert_eq!((world.statuses(a), world.statuses(b)), (vec![(1, 0)], vec![(20, 0)]));
}

#[test]
fn a_datagrams_route_is_that_of_its_address_handle() {
    let world = World::new();
    let (a, b) = world.pair(qp_type::UD);
    let mut header = world.buffer(THEM, vec![0; 40]);
    let ah = &world.arena.ahs[0];
    for (field, value) in [(&ah.proc, US as u32), (&ah.pd, PD), (&ah.live, 1)] {
        set(field, value);
    }
    for (route, received) in [(UNKNOWN, vec![]), (0, vec![(20, 0)])] {
        world.receive(b, 20, &[header.whole()]);
        set(&ah.route, route);
        world.send(a, &Wr::new(1, opcode::SEND).word(24, b).word(28, 0x1111).word(36, 1));
        assert_eq!((world.statuses(a), world.statuses(b)), (vec![(1, 0)], received));
    }
}
