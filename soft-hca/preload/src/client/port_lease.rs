//! This process's lease of the port to other hosts, see [`Running`]: it is run in the program's own calls.
//!
//! The sockets are the daemon's, and nobody else gets the port while a process has one. So a process asks
//! for them when it has a peer on another host, and not before; its children have none; and it gives them up
//! when it finds that the daemon is gone.
#![allow(
    unsafe_code,
    reason = "a static that outlives all threads, and what children of fork inherit"
)]

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::Duration;

use soft_hca_core::arena::PortLease;
use soft_hca_core::port::socket::Socket;
use soft_hca_core::port::{LinkQueuePair, Running};
use soft_hca_core::rpc::{Connection, Created, Request};
use soft_hca_core::system;
use soft_hca_core::uapi::verbs::Qpn;

use crate::client::daemon;
use crate::client::env::OwnPort;
use crate::client::process::Process;

/// How often a process that polls looks whether the daemon is there.
const LOOK_NS: u64 = 10_000_000;
/// How long a thread waits at the port before it leaves that to the daemon.
const LONGEST_WAIT_NS: u64 = 10_000_000;
/// How long a thread sleeps at the port at most.
const SLEEP: Duration = Duration::from_millis(1);
/// Queues that a program arms for each event, at most, if it is to keep the lease meanwhile.
const ARMS_PER_EVENT: u32 = 2;

/// The lease. Never freed: threads may be at it until the very end.
#[derive(Debug)]
struct Own {
    process: &'static Process,
    number: usize,
    /// None without sockets.
    running: Mutex<Option<Running>>,
    /// The sockets that the daemon has lent, once it was asked for them.
    lent: OnceLock<LeasedSockets>,
    /// Queue pairs that were posted to, for whoever has `running` or has it next.
    posted: Mutex<Vec<u32>>,
    /// When to look whether the daemon is there.
    look_at: AtomicU64,
    /// How many more queues may be armed before the lease is given back: not 0 in a program that has waited at the port.
    arms: AtomicU32,
    /// Whether it has, and has not left that to the daemon since.
    waits: AtomicBool,
}

/// Sockets, and by what it shows that their owner is gone.
#[derive(Debug, Default)]
struct LeasedSockets {
    /// The descriptors, which are open as long as `is_open` says so.
    sockets: Vec<RawFd>,
    is_open: AtomicBool,
    /// Hangs up with the daemon.
    daemon: Option<OwnedFd>,
}

static OWN: AtomicPtr<Own> = AtomicPtr::new(ptr::null_mut());

/// The process that has asked for a lease: its index + 1.
static ASKED: AtomicUsize = AtomicUsize::new(0);

/// The lease, if there are queue pairs with peers on other hosts, or have been.
fn own() -> Option<&'static Own> {
    // SAFETY: the pointer is null, or `ask` has leaked what it points to.
    let own = unsafe { OWN.load(Acquire).as_ref() }?;
    own.is_in_use().then_some(own)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks for a lease, once in a process's life. There is none without a link, and for those that come late.
pub(crate) fn ask(process: &'static Process, connection: &Connection) {
    if ASKED.swap(process.index + 1, AcqRel) == process.index + 1 {
        return;
    }
    let Ok((answer, _)) = daemon::ask(connection, &Request::PortLease) else { return };
    let Some(Created::PortLease(number)) = answer.created else { return };
    let own = Own {
        process,
        number: number as usize,
        running: Mutex::default(),
        lent: OnceLock::new(),
        posted: Mutex::default(),
        look_at: AtomicU64::new(0),
        arms: AtomicU32::new(0),
        waits: AtomicBool::new(false),
    };
    let own: &Own = Box::leak(Box::new(own));
    process.env.serve_by(own);
    OWN.store(ptr::from_ref(own).cast_mut(), Release);
}

/// A queue pair may have come to have a peer on another host: then asks for the sockets, once.
pub(crate) fn borrow_sockets(connection: &Connection) {
    let Some(own) = own() else { return };
    if own.lent.get().is_some() {
        return;
    }
    let mut running = lock(&own.running);
    own.lent.get_or_init(|| {
        let sockets = ask_for_sockets(connection).unwrap_or_default();
        // By a connection that is the process's, and none of a file that may be closed.
        let daemon = own.process.env.daemon();
        if sockets.is_empty() || daemon.is_none() {
            return LeasedSockets::default();
        }
        let fds = sockets.iter().map(|socket| socket.as_udp().as_raw_fd()).collect();
        *running = Some(Running::new(Arc::clone(&own.process.arena), own.number, sockets));
        LeasedSockets { sockets: fds, is_open: AtomicBool::new(true), daemon }
    });
}

