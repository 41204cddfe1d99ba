//! Programs that are killed while they hold a lock of the arena.
//!
//! A program is stopped at random moments until the arena shows that it has a lock of the wanted
//! kind, and then killed. Its peer, which may be waiting for that very lock, has to notice as if
//! there had been none, and the fabric stays usable. `SOFT_HCA_LONG=1` makes the run long, and
//! `SOFT_HCA_SEED` another number starts it differently.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod programs;

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use programs::arena::{Arena, Kind};
use programs::place::Place;
use programs::program::Program;
use programs::random::Random;
use programs::signal;
use programs::traffic::{ENDLESS, PEER_GONE, Traffic, another_pair};
use programs::{LIMIT, is_long};

/// How long a lock of the wanted kind is looked for; then any will do.
const PATIENCE: Duration = Duration::from_secs(3);

/// Traffic in which a lock of a kind is held as much of the time as possible.
fn options(kind: Kind) -> &'static str {
    match kind {
        Kind::Send | Kind::Receive => "--threads 2 --queue-pairs 4 --max-message 64KiB",
        Kind::SharedReceive => "--threads 4 --queue-pairs 2 --max-message 1KiB",
        Kind::Completion | Kind::Atomics => "--threads 4 --queue-pairs 2 --max-message 8",
    }
}

/// Stops a program at random moments until it has a lock of a kind, or for long enough; kills it
/// then, while it has one. Gives the kinds that it had.
fn kill_with_lock(
    place: &Place,
    victim: &mut Program,
    wanted: Kind,
    random: &mut Random,
) -> Vec<Kind> {
    let mut arena = Arena::of(place);
    arena.note_locks();
    let process = arena.process(victim.pid());
    let begin = Instant::now();
    loop {
        thread::sleep(Duration::from_micros(random.below(1000)));
        signal::stop(victim);
        let held = arena.held(process);
        if held.contains(&wanted) || begin.elapsed() > PATIENCE && !held.is_empty() {
            victim.kill();
            return held;
        }
        signal::go_on(victim);
        assert!(begin.elapsed() < LIMIT, "no lock is ever held:\n{}", victim.output());
    }
}

#[test]
fn a_lock_is_held_by_who_is_killed() {
    const KINDS: [Kind; 5] =
        [Kind::Send, Kind::Receive, Kind::Completion, Kind::SharedReceive, Kind::Atomics];
    let place = Place::new("kill-locked");
    let keeper = place.keep();
    let mut random = Random::new(6);
    let mut hits: BTreeMap<Kind, u32> = BTreeMap::new();
    let kills = if is_long() { 100 } else { 10 };
    for round in 0..kills {
        let wanted = KINDS[round % KINDS.len()];
        let events = if random.below(2) == 0 { "--events" } else { "" };
        let mut pair = Traffic::start(&place, &format!("{ENDLESS} {events} {}", options(wanted)));
        pair.wait_until_connected();
        let (victim, survivor) = if random.below(2) == 0 {
            (&mut pair.server, &mut pair.client)
        } else {
            (&mut pair.client, &mut pair.server)
        };
        for kind in kill_with_lock(&place, victim, wanted, &mut random) {
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
