//! Programs of others under `soft-hca check`: what is found of them is what `docs/check.md` has in its table,
//! where each finding is said to be true. See `stock.rs` about programs that are not installed.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

use programs::machine::{Kind, Machine, Memory, QEMU};
use programs::mpi::{MPICH, Mpi, OPEN_MPI};
use programs::place::Place;
use programs::{
    LIMIT, LOCALHOST, comes_about, installed, polls_are_seen, tcp, the_processors, ucx_is_installed,
};
use serde_json::{Value, json};

/// Findings that programs may have, and those that they have in each run.
struct Findings {
    may: &'static [&'static str],
    does: &'static [&'static str],
}

/// Records a fabric while programs run in it, and compares what is found of them.
fn check(name: &str, known: &Findings, runs: impl FnOnce(&Place)) {
    if !polls_are_seen() {
        return;
    }
    let place = Place::new(name);
    let keeper = place.keep();
    let record = ["record", "--buffers", "-o", "run.shr", "--fabric", place.fabric_name()];
    let mut recorder = place.command(&record).stderr(Stdio::null()).spawn().unwrap();
    let has_begun = || fs::metadata(place.file("run.shr")).is_ok_and(|found| found.len() > 0);
    assert!(comes_about(LIMIT, has_begun), "nothing is recorded");
    {
        let _processors = the_processors();
        runs(&place);
    }
    place.assert_no_objects();
    let pid = recorder.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert!(recorder.wait().unwrap().success());
    place.end(keeper);
    let arguments = ["check", "--record", "run.shr", "--format", "json", "-o", "findings"];
    let _ = place.command(&arguments).status().unwrap();
    let findings = fs::read_to_string(place.file("findings")).unwrap();
    let all: Vec<Value> = serde_json::from_str(&findings).unwrap();
    let found: BTreeSet<&str> = all.iter().map(|one| one["rule"].as_str().unwrap()).collect();
    let may: BTreeSet<&str> = known.may.iter().chain(known.does).copied().collect();
    assert!(found.is_subset(&may), "{name}: {found:?}\n{findings}");
    assert!(known.does.iter().all(|rule| found.contains(rule)), "{name}: {found:?}\n{findings}");
}

fn ucx(name: &str, transports: &str, tests: &[&str], known: &Findings) {
    if !ucx_is_installed() {
        return;
    }
    check(name, known, |place| {
        for test in tests {
            let port = tcp::free_port();
            let line = format!("ucx_perftest -p {port} -n 100 -w 10 {test}");
            let start =
                |line: &str| place.start_in(line, |command| command.env("UCX_TLS", transports));
            let mut server = start(&line);
            server.wait_until(|| tcp::listens(port));
            start(&format!("{line} {LOCALHOST}")).succeed();
            server.succeed();
        }
    });
}

/// Messages that go inline and by rendezvous, one-sided operations, atomics.
const TESTS: [&str; 5] =
    ["-t tag_lat", "-t tag_bw -n 10 -s 1048576", "-t ucp_put_bw", "-t ucp_get", "-t ucp_fadd"];

#[test]
fn ucx_over_reliable_connections() {
    ucx("checked-ucx-rc", "rc", &TESTS, &OVER_RC);
}

#[test]
fn ucx_over_datagrams() {
    ucx("checked-ucx-ud", "ud", &TESTS[..2], &OVER_UD);
}

/// An MPI over a transport of UCX.
fn mpi(name: &str, mpi: Mpi, transport: &str, known: &Findings) {
    if mpi.is_installed() {
        check(name, known, |place| {
            mpi.start(place, |command| command.env("UCX_TLS", transport)).succeed();
        });
    }
}

/// Of UCX's reliable connections, and of its datagrams.
const OVER_RC: Findings = Findings { may: &["inline-size"], does: &["timers"] };
const OVER_UD: Findings = Findings { may: &["inline-size"], does: &[] };

#[test]
fn mpich_over_ucx() {
    mpi("checked-mpich", MPICH, "rc", &OVER_RC);
}

#[test]
fn mpich_over_datagrams() {
    mpi("checked-mpich-ud", MPICH, "ud", &OVER_UD);
}

#[test]
fn open_mpi_over_ucx() {
    mpi("checked-open-mpi", OPEN_MPI, "rc", &OVER_RC);
}

#[test]
fn open_mpi_over_datagrams() {
    mpi("checked-open-mpi-ud", OPEN_MPI, "ud", &OVER_UD);
}

/// The ports of `dtest` and its kin are the machine's, and `dapl.rs` has them; `dapltest`'s is the fabric's, and below those
/// that ids get by chance: it listens at the next ones, too.
#[test]
fn dapl_by_the_manager() {
    if !installed(&["dapltest"]) {
        return;
    }
    const PORT: u16 = 5_278;
    let known = Findings { may: &[], does: &[] };
    check("checked-dapl", &known, |place| {
        let line =
            "rxe0-cma u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 \"127.0.0.1 0\" \"\"\n";
        fs::write(place.file("dat.conf"), line).unwrap();
        let start = |line: &str| {
            place.start_in(line, |command| command.env("DAT_OVERRIDE", place.file("dat.conf")))
        };
        let mut server = start(&format!("dapltest -T S -D rxe0-cma -n {PORT}"));
        server.wait_until(|| place.listens(PORT));
        let test = |kind: &str, options: &str| {
            let line = format!("dapltest -T {kind} -D rxe0-cma -n {PORT} -s {LOCALHOST} {options}");
            start(&line).succeed();
        };
        test("T", "-i 100 client SR 4096 2 server SR 4096 2");
        test("T", "-V -i 100 client RR 4096 2 server RR 1024 3");
        test("P", "-i 100 -m p RW 4096 2");
        test("Q", "");
        server.succeed();
    });
}

#[test]
fn qemu_migrates() {
    if !installed(&[QEMU]) {
        return;
    }
    const PORT: u16 = 4444;
    let known = Findings { may: &["leaked", "buffer-early"], does: &[] };
    check("checked-qemu", &known, |place| {
        let kind = Kind { memory: Memory::Shared, mebibytes: 64 };
        let mut source = Machine::start(place, kind);
        let target = Machine::start_target(place, kind, PORT);
        let parameters = json!({ "max-bandwidth": 16u64 << 30, "downtime-limit": 100_000 });
        source.tell("migrate-set-parameters", parameters);
        source.ask("migrate", json!({ "uri": format!("rdma:{LOCALHOST}:{PORT}") })).unwrap();
        let end = source.wait_for(|status| ["completed", "failed"].contains(&status));
        assert_eq!(end["status"], "completed", "{end}");
        source.quit();
        target.quit();
    });
}