fn ask_for_sockets(connection: &Connection) -> Option<Vec<Socket>> {
    let (answer, fds) = daemon::ask(connection, &Request::Sockets).ok()?;
    let gids = &answer.bytes;
    let bound = |(gid, fd): (&[u8], OwnedFd)| Socket::lent(gid.try_into().ok()?, system::hide(fd));
    let sockets: Option<Vec<Socket>> = gids.chunks(16).zip(fds).map(bound).collect();
    sockets.filter(|sockets| sockets.len() * 16 == gids.len())
}

/// A child of `fork` may outlive the daemon, and has no use for the sockets.
pub(super) fn close_in_child() {
    // SAFETY: the pointer is null, or `ask` has leaked what it points to.
    let own = unsafe { OWN.load(Acquire).as_ref() };
    let lent = own.and_then(|own| own.lent.get());
    // They are closed once: in a child of the child other files may have their numbers.
    let lent = lent.filter(|lent| lent.is_open.swap(false, Relaxed));
    for fd in lent.iter().flat_map(|lent| &lent.sockets) {
        // SAFETY: the child's own, which nothing in it uses.
        unsafe { libc::syscall(libc::SYS_close, *fd) };
    }
}

/// A descriptor that hangs up when the daemon is gone: then [`give_up`] is to be called.
pub(crate) fn daemon() -> Option<RawFd> {
    let lent = own()?.lent.get()?;
    let daemon = lent.daemon.as_ref().filter(|_| lent.is_open.load(Relaxed));
    daemon.map(AsRawFd::as_raw_fd)
}

/// The daemon is gone: so are the sockets, that another one may have the port.
pub(crate) fn give_up() {
    if let Some(own) = own() {
        own.give_up(&mut lock(&own.running));
    }
}

/// The process is about to look for completions.
#[inline]
pub(crate) fn poll() {
    let Some(own) = own() else { return };
    let Some(mut guard) = own.try_running() else { return };
    let Some(running) = guard.as_mut() else { return };
    let looked = running.poll(&own.process.actor());
    if looked.is_some_and(|now| own.is_alone(now)) {
        own.give_up(&mut guard);
    }
    own.serve_posted(guard);
}

/// It has found some.
pub(crate) fn has_found() {
    if let Some(own) = own() {
        let Some(mut guard) = own.try_running() else { return };
        if let Some(running) = guard.as_mut() {
            running.has_found();
        }
        own.serve_posted(guard);
    }
}

/// The program asks for something by which a queue pair may end: acknowledgements of what it has found
/// leave before.
pub(crate) fn finish() {
    if let Some(own) = own() {
        if let Some(mut guard) = own.try_running() {
            if let Some(running) = guard.as_mut() {
                running.posted(&own.process.actor(), &[]);
            }
            own.serve_posted(guard);
        }
    }
}

/// The program arms a queue, as one does that is going to wait for an event: the daemon goes on, unless the program has
/// waited at the port before.
pub(crate) fn armed() {
    let Some(own) = own() else { return };
    match own.arms.load(Relaxed).checked_sub(1) {
        Some(left) => {
            own.arms.store(left, Relaxed);
            finish();
        }
        None => give_back(),
    }
}

/// The program has taken a completion event. One that is so busy that events are there before it waits is as one that waits.
pub(crate) fn takes_event() {
    if let Some(own) = own().filter(|own| own.waits.load(Relaxed)) {
        own.arms.store(ARMS_PER_EVENT, Relaxed);
    }
}

/// The daemon goes on.
fn give_back() {
    let Some(own) = own().filter(|own| own.entry().is_run_by_process()) else { return };
    let mut guard = lock(&own.running);
    if let Some(running) = guard.as_mut() {
        running.give_back(&own.process.actor(), |qpn| own.process.env.tell_link(qpn));
    }
    own.serve_posted(guard);
}

/// A thread that waits for an event at the port's sockets as well: packets that bring it wake the thread, and not the
/// daemon's for it.
///
/// It wakes now and then, by which the daemon sees that the process goes on, and timers are seen to; and gives the lease
/// back when nothing has come for long.
#[derive(Debug)]
pub struct AtPort {
    own: &'static Own,
    sockets: &'static [RawFd],
    until: u64,
    is_owing: bool,
}

