//! perftest in a fabric: each test with the exchange of addresses by TCP and, with `-R`, by the
//! connection manager. See `stock.rs` about programs that are not installed.

use programs::place::Place;
use programs::{LOCALHOST, installed, perftest, tcp};

/// Runs one program with several lists of options, each with and without `-R`.
fn run(program: &str, lists: &[&str]) {
    if !installed(&[program]) {
        return;
    }
    let place = Place::new(program);
    for options in lists {
        pair(&place, program, &format!("-x 1 {options}"), false);
        pair(&place, program, &format!("-R {options}"), true);
    }
    place.assert_gone();
}

fn pair(place: &Place, program: &str, options: &str, is_by_cm: bool) {
    let port = tcp::free_port();
    let line = perftest::line(program, port, options);
    let mut server = place.start(&line);
    server.wait_until(|| if is_by_cm { place.listens(port) } else { tcp::listens(port) });
    let text = place.start(&format!("{line} {LOCALHOST}")).succeed();
    server.succeed();
    perftest::assert_results(options, &text);
}

#[test]
fn send_latency() {
    run("ib_send_lat", &["", "-e", "-c UD"]);
}

#[test]
fn send_bandwidth() {
    run("ib_send_bw", &["", "-e -s 4096", "-c UD -s 512", "-s 1000000"]);
}

#[test]
fn unreliable_connections() {
    if !installed(&["ib_send_lat", "ib_write_bw"]) {
        return;
    }
    let place = Place::new("uc");
    // The connection manager only makes reliable ones here.
    pair(&place, "ib_send_lat", "-x 1 -c UC", false);
    pair(&place, "ib_write_bw", "-x 1 -c UC", false);
    place.assert_gone();
}

#[test]
fn write_latency() {
    run("ib_write_lat", &["", "-s 4096"]);
}

#[test]
fn write_bandwidth() {
    run("ib_write_bw", &["", "-q 4 -b", "-D 1"]);
}

/// All sizes from 2 bytes to 8 MiB.
#[test]
fn write_bandwidth_of_all_sizes() {
    if !installed(&["ib_write_bw"]) {
        return;
    }
    let place = Place::new("all-sizes");
    pair(&place, "ib_write_bw", "-x 1 -a", false);
    place.assert_gone();
}

#[test]
fn read_latency() {
    run("ib_read_lat", &["", "-D 1"]);
}

#[test]
fn read_bandwidth() {
    run("ib_read_bw", &["", "-s 4096 -q 2"]);
}

#[test]
fn atomic_latency() {
    run("ib_atomic_lat", &["", "-A CMP_AND_SWAP"]);
}

#[test]
fn atomic_bandwidth() {
    run("ib_atomic_bw", &["", "-A CMP_AND_SWAP"]);
}

#[test]
fn shared_receive_queue() {
    if !installed(&["ib_send_bw"]) {
        return;
    }
    let place = Place::new("perftest-srq");
    pair(&place, "ib_send_bw", "-x 1 -q 3 --use-srq", false);
    place.assert_gone();
}
