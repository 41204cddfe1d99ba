//! The receiver's own polls, which bring small sends to its memory: when they are there, and what else
//! a program may do at that time. See `stock.rs` about programs that are not installed.

use std::process::Command;

use programs::brought_along::{copy_rdma_core, renamed_library};
use programs::place::Place;
use programs::{LOCALHOST, compile, installed, tcp, the_processors};
use soft_hca_core::config;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hook/hook.c");
const LOADED_SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hook/loaded.c");
const CHURN_SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hook/churn.c");
const DOORBELLS_SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hook/doorbells.c");
const EARLY_SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hook/early.c");

/// The output of each round of sizes behind its first line.
const SIZES: &str = "\
1 bytes: right
8 bytes: right
48 bytes: right
49 bytes: right
64 bytes: right
1000 bytes: right
4096 bytes: right
";

/// Has the polls of a program hooked or not.
fn hooked(command: &mut Command, is_hooked: bool) -> &mut Command {
    command.env("SOFT_HCA_HOOK", if is_hooked { "1" } else { "0" })
}

/// Runs a program with arguments, its polls hooked or not, and compares what it prints.
fn run_program(source: &str, arguments: &str, is_hooked: bool, expected: &str) {
    let name = arguments.replace(' ', "-");
    let place = Place::new(&format!("hook-{name}-{is_hooked}"));
    let Some(program) = compile(&place, source, &["ibverbs", "pthread"]) else { return };
    let line = format!("{program} {arguments}");
    let text = place.start_in(&line, |command| hooked(command, is_hooked)).succeed();
    assert_eq!(text, expected, "{arguments}, hooked {is_hooked}");
    place.assert_gone();
}

