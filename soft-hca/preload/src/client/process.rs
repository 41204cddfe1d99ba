//! This process as a member of the fabric.
#![allow(unsafe_code, reason = "a static that outlives all threads, and numbers of descriptors")]

use std::io;
use std::os::fd::OwnedFd;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicPtr, AtomicU64};

use soft_hca_core::arena::Mapping;
use soft_hca_core::engine::{Actor, Copier, DAEMON, Helper, LocalCopier, Registry};
use soft_hca_core::errno::{Errno, Result};
use soft_hca_core::rpc::{Connection, Created, FileKind, Hello, Request};
use soft_hca_core::system;

use crate::client::daemon::{as_errno, ask, connect};
use crate::client::doorbell;
use crate::client::env::ClientEnv;
use crate::client::identity::Identity;
use crate::client::of_process::OfProcess;
use crate::client::stderr::say;

/// The state that all files of the process share. Never freed: threads may be in the data path until the
/// very end.
#[derive(Debug)]
pub(crate) struct Process {
    /// A child of `fork` is another process.
    identity: Identity,
    /// Index in the arena's table of processes.
    pub index: usize,
    pub arena: Arc<Mapping>,
    pub env: ClientEnv,
    copier: LocalCopier,
    /// Copies for others where the system forbids them to.
    _helper: Option<Helper>,
}

impl Process {
    /// The data path, run by this process.
    pub(crate) fn actor(&self) -> Actor<'_> {
        self.env.recorder.prepare();
        Actor { arena: &self.arena, me: self.index, env: &self.env, copier: &self.copier }
    }

    /// The registry of the process's memory regions, if its memory is closed: it copies by itself.
    pub(crate) fn registry(&self) -> Option<&Registry> {
        self.copier.registry()
    }

    /// Whether all that it does is recorded.
    #[inline]
    pub(crate) fn is_recorded(&self) -> bool {
        let recorder = &self.env.recorder;
        recorder.is_on() && recorder.is_complete()
    }

    /// Whether this still is the process that joined, and no child of it.
    pub(crate) fn is_current(&self) -> bool {
        self.identity.is_mine()
    }
}

/// A process that has joined a fabric of which there is only the arena, for tests of what it has.
#[cfg(test)]
pub(crate) fn in_memory() -> &'static Process {
    let arena = Arc::new(Mapping::create().expect("memory for an arena"));
    Box::leak(Box::new(Process {
        identity: Identity::new(),
        index: 0,
        env: ClientEnv::new(Arc::clone(&arena), 0, None),
        arena,
        copier: LocalCopier::default(),
        _helper: None,
    }))
}

/// The word that a peer reads to know that it has reached the right process.
static NONCE: AtomicU64 = AtomicU64::new(0);

/// The process that has joined last, to be had without a lock.
static PROCESS: AtomicPtr<Process> = AtomicPtr::new(ptr::null_mut());

/// Taken to join: one thread at a time.
static JOINING: OfProcess<()> = OfProcess::new();

/// The process that has joined last: this one, or one that it is a child of by `fork`.
#[inline]
pub(crate) fn last() -> Option<&'static Process> {
    // SAFETY: null, or what `join` has leaked.
    unsafe { PROCESS.load(Acquire).as_ref() }
}

/// This process, if it has joined a fabric and is no child of the one that has.
pub(crate) fn current() -> Option<&'static Process> {
    let process = last()?;
    process.is_current().then_some(process)
}

/// The process that this one is a child of by `fork`, if all that it does is recorded.
pub(crate) fn recorded_parent() -> Option<&'static Process> {
    let process = last()?;
    (process.is_recorded() && !process.is_current()).then_some(process)
}

/// This process, if it has joined a fabric, and all that it does is recorded.
#[inline]
pub(crate) fn recorded() -> Option<&'static Process> {
    let process = last()?;
    (process.is_recorded() && process.is_current()).then_some(process)
}

/// The word, made up by the first thread that needs it.
fn nonce() -> u64 {
    let new = system::random() | 1;
    NONCE.compare_exchange(0, new, AcqRel, Acquire).map_or_else(|known| known, |_| new)
}

