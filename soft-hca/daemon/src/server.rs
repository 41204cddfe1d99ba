//! The loop: connections, requests and timers, in one thread.

mod changes;

use std::collections::BTreeSet;
use std::io::{self, Seek, Write};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};

use soft_hca_core::config::{self, LinkOptions, SOCKET};
use soft_hca_core::device_spec::{DeviceSet, DeviceSpec};
use soft_hca_core::engine::{DAEMON, Quiesce};
use soft_hca_core::errno::{Errno, Result, ensure};
use soft_hca_core::rpc::{
    Answer, ChannelId, Connection, Created, FileKind, Hello, Listener, Reply, Request,
};
use soft_hca_core::system;
use soft_hca_core::trace::{MAX_LIMIT, MIN_LIMIT, Recorder, event};
use soft_hca_core::uapi;
use soft_hca_core::uapi::ucma::{Command, command as ucma_command};
use soft_hca_core::uapi::uverbs::command as uverbs_command;
use soft_hca_core::uapi::verbs::state;
use soft_hca_fault::Happened;
use zerocopy::IntoBytes;

use crate::counter_files::CounterFiles;
use crate::deadlines::Deadlines;
use crate::deferred::{Answered, Deferred, DeferredCommands};
use crate::device::{self, Device};
use crate::event_fd::EventFd;
use crate::fabric::Fabric;
use crate::files::{self, File, Files};
use crate::link::ReceivedMad;
use crate::poller::{Poller, Ready};
use crate::uverbs::UverbsFile;
use crate::{link, listing, ucma};

use changes::Change;

/// What the daemon serves.
#[derive(Clone, Debug)]
pub struct Config {
    /// The fabric's runtime folder; the socket is in it.
    pub dir: PathBuf,
    /// The devices, at least one.
    pub devices: Vec<DeviceSpec>,
    /// The link to other hosts, if there is to be one.
    pub link: Option<LinkOptions>,
}

/// Why a daemon could not start or go on.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
pub struct Error {
    what: String,
    source: io::Error,
}

fn because(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    |source| Error { what: what.into(), source }
}

/// How often receives that are posted to queue pairs in the error state are looked for, in
/// nanoseconds: no doorbell tells of them.
const ERROR_SWEEP_NS: u64 = 20_000_000;

/// The place of the device that the link belongs to.
const LINK_DEVICE: usize = 0;

/// How long the daemon waits before it looks again whether a dead process owes a token.
const TOKEN_SWEEP_NS: u64 = 5_000_000;

/// Serves a fabric until its last client has gone.
pub fn run(config: &Config, ready: impl FnOnce()) -> std::result::Result<(), Error> {
    let path = config.dir.join(SOCKET);
    let listener =
        Listener::bind(&path).map_err(because(format!("cannot listen at {}", path.display())))?;
    let addresses = link::link_addresses(config.link.as_ref());
    let devices = device::devices(&config.devices, device::node_guid(&config.dir), &addresses);
    let devices = devices.into_iter().map(Arc::new).collect();
    let mut daemon = Daemon::new(devices, system::random())?;
    daemon.dir.clone_from(&config.dir);
    // Before there is another thread.
    daemon.start_counters()?;
    let arena = Arc::clone(&daemon.fabric.arena);
    daemon.fabric.env.set_recorder(Recorder::new(arena, Some(config.dir.clone()), DAEMON));
    system::allow_peers();
    let _helper = daemon.fabric.start_helper().map_err(because("cannot start a thread"))?;
    daemon
        .poller
        .add(&listener, Ready::Listener)
        .map_err(because("cannot wait for connections"))?;
    let link = config.link.as_ref().and_then(|wanted| daemon.start_link(wanted, &addresses));
    if let Some(notice) = daemon.fabric.roce.notice() {
        let added = daemon.poller.add(notice, Ready::Link);
        added.map_err(because("cannot wait for the link"))?;
    }
    ready();
    let outcome = daemon.serve(&listener);
    // Who finds no socket finds every packet in the link's recording.
    drop(link);
    let _ = std::fs::remove_file(&path);
    outcome.map_err(because("cannot wait for events"))
}

/// What has become of a request.
enum Handled {
    /// It has no answer.
    Silently,
    Answered(Answered),
    /// It is answered when nobody uses the memory any more that it is about.
    Soon(Answered, Quiesce),
}

