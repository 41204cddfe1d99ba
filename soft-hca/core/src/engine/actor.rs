//! A process that runs the data path, and what all of it needs from there.

use std::fmt;

use crate::arena::Mapping;
use crate::engine::copier::Copier;
use crate::engine::env::Env;
use crate::engine::proc::is_daemon;
use crate::engine::segments::{Fault, Memory};

/// A process that runs the data path.
#[derive(Clone, Copy)]
pub struct Actor<'a> {
    /// The fabric's memory.
    pub arena: &'a Mapping,
    /// Index of this process in the arena; 0 is the daemon.
    pub me: usize,
    /// The process's own part.
    pub env: &'a dyn Env,
    /// Moves bytes between processes.
    pub copier: &'a dyn Copier,
}

impl fmt::Debug for Actor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Actor").field("me", &self.me).finish_non_exhaustive()
    }
}

impl Actor<'_> {
    /// Whether this is a thread of the daemon, which waits for nobody.
    pub(super) fn is_daemon(&self) -> bool {
        is_daemon(self.me)
    }

    /// Copies all of `from` to `to`, which is as long.
    #[inline]
    pub(super) fn copy(&self, from: Memory<'_>, to: Memory<'_>) -> Result<(), Fault> {
        self.copier.copy(self.arena, self.me, from, to)
    }

    /// Whether somebody records.
    #[inline]
    pub fn is_traced(&self) -> bool {
        self.arena.is_traced()
    }

    /// Has an event traced, if somebody records. As long as nobody does this costs a look at a word
    /// that is read anyway.
    #[inline]
    pub(super) fn trace(&self, write: impl FnOnce(&dyn Env)) {
        if self.is_traced() {
            traced(|| write(self.env));
        }
    }
}

#[cold]
fn traced(write: impl FnOnce()) {
    write();
}
