//! Commands of uverbs.
//!
//! | file | what |
//! | --- | --- |
//! | `changes` | what a command has changed |

mod changes;
#[cfg(test)]
mod tests;

use std::os::fd::{AsFd, RawFd};
use std::sync::atomic::Ordering::AcqRel;
use std::sync::{Arc, PoisonError};

use soft_hca_core::config;
use soft_hca_core::engine;
use soft_hca_core::errno::{Errno, ObjectKind, Refusal, Result, ensure};
use soft_hca_core::memcheck;
use soft_hca_core::notes::Note;
use soft_hca_core::rpc::{Answer, Created, FileKind, Request};
use soft_hca_core::uapi::ioctl::{AdviseMr, Range};
use soft_hca_core::uapi::rxe::abi::ModifySrqCmd;
use soft_hca_core::uapi::uverbs::answer::Answer as _;
use soft_hca_core::uapi::uverbs::{Command, answer, command, request};
use soft_hca_core::uapi::verbs::{access, event};
use zerocopy::IntoBytes;

use crate::client::files::channel::Channel;
use crate::client::files::table::{self, Entry};
use crate::client::files::uverbs::UverbsFile;
use crate::client::files::{on_demand, tokens};
use crate::client::notes::note;
use crate::client::outcome::{OF_PARENT, Outcome};
use crate::client::recorded::{self, Called};
use crate::client::{
    acknowledged, daemon, hook, memory, optional_access, port_lease, process, sanitizer, strict,
};
use changes::read;

/// Opens the device; the descriptor also is what the provider maps rings from.
pub(crate) fn open(device: u32, close_on_exec: bool) -> Result<RawFd> {
    let opened = process::open(FileKind::Uverbs(device))?;
    let (file, arena_fd) = UverbsFile::new(device, opened);
    let fd = tokens::duplicate(arena_fd.as_fd(), close_on_exec)?;
    table::insert(fd, Entry::Uverbs(Arc::new(file)));
    Ok(fd)
}

/// The parts of a command that are traced beside its answer.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    /// Index of the completion queue that was created.
    created: u32,
    /// Events of the queue that was destroyed.
    unacknowledged: u32,
}

/// Events of a queue that was destroyed, whose answer this is, which its program has taken and not
/// acknowledged: `ibv_destroy_cq` waits for these.
fn unacknowledged(answer: &[u8], cq: u64) -> u32 {
    let Ok(answer) = read::<answer::DestroyCq>(answer) else { return 0 };
    if answer.comp_events_reported == 0 {
        return 0;
    }
    let acknowledged = acknowledged::events_of_queue(cq).unwrap_or(answer.comp_events_reported);
    answer.comp_events_reported.saturating_sub(acknowledged)
}

const NO_CQ: Errno = Errno::ENOENT.because(Refusal::NoObject(ObjectKind::Cq));
const NO_QP: Errno = Errno::ENOENT.because(Refusal::NoObject(ObjectKind::Qp));

impl UverbsFile {
    /// `write(2)`: one command. What the data path needs is done here, all else by the daemon.
    pub(crate) fn write(self: &Arc<Self>, fd: RawFd, written: &[u8]) -> Result<usize> {
        let written = &*optional_access::restored(written);
        // The kernel lets only the process that opened the device command it.
        let is_own = self.process.is_current();
        let call = recorded::begin(self.process);
        if call.is_some() && is_own {
            let qps = self.handles.qps();
            self.process.actor().trace_posted_to(qps.iter().copied().filter(|qpn| *qpn != 0));
        }
        let mut done = Done::default();
        let outcome = if is_own { self.execute(fd, written, &mut done) } else { Err(OF_PARENT) };
        let is_doorbell = written.first_chunk() == Some(&command::POST_SEND.to_ne_bytes());
        if let Some(call) = call {
            if is_doorbell && outcome.is_err() {
                recorded::doorbell_refused();
            }
            if !(is_doorbell && outcome.is_ok()) {
                let result = outcome.as_ref().map(|answer| &answer[..]).map_err(|error| *error);
                let request = written;
                let unacknowledged = done.unacknowledged;
                let created = done.created;
                let called = Called { fd, is_cm: false, request, result, created, unacknowledged };
                call.end(self.process, &called);
            }
        }
        outcome.map(|_| written.len())
    }

