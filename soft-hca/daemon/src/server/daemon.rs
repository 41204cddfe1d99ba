//! The daemon as it is between two events.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use soft_hca_core::deadlines::Deadlines;

use crate::counter_files::CounterFiles;
use crate::deferred::DeferredCommands;
use crate::device::Device;
use crate::fabric::Fabric;
use crate::files::Files;
use crate::poller::{Poller, Ready};
use crate::reserve::Reserve;
use crate::ucma;

use super::put_off::PutOff;

/// Why a daemon could not start or go on.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
pub struct Error {
    what: String,
    source: io::Error,
}

pub(super) fn because(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    |source| Error { what: what.into(), source }
}

/// The state that changes while the daemon runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Change {
    /// A port's cable is pulled, or plugged in again.
    Port { device: usize, number: u8, is_up: bool },
    /// A device is removed, or comes back.
    Device { device: usize, is_there: bool },
}

pub(crate) struct Daemon {
    pub(super) poller: Poller<Ready>,
    /// The fabric's folder.
    pub(super) dir: PathBuf,
    pub(crate) fabric: Fabric,
    pub(crate) files: Files,
    pub(crate) cm: ucma::Cm,
    /// Queue pairs whose send queues are to be run again.
    pub(super) rescheduled: Deadlines<u32>,
    /// Things put off for strict programs.
    pub(super) put_off: PutOff,
    /// Channels, index and generation, that somebody who has died may owe a token.
    pub(super) missing_tokens: Deadlines<(u32, u32)>,
    /// Commands that wait for a lock.
    pub(super) deferred: DeferredCommands,
    /// Changes of ports and devices that are to come.
    pub(super) changes: Deadlines<Change>,
    /// The files of counters; none before the daemon runs.
    pub(super) counters: Option<CounterFiles>,
    /// Queue pairs in the error state. A process that puts one there reschedules it.
    pub(super) failed: BTreeSet<u32>,
    pub(super) next_sweep_ns: u64,
    /// The connection for which the fabric is recorded.
    pub(super) recorder: Option<u32>,
    /// Number of the last recording.
    pub(super) recordings: u32,
    /// A descriptor for clients that connect when no other is left.
    pub(super) reserve: Reserve,
    /// Whether the last client was turned away, and that was logged.
    pub(super) is_full: bool,
    /// Somebody has been here; with the last one the daemon ends.
    pub(super) has_served: bool,
}

impl Daemon {
    pub(crate) fn new(
        devices: Vec<Arc<Device>>,
        random: fn() -> u64,
    ) -> std::result::Result<Self, Error> {
        let fabric = Fabric::new(devices, random).map_err(because("cannot create the arena"))?;
        Ok(Self {
            poller: Poller::new().map_err(because("cannot wait for events"))?,
            dir: PathBuf::new(),
            files: Files::default(),
            cm: ucma::Cm::new(Arc::clone(&fabric.env.clock)),
            fabric,
            rescheduled: Deadlines::default(),
            put_off: PutOff::default(),
            missing_tokens: Deadlines::default(),
            deferred: DeferredCommands::default(),
            changes: Deadlines::default(),
            counters: None,
            failed: BTreeSet::new(),
            next_sweep_ns: 0,
            recorder: None,
            recordings: 0,
            reserve: Reserve::new().map_err(because("cannot keep a descriptor in reserve"))?,
            is_full: false,
            has_served: false,
        })
    }

    /// From now on files of counters have their values when they are opened.
    pub(super) fn start_counters(&mut self) -> std::result::Result<(), Error> {
        let counters = CounterFiles::new().and_then(|counters| {
            self.poller.add(counters.notices(), Ready::Counters)?;
            Ok(counters)
        });
        self.counters = Some(counters.map_err(because("cannot wait for readers of counters"))?);
        self.adopt_counters();
        Ok(())
    }

    /// Writes the files of counters of devices that have none yet.
    pub(super) fn adopt_counters(&mut self) {
        if let Some(counters) = &mut self.counters {
            counters.adopt(&self.dir, &self.fabric);
        }
    }
}