impl AtPort {
    /// Begins to wait; `None` if the daemon runs the lease.
    pub(super) fn begin() -> Option<Self> {
        let own = own()?;
        let lent = own.lent.get().filter(|lent| lent.is_open.load(Relaxed))?;
        let mut guard = own.try_running()?;
        let actor = own.process.actor();
        let running = guard.as_mut();
        let owes =
            running.and_then(|running| running.begin_wait(&actor).then(|| running.is_owing()));
        own.serve_posted(guard);
        let until = system::now_ns() + LONGEST_WAIT_NS;
        Some(Self { own, sockets: &lent.sockets, until, is_owing: owes? })
    }

    /// The sockets at which packets come.
    pub fn sockets(&self) -> &'static [RawFd] {
        self.sockets
    }

    /// For how long the thread may sleep.
    pub fn sleep(&self) -> Duration {
        if self.is_owing { Duration::ZERO } else { SLEEP }
    }

    /// The thread was woken, and not by the event. False if it goes on without the port.
    pub fn look(&mut self) -> bool {
        let Some(mut guard) = self.own.try_running() else {
            // Another thread looks.
            self.is_owing = false;
            return true;
        };
        let actor = self.own.process.actor();
        let mut goes_on = false;
        if let Some(running) = guard.as_mut() {
            goes_on = running.wait(&actor);
            self.is_owing = running.is_owing();
            if goes_on && system::now_ns() >= self.until {
                running.give_back(&actor, |qpn| self.own.process.env.tell_link(qpn));
                self.own.waits.store(false, Relaxed);
                goes_on = false;
            }
        }
        self.own.serve_posted(guard);
        goes_on
    }

    /// The event has come while the thread waited here.
    pub fn ended(self) {
        self.own.waits.store(true, Relaxed);
    }
}

impl OwnPort for Own {
    fn posted(&self, qpn: u32) -> bool {
        let is_own = self.is_in_use()
            && LinkQueuePair::lease(&self.process.arena, Qpn::new(qpn)) == Some(self.number);
        if !is_own || !self.entry().is_run_by_process() {
            return false;
        }
        lock(&self.posted).push(qpn);
        // The thread that has it, perhaps this one, looks again when it gives it back.
        if let Some(running) = self.try_running() {
            self.serve_posted(running);
        }
        true
    }
}

impl Own {
    fn entry(&self) -> &PortLease {
        &self.process.arena.leases[self.number]
    }

    /// Whether there are queue pairs with peers on other hosts, or have been, and the caller is no child of the process.
    fn is_in_use(&self) -> bool {
        self.process.is_current() && self.entry().is_in_use.load(Relaxed) != 0
    }

    /// Whether the daemon is gone, if it is time to look.
    fn is_alone(&self, now: u64) -> bool {
        if now < self.look_at.load(Relaxed) {
            return false;
        }
        self.look_at.store(now + LOOK_NS, Relaxed);
        let lent = self.lent.get().and_then(|lent| lent.daemon.as_ref());
        lent.is_some_and(system::has_hung_up)
    }

    fn give_up(&self, running: &mut Option<Running>) {
        if let Some(lent) = self.lent.get() {
            lent.is_open.store(false, Relaxed);
        }
        *running = None;
    }

    fn try_running(&self) -> Option<MutexGuard<'_, Option<Running>>> {
        match self.running.try_lock() {
            Ok(running) => Some(running),
            Err(TryLockError::Poisoned(running)) => Some(running.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Serves what was posted to, until there is nothing more when the lock is given back. All who have taken it
    /// to do something end with this: who posts meanwhile leaves the rest to them, and may not call again.
    fn serve_posted<'a>(&'a self, mut guard: MutexGuard<'a, Option<Running>>) {
        loop {
            let posted = std::mem::take(&mut *lock(&self.posted));
            let serve = |running: &mut Running| running.posted(&self.process.actor(), &posted);
            if !posted.is_empty() && !guard.as_mut().is_some_and(serve) {
                posted.iter().for_each(|qpn| self.process.env.tell_link(*qpn));
            }
            drop(guard);
            if lock(&self.posted).is_empty() {
                return;
            }
            let Some(again) = self.try_running() else { return };
            guard = again;
        }
    }
}
