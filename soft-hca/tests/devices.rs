//! Fabrics with other devices than the usual one: InfiniBand, several of them, ports that go down.
//!
//! See `stock.rs` about programs that are not installed; the packages are ibverbs-utils,
//! rdmacm-utils, perftest and infiniband-diags.

use std::process::Command;
use std::time::{Duration, Instant};

use programs::place::Place;
use programs::tcp;
use programs::{LIMIT, LOCALHOST, assert_has, comes_about, installed, other_programs};

/// A port of the connection manager: each fabric has its own.
const PORT: u16 = 7471;

const TWO_PORTS: &str = "rxe0:infiniband,ports=2";

/// A fabric with these devices.
fn with(name: &str, devices: &[&str]) -> Place {
    let options = devices.iter().flat_map(|device| ["--device", device]).map(String::from);
    Place::with(name, Vec::new(), options.collect())
}

/// `soft-hca port` for a port of the fabric, and whether that succeeds.
fn port(place: &Place, action: &str, port: &str) -> bool {
    place
        .command(&["port", action, port, "--fabric", place.fabric_name()])
        .status()
        .unwrap()
        .success()
}

/// A pair that finds each other by TCP; gives what both have written.
fn by_tcp(place: &Place, line: &str) -> [String; 2] {
    let port = tcp::free_port();
    let line = format!("{line} -p {port}");
    let mut server = place.start(&line);
    server.wait_until(|| tcp::listens(port));
    let client = place.start(&format!("{line} {LOCALHOST}")).succeed();
    [server.succeed(), client]
}

#[test]
fn devices_are_found_in_their_order() {
    if !installed(&["ibv_devinfo"]) {
        return;
    }
    let names = ["rxe5", "rxe0", "rxe2", "rxe1"];
    let in_order = names.map(|name| format!("\t{name}\n")).concat();
    // tmpfs lists the newest entry first.
    for folder in [std::env::temp_dir(), "/dev/shm".into()] {
        let folder = folder.join(format!("soft-hca-order-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_soft-hca"));
        command.arg("run").args(names.iter().flat_map(|name| ["--device", name]));
        command.args(["--", "ibv_devinfo", "-l"]).env("XDG_RUNTIME_DIR", &folder);
        let output = command.output().unwrap();
        assert!(comes_about(LIMIT, || std::fs::remove_dir_all(&folder).is_ok()));
        let text = String::from_utf8(output.stdout).unwrap();
        assert_has(&text, &[&in_order]);
    }
}

#[test]
fn infiniband_is_what_tools_show() {
    if !installed(&["ibv_devinfo", "ibstat"]) {
        return;
    }
    let place = with("infiniband", &[TWO_PORTS]);
    let text = place.start("ibv_devinfo -v").succeed();
    let two = ["phys_port_cnt:\t\t\t2", "link_layer:\t\tInfiniBand", "port_lid:\t\t2"];
    assert_has(&text, &two);
    assert_has(&text, &["sm_lid:\t\t\t1", "active_width:\t\t4X (2)", "GID[  0]:\t\tfe80:"]);
    let text = place.start("ibstat").succeed();
    assert_has(
        &text,
        &["Number of ports: 2", "Base lid: 2", "Rate: 100", "Link layer: InfiniBand"],
    );
    // A script, which is the system's only.
    if other_programs().is_none() && installed(&["ibstatus"]) {
        let text = place.start("ibstatus").succeed();
        let status = ["'rxe0' port 2 status:", "100 Gb/sec (4X EDR)", "4: ACTIVE"];
        assert_has(&text, &status);
        assert_has(&text, &["link_layer:\t InfiniBand"]);
    }
    place.assert_gone();
}

/// No GID is named: LIDs lead to the peer.
#[test]
fn messages_go_by_lid() {
    let programs = ["ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong"];
    if !installed(&programs) {
        return;
    }
    for program in programs {
        let place = with(program, &[TWO_PORTS]);
        for port in [1, 2] {
            let line = format!("{program} -d rxe0 -i {port} -n 300 -c");
            for text in by_tcp(&place, &line) {
                let lid = format!("LID 0x000{port}");
                assert_has(&text, &["300 iters in ", &lid]);
                assert!(!text.contains("invalid data"), "{text}");
            }
        }
        place.assert_gone();
    }
}

