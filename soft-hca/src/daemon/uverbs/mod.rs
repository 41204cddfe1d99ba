//! The commands of an opened uverbs device, one handler each: `drivers/infiniband/core/uverbs_cmd.c`
//! and what rxe does below it.

mod address;
mod completion;
mod memory;
mod multicast;
pub(crate) mod object;
mod queue_pair;
mod shared_receive;
pub(crate) mod transitions;

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use crate::daemon::fabric::Fabric;
use crate::device;
use crate::engine::Quiesce;
use crate::errno::{Errno, Result};
use crate::rpc::Reply;
use crate::uapi::uverbs::{Answer, Command, command};

pub(crate) use object::{Handles, Object};

/// Asynchronous events that may wait in a file. The kernel has no such limit.
const MAX_WAITING: usize = 0x4000;

/// An opened device: a context with its objects.
#[derive(Debug)]
pub(crate) struct UverbsFile {
    /// Index of the process in the arena.
    pub proc: usize,
    /// This file's own number.
    pub id: u32,
    /// GET_CONTEXT has been done.
    pub has_context: bool,
    /// What the handles stand for.
    pub handles: Handles,
    /// Completion channels that were created through this file.
    pub channels: Vec<usize>,
    /// Asynchronous events that are not yet read: the object's handle (none for port events) and
    /// the record.
    pub async_events: VecDeque<(Option<u32>, [u8; 16])>,
    /// Asynchronous events of each object that were read.
    pub async_reported: std::collections::HashMap<u32, u32>,
}

/// What a command gives back: the answer, numbers for the client, a descriptor.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub reply: Reply,
    pub fd: Option<OwnedFd>,
    /// Who may still be using memory of which the answer says that nobody does.
    pub quiesce: Option<Quiesce>,
}

impl From<Answer> for Outcome {
    fn from(answer: Answer) -> Self {
        Self { reply: Reply { bytes: answer.0, ..Reply::default() }, ..Self::default() }
    }
}

impl Outcome {
    /// An empty answer.
    pub(crate) fn done() -> Self {
        Self::default()
    }

    /// With numbers for the client.
    pub(crate) fn with_extra(mut self, extra: [u32; 4]) -> Self {
        self.reply.extra = extra;
        self
    }
}

/// What a handler is given.
pub(crate) struct Context<'a> {
    pub fabric: &'a mut Fabric,
    pub file: &'a mut UverbsFile,
    pub command: Command<'a>,
}

impl UverbsFile {
    /// A file that was just opened.
    pub(crate) fn new(proc: usize, id: u32) -> Self {
        Self {
            proc,
            id,
            has_context: false,
            handles: Handles::default(),
            channels: Vec::new(),
            async_events: VecDeque::new(),
            async_reported: std::collections::HashMap::new(),
        }
    }

    /// Answers one command.
    pub(crate) fn command(&mut self, fabric: &mut Fabric, written: &[u8]) -> Result<Outcome> {
        let parsed = Command::parse(written)?;
        let (handler, answer_len) = handler(parsed.number).ok_or(Errno::EOPNOTSUPP)?;
        if !self.has_context && parsed.number != command::GET_CONTEXT {
            return Err(Errno::EINVAL);
        }
        if parsed.out_len < answer_len {
            return Err(Errno::ENOSPC);
        }
        handler(&mut Context { fabric, file: self, command: parsed })
    }

    /// Destroys all objects, in an order in which nothing is in use any more. `ERESTART` as
    /// [`Fabric::lock`]: some of them are left then.
    pub(crate) fn close(&mut self, fabric: &mut Fabric) -> Result<()> {
        for kind in object::DESTRUCTION {
            let mut are_gone = Ok(());
            for handle in self.handles.of_kind(kind) {
                let destroyed = self.handles.get(handle, kind).map(|object| object.destroy(fabric));
                match destroyed.flatten() {
                    Ok(()) => drop(self.handles.remove(handle)),
                    Err(error) => are_gone = Err(error),
                }
            }
            are_gone?;
        }
        for channel in std::mem::take(&mut self.channels) {
            fabric.release_channel(channel);
        }
        Ok(())
    }

    /// Frees a completion channel that the program has closed, and whose queues it has destroyed.
    pub(crate) fn close_channel(&mut self, fabric: &mut Fabric, index: usize, generation: u32) {
        let at = self.channels.iter().position(|channel| *channel == index);
        if let Some(at) = at
            && fabric.env.generation(index) == Some(generation)
        {
            self.channels.swap_remove(at);
            fabric.release_channel(index);
        }
    }

