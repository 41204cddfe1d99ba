//! Transfer engines by their packages for Python, as their users run them: two processes that write to each other's memory
//! and read from it, the data compared; and the lines of docs/engines.md.
//!
//! `conformance/engines` brings the packages and runs these tests.

use std::fs;
use std::panic;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use programs::hosts::{Hosts, assert_gone};
use programs::place::Place;
use programs::program::Program;
use programs::{LIMIT, LOCALHOST, assert_has, comes_about, installed, tcp, the_processors};

const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/engines");
const PAGE: &str = include_str!("../docs/engines.md");

/// Of all sizes of meeting.py.
const SIZES: [&str; 5] =
    ["8 bytes: ", "4096 bytes: ", "65536 bytes: ", "1048576 bytes: ", "67108864 bytes: "];

/// A link over which all goes, and that loses a packet of a hundred.
const LOSSES: [&str; 3] = ["--roce=always", "--fault", "drop:1% seed=1"];

/// No message is larger.
const A_MEBIBYTE: (&str, &str) = ("LARGEST", "1048576");

/// A program of the packages.
const MASTER: &str = "mooncake_master";

/// The folder with the packages, if they are there; see [`installed`].
fn packages() -> Option<PathBuf> {
    installed(&[MASTER]).then(|| std::env::var_os("SOFT_HCA_ENGINES").unwrap().into())
}

/// The environment of a program with these packages, and what is to be set of the engines.
fn environment<'a>(
    command: &'a mut Command,
    packages: &Path,
    set: &[(&str, &str)],
) -> &'a mut Command {
    command
        .env("PYTHONPATH", packages)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        // No more pollers than need be.
        .env("MC_WORKERS_PER_CTX", "1")
        .envs(set.iter().copied())
}

/// Runs a script's sides in a place each, whose addresses these are; what the initiator prints.
fn run(script: &str, [target, initiator]: [(&Place, &str); 2], set: &[(&str, &str)]) -> String {
    let packages = packages().unwrap();
    let port = tcp::free_port();
    let start = |place: &Place, line: &str| -> Program {
        let line = format!("python3 {SCRIPTS}/{script} {line}");
        place.start_in(&line, |command| environment(command, &packages, set))
    };
    let mut far = start(target.0, &format!("target {} {port}", target.1));
    let pid = far.pid();
    far.wait_until(|| tcp::listens_near(pid, port));
    let mut near = start(initiator.0, &format!("initiator {} {port} {}", target.1, initiator.1));
    let text = near.succeed();
    far.succeed();
    assert_has(&text, &["initiator has ended"]);
    text
}

/// The same in a fabric of its own with these options.
fn run_here(name: &str, script: &str, options: &[&str], set: &[(&str, &str)], expected: &[&str]) {
    if packages().is_none() {
        return;
    }
    let options = options.iter().map(|option| (*option).to_owned()).collect();
    let place = Place::with(&format!("engines-{name}"), Vec::new(), options);
    let keeper = place.keep();
    let _processors = the_processors();
    let text = run(script, [(&place, LOCALHOST), (&place, LOCALHOST)], set);
    assert_has(&text, expected);
    place.assert_no_objects();
    place.end(keeper);
}

#[test]
#[ignore = "conformance/engines brings what it runs"]
fn mooncake() {
    let expected = [&SIZES[..], &["a batch: written, read"]].concat();
    run_here("mooncake", "transfer_engine.py", &[], &[("DEVICES", "rxe0")], &expected);
}

#[test]
#[ignore = "conformance/engines brings what it runs"]
fn mooncake_over_two_devices() {
    let expected = [&SIZES[..], &["a batch: written, read"]].concat();
    let options = ["--device", "rxe0", "--device", "rxe1"];
    run_here(
        "mooncake-two",
        "transfer_engine.py",
        &options,
        &[("DEVICES", "rxe0,rxe1")],
        &expected,
    );
}

