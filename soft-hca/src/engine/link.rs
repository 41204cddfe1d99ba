//! Where the peer is, and how bytes get there.
//!
//! The engine knows queue pairs, keys and segments of memory; that a peer's memory is reached by
//! a system call, or by way of the arena where the system refuses that, is known here only. Another link, such as RoCEv2 to another machine, finds other
//! queue pairs and moves bytes in another way.

use std::fmt;
use std::io;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicU8, AtomicU64};

use crate::arena::{Arena, MAX_PROCS, Mapping, Qp};
use crate::engine::bounce;
use crate::engine::process_memory::{self, CopyError};

/// A stretch of a process's memory. The same as the system's `iovec`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Segment {
    /// First address in that process.
    pub addr: u64,
    /// Bytes.
    pub length: u64,
}

/// Memory of one process, as one stream of bytes.
#[derive(Clone, Copy, Debug)]
pub struct Memory<'a> {
    /// Index of the process in the arena.
    pub proc: usize,
    /// The stretches in order.
    pub segments: &'a [Segment],
}

/// Why bytes could not be moved. Some of them may have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The source is not there, or may not be read.
    Source,
    /// The destination is not there, or may not be written.
    Destination,
    /// A process has ended or does not answer.
    Unreachable,
}

/// The way to peers.
pub trait Link: Sync + fmt::Debug {
    /// The queue pair with this number behind this GID.
    fn find<'a>(&self, arena: &'a Arena, gid: &[AtomicU8; 16], qpn: u32) -> Option<&'a Qp>;

    /// Copies all of `from` to `to`, which is as long; `me` is the process that runs this.
    fn copy(
        &self,
        arena: &Mapping,
        me: usize,
        from: Memory<'_>,
        to: Memory<'_>,
    ) -> Result<(), Fault>;
}

/// All peers are processes of this machine that share the arena.
pub struct LocalLink {
    /// This process's id, asked for once: it is wanted for every copy within the process.
    own_pid: u32,
    /// For each process the mark of the id and nonce with which it was reached, 0 if it was not.
    reached: Box<[AtomicU64]>,
}

impl Default for LocalLink {
    fn default() -> Self {
        let reached = std::iter::repeat_with(AtomicU64::default).take(MAX_PROCS).collect();
        Self { own_pid: std::process::id(), reached }
    }
}

impl fmt::Debug for LocalLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalLink").field("own_pid", &self.own_pid).finish_non_exhaustive()
    }
}

/// One number for an id and a nonce, never 0.
fn mark(pid: u32, nonce: u64) -> u64 {
    (nonce ^ u64::from(pid).wrapping_mul(0x9e37_79b9_7f4a_7c15)).max(1)
}

impl LocalLink {
    /// The id of a process that is certainly the one meant: the word at its nonce's address has
    /// been read from it. A wrong id (a recycled one, or one of another namespace) would let us
    /// write into a stranger.
    pub(super) fn pid(&self, arena: &Arena, me: usize, proc: usize) -> Result<u32, Fault> {
        if proc == me {
            return Ok(self.own_pid);
        }
        let (entry, reached) =
            arena.procs.get(proc).zip(self.reached.get(proc)).ok_or(Fault::Unreachable)?;
        let (pid, nonce) = (entry.pid.load(Acquire), entry.nonce.load(Acquire));
        if entry.live.load(Acquire) == 0 || nonce == 0 || pid == 0 {
            return Err(Fault::Unreachable);
        }
        let mark = mark(pid, nonce);
        if reached.load(Relaxed) != mark {
            match process_memory::read_word(pid, entry.nonce_addr.load(Acquire)) {
                Ok(word) if word == nonce => reached.store(mark, Relaxed),
                _ => return Err(Fault::Unreachable),
            }
        }
        Ok(pid)
    }

    /// Whether process `me`, which runs this, can reach the memory of `proc`; if not, what the
    /// system says.
    pub fn probe(&self, arena: &Arena, me: usize, proc: usize) -> io::Result<()> {
        process_memory::try_writing(self.own_pid)?;
        if self.pid(arena, me, proc).is_ok() {
            return Ok(());
        }
        let entry = &arena.procs[proc];
        process_memory::read_word(entry.pid.load(Acquire), entry.nonce_addr.load(Acquire))?;
        // The id names another process here than where it was asked for.
        Err(io::Error::from_raw_os_error(libc::ESRCH))
    }

    /// One system call, or two when neither side is ours.
    fn copy_directly(
        &self,
        arena: &Arena,
        me: usize,
        from: Memory<'_>,
        to: Memory<'_>,
        length: u64,
    ) -> Result<(), Fault> {
        let source = self.pid(arena, me, from.proc)?;
        let destination = self.pid(arena, me, to.proc)?;
        let (from_segments, to_segments) = (from.segments, to.segments);
        let direct = if from.proc == me {
            process_memory::write(destination, from_segments, to_segments, length)
        } else if to.proc == me {
            process_memory::read(source, to_segments, from_segments, length)
        } else {
            Err(CopyError::Fault)
        };
        match direct {
            Ok(()) => Ok(()),
            Err(CopyError::Unreachable) => Err(Fault::Unreachable),
            // Neither side is ours, or one of them has a fault: the detour tells which.
            Err(CopyError::Fault) => process_memory::copy_through(
                source,
                from_segments,
                destination,
                to_segments,
                length,
            ),
        }
    }
}

impl Link for LocalLink {
    fn find<'a>(&self, arena: &'a Arena, _gid: &[AtomicU8; 16], qpn: u32) -> Option<&'a Qp> {
        // Every GID of the machine leads to the one device.
        arena.qp(qpn)
    }

    fn copy(
        &self,
        arena: &Mapping,
        me: usize,
        from: Memory<'_>,
        to: Memory<'_>,
    ) -> Result<(), Fault> {
        let length = process_memory::length(from.segments).min(process_memory::length(to.segments));
        if length == 0 {
            return Ok(());
        }
        match self.copy_directly(arena, me, from, to, length) {
            Err(Fault::Unreachable) => bounce::copy(self, arena, me, from, to, length),
            copied => copied,
        }
    }
}