    /// `ibv_advise_mr`
    pub(crate) fn advise(&self, advice: &AdviseMr) -> Result<()> {
        ensure(self.process.is_current(), OF_PARENT)?;
        let ranges = memory::read(advice.elements, advice.bytes())?;
        let known = self.on_demand.read().unwrap_or_else(PoisonError::into_inner);
        known.advise(advice, &Range::all(&ranges).collect::<Vec<_>>())
    }

    /// Does a command and gives its answer, and what else there is to trace of it.
    fn execute(self: &Arc<Self>, fd: RawFd, written: &[u8], traced: &mut Done) -> Result<Vec<u8>> {
        let command = Command::parse(written)?;
        let done = match command.number {
            command::POST_SEND => self.post_send(&command.request()?),
            command::REQ_NOTIFY_CQ => self.req_notify(&command.request()?),
            _ => {
                sanitizer::commands(self.process);
                return self.forward(fd, written, &command, traced);
            }
        };
        match done {
            Err(gone) if gone == Errno::ENOENT => {
                Err(self.ask_what_is_gone(written).unwrap_or(gone))
            }
            done => done.map(|()| Vec::new()),
        }
    }

    /// An object that a command of the data path names is gone: the daemon knows whether that is
    /// because the device has been removed.
    #[cold]
    fn ask_what_is_gone(&self, written: &[u8]) -> Option<Errno> {
        let request = Request::Command { out_len: 0, bytes: written.to_vec() };
        let refused = daemon::ask(&self.connection(), &request).err();
        refused.filter(|error| *error == Errno::EIO)
    }

    fn post_send(&self, request: &request::PostSend) -> Result<()> {
        let qpn = self.handles.qpn(request.qp_handle).ok_or(NO_QP)?;
        if sanitizer::is_on() {
            sanitizer::tells(self.process);
            sanitizer::sends_posted(self.process, qpn);
        }
        if self.process.arena.is_watched() {
            sanitizer::posts(self.process, qpn);
        }
        if strict::is_on() {
            return self.process.actor().strict_doorbell(qpn);
        }
        self.process.actor().doorbell(qpn)
    }

    fn req_notify(&self, request: &request::ReqNotifyCq) -> Result<()> {
        if strict::is_on() {
            let index = self.handles.cqs().get(&request.cq_handle).map(|(cq, _)| cq.index());
            if let Some(index) = index {
                strict::before_arming(self.process, index);
            }
        }
        let cqs = self.handles.cqs();
        let (cq, _) = cqs.get(&request.cq_handle).ok_or(NO_CQ)?;
        ensure(cq.is_live(&self.process.arena), NO_CQ)?;
        sanitizer::arms(self.process, cq.index());
        port_lease::armed();
        self.process.actor().arm(cq.index(), request.solicited_only != 0);
        strict::owe(&self.process.arena, cq.index());
        Ok(())
    }

