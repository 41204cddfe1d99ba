//! UDP between two hosts: the figures that the link's are compared with.
#![allow(unsafe_code, reason = "options of sockets")]

use std::io::{self, ErrorKind::WouldBlock};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::{Duration, Instant};

use crate::baseline::{median_of, time};
use crate::child::{Fork, Shared};
use crate::error::{Result, cannot};
use crate::hosts::Hosts;

/// Bytes of the packet that carries a send of 8 bytes: BTH, payload, ICRC.
const SMALL: usize = 12 + 8 + 4;
/// Bytes of payload of a packet on an Ethernet with an MTU of 1500.
const PAYLOAD: usize = 1024;
/// The same with BTH and ICRC.
const LARGE: usize = 12 + PAYLOAD + 4;
/// As many packets as one message of UDP has room for.
const SEGMENTS: usize = 65_507 / LARGE;
/// How long a stream is measured.
const STREAM: Duration = Duration::from_millis(400);
/// A packet that does not come in this time has been lost.
const LOST: Duration = Duration::from_secs(5);

/// One set of figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Udp {
    /// One way, both sides polling, in microseconds.
    pub polled: f64,
    /// The same where each packet has another one before it, as a send's acknowledgement goes before
    /// the answer.
    pub acknowledged: f64,
    /// One way, both sides blocking, in microseconds.
    pub blocked: f64,
    /// MiB of payload in a second that are received.
    pub stream: f64,
}

/// Measures all of them.
pub fn measure(hosts: &Hosts) -> Result<Udp> {
    Ok(Udp {
        polled: ping_pong(hosts, true, 1)?,
        acknowledged: ping_pong(hosts, true, 2)?,
        blocked: ping_pong(hosts, false, 1)?,
        stream: stream(hosts)?,
    })
}

/// Sets an option, if the system has it. Whether it has.
fn set(socket: &UdpSocket, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> bool {
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    let value = (&raw const value).cast();
    // SAFETY: the value lives through the call and is as long as said.
    unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value, length) == 0 }
}

/// Receives so many packets; polls if the socket does not block.
fn receive(socket: &UdpSocket, buffer: &mut [u8], mut packets: u32) -> bool {
    while packets > 0 {
        match socket.recv(buffer) {
            Ok(_) => packets -= 1,
            Err(error) if error.kind() == WouldBlock => std::hint::spin_loop(),
            Err(_) => return false,
        }
    }
    true
}

fn send(socket: &UdpSocket, buffer: &[u8], to: SocketAddr, packets: u32) -> io::Result<()> {
    (0..packets).try_for_each(|_| socket.send_to(buffer, to).map(drop))
}

/// Each side answers so many packets with as many.
fn ping_pong(hosts: &Hosts, polls: bool, packets: u32) -> Result<f64> {
    let [a, b] = hosts.sockets()?;
    let fails = cannot("use a UDP socket");
    let (to_a, to_b) = (a.local_addr().map_err(&fails)?, b.local_addr().map_err(&fails)?);
    for socket in [&a, &b] {
        socket.set_nonblocking(polls).map_err(&fails)?;
        // As the link's sockets.
        set(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE);
    }
    let _peer = Fork::start(None, || {
        let mut buffer = [0; SMALL];
        // Ends by a signal.
        while receive(&b, &mut buffer, packets) && send(&b, &buffer, to_a, packets).is_ok() {}
    })?;
    if !polls {
        a.set_read_timeout(Some(LOST)).map_err(&fails)?;
    }
    let mut buffer = [0; SMALL];
    let mut outcome = Ok(());
    let mut turn = || {
        outcome = send(&a, &buffer, to_b, packets);
        receive(&a, &mut buffer, packets)
    };
    time(100, &mut turn);
    let (batches, turns) = if polls { (200, 50) } else { (2000, 1) };
    let median = median_of(batches, || time(turns, &mut turn)) / 2.0;
    outcome.map_err(fails)?;
    Ok(median)
}

fn stream(hosts: &Hosts) -> Result<f64> {
    let [a, b] = hosts.sockets()?;
    let fails = cannot("use a UDP socket");
    let to = b.local_addr().map_err(&fails)?;
    b.set_read_timeout(Some(LOST)).map_err(&fails)?;
    // Where the kernel has neither, packets go and come one by one.
    let cuts = set(&a, libc::SOL_UDP, libc::UDP_SEGMENT, LARGE as libc::c_int);
    set(&b, libc::SOL_UDP, libc::UDP_GRO, 1);
    set(&b, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 4 << 20);
    let message = vec![7; if cuts { SEGMENTS } else { 1 } * LARGE];
    let shared = Shared::new()?;
    let go = shared.word(0);
    let _sender = Fork::start(None, || {
        while go.load(Acquire) == 0 {
            std::hint::spin_loop();
        }
        // Ends by a signal; what there is no room for is lost.
        loop {
            let _ = a.send_to(&message, to);
        }
    })?;
    let mut buffer = vec![0; 1 << 16];
    go.store(1, Release);
    let (mut received, mut begin, mut is_warm) = (0, Instant::now(), false);
    loop {
        received += b.recv(&mut buffer).map_err(&fails)?;
        let elapsed = begin.elapsed();
        if !is_warm && elapsed > STREAM / 4 {
            (received, begin, is_warm) = (0, Instant::now(), true);
        } else if is_warm && elapsed > STREAM {
            let payload = received as f64 * PAYLOAD as f64 / LARGE as f64;
            return Ok(payload / f64::from(1 << 20) / elapsed.as_secs_f64());
        }
    }
}
