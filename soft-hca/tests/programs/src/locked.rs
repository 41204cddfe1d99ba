//! Programs that are caught while they hold a lock of the arena.

use std::thread;
use std::time::{Duration, Instant};

use crate::LIMIT;
use crate::arena::{Arena, Kind};
use crate::place::Place;
use crate::program::Program;
use crate::random::Random;
use crate::signal;

/// All kinds of locks.
pub const KINDS: [Kind; 5] =
    [Kind::Send, Kind::Receive, Kind::Completion, Kind::SharedReceive, Kind::Atomics];

/// How long a lock of the wanted kind is looked for; then any will do.
const PATIENCE: Duration = Duration::from_secs(3);

/// Options of traffic in which a lock of a kind is held as much of the time as possible.
pub fn traffic_that_locks(kind: Kind) -> &'static str {
    match kind {
        Kind::Send | Kind::Receive => "--threads 2 --queue-pairs 4 --max-message 64KiB",
        Kind::SharedReceive => "--threads 4 --queue-pairs 2 --max-message 1KiB",
        Kind::Completion | Kind::Atomics => "--threads 4 --queue-pairs 2 --max-message 8",
    }
}

/// Stops a program at random moments until it has a lock of a kind, or any lock after long enough,
/// and leaves it stopped. Gives the kinds that it has, or nothing if the program has ended before.
pub fn stop_with_lock(
    place: &Place,
    victim: &mut Program,
    wanted: Kind,
    random: &mut Random,
) -> Option<Vec<Kind>> {
    let mut arena = Arena::of(place);
    let process = arena.find_process(victim.pid())?;
    arena.note_locks();
    let begin = Instant::now();
    loop {
        thread::sleep(Duration::from_micros(random.below(1000)));
        signal::stop(victim);
        if victim.has_ended() {
            return None;
        }
        let held = arena.held(process);
        if held.contains(&wanted) || begin.elapsed() > PATIENCE && !held.is_empty() {
            return Some(held);
        }
        signal::go_on(victim);
        assert!(begin.elapsed() < LIMIT, "no lock is ever held:\n{}", victim.output());
    }
}
