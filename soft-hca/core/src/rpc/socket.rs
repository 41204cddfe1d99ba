//! Connections and the passing of file descriptors.
//!
//! The calls are made by [`rustix`], which asks the kernel itself: they reach no function of the C library that a
//! program, or this library, has replaced, and a thread cannot be cancelled in them.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::cmsg_space;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

use crate::system::{check, user};

/// Time without an answer after which a client says that there is none.
pub const PATIENCE: Duration = Duration::from_secs(1);

/// File descriptors that one message may carry.
pub const MAX_FDS: usize = 16;

/// Bytes of a message that are received; a longer one has lost its end, and so is none.
const MAX_MESSAGE: usize = 128 * 1024;

/// Bytes for the control message that carries so many descriptors.
const CONTROL: usize = cmsg_space!(ScmRights(MAX_FDS));

/// One end of a connection.
#[derive(Debug)]
pub struct Connection {
    /// Its socket.
    pub fd: OwnedFd,
}

/// The daemon's socket, which takes connections.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
}

fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    Ok(net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

impl Listener {
    /// Listens at a path, which must not exist.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let fd = socket()?;
        net::bind(&fd, &SocketAddrUnix::new(path)?)?;
        net::listen(&fd, 128)?;
        Ok(Self { fd })
    }

    /// The next connection, from a process of the same user only; others are turned away
    /// (`EPERM`). The daemon never waits for a client: its end does not block.
    pub fn accept(&self) -> io::Result<Connection> {
        let fd = net::accept_with(&self.fd, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
        let connection = Connection { fd };
        let (_, uid) = connection.peer()?;
        if uid != user() {
            return Err(Errno::PERM.into());
        }
        Ok(connection)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Connection {
    /// Connects to a listener. The call fails with `WouldBlock` after [`PATIENCE`] if the listener
    /// takes no more connections at present, and so does [`Connection::receive`] if nothing comes.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let fd = socket()?;
        set_socket_timeout(&fd, Timeout::Recv, Some(PATIENCE))?;
        set_socket_timeout(&fd, Timeout::Send, Some(PATIENCE))?;
        net::connect(&fd, &SocketAddrUnix::new(path)?)?;
        set_socket_timeout(&fd, Timeout::Send, None)?;
        Ok(Self { fd })
    }

    /// Both ends of a connection within this process, neither of which blocks.
    pub fn pair() -> io::Result<(Self, Self)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (one, other) =
            net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        Ok((Self { fd: one }, Self { fd: other }))
    }

    /// Takes over a connected socket.
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self { fd }
    }

    /// The descriptor, given away.
    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }

    /// Process and user at the other end, as they were when it connected. The process is 0 if this one's PID
    /// namespace does not have it, for which `rustix` has no value.
    #[allow(unsafe_code, reason = "an option of sockets")]
    pub fn peer(&self) -> io::Result<(u32, u32)> {
        let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut length = size_of_val(&peer) as libc::socklen_t;
        // SAFETY: the kernel writes to the two borrowed variables and nowhere else, to the first no more than
        // `length` says, which is its size; any numbers are a valid `ucred`.
        check(unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut peer).cast(),
                &mut length,
            )
        })?;
        Ok((peer.pid as u32, peer.uid))
    }

    /// Sends one message with descriptors. Waits until there is room; a peer that has gone is an
    /// error (`EPIPE`), never a signal.
    pub fn send(&self, message: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut memory = [MaybeUninit::uninit(); CONTROL];
        let mut control = SendAncillaryBuffer::new(&mut memory);
        assert!(fds.len() <= MAX_FDS, "no message carries more descriptors");
        if !fds.is_empty() {
            let has_room = control.push(SendAncillaryMessage::ScmRights(fds));
            debug_assert!(has_room, "there is memory for MAX_FDS descriptors");
        }
        let message = [IoSlice::new(message)];
        let send = || net::sendmsg(&self.fd, &message, &mut control, SendFlags::NOSIGNAL);
        retry_on_intr(send)?;
        Ok(())
    }

    /// The next message and the descriptors that came with it. An empty message means that the
    /// other end has gone. Messages that it sent before are received first.
    pub fn receive(&self) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
        let mut message = vec![0; MAX_MESSAGE];
        let mut memory = [MaybeUninit::uninit(); CONTROL];
        let mut control = RecvAncillaryBuffer::new(&mut memory);
        let received = loop {
            let part = &mut [IoSliceMut::new(&mut message)];
            match net::recvmsg(&self.fd, part, &mut control, RecvFlags::CMSG_CLOEXEC) {
                // The system reports once that the other end has closed without having read all.
                Err(Errno::INTR | Errno::CONNRESET) => {}
                received => break received?,
            }
        };
        message.truncate(received.bytes);
        let fds = control.drain().filter_map(|carried| match carried {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        });
        Ok((message, fds.flatten().collect()))
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
