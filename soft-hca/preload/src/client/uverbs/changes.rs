//! Changes made by a command that this process has to know.

use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering::Acquire;
use std::sync::{Arc, Mutex, PoisonError};

use soft_hca_core::config;
use soft_hca_core::engine::ReceiveQueue;
use soft_hca_core::errno::{Errno, Result};
use soft_hca_core::rpc::{Answer, ChannelId, Created};
use soft_hca_core::system;
use soft_hca_core::uapi::uverbs::answer::Answer as _;
use soft_hca_core::uapi::uverbs::{Command, answer, command, request};
use soft_hca_core::uapi::verbs::{QpAttrMask, state};
use zerocopy::FromBytes;

use crate::client::cq::{CqInfo, Queue};
use crate::client::files::channel::Channel;
use crate::client::files::table::{self, Entry};
use crate::client::files::uverbs::UverbsFile;
use crate::client::files::{on_demand, tokens};
use crate::client::{acknowledged, buffers, doorbell, hook, receives, sanitizer, strict};

impl UverbsFile {
    /// Takes note of what a command has created or destroyed, and puts into the answer what only
    /// this process knows. Gives the channel of a queue that is destroyed: it may end with that, for
    /// which it has to ask the daemon, as the caller does at this moment.
    pub(super) fn note(
        self: &Arc<Self>,
        fd: RawFd,
        command: &Command<'_>,
        answer: &mut Answer,
        mut fds: Vec<OwnedFd>,
        channel: Option<&Arc<Channel>>,
    ) -> Result<Option<Arc<Channel>>> {
        let mut unused = None;
        if strict::is_on() {
            self.note_strictly(command, answer)?;
        }
        self.regions.note(command, &answer.bytes)?;
        match answer.created {
            Some(Created::Channel(id)) => {
                let tokens = Arc::new(system::hide(fds.pop().ok_or(Errno::EIO)?));
                let ChannelId { index, generation } = id;
                let line = self.lines.with_room()?;
                // A channel that is dropped takes the lock that the caller has: from here on nothing fails.
                let fd = tokens::for_program([tokens.as_fd(), line.as_fd()], true, false)?;
                self.process.env.remember_channel(index, generation, Arc::clone(&tokens));
                let channel = Channel {
                    id,
                    connection: Arc::downgrade(&self.connection),
                    process: self.process,
                    line,
                    tokens,
                    queues: Mutex::default(),
                };
                table::insert(fd, Entry::Channel(Arc::new(channel)));
                answer.bytes = answer::CreateCompChannel { fd }.to_bytes();
            }
            Some(Created::Cq { handle, index, generation }) => {
                let user_handle = match command.number {
                    command::CREATE_CQ => command.request::<request::CreateCq>()?.user_handle,
                    _ => command.request::<request::ExCreateCq>()?.user_handle,
                };
                let info = Arc::new(CqInfo::new(Queue { index, generation }, user_handle));
                if config::is_hooked() {
                    hook::watch(user_handle as usize, info.queue, fd, &self.own_poll);
                }
                if let Some(channel) = channel {
                    channel.add(Arc::clone(&info));
                }
                let mut own = self.own_cqs.write().unwrap_or_else(PoisonError::into_inner);
                own.insert(index, generation);
                self.handles.add_cq(handle, (info, channel.cloned()));
            }
            Some(Created::Qp { handle, qpn }) => {
                let qpn = qpn.into();
                // These have more to do at a doorbell than the short way does.
                if !strict::is_on() && !sanitizer::is_on() {
                    doorbell::remember(fd, handle, qpn);
                }
                self.handles.add_qp(handle, qpn);
            }
            Some(Created::File { .. } | Created::Recording(_) | Created::PortLease(_)) | None => {}
        }
        match command.number {
            command::GET_CONTEXT => {
                let line = self.lines.own();
                let sources = [self.tokens.as_fd(), line.as_fd()];
                let fd = tokens::for_program(sources, true, false)?;
                table::insert(fd, Entry::Async(Arc::downgrade(self)));
                let mut context: answer::GetContext = read(&answer.bytes)?;
                context.async_fd = fd;
                answer.bytes = context.to_bytes();
            }
            command::DESTROY_CQ => {
                let handle = command.request::<request::DestroyCq>()?.cq_handle;
                let mut destroyed: answer::DestroyCq = read(&answer.bytes)?;
                if let Some((info, channel)) = self.handles.remove_cq(handle) {
                    let mut own = self.own_cqs.write().unwrap_or_else(PoisonError::into_inner);
                    own.remove(info.index());
                    hook::forget(info.user_handle as usize);
                    acknowledged::forget(info.index());
                    destroyed.comp_events_reported = info.events_read.load(Acquire);
                    answer.bytes = destroyed.to_bytes();
                    if let Some(channel) = &channel {
                        channel.forget(info.index());
                    }
                    unused = channel;
                }
            }
            command::REG_MR => {
                let request: request::RegMr = command.request()?;
                if on_demand::is_on_demand(&request) {
                    let registered: answer::RegMr = read(&answer.bytes)?;
                    let mut known = self.on_demand.write().unwrap_or_else(PoisonError::into_inner);
                    known.insert(&request, &registered);
                }
            }
            command::DEREG_MR => {
                let handle = command.request::<request::DeregMr>()?.mr_handle;
                let mut known = self.on_demand.write().unwrap_or_else(PoisonError::into_inner);
                known.remove(handle);
                sanitizer::deregistered(self.process);
            }
            command::CREATE_SRQ => {
                let created = answer::CreateSrq::read_from_prefix(&answer.bytes);
                let (created, _) = created.map_err(|_| Errno::EIO)?;
                // Their numbers begin with 1.
                self.handles.add_srq(created.srq_handle, created.srqn.wrapping_sub(1));
            }
            command::DESTROY_SRQ => {
                let handle = command.request::<request::DestroySrq>()?.srq_handle;
                if let Some(index) = self.handles.remove_srq(handle) {
                    receives::forget(self.process, ReceiveQueue::Shared(index));
                    sanitizer::forget_shared(index);
                }
            }
            command::DESTROY_QP => {
                let handle = command.request::<request::DestroyQp>()?.qp_handle;
                if let Some(qpn) = self.handles.remove_qp(handle) {
                    doorbell::forget(handle, qpn);
                    self.forget_requests(qpn);
                }
            }
            command::MODIFY_QP => {
                let request: request::ModifyQp = command.request()?;
                let given = QpAttrMask::from_bits_retain(request.attr_mask);
                let is_reset = u32::from(request.qp_state) == state::RESET;
                if given.contains(QpAttrMask::STATE) && is_reset {
                    let qpn = self.handles.qpn(request.qp_handle);
                    qpn.into_iter().for_each(|qpn| self.forget_requests(qpn));
                }
            }
            _ => {}
        }
        Ok(unused)
    }

