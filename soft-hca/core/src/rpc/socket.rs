//! Connections and the passing of file descriptors.
#![allow(unsafe_code, reason = "packets with descriptors, which the standard library cannot send")]

use std::ffi::c_void;
use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use crate::system::check;

/// Time without an answer after which a client says that there is none.
pub const PATIENCE: Duration = Duration::from_secs(1);

/// File descriptors that one message may carry.
pub const MAX_FDS: usize = 16;

/// Bytes that one message may have. The longest are listings.
const MAX_MESSAGE: usize = 128 * 1024;

/// Bytes of a control message that carries as many descriptors.
// SAFETY: computes a number.
const CONTROL: usize = unsafe { libc::CMSG_SPACE((MAX_FDS * size_of::<RawFd>()) as u32) } as usize;

/// Room for the control message that carries descriptors, aligned as its header has to be.
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

/// One end of a connection.
#[derive(Debug)]
pub struct Connection {
    /// Its socket.
    pub fd: OwnedFd,
}

/// Where the daemon waits for connections.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
}

fn socket() -> io::Result<OwnedFd> {
    // The system call itself: a program's `socket` may be ours, which looks at each call.
    // SAFETY: creates a descriptor that is nobody else's.
    let fd = unsafe {
        libc::syscall(libc::SYS_socket, libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0)
    };
    let fd = check(fd as libc::c_int)?;
    // SAFETY: created above.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets how long a call on a socket may wait; zero means for ever.
fn set_limit(fd: &OwnedFd, option: libc::c_int, limit: Duration) -> io::Result<()> {
    let limit = libc::timeval {
        tv_sec: limit.as_secs() as libc::time_t,
        tv_usec: limit.subsec_micros().into(),
    };
    // SAFETY: a socket of ours, and a structure of the length given.
    let set = unsafe {
        let length = size_of_val(&limit) as libc::socklen_t;
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const limit).cast(),
            length,
        )
    };
    check(set).map(drop)
}

