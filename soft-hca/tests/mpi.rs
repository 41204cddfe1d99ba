//! MPICH and Open MPI over UCX in a fabric: `mpi/exchange.c`, compiled with the compiler command of
//! each. See `stock.rs` about programs that are not installed.
//!
//! `UCX_TLS` leaves UCX no other transport than the one to be tested. Debian's MPICH gives UCX the
//! messages within a machine as well; Open MPI has to be told to take UCX (`--mca pml ucx`), which
//! Debian's configuration leaves out.

use programs::mpi::{MPICH, Mpi, OPEN_MPI, RANKS};
use programs::place::Place;
use programs::the_processors;

const LINES: [&str; 3] = [
    "ring: 10 laps, 2 ranks",
    "ping-pong: to 1048576 bytes, 126 messages checked",
    "allreduce: to 100000 numbers",
];

/// Runs the program with transports of choice, or with UCX's own choice. Each rank has to have the
/// lane.
fn run(name: &str, mpi: Mpi, transports: Option<&str>, lane: Option<&str>) {
    if !mpi.is_installed() {
        return;
    }
    let place = Place::new(name);
    let _processors = the_processors();
    let mut run = mpi.start(&place, |command| {
        command.env_remove("UCX_TLS").env("UCX_LOG_LEVEL", "info");
        command.envs(transports.map(|names| ("UCX_TLS", names)))
    });
    let text = run.succeed();
    let said: Vec<&str> = text.lines().filter(|line| !line.contains(" UCX  ")).collect();
    assert_eq!(said, LINES, "{text}");
    if let Some(lane) = lane {
        // UCX prints once in each rank what it is told to.
        let chosen: Vec<&str> = text.lines().filter(|line| line.contains("ep_cfg[0]: ")).collect();
        assert_eq!(chosen.len(), RANKS, "{text}");
        assert!(chosen.iter().all(|line| line.contains(lane)), "{text}");
    }
    place.assert_gone();
}

const RC: Option<&str> = Some("tag(rc_verbs/rxe0:1)");
const UD: Option<&str> = Some("tag(ud_verbs/rxe0:1)");

#[test]
fn mpich_over_reliable_connections() {
    run("mpich-rc", MPICH, Some("rc"), RC);
}

#[test]
fn mpich_over_datagrams() {
    run("mpich-ud", MPICH, Some("ud"), UD);
}

#[test]
fn mpich_with_nothing_set() {
    run("mpich", MPICH, None, None);
}

#[test]
fn open_mpi_over_reliable_connections() {
    run("open-mpi-rc", OPEN_MPI, Some("rc"), RC);
}

#[test]
fn open_mpi_over_datagrams() {
    run("open-mpi-ud", OPEN_MPI, Some("ud"), UD);
}

#[test]
fn open_mpi_with_nothing_set() {
    run("open-mpi", OPEN_MPI, None, None);
}
