//! Calls of a program, traced while its fabric is recorded.

use std::cell::Cell;
use std::os::fd::RawFd;
use std::sync::atomic::Ordering::{Acquire, Release};

use soft_hca_core::engine::ReceiveQueue;
use soft_hca_core::errno::Errno;
use soft_hca_core::rpc::Request;
use soft_hca_core::system;
use soft_hca_core::trace::{About, event};
use soft_hca_core::uapi;
use soft_hca_core::uapi::ucma::abi::EventResp;
use soft_hca_core::uapi::uverbs::command;
use soft_hca_fault::FaultReport;
use zerocopy::{FromBytes, IntoBytes};

use crate::client::files::table::{self, Entry};
use crate::client::process::{self, Process};
use crate::client::{acknowledged, daemon, forked, polled, sanitizer, site};

/// A call that has begun and will be traced.
#[derive(Debug)]
pub(super) struct Pending(About);

/// The traced attributes of a call.
#[derive(Debug)]
pub(super) struct Called<'a> {
    /// Descriptor of the device file.
    pub fd: RawFd,
    /// It is the connection manager's.
    pub is_cm: bool,
    /// The command.
    pub request: &'a [u8],
    /// Its result.
    pub result: Result<&'a [u8], Errno>,
    /// Index in the fabric of the completion queue that it has created.
    pub created: u32,
    /// Events that the library is going to wait for until the program acknowledges them.
    pub unacknowledged: u32,
}

impl Called<'_> {
    /// Whether it tells what later failures are about: which queues and queue pairs there are, their peers,
    /// and what their programs do to them.
    fn is_context(&self) -> bool {
        let number = uapi::command_number(self.request).unwrap_or_default();
        let known = [
            command::CREATE_CQ,
            command::EX_CREATE_CQ,
            command::CREATE_QP,
            command::EX_CREATE_QP,
            command::MODIFY_QP,
            command::DESTROY_QP,
        ];
        !self.is_cm && known.contains(&number)
    }
}

/// A call begins; `None` if nobody records.
pub(super) fn begin(process: &Process) -> Option<Pending> {
    let recorder = &process.env.recorder;
    if !recorder.is_on() {
        return None;
    }
    recorder.prepare();
    polled::over(process);
    if process.is_current() {
        forked::goes_on(process);
    }
    Some(Pending(recorder.about(recorder.index())))
}

impl Pending {
    /// The call is over.
    pub(super) fn end(self, process: &Process, called: &Called<'_>) {
        let (answer, error) = match called.result {
            Ok(answer) => (answer, None),
            Err(error) => (&[][..], Some(error)),
        };
        let recorder = &process.env.recorder;
        let about = match error {
            Some(_) if !recorder.is_complete() => {
                About { site: site::of_failure(process), ..self.0 }
            }
            _ => self.0,
        };
        let is_told = error.is_some() || called.unacknowledged > 0 || called.is_context();
        if !is_told && !recorder.is_complete() {
            return;
        }
        let body = event::Call {
            duration: system::now_ns().saturating_sub(about.t),
            fd: called.fd,
            device: called.is_cm.into(),
            errno: error.map_or(0, Errno::number),
            created: called.created,
            request: called.request.len() as u32,
            answer: answer.len() as u32,
            unacknowledged: called.unacknowledged,
        };
        let why = error.map_or(Vec::new(), Errno::explanation);
        let tail = [called.request, answer, &why];
        recorder.append(about, &body.into(), &tail);
    }

    /// The call has brought an event of the connection manager.
    pub(super) fn end_with_event(self, process: &Process, fd: RawFd, event: &[u8]) {
        let recorder = &process.env.recorder;
        let is_good = || EventResp::read_from_bytes(event).is_ok_and(|event| event.status == 0);
        if !recorder.is_complete() && is_good() {
            return;
        }
        let about = recorder.about(recorder.index());
        recorder.append(about, &event::Connection { fd }.into(), &[event]);
    }
}

/// Receives that are being posted, in a process all of which is recorded.
#[derive(Debug)]
pub(super) struct Posting {
    process: &'static Process,
    queue: ReceiveQueue,
    began: u64,
}

impl Posting {
    /// Receives are about to be posted.
    pub(super) fn begin(process: &'static Process, queue: ReceiveQueue) -> Self {
        polled::over(process);
        // Those that are there were posted when nobody saw it.
        process.actor().trace_posted_receives(queue, None);
        // A message may take them before it is known that they are there.
        Self { process, queue, began: system::now_ns() }
    }

    /// They are posted, as far as there was room.
    pub(super) fn end(self) {
        self.process.actor().trace_posted_receives(self.queue, Some(self.began));
    }
}

/// A fault that was asked for has happened to a call of this process, as
/// [`FaultReport`] has it: a recording and the daemon's log say so.
pub fn fault_happened(text: &[u8]) {
    let Some(report) = FaultReport::decode(text) else { return };
    let request = Request::Fault(report);
    let Some(process) = process::current() else {
        // It has not opened anything yet.
        let _ = daemon::observe().and_then(|to| daemon::ask(&to, &request));
        return;
    };
    let recorder = &process.env.recorder;
    recorder.prepare();
    recorder.append(recorder.about(recorder.index()), &event::Fault {}.into(), &[text]);
    // A device has changed before the call goes on.
    process.env.ask(&request);
}

/// Whether somebody records, all or what goes wrong.
pub(super) fn is_on() -> bool {
    process::current().is_some_and(|process| process.env.recorder.is_on())
}

