//! An opened uverbs device.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use soft_hca_core::config;
use soft_hca_core::engine::{self, CqSet, ReceiveQueue};
use soft_hca_core::errno::{Errno, ObjectKind, Refusal, Result, ensure};
use soft_hca_core::memcheck;
use soft_hca_core::notes::Note;
use soft_hca_core::rpc::{Answer, ChannelId, Connection, Created, FileKind, Request};
use soft_hca_core::system;
use soft_hca_core::uapi::ioctl::{AdviseMr, Range};
use soft_hca_core::uapi::rxe::abi::ModifySrqCmd;
use soft_hca_core::uapi::uverbs::answer::Answer as _;
use soft_hca_core::uapi::uverbs::{Command, answer, command, request};
use soft_hca_core::uapi::verbs::{QpAttrMask, access, event, state};
use zerocopy::{FromBytes, IntoBytes};

use crate::client::cancel::put_off;
use crate::client::channel::{Channel, CqInfo};
use crate::client::on_demand::OnDemand;
use crate::client::process::{self, Opened, Process};
use crate::client::recorded::{self, Called};
use crate::client::regions::Regions;
use crate::client::table::{self, Entry};
use crate::client::tokens::{self, Lines};
use crate::client::{
    OF_PARENT, Outcome, acknowledged, buffers, daemon, doorbell, hook, memory, note, on_demand,
    receives, share, strict,
};

/// An opened uverbs device: the daemon has its objects, this knows the way to them.
#[derive(Debug)]
pub(crate) struct UverbsFile {
    // The regions are dropped before the connection: other regions may get their keys once it is closed.
    regions: Regions,
    connection: Mutex<Connection>,
    pub(crate) process: &'static Process,
    /// Number of the device file.
    pub(crate) device: u32,
    /// The event descriptor, with a token for each asynchronous event.
    tokens: OwnedFd,
    /// The connections that hang up when the daemon is gone.
    lines: Lines,
    /// Whether the program was told that the daemon is gone.
    is_told: AtomicBool,
    /// Queue pair numbers by handle, 0 for none.
    qps: RwLock<Vec<u32>>,
    /// Completion queues by handle.
    cqs: RwLock<HashMap<u32, KnownCq>>,
    /// The same queues, for the copies that are staged for them.
    own_cqs: RwLock<CqSet>,
    /// Indices in the arena of shared receive queues, by handle.
    srqs: RwLock<HashMap<u32, u32>>,
    on_demand: RwLock<OnDemand>,
    /// The function of the context by which queues are polled, once that is hooked.
    own_poll: AtomicUsize,
}

/// A completion queue, and the channel that it reports to.
type KnownCq = (Arc<CqInfo>, Option<Arc<Channel>>);

/// Opens the device; the descriptor also is what the provider maps rings from.
pub(crate) fn open(device: u32, close_on_exec: bool) -> Result<RawFd> {
    let Opened { connection, process, arena_fd, tokens, line, .. } =
        process::open(FileKind::Uverbs(device))?;
    let file = Arc::new(UverbsFile {
        regions: Regions::of(process),
        connection: Mutex::new(connection),
        process,
        device,
        tokens,
        lines: Lines::new(line),
        is_told: AtomicBool::new(false),
        qps: RwLock::default(),
        cqs: RwLock::default(),
        own_cqs: RwLock::default(),
        srqs: RwLock::default(),
        on_demand: RwLock::default(),
        own_poll: AtomicUsize::new(0),
    });
    let fd = process::for_program(arena_fd, close_on_exec)?;
    table::insert(fd, Entry::Uverbs(file));
    Ok(fd)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What there is to trace of a command beside its answer.
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
    let acknowledged = hook::events_acknowledged(cq).unwrap_or(answer.comp_events_reported);
    answer.comp_events_reported.saturating_sub(acknowledged)
}

const NO_CQ: Errno = Errno::ENOENT.because(Refusal::NoObject(ObjectKind::Cq));
const NO_QP: Errno = Errno::ENOENT.because(Refusal::NoObject(ObjectKind::Qp));

