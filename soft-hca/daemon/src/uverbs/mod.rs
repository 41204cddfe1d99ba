//! The commands of an opened uverbs device, one handler each: `drivers/infiniband/core/uverbs_cmd.c`
//! and what rxe does below it.

mod address;
mod completion;
mod memory;
mod multicast;
pub(crate) mod object;
mod queue_pair;
mod removal;
mod shared_receive;
pub(crate) mod transitions;

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use soft_hca_core::engine::Quiesce;
use soft_hca_core::errno::{Errno, Refusal, Result, ensure};
use soft_hca_core::rpc::Created;
use soft_hca_core::uapi::uverbs::answer::{self, Answer, AsyncEventDesc};
use soft_hca_core::uapi::uverbs::request::{self, Request};
use soft_hca_core::uapi::uverbs::{Command, command};

use crate::device::Device;
use crate::fabric::Fabric;

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
    /// The device that was opened.
    pub device: Arc<Device>,
    /// GET_CONTEXT has been done.
    pub has_context: bool,
    /// What the handles stand for.
    pub handles: Handles,
    /// Completion channels that were created through this file.
    pub channels: Vec<usize>,
    /// Asynchronous events that are not yet read: the object's handle (none for port events) and
    /// the record.
    pub async_events: VecDeque<(Option<u32>, AsyncEventDesc)>,
    /// Asynchronous events of each object that were read.
    pub async_reported: std::collections::HashMap<u32, u32>,
    /// What the program still has of the device, if that has been removed.
    removed: Option<removal::Removed>,
}

/// What a handler gives back: the answer, what it has created for the client, a descriptor.
#[derive(Debug, Default)]
pub(crate) struct Outcome<A> {
    pub answer: A,
    pub created: Option<Created>,
    pub fd: Option<OwnedFd>,
    /// Who may still be using memory of which the answer says that nobody does.
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

/// What a handler is given beside its request.
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
            async_reported: std::collections::HashMap::new(),
            removed: None,
        }
    }

    /// Answers one command.
    pub(crate) fn command(
        &mut self,
        fabric: &mut Fabric,
        written: &[u8],
    ) -> Result<Outcome<Vec<u8>>> {
        let parsed = Command::parse(written)?;
        if self.is_removed() {
            return self.command_after_removal(&parsed);
        }
        let handler = handler(parsed.number);
        let handler = handler.ok_or(Errno::EOPNOTSUPP.because(Refusal::CommandUnsupported))?;
        let is_in_order = self.has_context || parsed.number == command::GET_CONTEXT;
        ensure(is_in_order, Errno::EINVAL.because(Refusal::NoContext))?;
        handler(&mut Context { fabric, file: self }, &parsed)
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
    fn destroy_all(&mut self, fabric: &mut Fabric) -> Result<()> {
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

/// Does a command and gives its answer's bytes.
type Handler = fn(&mut Context<'_>, &Command<'_>) -> Result<Outcome<Vec<u8>>>;

/// Has a request done, if there is room for `room` bytes of its answer.
fn run<R: Request, A: Answer>(
    cx: &mut Context<'_>,
    command: &Command<'_>,
    room: usize,
    handler: fn(&mut Context<'_>, &R) -> Result<Outcome<A>>,
) -> Result<Outcome<Vec<u8>>> {
    ensure(command.out_len >= room, Errno::ENOSPC.because(Refusal::AnswerTooLong))?;
    let Outcome { answer, created, fd, quiesce } = handler(cx, &command.request()?)?;
    Ok(Outcome { answer: answer.to_bytes(), created, fd, quiesce })
}

/// The table of commands: each one's handler and the answer for which there has to be room.
macro_rules! handlers {
    ($number:expr, $($command:ident => $handler:path, $answer:ty;)*) => {
        match $number {
            $( command::$command => {
                Some(|cx, command| run(cx, command, size_of::<$answer>(), $handler))
            } )*
            _ => None,
        }
    };
}

/// The handler of a command.
fn handler(number: u32) -> Option<Handler> {
    handlers! { number,
        GET_CONTEXT => get_context, answer::GetContext;
        QUERY_DEVICE => query_device, answer::QueryDevice;
        EX_QUERY_DEVICE => query_device_ex, ();
        QUERY_PORT => query_port, answer::QueryPort;
        ALLOC_PD => memory::alloc_pd, answer::AllocPd;
        DEALLOC_PD => memory::dealloc_pd, ();
        REG_MR => memory::reg_mr, answer::RegMr;
        DEREG_MR => memory::dereg_mr, ();
        ALLOC_MW => memory::alloc_mw, answer::AllocMw;
        DEALLOC_MW => memory::dealloc_mw, ();
        // Old providers have no room for the number.
        CREATE_AH => address::create_ah, answer::CreateAh;
        DESTROY_AH => address::destroy_ah, ();
        CREATE_COMP_CHANNEL => completion::create_channel, answer::CreateCompChannel;
        CREATE_CQ => completion::create_cq, completion::CreateCqAnswer;
        EX_CREATE_CQ => completion::create_cq_ex, completion::ExCreateCqAnswer;
        RESIZE_CQ => completion::resize_cq, completion::ResizeCqAnswer;
        DESTROY_CQ => completion::destroy_cq, answer::DestroyCq;
        CREATE_QP => queue_pair::create_qp, queue_pair::CreateQpAnswer;
        EX_CREATE_QP => queue_pair::create_qp_ex, queue_pair::ExCreateQpAnswer;
        QUERY_QP => queue_pair::query_qp, answer::QueryQp;
        MODIFY_QP => queue_pair::modify_qp, ();
        DESTROY_QP => queue_pair::destroy_qp, answer::DestroyQp;
        ATTACH_MCAST => multicast::attach, ();
        DETACH_MCAST => multicast::detach, ();
        CREATE_SRQ => shared_receive::create_srq, shared_receive::CreateSrqAnswer;
        MODIFY_SRQ => shared_receive::modify_srq, ();
        QUERY_SRQ => shared_receive::query_srq, answer::QuerySrq;
        DESTROY_SRQ => shared_receive::destroy_srq, answer::DestroySrq;
    }
}

/// The client fills in the descriptor for asynchronous events.
fn get_context(
    cx: &mut Context<'_>,
    _: &request::GetContext,
) -> Result<Outcome<answer::GetContext>> {
    ensure(!cx.file.has_context, Errno::EINVAL.because(Refusal::HasContext))?;
    cx.file.has_context = true;
    let num_comp_vectors = cx.file.device.limits.num_comp_vectors;
    Ok(answer::GetContext { num_comp_vectors, ..Default::default() }.into())
}

fn query_device(
    cx: &mut Context<'_>,
    _: &request::QueryDevice,
) -> Result<Outcome<answer::QueryDevice>> {
    Ok(cx.file.device.query().into())
}

fn query_device_ex(
    cx: &mut Context<'_>,
    _: &request::ExQueryDevice,
) -> Result<Outcome<answer::ExQueryDevice>> {
    Ok(cx.file.device.query_ex().into())
}

fn query_port(
    cx: &mut Context<'_>,
    request: &request::QueryPort,
) -> Result<Outcome<answer::QueryPort>> {
    Ok(cx.file.device.port(request.port_num)?.query().into())
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
