//! Pairs on two hosts: two network namespaces, each with a fabric of its own, and packets of RoCE v2
//! between them. Where the system allows no namespaces, the tests are skipped with a word about it;
//! see `stock.rs` about programs that are not installed.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod programs;

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use programs::hosts::{Hosts, INTERFACE};
use programs::program::Program;
use programs::random::Random;
use programs::{LIMIT, installed, is_long, perftest, tcp, the_processors, traffic};
use soft_hca_roce::wire::capture;

/// Runs a server on host A, which listens at a TCP port, and a client on host B. Gives what both
/// have written.
fn by_tcp(hosts: &Hosts, port: u16, line: &str, address: &str) -> [String; 2] {
    let mut server = hosts.a.place.start(line);
    server.wait_until(|| hosts.a.listens(port));
    let client = hosts.b.place.start(&format!("{line} {address}")).succeed();
    [server.succeed(), client]
}

fn assert_has(text: &str, expected: &[&str]) {
    for part in expected {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}

fn assert_gone(hosts: &Hosts) {
    hosts.a.place.assert_gone();
    hosts.b.place.assert_gone();
}

/// A ping-pong with some options for both.
fn ping_pong(hosts: &Hosts, program: &str, options: &str) {
    let port = tcp::free_port();
    // -c has every byte of the messages compared.
    let line = format!("{program} -d rxe0 -g 1 -n 300 -p {port} -c {options}");
    let both = by_tcp(hosts, port, &line, hosts.a.address);
    both.iter().for_each(|text| assert_has(text, &["300 iters in ", "Mbit/sec"]));
    both.iter().for_each(|text| assert!(!text.contains("invalid data"), "{text}"));
}

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
    ping_pongs("ibv_ud_pingpong", &["", "-e", "-s 1"]);
}

#[test]
fn rc_ping_pong() {
    ping_pongs("ibv_rc_pingpong", &["", "-e", "-s 1 -m 256", "-s 100000"]);
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

/// Whoever looks at the packets finds them right: Wireshark their structure, and a check of our own
/// their ICRC, with the addresses and the id that were sent.
#[test]
fn packets_are_right() {
    if !installed(&["dumpcap", "tshark", "ibv_rc_pingpong", "ibv_ud_pingpong", "ib_atomic_bw"]) {
        return;
    }
    let Some(hosts) = Hosts::new("packets") else { return };
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

/// Both ends write for ever, each with two queue pairs. A queue pair tells that its peer has gone
/// after eight timeouts of 4.096 us * 2^14 to four times that: in half a second to two.
const WRITERS: &str = "ib_write_bw -d rxe0 -x 1 -F -b -q 2 -s 3000 -D 1000";

/// How perftest says that.
const RETRY_EXCEEDED: &str = "Failed status 12";

/// How it says that there never was a peer.
const NO_PEER: [&str; 3] = ["Couldn't ", "Unable to ", "Failed to "];

/// Starts writers. They need not have begun to write.
fn writers(hosts: &Hosts, port: u16) -> [Program; 2] {
    let line = format!("{WRITERS} -p {port}");
    let mut server = hosts.a.place.start(&line);
    server.wait_until(|| hosts.a.listens(port));
    let client = hosts.b.place.start(&format!("{line} {}", hosts.a.address));
    [server, client]
}

/// The same once all their queue pairs are connected.
fn busy_writers(hosts: &Hosts, port: u16) -> [Program; 2] {
    let mut both = writers(hosts, port);
    for (program, place) in both.iter_mut().zip([&hosts.a.place, &hosts.b.place]) {
        let is_ready = |line: &&String| line.starts_with("qp ") && line.contains(" state RTS ");
        program.wait_until(|| place.objects().iter().filter(is_ready).count() == 2);
    }
    both
}

/// The program says that its peer has gone; gives the time that took.
fn assert_notices(survivor: &mut Program, since: Instant) -> Duration {
    let status = survivor.wait();
    let text = survivor.output();
    assert!(!status.success() && text.contains(RETRY_EXCEEDED), "{status}\n{text}");
    since.elapsed()
}

#[test]
fn either_side_is_killed() {
    if !installed(&["ib_write_bw", "ibv_rc_pingpong"]) {
        return;
    }
    let Some(hosts) = Hosts::new("hosts-kill") else { return };
    let _alone = the_processors();
    let mut random = Random::new(8);
    let (mut noticed, mut lonely, mut longest) = (0, 0, Duration::ZERO);
    for round in 0..if is_long() { 200 } else { 8 } {
        let port = tcp::free_port();
        let make = if round % 2 == 0 { writers } else { busy_writers };
        let [mut server, mut client] = make(&hosts, port);
        thread::sleep(Duration::from_micros(random.below(200_000)));
        let (victim, survivor) = match random.below(2) {
            0 => (&mut server, &mut client),
            _ => (&mut client, &mut server),
        };
        victim.kill();
        let since = Instant::now();
        while survivor.ends_within(Duration::from_millis(100)).is_none() && since.elapsed() < LIMIT
        {
            if hosts.a.listens(port) {
                // The client never came.
                survivor.kill();
            }
        }
        let status = survivor.wait();
        let text = survivor.output();
        if text.contains(RETRY_EXCEEDED) {
            noticed += 1;
            longest = longest.max(since.elapsed());
        } else {
            lonely += 1;
            let was_killed = status.code().is_none();
            let has_said = was_killed || NO_PEER.iter().any(|words| text.contains(words));
            assert!(has_said, "{status}, not the last words of a survivor:\n{text}");
        }
        ping_pong(&hosts, "ibv_rc_pingpong", "");
    }
    println!("{noticed} noticed, the last within {longest:?}; {lonely} had no peer yet");
    assert!(noticed > 0);
    assert_gone(&hosts);
}

/// With its fabric a host's queue pairs are gone. The next fabric has the same address.
#[test]
fn a_fabric_is_killed() {
    if !installed(&["ib_write_bw", "ibv_rc_pingpong"]) {
        return;
    }
    let Some(hosts) = Hosts::new("hosts-fabric") else { return };
    let _alone = the_processors();
    for _ in 0..3 {
        let [mut server, mut client] = busy_writers(&hosts, tcp::free_port());
        let [daemon] = hosts.b.place.daemons()[..] else { panic!("no daemon") };
        let daemon = daemon.to_string();
        assert!(Command::new("kill").args(["-KILL", &daemon]).status().unwrap().success());
        client.kill();
        println!("noticed after {:?}", assert_notices(&mut server, Instant::now()));
        ping_pong(&hosts, "ibv_rc_pingpong", "");
    }
    assert_gone(&hosts);
}

#[test]
fn a_host_is_cut_off() {
    if !installed(&["ib_write_bw", "ibv_rc_pingpong"]) {
        return;
    }
    let Some(hosts) = Hosts::new("hosts-cut") else { return };
    let _alone = the_processors();
    let [mut server, mut client] = busy_writers(&hosts, tcp::free_port());
    hosts.b.set_link("down");
    let since = Instant::now();
    for program in [&mut server, &mut client] {
        println!("noticed after {:?}", assert_notices(program, since));
    }
    hosts.b.set_link("up");
    ping_pong(&hosts, "ibv_rc_pingpong", "");
    assert_gone(&hosts);
}
