//! Speaking to the fabric's daemon.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use soft_hca_core::config::{self, SOCKET};
use soft_hca_core::errno::{Errno, Result};
use soft_hca_core::rpc::{Answer, Connection, Reply, Request};
use soft_hca_core::system;

fn fabric_socket() -> Result<PathBuf> {
    config::fabric_dir_of_program().map(|dir| dir.join(SOCKET)).ok_or(Errno::ENODEV)
}

/// A connection to the fabric, kept out of the program's way.
pub(crate) fn connect() -> Result<Connection> {
    let connection = Connection::connect(&fabric_socket()?).map_err(|error| as_errno(&error))?;
    Ok(Connection::from_fd(system::hide(connection.into_fd())))
}

/// One request and its reply.
pub(crate) fn ask(connection: &Connection, request: &Request) -> Result<(Answer, Vec<OwnedFd>)> {
    connection.send(&request.encode(), &[]).map_err(|_| Errno::EIO)?;
    let (message, fds) = connection.receive().map_err(|_| Errno::EIO)?;
    if message.is_empty() {
        return Err(Errno::EIO);
    }
    let Reply(outcome) = Reply::decode(&message)?;
    outcome.map(|answer| (answer, fds))
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
        assert_eq!(ask(&program, &Request::PopEvent).err(), Some(Errno::EIO));
    }
}
