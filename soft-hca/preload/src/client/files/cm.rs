//! An opened connection manager device.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use soft_hca_core::rpc::Connection;

use crate::client::process::{Opened, Process};

/// An opened rdma_cm device. Its descriptor is readable while there are events.
#[derive(Debug)]
pub(crate) struct CmFile {
    connection: Mutex<Connection>,
    pub(crate) process: &'static Process,
    /// The daemon's number for the file.
    pub(crate) token: u32,
    /// The files that make the program's descriptor readable.
    _sources: [OwnedFd; 2],
}

impl CmFile {
    pub(crate) fn new(opened: Opened) -> Self {
        let Opened { connection, process, token, tokens, line, .. } = opened;
        Self { connection: Mutex::new(connection), process, token, _sources: [tokens, line] }
    }

    /// The connection to the daemon, for one request at a time.
    pub(crate) fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