/// Runs a case.
fn run(case: &str, is_hooked: bool, expected: &str) {
    run_program(SOURCE, case, is_hooked, expected);
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

/// As UCX polls them: by `ibv_poll_cq`, in a program with several threads. The first poll shows that it does.
#[test]
fn extended_queues_that_are_polled_as_plain_ones() {
    for is_hooked in [false, true] {
        run("extended-plainly", is_hooked, &(round(false) + &round(is_hooked)));
    }
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
fn queues_that_come_and_go_while_others_are_polled() {
    let _processors = the_processors();
    let expected = "\
3000 rounds, 0 messages wrong
messages to the queue that stays: yes
addresses are used again: yes
";
    for arguments in ["1500", "1500 extended"] {
        for is_hooked in [false, true] {
            run_program(CHURN_SOURCE, arguments, is_hooked, expected);
        }
    }
}

#[test]
fn queues_that_are_polled_before_they_have_a_queue_pair() {
    let _processors = the_processors();
    for is_hooked in [false, true] {
        for arguments in ["60", "60 extended"] {
            let expected = "60 rounds, 0 messages wrong\n";
            run_program(EARLY_SOURCE, arguments, is_hooked, expected);
        }
    }
}

/// Cases in programs that load libibverbs while they run, and look its functions up.
const LOADED_CASES: [(&str, usize); 3] = [("plain", 1), ("extended", 1), ("again", 4)];

#[test]
fn a_library_that_is_loaded_while_the_program_runs() {
    for is_hooked in [false, true] {
        let place = Place::new(&format!("hook-loaded-{is_hooked}"));
        let Some(program) = compile(&place, LOADED_SOURCE, &["dl", "pthread"]) else { return };
        for (case, count) in LOADED_CASES {
            let line = format!("{program} libibverbs.so.1 {case}");
            let text = place.start_in(&line, |command| hooked(command, is_hooked)).succeed();
            assert_eq!(text, round(is_hooked).repeat(count), "{case}, hooked {is_hooked}");
        }
        place.assert_gone();
    }
}

/// As a Python wheel does that has brought libraries of its own: copies of library and provider, loaded by
/// their paths. Such a library looks for providers where it was configured to; `RDMAV_DRIVERS` names
/// one that comes before those of /etc/libibverbs.d, which are loaded, too.
///
/// With `dlmopen` there is nothing to test: a namespace of its own has a C library of its own, into
/// which the system's loader preloads nothing.
#[test]
fn a_library_of_the_programs_own() {
    for is_hooked in [false, true] {
        let place = Place::new(&format!("hook-own-{is_hooked}"));
        let Some(program) = compile(&place, LOADED_SOURCE, &["dl", "pthread"]) else { return };
        let [library, provider] = copy_rdma_core(&place);
        for (case, count) in LOADED_CASES {
            let line = format!("{program} {} {case}", library.display());
            let mut run = place.start_in(&line, |command| {
                hooked(command, is_hooked).env("RDMAV_DRIVERS", &provider)
            });
            let end = "no other libibverbs: yes\nits own provider: yes\n";
            let expected = round(is_hooked).repeat(count) + end;
            assert_eq!(run.succeed(), expected, "{case}, hooked {is_hooked}");
        }
        place.assert_gone();
    }
}

/// The same under a name of its own, which the provider's needs do not name, and configured to look for providers
/// where there are none.
#[test]
fn a_library_under_a_name_of_its_own() {
    let place = Place::new("hook-renamed");
    let Some(program) = compile(&place, LOADED_SOURCE, &["dl", "pthread"]) else { return };
    let library = renamed_library(&place);
    for (case, count) in LOADED_CASES {
        let text = place.start(&format!("{program} {} {case}", library.display())).succeed();
        // Its folder of drivers is not there, as in a wheel.
        let is_said = |line: &&str| !line.starts_with("libibverbs: Warning: couldn't open config");
        let text: String = text.lines().filter(is_said).map(|line| format!("{line}\n")).collect();
        assert!(text.starts_with(&round(config::is_hooked()).repeat(count)), "{case}: {text}");
    }
    place.assert_gone();
}

/// How often a program rings a doorbell for sends that may go at once: not at all, unless they are to go through the queue,
/// somebody records, or another library stands before the provider's function, which is called for each.
#[test]
fn sends_that_pass_by_the_queue() {
    let place = Place::new("hook-doorbells");
    let Some(program) = compile(&place, DOORBELLS_SOURCE, &["ibverbs"]) else { return };
    let run = |case: &str, variable: [&str; 2]| {
        let line = format!("{program} {case}");
        place.start_in(&line, |command| command.env(variable[0], variable[1])).succeed()
    };
    let said = |doorbells: u32, calls: u32| {
        format!(
            "3 messages and 2 in a list: {doorbells} doorbells, {calls} calls of another library\n"
        )
    };
    assert_eq!(run("plain", ["SOFT_HCA_AT_ONCE", "1"]), said(0, 0));
    assert_eq!(run("plain", ["SOFT_HCA_AT_ONCE", "0"]), said(4, 0));
    assert_eq!(run("plain", ["SOFT_HCA_HOOK", "0"]), said(4, 0));
    assert_eq!(run("replaced", ["SOFT_HCA_AT_ONCE", "1"]), said(4, 4));
    let mut command = place.command(&["record", "-o", "doorbells.shr", "--", &program, "plain"]);
    let recorded = command.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&recorded.stdout), said(4, 0), "{recorded:?}");
    place.assert_gone();
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

/// Small messages go between a program whose polls pass through the library and one whose polls do not.
#[test]
fn one_of_two_is_hooked() {
    if !installed(&["ibv_rc_pingpong"]) {
        return;
    }
    let place = Place::new("hook-one-of-two");
    for [server, client] in [["0", "1"], ["1", "0"]] {
        let port = tcp::free_port();
        // -c has every byte of the messages compared.
        let line = format!("ibv_rc_pingpong -d rxe0 -g 1 -n 100 -c -p {port}");
        let hooked = |line: &str, hook: &str| {
            place.start_in(line, |command| command.env("SOFT_HCA_HOOK", hook))
        };
        let mut server = hooked(&line, server);
        server.wait_until(|| tcp::listens(port));
        hooked(&format!("{line} {LOCALHOST}"), client).succeed();
        server.succeed();
    }
    place.assert_gone();
}