#[test]
fn perftest_goes_by_lid() {
    let programs = ["ib_send_lat", "ib_write_bw", "ib_read_lat", "ib_atomic_bw"];
    if !installed(&programs) {
        return;
    }
    for (program, options) in
        programs.iter().zip(["-c UD", "", "", ""]).chain([(&"ib_send_lat", "-c RC")])
    {
        let place = with(&format!("lid-{program}{options}"), &[TWO_PORTS]);
        let both = by_tcp(&place, &format!("{program} -n 100 {options}"));
        both.iter().for_each(|text| assert_has(text, &["Link type       : IB", "LID 0x01"]));
        place.assert_gone();
    }
}

/// Connections and datagrams of the connection manager, and groups, whose GIDs are IPoIB's.
#[test]
fn the_connection_manager_finds_paths() {
    if !installed(&["rping", "udaddy", "mckey"]) {
        return;
    }
    let place = with("paths", &[TWO_PORTS, "rxe1:infiniband"]);
    for address in [LOCALHOST, "198.18.0.2", "198.18.1.1"] {
        let line = format!("-C 10 -v -V -a {address} -p {PORT}");
        let mut server = place.start(&format!("rping -s {line}"));
        server.wait_until(|| place.listens(PORT));
        place.start(&format!("rping -c {line}")).succeed();
        server.succeed();
    }
    let mut server = place.start("udaddy");
    server.wait_until(|| place.listens(7174));
    let client = place.start(&format!("udaddy -s {LOCALHOST}")).succeed();
    [server.succeed(), client].iter().for_each(|text| assert_has(text, &["return status 0"]));
    let line = format!("mckey -m 239.1.1.1 -b {LOCALHOST} -C 10");
    let mut receiver = place.start(&line);
    receiver.wait_until(|| place.objects().iter().any(|object| object.starts_with("qp ")));
    // Datagrams before the receiver has joined are lost, as on any network.
    let joined = ["joined dgid: ff12:4001:ffff::f01:101 mlid 0xc000", "return status 0"];
    let end = Instant::now() + LIMIT;
    while receiver.ends_within(Duration::from_secs(1)).is_none() && Instant::now() < end {
        assert_has(&place.start(&format!("{line} -s")).succeed(), &joined);
    }
    assert_has(&receiver.succeed(), &joined);
    place.assert_gone();
}

/// Nothing gets through until the retries are exhausted; a new pair finds the port again.
#[test]
fn a_pulled_cable_ends_in_retries() {
    if !installed(&["ibv_rc_pingpong"]) {
        return;
    }
    let place = with("cable", &["rxe0:infiniband"]);
    let keeper = place.keep();
    let port_number = tcp::free_port();
    let line = format!("ibv_rc_pingpong -n 100000000 -p {port_number}");
    let mut server = place.start(&line);
    server.wait_until(|| tcp::listens(port_number));
    let mut client = place.start(&format!("{line} {LOCALHOST}"));
    client.wait_until(|| place.objects().iter().filter(|line| line.contains("RTS")).count() == 2);
    assert!(port(&place, "down", "rxe0/1"));
    assert_has(&place.listing(), &["link rxe0/1 state DOWN physical_state Polling"]);
    // Whose turn it is sends in vain; the other one waits for that message.
    assert!(comes_about(LIMIT, || server.has_ended() || client.has_ended()));
    [&mut server, &mut client].iter_mut().for_each(|program| program.kill());
    let text = server.output() + &client.output();
    assert_has(&text, &["transport retry counter exceeded (12)"]);
    assert_has(&place.start("ibv_devinfo").succeed(), &["PORT_DOWN (1)"]);
    assert_has(
        &place.start("cat /sys/class/infiniband/rxe0/ports/1/state").succeed(),
        &["1: DOWN"],
    );
    assert!(port(&place, "up", "rxe0/1"));
    assert_has(&place.start("ibv_devinfo").succeed(), &["PORT_ACTIVE (4)"]);
    by_tcp(&place, "ibv_rc_pingpong -n 100");
    for wrong in ["rxe0/2", "rxe9/1", "rxe0/x"] {
        assert!(!port(&place, "down", wrong), "{wrong}");
    }
    place.end(keeper);
}

