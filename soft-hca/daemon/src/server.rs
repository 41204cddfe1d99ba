//! The loop: connections, requests and timers, in one thread.

mod changes;
mod daemon;
mod put_off;
mod requests;
mod time;

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;

use soft_hca_core::config::{self, LinkOptions, SOCKET};
use soft_hca_core::device_spec::DeviceSpec;
use soft_hca_core::engine::DAEMON;
use soft_hca_core::errno::Errno;
use soft_hca_core::rpc::{Connection, Listener, Reply, Request};
use soft_hca_core::system;
use soft_hca_core::trace::{Recorder, event};

use crate::counter_files::CounterFiles;
use crate::deferred::{Answered, Deferred};
use crate::device;
use crate::files::{self, File};
use crate::link::ReceivedMad;
use crate::poller::Ready;
use crate::reserve;
use crate::{link, ucma};

use daemon::because;
use requests::Handled;

pub(crate) use daemon::Daemon;
pub use daemon::Error;

/// The daemon's configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// The fabric's runtime folder; the socket is in it.
    pub dir: PathBuf,
    /// The devices, at least one.
    pub devices: Vec<DeviceSpec>,
    /// The link to other hosts, if there is to be one.
    pub link: Option<LinkOptions>,
}

/// How often receives that are posted to queue pairs in the error state are looked for, in
/// nanoseconds: no doorbell tells of them.
const ERROR_SWEEP_NS: u64 = 20_000_000;

/// The place of the device that the link belongs to.
const LINK_DEVICE: usize = 0;

/// How long the daemon waits before it looks again whether a dead process owes a token.
const TOKEN_SWEEP_NS: u64 = 5_000_000;

/// Serves a fabric until its last client has gone. `ready` makes the first connection.
pub fn run(
    config: &Config,
    ready: impl FnOnce() -> io::Result<()>,
) -> std::result::Result<(), Error> {
    let path = config.dir.join(SOCKET);
    let listener =
        Listener::bind(&path).map_err(because(format!("cannot listen at {}", path.display())))?;
    let addresses = link::link_addresses(config.link.as_ref());
    let devices = device::devices(&config.devices, device::node_guid(&config.dir), &addresses);
    let devices = devices.into_iter().map(Arc::new).collect();
    let mut daemon = Daemon::new(devices, system::random)?;
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
    if daemon.fabric.roce.addresses().is_empty() {
        daemon.compute_time();
    }
    if let Err(error) = ready() {
        let _ = std::fs::remove_file(&path);
        return Err(because("cannot tell who waits for the fabric")(error));
    }
    let outcome = daemon.serve(&listener);
    // When the socket is gone, every packet is in the link's recording.
    drop(link);
    let _ = std::fs::remove_file(&path);
    outcome.map_err(because("cannot wait for events"))
}

impl Daemon {
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
                    Ready::Listener => match listener.accept() {
                        Ok(connection) => {
                            self.is_full = false;
                            self.admit(connection);
                        }
                        Err(error) if reserve::is_full(&error) => self.turn_away(listener, &error),
                        Err(_) => {}
                    },
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
            self.send_queued();
        }
        Ok(())
    }

    /// `CLOCK_MONOTONIC` nanoseconds of the next thing to do without being asked.
    fn next_deadline(&self) -> Option<u64> {
        let sweep = (!self.failed.is_empty()).then_some(self.next_sweep_ns);
        let timers = [
            self.cm.next_timer(),
            self.rescheduled.next(),
            self.put_off_deadline(),
            self.missing_tokens.next(),
            sweep,
            self.deferred.next(),
            self.changes.next(),
            self.counters.as_ref().and_then(CounterFiles::next),
        ];
        timers.into_iter().flatten().min()
    }

    /// A client has connected for which there is no descriptor.
    fn turn_away(&mut self, listener: &Listener, error: &io::Error) {
        if !std::mem::replace(&mut self.is_full, true) {
            let limit = reserve::limit();
            tracing::warn!("programs are turned away: {error}, the limit is {limit} (ulimit -n)");
        }
        self.reserve.turn_away(listener);
        // Without other clients the daemon ends.
        self.has_served = true;
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
        // Effects of a command, such as events of the connection manager, are there when
        // the program sees the answer.
        self.send_queued();
        let Some(connection) = self.files.connection(token) else { return };
        let fds: Vec<_> = answered.fds.iter().map(AsFd::as_fd).collect();
        if connection.send(&Reply(answered.answer).encode(), &fds).is_err() {
            self.close(token);
        }
    }

    /// A file was closed, by the program or by its end.
    fn close(&mut self, token: u32) {
        self.put_off.happened();
        if let Some(fd) = self.files.fd(token) {
            self.poller.remove(fd);
        }
        self.deferred.forget(token);
        if self.recorder == Some(token) {
            self.recorder = None;
            self.fabric.arena.end_recording();
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
        self.run_cm_timers(now);
        for qpn in self.rescheduled.due(now) {
            self.run_queue(qpn);
        }
        self.take_rescheduled(now);
        self.run_put_off(now);
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
    pub(crate) fn send_queued(&mut self) {
        self.take_rescheduled(system::now_ns());
        for what in self.fabric.env.take_raised() {
            files::raise(&mut self.files, &self.fabric, what);
        }
        for ucma::Outgoing { from, to, mad } in self.cm.take_messages() {
            self.fabric.roce.send_mad(from, to, &mad);
        }
        self.cm.touched();
        self.files.sync_eventfds(&self.cm);
        self.tell_what_happened();
    }
}
