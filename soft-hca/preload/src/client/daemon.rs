//! Speaking to the fabric's daemon.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use soft_hca_core::config::{self, SOCKET};
use soft_hca_core::errno::{Errno, Refusal, Result};
use soft_hca_core::rpc::{Answer, Connection, FileKind, Hello, Reply, Request, Silence};
use soft_hca_core::system;

use crate::client::stderr::say;

fn fabric_socket() -> Result<PathBuf> {
    config::fabric_dir_of_program().map(|dir| dir.join(SOCKET)).ok_or(Errno::ENODEV)
}

/// A connection to the fabric, kept out of the program's way.
pub(crate) fn connect() -> Result<Connection> {
    let socket = fabric_socket()?;
    let connection = patiently(None, || Connection::connect(&socket));
    let connection = connection.map_err(|error| as_errno(&error))?;
    Ok(Connection::from_fd(system::hide(connection.into_fd())))
}

/// Repeats a call until the daemon answers it. If that takes too long, the program says once what it waits for.
fn patiently<T>(
    connection: Option<&Connection>,
    mut what: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    static IS_SAID: AtomicBool = AtomicBool::new(false);
    let silence = Silence::begin();
    loop {
        match what() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            done => return done,
        }
        let why = silence.why(connection).filter(|_| !IS_SAID.swap(true, Relaxed));
        if let Some(why) = why {
            say(&format!("this program waits for the fabric {}: {why}", fabric_name()));
        }
    }
}

fn fabric_name() -> String {
    let fabric = config::fabric_dir_of_program().unwrap_or_default();
    fabric.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// A connection that opens nothing.
pub(crate) fn observe() -> Result<Connection> {
    let connection = connect()?;
    let hello = Hello { kind: FileKind::Observer, nonce_addr: 0, nonce: 0 };
    ask(&connection, &Request::Hello(hello))?;
    Ok(connection)
}

/// The reason why a command gets no answer.
const GONE: Errno = Errno::EIO.because(Refusal::DaemonGone);

/// The error after the daemon has gone, as if its devices had been removed; the program says so once.
#[cold]
pub(crate) fn gone() -> Errno {
    static IS_SAID: AtomicBool = AtomicBool::new(false);
    if !IS_SAID.swap(true, Relaxed) {
        say(&format!("the daemon of the fabric {} is gone, and so are its devices", fabric_name()));
    }
    GONE
}

/// Whether a command was refused because the daemon is gone.
pub(crate) fn is_gone(error: Errno) -> bool {
    error.reason() == GONE.reason()
}

/// One request and its reply.
pub(crate) fn ask(connection: &Connection, request: &Request) -> Result<(Answer, Vec<OwnedFd>)> {
    // Messages that the daemon sent before it closed its end can still be read.
    let sent = connection.send(&request.encode(), &[]);
    let received = patiently(Some(connection), || connection.receive());
    let (message, fds) = received.map_err(|_| gone())?;
    if message.is_empty() {
        return Err(gone());
    }
    let Reply(outcome) = Reply::decode(&message)?;
    let answer = outcome?;
    sent.map(|()| (answer, fds)).map_err(|_| gone())
}

pub(crate) fn as_errno(error: &io::Error) -> Errno {
    Errno::new(error.raw_os_error().unwrap_or(libc::EIO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_that_is_gone() {
        let (program, daemon) = Connection::pair().unwrap();
        drop(daemon);
        let error = ask(&program, &Request::PopEvent).err();
        assert!(error.is_some_and(is_gone));
    }
}