    /// Queues an asynchronous event. Events of objects are counted when they are read. Any program
    /// of the fabric can bring them forth, so there is an end: then the event is lost.
    pub(crate) fn queue_async(&mut self, handle: Option<u32>, element: u64, event_type: u32) {
        if self.async_events.len() >= MAX_WAITING {
            return;
        }
        let mut record = Answer::new(16);
        record.u64(0, element).u32(8, event_type);
        self.async_events.push_back((handle, record.0.try_into().expect("16 bytes")));
    }

    /// The next asynchronous event, which thereby counts as read.
    pub(crate) fn pop_async(&mut self) -> Option<[u8; 16]> {
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

type Handler = fn(&mut Context<'_>) -> Result<Outcome>;

/// The handler of a command, and how many bytes the core's part of its answer has.
fn handler(number: u32) -> Option<(Handler, usize)> {
    Some(match number {
        command::GET_CONTEXT => (get_context, 8),
        command::QUERY_DEVICE => (query_device, 176),
        command::EX_QUERY_DEVICE => (query_device_ex, 0),
        command::QUERY_PORT => (query_port, 40),
        command::ALLOC_PD => (memory::alloc_pd, 4),
        command::DEALLOC_PD => (memory::dealloc_pd, 0),
        command::REG_MR => (memory::reg_mr, 12),
        command::DEREG_MR => (memory::dereg_mr, 0),
        command::ALLOC_MW => (memory::alloc_mw, 8),
        command::DEALLOC_MW => (memory::dealloc_mw, 0),
        command::CREATE_AH => (address::create_ah, 4),
        command::DESTROY_AH => (address::destroy_ah, 0),
        command::CREATE_COMP_CHANNEL => (completion::create_channel, 4),
        command::CREATE_CQ => (completion::create_cq, 24),
        command::EX_CREATE_CQ => (completion::create_cq_ex, 32),
        command::RESIZE_CQ => (completion::resize_cq, 24),
        command::DESTROY_CQ => (completion::destroy_cq, 8),
        command::CREATE_QP => (queue_pair::create_qp, 64),
        command::EX_CREATE_QP => (queue_pair::create_qp_ex, 72),
        command::QUERY_QP => (queue_pair::query_qp, 128),
        command::MODIFY_QP => (queue_pair::modify_qp, 0),
        command::DESTROY_QP => (queue_pair::destroy_qp, 4),
        command::ATTACH_MCAST => (multicast::attach, 0),
        command::DETACH_MCAST => (multicast::detach, 0),
        command::CREATE_SRQ => (shared_receive::create_srq, 40),
        command::MODIFY_SRQ => (shared_receive::modify_srq, 0),
        command::QUERY_SRQ => (shared_receive::query_srq, 16),
        command::DESTROY_SRQ => (shared_receive::destroy_srq, 4),
        _ => return None,
    })
}

/// The client fills in the descriptor for asynchronous events.
fn get_context(cx: &mut Context<'_>) -> Result<Outcome> {
    if cx.file.has_context {
        return Err(Errno::EINVAL);
    }
    cx.file.has_context = true;
    let mut answer = Answer::new(8);
    answer.u32(4, device::num_comp_vectors());
    Ok(answer.into())
}

fn query_device(cx: &mut Context<'_>) -> Result<Outcome> {
    Ok(Answer(device::query_device(cx.fabric.node_guid).to_vec()).into())
}

fn query_device_ex(cx: &mut Context<'_>) -> Result<Outcome> {
    Ok(Answer(device::query_device_ex(cx.fabric.node_guid).to_vec()).into())
}

fn query_port(cx: &mut Context<'_>) -> Result<Outcome> {
    if cx.command.u8(8)? != 1 {
        return Err(Errno::EINVAL);
    }
    Ok(Answer(device::query_port(&cx.fabric.addresses).to_vec()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_that_nobody_reads_come_to_an_end() {
        let mut file = UverbsFile::new(1, 1);
        (0..MAX_WAITING + 5).for_each(|_| file.queue_async(Some(3), 0, 5));
        assert_eq!(file.async_events.len(), MAX_WAITING);
        assert!(file.pop_async().is_some());
        file.queue_async(Some(3), 0, 5);
        assert_eq!(file.async_events.len(), MAX_WAITING);
    }
}
