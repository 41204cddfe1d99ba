//! Programs that run their lease of the port to other hosts by themselves: how they leave it, and the same
//! where they do not (`SOFT_HCA_OWN_PORT=0`). What they send and receive is in `hosts.rs` and its like.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use programs::hosts::{Hosts, INTERFACE, assert_gone, by_tcp, ping_pong};
use programs::program::Program;
use programs::random::Random;
use programs::traffic::{self, Traffic};
use programs::{
    LIMIT, assert_has, comes_about, compile, installed, is_long, perftest, polls_are_seen, signal,
    tcp, the_processors,
};

/// Before a program whose lease the link's thread runs.
const NOT_OWN: &str = "env SOFT_HCA_OWN_PORT=0";
const LEAVE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/own_port/leave.c");
const WAITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/own_port/waits.c");

#[test]
fn not_by_themselves() {
    if !polls_are_seen() {
        return;
    }
    let programs = ["ib_send_lat", "ib_write_bw -b"];
    if !installed(&["ibv_rc_pingpong", "ibv_uc_pingpong", "ib_send_lat", "ib_write_bw"]) {
        return;
    }
    let Some(hosts) = Hosts::new("own-not") else { return };
    let _alone = the_processors();
    ping_pong(&hosts, &format!("{NOT_OWN} ibv_rc_pingpong"), "");
    ping_pong(&hosts, &format!("{NOT_OWN} ibv_uc_pingpong"), "-e");
    for program in programs {
        let port = tcp::free_port();
        let line = perftest::line(program, port, "-x 1");
        by_tcp(&hosts, port, &format!("{NOT_OWN} {line}"), hosts.a.address);
    }
    assert_gone(&hosts);
}

/// One side does, the other does not. Every byte and every sum of atomics is compared.
#[test]
fn one_of_two() {
    if !polls_are_seen() {
        return;
    }
    let Some(hosts) = Hosts::new("own-traffic") else { return };
    let _alone = the_processors();
    let port = tcp::free_port();
    let line = format!("{} -p {port} --reliable --bytes 8MiB", traffic::program());
    let mut server = hosts.a.place.start(&format!("{NOT_OWN} {line}"));
    server.wait_until(|| hosts.a.listens(port));
    let client = hosts.b.place.start(&format!("{line} {}", hosts.a.address));
    let text = Traffic { server, client }.succeed();
    assert_has(text.lines().last().unwrap_or_default(), &["every byte checked"]);
    assert_gone(&hosts);
}

/// Runs `leave.c` behind the words of `before`; both of its processes have the same fabric and reach each other
/// by the link.
fn leave(before: &str, how: &str, expected: &str) {
    let option = format!("--roce=always,{INTERFACE}");
    let Some(hosts) = Hosts::with(&format!("own-{how}"), 1500, &[&option]) else { return };
    let Some(program) = compile(&hosts.a.place, LEAVE, &["ibverbs"]) else { return };
    let _alone = the_processors();
    // Its last step may be done when the link's thread looks, too.
    for _ in 0..5 {
        let line = format!("{before} {program} {how}");
        assert_eq!(hosts.a.place.start(&line).succeed(), expected);
    }
    hosts.a.place.assert_gone();
}

/// The last message that a program has found is acknowledged, though it has called nothing since.
#[test]
fn who_leaves_at_once_has_acknowledged() {
    if !polls_are_seen() {
        return;
    }
    for how in ["kill", "exit", "error", "destroy"] {
        leave("env", how, "all acknowledged\n");
    }
}

/// The same where the link's thread runs the lease.
#[test]
fn who_leaves_a_queue_pair_at_once_has_acknowledged() {
    for how in ["error", "destroy"] {
        leave(NOT_OWN, how, "all acknowledged\n");
    }
}

/// A child of `fork`, which may outlive the fabric, does not keep its port.
#[test]
fn children_have_no_sockets() {
    if !polls_are_seen() {
        return;
    }
    leave(
        "env",
        "child",
        "the process has sockets of the port: yes\nits child has: no\nall acknowledged\n",
    );
}