    /// Has a command done by the daemon and brings the answer to where the program wants it.
    fn forward(
        self: &Arc<Self>,
        fd: RawFd,
        written: &[u8],
        command: &Command<'_>,
        traced: &mut Done,
    ) -> Result<Vec<u8>> {
        let mut channel = None;
        let bytes = match command.number {
            command::CREATE_CQ => {
                let mut request: request::CreateCq = command.request()?;
                channel = translate_channel(&mut request.comp_channel)?;
                command.with_request(written, &request)
            }
            command::EX_CREATE_CQ => {
                let mut request: request::ExCreateCq = command.request()?;
                channel = translate_channel(&mut request.comp_channel)?;
                command.with_request(written, &request)
            }
            command::REG_MR => {
                let request: request::RegMr = command.request()?;
                if request.length > 0 && !on_demand::is_on_demand(&request) {
                    let is_writable = request.access_flags & access::LOCAL_WRITE != 0;
                    memory::populate(request.start, request.length, is_writable)?;
                    sanitizer::registers(request.start, request.length);
                    if is_writable {
                        // Peers write to it at any time, without a call of this process.
                        memcheck::is_written(request.start, request.length);
                    }
                }
                written.to_vec()
            }
            command::CREATE_QP => {
                let request: request::CreateQp = command.request()?;
                self.hook_queues(request.send_cq_handle, request.recv_cq_handle);
                written.to_vec()
            }
            command::EX_CREATE_QP => {
                let request: request::ExCreateQp = command.request()?;
                self.hook_queues(request.send_cq_handle, request.recv_cq_handle);
                written.to_vec()
            }
            _ => written.to_vec(),
        };
        let request = Request::Command { out_len: command.out_len as u32, bytes };
        let queue = self.queue_to_destroy(command);
        port_lease::finish();
        let (answer, _unused) = {
            // Until what has changed is noted, no other thread's command may get the handle of what is
            // destroyed, nor destroy a queue whose payloads are being moved.
            let connection = self.connection();
            self.drain_staged();
            let asked = daemon::ask(&connection, &request);
            let (mut answer, fds) = match asked {
                Err(error) if daemon::is_gone(error) => {
                    let bytes = destroyed(command.number).ok_or(error)?;
                    (Answer { bytes, ..Answer::default() }, Vec::new())
                }
                asked => asked?,
            };
            self.drain_staged();
            traced.unacknowledged = self.unacknowledged(command);
            let noted = self.note(fd, command, &mut answer, fds, channel.as_ref());
            if let (Err(_), Some(Created::Channel(id))) = (&noted, answer.created) {
                // The program gets no descriptor for it. A daemon that has gone has nothing to free.
                let _ = connection.send(&Request::CloseChannel(id).encode(), &[]);
            }
            let unused = noted?;
            if command.number == command::MODIFY_QP {
                port_lease::borrow_sockets(&connection);
            }
            (answer, unused)
        };
        if command.number == command::DESTROY_CQ {
            traced.unacknowledged = unacknowledged(&answer.bytes, queue);
        }
        if let Some(Created::Cq { index, .. }) = answer.created {
            traced.created = index;
        }
        let Answer { bytes, .. } = answer;
        match command.number {
            command::MODIFY_SRQ if !bytes.is_empty() => {
                let driver_data = command.driver_data::<request::ModifySrq, ModifySrqCmd>()?;
                memory::write(driver_data.mmap_info_addr, &bytes)?;
            }
            _ => match &bytes[..bytes.len().min(command.out_len)] {
                [] => {}
                answer => memory::write(command.response()?, answer)?,
            },
        }
        Ok(bytes)
    }

    /// Asynchronous events that were not acknowledged of what a command has destroyed.
    fn unacknowledged(&self, command: &Command<'_>) -> u32 {
        match command.number {
            command::DESTROY_QP => {
                let Ok(request) = command.request::<request::DestroyQp>() else { return 0 };
                self.handles.qpn(request.qp_handle).map_or(0, acknowledged::forget_qp)
            }
            command::DESTROY_SRQ => {
                let Ok(request) = command.request::<request::DestroySrq>() else { return 0 };
                self.handles.srq(request.srq_handle).map_or(0, acknowledged::forget_srq)
            }
            _ => 0,
        }
    }

    /// The program's name for the queue that a command destroys, if it does; 0 for none.
    fn queue_to_destroy(&self, command: &Command<'_>) -> u64 {
        if command.number != command::DESTROY_CQ {
            return 0;
        }
        let cqs = self.handles.cqs();
        let handle = command.request::<request::DestroyCq>().map(|request| request.cq_handle);
        let known = handle.ok().and_then(|handle| cqs.get(&handle));
        known.map_or(0, |(cq, _)| cq.user_handle)
    }

