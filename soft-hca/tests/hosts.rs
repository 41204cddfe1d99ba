//! Pairs on two hosts: two network namespaces, each with a fabric of its own, and packets of RoCE v2
//! between them. Where the system allows no namespaces, the tests are skipped with a word about it;
//! see `stock.rs` about programs that are not installed.

use std::fs;
use std::process::Command;

use programs::assert_has;
use programs::hosts::{Hosts, INTERFACE, assert_gone, by_tcp, ping_pong};
use programs::program::Program;
use programs::{
    LIMIT, capture, comes_about, installed, is_long, perftest, tcp, the_processors, traffic,
};

/// Ping-pongs of one kind, each with new fabrics.
fn ping_pongs(program: &str, lists: &[&str]) {
    if !installed(&[program]) {
        return;
    }
    let Some(hosts) = Hosts::new(program) else { return };
    let _alone = the_processors();
    for options in lists {
        ping_pong(&hosts, program, options);
    }
    assert_gone(&hosts);
}

#[test]
fn ud_ping_pong() {
    ping_pongs("ibv_ud_pingpong", &["", "-e", "-s 1", "-g 0"]);
}

#[test]
fn rc_ping_pong() {
    ping_pongs("ibv_rc_pingpong", &["", "-e", "-s 1 -m 256", "-s 100000", "-g 0"]);
}

#[test]
fn uc_ping_pong() {
    ping_pongs("ibv_uc_pingpong", &["", "-e"]);
}

#[test]
fn srq_ping_pong() {
    ping_pongs("ibv_srq_pingpong", &["", "-e"]);
}

/// perftest's programs of one kind, the addresses exchanged by TCP.
fn perftests(program: &str, lists: &[&str]) {
    if !installed(&[program]) {
        return;
    }
    let Some(hosts) = Hosts::new(program) else { return };
    let _alone = the_processors();
    for options in lists {
        let port = tcp::free_port();
        let options = format!("-x 1 {options}");
        let line = perftest::line(program, port, &options);
        let [_, text] = by_tcp(&hosts, port, &line, hosts.a.address);
        perftest::assert_results(&options, &text);
    }
    assert_gone(&hosts);
}

#[test]
fn send_latency() {
    perftests("ib_send_lat", &["", "-e", "-c UD", "-c UC"]);
}

#[test]
fn send_bandwidth() {
    perftests("ib_send_bw", &["", "-e -s 4096", "-c UD -s 512", "-s 60000 -b"]);
}

#[test]
fn write_latency() {
    perftests("ib_write_lat", &["", "-s 4096", "-c UC"]);
}

#[test]
fn write_bandwidth() {
    perftests("ib_write_bw", &["", "-q 4 -b", "-D 1", "-s 1000001"]);
}

#[test]
fn read_latency() {
    perftests("ib_read_lat", &["", "-s 100000"]);
}

#[test]
fn read_bandwidth() {
    perftests("ib_read_bw", &["", "-s 4096 -q 2", "-s 60001"]);
}

#[test]
fn atomic_latency() {
    perftests("ib_atomic_lat", &["", "-A CMP_AND_SWAP"]);
}

#[test]
fn atomic_bandwidth() {
    perftests("ib_atomic_bw", &["", "-A CMP_AND_SWAP -q 2"]);
}

/// Many threads and queue pairs of all kinds, every byte checked.
fn mixed_traffic(name: &str, options: &str) {
    let Some(hosts) = Hosts::new(name) else { return };
    let _alone = the_processors();
    let port = tcp::free_port();
    let line = format!("{} -p {port}", traffic::program());
    let mut server = hosts.a.place.start(&line);
    server.wait_until(|| hosts.a.listens(port));
    let bytes = if is_long() { "1GiB" } else { "16MiB" };
    let client = format!("{line} {options} --bytes {bytes} {}", hosts.a.address);
    let client = hosts.b.place.start(&client);
    let text = traffic::Traffic { server, client }.succeed();
    assert_has(text.lines().last().unwrap_or_default(), &["every byte checked"]);
    assert_gone(&hosts);
}

#[test]
fn traffic_polling() {
    mixed_traffic("hosts-polling", "");
}

#[test]
fn traffic_with_events() {
    mixed_traffic("hosts-events", "--events --threads 2");
}

