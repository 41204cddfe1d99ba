//! A file of notes: one process appends, another reads.
//!
//! To append is to move the end of all notes on, which gives a place that nobody else has, to put the
//! length into its first word, to write the rest, and to set a mark in that word. Nothing waits. A process
//! that is killed in between leaves a note without the mark, whose length is known, or a place of zeros:
//! readers pass over both.
//!
//! The file is a ring: positions count on, and what has been read becomes zeros for the next lap.
#![allow(unsafe_code, reason = "a mapped file")]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64, fence};

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::MIN_LIMIT;
use super::note::Body;
use crate::system;

const MAGIC: u64 = u64::from_le_bytes(*b"hcaspool");
/// The mark of a note that is all there.
const WHOLE: u32 = 1 << 31;
/// The bits of a word that have the note's length.
const LENGTH: u32 = (1 << 20) - 1;
/// Notes begin at multiples of this.
const ALIGN: usize = 8;
/// The file grows by so much: the system gives memory here, or says that it has none.
const CHUNK: u64 = MIN_LIMIT;

/// Begins the file.
#[repr(C, align(64))]
struct Header {
    magic: AtomicU64,
    /// Index of the process in the fabric.
    index: AtomicU32,
    /// The recording.
    generation: AtomicU32,
    /// Bytes up to which the file has memory.
    allocated: AtomicU64,
    /// Where the next note goes.
    end: AtomicU64,
    /// Up to where notes have been read, and their place is free.
    freed: AtomicU64,
    /// Notes for which there was no room.
    dropped: AtomicU64,
}

const START: usize = size_of::<Header>();

/// Begins each note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C, packed)]
struct Head {
    /// Kind of the note.
    kind: u32,
    about: About,
}

/// Whom a note is about, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct About {
    /// The thread, 0 for none.
    pub thread: u32,
    /// Index of the process.
    pub proc: u32,
    /// `CLOCK_MONOTONIC` in nanoseconds.
    pub t: u64,
}

/// A note, as it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Which of [`note`](super::note) it is.
    pub kind: u32,
    /// Who has noted it, and when.
    pub about: About,
    /// Its fixed part and what is behind it.
    pub bytes: Vec<u8>,
}

/// A mapped file of notes.
#[derive(Debug)]
pub struct Spool {
    base: NonNull<u8>,
    length: usize,
    file: File,
    /// Device and inode of the file.
    identity: (u64, u64),
}

// SAFETY: notes are claimed by atomics, and whoever has claimed one is the only one to write it.
unsafe impl Send for Spool {}
// SAFETY: as above.
unsafe impl Sync for Spool {}

fn identity(file: &File) -> io::Result<(u64, u64)> {
    file.metadata().map(|found| (found.dev(), found.ino()))
}

/// How long a file the process may write.
fn file_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: fills the structure that it is given.
    match unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } {
        0 => limit.rlim_cur,
        _ => u64::MAX,
    }
}

impl Spool {
    /// Creates a file for at most `limit` bytes.
    pub(crate) fn create(path: &Path, index: u32, generation: u32, limit: u64) -> io::Result<Self> {
        // Beyond its limit for files a process would get a signal.
        let length = limit.min(file_limit()) / CHUNK * CHUNK;
        if length == 0 {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)?;
        file.set_len(length)?;
        let spool = Self::map(file, length as usize)?;
        spool.allocate(0, CHUNK)?;
        let header = spool.header();
        header.index.store(index, Relaxed);
        header.generation.store(generation, Relaxed);
        header.allocated.store(CHUNK, Relaxed);
        header.magic.store(MAGIC, Release);
        Ok(spool)
    }

    /// Maps the file of another process; `None` if that has not written its header yet.
    pub fn open(path: &Path) -> io::Result<Option<Self>> {
        let file =
            OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
        let length = file.metadata()?.len() as usize;
        if length < CHUNK as usize {
            return Ok(None);
        }
        let spool = Self::map(file, length)?;
        Ok((spool.header().magic.load(Acquire) == MAGIC).then_some(spool))
    }

    fn map(file: File, length: usize) -> io::Result<Self> {
        let identity = identity(&file)?;
        // SAFETY: a new mapping at an address of the system's choice.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).expect("mmap does not map address 0 unasked");
        Ok(Self { base, length, file: system::hide(file.into()).into(), identity })
    }

    fn header(&self) -> &Header {
        // SAFETY: the mapping is page-aligned and longer than the header, which is all atomics.
        unsafe { self.base.cast().as_ref() }
    }

