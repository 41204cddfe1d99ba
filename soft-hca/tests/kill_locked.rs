//! Programs that are killed while they hold a lock of the arena.
//!
//! A program is stopped at random moments until the arena shows that it has a lock of the wanted
//! kind, and then killed. Its peer, which may be waiting for that very lock, has to notice as if
//! there had been none, and the fabric stays usable. `SOFT_HCA_LONG=1` makes the run long, and
//! `SOFT_HCA_SEED` another number starts it differently.

use std::collections::BTreeMap;

use programs::arena::Kind;
use programs::is_long;
use programs::locked::{KINDS, stop_with_lock, traffic_that_locks};
use programs::place::Place;
use programs::random::Random;
use programs::traffic::{ENDLESS, PEER_GONE, Traffic, another_pair};

#[test]
fn a_lock_is_held_by_who_is_killed() {
    let place = Place::new("kill-locked");
    let keeper = place.keep();
    let mut random = Random::new(6);
    let mut hits: BTreeMap<Kind, u32> = BTreeMap::new();
    let kills = if is_long() { 100 } else { 10 };
    for round in 0..kills {
        let wanted = KINDS[round % KINDS.len()];
        let events = if random.below(2) == 0 { "--events" } else { "" };
        let mut pair =
            Traffic::start(&place, &format!("{ENDLESS} {events} {}", traffic_that_locks(wanted)));
        pair.wait_until_connected();
        let (victim, survivor) = if random.below(2) == 0 {
            (&mut pair.server, &mut pair.client)
        } else {
            (&mut pair.client, &mut pair.server)
        };
        let held = stop_with_lock(&place, victim, wanted, &mut random);
        victim.kill();
        for kind in held.expect("endless traffic does not end") {
            *hits.entry(kind).or_default() += 1;
        }
        let status = survivor.wait();
        let text = survivor.output();
        assert_eq!(status.code(), Some(1), "{text}");
        assert!(text.contains(PEER_GONE), "{text}");
        place.assert_no_objects();
        if round % 5 == 0 {
            another_pair(&place);
            place.assert_no_objects();
        }
    }
    println!("{kills} kills; locks that were held: {hits:?}");
    for kind in [Kind::Send, Kind::Receive] {
        assert!(hits.contains_key(&kind), "{hits:?}");
    }
    place.end(keeper);
}
