//! The litmus tests of [ordering.md](../docs/ordering.md): no run shows what is forbidden, and some seed of `--strict` shows
//! each outcome that is allowed. `SOFT_HCA_LONG=1` has a hundred seeds run all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use programs::place::Place;
use programs::{compile, is_long, the_processors};

const LITMUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/litmus/litmus.c");
const PAGE: &str = include_str!("../docs/ordering.md");

/// Tests of which no seed shows the outcome although it is allowed; the page says why.
const NOT_SHOWN: [&str; 1] = ["puts-relaxed"];

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

/// How often the outcomes of tests were seen, with a seed if it is not 0. A forbidden one fails.
fn run(place: &Place, program: &str, name: &str, runs: u32, seed: u64) -> BTreeMap<String, u32> {
    let line = format!("{program} {name} --runs {runs}");
    let mut litmus = place.start_in(&line, |command| match seed {
        0 => command,
        seed => command.env("SOFT_HCA_STRICT_SEED", seed.to_string()),
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

/// The cells of the page's figures: the test, whether it is allowed, plain and strict runs.
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
        let is_seen = [cells[3], cells[4], cells[5]].map(|figure| !figure.starts_with("0 of "));
        let expected = is_allowed == "allowed" && !NOT_SHOWN.contains(&name);
        assert_eq!(is_seen[1..], [expected; 2], "{name}");
        assert!(!is_seen[0] || expected, "{name}");
    }
}

#[test]
fn what_is_forbidden_is_not_seen() {
    let place = Place::new("litmus");
    let Some(program) = compiled(&place) else { return };
    let _turn = the_processors();
    let runs = if is_long() { 2000 } else { 100 };
    assert_eq!(run(&place, &program, "all", runs, 0).len(), tests(&program).len());
    place.assert_gone();
}

#[test]
fn strict_runs_show_all_that_is_allowed_and_nothing_else() {
    let place = Place::new("litmus-strict");
    let Some(program) = compiled(&place) else { return };
    let _turn = the_processors();
    let allowed = tests(&program).into_iter().filter_map(|(name, is)| is.then_some(name));
    let mut missing: BTreeSet<String> = allowed.collect();
    for name in NOT_SHOWN {
        assert!(missing.remove(name), "{name}");
    }
    let (seeds, runs) = if is_long() { (SEEDS, LONG_RUNS) } else { (FEW_SEEDS, FEW_RUNS) };
    for seed in 1..=seeds {
        let seen = run(&place, &program, "all", runs, seed);
        assert!(NOT_SHOWN.iter().all(|name| seen[*name] == 0), "{seen:?}");
        missing.retain(|name| seen[name] == 0);
    }
    // Another seed shows those that few have not shown.
    for seed in seeds + 1..=SEEDS {
        missing.retain(|name| run(&place, &program, name, runs, seed)[name] == 0);
    }
    assert!(missing.is_empty(), "{missing:?}");
    place.assert_gone();
}

#[test]
fn what_it_is_asked_for_has_to_be_there() {
    let place = Place::new("litmus-usage");
    let Some(program) = compiled(&place) else { return };
    for line in [&["no-such-test"][..], &["all", "--runs", "0"], &["all", "--runs"], &[]] {
        let output = Command::new(&program).args(line).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            (output.status.code(), text.starts_with("usage: ")),
            (Some(2), true),
            "{line:?}"
        );
    }
}
