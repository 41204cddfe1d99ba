//! `soft-hca check`: a wrong program for each rule, of which that is found and nothing else, and the same
//! one corrected, of which nothing is; and programs that others have written.

use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;

use programs::place::{Place, built};
use programs::{
    LIMIT, assert_has, comes_about, compile, compile_with, installed, polls_are_seen, rping,
    the_processors,
};
use serde_json::Value;

const MISTAKES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/check/mistakes.c");
/// The same of connections by the connection manager.
const MANAGED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/check/managed.c");

/// Pairs of operations of devices, by several queue pairs and processes.
const RACES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/check/races.c");

/// Programs that hang, and are killed by a signal of their own.
const HANGS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hangs/hangs.c");

/// The rules with a case that is called so.
const RULES: [&str; 23] = [
    "receive-late",
    "buffer-early",
    "receive-gone",
    "overlap",
    "unsignaled-run",
    "queue-full",
    "cq-full",
    "sge-count",
    "inline-size",
    "pkey-index",
    "arm-order",
    "srq-limit",
    "path-mtu",
    "leaked",
    "read-depth",
    "race",
    "polled-memory",
    "timers",
    "after-error",
    "state",
    "rkey-stale",
    "unacked",
    "fork",
];

/// Further cases, and what they are against.
const MORE: [(&str, &str); 8] = [
    ("fork-command", "fork"),
    ("buffer-freed", "buffer-early"),
    ("never-polled", "unsignaled-run"),
    ("arm-first", "arm-order"),
    ("arm-polled", "arm-order"),
    ("rkey-sent", "rkey-stale"),
    ("rkey-received", "rkey-stale"),
    ("state-peer", "state"),
];

/// Races of operations of devices, which are found in each run.
const ORDERED: [&str; 17] = [
    "write-write",
    "write-read",
    "read-write",
    "neighbours",
    "another-completion",
    "writers",
    "writer-reader",
    "atomic-writer",
    "atomic-write",
    "fence-write",
    "fence-send",
    "fence-result",
    "fence-between",
    "receive",
    "read-send",
    "two-reads",
    "lock",
];

/// Those whose target goes on in between: they are found if a write is held back for longer than that takes.
const SEEN: [&str; 3] = ["writer-sender", "message", "told-on"];

/// Runs in which each of these is found at least once.
const TRIES: usize = 30;

/// The exit status where something was found.
const FOUND: i32 = 66;

/// Runs `soft-hca check` with options, and gives its exit status and what it says on standard error.
fn check(place: &Place, options: &[&str], line: &str) -> (i32, String) {
    let words = line.split(' ').collect::<Vec<_>>();
    let mut command = place.command(&["check"]);
    let command = command.args(options).arg("--").args(words).stdout(Stdio::null());
    let file = place.file("stderr");
    let mut child = command.stderr(fs::File::create(&file).unwrap()).spawn().unwrap();
    if !comes_about(LIMIT, || child.try_wait().unwrap().is_some()) {
        child.kill().unwrap();
    }
    let status = child.wait().unwrap();
    let text = fs::read_to_string(file).unwrap();
    (status.code().unwrap_or_else(|| panic!("`{line}`: {status}\n{text}")), text)
}

/// The rules that a program is against.
fn found(place: &Place, line: &str) -> (i32, BTreeSet<String>) {
    let file = place.file("findings");
    let output = file.to_str().unwrap();
    let (status, text) = check(place, &["--format", "json", "-o", output], line);
    // Shown if the test fails: what went wrong in the program.
    println!("`{line}`: {text}");
    let findings = fs::read_to_string(&file).unwrap_or_else(|_| panic!("`{line}`: {text}"));
    let findings: Vec<Value> = serde_json::from_str(&findings).unwrap();
    (status, findings.iter().map(|finding| finding["rule"].as_str().unwrap().into()).collect())
}

#[test]
fn each_mistake_and_its_cure() {
    if !polls_are_seen() {
        return;
    }
    let _processors = the_processors();
    let place = Place::new("check");
    let Some(program) = compile(&place, MISTAKES, &["ibverbs"]) else { return };
    mistakes_and_cures(&place, &program);
    mistake_and_cure(&place, &format!("{program} receive-returned"), "receive-gone");
    let Some(managed) = compile(&place, MANAGED, &["rdmacm", "ibverbs"]) else { return };
    mistake_and_cure(&place, &managed, "receive-late");
    place.assert_gone();
}