thread_local! {
    /// The last doorbell of this thread was refused, which was traced.
    static REFUSED: Cell<bool> = const { Cell::new(false) };
}

/// The doorbell of a queue pair is refused: that its work request is, too, says nothing new.
pub(super) fn doorbell_refused() {
    REFUSED.set(true);
}

/// A work request is refused. What its queue has and where it stands is not known yet.
pub(super) fn post_refused(refused: event::PostRefused) {
    let is_known = REFUSED.replace(false) && refused.posts == event::Posts::Send as u32;
    let Some(process) = process::current().filter(|_| !is_known) else { return };
    polled::over(process);
    let recorder = &process.env.recorder;
    recorder.prepare();
    let arena = &process.arena;
    let (place, next, state) = match event::Posts::of(refused.posts) {
        Some(event::Posts::SharedReceive) => {
            let Some(srq) = arena.srqs.get(refused.queue as usize) else { return };
            (&srq.ring, &srq.consumer, 0)
        }
        posts => {
            let Some(qp) = arena.qp(refused.queue) else { return };
            let state = qp.state.load(Acquire);
            match posts {
                Some(event::Posts::Send) => (&qp.sq, &qp.sq_consumer, state),
                _ => (&qp.rq, &qp.rq_consumer, state),
            }
        }
    };
    let (used, room) = arena.posted(place, next);
    let errno = refused.errno.saturating_abs();
    let body = event::PostRefused { errno, used, room, state, ..refused };
    let mut about = recorder.about(recorder.index());
    if !recorder.is_complete() {
        about.site = site::of_failure(process);
    }
    recorder.append(about, &body.into(), &[]);
}

/// Records that this process ends by `exit` with a status: its threads were not killed while they waited.
pub fn exits(status: i32) {
    let Some(process) = process::current() else { return };
    sanitizer::takes(process);
    let recorder = &process.env.recorder;
    if recorder.is_on() {
        polled::over(process);
        let (left, open) = (acknowledged::left(), table::open());
        let body = event::Exits { status, unacknowledged: left.len() as u32 };
        let about = recorder.about(recorder.index());
        recorder.append(about, &body.into(), &[left.as_bytes(), open.as_bytes()]);
    }
}

/// The program acknowledges an event of an id, by the library's name for that. A record has it if another thread
/// waits for it.
pub fn acknowledges(name: u64) {
    let id = acknowledged::acknowledge(name);
    let (Some(id), Some(process)) = (id, process::current()) else { return };
    let recorder = &process.env.recorder;
    if recorder.is_on() {
        recorder.prepare();
        polled::over(process);
        let about = recorder.about(recorder.index());
        recorder.append(about, &event::Acknowledged { id }.into(), &[]);
    }
}

/// A thread that waits for an event.
#[derive(Debug)]
pub struct Waiting {
    process: &'static Process,
    /// Index of the completion channel that it waits at.
    completions: Option<u32>,
    traced: Option<Traced>,
}

/// The event that is traced when it goes on.
#[derive(Debug)]
struct Traced {
    channel: u32,
    fd: RawFd,
    began: u64,
}

/// A thread is about to wait until a descriptor is readable. What it gives is told when the thread
/// goes on.
pub fn wait(fd: RawFd) -> Option<Waiting> {
    let process = process::current()?;
    let mut completions = None;
    let kind = match table::get(fd)? {
        Entry::Channel(channel) => {
            completions = Some(channel.id.index);
            event::Channel::Completion
        }
        Entry::Cm(_) => event::Channel::Connection,
        Entry::Async(_) => event::Channel::Async,
        Entry::Uverbs(_) | Entry::Netlink => return None,
    };
    let recorder = &process.env.recorder;
    let is_told = recorder.is_on() && recorder.is_complete();
    let traced = is_told.then(|| {
        let channel = kind as u32;
        recorder.prepare();
        polled::over(process);
        let about = recorder.about(recorder.index());
        recorder.append(about, &event::Wait { channel, fd }.into(), &[]);
        Traced { channel, fd, began: about.t }
    });
    let waiting = Waiting { process, completions, traced };
    waiting.note(system::now_ns());
    Some(waiting)
}

/// Records that the calling thread has taken an event from a completion channel at once: it has not waited, or has
/// waited elsewhere, by `poll(2)` or the like.
pub(super) fn takes_event(process: &Process, fd: RawFd) {
    let recorder = &process.env.recorder;
    if recorder.is_on() && recorder.is_complete() {
        recorder.prepare();
        polled::over(process);
        let channel = event::Channel::Completion as u32;
        let body = event::Woken { waited: 0, channel, fd, is_event: 1 };
        recorder.append(recorder.about(recorder.index()), &body.into(), &[]);
    }
}

impl Waiting {
    /// Since when the thread waits, 0 for no longer: for `soft-hca ls --why`.
    fn note(&self, since: u64) {
        let channels = &self.process.arena.channels;
        if let Some(channel) = self.completions.and_then(|index| channels.get(index as usize)) {
            channel.waits_since.store(since, Release);
        }
    }

    /// It goes on.
    pub fn ended(self, is_event: bool) {
        self.note(0);
        let Some(Traced { channel, fd, began }) = self.traced else { return };
        let recorder = &self.process.env.recorder;
        let about = recorder.about(recorder.index());
        let waited = about.t.saturating_sub(began);
        let body = event::Woken { waited, channel, fd, is_event: is_event.into() };
        recorder.append(about, &body.into(), &[]);
    }
}
