//! The commands of an opened uverbs device, one handler each: `drivers/infiniband/core/uverbs_cmd.c`
//! and what rxe does below it.

mod address;
mod completion;
mod file;
mod memory;
mod multicast;
pub(crate) mod object;
mod queue_pair;
mod removal;
mod shared_receive;
pub(crate) mod transitions;

use soft_hca_core::errno::{Errno, Refusal, Result, ensure};
use soft_hca_core::uapi::uverbs::answer::{self, Answer};
use soft_hca_core::uapi::uverbs::request::{self, Request};
use soft_hca_core::uapi::uverbs::{Command, command};

use crate::fabric::Fabric;

pub(crate) use file::{Context, Outcome, UverbsFile};
pub(crate) use object::Object;

impl UverbsFile {
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