/// Operations of devices that nothing orders, and the same ones with an order: all are found, and nothing else.
#[test]
fn races_of_devices() {
    if !polls_are_seen() {
        return;
    }
    let _processors = the_processors();
    let place = Place::new("check-races");
    let Some(program) = compile_with(&place, RACES, &["ibverbs"], &["-g"]) else { return };
    let races = BTreeSet::from(["race".to_string()]);
    for case in ORDERED {
        mistake_and_cure(&place, &format!("{program} {case}"), "race");
    }
    for case in SEEN {
        let wrong = || found(&place, &format!("{program} {case} wrong")).1;
        let all: BTreeSet<String> =
            (0..TRIES).map(|_| wrong()).find(|all| !all.is_empty()).unwrap_or_default();
        assert_eq!(all, races, "{case}");
        let right = found(&place, &format!("{program} {case} right"));
        assert_eq!(right, (0, BTreeSet::new()), "{case}, corrected");
    }
    let (_, text) = check(&place, &[], &format!("{program} fence-send wrong"));
    let parts = [
        "race: races[",
        ": IBV_WR_SEND (wr_id 0x66) reads 0x",
        "; IBV_WR_RDMA_READ (wr_id 0x68) of qp ",
        ", posted by races[",
        "] in operate at ",
        "races.c:",
        ", writes them, and there is no fence between the two\n    in operate at ",
    ];
    assert_has(&text, &parts);
    place.assert_gone();
}

/// The same programs in Rust.
#[test]
fn each_mistake_in_rust_and_its_cure() {
    if !polls_are_seen() {
        return;
    }
    let file = built("soft-hca-mistakes");
    let _processors = the_processors();
    let (program, place) = (file.to_str().unwrap(), Place::new("check-rust"));
    mistakes_and_cures(&place, program);
    mistake_and_cure(&place, &format!("{program} receive-accepted"), "receive-late");
    place.assert_gone();
}

/// The wrong program of each case is found, and nothing is of the corrected one.
fn mistakes_and_cures(place: &Place, program: &str) {
    for (case, rule) in RULES.map(|rule| (rule, rule)).into_iter().chain(MORE) {
        mistake_and_cure(place, &format!("{program} {case}"), rule);
    }
}

/// The same of one.
fn mistake_and_cure(place: &Place, case: &str, rule: &str) {
    let wrong = found(place, &format!("{case} wrong"));
    assert_eq!(wrong, (FOUND, BTreeSet::from([rule.to_string()])), "{case}");
    let right = found(place, &format!("{case} right"));
    assert_eq!(right, (0, BTreeSet::new()), "{case}, corrected");
}

#[test]
fn findings_in_words_suppressed_and_for_code_hosts() {
    if !polls_are_seen() {
        return;
    }
    let _processors = the_processors();
    let place = Place::new("check-words");
    let Some(program) = compile(&place, MISTAKES, &["ibverbs"]) else { return };
    let line = format!("{program} unsignaled-run wrong");
    let (status, text) = check(&place, &[], &line);
    assert_eq!(status, FOUND);
    let parts =
        ["unsignaled-run: mistakes[", "max_send_wr 8", "    why: ", "    do: ", "1 finding\n"];
    assert_has(&text, &parts);
    let (status, text) = check(&place, &["--suppress", "unsignaled-run:mistakes"], &line);
    assert_eq!((status, &text[..]), (0, "Nothing was found.\n"));
    let (status, _) = check(&place, &["--suppress", "unsignaled-run:others"], &line);
    assert_eq!(status, FOUND);
    let (status, text) = check(&place, &["--suppress", "no-such-rule"], &line);
    assert_eq!(status, 2);
    assert_has(&text, &["there is no rule no-such-rule", "unsignaled-run"]);
    let file = place.file("sarif");
    let options = ["--format", "sarif", "-o", file.to_str().unwrap()];
    assert_eq!(check(&place, &options, &line).0, FOUND);
    let log: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let run = &log["runs"][0];
    assert_eq!(log["version"], "2.1.0");
    assert_eq!(run["results"][0]["ruleId"], "unsignaled-run");
    let ids = run["tool"]["driver"]["rules"].as_array().unwrap().iter();
    let ids: BTreeSet<&str> = ids.map(|rule| rule["id"].as_str().unwrap()).collect();
    // The cases of the last two are in like.rs and in rdma_core.rs.
    let programs = RULES.into_iter().chain(["refused", "polled-twice"]).collect::<BTreeSet<_>>();
    assert_eq!(ids, programs, "each rule has its program");
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/check.md");
    let page = fs::read_to_string(page).unwrap();
    let is_told = |rule: &&str| page.contains(&format!("\n| `{rule}` | "));
    assert!(programs.iter().all(is_told), "each rule is on the page");
    place.assert_gone();
}

/// Each finding has the place where the call was made, also in a child of `fork`.
#[test]
fn findings_have_a_place_in_the_source() {
    if !polls_are_seen() {
        return;
    }
    let _processors = the_processors();
    let place = Place::new("check-places");
    let Some(program) = compile_with(&place, MISTAKES, &["ibverbs"], &["-g"]) else { return };
    for (case, function) in [
        ("buffer-early", "send_message"),
        ("state", "post_in_reset"),
        ("state-peer", "send_message"),
        ("fork", "poll_once"),
        ("fork-command", "make_child"),
    ] {
        let (status, text) = check(&place, &[], &format!("{program} {case} wrong"));
        assert_eq!(status, FOUND, "{case}: {text}");
        assert_has(&text, &[&format!("\n    in {function} at "), "1 finding\n"]);
    }
    place.assert_gone();
}

