//! Copies through the arena, for memory that the system does not let us reach.
//!
//! The bytes go to a slot's bounce buffer and from there to where they belong. This thread moves
//! its own memory and what it may reach; all else it requests of a helper, a thread of the memory's
//! owner if the owner is closed, else one of the daemon (`helper`).
//!
//! Requester and helper agree by the request's phase (`bounce_phase`). A slot whose helper is at
//! work is not used anew before the helper is done with it, or dead.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::thread;
use std::time::{Duration, Instant};

use arrayvec::ArrayVec;

use crate::arena::{
    Arena, BOUNCE_BUFFER_BYTES, BounceSegment, BounceSlot, Guard, MAX_BOUNCE_SEGMENTS, Mapping,
};
use crate::engine::bounce_buffer::{self, Way};
use crate::engine::bounce_phase;
use crate::engine::futex;
use crate::engine::pids::Pids;
use crate::engine::proc::{DAEMON, is_daemon};
use crate::engine::process_memory::{self, CopyError};
use crate::engine::segments::{Fault, MAX_SEGMENTS, Memory, Region, Segment, length, window};

const _: () = assert!(MAX_SEGMENTS == MAX_BOUNCE_SEGMENTS);

/// Results of a request.
const MOVED: u32 = 0;
const FAULT: u32 = 1;
const UNREACHABLE: u32 = 2;

/// A helper that does not answer for so long is as good as none: it may have been stopped. The
/// request is tried again as long as the queue pair's timers allow.
const PATIENCE: Duration = Duration::from_secs(5);
/// There is no reason for so much if the helper has not looked since an earlier request.
const LITTLE_PATIENCE: Duration = Duration::from_millis(200);
/// The daemon has others to serve, and comes back. For a helper that has not looked since an earlier
/// request it does not wait at all.
const DAEMON_PATIENCE: Duration = Duration::from_millis(20);
/// A requester that has waited so long has the daemon see whether the helper still lives.
const DOUBT: Duration = Duration::from_millis(50);

/// A request to a helper.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub way: Way,
    /// Whose memory it is about.
    pub proc: usize,
    /// Where in the bounce buffer.
    pub offset: u64,
    /// The stretches of memory, and the region of each.
    pub segments: Vec<(Segment, Region)>,
}

impl Job {
    /// The stretches alone.
    pub(super) fn segments(&self) -> ArrayVec<Segment, MAX_SEGMENTS> {
        self.segments.iter().map(|(segment, _)| *segment).take(MAX_SEGMENTS).collect()
    }
}

fn patience(me: usize, is_silent: bool) -> Duration {
    match (is_daemon(me), is_silent) {
        (true, false) => DAEMON_PATIENCE,
        (true, true) => Duration::ZERO,
        (false, false) => PATIENCE,
        (false, true) => LITTLE_PATIENCE,
    }
}

impl BounceSlot {
    fn helper_is_gone(&self, arena: &Arena) -> bool {
        let helper = arena.procs.get(self.helper.load(Acquire) as usize);
        helper.is_none_or(|helper| helper.live.load(Acquire) == 0)
    }

    /// The helper's first step: the request, if it is for this helper and nobody else has it.
    pub(super) fn claim(&self, me: usize) -> Option<Job> {
        let is_requested = bounce_phase::is_requested(self.phase.load(Acquire));
        if !is_requested || self.helper.load(Acquire) as usize != me {
            return None;
        }
        if !bounce_phase::begin(&self.phase) {
            return None;
        }
        let count = (self.count.load(Acquire) as usize).min(MAX_BOUNCE_SEGMENTS);
        let segment = |slot: &BounceSegment| {
            let (addr, length) = (slot.addr.load(Acquire), slot.length.load(Acquire));
            (Segment { addr, length }, Region::from_word(slot.region.load(Acquire)))
        };
        Some(Job {
            way: if self.writes.load(Acquire) == 0 { Way::In } else { Way::Out },
            proc: self.proc.load(Acquire) as usize,
            offset: self.offset.load(Acquire).into(),
            segments: self.segments[..count].iter().map(segment).collect(),
        })
    }

