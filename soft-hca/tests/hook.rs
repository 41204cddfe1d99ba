//! The receiver's own polls, which bring small sends to its memory: when they are there, and what else
//! a program may do at that time. See `stock.rs` about programs that are not installed.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod programs;

use programs::place::Place;
use programs::{compile, installed, tcp};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hook/hook.c");

/// What each round of sizes prints behind its first line.
const SIZES: &str = "\
1 bytes: right
8 bytes: right
48 bytes: right
49 bytes: right
64 bytes: right
1000 bytes: right
4096 bytes: right
";

/// Runs a case, with polls hooked or not, and compares what it prints.
fn run(case: &str, is_hooked: bool, expected: &str) {
    let place = Place::new(&format!("hook-{case}-{is_hooked}"));
    let Some(program) = compile(&place, SOURCE, &["ibverbs", "pthread"]) else { return };
    let line = format!("{program} {case}");
    let hook = if is_hooked { "1" } else { "0" };
    let text = place.start_in(&line, |command| command.env("SOFT_HCA_HOOK", hook)).succeed();
    assert_eq!(text, expected, "{case}, hooked {is_hooked}");
    place.assert_gone();
}

/// The same for both.
fn run_both(case: &str, expected: &str) {
    [false, true].into_iter().for_each(|is_hooked| run(case, is_hooked, expected));
}

/// A round of all sizes.
fn round(is_hooked: bool) -> String {
    format!("there before the poll: {}\n{SIZES}", if is_hooked { "no" } else { "yes" })
}

/// Cases in which all sizes are sent so many times, and what they print at the end.
fn rounds(case: &str, count: usize, end: &str) {
    for is_hooked in [false, true] {
        run(case, is_hooked, &(round(is_hooked).repeat(count) + end));
    }
}

#[test]
fn plain_queues() {
    rounds("plain", 1, "");
}

#[test]
fn extended_queues() {
    rounds("extended", 1, "");
}

#[test]
fn queues_at_the_address_of_earlier_ones() {
    rounds("again", 4, "");
}

#[test]
fn several_contexts() {
    rounds("contexts", 3, "");
}

#[test]
fn another_library_that_replaces_the_same_function() {
    for case in ["swapped-before", "swapped-after"] {
        rounds(case, 1, "the other library is called: yes\n");
    }
}

#[test]
fn children() {
    rounds("fork", 1, "a child may poll: yes\n");
}

#[test]
fn handlers_of_the_program() {
    rounds("handler", 1, "its own fault is its own: yes\n");
}

#[test]
fn regions_and_queue_pairs_that_end_before_the_poll() {
    for case in ["region", "queue-pair"] {
        run_both(case, "there when it has ended: yes\nuntouched after that: yes\n");
    }
}

#[test]
fn requests_take_effect_in_order() {
    run_both("order", "the write came last: yes\n");
}

#[test]
fn memory_that_is_unmapped() {
    run("unmapped", true, "the receiver goes on: yes\n");
}

#[test]
fn threads_that_poll_one_queue() {
    run_both("threads", "20000 messages, 0 wrong\n");
}

#[test]
fn the_listing_says_whose_polls_are_not_hooked() {
    if !installed(&["ibv_rc_pingpong"]) {
        return;
    }
    for hook in ["0", "1"] {
        let place = Place::new(&format!("hook-listing-{hook}"));
        let port = tcp::free_port();
        let line = format!("ibv_rc_pingpong -d rxe0 -g 1 -p {port}");
        let mut server = place.start_in(&line, |command| command.env("SOFT_HCA_HOOK", hook));
        server.wait_until(|| tcp::listens(port));
        let says = place.listing().contains("comm ibv_rc_pingpong polls not hooked");
        assert_eq!(says, hook == "0", "{}", place.listing());
        place.end(server);
    }
}
