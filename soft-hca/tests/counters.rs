//! Counters of ports: what sysfs and `soft-hca ls` show of the traffic of programs.
//!
//! See `stock.rs` about programs that are not installed; the packages are ibverbs-utils, perftest and
//! prometheus-node-exporter.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use programs::hosts::Hosts;
use programs::place::Place;
use programs::tcp;
use programs::{LIMIT, LOCALHOST, assert_has, comes_about, installed};

/// Ethernet, IPv4, UDP, BTH and ICRC.
const ROCE_BYTES: u64 = 14 + 20 + 8 + 12 + 4;
/// LRH, BTH and ICRC.
const INFINIBAND_BYTES: u64 = 8 + 12 + 4;
const AETH_BYTES: u64 = 4;
/// The ping-pongs' traffic in each direction: messages of 4096 bytes by an MTU of 1024.
const MESSAGES: u64 = 100;
const MESSAGE_BYTES: u64 = 4096;
const MESSAGE_PACKETS: u64 = 4;

/// A fabric with these devices.
fn with(name: &str, devices: &[&str]) -> Place {
    let options = devices.iter().flat_map(|device| ["--device", device]).map(String::from);
    Place::with(name, Vec::new(), options.collect())
}

/// A ping-pong on this machine.
fn ping_pong(place: &Place, options: &str) {
    let port = tcp::free_port();
    let line = format!("ibv_rc_pingpong -n {MESSAGES} -p {port} {options}");
    let mut server = place.start(&line);
    server.wait_until(|| tcp::listens(port));
    place.start(&format!("{line} {LOCALHOST}")).succeed();
    server.succeed();
}

/// All counters of a port, as a program in the fabric reads them, by folder and name.
fn counters(place: &Place, port: &str) -> BTreeMap<String, u64> {
    let dir = format!("/sys/class/infiniband/{port}");
    let text = place.start(&format!("grep -r . {dir}/counters {dir}/hw_counters")).succeed();
    let entry = |line: &str| {
        let (path, value) = line.rsplit_once(':').unwrap();
        (path.strip_prefix(&dir).unwrap()[1..].to_string(), value.parse().unwrap())
    };
    text.lines().map(entry).collect()
}

fn assert_values(counters: &BTreeMap<String, u64>, expected: &[(&str, u64)]) {
    for (name, value) in expected {
        assert_eq!(counters.get(*name), Some(value), "{name} in {counters:?}");
    }
}

/// The file of a counter, as a program that asks the system by itself finds it.
fn file(place: &Place, tree: &str, counter: &str) -> PathBuf {
    place.fabric().join(tree).join("class/infiniband/rxe0/ports/1").join(counter)
}

fn read(path: &PathBuf) -> u64 {
    fs::read_to_string(path).unwrap().trim_end().parse().unwrap()
}

#[test]
fn packets_are_those_of_a_network() {
    if !installed(&["ibv_rc_pingpong"]) {
        return;
    }
    let place = Place::new("counters");
    let keeper = place.keep();
    let before = counters(&place, "rxe0/ports/1");
    assert_eq!(before.len(), 21 + 16, "{before:?}");
    let unused = before.iter().filter(|(name, _)| *name != "hw_counters/lifespan");
    assert!(unused.clone().all(|(_, value)| *value == 0), "{before:?}");
    assert!(!place.listing().contains(" counters rxe0"), "{}", place.listing());
    ping_pong(&place, "-d rxe0 -g 1");
    // Both sides' messages, each with an acknowledgement, by the same port.
    let packets = 2 * MESSAGES * (MESSAGE_PACKETS + 1);
    let bytes = 2 * MESSAGES * MESSAGE_BYTES + packets * ROCE_BYTES + 2 * MESSAGES * AETH_BYTES;
    let after = counters(&place, "rxe0/ports/1");
    let expected = [
        ("counters/port_xmit_packets", packets),
        ("counters/port_rcv_packets", packets),
        ("counters/unicast_xmit_packets", packets),
        ("counters/unicast_rcv_packets", packets),
        ("counters/multicast_rcv_packets", 0),
        ("counters/port_xmit_data", bytes / 4),
        ("counters/port_rcv_data", bytes / 4),
        ("hw_counters/sent_pkts", packets),
        ("hw_counters/rcvd_pkts", packets),
        ("hw_counters/rdma_sends", 2 * MESSAGES),
        ("hw_counters/rdma_recvs", 2 * MESSAGES),
        ("hw_counters/lifespan", 10),
    ];
    assert_values(&after, &expected);
    let line = format!(
        "counters rxe0/1 sent packets {packets} bytes {bytes} received packets {packets} \
         bytes {bytes}\n"
    );
    assert_has(&place.listing(), &[&line]);
    place.end(keeper);
}

