//! The connection manager between two hosts; see `hosts.rs`.

use programs::assert_has;
use programs::hosts::{Hosts, INTERFACE, assert_gone, by_cm};
use programs::place::Place;
use programs::{installed, perftest, tcp, the_processors};

/// A port of the connection manager.
const PORT: u16 = 7471;

/// By either family of addresses, and by one that is good for the link only.
#[test]
fn rping() {
    if !installed(&["rping"]) {
        return;
    }
    let Some(hosts) = Hosts::new("hosts-rping") else { return };
    let _alone = the_processors();
    let link_local = format!("{}%{INTERFACE}", hosts.a.link_local);
    for address in [hosts.a.address, hosts.a.address6, &link_local] {
        let line = format!("-a {address} -p {PORT} -C 10 -S 10000 -V -v");
        let both = by_cm(&hosts, PORT, &format!("rping -s {line}"), &format!("rping -c {line}"));
        assert_has(&both[0], &["server ping data: rdma-ping-9: "]);
        assert_has(&both[1], &["ping data: rdma-ping-9: "]);
    }
    assert_gone(&hosts);
}

/// Addresses that other hosts do not reach still lead to this host's programs, on a link of either family.
#[test]
fn on_one_host() {
    if !installed(&["rping"]) {
        return;
    }
    let Some(hosts) = Hosts::new("hosts-local") else { return };
    let _alone = the_processors();
    let rpings = |place: &Place| {
        for address in ["127.0.0.1", "::1", hosts.a.address6, hosts.a.address] {
            let line = format!("-a {address} -p {PORT} -C 10 -S 10000 -V -v");
            let mut server = place.start(&format!("rping -s {line}"));
            server.wait_until(|| place.listens(PORT));
            let client = place.start(&format!("rping -c {line}")).succeed();
            assert_has(&client, &["ping data: rdma-ping-9: "]);
            server.wait();
        }
        place.assert_gone();
    };
    for address in [hosts.a.address, hosts.a.address6] {
        rpings(&hosts.a.place_with(&format!("--roce={address}")));
    }
}

/// The host is there, and nobody listens.
#[test]
fn nobody_listens() {
    if !installed(&["rping"]) {
        return;
    }
    let Some(hosts) = Hosts::new("hosts-refused") else { return };
    let keeper = hosts.a.place.keep();
    let mut client = hosts.b.place.start(&format!("rping -c -a {} -C 1", hosts.a.address));
    assert!(!client.wait().success());
    assert_has(&client.output(), &["RDMA_CM_EVENT_REJECTED"]);
    hosts.a.place.end(keeper);
    assert_gone(&hosts);
}

/// The address is of the local network or behind a gateway, and nobody has it or is the gateway: as
/// with a device, resolving it fails when its time is over.
#[test]
fn nobody_is_there() {
    if !installed(&["rping"]) {
        return;
    }
    let Some(hosts) = Hosts::new("hosts-nobody") else { return };
    hosts.b.add_route("198.51.100.0/24", "192.0.2.78");
    hosts.b.add_route("2001:db8::/32", "fd00:0:2::78");
    let keeper = hosts.b.place.keep();
    let nobody = ["192.0.2.77", "198.51.100.1", "fd00:0:2::77", "2001:db8::1"];
    let clients = nobody.map(|address| hosts.b.place.start(&format!("rping -c -a {address} -C 1")));
    for mut client in clients {
        assert!(!client.wait().success());
        assert_has(&client.output(), &["RDMA_CM_EVENT_ADDR_ERROR, error -110"]);
    }
    // The gateway is there, so it goes on to the request, which nobody answers.
    hosts.b.add_route("203.0.113.0/24", hosts.a.address);
    let mut client = hosts.b.place.start("rping -c -d -a 203.0.113.1 -C 1");
    client.wait_until(|| hosts.b.place.objects().iter().any(|line| line.contains(" CONNECT ")));
    client.kill();
    hosts.b.place.end(keeper);
    assert_gone(&hosts);
}

#[test]
fn ucmatose() {
    if !installed(&["ucmatose"]) {
        return;
    }
    let Some(hosts) = Hosts::new("hosts-ucmatose") else { return };
    let _alone = the_processors();
    for options in ["-c 7 -C 10 -S 1000", "-m -c 3 -C 3"] {
        let line = format!("ucmatose -p {PORT} {options}");
        let client = format!("{line} -s {}", hosts.a.address);
        for text in by_cm(&hosts, PORT, &line, &client) {
            assert_has(&text, &["data transfers complete", "return status 0"]);
        }
    }
    assert_gone(&hosts);
}

#[test]
fn udaddy() {
    if !installed(&["udaddy"]) {
        return;
    }
    let Some(hosts) = Hosts::new("hosts-udaddy") else { return };
    let _alone = the_processors();
    let line = "udaddy -c 5 -C 10 -S 500";
    for text in by_cm(&hosts, 7174, line, &format!("{line} -s {}", hosts.a.address)) {
        assert_has(&text, &["data transfers complete", "return status 0"]);
    }
    assert_gone(&hosts);
}

#[test]
fn streams() {
    if !installed(&["rstream"]) {
        return;
    }
    let Some(hosts) = Hosts::new("hosts-rstream") else { return };
    let _alone = the_processors();
    for options in ["-S 1000 -C 100 -I 3", "-S 70000 -C 20 -T b"] {
        let line = format!("rstream -p {PORT} -T v {options}");
        let client = format!("{line} -s {}", hosts.a.address);
        for text in by_cm(&hosts, PORT, &line, &client) {
            assert_has(&text, &["\ncustom "]);
        }
    }
    assert_gone(&hosts);
}

#[test]
fn perftests() {
    let programs = ["ib_send_bw", "ib_send_lat", "ib_write_lat", "ib_read_bw", "ib_atomic_lat"];
    if !installed(&programs) {
        return;
    }
    let Some(hosts) = Hosts::new("hosts-perftest") else { return };
    let _alone = the_processors();
    for program in programs {
        let port = tcp::free_port();
        let line = perftest::line(program, port, "-R");
        let [_, text] = by_cm(&hosts, port, &line, &format!("{line} {}", hosts.a.address));
        perftest::assert_results("-R", &text);
    }
    assert_gone(&hosts);
}
