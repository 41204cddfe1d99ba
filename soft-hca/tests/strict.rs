//! `soft-hca run --strict`: programs that rely on what is not promised fail, and the same ones corrected do
//! not.

use std::fs;
use std::io::Write;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::Instant;

use crate::record::{begin, end};
use programs::place::Place;
use programs::tcp::{free_port, listens};
use programs::{
    LIMIT, LOCALHOST, assert_has, comes_about, compile, installed, is_long, polls_are_seen,
    the_processors,
};

const PROMISES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/strict/promises.c");

/// The cases of the C program, and whether each passes where requests are executed at once.
const CASES: [(&str, bool); 13] = [
    ("reused", true),
    ("stack", true),
    ("freed", true),
    ("deregistered", true),
    ("destroyed", true),
    ("watched", false),
    ("read-early", false),
    ("send-queue", false),
    ("unsignaled", true),
    ("completions", false),
    ("elements", true),
    ("late-receive", false),
    ("armed-late", false),
];

const EVENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/strict/events.c");

/// The same of connection events.
const EVENT_CASES: [(&str, bool); 2] = [("established", true), ("ended", true)];

/// Seeds of which one at least has to find a mistake: `docs/strict.md` says how often each does.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=100;

/// Runs a program in the place's fabric, with the options that it is run with.
fn run(place: &Place, options: &[&str], line: &str) -> ExitStatus {
    let mut command = place.command(&["run", "--fabric", place.fabric_name()]);
    command.args(options).arg("--").args(line.split(' '));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    if !comes_about(LIMIT, || child.try_wait().unwrap().is_some()) {
        child.kill().unwrap();
    }
    child.wait().unwrap()
}

/// Runs a program's cases: those that rely on what is not promised fail with a seed, and corrected with none.
fn run_cases(place: &Place, program: &str, cases: &[(&str, bool)]) {
    let keeper = place.keep();
    let strictly = |seed: u64, line: &str| run(place, &[&format!("--strict={seed}")], line);
    thread::scope(|scope| {
        for (case, passes) in cases {
            scope.spawn(move || {
                let [wrong, right] =
                    ["wrong", "right"].map(|kind| format!("{program} {case} {kind}"));
                for seed in [1, 2] {
                    assert!(strictly(seed, &right).success(), "{case}, corrected, seed {seed}");
                }
                let fails = |seed| !strictly(seed, &wrong).success();
                assert!(SEEDS.into_iter().any(fails), "{case} is not found");
                if *passes {
                    assert!(run(place, &[], &wrong).success(), "{case} without --strict");
                }
            });
        }
    });
    place.end(keeper);
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/strict.md");
    let page = fs::read_to_string(page).unwrap();
    let is_told = |(case, _): &(&str, bool)| page.contains(&format!("\n| `{case}` | "));
    assert!(cases.iter().all(is_told), "each case is on the page");
}

#[test]
fn what_is_not_promised_fails_and_its_cure_does_not() {
    if !polls_are_seen() {
        return;
    }
    let place = Place::new("strict");
    let Some(program) = compile(&place, PROMISES, &["ibverbs"]) else { return };
    run_cases(&place, &program, &CASES);
}

#[test]
fn connection_events_come_in_any_legal_order() {
    let place = Place::new("strict-events");
    let Some(program) = compile(&place, EVENTS, &["ibverbs", "rdmacm"]) else { return };
    run_cases(&place, &program, &EVENT_CASES);
}

const CAPS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/strict/caps.c");

#[test]
fn what_a_queue_pair_holds_is_told_alike() {
    let place = Place::new("strict-caps");
    let Some(program) = compile(&place, CAPS, &["ibverbs"]) else { return };
    let keeper = place.keep();
    for (options, what) in [(&[][..], ""), (&["--strict=1"], " requests")] {
        assert!(run(&place, options, &format!("{program}{what}")).success(), "{options:?}");
    }
    place.end(keeper);
}

const TIME: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/strict/time.c");

/// Things put off happen at once if all wait, and take their time if a program computes.
#[test]
fn nobody_waits_for_time_to_pass() {
    let place = Place::new("strict-time");
    let Some(program) = compile(&place, TIME, &["ibverbs"]) else { return };
    let _turn = the_processors();
    let keeper = place.keep();
    let time = |how: &str| {
        let began = Instant::now();
        assert!(run(&place, &["--strict=1"], &format!("{program} {how}")).success(), "{how}");
        began.elapsed()
    };
    let computes = time("computes");
    // Others may have the processors.
    let waits = (0..5).map(|_| time("waits")).min().unwrap();
    assert!(waits < computes / 2, "{waits:?} {computes:?}");
    place.end(keeper);
}