#[test]
#[ignore = "conformance/engines brings what it runs"]
fn mooncakes_store() {
    if packages().is_none() {
        return;
    }
    let [port, metrics] = [tcp::free_port(), tcp::free_port()];
    let mut master = Command::new(MASTER)
        .args([format!("--rpc_port={port}"), format!("--metrics_port={metrics}")])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let address = format!("{LOCALHOST}:{port}");
    let is_up = comes_about(LIMIT, || tcp::listens(port));
    let set = [("DEVICES", "rxe0"), ("MASTER", &*address)];
    let tried = panic::catch_unwind(|| {
        assert!(is_up, "{MASTER} does not listen");
        run_here("store", "store.py", &[], &set, &SIZES[..4]);
    });
    master.kill().unwrap();
    master.wait().unwrap();
    tried.unwrap_or_else(|failure| panic::resume_unwind(failure));
}

/// With a libibverbs and a libnl of its own, beside which the provider needs the system's: both ends are good ones.
#[test]
#[ignore = "conformance/engines brings what it runs"]
fn nixl() {
    run_here("nixl", "agents.py", &[], &[("UCX_TLS", "ib")], &SIZES);
}

#[test]
#[ignore = "conformance/engines brings what it runs"]
fn ibverbs() {
    run_here("ibverbs", "bindings.py", &[], &[], &SIZES[..4]);
}

#[test]
#[ignore = "conformance/engines brings what it runs"]
fn ibverbs_over_a_link_that_loses_packets() {
    run_here("ibverbs-loss", "bindings.py", &LOSSES, &[], &SIZES[..4]);
}

#[test]
#[ignore = "conformance/engines brings what it runs"]
fn mooncake_over_a_link_that_loses_packets() {
    let set = [("DEVICES", "rxe0"), A_MEBIBYTE];
    run_here("mooncake-loss", "transfer_engine.py", &LOSSES, &set, &SIZES[..4]);
}

#[test]
#[ignore = "conformance/engines brings what it runs"]
fn nixl_over_a_link_that_loses_packets() {
    let set = [("UCX_TLS", "ib"), A_MEBIBYTE];
    run_here("nixl-loss", "agents.py", &LOSSES, &set, &SIZES[..4]);
}

#[test]
#[ignore = "conformance/engines brings what it runs"]
fn dlslime() {
    run_here("dlslime", "endpoints.py", &[], &[], &SIZES);
}

/// Runs a script between two hosts.
fn run_between(name: &str, script: &str, set: &[(&str, &str)]) {
    if packages().is_none() {
        return;
    }
    let Some(hosts) = Hosts::new(&format!("engines-{name}")) else { return };
    let _processors = the_processors();
    let [a, b] = [&hosts.a, &hosts.b].map(|host| (&host.place, host.address));
    let text = run(script, [a, b], set);
    assert_has(&text, &SIZES);
    assert_gone(&hosts);
}

#[test]
#[ignore = "conformance/engines brings what it runs"]
fn mooncake_between_two_hosts() {
    run_between("hosts", "transfer_engine.py", &[("DEVICES", "rxe0")]);
}

#[test]
#[ignore = "conformance/engines brings what it runs"]
fn nixl_between_two_hosts() {
    run_between("nixl-hosts", "agents.py", &[("UCX_TLS", "ib")]);
}

/// Each program of the page, with the line that it is to be run by.
#[test]
#[ignore = "conformance/engines brings what it runs"]
fn what_the_page_shows() {
    let Some(packages) = packages() else { return };
    let place = Place::new("engines-page");
    let _processors = the_processors();
    let mut count = 0;
    for block in PAGE.split("```python\n# ").skip(1) {
        let (name, rest) = block.split_once('\n').unwrap();
        fs::write(place.file(name), rest.split("```").next().unwrap()).unwrap();
        let end = format!(" soft-hca doctor -- python3 {name}");
        let line = PAGE.lines().find_map(|line| line.strip_suffix(&*end)).unwrap();
        let mut command = place.command(&["doctor", "--", "python3", name]);
        let set: Vec<_> = line.split(' ').map(|word| word.split_once('=').unwrap()).collect();
        let output = environment(&mut command, &packages, &set).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {}\n{text}", output.status);
        assert_has(&text, &["ok       device: opened: /dev/infiniband/uverbs0"]);
        count += 1;
    }
    assert_eq!(count, PAGE.matches("```python").count());
    place.assert_gone();
}