    /// Has the program's polls of queues pass through [`hook`]: a queue pair is about to report there.
    /// Payloads for the one where its receives complete wait for the program's polls, if all of these do.
    fn hook_queues(&self, sends: u32, receives: u32) {
        if !config::is_hooked() || !engine::guard() {
            note(Note::Hooked(false));
            return;
        }
        // A command that is answered takes the lock of the queues behind that of the connection.
        if self.device == 0 && config::runs_port() {
            port_lease::ask(self.process, &self.connection());
        }
        let cqs = self.handles.cqs();
        let hook = |handle: u32| {
            let (cq, _) = cqs.get(&handle)?;
            // The lock keeps the queue from being destroyed meanwhile.
            let hook = || {
                let is_hooked = hook::hook(cq.user_handle as usize, cq.queue);
                note(Note::Hooked(is_hooked));
                is_hooked
            };
            cq.is_hooked.get_or_init(hook).then_some(cq)
        };
        if let Some(cq) = hook(receives) {
            self.process.actor().poll_eagerly(cq.queue.index, cq.queue.generation);
        }
        hook(sends);
    }

    /// Brings all payloads that are staged for this file's queues to their places. A command may end
    /// what they are for: before it their regions are there still, and when it is done the memory is
    /// the program's again.
    fn drain_staged(&self) {
        let own = self.own_cqs.read().unwrap_or_else(PoisonError::into_inner);
        self.process.actor().drain_all_staged(&own);
    }

    /// `read(2)` on the descriptor for asynchronous events.
    pub(crate) fn read_async(&self, fd: RawFd, buffer: &mut [u8]) -> Result<Outcome> {
        acknowledged::asks();
        match daemon::ask(&self.connection(), &Request::PopEvent) {
            Ok((reply, _)) => {
                let room = buffer.get_mut(..reply.bytes.len()).ok_or(Errno::EINVAL)?;
                room.copy_from_slice(&reply.bytes);
                acknowledged::taken_asynchronously(&reply.bytes, |srq| self.handles.srq(srq));
                Ok(Outcome::Done(reply.bytes.len()))
            }
            Err(error) if error == Errno::EAGAIN => Ok(Outcome::Wait),
            Err(error) if daemon::is_gone(error) => self.read_last(fd, buffer),
            Err(error) => Err(error),
        }
    }

    /// Reads the last event, when the daemon is gone: the one of a device that is removed.
    fn read_last(&self, fd: RawFd, buffer: &mut [u8]) -> Result<Outcome> {
        let event_type = event::DEVICE_FATAL;
        let last = answer::AsyncEventDesc { event_type, ..Default::default() };
        let room = buffer.get_mut(..size_of_val(&last)).ok_or(Errno::EINVAL)?;
        if self.is_told.swap(true, AcqRel) {
            return Ok(Outcome::Wait);
        }
        room.copy_from_slice(last.as_bytes());
        tokens::hang_up(fd, &self.lines.own());
        Ok(Outcome::Done(room.len()))
    }
}

/// The answer to a command that destroys an object of a device that is gone with the daemon: its counts of
/// reported events are 0, as only the daemon knew them. `None` for another command.
fn destroyed(number: u32) -> Option<Vec<u8>> {
    match number {
        command::DEALLOC_PD | command::DEREG_MR | command::DEALLOC_MW | command::DESTROY_AH => {
            Some(Vec::new())
        }
        command::DESTROY_CQ => Some(answer::DestroyCq::default().to_bytes()),
        command::DESTROY_QP => Some(answer::DestroyQp::default().to_bytes()),
        command::DESTROY_SRQ => Some(answer::DestroySrq::default().to_bytes()),
        _ => None,
    }
}

/// Puts the channel's index in the place of the program's descriptor.
fn translate_channel(field: &mut i32) -> Result<Option<Arc<Channel>>> {
    if *field == -1 {
        return Ok(None);
    }
    let Some(Entry::Channel(channel)) = table::get(*field) else { return Err(Errno::EBADF) };
    *field = channel.id.index as i32;
    Ok(Some(channel))
}
