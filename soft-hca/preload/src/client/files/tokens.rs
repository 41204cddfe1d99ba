//! Descriptors by which a program waits for events: completion events, the connection manager's, asynchronous ones.
//!
//! Each event has a token in an event descriptor, which the program does not see. The program has an epoll instance,
//! which contains the event descriptor and a connection to the daemon: it is readable while there are tokens, and when
//! the daemon is gone, as the kernel then closes the connection's other end. So a program learns of that however it
//! waits, without a thread or a signal that it has not asked for.
#![allow(unsafe_code, reason = "epoll instances")]

use std::ffi::{c_int, c_long};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

use soft_hca_core::errno::Result;
use soft_hca_core::system::check;

use crate::client::daemon::{self, as_errno};

/// The number of epoll instances that one connection may be in. The kernel limits the paths from a file to the
/// instances that watch it to 500 of length two (`fs/eventpoll.c`), and programs add our instance to one of their own.
const MOST: usize = 64;

/// Connections that hang up when the daemon is gone, for the channels of a device file.
#[derive(Debug)]
pub(crate) struct Lines(Mutex<Vec<Arc<OwnedFd>>>);

impl Lines {
    /// The connections of a device file that has only its own.
    pub(crate) fn new(own: OwnedFd) -> Self {
        Self(Mutex::new(vec![Arc::new(own)]))
    }

    /// The device file's own connection.
    pub(crate) fn own(&self) -> Arc<OwnedFd> {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&lines[0])
    }

    /// A connection with room for another channel, which keeps it as long as it lives.
    pub(crate) fn with_room(&self) -> Result<Arc<OwnedFd>> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // One of the counts is that of the list.
        if let Some(line) = lines.iter().find(|line| Arc::strong_count(line) <= MOST) {
            return Ok(Arc::clone(line));
        }
        let line = Arc::new(daemon::observe()?.into_fd());
        lines.push(Arc::clone(&line));
        Ok(line)
    }
}

/// A descriptor for the program, with the lowest free number: an epoll instance, or the event descriptor where the
/// kernel refuses one, as under a filter.
pub(crate) fn for_program(
    [tokens, line]: [BorrowedFd<'_>; 2],
    close_on_exec: bool,
    nonblocking: bool,
) -> Result<RawFd> {
    let made = match instance(tokens, line, close_on_exec) {
        Some(made) => made,
        None => duplicate(tokens, close_on_exec)?,
    };
    if nonblocking {
        // SAFETY: sets a flag of our own open file.
        unsafe { libc::fcntl(made, libc::F_SETFL, libc::O_NONBLOCK) };
    }
    Ok(made)
}

/// Another descriptor of an open file, which the program owns, with the lowest free number.
pub(crate) fn duplicate(fd: BorrowedFd<'_>, close_on_exec: bool) -> Result<RawFd> {
    let command = if close_on_exec { libc::F_DUPFD_CLOEXEC } else { libc::F_DUPFD };
    // SAFETY: takes numbers only, and the descriptor is open as long as it is borrowed.
    let made = check(unsafe { libc::fcntl(fd.as_raw_fd(), command, 0) });
    made.map_err(|error| as_errno(&error))
}

/// `epoll_ctl(2)`. All these are bare system calls: a function of that name may be librspreload's, which calls us with its
/// lock taken, or ours, which looks into the table.
///
/// # Safety
///
/// `event` is null or points to an event, as far as the operation needs one.
unsafe fn control(
    set: RawFd,
    operation: c_int,
    fd: RawFd,
    event: *mut libc::epoll_event,
) -> c_long {
    // SAFETY: the caller says so.
    unsafe { libc::syscall(libc::SYS_epoll_ctl, set, operation, fd, event) }
}

fn instance(tokens: BorrowedFd<'_>, line: BorrowedFd<'_>, close_on_exec: bool) -> Option<RawFd> {
    let flags = if close_on_exec { libc::EPOLL_CLOEXEC } else { 0 };
    // SAFETY: the call takes flags and creates a descriptor, nothing else.
    let made = unsafe { libc::syscall(libc::SYS_epoll_create1, flags) };
    let made = check(made as c_int).ok()?;
    let readable = libc::EPOLLIN as u32;
    // EPOLLHUP is reported without being asked for.
    for (fd, events) in [(tokens, readable), (line, 0)] {
        let mut event = libc::epoll_event { events, u64: 0 };
        // SAFETY: descriptors of ours, and a structure that the call reads.
        let added = unsafe { control(made, libc::EPOLL_CTL_ADD, fd.as_raw_fd(), &raw mut event) };
        if added != 0 {
            // SAFETY: made above, and nobody else has it.
            unsafe { libc::syscall(libc::SYS_close, made) };
            return None;
        }
    }
    Some(made)
}

/// Removes the connection from the program's epoll instance when the last event was read, so that it is not readable.
pub(crate) fn hang_up(of_program: RawFd, line: &OwnedFd) {
    // SAFETY: the call fails if the connection is not there, or the descriptor is no epoll instance.
    unsafe { control(of_program, libc::EPOLL_CTL_DEL, line.as_raw_fd(), ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::{AsFd, FromRawFd};
    use std::os::unix::net::UnixStream;

    use soft_hca_core::system;

    use super::*;

    fn is_readable(fd: &OwnedFd) -> bool {
        let mut entry = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: `entry` outlives the call, which is told that it is one.
        unsafe { libc::poll(&raw mut entry, 1, 0) == 1 && entry.revents & libc::POLLIN != 0 }
    }

    #[test]
    fn readable_by_a_token_or_without_a_daemon() {
        let (tokens, mut writer) = UnixStream::pair().unwrap();
        let (line, daemon) = UnixStream::pair().unwrap();
        let line = OwnedFd::from(line);
        let fd = for_program([tokens.as_fd(), line.as_fd()], true, false).unwrap();
        // SAFETY: made above, and nobody else has it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        assert!(!is_readable(&fd));
        writer.write_all(b"1").unwrap();
        assert!(is_readable(&fd));
        std::io::Read::read_exact(&mut &tokens, &mut [0]).unwrap();
        (&daemon).write_all(b"an answer").unwrap();
        assert!(!is_readable(&fd) && !system::has_hung_up(&line));
        drop(daemon);
        assert!(is_readable(&fd) && system::has_hung_up(&line));
        hang_up(fd.as_raw_fd(), &line);
        assert!(!is_readable(&fd));
    }

    #[test]
    fn a_line_has_room_for_some() {
        let (line, _daemon) = UnixStream::pair().unwrap();
        let lines = Lines::new(line.into());
        let held: Vec<_> = (0..MOST).map(|_| lines.with_room().unwrap()).collect();
        // There is no daemon to connect to.
        assert!(lines.with_room().is_err());
        drop(held);
        assert!(lines.with_room().is_ok());
    }
}
