//! A ring of records: one process appends, another reads.
//!
//! To append is to move the end of all records on, which gives a place that nobody else has, to put
//! the length into its first word, to write the rest, and to set a mark in that word. Nothing
//! waits. A process that is killed in between leaves a record without the mark, whose length is
//! known, or a place of zeros: readers pass over both.
//!
//! Positions count on, and what has been read becomes zeros for the next lap.
#![allow(unsafe_code, reason = "a mapped file")]

use std::io;
use std::path::Path;
use std::ptr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64, fence};

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::event::Event;
use super::file::{Header, MappedFile};

/// The mark of a record that is all there.
const WHOLE: u32 = 1 << 31;
/// The bits of a word that have the record's length.
const LENGTH: u32 = (1 << 20) - 1;
/// Records begin at multiples of this.
const ALIGN: usize = 8;
const START: usize = size_of::<Header>();

/// Begins each record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C, packed)]
struct Head {
    /// Kind of the record.
    kind: u32,
    about: About,
}

/// Whom a record is about, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct About {
    /// The thread, 0 for none.
    pub thread: u32,
    /// Index of the process.
    pub proc: u32,
    /// `CLOCK_MONOTONIC` in nanoseconds.
    pub t: u64,
    /// Where in the program the thread was.
    pub site: Site,
}

/// Where in its program a thread has called a library, and in which of its calls it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Site {
    /// Number of a [`Place`](super::event::Place) of the process, 0 for none.
    pub place: u32,
    /// Number of the call in its thread, 0 for none.
    pub call: u32,
}

/// A traced event, as it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The thread that has traced it, and the time.
    pub about: About,
    /// Its fixed part.
    pub event: Event,
    /// The bytes behind it.
    pub tail: Vec<u8>,
}

/// A ring in a mapped file.
#[derive(Debug)]
pub struct TraceRing {
    file: MappedFile,
}

// SAFETY: the mapping is the process's and no thread's own.
unsafe impl Send for TraceRing {}
// SAFETY: threads share atomics; plain stores go to a record that the storing thread has claimed by one of them
// (`arena`, on access to shared memory).
unsafe impl Sync for TraceRing {}

impl TraceRing {
    /// Creates a file for at most `limit` bytes.
    pub(crate) fn create(path: &Path, index: u32, generation: u32, limit: u64) -> io::Result<Self> {
        Ok(Self { file: MappedFile::create(path, index, generation, limit)? })
    }

    /// Maps the file of another process; `None` if that has not written its header yet, and
    /// [`OtherVersion`](super::OtherVersion) if it traces in another layout.
    pub fn open(path: &Path) -> io::Result<Option<Self>> {
        Ok(MappedFile::open(path)?.map(|file| Self { file }))
    }

    fn header(&self) -> &Header {
        self.file.header()
    }

    /// Index of the process.
    pub fn index(&self) -> u32 {
        self.header().index.load(Relaxed)
    }

    /// The recording that it belongs to.
    pub(crate) fn generation(&self) -> u32 {
        self.header().generation.load(Relaxed)
    }

    /// Records for which there was no room.
    pub fn dropped(&self) -> u64 {
        self.header().dropped.load(Relaxed)
    }

    /// Bytes of the ring.
    fn capacity(&self) -> u64 {
        (self.file.length - START) as u64
    }

    /// Where in the file a position is.
    fn offset(&self, at: u64) -> u64 {
        START as u64 + at % self.capacity()
    }

    /// The word at a position, which has memory: the first of a record, or one that is read.
    fn word(&self, at: u64) -> &AtomicU32 {
        let offset = self.offset(at);
        debug_assert!(offset % 4 == 0 && offset + 4 <= self.file.length as u64);
        // SAFETY: a position is a multiple of 4, and so are the ring's start and its capacity, so that a whole and aligned
        // word is there within the mapping. Nothing has a reference to it but atomics.
        unsafe { AtomicU32::from_ptr(self.file.base.as_ptr().add(offset as usize).cast()) }
    }