/// A receive that is in time, but was posted after the connection was accepted.
#[test]
fn a_receive_after_the_connection_was_accepted() {
    let _processors = the_processors();
    let place = Place::new("check-accepted");
    let Some(program) = compile_with(&place, MANAGED, &["rdmacm", "ibverbs"], &["-g"]) else {
        return;
    };
    let (status, text) = check(&place, &[], &format!("{program} wrong"));
    assert_eq!(status, FOUND, "{text}");
    let what = ": the first receive was posted after the connection was accepted";
    assert_has(
        &text,
        &["receive-late: managed[", what, "\n    in post_receive at ", "1 finding\n"],
    );
    place.assert_gone();
}

/// A record gives the same, and who fails by itself keeps its status.
#[test]
fn records_and_statuses() {
    let _processors = the_processors();
    let place = Place::new("check-record");
    let Some(program) = compile(&place, MISTAKES, &["ibverbs"]) else { return };
    let record = place.file("run.shr");
    let record = record.to_str().unwrap();
    let mut command = place.command(&["record", "-o", record, "--"]);
    let status = command.args([&program, "leaked", "wrong"]).stderr(Stdio::null()).status();
    assert!(status.unwrap().success());
    let output = place.command(&["check", "--record", record]).output().unwrap();
    assert_eq!(output.status.code(), Some(FOUND));
    assert_has(
        &String::from_utf8_lossy(&output.stderr),
        &["leaked: mistakes[", "pd 0 not destroyed", "with context ", "with channel "],
    );
    let (status, _) = check(&place, &[], "false");
    assert_eq!(status, 1);
    place.assert_gone();
}

/// A run that ends with an error, or hangs, has the commands named that explain it; objects that it has not
/// destroyed are no findings then.
#[test]
fn runs_that_fail_or_hang_are_to_be_explained() {
    if !polls_are_seen() {
        return;
    }
    let _processors = the_processors();
    let place = Place::new("check-failed");
    let Some(program) = compile(&place, MISTAKES, &["ibverbs"]) else { return };
    let line = format!("{program} leaked failed");
    let (status, text) = check(&place, &[], &line);
    assert_eq!(status, 3, "{text}");
    let record =
        format!("    soft-hca record -o run.shr -- {line}\n    soft-hca explain run.shr\n");
    assert_has(&text, &["Nothing was found.\n", "the program ended with status 3; ", &record]);
    let record = place.file("run.shr");
    let command =
        ["record", "-o", record.to_str().unwrap(), "--", &program, "after-error", "right"];
    let status = place.command(&command).stderr(Stdio::null()).status();
    assert!(status.unwrap().success());
    let output = place.command(&["check", "--record", record.to_str().unwrap()]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8_lossy(&output.stderr);
    let explained = format!("    soft-hca explain {}\n", record.display());
    assert_has(&text, &["Nothing was found.\n", " went wrong in the run; ", &explained]);
    let Some(hangs) = compile(&place, HANGS, &["rdmacm", "ibverbs", "pthread"]) else { return };
    let (status, text) = check(&place, &[], &format!("{hangs} armed_late"));
    assert_eq!(status, 128 + libc::SIGALRM, "{text}");
    let parts =
        ["arm-order: hangs[", "the program ended with status 142", "soft-hca explain run.shr"];
    assert_has(&text, &parts);
    place.assert_gone();
}

/// A program that watches its memory is found in a record, if writes were held back in its run.
#[test]
fn a_watcher_in_a_record() {
    if !polls_are_seen() {
        return;
    }
    let _processors = the_processors();
    let place = Place::new("check-watcher");
    let Some(program) = compile_with(&place, MISTAKES, &["ibverbs"], &["-g"]) else { return };
    for (options, status) in [(&["--buffers"][..], FOUND), (&[], 0)] {
        let mut command = place.command(&["record", "-o", "run.shr"]);
        let command = command.args(options).args(["--", &program, "polled-memory", "wrong"]);
        assert!(command.stderr(Stdio::null()).status().unwrap().success());
        let output = place.command(&["check", "--record", "run.shr"]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{options:?}: {text}");
        if status == FOUND {
            assert_has(&text, &["polled-memory: mistakes[", "\n    in write_number at "]);
        }
        let shown = place.command(&["show", "run.shr"]).output().unwrap();
        let shown = String::from_utf8_lossy(&shown.stdout);
        assert_eq!(shown.contains("holds it back to see who waits for it, for "), status == FOUND);
    }
    place.assert_gone();
}

/// Programs of the distribution against which there is nothing.
#[test]
fn nothing_is_found_of_who_does_it_right() {
    if !installed(&["rping"]) {
        return;
    }
    let _processors = the_processors();
    let place = Place::new("check-right");
    let script = place.file("pair");
    fs::write(&script, rping::script(&place, 7741, 3)).unwrap();
    assert_eq!(found(&place, &format!("sh {}", script.display())), (0, BTreeSet::new()));
    place.assert_gone();
}
