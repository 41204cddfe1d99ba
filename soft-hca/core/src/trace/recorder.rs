//! A process's way to its ring.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, TryLockError};

use super::event::{Began, Event};
use super::ring::{About, Site, TraceRing};
use crate::arena::{Mapping, Scope};
use crate::system;

/// Name of the folder, in the fabric's, that the rings are in.
pub const FOLDER: &str = "record";

/// Recordings that a process can be part of; who sees more is not in them.
const MAX_RECORDINGS: usize = 64;

/// Traces the events of a process, in one recording after the other. A ring stays mapped until the end of
/// the process, for a thread may be in the midst of a record.
#[derive(Debug)]
pub struct Recorder {
    arena: Arc<Mapping>,
    /// The fabric's folder.
    dir: Option<PathBuf>,
    /// Index of the process.
    index: u32,
    rings: [OnceLock<TraceRing>; MAX_RECORDINGS],
    /// The last recording for which a ring was asked for, and how many there are.
    opening: Mutex<(u32, usize)>,
}

thread_local! {
    static THREAD: Cell<u32> = const { Cell::new(0) };
    static SITE: Cell<Site> = const { Cell::new(Site { place: 0, call: 0 }) };
}

/// Where in the program the calling thread is; a [`Site::default`] where that is not known.
pub fn site() -> Site {
    // Not in a thread that is ending.
    SITE.try_with(Cell::get).unwrap_or_default()
}

/// Does something that the calling thread is asked for at a site of its program.
pub fn at<T>(site: Site, what: impl FnOnce() -> T) -> T {
    let before = SITE.try_with(|known| known.replace(site)).unwrap_or_default();
    let value = what();
    let _ = SITE.try_with(|known| known.set(before));
    value
}

/// The number of the calling thread.
#[allow(unsafe_code, reason = "a system call that the standard library has not")]
pub fn thread() -> u32 {
    // Not in a thread that is ending.
    let known = THREAD.try_with(Cell::get).unwrap_or(0);
    if known != 0 {
        return known;
    }
    // SAFETY: the call reads the thread's number and takes no arguments.
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
            rings: [const { OnceLock::new() }; MAX_RECORDINGS],
            opening: Mutex::default(),
        }
    }

    /// Sees to it that there is a ring if the fabric is recorded. The caller holds no lock of the
    /// arena: this takes some time where it is the first.
    #[inline]
    pub fn prepare(&self) {
        let generation = self.arena.recording();
        if generation != 0 && self.ring(generation).is_none() {
            self.open(generation, self.arena.trace_limit.load(Relaxed));
        }
    }

    /// Whether the fabric is recorded.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.arena.recording() != 0
    }

    /// The number of the recording, 0 if there is none.
    pub fn recording(&self) -> u32 {
        self.arena.recording()
    }

    /// Whether all is traced, not only what goes wrong.
    pub fn is_complete(&self) -> bool {
        self.arena.trace_scope.load(Relaxed) != Scope::Failures as u32
    }

    /// Whether it is traced, too, which sends' buffers are changed too early.
    pub fn compares_buffers(&self) -> bool {
        self.is_on() && self.arena.trace_scope.load(Relaxed) == Scope::Buffers as u32
    }

    #[cold]
    fn open(&self, generation: u32, limit: u64) {
        let mut opening = match self.opening.try_lock() {
            Ok(opening) => opening,
            Err(TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned),
            // Another thread does it; what happens until then is not traced.
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
        if let Ok(ring) = TraceRing::create(&path, self.index, generation, limit) {
            let about = self.about(self.index);
            let command = std::fs::read("/proc/self/cmdline").unwrap_or_default();
            ring.append(about, &Began { pid }.into(), &[&command]);
            let _ = self.rings[*count].set(ring);
            *count += 1;
        }
    }

    /// The ring of a recording.
    fn ring(&self, generation: u32) -> Option<&TraceRing> {
        let rings = self.rings.iter().map_while(OnceLock::get);
        rings.last().filter(|ring| ring.generation() == generation)
    }

    /// Now, in this thread, about a process.
    pub fn about(&self, proc: u32) -> About {
        self.about_at(system::now_ns(), proc)
    }

    fn about_at(&self, t: u64, proc: u32) -> About {
        if proc != self.index {
            return About { thread: 0, proc, t, site: Site::default() };
        }
        About { thread: thread(), proc, t, site: site() }
    }

    /// Traces an event and what is behind it, if the fabric is recorded and there is a ring.
    pub fn append(&self, about: About, event: &Event, tail: &[&[u8]]) {
        let generation = self.arena.recording();
        if let Some(ring) = self.ring(generation) {
            ring.append(about, event, tail);
        }
    }

    /// Traces an event of the data path about a process, with what is behind it, unless only
    /// failures are and it is none. The caller may hold locks of the arena.
    pub fn trace(&self, proc: u32, event: &Event, tail: &[u8]) {
        self.trace_at(system::now_ns(), proc, event, tail);
    }

    /// The same for what has begun at a time that is known.
    pub fn trace_at(&self, t: u64, proc: u32, event: &Event, tail: &[u8]) {
        if self.is_complete() || event.is_failure(tail) {
            self.append(self.about_at(t, proc), event, &[tail]);
        }
    }

    /// The process's own index.
    pub fn index(&self) -> u32 {
        self.index
    }
}
