//! Requests of clients.

use std::io::{Seek, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use soft_hca_core::arena::Scope;
use soft_hca_core::device_spec::DeviceSet;
use soft_hca_core::engine::Quiesce;
use soft_hca_core::errno::{Errno, Refusal, Result, ensure};
use soft_hca_core::rpc::{Answer, ChannelId, Created, FULL, FileKind, Hello, Request};
use soft_hca_core::system;
use soft_hca_core::trace::{MAX_LIMIT, MIN_LIMIT};
use soft_hca_core::uapi;
use soft_hca_core::uapi::ucma::{Command, command as ucma_command};
use soft_hca_core::uapi::uverbs::command as uverbs_command;
use soft_hca_fault::FaultReport;
use zerocopy::IntoBytes;

use super::daemon::{Change, Daemon};
use crate::deferred::Answered;
use crate::event_fd::EventFd;
use crate::files::{self, File};
use crate::link::LeasedSocket;
use crate::poller::Ready;
use crate::reserve::refusal;
use crate::uverbs::UverbsFile;
use crate::{listing, ucma, why};

/// The outcome of a request.
pub(super) enum Handled {
    /// It has no answer.
    Silently,
    Answered(Answered),
    /// It is answered when nobody uses the memory any more that it is about.
    Soon(Answered, Quiesce),
}

/// An answer that may be longer than a message.
fn text(text: &str) -> Result<Handled> {
    let written = system::memory_file(c"listing").and_then(|mut file| {
        file.write_all(text.as_bytes()).and_then(|()| file.rewind()).map(|()| file)
    });
    let fds = vec![written.map_err(|_| Errno::ENOMEM)?.into()];
    Ok(Handled::Answered(Answered { fds, ..Answered::default() }))
}

impl Daemon {
    /// Does what a request asks for; `ERESTART`, and nothing is done, if a lock is missing.
    pub(super) fn handle(&mut self, token: u32, request: Request) -> Result<Handled> {
        match request {
            Request::Hello(hello) => {
                let greeted = self.hello(token, &hello);
                let full = greeted.as_ref().err().filter(|error| **error == FULL);
                if let Some(reason) = full.and_then(|error| error.reason()) {
                    tracing::warn!("a program is turned away: {reason}");
                }
                greeted.map(Handled::Answered)
            }
            Request::Command { out_len, bytes } => self.command(token, out_len as usize, &bytes),
            Request::PopEvent => {
                let bytes = self.pop_event(token).ok_or(Errno::EAGAIN)?;
                Ok(Handled::Answered(Ok(bytes.into()).into()))
            }
            Request::ChannelFd(ChannelId { index, generation }) => {
                let fd = self.fabric.env.channel_fd(index as usize, generation);
                let fds = vec![fd.ok_or(Errno::ENOENT)?];
                Ok(Handled::Answered(Answered { fds, ..Answered::default() }))
            }
            Request::Kick(qpn, after_ns) => {
                let qpn = qpn.into();
                if self.fabric.arena.qp(qpn).is_some() && !self.is_for_later(qpn, after_ns) {
                    self.rescheduled.add(qpn, system::now_ns().saturating_add(after_ns));
                }
                Ok(Handled::Silently)
            }
            Request::CloseChannel(ChannelId { index, generation }) => {
                if let Some(File::Uverbs { file, .. }) = self.files.get_mut(token) {
                    file.close_channel(&mut self.fabric, index as usize, generation);
                }
                Ok(Handled::Silently)
            }
            Request::Pause { until_ns } => {
                self.pause(until_ns);
                Ok(Handled::Silently)
            }
            Request::Raise(what) => {
                files::raise(&mut self.files, &self.fabric, what);
                Ok(Handled::Silently)
            }
            Request::Fault(fault) => {
                if let Some(File::Bystander { pid, .. }) = self.files.get(token) {
                    let FaultReport { call, specs, outcome } = fault;
                    let outcome = if outcome.is_empty() { "0".into() } else { outcome };
                    tracing::info!(pid, "{call}: {outcome}, a fault that was asked for: {specs}");
                    self.device_faults(&specs)?;
                }
                Ok(Handled::Answered(Answered::default()))
            }
            Request::Record { limit, scope } => {
                let number = self.record(token, limit, scope)?;
                Ok(Handled::Answered(Ok(Created::Recording(number).into()).into()))
            }
            Request::Port { device, port, is_up, after_ns } => {
                let device = device as usize;
                self.change(Change::Port { device, number: port, is_up }, after_ns)?;
                Ok(Handled::Answered(Answered::default()))
            }
            Request::Device { device, is_there, after_ns } => {
                let device = device as usize;
                self.change(Change::Device { device, is_there }, after_ns)?;
                Ok(Handled::Answered(Answered::default()))
            }
            Request::Sysfs => {
                let written = self.bring_in_line();
                written.map_err(|_| Errno::EIO.because(Refusal::SysfsTree))?;
                self.adopt_counters();
                Ok(Handled::Answered(Answered::default()))
            }
            Request::PortLease => self.lease(token).map(Handled::Answered),
            Request::Sockets => self.sockets(token).map(Handled::Answered),
            Request::List => text(&listing::text(&self.fabric, &self.files, &self.cm)),
            Request::Why { is_asked } => {
                text(&why::text(&self.fabric, &self.cm, is_asked, system::now_ns()))
            }
        }
    }

    /// Lends a program a lease of the port to other hosts.
    fn lease(&mut self, token: u32) -> Result<Answered> {
        let Some(File::Uverbs { file, .. }) = self.files.get(token) else {
            return Err(Errno::ENOENT.because(Refusal::PortLeaseOfStranger));
        };
        let lease = self.fabric.lend_port(file.proc);
        let lease = lease.ok_or(Errno::ENOENT.because(Refusal::NoPortLeaseLeft))?;
        Ok(Ok(Created::PortLease(lease as u32).into()).into())
    }

    /// Lends it the sockets of its lease.
    fn sockets(&mut self, token: u32) -> Result<Answered> {
        let proc = match self.files.get(token) {
            Some(File::Uverbs { file, .. }) => Some(file.proc),
            _ => None,
        };
        let lease = proc.and_then(|proc| self.fabric.lease_of(proc));
        let sockets = lease.and_then(|lease| self.fabric.roce.lease(lease));
        let sockets = sockets.ok_or(Errno::ENOENT.because(Refusal::NoPortLease))?;
        let parts = sockets.into_iter().map(|LeasedSocket { gid, fd }| (gid, fd));
        let (gids, fds): (Vec<[u8; 16]>, Vec<OwnedFd>) = parts.unzip();
        Ok(Answered { fds, ..Ok(gids.as_flattened().to_vec().into()).into() })
    }

    /// Records the fabric for as long as a connection lasts.
    fn record(&mut self, token: u32, limit: u64, scope: Scope) -> Result<u32> {
        const TAKEN: Errno = Errno::EBUSY.because(Refusal::RecordedAlready);
        const LIMIT: Errno = Errno::EINVAL.because(Refusal::RecordSize);
        ensure((MIN_LIMIT..=MAX_LIMIT).contains(&limit), LIMIT)?;
        ensure(self.recorder.is_none(), TAKEN)?;
        self.recorder = Some(token);
        self.recordings += 1;
        self.fabric.arena.begin_recording(self.recordings, limit, scope);
        if let Some(recorder) = self.fabric.env.recorder() {
            recorder.prepare();
        }
        Ok(self.recordings)
    }

    /// Logs a request of a program that is refused, but for one for an event that has not come yet.
    pub(super) fn log_refusal(&self, token: u32, message: &[u8], error: Errno) {
        let Ok(Request::Command { bytes, .. }) = Request::decode(message) else { return };
        let number = uapi::command_number(&bytes).unwrap_or_default();
        let (proc, name) = match self.files.get(token) {
            Some(File::Uverbs { file, .. }) => (file.proc, uverbs_command::name(number)),
            Some(File::Cm { proc, .. }) if error != Errno::EAGAIN => {
                (*proc, ucma_command::name(number))
            }
            _ => return,
        };
        let pid = self.fabric.processes.pid(proc);
        let name = name.unwrap_or("unknown command");
        debug_assert!(error.reason().is_some(), "{name} is refused: {error:?} for no reason");
        match error.reason() {
            Some(reason) => {
                let values = error.values();
                tracing::info!(pid, number, "{name} is refused: {error:?}, {reason}{values}");
            }
            None => tracing::info!(pid, number, "{name} is refused: {error:?}"),
        }
    }

    fn hello(&mut self, token: u32, hello: &Hello) -> Result<Answered> {
        let connection = self.files.connection(token).ok_or(Errno::EBADF)?;
        let (pid, _) = connection.peer().map_err(|_| Errno::EPERM)?;
        if !self.files.is_new(token) {
            return Err(Errno::EINVAL);
        }
        if matches!(hello.kind, FileKind::Lifeline | FileKind::Observer) {
            self.files.set(token, File::Bystander { pid, kind: hello.kind });
            return Ok(Answered::default());
        }
        let opened = match hello.kind {
            FileKind::Uverbs(index) => Some(self.fabric.present(index as usize)?),
            _ => None,
        };
        let opened = opened.map(Arc::clone);
        let (found, late) = match hello.kind {
            FileKind::Cm { found, late } => (found, late),
            _ => (DeviceSet::ALL, None),
        };
        // Steps that may fail come first: a process that counts as opened is closed by its file only.
        let event_fd = EventFd::new().map_err(refusal)?;
        let arena = self.fabric.arena.file().try_clone_to_owned().map_err(refusal)?;
        let events = event_fd.try_clone().map_err(refusal)?;
        let doorbell = self.fabric.roce.doorbell().transpose().map_err(refusal)?;
        let (proc, is_new) = self.fabric.processes.open(pid, hello).ok_or(Errno::ENOMEM)?;
        let mut refusal = None;
        if is_new {
            self.fabric.announce(proc, pid, hello.nonce_addr, hello.nonce);
            refusal = self.fabric.probe(proc).err();
            if let Some(fd) = self.fabric.processes.pidfd(proc) {
                let _ = self.poller.add(fd, Ready::Process(proc));
            }
            self.fabric.env.remember_process(proc, self.fabric.processes.shared_pidfd(proc));
        }
        let file = match opened {
            Some(device) => {
                let file = Box::new(UverbsFile::new(proc, token, device));
                File::Uverbs { file, event_fd, tokens: 0 }
            }
            None => {
                let file = self.cm.open(proc);
                self.cm.restrict(file, found);
                self.cm.put_off_events(file, late);
                File::Cm { proc, file, event_fd, tokens: 0 }
            }
        };
        self.files.set(token, file);
        let created = Created::File { process: proc as u32, file: token, refusal };
        let answer = Ok(created.into());
        let mut fds = vec![arena, events];
        // A program that posts to another host wakes the link by it.
        fds.extend(doorbell);
        Ok(Answered { answer, fds })
    }

    fn command(&mut self, token: u32, out_len: usize, bytes: &[u8]) -> Result<Handled> {
        // MIGRATE_ID names another file by its token; the connection manager has numbers of its
        // own for them.
        let cm_files = self.files.cm_files();
        self.put_off.happened();
        match self.files.get_mut(token).ok_or(Errno::EBADF.because(Refusal::FileClosed))? {
            File::Uverbs { file, .. } => {
                let outcome = file.command(&mut self.fabric, bytes)?;
                let answer = Ok(Answer { created: outcome.created, bytes: outcome.answer });
                let answered = Answered { answer, fds: outcome.fd.into_iter().collect() };
                Ok(match outcome.quiesce {
                    Some(quiesce) => Handled::Soon(answered, quiesce),
                    None => Handled::Answered(answered),
                })
            }
            File::Cm { file, .. } => {
                let Command { number, payload, .. } = Command::parse(bytes)?;
                let mut payload = payload.to_vec();
                if number == ucma::MIGRATE_ID {
                    files::translate_migration(&mut payload, &cm_files)?;
                }
                let now = system::now_ns();
                let file = *file;
                let mut host = files::CmHost { fabric: &mut self.fabric };
                let bytes = self.cm.command(&mut host, file, number, &payload, out_len, now)?;
                Ok(Handled::Answered(Ok(bytes.into()).into()))
            }
            File::New | File::Bystander { .. } => Err(Errno::EINVAL.because(Refusal::NoDevice)),
        }
    }

    pub(super) fn pop_event(&mut self, token: u32) -> Option<Vec<u8>> {
        match self.files.get_mut(token)? {
            File::Uverbs { file, .. } => file.pop_async().map(|event| event.as_bytes().to_vec()),
            File::Cm { file, .. } => {
                let event = self.cm.pop_event(*file);
                self.cm.note_asked(*file, event.is_none().then(system::now_ns));
                event.map(Vec::from)
            }
            File::New | File::Bystander { .. } => None,
        }
    }
}
