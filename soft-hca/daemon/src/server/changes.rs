//! Ports and devices that go, and come back, while programs use them.

use std::sync::Arc;

use soft_hca_core::engine::Quiesce;
use soft_hca_core::errno::{Errno, Refusal, Result};
use soft_hca_core::system;
use soft_hca_fault::Plan;

use super::daemon::{Change, Daemon};
use crate::deferred::Deferred;
use crate::device::Device;
use crate::files::{CmHost, File};
use crate::sysfs;
use crate::uverbs::UverbsFile;

impl Daemon {
    /// Has something change after so many nanoseconds. `ENODEV` without such a device, `EINVAL`
    /// without such a port.
    pub(super) fn change(&mut self, what: Change, after_ns: u64) -> Result<()> {
        match what {
            Change::Port { device, number, .. } => {
                self.fabric.present(device)?.port(number)?;
            }
            Change::Device { device, .. } => {
                self.fabric.device(device)?;
            }
        }
        match after_ns {
            0 => self.change_now(what)?,
            _ => self.changes.add(what, system::now_ns().saturating_add(after_ns)),
        }
        Ok(())
    }

    /// Faults of devices that a program's call has brought on, as their specifications say it.
    pub(super) fn device_faults(&mut self, specs: &str) -> Result<()> {
        let Ok(plan) = specs.parse::<Plan>() else { return Ok(()) };
        for fault in plan.devices {
            let is_meant = |device: &Arc<Device>| device.name == fault.device;
            let device = self.fabric.devices.iter().position(is_meant);
            let device = device.ok_or(Errno::ENODEV.because(Refusal::NoSuchDevice))?;
            let what = |is_well| match fault.port {
                Some(number) => Change::Port { device, number, is_up: is_well },
                None => Change::Device { device, is_there: is_well },
            };
            let begin_ns = fault.after.least().ns;
            self.change(what(false), begin_ns)?;
            if let Some(lasts) = fault.lasts {
                self.change(what(true), begin_ns + lasts.ns.max(1))?;
            }
        }
        Ok(())
    }

    /// Runs the changes that are due.
    pub(super) fn run_changes(&mut self, now: u64) {
        for what in self.changes.due(now) {
            if let Err(error) = self.change_now(what) {
                let reason = error.reason().map_or(String::new(), |reason| format!(", {reason}"));
                tracing::warn!("{what:?} does not come about: {error:?}{reason}");
            }
        }
    }

    fn change_now(&mut self, what: Change) -> Result<()> {
        match what {
            Change::Port { device, number, is_up } => self.set_port(device, number, is_up),
            Change::Device { device, is_there } => self.set_device(device, is_there),
        }
    }

    /// A port goes down or comes up, and all who have opened its device learn of it.
    fn set_port(&mut self, device: usize, number: u8, is_up: bool) -> Result<()> {
        self.fabric.present(device)?;
        let Some(changed) = self.fabric.set_port(device, number, is_up)? else { return Ok(()) };
        let word = if is_up { "up" } else { "down" };
        tracing::info!("port {number} of {} is {word}", changed.name);
        sysfs::port_changed(&self.dir, &changed, number);
        let events = changed.port(number)?.events(is_up);
        let of_device = |file: &&mut UverbsFile| !file.is_removed() && file.device.index == device;
        for file in self.files.uverbs_mut().filter(of_device) {
            file.device = Arc::clone(&changed);
            for event in events {
                self.fabric.trace_port_event(file.proc, *event, &changed, Some(number));
                file.queue_async(None, number.into(), *event);
            }
        }
        Ok(())
    }

    /// A device is removed, and all who have opened it or are bound to it learn of that
    /// (`ib_unregister_device`), or it comes back.
    fn set_device(&mut self, device: usize, is_there: bool) -> Result<()> {
        if !self.fabric.set_device(device, is_there)? {
            return Ok(());
        }
        let known = Arc::clone(self.fabric.device(device)?);
        let word = if is_there { "back" } else { "removed" };
        tracing::info!("device {} is {word}", known.name);
        if let Err(error) = sysfs::device_changed(&self.dir, &known, is_there) {
            tracing::warn!("cannot change the files of {}: {error}", known.name);
        }
        if is_there {
            self.adopt_counters();
            return Ok(());
        }
        let mut host = CmHost { fabric: &mut self.fabric };
        self.cm.remove_device(&mut host, device, system::now_ns());
        for token in self.files.of_device(device) {
            if let Some(File::Uverbs { file, .. }) = self.files.get_mut(token) {
                file.begin_removal();
                if let Some(unfinished) = self.remove_from(token, None) {
                    self.deferred.add(unfinished, None, system::now_ns());
                }
            }
        }
        Ok(())
    }

    /// Removes what a device that is removed had for a file, and then tells the program.
    pub(super) fn remove_from(&mut self, token: u32, quiesce: Option<Quiesce>) -> Option<Deferred> {
        let Some(File::Uverbs { file, .. }) = self.files.get_mut(token) else { return None };
        let mut used = match quiesce {
            None if file.destroy_removed(&mut self.fabric).is_err() => {
                return Some(Deferred::Remove(token, None));
            }
            None => self.fabric.quiesce(file.proc, None),
            used => used,
        };
        if used.as_mut().is_some_and(|quiesce| !self.fabric.actor().is_quiet(quiesce)) {
            return Some(Deferred::Remove(token, used));
        }
        file.end_removal(&self.fabric);
        None
    }

    /// A tree of sysfs was written that has all as it was in the beginning.
    pub(super) fn bring_in_line(&self) -> std::io::Result<()> {
        for (index, device) in self.fabric.devices.iter().enumerate() {
            if self.fabric.is_removed(index) {
                sysfs::device_changed(&self.dir, device, false)?;
            }
            for port in device.ports.iter().filter(|port| !port.is_up()) {
                sysfs::port_changed(&self.dir, device, port.number);
            }
        }
        Ok(())
    }
}
