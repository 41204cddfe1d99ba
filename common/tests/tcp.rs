//! The TCP side channel between two threads. It has a program of its own: between `fork` and `exec` a child that
//! another test starts holds a copy of a listener here, so that nobody else can listen at its address.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::thread;
use std::time::{Duration, Instant};

use common::sync::{Socket, accept_one, close, connect, exchange, part};
use socket2::{Domain, SockAddr, Type};

const MESSAGE: [u8; 10] = *b"0123456789";
const ANSWER: [u8; 10] = *b"abcdefghij";

/// The address 127.0.0.`host`, each test has its own, with a port that was free just now.
fn free_address(host: u8) -> SockAddr {
    let ip = Ipv4Addr::new(127, 0, 0, host);
    let probe = TcpListener::bind((ip, 0)).unwrap();
    SocketAddrV4::new(ip, probe.local_addr().unwrap().port()).into()
}

/// Connects as soon as somebody listens.
fn connect_when_ready(address: &SockAddr) -> Socket {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match connect(address) {
            Ok(socket) => return socket,
            Err(error) if Instant::now() > deadline => panic!("{error:?}"),
            Err(_) => thread::sleep(Duration::from_millis(1)),
        }
    }
}

#[test]
fn both_sides_over_tcp_again_and_again() {
    let address = free_address(2);
    // The server closes first, so that its port keeps a connection in TIME_WAIT.
    for _ in 0..3 {
        thread::scope(|scope| {
            let server = scope.spawn(|| {
                let socket = accept_one(&address).unwrap();
                let answer = exchange(&socket, &ANSWER).unwrap();
                close(socket).unwrap();
                answer
            });
            let client = connect_when_ready(&address);
            assert_eq!(exchange(&client, &MESSAGE).unwrap(), ANSWER);
            assert_eq!((&client).read(&mut [0]).unwrap(), 0);
            assert_eq!(server.join().unwrap(), MESSAGE);
        });
    }
}

#[test]
fn the_port_is_free_for_any_program_once_both_have_parted() {
    let address = free_address(5);
    for _ in 0..3 {
        thread::scope(|scope| {
            let server = scope.spawn(|| {
                let socket = accept_one(&address).unwrap();
                part(&socket, false);
                close(socket).unwrap();
            });
            let client = connect_when_ready(&address);
            part(&client, true);
            // the server has closed, too
            assert_eq!((&client).read(&mut [0]).unwrap(), 0);
            server.join().unwrap();
        });
        // as a C program binds
        let other = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        other.bind(&address).unwrap();
    }
}

#[test]
fn nobody_else_may_listen_at_the_same_time() {
    let address = free_address(3);
    let taken = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    taken.set_reuse_address(true).unwrap();
    taken.bind(&address).unwrap();
    taken.listen(1).unwrap();
    let error = accept_one(&address).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EADDRINUSE));
}

#[test]
fn nobody_listens() {
    let error = connect(&free_address(4)).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ECONNREFUSED));
}