impl UverbsFile {
    /// Drops the file in a child of `fork`, except for the tables, as another thread of its parent may have been
    /// changing them.
    pub(crate) fn leave_to_parent(self) {
        std::mem::forget((self.qps, self.cqs, self.srqs));
    }

    /// `write(2)`: one command. What the data path needs is done here, all else by the daemon.
    pub(crate) fn write(self: &Arc<Self>, fd: RawFd, written: &[u8]) -> Result<usize> {
        // The kernel lets only the process that opened the device command it.
        let is_own = self.process.is_current();
        let call = recorded::begin(self.process);
        if call.is_some() && is_own {
            let qps = self.qps.read().unwrap_or_else(PoisonError::into_inner);
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
            _ => return self.forward(fd, written, &command, traced),
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
        let refused = daemon::ask(&lock(&self.connection), &request).err();
        refused.filter(|error| *error == Errno::EIO)
    }

    fn post_send(&self, request: &request::PostSend) -> Result<()> {
        let handle = request.qp_handle as usize;
        let qps = self.qps.read().unwrap_or_else(PoisonError::into_inner);
        let qpn = qps.get(handle).copied().filter(|qpn| *qpn != 0).ok_or(NO_QP)?;
        drop(qps);
        if strict::is_on() {
            return self.process.actor().strict_doorbell(qpn);
        }
        self.process.actor().doorbell(qpn)
    }

    fn req_notify(&self, request: &request::ReqNotifyCq) -> Result<()> {
        strict::before_arming();
        let cqs = self.cqs.read().unwrap_or_else(PoisonError::into_inner);
        let (cq, _) = cqs.get(&request.cq_handle).ok_or(NO_CQ)?;
        ensure(cq.is_live(&self.process.arena), NO_CQ)?;
        share::give_back();
        self.process.actor().arm(cq.index, request.solicited_only != 0);
        strict::owe(&self.process.arena, cq.index);
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
        share::finish();
        let (answer, _unused) = {
            // Until what has changed is noted, no other thread's command may get the handle of what is
            // destroyed, nor destroy a queue whose payloads are being moved.
            let connection = lock(&self.connection);
            self.settle_all();
            let asked = daemon::ask(&connection, &request);
            let (mut answer, fds) = match asked {
                Err(error) if daemon::is_gone(error) => {
                    let bytes = destroyed(command.number).ok_or(error)?;
                    (Answer { bytes, ..Answer::default() }, Vec::new())
                }
                asked => asked?,
            };
            self.settle_all();
            traced.unacknowledged = self.unacknowledged(command);
            let unused = self.note(fd, command, &mut answer, fds, channel.as_ref())?;
            if command.number == command::MODIFY_QP {
                share::borrow_sockets(&connection);
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
                let qps = self.qps.read().unwrap_or_else(PoisonError::into_inner);
                let known = qps.get(request.qp_handle as usize);
                known.map_or(0, |qpn| acknowledged::forget_qp(*qpn))
            }
            command::DESTROY_SRQ => {
                let Ok(request) = command.request::<request::DestroySrq>() else { return 0 };
                let srqs = self.srqs.read().unwrap_or_else(PoisonError::into_inner);
                srqs.get(&request.srq_handle).map_or(0, |index| acknowledged::forget_srq(*index))
            }
            _ => 0,
        }
    }

    /// The program's name for the queue that a command destroys, if it does; 0 for none.
    fn queue_to_destroy(&self, command: &Command<'_>) -> u64 {
        if command.number != command::DESTROY_CQ {
            return 0;
        }
        let cqs = self.cqs.read().unwrap_or_else(PoisonError::into_inner);
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
            share::ask(self.process, &lock(&self.connection));
        }
        let cqs = self.cqs.read().unwrap_or_else(PoisonError::into_inner);
        let hook = |handle: u32| {
            let (cq, _) = cqs.get(&handle)?;
            // The lock keeps the queue from being destroyed meanwhile.
            let hook = || {
                let is_hooked = hook::hook(cq.user_handle as usize, cq.as_hooked());
                note(Note::Hooked(is_hooked));
                is_hooked
            };
            cq.is_hooked.get_or_init(hook).then_some(cq)
        };
        if let Some(cq) = hook(receives) {
            self.process.actor().poll_eagerly(cq.index, cq.generation);
        }
        hook(sends);
    }

