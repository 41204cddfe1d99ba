//! A process's way to its file of notes.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, TryLockError};

use super::note::{Began, Body};
use super::spool::{About, Spool};
use crate::arena::Mapping;
use crate::system;

/// Name of the folder, in the fabric's, that the files of notes are in.
pub const FOLDER: &str = "record";

/// Recordings that a process can be part of; who sees more is not in them.
const MAX_RECORDINGS: usize = 64;

/// What a process notes down, in one recording after the other. A file stays mapped until the end
/// of the process, for a thread may be in the midst of a note.
#[derive(Debug)]
pub struct Recorder {
    pub(super) arena: Arc<Mapping>,
    /// The fabric's folder.
    dir: Option<PathBuf>,
    /// Index of the process.
    index: u32,
    spools: [OnceLock<Spool>; MAX_RECORDINGS],
    /// The last recording for which a file was asked for, and how many files there are.
    opening: Mutex<(u32, usize)>,
}

thread_local! {
    static THREAD: Cell<u32> = const { Cell::new(0) };
}

/// The number of the calling thread.
#[allow(unsafe_code, reason = "a system call that the standard library has not")]
fn thread() -> u32 {
    // Not in a thread that is ending.
    let known = THREAD.try_with(Cell::get).unwrap_or(0);
    if known != 0 {
        return known;
    }
    // SAFETY: asks for a number.
    let thread = unsafe { libc::gettid() } as u32;
    let _ = THREAD.try_with(|known| known.set(thread));
    thread
}

impl Recorder {
    /// For the process with an index, in the fabric with a folder.
    pub fn new(arena: Arc<Mapping>, dir: Option<PathBuf>, index: usize) -> Self {
        Self {
            arena,
            dir,
            index: index as u32,
            spools: [const { OnceLock::new() }; MAX_RECORDINGS],
            opening: Mutex::default(),
        }
    }

    /// Sees to it that there is a file if the fabric is recorded. The caller holds no lock of the
    /// arena: this takes some time where it is the first.
    pub fn prepare(&self) {
        let generation = self.arena.observed.load(Relaxed);
        if generation != 0 && self.spool(generation).is_none() {
            self.open(generation, self.arena.record_limit.load(Relaxed));
        }
    }

    /// Whether the fabric is recorded.
    pub fn is_on(&self) -> bool {
        self.arena.observed.load(Relaxed) != 0
    }

    /// Whether all is noted, not only what goes wrong.
    pub fn is_complete(&self) -> bool {
        self.arena.record_failures.load(Relaxed) == 0
    }

    #[cold]
    fn open(&self, generation: u32, limit: u64) {
        let mut opening = match self.opening.try_lock() {
            Ok(opening) => opening,
            Err(TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned),
            // Another thread does it; what happens until then is not noted.
            Err(TryLockError::WouldBlock) => return,
        };
        let (last, count) = &mut *opening;
        if *last == generation || *count == MAX_RECORDINGS {
            return;
        }
        *last = generation;
        let Some(dir) = &self.dir else { return };
        let pid = std::process::id();
        let name = format!("{generation}-{}-{pid}-{:x}", self.index, system::random());
        let path = dir.join(FOLDER).join(name);
        if let Ok(spool) = Spool::create(&path, self.index, generation, limit) {
            let about = self.about(self.index);
            let command = std::fs::read("/proc/self/cmdline").unwrap_or_default();
            spool.append(about, &Began { pid }, &[&command]);
            let _ = self.spools[*count].set(spool);
            *count += 1;
        }
    }

    /// The file of a recording.
    fn spool(&self, generation: u32) -> Option<&Spool> {
        let files = self.spools.iter().map_while(OnceLock::get);
        files.last().filter(|spool| spool.generation() == generation)
    }

    /// Now, in this thread, about a process.
    pub fn about(&self, proc: u32) -> About {
        let thread = if proc == self.index { thread() } else { 0 };
        About { thread, proc, t: system::now_ns() }
    }

    /// Notes something about a process, if the fabric is recorded and there is a file.
    pub fn note<B: Body>(&self, about: About, body: &B, tail: &[&[u8]]) {
        let generation = self.arena.observed.load(Relaxed);
        if let Some(spool) = self.spool(generation) {
            spool.append(about, body, tail);
        }
    }

    /// The process's own index.
    pub fn index(&self) -> u32 {
        self.index
    }
}