/// A subnet manager that finds a port anew has forgotten what was registered with it.
#[test]
fn who_watches_a_port_learns_of_its_cable() {
    if !installed(&["ibv_asyncwatch"]) {
        return;
    }
    // PORT_ERR, CLIENT_REREGISTER, PORT_ACTIVE: releases name them differently.
    for (device, events) in
        [("rxe0", &["(10)", "(9)"][..]), ("rxe0:infiniband", &["(10)", "(17)", "(9)"])]
    {
        let place = with("watch", &[device]);
        let mut watch = place.start("stdbuf -oL ibv_asyncwatch -d rxe0");
        watch.wait_until(|| place.listing().contains("process pid"));
        assert!(comes_about(LIMIT, || watch.output().contains("async event FD")));
        assert!(port(&place, "down", "rxe0/1"));
        assert!(port(&place, "up", "rxe0/1"));
        assert!(comes_about(LIMIT, || watch.output().contains(" (9), port 1\n")));
        let text = watch.output();
        let told: Vec<&str> = text.lines().filter(|line| line.contains("event_type ")).collect();
        assert_eq!(told.len(), events.len(), "{text}");
        for (told, event) in told.iter().zip(events) {
            assert!(told.contains(&format!(" {event}, port 1")), "{text}");
        }
        watch.kill();
        place.assert_gone();
    }
}

/// Each device has its addresses, and messages go from one to the other.
#[test]
fn several_devices() {
    if !installed(&["ibv_devices", "ibv_devinfo", "ibv_rc_pingpong"]) {
        return;
    }
    let place = with("several", &["rxe0", "rxe1", "rxe2:address=10.7.0.1"]);
    assert_has(&place.start("ibv_devices").succeed(), &["rxe0", "rxe1", "rxe2"]);
    let text = place.start("ibv_devinfo -v").succeed();
    assert_has(&text, &["::ffff:198.18.1.1, RoCE v2", "::ffff:10.7.0.1, RoCE v2"]);
    let port = tcp::free_port();
    let line = format!("ibv_rc_pingpong -g 1 -n 300 -c -p {port}");
    let mut server = place.start(&format!("{line} -d rxe1"));
    server.wait_until(|| tcp::listens(port));
    let client = place.start(&format!("{line} -d rxe2 {LOCALHOST}")).succeed();
    assert_has(&client, &["remote address: LID 0x0000", "GID ::ffff:198.18.1.1", "300 iters in "]);
    server.succeed();
    place.assert_gone();
}

/// A program may find some devices only, as if it was on a host of its own: others' addresses are
/// not its own, and it is not found by its peer at them.
#[test]
fn a_program_finds_the_devices_that_it_uses() {
    if !installed(&["ibv_devices", "rping"]) {
        return;
    }
    let place = with("use", &["rxe0", "rxe1"]);
    let keeper = place.keep();
    let on = |device: &str, line: &str| {
        place.start(&format!("{} run --use {device} -- {line}", place.soft_hca().display()))
    };
    let text = on("rxe1", "ibv_devices").succeed();
    assert!(text.contains("rxe1") && !text.contains("rxe0"), "{text}");
    let mut none = on("rxe7", "ibv_devices");
    assert!(!none.wait().success());
    assert_has(&none.output(), &["--use: the fabric has rxe0 rxe1"]);
    let mut server = on("rxe1", &format!("rping -s -C 3 -v -a 0.0.0.0 -p {PORT}"));
    server.wait_until(|| place.listens(PORT));
    let mut client = on("rxe0", &format!("rping -c -C 3 -v -a 198.18.1.1 -p {PORT}"));
    client.succeed();
    server.succeed();
    // Bound to its own device's addresses, it does not hear what is for others.
    let mut server = on("rxe1", &format!("rping -s -C 3 -v -a 0.0.0.0 -p {PORT}"));
    server.wait_until(|| place.listens(PORT));
    assert!(!on("rxe0", &format!("rping -c -C 3 -v -a {LOCALHOST} -p {PORT}")).wait().success());
    server.kill();
    place.end(keeper);
}