const SLEEPS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/strict/sleeps.c");

/// Sleeps of many minutes go by the fabric's clock if that is asked for, and then do the same again.
#[test]
fn sleeps_are_skipped() {
    let place = Place::new("strict-sleeps");
    let Some(program) = compile(&place, SLEEPS, &["ibverbs"]) else { return };
    let skipping = ["--strict=1", "--skip-sleeps"];
    let keeper = place.keep();
    for what in ["threads", "signal"] {
        assert!(run(&place, &skipping, &format!("{program} {what}")).success(), "{what}");
    }
    for options in [&["--strict=1"][..], &["--skip-sleeps"]] {
        assert!(run(&place, options, &format!("{program} clock")).success(), "{options:?}");
    }
    place.end(keeper);
    let record = || {
        let place = Place::new("strict-slept");
        let keeper = place.keep();
        let recorder = begin(&place, "run.shr", &[]);
        assert!(run(&place, &skipping, &format!("{program} writes")).success());
        end(recorder);
        let shown = place.command(&["show", "--stable", "run.shr"]).output().unwrap();
        place.end(keeper);
        String::from_utf8(shown.stdout).unwrap()
    };
    let first = record();
    assert_has(&first, &["IBV_WR_RDMA_WRITE is executed", " IBV_WC_"]);
    assert_eq!(record(), first);
    let mut seeds = place.command(&["run", "--seeds", "3", "--skip-sleeps", "--timeout", "50"]);
    let output = seeds.args(["--", &program, "writes"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    place.assert_gone();
}

/// Of two programs with a thread each nothing but the fabric decides: the same seed does the same again.
#[test]
fn the_same_seed_has_the_same_record() {
    if !installed(&["ibv_rc_pingpong"]) {
        return;
    }
    let _turn = the_processors();
    let port = free_port();
    let line = format!("ibv_rc_pingpong -g 1 -n 20 -r 4 -p {port}");
    let record = || {
        let place = Place::new("strict-again");
        let keeper = place.keep();
        let start =
            |line: &str| place.start_in(line, |command| command.env("SOFT_HCA_STRICT_SEED", "1"));
        let recorder = begin(&place, "run.shr", &[]);
        let mut server = start(&line);
        server.wait_until(|| listens(port));
        start(&format!("{line} {LOCALHOST}")).succeed();
        server.succeed();
        end(recorder);
        let shown = place.command(&["show", "--stable", "run.shr"]).output().unwrap();
        place.end(keeper);
        String::from_utf8(shown.stdout).unwrap()
    };
    let first = record();
    assert_has(&first, &[" is executed, ", " IBV_WC_"]);
    for _ in 0..if is_long() { 100 } else { 3 } {
        assert_eq!(record(), first);
    }
}

#[test]
fn seeds_one_after_the_other_until_one_fails() {
    let place = Place::new("strict-seeds");
    let Some(program) = compile(&place, PROMISES, &["ibverbs"]) else { return };
    let seeds = |options: &[&str], line: &str| {
        let mut command = place.command(&["run"]);
        let output = command.args(options).arg("--").args(line.split(' ')).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), text)
    };
    let is_record = |name: &str| name.starts_with("strict-") && name.ends_with(".shr");
    let records = || {
        let names = fs::read_dir(place.file("")).unwrap().map(|entry| entry.unwrap().file_name());
        let names = names.map(|name| name.into_string().unwrap());
        names.filter(|name| is_record(name)).collect::<Vec<_>>()
    };
    let (status, text) = seeds(&["--strict=7", "--seeds", "2"], &format!("{program} reused right"));
    assert_eq!(status, Some(0), "{text}");
    assert_has(&text, &["it has passed with 2 seeds from 7 on"]);
    assert!(records().is_empty());
    let (status, text) = seeds(&["--seeds", "20"], &format!("{program} reused wrong"));
    assert_eq!(status, Some(2), "{text}");
    let [record] = &records()[..] else { panic!("{text}") };
    let seed = record.trim_start_matches("strict-").trim_end_matches(".shr");
    assert_has(&text, &[&format!("--strict={seed} it ends with status 2"), record]);
    // A thread that is stopped between its post and what it does to the buffer is lucky.
    let again = || run(&place, &[&format!("--strict={seed}")], &format!("{program} reused wrong"));
    assert!((0..10).any(|_| again().code() == Some(2)), "the same seed again");
    let shown = place.command(&["show", record]).output().unwrap();
    assert_has(&String::from_utf8_lossy(&shown.stdout), &["ibv_post_send(qp=", "IBV_WC_RECV"]);
    let found = place.command(&["check", "--record", record]).output().unwrap();
    assert_has(&String::from_utf8_lossy(&found.stderr), &["buffer-early: promises"]);
    fs::remove_file(place.file(record)).unwrap();
    let (status, text) = seeds(&["--seeds", "2", "--timeout", "1"], "sleep 1000");
    assert_eq!(status, Some(124), "{text}");
    assert_has(&text, &["--strict=1 it has not ended after 1 s"]);
    assert_eq!(records(), ["strict-1.shr"]);
    place.assert_gone();
}

