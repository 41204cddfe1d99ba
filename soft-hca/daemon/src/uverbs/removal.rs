//! A file whose device has been removed (`uverbs_destroy_ufile_hw`, `uverbs_std_types_async_fd.c`).

use soft_hca_core::errno::{Errno, Result, ensure};
use soft_hca_core::uapi::uverbs::answer::{self, Answer};
use soft_hca_core::uapi::uverbs::{Command, command, request};
use soft_hca_core::uapi::verbs::event;

use super::file::{Outcome, Removed, UverbsFile};
use super::object::{Kind, Object, another, nothing};
use crate::fabric::{Fabric, REMOVED, RingOf};

impl UverbsFile {
    /// Whether the device has been removed since it was opened.
    pub(crate) fn is_removed(&self) -> bool {
        self.removed.is_some()
    }

    /// The device is removed. From now on the program can only destroy what it has.
    pub(crate) fn begin_removal(&mut self) {
        let kinds = self.handles.iter().map(|(handle, object)| (handle, object.kind()));
        self.removed = Some(Removed { kinds: kinds.collect(), is_done: false });
    }

    /// Destroys what the device had for this file; the program keeps its handles, and the rings
    /// that it has mapped. `ERESTART` as [`Fabric::lock`].
    pub(crate) fn destroy_removed(&mut self, fabric: &mut Fabric) -> Result<()> {
        let rings = self.handles.iter().flat_map(|(_, object)| match object {
            Object::Qp { index, .. } => vec![RingOf::Send(index), RingOf::Receive(index)],
            Object::Srq { index, .. } => vec![RingOf::Shared(index)],
            Object::Cq { index } => vec![RingOf::Completions(index), RingOf::Eager(index)],
            Object::Pd { .. } | Object::Mr { .. } | Object::Mw { .. } | Object::Ah { .. } => vec![],
        });
        rings.for_each(|of| fabric.keep_ring(self.id, of));
        self.destroy_all(fabric)
    }

    /// All is gone: who waits for completion events is woken, and the program is told by
    /// `IB_EVENT_DEVICE_FATAL`, if it has a context; there is no event after that.
    pub(crate) fn end_removal(&mut self, fabric: &Fabric) {
        if let Some(removed) = &mut self.removed {
            removed.is_done = true;
        }
        for channel in &self.channels {
            fabric.shut_channel(*channel);
        }
        if self.has_context {
            fabric.trace_port_event(self.proc, event::DEVICE_FATAL, &self.device, None);
            self.queue_async(None, 0, event::DEVICE_FATAL);
        }
    }

    /// Answers a command: objects can be destroyed, in any order, all else is refused with `EIO`
    /// (`rdma_lookup_get_uobject`, `ib_uverbs_get_ucontext_file`). `ERESTART` before all is gone.
    pub(super) fn command_after_removal(
        &mut self,
        command: &Command<'_>,
    ) -> Result<Outcome<Vec<u8>>> {
        let bytes = match command.number {
            command::DEALLOC_PD => {
                self.forget(command.request::<request::DeallocPd>()?.pd_handle, Kind::Pd)?;
                Vec::new()
            }
            command::DEREG_MR => {
                self.forget(command.request::<request::DeregMr>()?.mr_handle, Kind::Mr)?;
                Vec::new()
            }
            command::DEALLOC_MW => {
                self.forget(command.request::<request::DeallocMw>()?.mw_handle, Kind::Mw)?;
                Vec::new()
            }
            command::DESTROY_AH => {
                self.forget(command.request::<request::DestroyAh>()?.ah_handle, Kind::Ah)?;
                Vec::new()
            }
            command::DESTROY_CQ => {
                let handle = command.request::<request::DestroyCq>()?.cq_handle;
                // The client counts completion events itself.
                answer::DestroyCq {
                    async_events_reported: self.forget(handle, Kind::Cq)?,
                    ..Default::default()
                }
                .to_bytes()
            }
            command::DESTROY_SRQ => {
                let handle = command.request::<request::DestroySrq>()?.srq_handle;
                answer::DestroySrq { events_reported: self.forget(handle, Kind::Srq)? }.to_bytes()
            }
            command::DESTROY_QP => {
                let handle = command.request::<request::DestroyQp>()?.qp_handle;
                answer::DestroyQp { events_reported: self.forget(handle, Kind::Qp)? }.to_bytes()
            }
            _ => return Err(REMOVED),
        };
        Ok(bytes.into())
    }

