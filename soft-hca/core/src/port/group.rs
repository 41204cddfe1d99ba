//! Sockets that share the port of an address. The system gives each packet to the one whose lease of the
//! port its queue pair belongs to, and needs no privilege for that (`SO_REUSEPORT`, `socket(7)`).
#![allow(unsafe_code, reason = "an option of sockets with a pointer in it")]

use std::io;
use std::net::{IpAddr, UdpSocket};

use soft_hca_roce::wire::bth;

use super::socket::{Socket, reuse, set_option};
use crate::arena::{FIRST_QPN, MAX_QPS, PORT_LEASE_QPS, PORT_LEASES};

/// Where BTH has the destination's queue pair: in the low three bytes of the word here.
const DEST_QP: u32 = 4;

/// The program that gives the lease of a packet's queue pair, by its number and where numbers begin
/// ([`Arena::qpn_base`](crate::arena::Arena::qpn_base)); the first one's for what is no program's.
fn chooser(base: u32) -> [libc::sock_filter; 8] {
    let [load, and, subtract, divide] = [
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        libc::BPF_ALU | libc::BPF_AND | libc::BPF_K,
        libc::BPF_ALU | libc::BPF_SUB | libc::BPF_K,
        libc::BPF_ALU | libc::BPF_DIV | libc::BPF_K,
    ];
    let [is_at_least, give, give_lease] = [
        libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K,
        libc::BPF_RET | libc::BPF_K,
        libc::BPF_RET | 0x10,
    ];
    let step = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let is_program = libc::sock_filter { jt: 1, ..step(is_at_least, FIRST_QPN) };
    [
        step(load, DEST_QP),
        step(and, bth::MULTICAST_QPN.get()),
        is_program,
        step(give, 0),
        step(subtract, FIRST_QPN.wrapping_add(base)),
        step(and, MAX_QPS as u32 - 1),
        step(divide, PORT_LEASE_QPS as u32),
        step(give_lease, 0),
    ]
}

impl Socket {
    /// Binds an own address as [`Socket::bind`], so often that each lease of the port has a socket. Only
    /// the first one if the system lets no sockets share a port, or does not choose among them.
    pub fn bind_leases(
        address: IpAddr,
        interface: u32,
        loops: bool,
        base: u32,
    ) -> io::Result<Vec<Self>> {
        // Alone, so that nobody else has the port; and from then on with others of this process.
        let first = Self::bind(address, interface, loops)?;
        let shared = first.share(base, || Self::bind_beside(address, interface, loops));
        Ok(shared.unwrap_or_else(|(first, error)| {
            tracing::info!(%address, "the port has one socket: {error}");
            vec![first]
        }))
    }

    fn share(
        self,
        base: u32,
        another: impl Fn() -> io::Result<Self>,
    ) -> Result<Vec<Self>, (Self, io::Error)> {
        if let Err(error) = reuse(self.as_udp()) {
            return Err((self, error));
        }
        let others: io::Result<Vec<Self>> = (1..PORT_LEASES).map(|_| another()).collect();
        let chosen = others.and_then(|others| choose(self.as_udp(), base).map(|()| others));
        match chosen {
            Ok(others) => Ok(std::iter::once(self).chain(others).collect()),
            Err(error) => Err((self, error)),
        }
    }
}

fn choose(socket: &UdpSocket, base: u32) -> io::Result<()> {
    let mut steps = chooser(base);
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, &Program(program))
}

/// The option's value.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Program(#[allow(dead_code, reason = "the system reads it")] libc::sock_fprog);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::{lease_of, qpn};
    use crate::port::socket::Inbox;
    use std::net::SocketAddr;

    #[test]
    fn each_packet_comes_to_the_socket_of_its_lease() {
        let address: IpAddr = "127.7.92.1".parse().unwrap();
        for base in [0, 777, MAX_QPS as u32 - 1] {
            let sockets = Socket::bind_leases(address, 0, false, base).unwrap();
            assert_eq!(sockets.len(), PORT_LEASES, "the system lets sockets share a port");
            assert!(Socket::bind(address, 0, false).is_err(), "it is nobody else's");
            let sender = UdpSocket::bind((address, 0)).unwrap();
            let of_programs =
                [0, 1, 511, 512, 5000, 16383].map(|index| (qpn(index, 3, base), lease_of(index)));
            for (number, lease) in [(1, 0), (0, 0)].into_iter().chain(of_programs) {
                let mut packet = [0xff; 64];
                packet[5..8].copy_from_slice(&number.to_be_bytes()[1..]);
                let to = SocketAddr::from((address, soft_hca_roce::wire::packet::PORT));
                sender.send_to(&packet, to).unwrap();
                let mut inbox = Inbox::new();
                let has = |socket: &Socket, inbox: &mut Inbox| socket.receive(inbox).is_ok();
                let found = sockets.iter().position(|socket| has(socket, &mut inbox));
                assert_eq!(found, Some(lease), "{number} with {base}");
            }
        }
    }
}
