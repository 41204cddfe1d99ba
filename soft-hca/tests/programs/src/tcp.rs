//! Ports of the ordinary kind: perftest and the ping-pongs exchange addresses through one.

use std::fs;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// A port that is nobody's now, below those that the system gives out by itself, and another one
/// for each call.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = std::process::id() as u16 % 256 * 48;
    for _ in 0..12_000 {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 20_000 + start.wrapping_add(step) % 12_000;
        if TcpListener::bind(("0.0.0.0", port)).is_ok() {
            return port;
        }
    }
    panic!("no port is free");
}

/// Whether somebody listens at a port. Trying to connect would be taken for a peer.
pub fn listens(port: u16) -> bool {
    listens_near(std::process::id(), port)
}

/// The same in the network of a process.
pub fn listens_near(pid: u32, port: u16) -> bool {
    const LISTEN: &str = "0A";
    ["tcp", "tcp6"].iter().any(|file| {
        let end = format!(":{port:04X}");
        let table = fs::read_to_string(format!("/proc/{pid}/net/{file}")).unwrap_or_default();
        table.lines().any(|line| {
            let mut words = line.split_whitespace().skip(1);
            let is_port = words.next().is_some_and(|local| local.ends_with(&end));
            is_port && words.nth(1) == Some(LISTEN)
        })
    })
}
