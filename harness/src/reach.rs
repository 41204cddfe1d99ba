//! Whether datagrams pass between two hosts by RoCE's port, before anything else uses it. RoCE's
//! packets have a checksum over their addresses, so these must not be translated on the way.
//!
//! One host answers, the other asks. Their findings are a line on standard output, a word and
//! addresses: see [`Found`].

use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

/// UDP port of RoCE v2.
const PORT: u16 = 4791;
/// Bytes that make up a question and begin an answer: no RoCE packet, whose first byte would be
/// an operation code that nobody has.
const QUESTION: &[u8] = b"\xffharness reaches? ";
/// How often a question is asked.
const AGAIN: Duration = Duration::from_millis(200);

/// A finding about a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// It can answer, at this address.
    Answers(IpAddr),
    /// It was asked, by this address.
    Asked(IpAddr),
    /// This address has got an answer.
    Reached(IpAddr),
    /// This address got no answer.
    Silent(IpAddr),
    /// The first address is another one, the second, where the packet arrives.
    Translated(IpAddr, IpAddr),
    /// Somebody else has the port of this address.
    Taken(IpAddr),
    /// This is no address of the host.
    Foreign(IpAddr),
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Found::Answers(own) => write!(f, "answers {own}"),
            Found::Asked(peer) => write!(f, "asked {peer}"),
            Found::Reached(own) => write!(f, "reached {own}"),
            Found::Silent(own) => write!(f, "silent {own}"),
            Found::Translated(own, seen) => write!(f, "translated {own} {seen}"),
            Found::Taken(own) => write!(f, "taken {own}"),
            Found::Foreign(own) => write!(f, "foreign {own}"),
        }
    }
}

/// Answers at an address of this host until standard input ends.
pub fn answer(own: IpAddr) -> io::Result<()> {
    let socket = match bind(own, PORT)? {
        Ok(socket) => socket,
        Err(found) => return say(found),
    };
    say(Found::Answers(own))?;
    thread::spawn(move || {
        let mut asked = None;
        let mut buffer = [0; 64];
        loop {
            let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
            if buffer[..length] != *QUESTION {
                continue;
            }
            if asked.replace(from) != Some(from) {
                // Nobody to tell: then it will be over soon.
                let _ = say(Found::Asked(from.ip()));
            }
            let text = [QUESTION, from.ip().to_string().as_bytes()].concat();
            let _ = socket.send_to(&text, from);
        }
    });
    io::copy(&mut io::stdin().lock(), &mut io::sink()).map(drop)
}

/// Asks the host at an address, by the own address that leads there if none is said.
pub fn ask(own: Option<IpAddr>, peer: IpAddr, limit: Duration) -> io::Result<()> {
    say(asked((own, PORT), (peer, PORT).into(), limit)?)
}

fn asked(
    (own, port): (Option<IpAddr>, u16),
    peer: SocketAddr,
    limit: Duration,
) -> io::Result<Found> {
    let own = match own {
        Some(own) => own,
        None => way_to(peer)?,
    };
    let socket = match bind(own, port)? {
        Ok(socket) => socket,
        Err(found) => return Ok(found),
    };
    socket.set_read_timeout(Some(AGAIN))?;
    let end = Instant::now() + limit;
    let mut buffer = [0; 128];
    while Instant::now() < end {
        // A firewall of our own may refuse it; that is no answer, too.
        let _ = socket.send_to(QUESTION, peer);
        let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
        let seen = buffer[..length].strip_prefix(QUESTION);
        let seen = seen.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
        match seen {
            Some(seen) if seen != own => return Ok(Found::Translated(own, seen)),
            Some(_) if from.ip() != peer.ip() => {
                return Ok(Found::Translated(peer.ip(), from.ip()));
            }
            Some(_) => return Ok(Found::Reached(own)),
            None => {}
        }
    }
    Ok(Found::Silent(own))
}

/// The own address with which packets to `peer` leave.
fn way_to(peer: SocketAddr) -> io::Result<IpAddr> {
    let any: IpAddr = match peer {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(peer)?;
    Ok(socket.local_addr()?.ip())
}

fn bind(own: IpAddr, port: u16) -> io::Result<Result<UdpSocket, Found>> {
    match UdpSocket::bind((own, port)) {
        Ok(socket) => Ok(Ok(socket)),
        Err(error) if error.kind() == ErrorKind::AddrInUse => Ok(Err(Found::Taken(own))),
        Err(error) if error.kind() == ErrorKind::AddrNotAvailable => Ok(Err(Found::Foreign(own))),
        Err(error) => Err(error),
    }
}

fn say(found: Found) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{found}").and_then(|()| out.flush())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    /// A host that takes the asker for `seen`.
    fn host(seen: &str) -> SocketAddr {
        let socket = UdpSocket::bind((HERE, 0)).unwrap();
        let address = socket.local_addr().unwrap();
        let answer = [QUESTION, seen.as_bytes()].concat();
        thread::spawn(move || {
            let (_, from) = socket.recv_from(&mut [0; 64]).unwrap();
            socket.send_to(b"\x04a packet of somebody else", from).unwrap();
            socket.send_to(&answer, from).unwrap();
        });
        address
    }

    #[test]
    fn an_answer_tells_what_happens_on_the_way() {
        let long = Duration::from_secs(60);
        let ask = |peer, limit| asked((None, 0), peer, limit).unwrap();
        assert_eq!(ask(host("127.0.0.1"), long), Found::Reached(HERE));
        let other = "192.0.2.1".parse().unwrap();
        assert_eq!(ask(host("192.0.2.1"), long), Found::Translated(HERE, other));
        let silent = UdpSocket::bind((HERE, 0)).unwrap();
        let nobody = silent.local_addr().unwrap();
        assert_eq!(ask(nobody, AGAIN), Found::Silent(HERE));
        let taken = asked((None, nobody.port()), nobody, long).unwrap();
        assert_eq!(taken, Found::Taken(HERE));
        let foreign = asked((Some(other), 0), nobody, long).unwrap();
        assert_eq!(
            (foreign, foreign.to_string().as_str()),
            (Found::Foreign(other), "foreign 192.0.2.1")
        );
    }
}
