//! Fabrics whose daemon is killed, which is as if their devices were removed, or does not answer.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use programs::place::Place;
use programs::{LIMIT, LOCALHOST, assert_has, comes_about, compile, installed, tcp};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/gone/gone.c");

/// The output of `gone.c` after the daemon has been killed, without the library's own lines.
const TOLD: &str = "\
rdma_connect: EIO
ibv_get_cq_event: EIO
event: local catastrophic error
poll: 1
ibv_get_cq_event after poll: EIO
epoll_wait: 1
rdma_get_cm_event: EIO
ibv_get_async_event: EAGAIN
poll for another event: 0
ibv_get_cq_event: EIO
ibv_query_port: EIO
ibv_alloc_pd: EIO
rdma_listen: EIO
ibv_destroy_qp: 0
ibv_dereg_mr: 0
ibv_destroy_cq: 0
ibv_dealloc_pd: 0
ibv_destroy_comp_channel: 0
rdma_destroy_id: 0
done
";

/// Sends a signal to the daemon of a place.
fn signal_daemon(place: &Place, signal: &str) {
    let [daemon] = place.daemons()[..] else { panic!("{:?}", place.daemons()) };
    let sent = Command::new("kill").args([signal, &daemon.to_string()]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn whoever_waits_is_told() {
    let place = Place::new("gone");
    let Some(program) = compile(&place, SOURCE, &["ibverbs", "rdmacm", "pthread"]) else { return };
    let mut program = place.start(&format!("{program} {LOCALHOST}"));
    let output = program.output_file();
    let printed = || std::fs::read_to_string(&output).unwrap();
    program.wait_until(|| printed().contains("ready") && printed().contains("waits for"));
    signal_daemon(&place, "-KILL");
    let text = program.succeed();
    let said = format!("the daemon of the fabric {} is gone", place.fabric_name());
    assert_eq!(text.matches(&said).count(), 1, "{text}");
    let is_call =
        |line: &&str| !["soft-hca: ", "ready", "waits for"].iter().any(|b| line.starts_with(b));
    let mut told: Vec<&str> = text.lines().filter(is_call).collect();
    let mut expected: Vec<&str> = TOLD.lines().collect();
    // Threads come in any order.
    told.sort_unstable();
    expected.sort_unstable();
    assert_eq!(told, expected, "{text}");
}

/// Pairs of the distribution's programs, which wait by events.
#[test]
fn pairs_end() {
    if !installed(&["ibv_rc_pingpong", "rping"]) {
        return;
    }
    let place = Place::new("gone-pairs");
    let mut keeper = place.keep();
    let port = tcp::free_port();
    let line = format!("ibv_rc_pingpong -g 1 -e -n 100000000 -p {port}");
    let mut server = place.start(&line);
    server.wait_until(|| tcp::listens(port));
    let mut client = place.start(&format!("{line} {LOCALHOST}"));
    let mut listener = place.start(&format!("rping -s -a {LOCALHOST}"));
    let connected = || place.objects().iter().filter(|line| line.contains("RTS")).count() == 2;
    client.wait_until(connected);
    listener.wait_until(|| place.listens(7174));
    signal_daemon(&place, "-KILL");
    for program in [&mut server, &mut client, &mut listener] {
        // A pair in step may go on without the daemon until one of them has to wait.
        if program.ends_within(Duration::from_secs(5)).is_none() {
            program.kill();
            continue;
        }
        assert_has(&program.output(), &["is gone, and so are its devices"]);
    }
    assert!(listener.has_ended());
    keeper.kill();
}

/// New programs say what they wait for, and `soft-hca ls` does not wait for one of several fabrics.
#[test]
fn who_is_stopped_is_named() {
    if !installed(&["ibv_devinfo"]) {
        return;
    }
    let place = Place::new("gone-stopped");
    let keeper = place.keep();
    let other = format!("{}-b", place.fabric_name());
    let line = ["run", "--fabric", &other, "--", "sleep", "1000000"];
    let mut second = place.command(&line).stdin(Stdio::null()).spawn().unwrap();
    let list = || place.command(&["ls"]).output().unwrap();
    let said = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let both = || said(&list().stdout).matches("comm sleep").count() == 2;
    assert!(comes_about(LIMIT, both), "{:?}", list());
    signal_daemon(&place, "-STOP");
    let began = Instant::now();
    let listed = list();
    assert!(began.elapsed() < LIMIT / 4, "{:?}", began.elapsed());
    assert!(!listed.status.success());
    assert_has(&said(&listed.stdout), &["is stopped: SIGCONT has it go on", "comm sleep"]);
    assert_has(&said(&listed.stderr), &["no answer", place.fabric_name()]);
    let mut new = place.start("ibv_devinfo");
    let output = new.output_file();
    let printed = || std::fs::read_to_string(&output).unwrap();
    new.wait_until(|| printed().contains("waits for the fabric: its daemon"));
    signal_daemon(&place, "-CONT");
    assert_has(&new.succeed(), &["is stopped", "hca_id"]);
    second.kill().unwrap();
    second.wait().unwrap();
    place.end(keeper);
}
