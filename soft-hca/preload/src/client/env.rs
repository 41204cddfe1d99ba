//! The data path's environment in a program's process.
#![allow(unsafe_code, reason = "the system call itself, which no program's write replaces")]

use std::collections::HashMap;
use std::fmt;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering::Acquire;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use soft_hca_core::arena::Mapping;
use soft_hca_core::config;
use soft_hca_core::engine::{Async, Env};
use soft_hca_core::errno::Errno;
use soft_hca_core::rpc::{ChannelId, Connection, Request};
use soft_hca_core::system;
use soft_hca_core::trace::event::{SendPosted, TracedSge};
use soft_hca_core::trace::{Event, Recorder};
use soft_hca_core::uapi::verbs::Qpn;

use crate::client::cancel::put_off;
use crate::client::{buffers, daemon};

/// The port to other hosts, as far as this process runs it.
pub(crate) trait OwnPort: fmt::Debug + Sync {
    /// A queue pair with a peer on another host was posted to. False if that is for the daemon to know.
    fn posted(&self, qpn: u32) -> bool;
}

/// Event descriptors of channels, and a connection to the daemon for what is not a command.
#[derive(Debug)]
pub(crate) struct ClientEnv {
    arena: Arc<Mapping>,
    channels: RwLock<HashMap<u32, (u32, Arc<OwnedFd>)>>,
    control: Mutex<Option<Connection>>,
    /// Wakes the link to other hosts.
    doorbell: Option<OwnedFd>,
    /// The server of queue pairs with peers on other hosts in this process, once it has asked for one.
    port: OnceLock<&'static dyn OwnPort>,
    /// Where this process traces what happens.
    pub recorder: Recorder,
}

impl ClientEnv {
    /// For the process with an index in a fabric with this arena, and what the fabric's link to
    /// other hosts is woken by, if it has one.
    pub(crate) fn new(arena: Arc<Mapping>, index: usize, doorbell: Option<OwnedFd>) -> Self {
        let dir = config::fabric_dir_of_program();
        let recorder = Recorder::new(Arc::clone(&arena), dir, index);
        Self {
            arena,
            channels: RwLock::default(),
            control: Mutex::default(),
            doorbell,
            port: OnceLock::new(),
            recorder,
        }
    }

    /// Does something with the control connection; without one, or if it fails, nothing happens.
    fn with_control<T>(&self, f: impl FnOnce(&Connection) -> Option<T>) -> Option<T> {
        put_off(|| {
            let mut control = self.control.lock().unwrap_or_else(PoisonError::into_inner);
            if control.is_none() {
                *control = Some(daemon::observe().ok()?);
            }
            f(control.as_ref()?)
        })
    }

    /// Sends what is not answered.
    pub(crate) fn tell(&self, request: &Request) {
        self.with_control(|control| control.send(&request.encode(), &[]).ok());
    }

    /// Sends what is answered with nothing, and waits for that.
    pub(crate) fn ask(&self, request: &Request) {
        self.with_control(|control| daemon::ask(control, request).ok());
    }

    /// A descriptor that hangs up when the daemon is gone.
    pub(crate) fn daemon(&self) -> Option<OwnedFd> {
        self.with_control(|control| control.fd.try_clone().ok()).map(system::hide)
    }

    /// Has queue pairs with peers on other hosts served in this process.
    pub(crate) fn serve_by(&self, port: &'static dyn OwnPort) {
        // There is one as long as the process lives.
        let _ = self.port.set(port);
    }

    /// Has the link's thread look at a queue pair.
    pub(crate) fn tell_link(&self, qpn: u32) {
        if self.arena.link_doorbell(qpn) {
            if let Some(doorbell) = &self.doorbell {
                add_token(doorbell);
            }
        }
    }

    /// Remembers the event descriptor of a channel, and no longer those of channels that are gone.
    pub(crate) fn remember_channel(&self, index: u32, generation: u32, fd: Arc<OwnedFd>) {
        let is_live = |index: u32, generation: u32| {
            let channel = self.arena.channels.get(index as usize);
            channel.is_some_and(|channel| channel.live.load(Acquire) == generation)
        };
        let mut channels = self.channels.write().unwrap_or_else(PoisonError::into_inner);
        channels.retain(|index, (generation, _)| is_live(*index, *generation));
        channels.insert(index, (generation, fd));
    }

    /// Forgets a channel that this process has closed.
    pub(crate) fn forget_channel(&self, index: u32, generation: u32) {
        let mut channels = self.channels.write().unwrap_or_else(PoisonError::into_inner);
        if channels.get(&index).is_some_and(|(known, _)| *known == generation) {
            channels.remove(&index);
        }
    }

    /// Adds a token to a known channel; false if it is not known.
    fn wake_known(&self, index: u32, generation: u32) -> bool {
        let channels = self.channels.read().unwrap_or_else(PoisonError::into_inner);
        let Some((known, fd)) = channels.get(&index) else { return false };
        if *known != generation {
            return false;
        }
        add_token(fd);
        true
    }
}

/// Adds a token to an event descriptor.
fn add_token(fd: &OwnedFd) {
    let token = 1u64;
    // The system call itself, so that it is nobody's `write` but the kernel's.
    // SAFETY: `token` has the eight bytes that are written and outlives the call.
    unsafe { libc::syscall(libc::SYS_write, fd.as_raw_fd(), &raw const token, 8) };
}

impl Env for ClientEnv {
    fn now_ns(&self) -> u64 {
        system::now_ns()
    }

    fn wake_channel(&self, channel: u32, generation: u32) {
        if self.wake_known(channel, generation) {
            return;
        }
        let fd = self.with_control(|control| {
            let id = ChannelId { index: channel, generation };
            daemon::ask(control, &Request::ChannelFd(id)).ok()?.1.pop()
        });
        if let Some(fd) = fd {
            self.remember_channel(channel, generation, Arc::new(system::hide(fd)));
            self.wake_known(channel, generation);
        }
    }

    fn reschedule(&self, qpn: u32, after_ns: u64) {
        self.tell(&Request::Kick(Qpn::new(qpn), after_ns));
    }

    fn link_doorbell(&self, qpn: u32) {
        if !self.port.get().is_some_and(|port| port.posted(qpn)) {
            self.tell_link(qpn);
        }
    }

    fn link_looks(&self, qpn: u32) {
        self.tell_link(qpn);
    }

    fn is_daemon_gone(&self) -> bool {
        // A backlog that is full has a daemon behind it.
        put_off(|| {
            daemon::connect()
                .is_err_and(|error| [Errno::ECONNREFUSED, Errno::ENOENT].contains(&error))
        })
    }

    fn send_posted(&self, posted: &SendPosted, list: &[TracedSge]) {
        buffers::posted(&self.arena, &self.recorder, posted, list);
    }

    fn trace(&self, proc: u32, event: &Event, tail: &[u8]) {
        self.recorder.trace(proc, event, tail);
    }

    fn trace_at(&self, t: u64, proc: u32, event: &Event, tail: &[u8]) {
        self.recorder.trace_at(t, proc, event, tail);
    }

    fn raise(&self, what: Async) {
        self.tell(&Request::Raise(what));
    }
}