    /// Brings all payloads that are staged for this file's queues to their places. A command may end
    /// what they are for: before it their regions are there still, and when it is done the memory is
    /// the program's again.
    fn settle_all(&self) {
        let own = self.own_cqs.read().unwrap_or_else(PoisonError::into_inner);
        self.process.actor().settle_all(&own);
    }

    /// Takes note of what a command has created or destroyed, and puts into the answer what only
    /// this process knows. Gives the channel of a queue that is destroyed: it may end with that, for
    /// which it has to ask the daemon, as the caller does at this moment.
    fn note(
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
                self.process.env.remember_channel(index, generation, Arc::clone(&tokens));
                let channel = Channel {
                    id,
                    file: Arc::downgrade(self),
                    process: self.process,
                    line: self.lines.with_room()?,
                    tokens,
                    queues: Mutex::default(),
                };
                let Channel { tokens, line, .. } = &channel;
                let fd = tokens::for_program(tokens.as_fd(), line.as_fd(), true, false)?;
                table::insert(fd, Entry::Channel(Arc::new(channel)));
                answer.bytes = answer::CreateCompChannel { fd }.to_bytes();
            }
            Some(Created::Cq { handle, index, generation }) => {
                let user_handle = match command.number {
                    command::CREATE_CQ => command.request::<request::CreateCq>()?.user_handle,
                    _ => command.request::<request::ExCreateCq>()?.user_handle,
                };
                let info = Arc::new(CqInfo {
                    index,
                    generation,
                    user_handle,
                    is_hooked: OnceLock::new(),
                    events_read: AtomicU32::new(0),
                });
                if config::is_hooked() {
                    hook::watch(user_handle as usize, info.as_hooked(), fd, &self.own_poll);
                }
                if let Some(channel) = channel {
                    lock(&channel.queues).push(Arc::clone(&info));
                }
                let mut own = self.own_cqs.write().unwrap_or_else(PoisonError::into_inner);
                own.insert(index, generation);
                let mut cqs = self.cqs.write().unwrap_or_else(PoisonError::into_inner);
                cqs.insert(handle, (info, channel.cloned()));
            }
            Some(Created::Qp { handle, qpn }) => {
                let qpn = qpn.into();
                if !strict::is_on() {
                    doorbell::remember(fd, handle, qpn);
                }
                let mut qps = self.qps.write().unwrap_or_else(PoisonError::into_inner);
                let handle = handle as usize;
                if qps.len() <= handle {
                    qps.resize(handle + 1, 0);
                }
                qps[handle] = qpn;
            }
            Some(Created::File { .. }) | None => {}
        }
        match command.number {
            command::GET_CONTEXT => {
                let line = self.lines.own();
                let fd = tokens::for_program(self.tokens.as_fd(), line.as_fd(), true, false)?;
                table::insert(fd, Entry::Async(Arc::downgrade(self)));
                let mut context: answer::GetContext = read(&answer.bytes)?;
                context.async_fd = fd;
                answer.bytes = context.to_bytes();
            }
            command::DESTROY_CQ => {
                let handle = command.request::<request::DestroyCq>()?.cq_handle;
                let mut destroyed: answer::DestroyCq = read(&answer.bytes)?;
                let removed =
                    self.cqs.write().unwrap_or_else(PoisonError::into_inner).remove(&handle);
                if let Some((info, channel)) = removed {
                    let mut own = self.own_cqs.write().unwrap_or_else(PoisonError::into_inner);
                    own.remove(info.index);
                    hook::forget(info.user_handle as usize);
                    acknowledged::forget(info.index);
                    destroyed.comp_events_reported = info.events_read.load(Acquire);
                    answer.bytes = destroyed.to_bytes();
                    if let Some(channel) = &channel {
                        channel.forget(info.index);
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
            }
            command::CREATE_SRQ => {
                let created = answer::CreateSrq::read_from_prefix(&answer.bytes);
                let (created, _) = created.map_err(|_| Errno::EIO)?;
                let mut srqs = self.srqs.write().unwrap_or_else(PoisonError::into_inner);
                // Their numbers begin with 1.
                srqs.insert(created.srq_handle, created.srqn.wrapping_sub(1));
            }
            command::DESTROY_SRQ => {
                let handle = command.request::<request::DestroySrq>()?.srq_handle;
                let mut srqs = self.srqs.write().unwrap_or_else(PoisonError::into_inner);
                if let Some(index) = srqs.remove(&handle) {
                    receives::forget(self.process, ReceiveQueue::Shared(index));
                }
            }
            command::DESTROY_QP => {
                let handle = command.request::<request::DestroyQp>()?.qp_handle;
                let mut qps = self.qps.write().unwrap_or_else(PoisonError::into_inner);
                if let Some(qpn) = qps.get_mut(handle as usize) {
                    doorbell::forget(handle, *qpn);
                    self.forget_requests(*qpn);
                    *qpn = 0;
                }
            }
            command::MODIFY_QP => {
                let request: request::ModifyQp = command.request()?;
                let given = QpAttrMask::from_bits_retain(request.attr_mask);
                let is_reset = u32::from(request.qp_state) == state::RESET;
                if given.contains(QpAttrMask::STATE) && is_reset {
                    let qps = self.qps.read().unwrap_or_else(PoisonError::into_inner);
                    qps.get(request.qp_handle as usize)
                        .copied()
                        .into_iter()
                        .for_each(|qpn| self.forget_requests(qpn));
                }
            }
            _ => {}
        }
        Ok(unused)
    }

    /// Forgets the requests of a queue pair that is reset, or gone: none of them will be executed.
    fn forget_requests(&self, qpn: u32) {
        buffers::forget(qpn);
        receives::forget(self.process, ReceiveQueue::Own(qpn));
    }

    /// Has [`strict`] take note of a command, for which it needs what the handles in it are.
    #[cold]
    fn note_strictly(&self, command: &Command<'_>, answer: &mut Answer) -> Result<()> {
        let qpn = |handle: u32| {
            let qps = self.qps.read().unwrap_or_else(PoisonError::into_inner);
            qps.get(handle as usize).copied().unwrap_or(0)
        };
        let cq = |handle: u32| {
            let cqs = self.cqs.read().unwrap_or_else(PoisonError::into_inner);
            cqs.get(&handle).map(|(cq, _)| cq.index)
        };
        let srq = |handle: u32| {
            let srqs = self.srqs.read().unwrap_or_else(PoisonError::into_inner);
            srqs.get(&handle).copied()
        };
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

    /// Tells the daemon that a channel is not needed any more.
    pub(crate) fn close_channel(&self, channel: ChannelId) {
        let request = Request::CloseChannel(channel);
        // A daemon that has gone has nothing to free.
        put_off(|| lock(&self.connection).send(&request.encode(), &[])).ok();
    }

    /// `read(2)` on the descriptor for asynchronous events.
    pub(crate) fn read_async(&self, fd: RawFd, buffer: &mut [u8]) -> Result<Outcome> {
        acknowledged::asks();
        match daemon::ask(&lock(&self.connection), &Request::PopEvent) {
            Ok((reply, _)) => {
                let room = buffer.get_mut(..reply.bytes.len()).ok_or(Errno::EINVAL)?;
                room.copy_from_slice(&reply.bytes);
                let srqs = self.srqs.read().unwrap_or_else(PoisonError::into_inner);
                let srq = |handle| srqs.get(&handle).copied();
                acknowledged::taken_asynchronously(&reply.bytes, srq);
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

/// Index in the arena of the shared receive queue that has a handle in a device file.
pub(crate) fn srq_index(fd: RawFd, handle: u32) -> Option<u32> {
    let Some(Entry::Uverbs(file)) = table::get(fd) else { return None };
    let srqs = file.srqs.read().unwrap_or_else(PoisonError::into_inner);
    srqs.get(&handle).copied()
}

/// The daemon's answer as what it has to be.
fn read<A: FromBytes>(bytes: &[u8]) -> Result<A> {
    A::read_from_bytes(bytes).map_err(|_| Errno::EIO)
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