    /// The helper's last step.
    pub(super) fn finish(&self, outcome: Result<(), CopyError>) {
        let result = match outcome {
            Ok(()) => MOVED,
            Err(CopyError::Fault) => FAULT,
            Err(CopyError::Unreachable) => UNREACHABLE,
        };
        if bounce_phase::finish(&self.phase, || self.result.store(result, Release)) {
            futex::wake(&self.phase);
        }
    }

    /// Answers for a helper that is dead.
    fn fail(&self) {
        let write_result = || self.result.store(UNREACHABLE, Release);
        if bounce_phase::answer_for_dead(&self.phase, write_result) {
            futex::wake(&self.phase);
        }
    }
}

/// Answers for all helpers that are dead.
pub(super) fn fail_dead(arena: &Arena, is_dead: impl Fn(usize) -> bool) {
    for slot in &arena.bounce_slots {
        let word = slot.phase.load(Acquire);
        if (bounce_phase::is_requested(word) || bounce_phase::is_busy(word))
            && (slot.helper_is_gone(arena) || is_dead(slot.helper.load(Acquire) as usize))
        {
            slot.fail();
        }
    }
}

/// Tells a helper that something has changed.
pub(super) fn wake_helper(arena: &Arena, helper: usize) {
    if let Some(helper) = arena.procs.get(helper) {
        helper.doorbell.fetch_add(1, AcqRel);
        futex::wake(&helper.doorbell);
    }
}

/// A slot for one copy.
pub(super) struct SlotGuard<'a> {
    arena: &'a Mapping,
    pub index: usize,
    slot: &'a BounceSlot,
    _guard: Guard<'a>,
}

impl<'a> SlotGuard<'a> {
    /// The first that is free. `None` if there is none for long.
    pub(super) fn acquire(arena: &'a Mapping, me: usize) -> Option<Self> {
        let end = Instant::now() + patience(me, false);
        loop {
            for (index, slot) in arena.bounce_slots.iter().enumerate() {
                if let Some(guard) = slot.lock.try_lock(me) {
                    if bounce_phase::recover(&slot.phase, || slot.helper_is_gone(arena)) {
                        return Some(Self { arena, index, slot, _guard: guard });
                    }
                }
            }
            if Instant::now() >= end {
                return None;
            }
            thread::yield_now();
        }
    }

    /// Has a process's memory moved by whoever can do that.
    pub(super) fn ask(&self, me: usize, job: Job) -> Result<(), CopyError> {
        let Self { arena, slot, .. } = *self;
        let entry = arena.procs.get(job.proc).ok_or(CopyError::Unreachable)?;
        let helper = if entry.closed.load(Acquire) != 0 { job.proc } else { DAEMON };
        let is_alive = |proc: usize| arena.procs[proc].live.load(Acquire) != 0;
        if helper == me || !is_alive(job.proc) || !is_alive(helper) {
            return Err(CopyError::Unreachable);
        }
        slot.helper.store(helper as u32, Release);
        slot.proc.store(job.proc as u32, Release);
        slot.writes.store(u32::from(job.way == Way::Out), Release);
        slot.offset.store(job.offset as u32, Release);
        slot.count.store(job.segments.len() as u32, Release);
        for (entry, (segment, region)) in slot.segments.iter().zip(&job.segments) {
            entry.addr.store(segment.addr, Release);
            entry.length.store(segment.length, Release);
            entry.region.store(region.to_word(), Release);
        }
        bounce_phase::ask(&slot.phase);
        let bit = 1 << self.index;
        let is_silent = arena.procs[helper].requested.fetch_or(bit, AcqRel) & bit != 0;
        wake_helper(arena, helper);
        self.wait(helper, patience(me, is_silent))
    }

    fn wait(&self, helper: usize, patience: Duration) -> Result<(), CopyError> {
        let Self { arena, slot, .. } = *self;
        let began = Instant::now();
        loop {
            let word = slot.phase.load(Acquire);
            if bounce_phase::is_done(word) {
                return match slot.result.load(Acquire) {
                    MOVED => Ok(()),
                    FAULT => Err(CopyError::Fault),
                    _ => Err(CopyError::Unreachable),
                };
            }
            let waited = began.elapsed();
            if waited >= patience {
                // If it is busy all the same, nobody uses the slot until it is done.
                if !bounce_phase::withdraw(&slot.phase, word) {
                    continue;
                }
                return Err(CopyError::Unreachable);
            }
            if waited >= DOUBT && helper != DAEMON {
                wake_helper(arena, DAEMON);
            }
            futex::wait(&slot.phase, word, Some(DOUBT));
        }
    }
}