    /// Appends a record, or counts that there was no room for it.
    pub(crate) fn append(&self, about: About, event: &Event, tail: &[&[u8]]) {
        let head = Head { kind: event.kind(), about };
        let parts = [head.as_bytes(), event.as_bytes()].into_iter().chain(tail.iter().copied());
        let length = 4 + parts.clone().map(<[u8]>::len).sum::<usize>();
        let header = self.header();
        let Some(at) = self.claim(length) else {
            header.dropped.fetch_add(1, Relaxed);
            return;
        };
        let mut to = self.offset(at) as usize + 4;
        for part in parts {
            // SAFETY: `claim` has given this thread so many bytes, which have memory and lie in one piece within the
            // mapping; nobody reads them before the mark is released.
            unsafe {
                ptr::copy_nonoverlapping(
                    part.as_ptr(),
                    self.file.base.as_ptr().add(to),
                    part.len(),
                );
            }
            to += part.len();
        }
        self.word(at).store(length as u32 | WHOLE, Release);
    }

    /// Claims room for a record of so many bytes; where it begins.
    fn claim(&self, length: usize) -> Option<u64> {
        let header = self.header();
        let room = length.next_multiple_of(ALIGN) as u64;
        if length > LENGTH as usize || room > self.capacity() {
            return None;
        }
        loop {
            let at = header.end.load(Acquire);
            let left = self.capacity() - at % self.capacity();
            // A record is in one piece. What is left at the end of the ring is passed over, in
            // steps.
            let fits = room <= left;
            let size = if fits { room } else { left.min(u64::from(LENGTH) / 8 * 8) };
            let is_free = at + size <= header.freed.load(Acquire) + self.capacity()
                // Another process may have written it.
                && at % ALIGN as u64 == 0;
            if !is_free || !self.file.reaches(self.offset(at) + size) {
                return None;
            }
            if header.end.compare_exchange(at, at + size, AcqRel, Acquire).is_ok() {
                let word = if fits { length as u32 } else { size as u32 | WHOLE };
                self.word(at).store(word, Relaxed);
                // A reader that sees what is written behind the word sees the word.
                fence(Release);
                if fits {
                    return Some(at);
                }
            }
        }
    }

    /// Where the first record is.
    pub fn start() -> u64 {
        0
    }

    /// The record at a position, which is then that of the next. `None` if it is not there yet;
    /// with `is_over` one that is not whole is passed over.
    pub fn read(&self, at: &mut u64, is_over: bool) -> Option<Record> {
        loop {
            if self.ends_at(*at) {
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
            if length == 0 || offset + (end - *at) > self.file.length as u64 {
                return None;
            }
            if word & WHOLE == 0 && !is_over {
                return None;
            }
            let start = *at + 4;
            *at = end;
            if word & WHOLE == 0 || length < 4 + size_of::<Head>() {
                continue;
            }
            let mut bytes = vec![0; length - 4];
            for (part, at) in bytes.chunks_mut(4).zip((start..).step_by(4)) {
                let word = self.word(at).load(Relaxed).to_ne_bytes();
                part.copy_from_slice(&word[..part.len()]);
            }
            let (head, behind) = Head::read_from_prefix(&bytes).ok()?;
            // The rest at the end of the ring is no record.
            let taken = Event::take(head.kind, behind).map(|(event, tail)| (event, tail.len()));
            if let Some((event, length)) = taken {
                bytes.drain(..bytes.len() - length);
                return Some(Record { about: head.about, event, tail: bytes });
            }
        }
    }

    /// Whether there is no record behind a position, not even one that is being written.
    pub fn ends_at(&self, at: u64) -> bool {
        at >= self.header().end.load(Acquire)
    }

    /// Where records go on behind a place that has only been claimed.
    fn after_hole(&self, at: u64) -> Option<u64> {
        let end = self.header().end.load(Acquire).min(at + self.capacity());
        let mut places = (at..end).step_by(ALIGN);
        let next = places.find(|place| self.word(*place).load(Acquire) != 0)?;
        // If it is being written just now, what was found may be in the middle of it.
        if self.word(at).load(Acquire) != 0 { Some(at) } else { Some(next) }
    }

    /// Frees the place of all records before a position: they have been read. For the one reader of
    /// a process that lives.
    pub fn release(&self, until: u64) {
        let header = self.header();
        let from = header.freed.load(Relaxed) / ALIGN as u64 * ALIGN as u64;
        for at in (from..until).step_by(ALIGN) {
            let offset = self.offset(at) as usize;
            // SAFETY: a position is a multiple of 8, and so are the ring's start and its capacity, so that eight aligned
            // bytes are there within the mapping. Nothing has a reference to them but atomics.
            let place = unsafe { AtomicU64::from_ptr(self.file.base.as_ptr().add(offset).cast()) };
            place.store(0, Relaxed);
        }
        header.freed.store(until, Release);
    }
}

#[cfg(test)]
mod tests;