    /// Frees the handle of what is gone; gives how many of its asynchronous events were read.
    /// `ERESTART` before all is gone.
    fn forget(&mut self, handle: u32, kind: Kind) -> Result<u32> {
        let removed = self.removed.as_mut().ok_or(REMOVED)?;
        ensure(removed.is_done, Errno::ERESTART)?;
        match removed.kinds.get(&handle) {
            Some(known) if *known == kind => removed.kinds.remove(&handle),
            Some(_) => return Err(another(kind)),
            None => return Err(nothing(kind)),
        };
        Ok(self.forget_async(handle))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering::{Acquire, Release};

    use super::*;
    use crate::device::Device;
    use crate::objects::CqObject;

    const FILE: u32 = 1;

    /// A file with a completion queue of handle 0 that reports to a channel, and a protection
    /// domain.
    fn file() -> (Fabric, UverbsFile) {
        let device = Arc::new(Device::rxe("rxe0", 7, &[], 0));
        let mut fabric = Fabric::new(vec![Arc::clone(&device)], || 0).unwrap();
        let mut file = UverbsFile::new(1, FILE, device);
        file.has_context = true;
        let (channel, generation, _) = fabric.new_channel(file.proc).unwrap();
        file.channels.push(channel);
        let channel = Some((channel, generation));
        let cq = fabric.take_cq(CqObject { file: FILE, user_handle: 0, channel }).unwrap();
        let place = fabric.new_ring(3, 64).unwrap();
        fabric.place_ring(RingOf::Completions(cq), place);
        fabric.arena.cqs[cq].live.store(generation, Release);
        file.handles.insert(Object::Cq { index: cq });
        file.handles.insert(Object::Pd { pd: fabric.new_pd(1).unwrap() });
        (fabric, file)
    }

    /// A command with a handle behind its header, at a place in words.
    fn command(number: u32, at: usize, handle: u32) -> Vec<u8> {
        let mut words = vec![number, 0];
        words.resize(at, 0);
        words.extend([handle, 0]);
        let length = words.len() as u32;
        words[1] = length | 4 << 16;
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn what_a_program_has_can_be_destroyed() {
        let (mut fabric, mut file) = file();
        let ring_bytes = fabric.in_use().ring_bytes;
        let run = |file: &mut UverbsFile, fabric: &mut Fabric, number, at, handle| {
            file.command(fabric, &command(number, at, handle)).map(|outcome| outcome.answer)
        };
        file.begin_removal();
        let destroy_cq = (command::DESTROY_CQ, 4);
        let query = run(&mut file, &mut fabric, command::QUERY_DEVICE, 4, 0);
        assert_eq!(query, Err(Errno::EIO));
        // Whose memory may be in use still is not told that it is not.
        let early = run(&mut file, &mut fabric, destroy_cq.0, destroy_cq.1, 0);
        assert_eq!(early, Err(Errno::ERESTART));
        file.destroy_removed(&mut fabric).unwrap();
        file.end_removal(&fabric);
        assert_eq!(file.pop_async().map(|event| event.event_type), Some(event::DEVICE_FATAL));
        assert_eq!(file.pop_async(), None);
        // The program has the ring mapped, and may wait for events.
        let in_use = fabric.in_use();
        assert_eq!((in_use.cqs, in_use.ring_bytes, fabric.pds()), (0, ring_bytes, 0));
        let channel = file.channels[0];
        assert_eq!(fabric.arena.channels[channel].live.load(Acquire), 0);
        let generation = fabric.env.generation(channel).unwrap();
        assert!(fabric.env.is_readable((channel as u32, generation)));
        for (number, at, handle, given) in [
            (command::DEALLOC_PD, 2, 0, Err(Errno::EINVAL)),
            (command::DEALLOC_PD, 2, 1, Ok(0)),
            (command::DEALLOC_PD, 2, 1, Err(Errno::ENOENT)),
            (destroy_cq.0, destroy_cq.1, 0, Ok(8)),
            (destroy_cq.0, destroy_cq.1, 0, Err(Errno::ENOENT)),
            (command::QUERY_DEVICE, 4, 0, Err(Errno::EIO)),
            (command::POST_SEND, 4, 0, Err(Errno::EIO)),
        ] {
            let answer = run(&mut file, &mut fabric, number, at, handle);
            assert_eq!(answer.map(|bytes| bytes.len()), given, "{number} of {handle}");
        }
        file.close(&mut fabric).unwrap();
        fabric.check_empty();
    }
}