/// A cable may be pulled, and plugged in again, so long after a program's start.
#[test]
fn a_fault_pulls_a_cable() {
    let place = with("port-down", &["rxe0", "rxe1"]);
    let keeper = place.keep();
    let with_fault = |fault: &str| {
        let line = format!("{} run --fault {fault} -- true", place.soft_hca().display());
        place.start(&line)
    };
    let is = |state: &str| comes_about(LIMIT, || place.listing().contains(state));
    assert!(is("link rxe1/1 state ACTIVE"), "{}", place.listing());
    with_fault("port-down:device=rxe1").succeed();
    assert!(is("link rxe1/1 state DOWN"), "{}", place.listing());
    assert!(is("link rxe0/1 state ACTIVE"), "{}", place.listing());
    with_fault("port-down:device=rxe1/1,after=1ms,for=1ms").succeed();
    assert!(is("link rxe1/1 state ACTIVE"), "{}", place.listing());
    with_fault("port-down:device=rxe0,after=1us").succeed();
    assert!(is("link rxe0/1 state DOWN"), "{}", place.listing());
    let mut none = with_fault("port-down:device=rxe1/2");
    assert!(!none.wait().success());
    assert_has(&none.output(), &["the fabric has no port rxe1/2"]);
    place.end(keeper);
}

/// A cable is pulled just before a program's hundredth send, or at a time that is drawn from a
/// seed.
#[test]
fn a_fault_pulls_a_cable_at_a_call() {
    if !installed(&["ibv_rc_pingpong"]) {
        return;
    }
    let place = with("port-down-at", &["rxe0", "rxe1"]);
    let keeper = place.keep();
    let run = |fault: &str, line: &str| {
        place.start(&format!("{} run --fault {fault} -- {line}", place.soft_hca().display()))
    };
    let fault = "port-down:device=rxe1,at=ibv_post_send,nth=100";
    for (count, state) in [(99, "ACTIVE"), (100, "DOWN")] {
        let port = tcp::free_port();
        let line = format!("ibv_rc_pingpong -g 1 -n {count} -p {port}");
        let mut server = place.start(&format!("{line} -d rxe1"));
        server.wait_until(|| tcp::listens(port));
        let mut client = run(fault, &format!("{line} -d rxe0 {LOCALHOST}"));
        if count < 100 {
            client.succeed();
            server.succeed();
        } else {
            assert!(!client.wait().success());
            assert_has(&client.output(), &["transport retry counter exceeded (12)"]);
            server.kill();
        }
        assert_has(&place.listing(), &[&format!("link rxe1/1 state {state}")]);
    }
    assert!(port(&place, "up", "rxe1/1"));
    run("port-down:device=rxe1,after=1ms..9ms --fault seed=7", "true").succeed();
    assert!(comes_about(LIMIT, || place.listing().contains("link rxe1/1 state DOWN")));
    let mut none = run("port-down:device=rxe7,at=ibv_post_send", "true");
    assert!(!none.wait().success());
    assert_has(&none.output(), &["the fabric has no port rxe7/1"]);
    place.end(keeper);
}

/// The first program decides.
#[test]
fn who_comes_later_is_told() {
    let place = with("later", &["rxe0:infiniband"]);
    let keeper = place.keep();
    let later = |device: &str| {
        let run = ["run", "--fabric", place.fabric_name(), "--device", device, "--", "true"];
        let output = place.command(&run).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(later("rxe0:infiniband"), "");
    assert_has(&later("rxe0"), &["this fabric runs already, with rxe0:infiniband,ports=1: end"]);
    assert!(comes_about(LIMIT, || place.listing().contains("link rxe0/1 state ACTIVE")));
    place.end(keeper);
}
