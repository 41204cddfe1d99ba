//! The memory regions of an opened device, if its process's memory is closed: the process itself
//! enters them for the threads that copy there (`engine::registry`).

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::thread;

use soft_hca_core::engine::{Registered, Registry};
use soft_hca_core::errno::{Errno, Result};
use soft_hca_core::uapi::uverbs::{Command, answer, command, request};
use zerocopy::FromBytes;

use crate::client::process::Process;

/// The regions of a device file.
#[derive(Debug)]
pub(crate) struct Regions {
    process: &'static Process,
    /// Keys by handle.
    keys: Mutex<HashMap<u32, u32>>,
}

impl Regions {
    /// The regions of a device that was just opened: none.
    pub(crate) fn of(process: &'static Process) -> Self {
        Self { process, keys: Mutex::default() }
    }

    /// Takes note of a command that was done, before the program learns of it. No copy uses memory that is
    /// deregistered when this returns.
    pub(crate) fn note(&self, command: &Command<'_>, answer: &[u8]) -> Result<()> {
        let Some(registry) = self.process.registry() else { return Ok(()) };
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        match command.number {
            command::REG_MR => {
                let request::RegMr { start, length, access_flags, .. } = command.request()?;
                let made = answer::RegMr::read_from_bytes(answer).map_err(|_| Errno::EIO)?;
                let proc = self.process.index;
                let region = Registered { proc, addr: start, length, access: access_flags };
                registry.register(made.lkey, region);
                keys.insert(made.mr_handle, made.lkey);
            }
            command::DEREG_MR => {
                let key = keys.remove(&command.request::<request::DeregMr>()?.mr_handle);
                key.into_iter().for_each(|key| retire(registry, key));
            }
            _ => {}
        }
        Ok(())
    }
}

impl Drop for Regions {
    fn drop(&mut self) {
        // A child of `fork` has a copy, in which a thread of its parent may have held the locks.
        if !self.process.is_current() {
            return;
        }
        let Some(registry) = self.process.registry() else { return };
        let keys = self.keys.get_mut().unwrap_or_else(PoisonError::into_inner);
        keys.drain().for_each(|(_, key)| retire(registry, key));
    }
}

/// Deregisters memory, and waits for copies that use it, each of a bounce buffer's bytes at most.
fn retire(registry: &Registry, key: u32) {
    let Some(mut retired) = registry.deregister(key) else { return };
    while !retired.is_unused() {
        thread::yield_now();
    }
}