pub(crate) struct Daemon {
    poller: Poller<Ready>,
    /// The fabric's folder.
    dir: PathBuf,
    pub(crate) fabric: Fabric,
    pub(crate) files: Files,
    pub(crate) cm: ucma::Cm,
    /// Queue pairs whose send queues are to be run again.
    rescheduled: Deadlines<u32>,
    /// Channels, index and generation, that somebody who has died may owe a token.
    missing_tokens: Deadlines<(u32, u32)>,
    /// What waits for a lock.
    deferred: DeferredCommands,
    /// What is to become of ports and devices.
    changes: Deadlines<Change>,
    /// The files of counters; none before the daemon runs.
    counters: Option<CounterFiles>,
    /// Queue pairs in the error state. Who puts one there reschedules it.
    failed: BTreeSet<u32>,
    next_sweep_ns: u64,
    /// The connection for which the fabric is recorded.
    recorder: Option<u32>,
    /// Number of the last recording.
    recordings: u32,
    /// Somebody has been here; with the last one the daemon ends.
    has_served: bool,
}

impl Daemon {
    pub(crate) fn new(
        devices: Vec<Arc<Device>>,
        identity: u64,
    ) -> std::result::Result<Self, Error> {
        Ok(Self {
            poller: Poller::new().map_err(because("cannot wait for events"))?,
            dir: PathBuf::new(),
            fabric: Fabric::new(devices, identity).map_err(because("cannot create the arena"))?,
            files: Files::default(),
            cm: ucma::Cm::new(),
            rescheduled: Deadlines::default(),
            missing_tokens: Deadlines::default(),
            deferred: DeferredCommands::default(),
            changes: Deadlines::default(),
            counters: None,
            failed: BTreeSet::new(),
            next_sweep_ns: 0,
            recorder: None,
            recordings: 0,
            has_served: false,
        })
    }

    /// From now on files of counters have their values when they are opened.
    fn start_counters(&mut self) -> std::result::Result<(), Error> {
        let counters = CounterFiles::new().and_then(|counters| {
            self.poller.add(counters.notices(), Ready::Counters)?;
            Ok(counters)
        });
        self.counters = Some(counters.map_err(because("cannot wait for readers of counters"))?);
        self.adopt_counters();
        Ok(())
    }

    pub(super) fn adopt_counters(&mut self) {
        if let Some(counters) = &mut self.counters {
            counters.adopt(&self.dir, &self.fabric);
        }
    }

    /// Starts the link to other hosts, and writes down for `soft-hca run` what has become of it.
    fn start_link(&mut self, wanted: &LinkOptions, addresses: &[IpAddr]) -> Option<link::Thread> {
        let started = self.fabric.start_link(wanted);
        let reason = match &started {
            Ok(_) => {
                self.fabric.roce.describe().iter().for_each(|line| tracing::info!("{line}"));
                String::new()
            }
            Err(error) => {
                tracing::warn!("no link to other hosts: {error}");
                error.to_string()
            }
        };
        let addresses: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
        let said = format!("{reason}\n{}\n{}", wanted.extras(), addresses.join(","));
        if let Err(error) = std::fs::write(self.dir.join(config::LINK), said) {
            tracing::warn!("cannot write down whether there is a link: {error}");
        }
        started.ok()
    }

    fn serve(&mut self, listener: &Listener) -> io::Result<()> {
        while !(self.has_served && self.files.is_empty() && !self.cm.awaits_drep()) {
            let deadline = self.next_deadline();
            for ready in self.poller.wait(deadline)? {
                match ready {
                    Ready::Listener => {
                        if let Ok(connection) = listener.accept() {
                            self.admit(connection);
                        }
                    }
                    Ready::File(token) => self.request(token),
                    Ready::Process(index) => self.process_ended(index),
                    Ready::Link => self.hear_link(),
                    Ready::Counters => {
                        if let Some(counters) = &mut self.counters {
                            counters.serve(&self.fabric);
                        }
                    }
                }
            }
            self.run_timers();
            self.settle();
        }
        Ok(())
    }

    /// `CLOCK_MONOTONIC` nanoseconds of the next thing to do without being asked.
    fn next_deadline(&self) -> Option<u64> {
        let sweep = (!self.failed.is_empty()).then_some(self.next_sweep_ns);
        let timers = [
            self.cm.next_timer(),
            self.rescheduled.next(),
            self.missing_tokens.next(),
            sweep,
            self.deferred.next(),
            self.changes.next(),
            self.counters.as_ref().and_then(CounterFiles::next),
        ];
        timers.into_iter().flatten().min()
    }