    /// Index of the process.
    pub fn index(&self) -> u32 {
        self.header().index.load(Relaxed)
    }

    /// The recording that it belongs to.
    pub(crate) fn generation(&self) -> u32 {
        self.header().generation.load(Relaxed)
    }

    /// Notes for which there was no room.
    pub fn dropped(&self) -> u64 {
        self.header().dropped.load(Relaxed)
    }

    /// Has the system give memory to a part of the file.
    fn allocate(&self, from: u64, to: u64) -> io::Result<()> {
        // A program may have closed our descriptor, as one does that closes all it finds.
        if identity(&self.file)? != self.identity {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        let length = (to - from) as libc::off_t;
        // SAFETY: changes our own file only.
        match unsafe { libc::posix_fallocate(self.file.as_raw_fd(), from as libc::off_t, length) } {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// Whether there is memory up to an offset.
    fn reaches(&self, end: u64) -> bool {
        if end > self.length as u64 {
            return false;
        }
        let allocated = self.header().allocated.load(Acquire);
        if end <= allocated {
            return true;
        }
        let wanted = end.next_multiple_of(CHUNK).min(self.length as u64);
        if self.allocate(allocated, wanted).is_err() {
            return false;
        }
        self.header().allocated.fetch_max(wanted, AcqRel);
        true
    }

    /// Bytes of the ring.
    fn capacity(&self) -> u64 {
        (self.length - START) as u64
    }

    /// Where in the file a position is.
    fn offset(&self, at: u64) -> u64 {
        START as u64 + at % self.capacity()
    }

    /// The first word of the note at a position, which has memory.
    fn word(&self, at: u64) -> &AtomicU32 {
        let offset = self.offset(at);
        debug_assert!(offset % ALIGN as u64 == 0 && offset + 4 <= self.length as u64);
        // SAFETY: within the mapping and aligned; all processes use it as an atomic only.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(offset as usize).cast()) }
    }

    /// Appends a note, or counts that there was no room for it.
    pub(crate) fn append<B: Body>(&self, about: About, body: &B, tail: &[&[u8]]) {
        let head = Head { kind: B::KIND, about };
        let parts = [head.as_bytes(), body.as_bytes()].into_iter().chain(tail.iter().copied());
        let length = 4 + parts.clone().map(<[u8]>::len).sum::<usize>();
        let header = self.header();
        let Some(at) = self.claim(length) else {
            header.dropped.fetch_add(1, Relaxed);
            return;
        };
        let mut to = self.offset(at) as usize + 4;
        for part in parts {
            // SAFETY: the note is ours, it has memory, and nobody reads it before the mark is set.
            unsafe {
                ptr::copy_nonoverlapping(part.as_ptr(), self.base.as_ptr().add(to), part.len());
            }
            to += part.len();
        }
        self.word(at).store(length as u32 | WHOLE, Release);
    }

    /// Claims room for a note of so many bytes; where it begins.
    fn claim(&self, length: usize) -> Option<u64> {
        let header = self.header();
        let room = length.next_multiple_of(ALIGN) as u64;
        if length > LENGTH as usize || room > self.capacity() {
            return None;
        }
        loop {
            let at = header.end.load(Acquire);
            let left = self.capacity() - at % self.capacity();
            // A note is in one piece. What is left at the end of the ring is passed over, in steps.
            let fits = room <= left;
            let size = if fits { room } else { left.min(u64::from(LENGTH) / 8 * 8) };
            let is_free = at + size <= header.freed.load(Acquire) + self.capacity();
            if !is_free || !self.reaches(self.offset(at) + size) {
                return None;
            }
            if header.end.compare_exchange(at, at + size, AcqRel, Acquire).is_ok() {
                let word = if fits { length as u32 } else { size as u32 | WHOLE };
                self.word(at).store(word, Relaxed);
                // Who sees what is written behind the word sees the word.
                fence(Release);
                if fits {
                    return Some(at);
                }
            }
        }
    }

    /// Where the first note is.
    pub fn start() -> u64 {
        0
    }

    /// The note at a position, which is then that of the next. `None` if it is not there yet; with
    /// `is_over` one that is not whole is passed over.
    pub fn read(&self, at: &mut u64, is_over: bool) -> Option<Note> {
        loop {
            if *at >= self.header().end.load(Acquire) {
                return None;
            }
            let offset = self.offset(*at);
            let word = self.word(*at).load(Acquire);
            let length = (word & LENGTH) as usize;
            let end = *at + length.next_multiple_of(ALIGN) as u64;
            if word == 0 && is_over {
                *at = self.after_hole(*at)?;
                continue;
            }
            if length == 0 || offset + (end - *at) > self.length as u64 {
                return None;
            }
            if word & WHOLE == 0 && !is_over {
                return None;
            }
            let start = offset as usize + 4;
            *at = end;
            if word & WHOLE == 0 || length < 4 + size_of::<Head>() {
                continue;
            }
            let mut bytes = vec![0; length - 4];
            // SAFETY: the note is whole: nobody writes it any more.
            unsafe {
                ptr::copy_nonoverlapping(
                    self.base.as_ptr().add(start),
                    bytes.as_mut_ptr(),
                    bytes.len(),
                );
            }
            let (head, _) = Head::read_from_prefix(&bytes).ok()?;
            // What is left at the end of the ring is no note.
            if head.kind != 0 {
                bytes.drain(..size_of::<Head>());
                return Some(Note { kind: head.kind, about: head.about, bytes });
            }
        }
    }

    /// Where notes go on behind a place that has only been claimed.
    fn after_hole(&self, at: u64) -> Option<u64> {
        let end = self.header().end.load(Acquire).min(at + self.capacity());
        let mut places = (at..end).step_by(ALIGN);
        let next = places.find(|place| self.word(*place).load(Acquire) != 0)?;
        // If it is being written just now, what was found may be in the middle of it.
        if self.word(at).load(Acquire) != 0 { Some(at) } else { Some(next) }
    }

    /// Frees the place of all notes before a position: they have been read. For the one reader of a
    /// process that lives.
    pub fn release(&self, until: u64) {
        let header = self.header();
        for at in (header.freed.load(Relaxed)..until).step_by(ALIGN) {
            let offset = self.offset(at) as usize;
            // SAFETY: within the mapping and aligned; these bytes are nobody's until they count as freed.
            let place = unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(offset).cast()) };
            place.store(0, Relaxed);
        }
        header.freed.store(until, Release);
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        // SAFETY: unmaps what `map` has mapped; nothing borrowed from it outlives `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::thread;

    use super::*;
    use crate::recording::note::Stalled;

    /// A folder that goes with the value.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let name = format!("soft-hca-spool-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn spool(&self, limit: u64) -> (Spool, Spool) {
            let path = self.0.join("spool");
            let ours = Spool::create(&path, 7, 3, limit).unwrap();
            let theirs = Spool::open(&path).unwrap().unwrap();
            assert_eq!((theirs.index(), theirs.generation()), (7, 3));
            (ours, theirs)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn about(t: u64) -> About {
        About { thread: 1, proc: 2, t }
    }

    fn times(spool: &Spool, at: &mut u64, is_over: bool) -> Vec<u64> {
        std::iter::from_fn(|| spool.read(at, is_over)).map(|note| note.about.t).collect()
    }

    #[test]
    fn what_one_appends_another_reads() {
        let folder = Folder::new("reads");
        let (ours, theirs) = folder.spool(CHUNK);
        let mut at = Spool::start();
        assert_eq!(theirs.read(&mut at, true), None);
        let body = Stalled { wr_id: 5, qpn: 17 };
        ours.append(about(1), &body, &[b"ab", b"c"]);
        ours.append(about(2), &body, &[]);
        let note = theirs.read(&mut at, false).unwrap();
        assert_eq!((note.kind, note.about), (Stalled::KIND, about(1)));
        assert_eq!(Stalled::take(&note.bytes), Some((body, &b"abc"[..])));
        assert_eq!(times(&theirs, &mut at, false), [2]);
    }

    #[test]
    fn what_has_no_room_is_counted() {
        let folder = Folder::new("room");
        let (ours, theirs) = folder.spool(3 * CHUNK + 1);
        let text = [0; 1000];
        let count = 4 * CHUNK / 1000;
        (0..count).for_each(|t| ours.append(about(t), &Stalled::default(), &[&text]));
        let read = times(&theirs, &mut Spool::start(), false);
        assert!(read.iter().copied().eq(0..read.len() as u64));
        assert_eq!(read.len() as u64 + theirs.dropped(), count);
        assert!(theirs.dropped() > 0 && read.len() as u64 > 2 * CHUNK / 1000);
    }

    #[test]
    fn what_was_read_makes_room_for_more() {
        let folder = Folder::new("ring");
        let (ours, theirs) = folder.spool(CHUNK);
        let mut at = Spool::start();
        let mut next = 0;
        // Many laps, of notes of all lengths.
        for round in 0..2000 {
            for _ in 0..round % 7 {
                let text = vec![round as u8; (round as usize * 131) % 5000];
                ours.append(about(next), &Stalled::default(), &[&text]);
                next += 1;
            }
            let first = next - round % 7;
            for t in first..next {
                let note = theirs.read(&mut at, false).unwrap();
                let (_, text) = Stalled::take(&note.bytes).unwrap();
                assert_eq!((note.about.t, text.len()), (t, (round as usize * 131) % 5000));
                assert!(text.iter().all(|byte| *byte == round as u8));
            }
            assert_eq!(theirs.read(&mut at, false), None);
            theirs.release(at);
        }
        assert_eq!(theirs.dropped(), 0);
        assert!(at > 20 * theirs.capacity());
    }

    #[test]
    fn threads_go_round_together() {
        let folder = Folder::new("laps");
        let (ours, theirs) = folder.spool(CHUNK);
        let count = 30_000;
        let is_done = std::sync::atomic::AtomicU32::new(0);
        let mut last = [None; 4];
        let mut read = 0;
        thread::scope(|scope| {
            for thread in 0..4u8 {
                let (ours, is_done) = (&ours, &is_done);
                scope.spawn(move || {
                    for t in 0..count {
                        let text = vec![thread; usize::from(thread) * 3 + t as usize % 40];
                        ours.append(
                            About { thread: thread.into(), proc: 2, t },
                            &Stalled::default(),
                            &[&text],
                        );
                    }
                    is_done.fetch_add(1, Release);
                });
            }
            let mut at = Spool::start();
            loop {
                let is_over = is_done.load(Acquire) == 4;
                while let Some(note) = theirs.read(&mut at, false) {
                    let (_, text) = Stalled::take(&note.bytes).unwrap();
                    let About { thread, t, .. } = note.about;
                    assert_eq!(text.len(), thread as usize * 3 + t as usize % 40);
                    assert!(text.iter().all(|byte| u32::from(*byte) == thread));
                    assert!(last[thread as usize] < Some(t));
                    last[thread as usize] = Some(t);
                    read += 1;
                }
                theirs.release(at);
                if is_over {
                    break;
                }
            }
        });
        assert_eq!(read + theirs.dropped(), 4 * count);
        assert!(read > count / 10, "{read}");
    }

    #[test]
    fn a_note_that_was_never_finished_is_passed_over_in_the_end() {
        let folder = Folder::new("torn");
        let (ours, theirs) = folder.spool(CHUNK);
        ours.append(about(1), &Stalled::default(), &[]);
        ours.claim(60).unwrap();
        ours.append(about(2), &Stalled::default(), &[]);
        let mut at = Spool::start();
        assert_eq!(times(&theirs, &mut at, false), [1]);
        assert_eq!(times(&theirs, &mut at, true), [2]);
    }

    #[test]
    fn a_place_that_was_only_claimed_is_passed_over_in_the_end() {
        let folder = Folder::new("hole");
        let (ours, theirs) = folder.spool(CHUNK);
        ours.append(about(1), &Stalled::default(), &[]);
        let hole = ours.header().end.fetch_add(64, AcqRel);
        ours.append(about(2), &Stalled::default(), &[]);
        let mut at = Spool::start();
        assert_eq!(times(&theirs, &mut at, false), [1]);
        assert_eq!(at, hole);
        assert_eq!(times(&theirs, &mut at, true), [2]);
        ours.header().end.fetch_add(64, AcqRel);
        assert_eq!(times(&theirs, &mut at, true), []);
    }

    #[test]
    fn threads_do_not_disturb_each_other() {
        let folder = Folder::new("threads");
        let (ours, theirs) = folder.spool(16 * CHUNK);
        thread::scope(|scope| {
            for thread in 0..4u8 {
                let ours = &ours;
                scope.spawn(move || {
                    for t in 0..5000 {
                        let text = vec![thread; usize::from(thread) * 3];
                        ours.append(about(t), &Stalled::default(), &[&text]);
                    }
                });
            }
        });
        let mut next = [0; 4];
        let mut at = Spool::start();
        while let Some(note) = theirs.read(&mut at, false) {
            let (_, text) = Stalled::take(&note.bytes).unwrap();
            let thread = text.len() / 3;
            assert!(text.iter().all(|byte| usize::from(*byte) == thread));
            assert_eq!(note.about.t, next[thread]);
            next[thread] += 1;
        }
        assert_eq!((next, theirs.dropped()), ([5000; 4], 0));
    }
}
