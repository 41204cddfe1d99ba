//! A hostile program of a fabric: it writes the tables, and asks helpers for other programs' memory.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Release, SeqCst};

use soft_hca_core::arena::{Arena, BounceSlot, MAX_MRS, Mapping, Mr, key};
use soft_hca_core::engine::DAEMON;
use soft_hca_core::uapi::verbs::access;

use crate::{LIMIT, comes_about};

/// The slot of its requests: the last one, which nobody else takes as long as there are others.
const SLOT: usize = u64::BITS as usize - 1;

/// The phases of a request, in the lowest bits of its word (`engine::bounce_phase`).
const PHASE: u32 = 3;
const REQUESTED: u32 = 1;
const DONE: u32 = 3;

/// The direction: from memory to the bounce buffer, or from there to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The memory is read.
    Read,
    /// The memory is written.
    Write,
}

/// A helper's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The bytes are moved.
    Moved,
    /// The memory may not be used.
    Fault,
    /// Its process is not reached.
    Unreachable,
}

/// A stretch of a process's memory, and the region that it is said to lie in.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    /// Index of the process in the arena.
    pub process: usize,
    /// First address.
    pub addr: u64,
    /// Bytes.
    pub length: u64,
    /// Key of the region.
    pub key: u32,
}

/// A program that has the arena mapped, as all programs of the fabric have, and keeps to no rule.
#[derive(Debug)]
pub struct Forger<'a>(pub &'a Mapping);

impl Forger<'_> {
    /// Writes an entry for a region that has never been there, and returns its key.
    pub fn invent(&self, process: usize, addr: u64, length: u64) -> u32 {
        let index = MAX_MRS - 1;
        let entry = &self.0.mrs[index];
        entry.kind.store(0, Release);
        self.widen(entry, process, addr, length);
        let key = key(index, 7, self.0.key_base.load(Acquire));
        entry.live.store(key, Release);
        key
    }

    /// Makes the entry with a key allow all access to a stretch of memory.
    pub fn overwrite(&self, key: u32, process: usize, addr: u64, length: u64) {
        let entry = &self.0.mrs[self.0.key_index(key).unwrap()];
        self.widen(entry, process, addr, length);
        entry.live.store(key, Release);
    }

    fn widen(&self, entry: &Mr, process: usize, addr: u64, length: u64) {
        let all = access::LOCAL_WRITE | access::REMOTE_READ | access::REMOTE_WRITE;
        entry.proc.store(process as u32, Release);
        entry.access.store(all, Release);
        entry.addr.store(addr, Release);
        entry.iova.store(addr, Release);
        entry.length.store(length, Release);
    }

    /// Writes to the table that a process has this id, and this word at this address.
    pub fn impersonate(&self, process: usize, pid: u32, (addr, word): (u64, u64)) {
        let entry = &self.0.procs[process];
        entry.nonce_addr.store(addr, Release);
        entry.nonce.store(word, Release);
        entry.pid.store(pid, Release);
    }

    /// The address of a word in the daemon, which no program may read.
    pub fn address_in_daemon(&self) -> u64 {
        self.0.procs[DAEMON].nonce_addr.load(Acquire)
    }

    /// Asks a process's own helper, or the daemon's, to read or write the process's memory.
    pub fn ask(&self, way: Way, wanted: Stretch) -> Answer {
        let Stretch { process, addr, length, key } = wanted;
        let arena: &Arena = self.0;
        let is_closed = arena.procs[process].closed.load(Acquire) != 0;
        let helper = if is_closed { process } else { DAEMON };
        let slot: &BounceSlot = &arena.bounce_slots[SLOT];
        for (field, value) in [
            (&slot.helper, helper as u32),
            (&slot.proc, process as u32),
            (&slot.writes, u32::from(way == Way::Write)),
            (&slot.offset, 0),
            (&slot.count, 1),
            (&slot.segments[0].region, arena.key_index(key).map_or(0, |index| index as u32 + 1)),
        ] {
            field.store(value, Release);
        }
        slot.segments[0].addr.store(addr, Release);
        slot.segments[0].length.store(length, Release);
        let word = slot.phase.load(Acquire).wrapping_add(PHASE + 1) & !PHASE;
        slot.phase.store(word | REQUESTED, SeqCst);
        let entry = &arena.procs[helper];
        entry.requested.fetch_or(1 << SLOT, AcqRel);
        let is_done = || {
            // The helper's sleep ends with a change of the word, or with a wake-up that comes after one.
            entry.doorbell.fetch_add(1, AcqRel);
            rustix::thread::futex::wake(&entry.doorbell, rustix::thread::futex::Flags::empty(), 1)
                .unwrap();
            slot.phase.load(Acquire) == word | DONE
        };
        assert!(comes_about(LIMIT, is_done), "no answer from {helper}");
        match slot.result.load(Acquire) {
            0 => Answer::Moved,
            1 => Answer::Fault,
            _ => Answer::Unreachable,
        }
    }
}