/// Moves bytes between a process's memory and a slot's bounce buffer without asking anybody.
pub(super) fn transfer(
    pids: &Pids,
    arena: &Mapping,
    me: usize,
    slot: usize,
    job: &Job,
) -> Result<(), CopyError> {
    let segments = job.segments();
    let length = length(&segments);
    if job.proc == me {
        return bounce_buffer::transfer(arena, job.way, slot, job.offset, &segments, length);
    }
    let pid = pids.get(arena, me, job.proc).map_err(|_| CopyError::Unreachable)?;
    let here = [Segment { addr: arena.bounce_buffer(slot).0 + job.offset, length }];
    match job.way {
        Way::In => process_memory::read(pid, &here, &segments, length),
        Way::Out => process_memory::write(pid, &here, &segments, length),
    }
}

/// Copies `length` bytes by way of a slot.
pub(super) fn copy(
    pids: &Pids,
    arena: &Mapping,
    me: usize,
    from: Memory<'_>,
    to: Memory<'_>,
    length: u64,
) -> Result<(), Fault> {
    let slot = SlotGuard::acquire(arena, me).ok_or(Fault::Unreachable)?;
    let go = |way, memory: Memory<'_>, skip, offset, limit, fault| {
        let mut part = [Segment::default(); MAX_SEGMENTS];
        let window = window(memory.segments, skip, limit, &mut part);
        let parts = part[..window.count].iter().zip(window.first..);
        let segments = parts.map(|(segment, index)| (*segment, memory.region(index))).collect();
        let job = Job { way, proc: memory.proc, offset, segments };
        let moved = match transfer(pids, arena, me, slot.index, &job) {
            Err(CopyError::Unreachable) => slot.ask(me, job),
            moved => moved,
        };
        moved.map(|()| window.bytes).map_err(|error| match error {
            CopyError::Fault => fault,
            CopyError::Unreachable => Fault::Unreachable,
        })
    };
    let mut moved = 0;
    while moved < length {
        let limit = (length - moved).min(BOUNCE_BUFFER_BYTES as u64);
        let bytes = go(Way::In, from, moved, 0, limit, Fault::Source)?;
        let mut written = 0;
        while written < bytes {
            let rest = bytes - written;
            written += go(Way::Out, to, moved + written, written, rest, Fault::Destination)?;
        }
        moved += bytes;
    }
    Ok(())
}

/// Ends what a dead process has to do with bounce slots: requests to its helper are answered, and
/// its own are withdrawn. False as long as a helper is still at work for it: the bytes go to
/// memory that the dead process's locks keep others from using. For the daemon.
pub(super) fn end_all_of(arena: &Arena, dead: usize) -> bool {
    fail_dead(arena, |helper| helper == dead);
    let withdraw = |slot: &BounceSlot| {
        bounce_phase::withdraw(&slot.phase, bounce_phase::look(&slot.phase));
    };
    let is_its_own = |slot: &BounceSlot| slot.lock.owner() == Some(dead);
    arena.bounce_slots.iter().filter(|slot| is_its_own(slot)).for_each(withdraw);
    busy(arena, is_its_own).is_empty()
}

/// Slots for which a helper is at work: index, and the word that says so.
pub(super) fn busy(arena: &Arena, which: impl Fn(&BounceSlot) -> bool) -> Vec<(usize, u32)> {
    let slots = arena.bounce_slots.iter().enumerate().filter(|(_, slot)| which(slot));
    let words = slots.map(|(index, slot)| (index, bounce_phase::look(&slot.phase)));
    words.filter(|busy| bounce_phase::is_busy(busy.1) && is_busy(arena, *busy)).collect()
}

/// Whether the helper is still at it.
pub(super) fn is_busy(arena: &Arena, (index, word): (usize, u32)) -> bool {
    let slot = &arena.bounce_slots[index];
    slot.phase.load(Acquire) == word && !slot.helper_is_gone(arena)
}
