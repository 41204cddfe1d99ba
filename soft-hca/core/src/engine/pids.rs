//! Which process an entry of the table of processes is, for certain.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use crate::arena::{Arena, MAX_PROCS};
use crate::engine::process_memory;
use crate::engine::registry::{Identity, Registry};
use crate::engine::segments::Fault;

/// Ids of processes, as this process knows them.
pub(super) struct Pids {
    /// This process's id, asked for once: it is needed for every copy within the process.
    own: u32,
    /// For each process the mark of the id and nonce with which it was reached, 0 if it was not.
    reached: Box<[AtomicU64]>,
    /// The identities of processes, where those in the arena are not trusted.
    registry: Option<Arc<Registry>>,
}

impl Default for Pids {
    fn default() -> Self {
        Self::of(None)
    }
}

impl fmt::Debug for Pids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pids").field("own", &self.own).finish_non_exhaustive()
    }
}

/// One number for an id and a nonce, never 0.
fn mark(pid: u32, nonce: u64) -> u64 {
    (nonce ^ u64::from(pid).wrapping_mul(0x9e37_79b9_7f4a_7c15)).max(1)
}

impl Pids {
    /// The ids of processes, by a registry for those that it is about.
    pub(super) fn of(registry: Option<Arc<Registry>>) -> Self {
        let reached = std::iter::repeat_with(AtomicU64::default).take(MAX_PROCS).collect();
        Self { own: std::process::id(), reached, registry }
    }

    pub(super) fn registry(&self) -> Option<&Registry> {
        self.registry.as_deref()
    }

    fn identity(&self, arena: &Arena, proc: usize) -> Option<Identity> {
        let entry = arena.procs.get(proc)?;
        let said = || {
            let (pid, nonce) = (entry.pid.load(Acquire), entry.nonce.load(Acquire));
            let identity = Identity { pid, nonce_addr: entry.nonce_addr.load(Acquire), nonce };
            (pid != 0 && nonce != 0).then_some(identity)
        };
        let known = self.registry().and_then(|registry| registry.identity(proc));
        known.unwrap_or_else(said)
    }

    /// The id of a process that is certainly the one meant: the word at its nonce's address has
    /// been read from it. A wrong id (a recycled one, or one of another namespace) would let us
    /// write into a stranger.
    pub(super) fn get(&self, arena: &Arena, me: usize, proc: usize) -> Result<u32, Fault> {
        if proc == me {
            return Ok(self.own);
        }
        let (entry, reached) =
            arena.procs.get(proc).zip(self.reached.get(proc)).ok_or(Fault::Unreachable)?;
        if entry.live.load(Acquire) == 0 {
            return Err(Fault::Unreachable);
        }
        let Identity { pid, nonce_addr, nonce } =
            self.identity(arena, proc).ok_or(Fault::Unreachable)?;
        let mark = mark(pid, nonce);
        if reached.load(Relaxed) != mark {
            match process_memory::read_word(pid, nonce_addr) {
                Ok(word) if word == nonce => reached.store(mark, Relaxed),
                _ => return Err(Fault::Unreachable),
            }
        }
        Ok(pid)
    }

    /// Whether process `me`, which runs this, can reach the memory of `proc`; if not, what the
    /// system says.
    pub(super) fn probe(&self, arena: &Arena, me: usize, proc: usize) -> io::Result<()> {
        process_memory::try_writing(self.own)?;
        if self.get(arena, me, proc).is_ok() {
            return Ok(());
        }
        if let Some(Identity { pid, nonce_addr, .. }) = self.identity(arena, proc) {
            process_memory::read_word(pid, nonce_addr)?;
        }
        // The id names another process here than where it was asked for.
        Err(io::Error::from_raw_os_error(libc::ESRCH))
    }
}
