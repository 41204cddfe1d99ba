//! Mixed traffic of many threads, every byte checked: by `soft-hca-traffic`, an ordinary verbs
//! program. `SOFT_HCA_LONG=1` moves a gibibyte and more.

use std::fs;
use std::time::Duration;

use programs::place::Place;
use programs::traffic::{ENDLESS, Traffic};
use programs::{LIMIT, comes_about, is_long, signal};

/// Runs some pairs at the same time in one fabric, with a seed each.
fn run(name: &str, pairs: u64, options: &str) {
    let place = Place::new(name);
    let keeper = place.keep();
    let start = |seed| Traffic::start(&place, &format!("--seed {seed} {options}"));
    let mut all: Vec<Traffic> = (1..=pairs).map(start).collect();
    for pair in &mut all {
        let text = pair.succeed();
        let last = text.lines().last().unwrap_or_default();
        assert!(last.contains("every byte checked"), "{text}");
        println!("{name}: {last}");
    }
    place.assert_no_objects();
    place.end(keeper);
}

fn bytes() -> &'static str {
    if is_long() { "--bytes 1GiB" } else { "--bytes 32MiB" }
}

#[test]
fn polling() {
    run("traffic-polling", 1, bytes());
}

#[test]
fn with_events() {
    run("traffic-events", 1, &format!("--events {}", bytes()));
}

/// Requests wait for room in the completion queues, to which several processes add at the same time.
#[test]
fn completion_queues_that_are_too_small() {
    run("traffic-room", 1, &format!("--cq-entries 3 {}", bytes()));
}

/// A program that does not poll at all loses completions, and the daemon's log says so. A program that is
/// stopped at a moment when nobody is about to send to it is stopped again.
#[test]
fn a_lost_completion_is_in_the_log() {
    let place = Place::new("traffic-lost");
    let log = place.file("log");
    let keeper = place.keep_in(|command| command.env("SOFT_HCA_LOG", &log));
    let mut pair = Traffic::start(&place, &format!("--cq-entries 1 {ENDLESS}"));
    pair.wait_until_connected();
    let is_told = || fs::read_to_string(&log).unwrap().contains("a completion queue is full");
    let is_told_in_time = comes_about(LIMIT, || {
        signal::stop(&pair.server);
        let is_told = comes_about(Duration::from_secs(5), is_told);
        signal::go_on(&pair.server);
        is_told
    });
    assert!(is_told_in_time, "{}", fs::read_to_string(&log).unwrap());
    pair.client.kill();
    pair.server.kill();
    place.end(keeper);
}

/// Eight processes that have nothing to do with each other but the fabric.
#[test]
fn several_pairs() {
    let bytes = if is_long() { "256MiB" } else { "8MiB" };
    run("traffic-pairs", 4, &format!("--events --threads 2 --bytes {bytes}"));
}

/// Far more messages than with bigger ones, and all in the time of a few.
#[test]
fn small_messages() {
    let bytes = if is_long() { "64MiB" } else { "1MiB" };
    run("traffic-small", 1, &format!("--max-message 300 --bytes {bytes}"));
}
