//! How bytes get from one process's memory to another's.
//!
//! The engine knows keys and segments; that memory is reached by a system call, or by way of the
//! arena where the system refuses that, is known from here on only.

use std::fmt;
use std::io;
use std::sync::Arc;

use crate::arena::{Arena, Mapping};
use crate::engine::bounce;
use crate::engine::own_memory::Stream;
use crate::engine::pids::Pids;
use crate::engine::process_memory::{self, CopyError};
use crate::engine::registry::Registry;
use crate::engine::segments::{Fault, Memory, Segment, length};

/// Moves bytes between processes.
pub trait Copier: fmt::Debug {
    /// Copies all of `from` to `to`, which is as long; `me` is the process that runs this.
    fn copy(
        &self,
        arena: &Mapping,
        me: usize,
        from: Memory<'_>,
        to: Memory<'_>,
    ) -> Result<(), Fault>;

    /// The registry that memory has to be in to be used; `None` if the arena's tables are enough.
    fn registry(&self) -> Option<&Registry> {
        None
    }
}

/// Between processes of this machine that share the arena.
#[derive(Debug, Default)]
pub struct LocalCopier {
    pids: Pids,
}

impl LocalCopier {
    /// A copier that, of the processes that a registry is about, uses only what is in the registry.
    pub fn guarded(registry: Arc<Registry>) -> Self {
        Self { pids: Pids::of(Some(registry)) }
    }

    /// Whether process `me`, which runs this, can reach the memory of `proc`; if not, what the
    /// system says.
    pub fn probe(&self, arena: &Arena, me: usize, proc: usize) -> io::Result<()> {
        self.pids.probe(arena, me, proc)
    }

    /// No system call within this process, one to or from another, two when neither side is ours.
    fn copy_directly(
        &self,
        arena: &Arena,
        me: usize,
        from: Memory<'_>,
        to: Memory<'_>,
        length: u64,
    ) -> Result<(), Fault> {
        if from.proc == me && to.proc == me && copy_within(from.segments, to.segments, length) {
            return Ok(());
        }
        let source = self.pids.get(arena, me, from.proc)?;
        let destination = self.pids.get(arena, me, to.proc)?;
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

/// Copies within this process. False if that is not possible, or an address is bad: the system calls tell
/// which.
fn copy_within(from: &[Segment], to: &[Segment], mut length: u64) -> bool {
    let mut stream = Stream::of(from);
    to.iter().all(|segment| {
        let piece = segment.length.min(length);
        length -= piece;
        stream.copy_to(segment.addr, piece)
    })
}

impl Copier for LocalCopier {
    /// The one function that decides, by regions and length, how bytes are moved. Every region is
    /// private memory of its process: if the system does not let us reach it, the bytes
    /// go through a bounce buffer.
    fn copy(
        &self,
        arena: &Mapping,
        me: usize,
        from: Memory<'_>,
        to: Memory<'_>,
    ) -> Result<(), Fault> {
        let length = length(from.segments).min(length(to.segments));
        if length == 0 {
            return Ok(());
        }
        let _in_use = match self.registry() {
            None => None,
            Some(registry) => Some((
                registry.hold(me, from, false).ok_or(Fault::Source)?,
                registry.hold(me, to, true).ok_or(Fault::Destination)?,
            )),
        };
        match self.copy_directly(arena, me, from, to, length) {
            Err(Fault::Unreachable) => bounce::copy(&self.pids, arena, me, from, to, length),
            copied => copied,
        }
    }

    fn registry(&self) -> Option<&Registry> {
        self.pids.registry()
    }
}