/// The table of GIDs has what the other host reaches, and nothing else.
#[test]
fn gids_are_of_the_link() {
    if !installed(&["ibv_devinfo"]) {
        return;
    }
    let Some(hosts) = Hosts::new("hosts-gids") else { return };
    let text = hosts.a.place.start("ibv_devinfo -v").succeed();
    let gids = text.lines().filter_map(|line| line.trim().strip_prefix("GID["));
    let gids = gids.filter_map(|line| Some(line.split_once("]:")?.1.split_once(',')?.0.trim()));
    let address = format!("::ffff:{}", hosts.a.address);
    let expected = [hosts.a.link_local.as_str(), &address, hosts.a.address6];
    assert_eq!(gids.collect::<Vec<_>>(), expected, "{text}");
    assert_gone(&hosts);
}

/// The system takes a second or more to find out that no other host has the address that it has given
/// an interface. A fabric that starts meanwhile has it on the link from then on.
#[test]
fn an_address_in_duplicate_detection() {
    if !installed(&["ibv_ud_pingpong", "ibv_rc_pingpong"]) {
        return;
    }
    let Some(hosts) = Hosts::new("hosts-tentative") else { return };
    let _alone = the_processors();
    hosts.a.detect_duplicates();
    let keeper = hosts.a.place.keep();
    assert!(hosts.a.is_tentative(), "the fabric has come too late");
    assert!(comes_about(LIMIT, || !hosts.a.is_tentative()), "it stays tentative");
    ping_pong(&hosts, "ibv_ud_pingpong", "-g 0");
    ping_pong(&hosts, "ibv_rc_pingpong", "-g 0");
    hosts.a.place.end(keeper);
    assert_gone(&hosts);
}

/// As that of the kernel's Soft-RoCE does.
#[test]
fn the_ports_mtu_follows_the_interface() {
    if !installed(&["ibv_devinfo"]) {
        return;
    }
    let Some(hosts) = Hosts::with("hosts-mtu", 9000, &["--roce"]) else { return };
    let place = &hosts.a.place;
    let keeper = place.keep();
    for (mtu, active) in [(9000, "4096 (5)"), (1500, "1024 (3)"), (4176, "4096 (5)")] {
        hosts.a.set_mtu(mtu);
        let text = place.start("ibv_devinfo").succeed();
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_has(&words, &[&format!("active_mtu: {active}")]);
    }
    place.end(keeper);
    assert_gone(&hosts);
}

/// A recording of everything on the link while `run` runs.
fn recorded(hosts: &Hosts, run: impl FnOnce()) -> Vec<u8> {
    let file = hosts.a.place.file("link.pcap");
    let line = format!("dumpcap -q -P -i {INTERFACE} -f udp -w {}", file.display());
    let mut recorder = hosts.a.start_plain(&line);
    let output = recorder.output_file();
    recorder.wait_until(|| fs::read_to_string(&output).unwrap().contains("File: "));
    run();
    interrupt(&recorder);
    recorder.succeed();
    fs::read(file).unwrap()
}

fn interrupt(program: &Program) {
    let pid = program.pid().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
}

/// The packets are right: Wireshark checks their structure, and a check of our own
/// their ICRC, with the addresses and the id that were sent.
#[test]
fn packets_are_right() {
    if !installed(&["dumpcap", "tshark", "ibv_rc_pingpong", "ibv_ud_pingpong", "ib_atomic_bw"]) {
        return;
    }
    let Some(hosts) = Hosts::new("packets") else { return };
    hosts.a.cut_before_the_link();
    hosts.b.cut_before_the_link();
    let _alone = the_processors();
    let recording = recorded(&hosts, || {
        ping_pong(&hosts, "ibv_rc_pingpong", "");
        ping_pong(&hosts, "ibv_ud_pingpong", "");
        for program in ["ib_atomic_bw", "ib_read_bw -s 5001", "ib_write_bw -s 5001"] {
            let port = tcp::free_port();
            by_tcp(&hosts, port, &perftest::line(program, port, "-x 1"), hosts.a.address);
        }
    });
    let packets = capture::packets(&recording).unwrap();
    let wrong = packets.iter().filter(|packet| !packet.is_right()).count();
    println!("{} packets", packets.len());
    assert!(packets.len() > 5_000 && wrong == 0, "{wrong} of {} are wrong", packets.len());
    let file = hosts.a.place.file("link.pcap");
    let errors = "_ws.malformed || _ws.expert.severity == error || !infiniband";
    let mut tshark = Command::new("tshark");
    let output = tshark.arg("-r").arg(file).args(["-Y", errors]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let found = String::from_utf8(output.stdout).unwrap();
    assert!(found.is_empty(), "{}", found.lines().take(20).collect::<Vec<_>>().join("\n"));
    assert_gone(&hosts);
}
