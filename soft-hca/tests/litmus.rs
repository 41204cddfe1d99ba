//! The litmus tests of [ordering.md](../docs/ordering.md): no run shows what is forbidden, and some seed of `--strict` shows
//! each outcome that is allowed. `SOFT_HCA_LONG=1` has a hundred seeds run all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::iter;
use std::path::Path;
use std::process::Command;

use programs::hosts::{Hosts, assert_gone};
use programs::place::Place;
use programs::{compile, is_long, the_processors};

const LITMUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/litmus/litmus.c");
const PAGE: &str = include_str!("../docs/ordering.md");

/// A test whose outcome the specification does not forbid, and the kernel's Soft-RoCE shows; the page says why.
const SHOWN_BY_KERNEL: &str = "word";

/// Tests in which a processor looks at memory before it has been told of what it finds there, or changes it: when it does so
/// is not the seed's to choose.
const LOOKS_EARLY: [&str; 6] = ["puts", "bytes", "add-processor", "puts-relaxed", "word", "reset"];

/// Seeds that run all tests, and how often each.
const FEW_SEEDS: u64 = 2;
const FEW_RUNS: u32 = 8;
/// Of so many seeds one at least shows what is allowed.
const SEEDS: u64 = 100;
const LONG_RUNS: u32 = 20;

/// A test: its name, and whether its outcome is allowed.
type Test = (String, bool);

/// The tests that the program lists.
fn tests(program: &str) -> Vec<Test> {
    let output = Command::new(program).arg("--list").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let test = |line: &str| {
        let words: Vec<&str> = line.split([' ', ':']).collect();
        (words[1].to_string(), words[2] == "allowed")
    };
    text.lines().map(test).collect()
}

/// How often the outcomes of tests, by the arguments, were seen, with a seed if it is not 0. A forbidden one fails.
fn run(place: &Place, program: &str, arguments: &str, seed: u64) -> BTreeMap<String, u32> {
    run_logged(place, program, arguments, seed, None)
}

/// The same with a log of the fabric.
fn run_logged(
    place: &Place,
    program: &str,
    arguments: &str,
    seed: u64,
    log: Option<&Path>,
) -> BTreeMap<String, u32> {
    let line = format!("{program} {arguments}");
    let mut litmus = place.start_in(&line, |command| {
        command.envs(log.map(|log| ("SOFT_HCA_LOG", log)));
        match seed {
            0 => command,
            seed => command.env("SOFT_HCA_STRICT_SEED", seed.to_string()),
        }
    });
    let text = litmus.succeed();
    let result = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let [name, _, seen, "of", _] = words[..] else { panic!("{text}") };
        (name.to_string(), seen.parse().unwrap())
    };
    text.lines().map(result).collect()
}

fn compiled(place: &Place) -> Option<String> {
    compile(place, LITMUS, &["ibverbs"])
}

/// The cells of the page's figures: the test, whether it is allowed, plain and strict runs, seeds, runs on two hosts and on
/// the kernel.
fn figures() -> Vec<Vec<&'static str>> {
    let rows = PAGE.lines().skip_while(|line| !line.starts_with("| row | test | ")).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

#[test]
fn the_page_has_each_test_with_its_figures() {
    let place = Place::new("litmus-page");
    let Some(program) = compiled(&place) else { return };
    let told: Vec<Test> = figures()
        .iter()
        .map(|cells| (cells[1].trim_matches('`').to_string(), cells[2] == "allowed"))
        .collect();
    assert_eq!(told, tests(&program));
    for cells in figures() {
        let [name, is_allowed] = [cells[1].trim_matches('`'), cells[2]];
        let [plain, strict, seeds, hosts, kernel] = [3, 4, 5, 6, 7].map(|column| {
            let (seen, runs) = cells[column].split_once(" of ").expect("a figure");
            assert!(runs.replace(',', "").parse::<u32>().is_ok_and(|runs| runs > 0), "{name}");
            seen != "0"
        });
        let expected = is_allowed == "allowed";
        assert_eq!([strict, seeds], [expected; 2], "{name}");
        assert!(expected || !(plain || hosts), "{name}");
        assert!(expected || !kernel || name == SHOWN_BY_KERNEL, "{name}");
    }
}

