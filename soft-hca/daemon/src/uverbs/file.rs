//! An opened device, what its commands are given, and what they give back.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use soft_hca_core::engine::Quiesce;
use soft_hca_core::errno::Result;
use soft_hca_core::rpc::Created;
use soft_hca_core::uapi::uverbs::answer::AsyncEventDesc;

use super::object::{self, Handles, Kind};
use crate::device::Device;
use crate::fabric::Fabric;

/// Asynchronous events that may wait in a file. The kernel has no such limit.
const MAX_WAITING: usize = 0x4000;

/// An opened device: a context with its objects.
#[derive(Debug)]
pub(crate) struct UverbsFile {
    /// Index of the process in the arena.
    pub proc: usize,
    /// This file's own number.
    pub id: u32,
    /// The device that was opened.
    pub device: Arc<Device>,
    /// GET_CONTEXT has been done.
    pub has_context: bool,
    /// The objects by their handles.
    pub handles: Handles,
    /// Completion channels that were created through this file.
    pub channels: Vec<usize>,
    /// Asynchronous events that are not yet read: the object's handle (none for port events) and
    /// the record.
    pub async_events: VecDeque<(Option<u32>, AsyncEventDesc)>,
    /// Asynchronous events of each object that were read.
    pub async_reported: HashMap<u32, u32>,
    /// The program's remaining objects, if the device has been removed.
    pub(super) removed: Option<Removed>,
}

/// A program's remaining objects of a device that has been removed.
#[derive(Debug)]
pub(super) struct Removed {
    /// The kinds of the objects that it has not destroyed, by handle.
    pub kinds: BTreeMap<u32, Kind>,
    /// All that the device had for the file is gone.
    pub is_done: bool,
}

/// The result of a handler: the answer, objects that it has created for the client, a descriptor.
#[derive(Debug, Default)]
pub(crate) struct Outcome<A> {
    pub answer: A,
    pub created: Option<Created>,
    pub fd: Option<OwnedFd>,
    /// A process that may still be using memory which the answer says is free.
    pub quiesce: Option<Quiesce>,
}

impl<A> From<A> for Outcome<A> {
    fn from(answer: A) -> Self {
        Self { answer, created: None, fd: None, quiesce: None }
    }
}

impl<A> Outcome<A> {
    /// With what the client has to know of a new object.
    pub(crate) fn with_created(self, created: Created) -> Self {
        Self { created: Some(created), ..self }
    }
}

/// The context of a handler, beside its request.
pub(crate) struct Context<'a> {
    pub fabric: &'a mut Fabric,
    pub file: &'a mut UverbsFile,
}

impl UverbsFile {
    /// A file that was just opened.
    pub(crate) fn new(proc: usize, id: u32, device: Arc<Device>) -> Self {
        Self {
            proc,
            id,
            device,
            has_context: false,
            handles: Handles::default(),
            channels: Vec::new(),
            async_events: VecDeque::new(),
            async_reported: HashMap::new(),
            removed: None,
        }
    }

    /// The file is closed, and so nothing is left of it. `ERESTART` as [`Fabric::lock`].
    pub(crate) fn close(&mut self, fabric: &mut Fabric) -> Result<()> {
        self.destroy_all(fabric)?;
        fabric.release_kept_rings(self.id);
        for channel in std::mem::take(&mut self.channels) {
            fabric.release_channel(channel);
        }
        Ok(())
    }

    /// Destroys all objects, in an order in which nothing is in use any more. `ERESTART` as
    /// [`Fabric::lock`]: some of them are left then.
    pub(super) fn destroy_all(&mut self, fabric: &mut Fabric) -> Result<()> {
        for kind in object::DESTRUCTION {
            let mut are_gone = Ok(());
            for handle in self.handles.of_kind(kind) {
                let object = self.handles.get(handle, kind);
                match object.and_then(|object| object.destroy(fabric)) {
                    Ok(()) => drop(self.handles.remove(handle)),
                    Err(error) => are_gone = Err(error),
                }
            }
            are_gone?;
        }
        Ok(())
    }

    /// Frees a completion channel that the program has closed, and whose queues it has destroyed.
    pub(crate) fn close_channel(&mut self, fabric: &mut Fabric, index: usize, generation: u32) {
        let at = self.channels.iter().position(|channel| *channel == index);
        if let Some(at) = at {
            if fabric.env.generation(index) == Some(generation) {
                self.channels.swap_remove(at);
                fabric.release_channel(index);
            }
        }
    }

    /// Queues an asynchronous event. Events of objects are counted when they are read. Any program
    /// of the fabric can bring them forth, so there is an end: then the event is lost.
    pub(crate) fn queue_async(&mut self, handle: Option<u32>, element: u64, event_type: u32) {
        if self.async_events.len() >= MAX_WAITING {
            return;
        }
        let record = AsyncEventDesc { element, event_type, reserved: 0 };
        self.async_events.push_back((handle, record));
    }

    /// The next asynchronous event, which thereby counts as read.
    pub(crate) fn pop_async(&mut self) -> Option<AsyncEventDesc> {
        let (handle, record) = self.async_events.pop_front()?;
        if let Some(handle) = handle {
            *self.async_reported.entry(handle).or_default() += 1;
        }
        Some(record)
    }

    /// Forgets an object's asynchronous events; gives how many were read.
    pub(crate) fn forget_async(&mut self, handle: u32) -> u32 {
        self.async_events.retain(|(of, _)| *of != Some(handle));
        self.async_reported.remove(&handle).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_that_nobody_reads_come_to_an_end() {
        let mut file = UverbsFile::new(1, 1, Arc::new(Device::rxe("rxe0", 7, &[], 1)));
        (0..MAX_WAITING + 5).for_each(|_| file.queue_async(Some(3), 0, 5));
        assert_eq!(file.async_events.len(), MAX_WAITING);
        assert!(file.pop_async().is_some());
        file.queue_async(Some(3), 0, 5);
        assert_eq!(file.async_events.len(), MAX_WAITING);
    }
}