fn address(path: &Path) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    // SAFETY: all zeros is a valid address structure.
    let mut address: libc::sockaddr_un = unsafe { mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() >= address.sun_path.len() {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    for (to, &from) in address.sun_path.iter_mut().zip(bytes) {
        *to = from as libc::c_char;
    }
    Ok((address, size_of::<libc::sockaddr_un>() as libc::socklen_t))
}

impl Listener {
    /// Listens at a path, which must not exist.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let fd = socket()?;
        let (address, length) = address(path)?;
        // SAFETY: the address is valid for the length given.
        check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) })?;
        // SAFETY: our own socket.
        check(unsafe { libc::listen(fd.as_raw_fd(), 128) })?;
        Ok(Self { fd })
    }

    /// The next connection, from a process of the same user only; others are turned away
    /// (`EPERM`). The daemon never waits for a client: its end does not block.
    pub fn accept(&self) -> io::Result<Connection> {
        // SAFETY: nobody wants the peer's address.
        let fd = check(unsafe {
            libc::accept4(
                self.fd.as_raw_fd(),
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK,
            )
        })?;
        // SAFETY: created above.
        let connection = Connection { fd: unsafe { OwnedFd::from_raw_fd(fd) } };
        let (_, uid) = connection.peer()?;
        // SAFETY: has no preconditions.
        if uid != unsafe { libc::geteuid() } {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
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
        let (address, length) = address(path)?;
        set_limit(&fd, libc::SO_RCVTIMEO, PATIENCE)?;
        set_limit(&fd, libc::SO_SNDTIMEO, PATIENCE)?;
        // SAFETY: the address is valid for the length given.
        check(unsafe { libc::connect(fd.as_raw_fd(), (&raw const address).cast(), length) })?;
        set_limit(&fd, libc::SO_SNDTIMEO, Duration::ZERO)?;
        Ok(Self { fd })
    }

    /// Both ends of a connection within this process, neither of which blocks.
    pub fn pair() -> io::Result<(Self, Self)> {
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let mut fds = [-1; 2];
        // SAFETY: there is room for two descriptors.
        check(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) })?;
        // SAFETY: created above, and nobody else's.
        let [one, other] = fds.map(|fd| Self { fd: unsafe { OwnedFd::from_raw_fd(fd) } });
        Ok((one, other))
    }

    /// Takes over a connected socket.
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self { fd }
    }

    /// The descriptor, given away.
    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }

    /// Process and user at the other end, as they were when it connected.
    pub fn peer(&self) -> io::Result<(u32, u32)> {
        let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut length = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: the structure is writable for the length given.
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
        assert!(fds.len() <= MAX_FDS, "so many are never passed");
        let mut part = libc::iovec {
            iov_base: message.as_ptr().cast_mut().cast::<c_void>(),
            iov_len: message.len(),
        };
        let mut control = Control([0; CONTROL]);
        // SAFETY: all zeros is an empty message header.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        if !fds.is_empty() {
            let bytes = size_of_val(fds) as u32;
            header.msg_control = control.0.as_mut_ptr().cast();
            // SAFETY: pure arithmetic.
            header.msg_controllen = unsafe { libc::CMSG_SPACE(bytes) } as usize;
            // SAFETY: the control buffer is aligned and has room for one header.
            let first = unsafe { &mut *libc::CMSG_FIRSTHDR(&header) };
            first.cmsg_level = libc::SOL_SOCKET;
            first.cmsg_type = libc::SCM_RIGHTS;
            // SAFETY: pure arithmetic.
            first.cmsg_len = unsafe { libc::CMSG_LEN(bytes) } as usize;
            for (i, fd) in fds.iter().enumerate() {
                // SAFETY: there is room for MAX_FDS descriptors behind the header.
                unsafe {
                    libc::CMSG_DATA(first).cast::<RawFd>().add(i).write_unaligned(fd.as_raw_fd());
                }
            }
        }
        loop {
            // SAFETY: the header describes memory that lives through the call.
            let sent = unsafe { libc::sendmsg(self.fd.as_raw_fd(), &header, libc::MSG_NOSIGNAL) };
            if sent >= 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }

    /// The next message and the descriptors that came with it. An empty message means that the
    /// other end has gone. Messages that it sent before are received first.
    pub fn receive(&self) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
        let mut message = vec![0; MAX_MESSAGE];
        let mut part =
            libc::iovec { iov_base: message.as_mut_ptr().cast(), iov_len: message.len() };
        let mut control = MaybeUninit::<Control>::zeroed();
        // SAFETY: all zeros is an empty message header.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of::<Control>();
        let received = loop {
            // SAFETY: the header describes writable memory that lives through the call.
            let received =
                unsafe { libc::recvmsg(self.fd.as_raw_fd(), &mut header, libc::MSG_CMSG_CLOEXEC) };
            if received >= 0 {
                break received as usize;
            }
            let error = io::Error::last_os_error();
            // The system reports once that the other end has closed without having read all.
            let goes_on = [io::ErrorKind::Interrupted, io::ErrorKind::ConnectionReset];
            if !goes_on.contains(&error.kind()) {
                return Err(error);
            }
        };
        message.truncate(received);
        Ok((message, passed_fds(&header)))
    }
}

/// The descriptors that a received message carries.
fn passed_fds(header: &libc::msghdr) -> Vec<OwnedFd> {
    let mut fds = Vec::new();
    // SAFETY: the kernel has filled the control buffer as the header says.
    let mut control = unsafe { libc::CMSG_FIRSTHDR(header) };
    // SAFETY: null, or within the control buffer.
    while let Some(first) = unsafe { control.as_ref() } {
        if first.cmsg_level == libc::SOL_SOCKET && first.cmsg_type == libc::SCM_RIGHTS {
            // SAFETY: pure arithmetic.
            let bytes = first.cmsg_len - unsafe { libc::CMSG_LEN(0) } as usize;
            for i in 0..bytes / size_of::<RawFd>() {
                // SAFETY: so many descriptors follow the header, and they are ours now.
                fds.push(unsafe {
                    let fd = libc::CMSG_DATA(first).cast::<RawFd>().add(i).read_unaligned();
                    OwnedFd::from_raw_fd(fd)
                });
            }
        }
        // SAFETY: `control` is a header within the control buffer.
        control = unsafe { libc::CMSG_NXTHDR(header, control) };
    }
    fds
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