/// Each port has its own, and is asked by a program of its own tree, which came later.
#[test]
fn each_port_counts_what_it_sends() {
    if !installed(&["ibv_rc_pingpong"]) {
        return;
    }
    let place = with("counters-ports", &["rxe0:infiniband,ports=2", "rxe1"]);
    let keeper = place.keep();
    let port = tcp::free_port();
    let line = format!("ibv_rc_pingpong -d rxe0 -n {MESSAGES} -p {port}");
    let mut server = place.start(&format!("{line} -i 1"));
    server.wait_until(|| tcp::listens(port));
    place.start(&format!("{line} -i 2 {LOCALHOST}")).succeed();
    server.succeed();
    let packets = MESSAGES * (MESSAGE_PACKETS + 1);
    let bytes = MESSAGES * MESSAGE_BYTES + packets * INFINIBAND_BYTES + MESSAGES * AETH_BYTES;
    let run = format!("{} run --use rxe0 --", place.soft_hca().display());
    for number in [1, 2] {
        let dir = format!("/sys/class/infiniband/rxe0/ports/{number}");
        let names = ["counters/port_xmit_packets", "counters/port_rcv_data"];
        let paths = names.map(|name| format!("{dir}/{name}")).join(" ");
        let text = place.start(&format!("{run} cat {paths}")).succeed();
        assert_eq!(text, format!("{packets}\n{}\n", bytes / 4));
    }
    let other = counters(&place, "rxe1/ports/1");
    assert_values(&other, &[("counters/port_xmit_packets", 0), ("hw_counters/rdma_sends", 0)]);
    place.end(keeper);
}

/// The value is that of the moment at which a file is opened, whoever opens it; in a file that stays
/// open it follows.
#[test]
fn files_are_written_when_they_are_read() {
    if !installed(&["ibv_rc_pingpong"]) {
        return;
    }
    let place = Place::new("counters-files");
    let keeper = place.keep();
    let path = file(&place, "sys-rxe0", "hw_counters/rdma_sends");
    let held = File::open(file(&place, "sys-rxe0", "hw_counters/rdma_recvs")).unwrap();
    let read_held = || {
        let mut bytes = [0; 32];
        let length = held.read_at(&mut bytes, 0).unwrap();
        String::from_utf8_lossy(&bytes[..length]).trim_end().parse::<u64>().unwrap()
    };
    for round in 0..3 {
        assert_eq!(read(&path), round * 2 * MESSAGES);
        assert!(comes_about(LIMIT, || read_held() == round * 2 * MESSAGES), "{}", read_held());
        ping_pong(&place, "-d rxe0 -g 1");
    }
    place.end(keeper);
}

#[test]
fn what_goes_wrong_is_counted() {
    if !installed(&["ibv_rc_pingpong"]) {
        return;
    }
    let place = with("counters-errors", &["rxe0:infiniband", "rxe1:infiniband"]);
    let keeper = place.keep();
    // The server believes to have posted receives.
    let port = tcp::free_port();
    let line = format!("ibv_rc_pingpong -d rxe0 -n {MESSAGES} -p {port}");
    let mut server =
        place.start_in(&line, |command| command.env("SOFT_HCA_FAULT", "ibv_post_recv:skip"));
    server.wait_until(|| tcp::listens(port));
    let mut client = place.start(&format!("{line} {LOCALHOST}"));
    let waits = || place.listing().contains(" rcvd_rnr_err ");
    assert!(comes_about(LIMIT, waits), "{}", place.listing());
    let after = counters(&place, "rxe0/ports/1");
    let expected = [("hw_counters/rcvd_rnr_err", 1), ("hw_counters/send_rnr_err", 1)];
    assert_values(&after, &expected);
    // Nobody hears that any more.
    let action = |action: &str| {
        let line = ["port", action, "rxe0/1", "--fabric", place.fabric_name()];
        assert!(place.command(&line).status().unwrap().success());
    };
    action("down");
    let has_given_up = || place.listing().contains(" retry_exceeded_err 1");
    assert!(comes_about(LIMIT, has_given_up), "{}", place.listing());
    action("up");
    action("down");
    [&mut server, &mut client].iter_mut().for_each(|program| program.kill());
    let after = counters(&place, "rxe0/ports/1");
    let expected = [
        ("counters/link_downed", 2),
        ("hw_counters/link_downed", 2),
        ("hw_counters/retry_exceeded_err", 1),
        // As many times as `ibv_rc_pingpong` has the device try.
        ("hw_counters/completer_retry_err", 7),
        ("hw_counters/retry_rnr_exceeded_err", 0),
    ];
    assert_values(&after, &expected);
    assert_values(&counters(&place, "rxe1/ports/1"), &[("counters/link_downed", 0)]);
    place.end(keeper);
}

