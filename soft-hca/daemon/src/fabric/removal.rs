//! Devices that are removed, and what stays of the objects of those who use them.

use std::sync::Arc;
use std::sync::atomic::Ordering::Release;

use soft_hca_core::errno::{Errno, Refusal, Result, ensure};

use super::{Fabric, RingOf};
use crate::device::Device;

/// The error of commands to a device that is removed.
pub(crate) const REMOVED: Errno = Errno::EIO.because(Refusal::DeviceRemoved);

impl Fabric {
    /// Whether a device of the fabric is removed.
    pub(crate) fn is_removed(&self, device: usize) -> bool {
        self.absent.contains_key(&device)
    }

    /// The device at a place, or `ENODEV`.
    pub(crate) fn device(&self, device: usize) -> Result<&Arc<Device>> {
        self.devices.get(device).ok_or(Errno::ENODEV.because(Refusal::NoSuchDevice))
    }

    /// The same, and it is not removed.
    pub(crate) fn present(&self, device: usize) -> Result<&Arc<Device>> {
        let known = self.device(device)?;
        ensure(!self.is_removed(device), Errno::ENODEV.because(Refusal::DeviceRemoved))?;
        Ok(known)
    }

    /// A device is removed, or comes back as it was: nothing leads to its ports any more, or all
    /// does again. False if it is so already, `ENODEV` if there is no such device.
    pub(crate) fn set_device(&mut self, device: usize, is_there: bool) -> Result<bool> {
        let known = self.devices.get_mut(device).ok_or(Errno::ENODEV)?;
        match (self.absent.remove(&device), is_there) {
            (None, true) => return Ok(false),
            (None, false) => {
                let ports = std::mem::take(&mut Arc::make_mut(known).ports);
                self.absent.insert(device, ports);
            }
            (Some(ports), true) => Arc::make_mut(known).ports = ports,
            (Some(ports), false) => {
                self.absent.insert(device, ports);
                return Ok(false);
            }
        }
        // Migrations of the removed device's own queue pairs end with them.
        self.follow_ports(|object| object.device != device)?;
        Ok(true)
    }

    /// A program keeps a ring of an object, which it has mapped, until it closes its file.
    pub(crate) fn keep_ring(&mut self, file: u32, of: RingOf) {
        self.rings.retire(file, of);
    }

    /// Frees the rings that a file has kept.
    pub(crate) fn release_kept_rings(&mut self, file: u32) {
        for place in self.rings.take_retired(file) {
            self.release_ring(&place);
        }
    }

    /// Nothing comes to a completion channel any more, and who waits there is woken. The program
    /// may still have it open.
    pub(crate) fn shut_channel(&self, index: usize) {
        self.arena.channels[index].live.store(0, Release);
        self.env.wake_all(index);
    }
}
