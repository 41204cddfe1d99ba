//! MPICH and Open MPI over UCX in a fabric: `mpi/exchange.c`, compiled with the compiler command of
//! each. See `stock.rs` about programs that are not installed.
//!
//! `UCX_TLS` leaves UCX no other transport than the one to be tested. Debian's MPICH gives UCX the
//! messages within a machine as well; Open MPI has to be told to take UCX (`--mca pml ucx`), which
//! Debian's configuration leaves out.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;
use std::process::Command;

use programs::place::Place;
use programs::{installed, the_processors};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mpi/exchange.c");

/// More would be more than there are processors to poll on.
const RANKS: usize = 2;

const LINES: [&str; 3] = [
    "ring: 10 laps, 2 ranks",
    "ping-pong: to 1048576 bytes, 126 messages checked",
    "allreduce: to 100000 numbers",
];

const MPICH: &str = "mpirun.mpich";
/// As root, too, and on a machine with one processor.
const OPEN_MPI: &str =
    "mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none --mca pml ucx";

/// Compiles the program into a place of its own.
fn compile(compiler: &str, place: &Place) -> String {
    let file = place.file("exchange");
    let mut command = Command::new(compiler);
    command.args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"]).args([&file, Path::new(SOURCE)]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    file.to_str().unwrap().to_string()
}

/// Runs the program with transports of choice, or with UCX's own choice. Each rank has to have the
/// lane.
fn run(name: &str, launcher: &str, compiler: &str, transports: Option<&str>, lane: Option<&str>) {
    let program = launcher.split_whitespace().next().unwrap();
    if !installed(&[program, compiler]) {
        return;
    }
    let place = Place::new(name);
    let line = format!("{launcher} -n {RANKS} {}", compile(compiler, &place));
    let _processors = the_processors();
    let mut run = place.start_in(&line, |command| {
        // Open MPI has a folder for its sockets there.
        command.env("TMPDIR", place.file("")).env_remove("UCX_TLS").env("UCX_LOG_LEVEL", "info");
        command.envs(transports.map(|names| ("UCX_TLS", names)))
    });
    let text = run.succeed();
    let said: Vec<&str> = text.lines().filter(|line| !line.contains(" UCX  ")).collect();
    assert_eq!(said, LINES, "{text}");
    if let Some(lane) = lane {
        // What it is told to UCX says once in each rank.
        let chosen: Vec<&str> = text.lines().filter(|line| line.contains("ep_cfg[0]: ")).collect();
        assert_eq!(chosen.len(), RANKS, "{text}");
        assert!(chosen.iter().all(|line| line.contains(lane)), "{text}");
    }
    place.assert_gone();
}

fn mpich(name: &str, transports: Option<&str>, lane: Option<&str>) {
    run(name, MPICH, "mpicc.mpich", transports, lane);
}

fn open_mpi(name: &str, transports: Option<&str>, lane: Option<&str>) {
    run(name, OPEN_MPI, "mpicc.openmpi", transports, lane);
}

const RC: Option<&str> = Some("tag(rc_verbs/rxe0:1)");
const UD: Option<&str> = Some("tag(ud_verbs/rxe0:1)");

#[test]
fn mpich_over_reliable_connections() {
    mpich("mpich-rc", Some("rc"), RC);
}

#[test]
fn mpich_over_datagrams() {
    mpich("mpich-ud", Some("ud"), UD);
}

#[test]
fn mpich_with_nothing_set() {
    mpich("mpich", None, None);
}

#[test]
fn open_mpi_over_reliable_connections() {
    open_mpi("open-mpi-rc", Some("rc"), RC);
}

#[test]
fn open_mpi_over_datagrams() {
    open_mpi("open-mpi-ud", Some("ud"), UD);
}

#[test]
fn open_mpi_with_nothing_set() {
    open_mpi("open-mpi", None, None);
}