/// A run that fails is done again with fewer kinds of choices, and those are named by which it fails.
#[test]
fn seeds_name_the_choices_by_which_a_run_fails() {
    let place = Place::new("strict-choices");
    let Some(program) = compile(&place, PROMISES, &["ibverbs"]) else { return };
    let text = |options: &[&str], case: &str| {
        let mut command = place.command(&["run"]);
        let output = command.args(options).args(["--", &program, case, "wrong"]).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    // The buffer has other bytes as soon as the request is not executed at once.
    let (_, reused) = text(&["--seeds", "20"], "reused");
    assert_has(&reused, &["--only-choices=none it fails, too: it is enough"]);
    let (_, unsearched) = text(&["--seeds", "20", "--search", "0"], "reused");
    assert!(!unsearched.contains("--only-choices"), "{unsearched}");
    // Eight writes are watched, and one that is seen in part is enough. A receiver that the scheduler keeps from looking
    // sees nothing: then more kinds and requests seem to be needed.
    let early = || text(&["--seeds", "20"], "watched").1;
    let of_one = |text: String| {
        let is_early = text.contains("    early: some bytes of a message are in memory");
        let named =
            |number: &u32| text.contains(&format!(" --only-choices=early:{number} it fails, too"));
        (1..=8).find(named).filter(|_| is_early).map(|number| (number, text))
    };
    let (one, named) = (0..20).find_map(|_| of_one(early())).expect("twenty searches");
    let of_each = format!("number {one}, send work request of each queue pair, in strict-");
    assert_has(&named, &[&of_each, "RDMA_WRITE"]);
    let other = format!("early:{}-", one + 8);
    let kindest = text(&["--seeds", "1", "--only-choices", &other], "watched");
    assert_eq!(kindest.0, Some(0), "{}", kindest.1);
    let others =
        "delay,landing,overtaken,together,lost,reordered,interrupted,rubbish,poll,pause,event";
    for kinds in ["none", others] {
        let (status, text) = text(&["--seeds", "5", "--only-choices", kinds], "watched");
        assert_eq!(status, Some(0), "{text}");
    }
    place.assert_gone();
}

/// So are events of the connection manager: a message is polled before ESTABLISHED can be fetched.
#[test]
fn seeds_name_the_events_by_which_a_run_fails() {
    let place = Place::new("strict-events");
    let Some(program) = compile(&place, EVENTS, &["ibverbs", "rdmacm"]) else { return };
    let named = || {
        let mut command = place.command(&["run", "--seeds", "40", "--"]);
        let output = command.args([&program, "established", "wrong"]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{text}");
        text.contains(" --only-choices=event:").then_some(text)
    };
    // A program that is kept from the processors may fail by the same event in most repetitions only.
    let named = (0..20).find_map(|_| named()).expect("twenty searches");
    assert_has(&named, &["of each id, in strict-", "RDMA_CM_EVENT_ESTABLISHED"]);
    place.assert_gone();
}

/// Records, and other files with their names, are not overwritten.
#[test]
fn seeds_leave_files_alone_that_they_have_not_made() {
    let place = Place::new("strict-files");
    let seeds = |program: &str| {
        let mut command = place.command(&["run", "--seeds", "2", "--", program]);
        command.stderr(Stdio::null()).status().unwrap().code()
    };
    let kept = ["strict-1.shr", "strict-2.shr", "strict-1-2.shr"];
    kept.iter().for_each(|name| fs::write(place.file(name), name).unwrap());
    let others = || {
        let names = fs::read_dir(place.file("")).unwrap().map(|entry| entry.unwrap().file_name());
        let names = names.map(|name| name.into_string().unwrap());
        let is_other = |name: &String| name.ends_with(".shr") && !kept.contains(&&name[..]);
        names.filter(is_other).collect::<Vec<_>>()
    };
    assert_eq!((seeds("true"), others()), (Some(0), vec![]));
    assert_ne!(seeds("/no/such/program"), Some(0));
    assert!(others().is_empty());
    assert_eq!((seeds("false"), others()), (Some(1), vec!["strict-1-3.shr".to_string()]));
    kept.iter().for_each(|name| assert_eq!(fs::read_to_string(place.file(name)).unwrap(), *name));
    place.assert_gone();
}

/// Runs that go on at once print one after the other, in the order of their seeds, whichever ends first.
#[test]
fn seeds_run_at_once() {
    let place = Place::new("strict-at-once");
    let run = |script: &str| {
        let mut command =
            place.command(&["run", "--seeds", "6", "--at-once", "3", "--search", "0"]);
        let output = command.args(["--", "sh", "-c", script]).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let files = || {
        let names = fs::read_dir(place.file("")).unwrap().map(|entry| entry.unwrap().file_name());
        let names = names.map(|name| name.into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name.ends_with(".shr")).collect();
        names.sort_unstable();
        names
    };
    let prints =
        "seed=$SOFT_HCA_STRICT_SEED; cat; sleep 0.$((7 - seed)); echo $seed a; echo $seed b";
    let both = |seeds: &[u32]| -> String {
        seeds.iter().map(|seed| format!("{seed} a\n{seed} b\n")).collect()
    };
    let (status, output, errors) = run(prints);
    assert_eq!((status, output, files()), (Some(0), both(&[1, 2, 3, 4, 5, 6]), vec![]), "{errors}");
    assert_has(&errors, &["it has passed with 6 seeds from 1 on"]);
    // The second one fails, and those that have begun before it has ended go on.
    let (status, output, errors) = run(&format!("{prints}; test $seed -ne 2 || exit 7"));
    assert_eq!((status, files()), (Some(7), vec!["strict-2.shr".to_string()]), "{errors}");
    assert_eq!(output, both(&[1, 2, 3, 4]));
    assert_has(&errors, &["soft-hca: with --strict=2 it ends with status 7"]);
    let mut command = place.command(&["run", "--seeds", "2", "--at-once", "2", "--", "/no/such"]);
    assert_ne!(command.stderr(Stdio::null()).status().unwrap().code(), Some(0));
    assert_eq!(files().len(), 1);
    place.assert_gone();
}

/// On a terminal each run may read, and shows how far it is; the terminal has its old foreground when they have
/// ended.
#[test]
fn seeds_run_in_the_foreground_of_a_terminal() {
    if !installed(&["script"]) {
        return;
    }
    let place = Place::new("strict-terminal");
    let inner = place.command(&["run", "--seeds", "2", "--timeout", "60", "--", "head", "-n", "1"]);
    let words = std::iter::once(inner.get_program()).chain(inner.get_args());
    let line = words.map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ");
    let mut command = Command::new("script");
    command.args(["-qec", &format!("{line}; read last; echo then $last"), "/dev/null"]);
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.current_dir(place.file("")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // Lines wait in the terminal until they are read; it is closed when this is dropped.
    let mut keyboard = child.stdin.take().unwrap();
    keyboard.write_all(b"one\ntwo\nthree\n").unwrap();
    let output = child.wait_with_output().unwrap();
    drop(keyboard);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    let parts = ["--strict=1, 0 of 2 runs have passed", "--strict=2, 1 of 2", "then three"];
    assert_has(&text, &parts);
    assert_has(&text, &["it has passed with 2 seeds from 1 on"]);
    place.assert_gone();
}

#[test]
fn seeds_are_numbers() {
    let place = Place::new("strict-words");
    let refused = |variable: &str, options: &[&str]| {
        let mut command = place.command(&["run"]);
        let command = command.args(options).args(["--", "true"]);
        let output = command.env("SOFT_HCA_STRICT_SEED", variable).output().unwrap();
        assert!(!output.status.success(), "{variable} {options:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert_has(&refused("many", &[]), &["SOFT_HCA_STRICT_SEED is a number"]);
    assert_has(&refused("", &["--strict=many"]), &["invalid value 'many' for '--strict[=<SEED>]'"]);
    assert_has(&refused("", &["--seeds", "0"]), &["--seeds"]);
    assert_has(&refused("", &["--timeout", "5"]), &["--seeds"]);
    assert_has(&refused("", &["--search", "5"]), &["--seeds"]);
    assert_has(&refused("", &["--at-once", "2"]), &["--seeds"]);
    assert_has(&refused("", &["--only-choices", "early,late"]), &["late", "landing"]);
    assert_has(&refused("", &["--only-choices", "early:0-3"]), &["FROM-TO", "from 1 on"]);
    let mut command = place.command(&["run", "--strict", "--", "true"]);
    let output = command.output().unwrap();
    assert!(output.status.success());
    assert_has(&String::from_utf8_lossy(&output.stderr), &["soft-hca: --strict="]);
    place.assert_gone();
}
