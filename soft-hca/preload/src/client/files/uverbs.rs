//! An opened uverbs device.

use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use soft_hca_core::engine::CqSet;
use soft_hca_core::rpc::Connection;

use crate::client::files::handles::Handles;
use crate::client::files::on_demand::OnDemand;
use crate::client::files::regions::Regions;
use crate::client::files::tokens::Lines;
use crate::client::functions::{PollCq, Slot};
use crate::client::process::{Opened, Process};

/// An opened uverbs device: the daemon has its objects, this knows the way to them.
#[derive(Debug)]
pub(crate) struct UverbsFile {
    // The regions are dropped before the connection: other regions may get their keys once it is closed.
    pub(crate) regions: Regions,
    /// Channels have it as well, but do not keep it open.
    pub(crate) connection: Arc<Mutex<Connection>>,
    pub(crate) process: &'static Process,
    /// Number of the device file.
    pub(crate) device: u32,
    /// The event descriptor, with a token for each asynchronous event.
    pub(crate) tokens: OwnedFd,
    /// The connections that hang up when the daemon is gone.
    pub(crate) lines: Lines,
    /// Whether the program was told that the daemon is gone.
    pub(crate) is_told: AtomicBool,
    pub(crate) handles: Handles,
    /// The completion queues, for the copies that are staged for them.
    pub(crate) own_cqs: RwLock<CqSet>,
    pub(crate) on_demand: RwLock<OnDemand>,
    /// The function of the context by which queues are polled, once that is hooked.
    pub(crate) own_poll: Slot<PollCq>,
}

impl UverbsFile {
    /// The device file with a number, as it was opened, and the arena's descriptor, from which the provider maps rings.
    pub(crate) fn new(device: u32, opened: Opened) -> (Self, OwnedFd) {
        let Opened { connection, process, arena_fd, tokens, line, .. } = opened;
        let file = Self {
            regions: Regions::of(process),
            connection: Arc::new(Mutex::new(connection)),
            process,
            device,
            tokens,
            lines: Lines::new(line),
            is_told: AtomicBool::new(false),
            handles: Handles::default(),
            own_cqs: RwLock::default(),
            on_demand: RwLock::default(),
            own_poll: Slot::empty(),
        };
        (file, arena_fd)
    }

    /// The connection to the daemon, for one request at a time.
    pub(crate) fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops the file in a child of `fork`, except for the tables, as another thread of its parent may have been
    /// changing them.
    pub(crate) fn leave_to_parent(self) {
        std::mem::forget(self.handles);
    }
}