/// A file that was opened with the daemon.
#[derive(Debug)]
pub(crate) struct Opened {
    pub connection: Connection,
    pub process: &'static Process,
    /// The file's number.
    pub token: u32,
    pub arena_fd: OwnedFd,
    /// The event descriptor, with a token for each event.
    pub tokens: OwnedFd,
    /// A duplicate of the connection, which hangs up when the daemon is gone.
    pub line: OwnedFd,
}

/// Opens a file with the daemon, and joins the fabric if this is the first.
pub(crate) fn open(kind: FileKind) -> Result<Opened> {
    let connection = connect()?;
    // Peers of the same user copy from and to our memory.
    system::allow_peers();
    let hello =
        Hello { kind, nonce: nonce(), nonce_addr: (&raw const NONCE).expose_provenance() as u64 };
    let (answer, fds) = ask(&connection, &Request::Hello(hello))?;
    let Some(Created::File { process, file, refusal }) = answer.created else {
        return Err(Errno::EIO);
    };
    let mut fds = fds.into_iter();
    let (Some(arena_fd), Some(tokens)) = (fds.next(), fds.next()) else {
        return Err(Errno::EIO);
    };
    let process = join(process as usize, refusal, &arena_fd, fds.next())?;
    let tokens = system::hide(tokens);
    let line = connection.fd.try_clone().map(system::hide).map_err(|error| as_errno(&error))?;
    Ok(Opened { connection, process, token: file, arena_fd, tokens, line })
}

/// `refusal` is why the daemon cannot reach this process.
/// `link` is what the link to other hosts is woken by, if there is one.
fn join(
    index: usize,
    refusal: Option<Errno>,
    arena_fd: &OwnedFd,
    link: Option<OwnedFd>,
) -> Result<&'static Process> {
    let _joining = JOINING.lock();
    if let Some(process) = current().filter(|process| process.index == index) {
        return Ok(process);
    }
    let doorbell = link.map(system::hide);
    let file = system::hide(arena_fd.try_clone().map_err(|error| as_errno(&error))?);
    let arena = Arc::new(Mapping::from_fd(file).map_err(|error| as_errno(&error))?);
    let copier = LocalCopier::default();
    let refusal = match refusal {
        None => copier.probe(&arena, index, DAEMON).err(),
        Some(error) => Some(io::Error::from_raw_os_error(error.number())),
    };
    let (copier, helper) = match refusal {
        None => (copier, None),
        Some(refusal) => close_memory(&arena, index, &refusal),
    };
    let joined: &Process = Box::leak(Box::new(Process {
        identity: Identity::new(),
        index,
        _helper: helper,
        env: ClientEnv::new(Arc::clone(&arena), index, doorbell),
        arena,
        copier,
    }));
    doorbell::forget_all();
    PROCESS.store(ptr::from_ref(joined).cast_mut(), Release);
    Ok(joined)
}

/// Starts a helper of the process, which copies for its peers if they cannot reach this process's memory,
/// or it cannot reach theirs. The helper and the process itself copy only memory that the process has
/// registered, whatever others write into the arena.
fn close_memory(
    arena: &Arc<Mapping>,
    index: usize,
    refusal: &io::Error,
) -> (LocalCopier, Option<Helper>) {
    say(&format!(
        "this system does not let programs reach each other's memory ({refusal}); data is copied \
         through shared memory, which is slower: `soft-hca doctor` says more"
    ));
    if !system::is_readable() {
        say("this program is unreadable, but all programs of its fabric can write its queues: \
             `--fabric NAME` gives it one of its own");
    }
    let registry = Arc::new(Registry::of_process(index, arena.key_base.load(Acquire)));
    let copier = LocalCopier::guarded(Arc::clone(&registry));
    let helper = Helper::start(Arc::clone(arena), index, registry, Box::new(|_| false));
    if let Err(error) = &helper {
        say(&format!("cannot start the thread that copies, so requests will fail: {error}"));
    }
    arena.procs[index].closed.store(1, Release);
    (copier, helper.ok())
}