    /// Forgets the requests of a queue pair that is reset, or gone: none of them will be executed.
    fn forget_requests(&self, qpn: u32) {
        buffers::forget(qpn);
        sanitizer::forget(self.process, qpn);
        receives::forget(self.process, ReceiveQueue::Own(qpn));
    }

    /// Has [`strict`] take note of a command, for which it needs what the handles in it are.
    #[cold]
    fn note_strictly(&self, command: &Command<'_>, answer: &mut Answer) -> Result<()> {
        let qpn = |handle: u32| self.handles.qpn(handle).unwrap_or(0);
        let cq = |handle: u32| self.handles.cqs().get(&handle).map(|(cq, _)| cq.index());
        let srq = |handle: u32| self.handles.srq(handle);
        let queues = |request: &request::ExCreateQp| {
            ([request.send_cq_handle, request.recv_cq_handle].map(cq), srq(request.srq_handle))
        };
        let mut named = strict::Named::default();
        match command.number {
            command::CREATE_QP => {
                let request: request::CreateQp = command.request()?;
                (named.cqs, named.srq) = queues(&request.into());
            }
            command::EX_CREATE_QP => (named.cqs, named.srq) = queues(&command.request()?),
            command::MODIFY_QP => {
                named.qpn = qpn(command.request::<request::ModifyQp>()?.qp_handle);
            }
            command::QUERY_QP => named.qpn = qpn(command.request::<request::QueryQp>()?.qp_handle),
            command::DESTROY_QP => {
                named.qpn = qpn(command.request::<request::DestroyQp>()?.qp_handle);
            }
            command::RESIZE_CQ => {
                named.cqs[0] = cq(command.request::<request::ResizeCq>()?.cq_handle);
            }
            command::MODIFY_SRQ => {
                named.srq = srq(command.request::<request::ModifySrq>()?.srq_handle);
            }
            command::QUERY_SRQ => {
                named.srq = srq(command.request::<request::QuerySrq>()?.srq_handle);
            }
            _ => {}
        }
        strict::note(&self.process.arena, &named, command, answer)
    }
}

/// The daemon's answer as what it has to be.
pub(super) fn read<A: FromBytes>(bytes: &[u8]) -> Result<A> {
    A::read_from_bytes(bytes).map_err(|_| Errno::EIO)
}