/// The listing tells who has a lease. Who is killed leaves it to the next one.
#[test]
fn a_program_is_killed() {
    if !polls_are_seen() {
        return;
    }
    if !installed(&["ibv_rc_pingpong"]) {
        return;
    }
    let Some(hosts) = Hosts::new("own-kill") else { return };
    let _alone = the_processors();
    let keepers = [hosts.a.place.keep(), hosts.b.place.keep()];
    for mut killed in endless(&hosts, "") {
        killed.kill();
    }
    ping_pong(&hosts, "ibv_rc_pingpong", "");
    let are_none = || [&hosts.a, &hosts.b].iter().all(|host| host.place.objects().is_empty());
    assert!(comes_about(LIMIT, are_none));
    for (keeper, host) in keepers.into_iter().zip([&hosts.a, &hosts.b]) {
        host.place.end(keeper);
    }
}

/// A pair that does not end by itself, at work, each with its lease.
fn endless(hosts: &Hosts, options: &str) -> [Program; 2] {
    let port = tcp::free_port();
    let line = format!("ibv_rc_pingpong -d rxe0 -g 1 -n 100000000 -p {port} {options}");
    let mut server = hosts.a.place.start(&line);
    server.wait_until(|| hosts.a.listens(port));
    let mut client = hosts.b.place.start(&format!("{line} {}", hosts.a.address));
    let has_lease = |listing: String| listing.contains("comm ibv_rc_pingpong port lease 1");
    client.wait_until(|| has_lease(hosts.a.place.listing()) && has_lease(hosts.b.place.listing()));
    let is_at_work = || hosts.b.place.objects().iter().any(|line| line.contains("state RTS"));
    client.wait_until(is_at_work);
    [server, client]
}

/// A number in a file of `/proc`, behind a name.
fn number(path: &str, name: &str) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("0");
    value.trim().parse().unwrap()
}

/// How often the threads of a process have gone to sleep.
fn sleeps(pid: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of = |thread: fs::DirEntry| {
        number(&format!("{}/status", thread.path().display()), "voluntary_ctxt_switches:")
    };
    threads.map_while(Result::ok).map(of).sum()
}

/// Whether packets wake a program that waits for completion events, and no thread of the daemon for it: there comes a while
/// in which the program has read some thousand events, and the daemon's threads have slept a tenth as often.
fn is_woken_by_packets(program: &Program, daemon: u32) -> bool {
    let io = format!("/proc/{}/io", program.pid());
    let counts = || (number(&io, "syscr:"), sleeps(daemon));
    let mut before = counts();
    comes_about(LIMIT, || {
        let now = counts();
        let (read, slept) = (now.0 - before.0, now.1 - before.1);
        if read < 5_000 {
            return false;
        }
        before = now;
        slept * 10 < read
    })
}

#[test]
fn a_program_that_waits_is_woken_by_packets() {
    if !polls_are_seen() || !installed(&["ibv_rc_pingpong"]) {
        return;
    }
    let Some(hosts) = Hosts::new("own-waits") else { return };
    let _alone = the_processors();
    let keepers = [hosts.a.place.keep(), hosts.b.place.keep()];
    let pair = endless(&hosts, "-e");
    let [daemon] = hosts.a.place.daemons()[..] else { panic!("no daemon") };
    assert!(is_woken_by_packets(&pair[0], daemon));
    pair.into_iter().for_each(|mut program| program.kill());
    for (keeper, host) in keepers.into_iter().zip([&hosts.a, &hosts.b]) {
        host.place.end(keeper);
    }
}

/// The same where the program waits for its channel by `poll(2)`, `epoll` and their kin; and such waits end in time and by
/// signals.
#[test]
fn programs_that_wait_in_polls_of_their_own() {
    if !polls_are_seen() {
        return;
    }
    let option = format!("--roce=always,{INTERFACE}");
    let Some(hosts) = Hosts::with("own-polls", 1500, &[&option]) else { return };
    let place = &hosts.a.place;
    let Some(program) = compile(place, WAITS, &["ibverbs"]) else { return };
    let _alone = the_processors();
    let keeper = place.keep();
    let [daemon] = place.daemons()[..] else { panic!("no daemon") };
    let ways = ["poll", "ppoll", "epoll", "epoll_pwait", "nested"];
    for how in ways {
        let mut endless = place.start(&format!("{program} {how} 0"));
        assert!(is_woken_by_packets(&endless, daemon), "{how}");
        endless.kill();
        assert!(comes_about(LIMIT, || place.objects().is_empty()));
    }
    let ends = ways.map(|how| format!("{how}: in time, by a signal\n"));
    assert_eq!(place.start(&format!("{program} ends")).succeed(), ends.concat());
    place.end(keeper);
}