/// Between two hosts the packets are those that the link sends, and what gets lost is sent again.
#[test]
fn packets_between_hosts_are_counted() {
    if !installed(&["ibv_rc_pingpong"]) {
        return;
    }
    let options = ["--roce", "--fault=drop:2% seed=5"];
    let Some(hosts) = Hosts::with("counters-hosts", 1500, &options) else { return };
    let keepers = [hosts.a.place.keep(), hosts.b.place.keep()];
    let port = tcp::free_port();
    // An acknowledgement that is lost when its sender has ended makes the other one fail.
    let line = format!("ibv_rc_pingpong -d rxe0 -g 1 -n 500 -p {port}");
    let mut server = hosts.a.place.start(&line);
    server.wait_until(|| hosts.a.listens(port));
    let mut client = hosts.b.place.start(&format!("{line} {}", hosts.a.address));
    let ends = [&mut server, &mut client].map(|side| side.wait().success());
    assert!(ends.contains(&true), "{}\n{}", server.output(), client.output());
    let mut sent_again = 0;
    for place in [&hosts.a.place, &hosts.b.place] {
        let after = counters(place, "rxe0/ports/1");
        let listing = place.listing();
        let packets = after["counters/port_xmit_packets"];
        assert_has(&listing, &[&format!("{packets} packets sent, ")]);
        assert_eq!(packets, after["hw_counters/sent_pkts"]);
        assert!(after["hw_counters/rdma_recvs"] >= 500, "{after:?}");
        // Five packets go for each message.
        assert!(packets >= 2000, "{after:?}");
        assert!(4 * after["counters/port_xmit_data"] >= 500 * MESSAGE_BYTES, "{after:?}");
        sent_again += after["hw_counters/completer_retry_err"];
    }
    assert!(sent_again > 0, "{}", hosts.a.place.listing());
    for (place, keeper) in [&hosts.a.place, &hosts.b.place].into_iter().zip(keepers) {
        place.end(keeper);
    }
}

/// perftest prints by how much counters have changed.
#[test]
fn perftest_reports_counters() {
    if !installed(&["ib_write_bw"]) {
        return;
    }
    let place = Place::new("counters-perftest");
    let port = tcp::free_port();
    let line = format!("ib_write_bw -d rxe0 -x 1 -n 100 -p {port}");
    let mut server = place.start(&line);
    server.wait_until(|| tcp::listens(port));
    let report = "--report-counters=counters/port_xmit_packets,hw_counters/rcvd_pkts";
    let text = place.start(&format!("{line} {report} {LOCALHOST}")).succeed();
    assert_has(&text, &["counters/port_xmit_packets=", "hw_counters/rcvd_pkts="]);
    server.succeed();
    place.assert_gone();
}

/// Prometheus' node exporter asks the system by itself, and is shown where the tree is.
#[test]
fn the_node_exporter_reads_them() {
    const EXPORTER: &str = "prometheus-node-exporter";
    if !installed(&[EXPORTER, "ibv_rc_pingpong"]) {
        return;
    }
    let place = with("counters-exporter", &["rxe0", "rxe1:infiniband"]);
    let port = tcp::free_port();
    let script = place.file("exporter.sh");
    let line = format!(
        "exec {EXPORTER} --collector.disable-defaults --collector.infiniband \
         --path.sysfs=$SYSFS_PATH --web.listen-address={LOCALHOST}:{port}\n"
    );
    fs::write(&script, line).unwrap();
    let mut exporter = place.start(&format!("sh {}", script.display()));
    exporter.wait_until(|| tcp::listens(port));
    let scrape = || {
        let mut stream = TcpStream::connect((LOCALHOST, port)).unwrap();
        let request = "GET /metrics HTTP/1.0\r\nAccept: text/plain\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    let metric = |name: &str, device: &str, value: u64| {
        format!("node_infiniband_{name}{{device=\"{device}\",port=\"1\"}} {value}\n")
    };
    let text = scrape();
    for device in ["rxe0", "rxe1"] {
        assert_has(&text, &[&metric("port_packets_transmitted_total", device, 0)]);
        assert_has(&text, &[&metric("state_id", device, 4)]);
    }
    ping_pong(&place, "-d rxe0 -g 1");
    let packets = 2 * MESSAGES * (MESSAGE_PACKETS + 1);
    let bytes = 2 * MESSAGES * MESSAGE_BYTES + packets * ROCE_BYTES + 2 * MESSAGES * AETH_BYTES;
    let text = scrape();
    for direction in ["transmitted", "received"] {
        let packets = metric(&format!("port_packets_{direction}_total"), "rxe0", packets);
        let bytes = metric(&format!("port_data_{direction}_bytes_total"), "rxe0", bytes);
        assert_has(&text, &[&packets, &bytes]);
    }
    assert_has(&text, &[&metric("port_packets_received_total", "rxe1", 0)]);
    exporter.kill();
    place.assert_gone();
}
