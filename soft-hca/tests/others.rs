//! Programs of the distribution that have nothing to do with rdma-core: fio, libfabric, qperf, and
//! programs for TCP sockets that rdma-core's rsocket library turns to RDMA.
//!
//! Programs that are not installed are skipped, as in `stock.rs`. The packages are fio, libfabric-bin, qperf, iperf
//! and netcat-traditional.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;

use programs::place::Place;
use programs::program::Program;
use programs::{LOCALHOST, assert_has, installed, tcp};

/// A port of the connection manager: each fabric has its own.
const PORT: u16 = 7471;

/// fio's engine takes whoever is to read for the server, whatever the verb. Sends are left out: it asks
/// for no second try of one that finds no receive, and only a pause lets its server post them.
fn fio(verb: &str) {
    if !installed(&["fio"]) {
        return;
    }
    let place = Place::new(&format!("fio-{verb}"));
    let line = |name: &str, options: &str| {
        format!(
            "fio --name={name} --ioengine=rdma --port={PORT} --bs=4k --size=16m --iodepth=16 \
             {options}"
        )
    };
    let mut server = place.start(&line("server", "--verb=recv --rw=read"));
    server.wait_until(|| place.listens(PORT));
    let client = format!("--verb={verb} --rw=write --hostname={LOCALHOST}");
    let client = place.start(&line("client", &client)).succeed();
    assert_has(&client, &["client: (groupid=0, jobs=1): err= 0", "rwts: total=0,4096,0,0 "]);
    assert_has(&server.succeed(), &["server: (groupid=0, jobs=1): err= 0"]);
    place.assert_gone();
}

#[test]
fn fio_writes() {
    fio("write");
}

#[test]
fn fio_reads() {
    fio("read");
}

/// libfabric's ping-pong, which compares what it gets (`-c`). Its sides talk by TCP, too.
fn fabric_ping_pong(endpoint: &str, provider: &str, sizes: &[&str]) {
    if !installed(&["fi_pingpong"]) {
        return;
    }
    let port = tcp::free_port();
    let place = Place::new(&format!("fi-{endpoint}-{}", provider.replace(';', "-")));
    let line = format!("fi_pingpong -p {provider} -e {endpoint} -I 20 -c");
    let mut server = place.start(&format!("{line} -B {port}"));
    server.wait_until(|| tcp::listens(port));
    let client = place.start(&format!("{line} -P {port} {LOCALHOST}")).succeed();
    for text in [client, server.succeed()] {
        let sizes_seen = text.lines().filter(|line| line.contains(" =20 "));
        let sizes_seen = sizes_seen.filter_map(|line| line.split_whitespace().next());
        assert_eq!(sizes_seen.collect::<Vec<_>>(), sizes, "{text}");
    }
    place.assert_gone();
}

#[test]
fn libfabric_messages() {
    fabric_ping_pong("msg", "verbs", &["64", "256", "1k", "4k", "64k", "1m"]);
}

/// The largest is what fits into a datagram.
#[test]
fn libfabric_datagrams() {
    fabric_ping_pong("dgram", "verbs", &["64", "256", "1k"]);
}

#[test]
fn libfabric_lists_the_device() {
    if !installed(&["fi_info"]) {
        return;
    }
    let place = Place::new("fi-info");
    let text = place.start("fi_info -p verbs").succeed();
    assert_has(&text, &["domain: rxe0\n", "domain: rxe0-dgram\n", "protocol: FI_PROTO_IB_UD\n"]);
    place.assert_gone();
}

/// Only what goes through the connection manager (`-cm 1`): qperf's own exchange of addresses knows
/// nothing of GIDs, without which there is no RoCE.
#[test]
fn qperf() {
    if !installed(&["qperf"]) {
        return;
    }
    const TESTS: [&str; 9] = [
        "rc_lat",
        "rc_bw",
        "rc_rdma_read_lat",
        "rc_rdma_read_bw",
        "rc_rdma_write_lat",
        "rc_rdma_write_bw",
        "rc_rdma_write_poll_lat",
        // These compare what they get.
        "ver_rc_compare_swap",
        "ver_rc_fetch_add",
    ];
    let port = tcp::free_port();
    let place = Place::new("qperf");
    let mut server = place.start(&format!("qperf -lp {port}"));
    server.wait_until(|| tcp::listens(port));
    for test in TESTS {
        let line = format!("qperf -lp {port} -cm 1 -t 1 {LOCALHOST} {test}");
        let text = place.start(&line).succeed();
        assert_has(&text, &[&format!("{test}:\n"), "  =  "]);
        assert!(!text.contains("fail"), "{text}");
    }
    place.start(&format!("qperf -lp {port} {LOCALHOST} quit")).succeed();
    server.wait();
    place.assert_gone();
}

/// The library of librdmacm that makes programs' stream sockets RDMA connections.
fn rsocket_library() -> Option<PathBuf> {
    let dirs = fs::read_dir("/usr/lib").unwrap().flatten();
    let files = dirs.map(|dir| dir.path().join("rsocket/librspreload.so"));
    files.into_iter().find(|file| file.is_file())
}

/// Starts a program for TCP over RDMA.
fn by_rsocket(
    place: &Place,
    line: &str,
    circumstances: impl FnOnce(&mut Command) -> &mut Command,
) -> Program {
    let library = rsocket_library().expect("it comes with librdmacm");
    place.start_in(line, |command| circumstances(command.env("LD_PRELOAD", library)))
}

#[test]
fn iperf_over_rsockets() {
    if !installed(&["iperf"]) {
        return;
    }
    let place = Place::new("iperf");
    let mut server = by_rsocket(&place, &format!("iperf -s -P 1 -p {PORT}"), |command| command);
    server.wait_until(|| place.listens(PORT));
    let line = format!("iperf -c {LOCALHOST} -p {PORT} -n 64M");
    let client = by_rsocket(&place, &line, |command| command).succeed();
    let server = server.succeed();
    [client, server].iter().for_each(|text| assert_has(text, &["  64.0 MBytes  "]));
    place.assert_gone();
}

#[test]
fn netcat_over_rsockets() {
    if !installed(&["nc.traditional"]) {
        return;
    }
    let place = Place::new("netcat");
    let from = place.file("from");
    let lines: String = (0..200_000).map(|number| format!("{number}\n")).collect();
    fs::write(&from, &lines).unwrap();
    let line = format!("nc.traditional -l -p {PORT}");
    let mut server = by_rsocket(&place, &line, |command| command);
    server.wait_until(|| place.listens(PORT));
    let line = format!("nc.traditional -q 0 {LOCALHOST} {PORT}");
    let input = File::open(&from).unwrap();
    by_rsocket(&place, &line, |command| command.stdin(input)).succeed();
    assert!(server.succeed() == lines, "the copy differs");
    place.assert_gone();
}
