//! The TCP side channel by which two programs tell each other what a queue pair has to know of
//! its peer, and wait for each other.
//!
//! Everything here blocks, as in C, and goes on after an interruption by a signal (`EINTR`).

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::IntoRawFd;
use std::{fmt, ptr};

pub use socket2::Socket;
use socket2::{Domain, Protocol, SockAddr, SockAddrStorage, Type};

use crate::addrinfo::AddrInfo;

/// Connections that may wait to be accepted. There is one peer.
const BACKLOG: i32 = 1;

/// The half of an [`exchange`] that failed.
#[derive(Debug)]
pub enum ExchangeError {
    /// `write(2)`: not all of our data could be sent.
    Write(io::Error),
    /// `read(2)`: the connection broke, or the peer closed it (`UnexpectedEof`) before all of its
    /// data had come.
    Read(io::Error),
}

impl fmt::Display for ExchangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Write(_) => "cannot send to the peer",
            Self::Read(_) => "cannot receive from the peer",
        })
    }
}

impl std::error::Error for ExchangeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Write(error) | Self::Read(error) => Some(error),
        }
    }
}

/// The socket addresses of a list, in the order in which they are to be tried.
pub fn addresses(list: &AddrInfo) -> impl Iterator<Item = SockAddr> {
    list.iter().filter_map(|entry| {
        let mut storage = SockAddrStorage::zeroed();
        if entry.ai_addrlen > storage.size_of() {
            return None;
        }
        let (from, to) = (entry.ai_addr.cast::<u8>(), ptr::from_mut(&mut storage).cast());
        // SAFETY: the list holds `ai_addrlen` bytes at `ai_addr`, and that many fit.
        unsafe { ptr::copy_nonoverlapping(from, to, entry.ai_addrlen as usize) };
        // SAFETY: the storage holds a whole socket address of that length.
        Some(unsafe { SockAddr::new(storage, entry.ai_addrlen) })
    })
}

/// Connects to a listener.
pub fn connect(address: &SockAddr) -> io::Result<Socket> {
    let socket = tcp_socket(address)?;
    match uninterrupted(|| socket.connect(address)) {
        // An interrupted connect goes on by itself: the next call waits, or finds it done.
        Err(error) if error.raw_os_error() != Some(libc::EISCONN) => Err(error),
        _ => Ok(socket),
    }
}

/// Listens at an address and takes the first connection; nobody listens there afterwards.
///
/// `SO_REUSEADDR`: a connection of an earlier server that still lingers there ([`part`] tells why)
/// does not matter, if that server had set it, too. It does not let two listen at the same time.
pub fn accept_one(address: &SockAddr) -> io::Result<Socket> {
    let listener = tcp_socket(address)?;
    listener.set_reuse_address(true)?;
    listener.bind(address)?;
    listener.listen(BACKLOG)?;
    uninterrupted(|| listener.accept()).map(|(socket, _)| socket)
}

/// Sends `local` and receives as many bytes from the peer, who does the same at this point.
///
/// TCP is a stream of bytes: both directions may come in pieces of any size. An end of the
/// stream before all has come is an error.
pub fn exchange<const N: usize>(
    mut stream: impl Read + Write,
    local: &[u8; N],
) -> Result<[u8; N], ExchangeError> {
    stream.write_all(local).map_err(ExchangeError::Write)?;
    let mut remote = [0; N];
    stream.read_exact(&mut remote).map_err(ExchangeError::Read)?;
    Ok(remote)
}

/// Parts from the other side once both need nothing more of each other: the client ends the stream, and
/// the server waits for that.
///
/// The side that ends a TCP connection first keeps its address and port for a minute (`TIME_WAIT`). At the
/// client nobody wants that port. At the server it is the one where the next server is to listen,
/// and a program that does not set `SO_REUSEADDR` (no C program here does) could not.
pub fn part(mut socket: &Socket, client_side: bool) {
    // a peer that is gone has ended the stream as well
    if client_side {
        let _ = socket.shutdown(Shutdown::Write);
    } else {
        let _ = uninterrupted(|| socket.read(&mut [0]));
    }
}

/// Closes a connection and says whether that went well, which dropping it does not.
pub fn close(socket: Socket) -> io::Result<()> {
    // SAFETY: the socket has given its descriptor up, so that it is closed only here.
    if unsafe { libc::close(socket.into_raw_fd()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn tcp_socket(address: &SockAddr) -> io::Result<Socket> {
    let domain = Domain::from(i32::from(address.family()));
    Socket::new(domain, Type::STREAM, Some(Protocol::TCP))
}

/// Repeats a system call as long as signals interrupt it.
fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests;
