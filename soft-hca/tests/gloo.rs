//! Gloo's collectives over its ibverbs transport, two to four ranks that compare what they get: allreduce by three
//! algorithms, broadcast from each rank, barriers. The package is libgloo-dev; see `stock.rs` about those that are not
//! installed.

use std::fs;

use programs::hosts::{Hosts, assert_gone};
use programs::place::Place;
use programs::program::Program;
use programs::{compile_with, headers, the_processors};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/gloo/collectives.cc");

const EXPECTED: &str = "1 numbers: right\n1000 numbers: right\n1048576 numbers: right\n";

/// Makes the program in a place, if that can be done here.
fn collectives(place: &Place) -> Option<String> {
    if !headers(&["gloo/transport/ibverbs/device.h"].into()) {
        return None;
    }
    compile_with(place, SOURCE, &["gloo", "ibverbs", "stdc++", "m", "pthread"], &["-std=c++14"])
}

/// Runs a job, each rank in a place; they meet in a folder of the first one.
fn run(program: &str, ranks: &[&Place]) {
    let folder = ranks[0].file(&ranks[0].unique("store"));
    fs::create_dir(&folder).unwrap();
    let start = |(rank, place): (usize, &&Place)| {
        place.start(&format!("{program} {rank} {} {}", ranks.len(), folder.display()))
    };
    let mut started: Vec<Program> = ranks.iter().enumerate().map(start).collect();
    for rank in &mut started {
        let text = rank.succeed();
        // Newer releases say which device they use.
        let is_result = |line: &&str| !line.contains("] INFO Using ibverbs device=rxe0 ");
        let results: Vec<&str> = text.split_inclusive('\n').filter(is_result).collect();
        assert_eq!(results.concat(), EXPECTED);
    }
}

#[test]
fn on_one_host() {
    let place = Place::new("gloo");
    let Some(program) = collectives(&place) else { return };
    let _processors = the_processors();
    for size in 2..=4 {
        run(&program, &vec![&place; size]);
    }
    place.assert_gone();
}

#[test]
fn over_a_link_that_loses_packets() {
    let options = ["--roce=always", "--fault", "drop:1% seed=1"].map(String::from);
    let place = Place::with("gloo-loss", Vec::new(), options.into());
    let Some(program) = collectives(&place) else { return };
    let _processors = the_processors();
    let keeper = place.keep();
    run(&program, &[&place; 2]);
    place.end(keeper);
}

#[test]
fn between_two_hosts() {
    let Some(hosts) = Hosts::new("gloo-hosts") else { return };
    let Some(program) = collectives(&hosts.a.place) else { return };
    let _processors = the_processors();
    let [a, b] = [&hosts.a.place, &hosts.b.place];
    run(&program, &[a, b, a, b]);
    assert_gone(&hosts);
}
