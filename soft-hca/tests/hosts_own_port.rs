//! Programs that run their share of the port to other hosts by themselves (`SOFT_HCA_OWN_PORT=1`): what
//! they send and receive is as from the link's thread, and that goes on where they do not.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod programs;

use programs::hosts::{Hosts, assert_gone, by_cm, by_tcp, ping_pong};
use programs::{LIMIT, assert_has, comes_about, installed, perftest, tcp, the_processors, traffic};

/// Before a program.
const OWN: &str = "env SOFT_HCA_OWN_PORT=1";
const PORT: u16 = 7471;

#[test]
fn ping_pongs() {
    if !installed(&["ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong"]) {
        return;
    }
    let Some(hosts) = Hosts::new("own-pingpong") else { return };
    let _alone = the_processors();
    for options in ["", "-e", "-s 100000", "-r 1"] {
        ping_pong(&hosts, &format!("{OWN} ibv_rc_pingpong"), options);
    }
    ping_pong(&hosts, &format!("{OWN} ibv_uc_pingpong"), "");
    ping_pong(&hosts, &format!("{OWN} ibv_ud_pingpong"), "");
    assert_gone(&hosts);
}

/// Streams and latencies, some of whose programs watch memory, and no queue.
#[test]
fn perftest_of_all_operations() {
    let programs = ["ib_send_lat", "ib_write_lat", "ib_read_bw", "ib_atomic_lat", "ib_send_bw -b"];
    if !installed(&["ib_send_lat", "ib_write_lat", "ib_read_bw", "ib_atomic_lat", "ib_send_bw"]) {
        return;
    }
    let Some(hosts) = Hosts::new("own-perftest") else { return };
    let _alone = the_processors();
    for program in programs {
        let port = tcp::free_port();
        let line = perftest::line(program, port, "-x 1");
        by_tcp(&hosts, port, &format!("{OWN} {line}"), hosts.a.address);
    }
    assert_gone(&hosts);
}

/// Every byte and every sum of atomics is compared.
#[test]
fn mixed_traffic() {
    let Some(hosts) = Hosts::new("own-traffic") else { return };
    let _alone = the_processors();
    for options in ["", "--events --threads 2"] {
        let port = tcp::free_port();
        let line = format!("{OWN} {} -p {port} --reliable {options}", traffic::program());
        let mut server = hosts.a.place.start(&line);
        server.wait_until(|| hosts.a.listens(port));
        let client = hosts.b.place.start(&format!("{line} {}", hosts.a.address));
        let text = traffic::Traffic { server, client }.succeed();
        assert_has(text.lines().last().unwrap_or_default(), &["every byte checked"]);
    }
    assert_gone(&hosts);
}

#[test]
fn the_connection_manager() {
    if !installed(&["rping"]) {
        return;
    }
    let Some(hosts) = Hosts::new("own-cm") else { return };
    let line = format!("-a {} -p {PORT} -C 50 -V", hosts.a.address);
    let [server, client] = ["-s", "-c"].map(|side| format!("{OWN} rping {side} {line}"));
    by_cm(&hosts, PORT, &server, &client);
    assert_gone(&hosts);
}

/// The listing tells who has a share. Who is killed leaves it, and its peer is told in the end.
#[test]
fn a_program_is_killed() {
    if !installed(&["ibv_rc_pingpong"]) {
        return;
    }
    let Some(hosts) = Hosts::new("own-kill") else { return };
    let _alone = the_processors();
    let keepers = [hosts.a.place.keep(), hosts.b.place.keep()];
    let port = tcp::free_port();
    let line = format!("{OWN} ibv_rc_pingpong -d rxe0 -g 1 -n 100000000 -p {port}");
    let mut server = hosts.a.place.start(&line);
    server.wait_until(|| hosts.a.listens(port));
    let mut client = hosts.b.place.start(&format!("{line} {}", hosts.a.address));
    let has_share = |listing: String| listing.contains("comm ibv_rc_pingpong share 1");
    client.wait_until(|| has_share(hosts.a.place.listing()) && has_share(hosts.b.place.listing()));
    let is_at_work = || hosts.b.place.objects().iter().any(|line| line.contains("state RTS"));
    client.wait_until(is_at_work);
    client.kill();
    server.wait();
    assert_has(&server.output(), &["transport retry counter exceeded (12)"]);
    ping_pong(&hosts, &format!("{OWN} ibv_rc_pingpong"), "");
    let are_none = || [&hosts.a, &hosts.b].iter().all(|host| host.place.objects().is_empty());
    assert!(comes_about(LIMIT, are_none));
    for (keeper, host) in keepers.into_iter().zip([&hosts.a, &hosts.b]) {
        host.place.end(keeper);
    }
}