#[test]
fn what_is_forbidden_is_not_seen() {
    let place = Place::new("litmus");
    let Some(program) = compiled(&place) else { return };
    let _turn = the_processors();
    let runs = if is_long() { 2000 } else { 100 };
    let seen = run(&place, &program, &format!("all --runs {runs}"), 0);
    assert_eq!(seen.len(), tests(&program).len());
    place.assert_gone();
}

#[test]
fn strict_runs_show_all_that_is_allowed_and_nothing_else() {
    let place = Place::new("litmus-strict");
    let Some(program) = compiled(&place) else { return };
    let _turn = the_processors();
    let allowed = tests(&program).into_iter().filter_map(|(name, is)| is.then_some(name));
    let mut missing: BTreeSet<String> = allowed.collect();
    let (seeds, runs) = if is_long() { (SEEDS, LONG_RUNS) } else { (FEW_SEEDS, FEW_RUNS) };
    for seed in 1..=seeds {
        let seen = run(&place, &program, &format!("all --runs {runs}"), seed);
        missing.retain(|name| seen[name] == 0);
    }
    // Another seed shows those that few have not shown.
    for seed in seeds + 1..=SEEDS {
        let is_missing = |name: &String| {
            run(&place, &program, &format!("{name} --runs {runs}"), seed)[name] == 0
        };
        missing.retain(is_missing);
    }
    assert!(missing.is_empty(), "{missing:?}");
    place.assert_gone();
}

#[test]
fn the_same_seed_shows_the_same_outcomes() {
    let place = Place::new("litmus-again");
    let Some(program) = compiled(&place) else { return };
    let _turn = the_processors();
    let log = place.file("log");
    let names: Vec<String> = tests(&program).into_iter().map(|(name, _)| name).collect();
    assert!(LOOKS_EARLY.iter().all(|name| names.iter().any(|known| known == name)));
    let wait = names.into_iter().filter(|name| !LOOKS_EARLY.contains(&name.as_str()));
    let arguments = format!("{} --runs {FEW_RUNS}", wait.collect::<Vec<_>>().join(" "));
    // A program whose processor the machine below has taken seems to compute, so that time passes: that run does not count.
    let outcomes = || {
        let mut run = || {
            let seen = run_logged(&place, &program, &arguments, 7, Some(&log));
            let text = fs::read_to_string(&log).unwrap();
            fs::remove_file(&log).unwrap();
            (seen, text.contains("time passes"))
        };
        let mut runs =
            iter::repeat_with(&mut run).take(5).skip_while(|(_, has_passed)| *has_passed);
        runs.next().expect("a run in which no time has passed").0
    };
    let first = outcomes();
    for again in 1..if is_long() { 100 } else { 3 } {
        assert_eq!(outcomes(), first, "run {again}");
    }
    place.assert_gone();
}

#[test]
fn what_is_forbidden_is_not_seen_between_hosts() {
    let Some(hosts) = Hosts::new("litmus") else { return };
    let Some(program) = compiled(&hosts.a.place) else { return };
    let _turn = the_processors();
    let runs = if is_long() { 2000 } else { 20 };
    let by = hosts.b.place.script();
    let arguments = format!("all --runs {runs} --b {}", by.display());
    let seen = run(&hosts.a.place, &program, &arguments, 0);
    assert_eq!(seen.len(), tests(&program).len());
    assert_gone(&hosts);
}

#[test]
fn what_it_is_asked_for_has_to_be_there() {
    let place = Place::new("litmus-usage");
    let Some(program) = compiled(&place) else { return };
    let lines = [
        &["no-such-test"][..],
        &["puts", "no-such-test"],
        &["all", "--runs", "0"],
        &["all", "--runs"],
        &["all", "--a", "env"],
        &[],
    ];
    for line in lines {
        let output = Command::new(&program).args(line).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            (output.status.code(), text.starts_with("usage: ")),
            (Some(2), true),
            "{line:?}"
        );
    }
}
