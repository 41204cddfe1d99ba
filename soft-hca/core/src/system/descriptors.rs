//! Pipes, and descriptors that a program has without knowing.
#![allow(unsafe_code, reason = "numbers of descriptors")]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

use super::check;

/// Descriptors that a program is to keep without knowing it get numbers from here on, so that
/// those it opens itself start where they always do.
const HIDDEN_FROM: libc::c_int = 600;

/// Moves a descriptor out of the way of those that the program opens, if there is room.
pub fn hide(fd: OwnedFd) -> OwnedFd {
    // SAFETY: a new descriptor of the same open file, which is nobody else's.
    match check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, HIDDEN_FROM) }) {
        // SAFETY: `fcntl` has created it above, and nobody else has it.
        Ok(high) => unsafe { OwnedFd::from_raw_fd(high) },
        Err(_) => fd,
    }
}

/// Whether the other end of a connection is closed.
pub fn has_hung_up(fd: &OwnedFd) -> bool {
    let mut entry = libc::pollfd { fd: fd.as_raw_fd(), events: 0, revents: 0 };
    // SAFETY: `entry` outlives the call, which is told that it is one.
    unsafe { libc::poll(&raw mut entry, 1, 0) == 1 }
}

/// Keeps a file open in the program that this process is about to become. Returns its number there.
pub fn keep_across_exec(fd: OwnedFd) -> io::Result<RawFd> {
    let fd = hide(fd).into_raw_fd();
    // SAFETY: changes a flag of a descriptor that is deliberately left open.
    check(unsafe { libc::fcntl(fd, libc::F_SETFD, 0) }).map(|_| fd)
}

/// A new pipe: the end to read from and the end to write to.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [-1; 2];
    // SAFETY: there is room for both descriptors.
    check(unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) })?;
    // SAFETY: `pipe2` has created them above, and nobody else has them.
    let [reader, writer] = fds.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    Ok((reader, writer))
}