/// A fabric that is killed leaves programs that have sockets of its port. They give them up, and the next fabric has the
/// port: while those that poll are there still, and whether or not those that waited for an event have ended.
#[test]
fn the_fabric_is_killed() {
    if !polls_are_seen() {
        return;
    }
    if !installed(&["ibv_rc_pingpong"]) {
        return;
    }
    let Some(hosts) = Hosts::new("own-fabric") else { return };
    let _alone = the_processors();
    for options in ["", "-e"] {
        let keepers = [hosts.a.place.keep(), hosts.b.place.keep()];
        let [mut server, mut client] = endless(&hosts, options);
        for (mut keeper, host) in keepers.into_iter().zip([&hosts.a, &hosts.b]) {
            let [daemon] = host.place.daemons()[..] else { panic!("no daemon") };
            let killed = Command::new("kill").args(["-KILL", &daemon.to_string()]).status();
            assert!(killed.unwrap().success());
            keeper.kill();
            let keeper = host.place.keep();
            assert_has(&host.place.listing(), &[&format!("roce {}", host.address)]);
            host.place.end(keeper);
        }
        for program in [&mut server, &mut client] {
            match options {
                "-e" => assert!(!program.wait().success()),
                _ => {
                    assert!(!program.has_ended());
                    program.kill();
                }
            }
        }
    }
}

/// Checked traffic, of which one side or both are stopped again and again at a random moment (SIGSTOP). The
/// link's thread goes on with their leases and they get them back; no byte is lost or comes twice, and
/// another pair of the hosts does not wait.
#[test]
fn programs_are_stopped() {
    stopped("own-stopped", "--reliable", true);
}

/// Packets that a program has in hand when it is put aside for some milliseconds, received or not sent yet, come before
/// those of the link's thread: not even an unreliable connection loses any.
#[test]
fn packets_keep_their_order_when_programs_are_put_aside() {
    stopped("own-order", "", false);
}

fn stopped(name: &str, services: &str, has_long_stops: bool) {
    if !polls_are_seen() || !installed(&["ibv_rc_pingpong"]) {
        return;
    }
    let Some(hosts) = Hosts::new(name) else { return };
    let _alone = the_processors();
    let keepers = [hosts.a.place.keep(), hosts.b.place.keep()];
    let mut random = Random::new(25);
    let stops = if is_long() { 400 } else { 20 };
    let (mut left, mut pairs) = (stops, 0);
    while left > 0 {
        pairs += 1;
        assert!(pairs <= 10 * stops, "{pairs} pairs end before they are stopped {stops} times");
        let port = tcp::free_port();
        let options = ["", "--events"][random.below(2) as usize];
        let line = format!("{} -p {port} {services} --bytes 64MiB {options}", traffic::program());
        let mut server = hosts.a.place.start(&line);
        server.wait_until(|| hosts.a.listens(port));
        let client = hosts.b.place.start(&format!("{line} {}", hosts.a.address));
        let mut pair = Traffic { server, client };
        pair.wait_until_connected();
        while left > 0 && !pair.server.has_ended() && !pair.client.has_ended() {
            let is_long = has_long_stops && left % 10 == 0;
            stop_some(&hosts, [&pair.server, &pair.client], is_long, &mut random);
            left -= 1;
        }
        assert_has(&pair.succeed(), &["every byte checked"]);
    }
    for (keeper, host) in keepers.into_iter().zip([&hosts.a, &hosts.b]) {
        host.place.end(keeper);
    }
}

/// Stops one or both for some milliseconds, in which the link's thread may or may not look, or until another
/// pair is done.
fn stop_some(hosts: &Hosts, pair: [&Program; 2], is_long_stop: bool, random: &mut Random) {
    thread::sleep(Duration::from_micros(random.below(60_000)));
    let victims = [&pair[..1], &pair[1..], &pair[..]][random.below(3) as usize];
    victims.iter().for_each(|victim| signal::stop(victim));
    match is_long_stop {
        true => ping_pong(hosts, "ibv_rc_pingpong", ""),
        false => thread::sleep(Duration::from_micros(random.below(12_000))),
    }
    victims.iter().for_each(|victim| signal::go_on(victim));
}