    /// Whether there is a queue pair with this number in the error state.
    fn has_failed(&self, qpn: u32) -> bool {
        self.fabric.arena.qp(qpn).is_some_and(|qp| qp.state.load(Relaxed) == state::ERR)
    }

    /// A client has connected.
    pub(crate) fn admit(&mut self, connection: Connection) -> u32 {
        let token = self.files.insert(connection);
        self.has_served = true;
        if let Some(fd) = self.files.fd(token) {
            if self.poller.add(fd, Ready::File(token)).is_err() {
                self.close(token);
            }
        }
        token
    }

    /// One message of a client.
    pub(crate) fn request(&mut self, token: u32) {
        let Some(connection) = self.files.connection(token) else { return };
        let message = match connection.receive() {
            Ok((message, _)) if !message.is_empty() => message,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            _ => return self.close(token),
        };
        self.run_command(Deferred::Message(token, message), None);
    }

    /// Executes a command, or defers it while somebody else has a lock that it needs; `waited` says
    /// how long it was deferred last.
    fn run_command(&mut self, command: Deferred, waited: Option<u64>) {
        let unfinished = match command {
            Deferred::Message(token, message) => self.message(token, message),
            Deferred::Answer(token, answered, mut quiesce) => {
                if self.fabric.actor().is_quiet(&mut quiesce) {
                    self.answer(token, answered);
                    None
                } else {
                    Some(Deferred::Answer(token, answered, quiesce))
                }
            }
            Deferred::Close(mut file) => match file.close(&mut self.fabric) {
                Ok(()) => {
                    self.close_process(file.proc);
                    None
                }
                Err(_) => Some(Deferred::Close(file)),
            },
            Deferred::Reap(index) => self.reap(index),
            Deferred::Remove(token, quiesce) => self.remove_from(token, quiesce),
        };
        match unfinished {
            // A file has one command at a time; one that sends two is closed.
            Some(Deferred::Message(token, _) | Deferred::Answer(token, ..))
                if self.deferred.has(token) =>
            {
                self.close(token);
            }
            Some(command) => self.deferred.add(command, waited, system::now_ns()),
            None => {}
        }
    }

    fn message(&mut self, token: u32, message: Vec<u8>) -> Option<Deferred> {
        let outcome = Request::decode(&message).and_then(|request| self.handle(token, request));
        match outcome {
            Ok(Handled::Silently) => {}
            Ok(Handled::Answered(answered)) => self.answer(token, answered),
            Ok(Handled::Soon(answered, quiesce)) => {
                return Some(Deferred::Answer(token, answered, quiesce));
            }
            Err(error) if error == Errno::ERESTART => {
                return Some(Deferred::Message(token, message));
            }
            Err(error) => {
                self.log_refusal(token, &message, error);
                self.answer(token, Err(error).into());
            }
        }
        None
    }

    fn answer(&mut self, token: u32, answered: Answered) {
        // What a command has set off, such as events of the connection manager, is there when
        // the program sees the answer.
        self.settle();
        let Some(connection) = self.files.connection(token) else { return };
        let fds: Vec<_> = answered.fds.iter().map(AsFd::as_fd).collect();
        if connection.send(&Reply(answered.answer).encode(), &fds).is_err() {
            self.close(token);
        }
    }

