//! Programs for TCP sockets over the rsockets of the newest rdma-core, which have epoll(7): Redis and
//! memcached. No socket listens for TCP meanwhile, so all goes over the device.
//!
//! `conformance/newer --release forky` brings the programs.

use std::fs::{self, File};

use programs::place::Place;
use programs::program::Program;
use programs::{LOCALHOST, installed, tcp};

/// A port of the connection manager: each fabric has its own.
const PORT: u16 = 7471;

/// Starts a program with rsockets for TCP.
fn start(place: &Place, line: &str) -> Program {
    place.start_in(line, |command| command.env("SOFT_HCA_RSOCKETS", "1"))
}

/// The same with input from a file.
fn start_with(place: &Place, line: &str, input: &str) -> Program {
    let input = File::open(place.file(input)).unwrap();
    place.start_in(line, |command| command.env("SOFT_HCA_RSOCKETS", "1").stdin(input))
}

/// Starts a server, which listens for RDMA and not for TCP.
fn serve(place: &Place, line: &str) -> Program {
    let mut server = start(place, line);
    server.wait_until(|| place.listens(PORT));
    assert!(!tcp::listens(PORT), "{line} listens for TCP");
    server
}

/// Lines of text, as many bytes as that at least.
fn lines(bytes: usize) -> String {
    let mut text = String::new();
    for number in 0.. {
        if text.len() >= bytes {
            break;
        }
        text += &format!("{number}\n");
    }
    text
}

#[test]
#[ignore = "conformance/newer --release forky brings what it runs"]
fn redis() {
    if !installed(&["redis-server", "redis-cli"]) {
        return;
    }
    let place = Place::new("redis");
    let options = format!("--bind {LOCALHOST} --save --dir {}", place.file("").display());
    let mut server = serve(&place, &format!("redis-server --port {PORT} {options}"));
    for (key, bytes) in [("small", 8), ("middle", 4096), ("large", 1 << 20)] {
        let value = lines(bytes);
        fs::write(place.file(key), &value).unwrap();
        let client = format!("redis-cli -h {LOCALHOST} -p {PORT}");
        let set = start_with(&place, &format!("{client} -x set {key}"), key).succeed();
        assert_eq!(set, "OK\n");
        let got = start(&place, &format!("{client} --raw get {key}")).succeed();
        assert!(got.trim_end() == value.trim_end(), "{key}: the copy differs");
    }
    // A client that asks it to shut down would wait for ever: rsockets do not watch what has connected with blocking.
    server.kill();
    place.assert_gone();
}

#[test]
#[ignore = "conformance/newer --release forky brings what it runs"]
fn memcached() {
    if !installed(&["memcached", "nc.traditional"]) {
        return;
    }
    let place = Place::new("memcached");
    let mut server = serve(&place, &format!("memcached -u root -l {LOCALHOST} -p {PORT} -t 2"));
    let value = lines(100_000);
    let orders = format!("set key 0 0 {}\r\n{value}\r\nget key\r\nquit\r\n", value.len());
    fs::write(place.file("orders"), orders).unwrap();
    let client = format!("nc.traditional -q 2 {LOCALHOST} {PORT}");
    let text = start_with(&place, &client, "orders").succeed();
    let expected = format!("STORED\r\nVALUE key 0 {}\r\n{value}\r\nEND\r\n", value.len());
    assert!(text == expected, "{} bytes, not {}", text.len(), expected.len());
    server.kill();
    place.assert_gone();
}