    /// Does what a request asks for; `ERESTART`, and nothing is done, if a lock is missing.
    fn handle(&mut self, token: u32, request: Request) -> Result<Handled> {
        match request {
            Request::Hello(hello) => self.hello(token, &hello).map(Handled::Answered),
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
                if self.fabric.arena.qp(qpn).is_some() {
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
            Request::Raise(what) => {
                files::raise(&mut self.files, &self.fabric, what);
                Ok(Handled::Silently)
            }
            Request::Fault(fault) => {
                if let Some(File::Bystander { pid, .. }) = self.files.get(token) {
                    let Happened { call, specs, outcome } = fault;
                    let outcome = if outcome.is_empty() { "0".into() } else { outcome };
                    tracing::info!(pid, "{call}: {outcome}, a fault that was asked for: {specs}");
                    self.device_faults(&specs)?;
                }
                Ok(Handled::Answered(Answered::default()))
            }
            Request::Record { limit, only_failures } => {
                let number = self.record(token, limit, only_failures)?;
                Ok(Handled::Answered(Ok(number.to_le_bytes().to_vec().into()).into()))
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
                written.map_err(|_| Errno::EIO.because("a tree of sysfs cannot be changed"))?;
                self.adopt_counters();
                Ok(Handled::Answered(Answered::default()))
            }
            Request::List => {
                let text = listing::text(&self.fabric, &self.files, &self.cm);
                // It may be longer than a message.
                let written = system::memory_file(c"listing").and_then(|mut file| {
                    file.write_all(text.as_bytes()).and_then(|()| file.rewind()).map(|()| file)
                });
                let fds = vec![written.map_err(|_| Errno::ENOMEM)?.into()];
                Ok(Handled::Answered(Answered { fds, ..Answered::default() }))
            }
        }
    }

    /// Records the fabric for as long as a connection lasts.
    fn record(&mut self, token: u32, limit: u64, only_failures: bool) -> Result<u32> {
        const TAKEN: Errno = Errno::EBUSY.because("the fabric is being recorded already");
        const LIMIT: Errno = Errno::EINVAL.because("a record cannot have so few or so many bytes");
        ensure((MIN_LIMIT..=MAX_LIMIT).contains(&limit), LIMIT)?;
        ensure(self.recorder.is_none(), TAKEN)?;
        self.recorder = Some(token);
        self.recordings += 1;
        self.fabric.arena.trace_limit.store(limit, Relaxed);
        self.fabric.arena.trace_failures.store(only_failures.into(), Relaxed);
        self.fabric.arena.trace_generation.store(self.recordings, Release);
        if let Some(recorder) = self.fabric.env.recorder() {
            recorder.prepare();
        }
        Ok(self.recordings)
    }

    /// What a program asks for and does not get. That there is no event yet is nothing to tell.
    fn log_refusal(&self, token: u32, message: &[u8], error: Errno) {
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
        let found = match hello.kind {
            FileKind::Cm(found) => found,
            _ => DeviceSet::ALL,
        };
        // What may fail comes first: a process that counts as opened is closed by its file only.
        let event_fd = EventFd::new().map_err(|_| Errno::ENOMEM)?;
        let arena = self.fabric.arena.file().try_clone_to_owned().map_err(|_| Errno::ENOMEM)?;
        let events = event_fd.try_clone().map_err(|_| Errno::ENOMEM)?;
        let doorbell = self.fabric.roce.doorbell().transpose().map_err(|_| Errno::ENOMEM)?;
        let (proc, is_new) = self.fabric.processes.open(pid, hello).ok_or(Errno::ENOMEM)?;
        let mut refusal = None;
        if is_new {
            self.fabric.announce(proc, pid, hello.nonce_addr, hello.nonce);
            refusal = self.fabric.probe(proc).err();
            if let Some(fd) = self.fabric.processes.pidfd(proc) {
                let _ = self.poller.add(fd, Ready::Process(proc));
            }
            self.fabric.env.remember_process(proc, self.fabric.processes.pidfd_clone(proc));
        }
        let file = match opened {
            Some(device) => {
                let file = Box::new(UverbsFile::new(proc, token, device));
                File::Uverbs { file, event_fd, tokens: 0 }
            }
            None => {
                let file = self.cm.open(proc);
                self.cm.restrict(file, found);
                File::Cm { proc, file, event_fd, tokens: 0 }
            }
        };
        self.files.set(token, file);
        let created = Created::File { process: proc as u32, file: token, refusal };
        let answer = Ok(Answer { created: Some(created), ..Answer::default() });
        let mut fds = vec![arena, events];
        // A program that posts to another host wakes the link by it.
        fds.extend(doorbell);
        Ok(Answered { answer, fds })
    }

    fn command(&mut self, token: u32, out_len: usize, bytes: &[u8]) -> Result<Handled> {
        // MIGRATE_ID names another file by its token; the connection manager has numbers of its
        // own for them.
        let cm_files = self.files.cm_files();
        match self.files.get_mut(token).ok_or(Errno::EBADF.because("the file is closed"))? {
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
            File::New | File::Bystander { .. } => {
                Err(Errno::EINVAL.because("the file is no device"))
            }
        }
    }

    fn pop_event(&mut self, token: u32) -> Option<Vec<u8>> {
        match self.files.get_mut(token)? {
            File::Uverbs { file, .. } => file.pop_async().map(|event| event.as_bytes().to_vec()),
            File::Cm { file, .. } => self.cm.pop_event(*file).map(Vec::from),
            File::New | File::Bystander { .. } => None,
        }
    }

    /// A file was closed, by the program or by its end.
    fn close(&mut self, token: u32) {
        if let Some(fd) = self.files.fd(token) {
            self.poller.remove(fd);
        }
        self.deferred.forget(token);
        if self.recorder == Some(token) {
            self.recorder = None;
            self.fabric.arena.trace_generation.store(0, Release);
        }
        match self.files.remove(token) {
            Some(File::Uverbs { file, .. }) => self.run_command(Deferred::Close(*file), None),
            Some(File::Cm { proc, file, .. }) => {
                let mut host = files::CmHost { fabric: &mut self.fabric };
                self.cm.close(&mut host, file, system::now_ns());
                self.close_process(proc);
            }
            Some(File::New | File::Bystander { .. }) | None => {}
        }
    }

    fn close_process(&mut self, index: usize) {
        if self.fabric.close_process(index) {
            self.run_command(Deferred::Reap(index), None);
        }
    }

    fn process_ended(&mut self, index: usize) {
        if let Some(fd) = self.fabric.processes.pidfd(index) {
            self.poller.remove(fd);
        }
        self.run_command(Deferred::Reap(index), None);
    }

    /// Cleans up behind a process that has ended.
    fn reap(&mut self, index: usize) -> Option<Deferred> {
        let (missing_tokens, is_done) = self.fabric.reap(index);
        for channel in missing_tokens {
            self.missing_tokens.add(channel, 0);
        }
        if !is_done {
            return Some(Deferred::Reap(index));
        }
        // It may have died before it could tell.
        let qps = self.fabric.qps.iter().map(|(_, qp)| qp.qpn);
        self.failed = qps.filter(|qpn| self.has_failed(*qpn)).collect();
        self.fabric.process_ended(index);
        if let Some(recorder) = self.fabric.env.recorder() {
            recorder.append(recorder.about(index as u32), &event::Ended {}.into(), &[]);
        }
        None
    }

    pub(crate) fn run_timers(&mut self) {
        let now = system::now_ns();
        let mut host = files::CmHost { fabric: &mut self.fabric };
        self.cm.run_timers(&mut host, now);
        for qpn in self.rescheduled.due(now) {
            self.fabric.actor().run_send_queue(qpn);
            if self.has_failed(qpn) {
                self.failed.insert(qpn);
            }
        }
        self.run_changes(now);
        if let Some(counters) = &mut self.counters {
            counters.look_again(now, &self.fabric);
        }
        for (command, waited) in self.deferred.due(now) {
            self.run_command(command, Some(waited));
        }
        for channel in self.missing_tokens.due(now) {
            if !self.fabric.give_token(channel) {
                self.missing_tokens.add(channel, now + TOKEN_SWEEP_NS);
            }
        }
        if now >= self.next_sweep_ns && !self.failed.is_empty() {
            self.next_sweep_ns = now + ERROR_SWEEP_NS;
            let mut failed = std::mem::take(&mut self.failed);
            failed.retain(|qpn| self.has_failed(*qpn));
            for qpn in &failed {
                self.fabric.actor().poll_error_receives_of(*qpn);
            }
            self.failed = failed;
        }
    }

    /// Takes what has come from other hosts.
    fn hear_link(&mut self) {
        let now = system::now_ns();
        let received = self.fabric.roce.take_notice();
        // Nobody hears what comes to a device that is removed.
        let is_heard = !self.fabric.is_removed(LINK_DEVICE);
        for ReceivedMad { from, to, mad } in received.into_iter().filter(|_| is_heard) {
            let mut host = files::CmHost { fabric: &mut self.fabric };
            self.cm.receive(&mut host, (from, to), &mad, now);
        }
    }

    /// Brings every event descriptor in line with what is queued behind it.
    pub(crate) fn settle(&mut self) {
        let now = system::now_ns();
        for (qpn, after_ns) in self.fabric.env.take_rescheduled() {
            self.rescheduled.add(qpn, now.saturating_add(after_ns));
        }
        for what in self.fabric.env.take_raised() {
            files::raise(&mut self.files, &self.fabric, what);
        }
        for ucma::Outgoing { from, to, mad } in self.cm.take_messages() {
            self.fabric.roce.send_mad(from, to, &mad);
        }
        self.cm.touched();
        self.files.settle(&self.cm);
    }
}
