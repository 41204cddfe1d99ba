//! The data path's environment in the daemon.

use std::collections::{HashMap, VecDeque};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::fs::{FallocateFlags, fallocate};
use soft_hca_core::engine::{Async, Env, InTransit};
use soft_hca_core::system;
use soft_hca_core::trace::{Event, Recorder};

use crate::clock::Clock;
use crate::event_fd::EventFd;
use crate::link;
use crate::process;

/// Wakes, timers and events, collected while the data path runs.
#[derive(Debug, Default)]
pub(crate) struct DaemonEnv {
    channels: Mutex<HashMap<usize, (u32, EventFd)>>,
    /// Queue pairs to be run again: number and after how many nanoseconds.
    rescheduled: Mutex<VecDeque<(u32, u64)>>,
    /// Strict programs' queue pairs to be run again: number and time by the clock.
    put_off: Mutex<Vec<(u32, u64)>>,
    /// The time by which they are put off.
    pub(crate) clock: Arc<Clock>,
    /// Descriptors that tell of the end of a process, by its index, where the system has such.
    processes: Arc<Mutex<HashMap<usize, Option<Arc<OwnedFd>>>>>,
    raised: Mutex<VecDeque<Async>>,
    link: OnceLock<link::Handle>,
    /// Where the daemon traces what happens.
    recorder: OnceLock<Recorder>,
    in_transit: InTransit,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DaemonEnv {
    pub(crate) fn remember_channel(&self, index: usize, generation: u32, fd: EventFd) {
        lock(&self.channels).insert(index, (generation, fd));
    }

    pub(crate) fn forget_channel(&self, index: usize) {
        lock(&self.channels).remove(&index);
    }

    /// There is a link to other hosts.
    pub(crate) fn set_link(&self, link: link::Handle) {
        let _ = self.link.set(link);
    }

    /// A channel's descriptor, if it is still this generation.
    pub(crate) fn channel_fd(&self, index: usize, generation: u32) -> Option<OwnedFd> {
        let channels = lock(&self.channels);
        let (live, fd) = channels.get(&index)?;
        if *live == generation { fd.try_clone().ok() } else { None }
    }

    /// The generation of the channel with an index.
    pub(crate) fn generation(&self, index: usize) -> Option<u32> {
        lock(&self.channels).get(&index).map(|(live, _)| *live)
    }

    /// Whether a channel, index and generation, has a token.
    pub(crate) fn is_readable(&self, (index, generation): (u32, u32)) -> bool {
        let channels = lock(&self.channels);
        channels.get(&(index as usize)).is_some_and(|(live, fd)| *live == generation && fd.is_set())
    }

    /// Wakes all who wait for a channel, now and for ever.
    pub(crate) fn wake_all(&self, index: usize) {
        if let Some((_, fd)) = lock(&self.channels).get(&index) {
            fd.add(1);
        }
    }

    /// Takes back tokens of events that nobody will read.
    pub(crate) fn take_tokens(&self, (index, generation): (usize, u32), tokens: u32) {
        if let Some((_, fd)) =
            lock(&self.channels).get(&index).filter(|(live, _)| *live == generation)
        {
            for _ in 0..tokens {
                if !fd.take() {
                    break;
                }
            }
        }
    }

    /// There is a process; `pidfd` tells when it has ended.
    pub(crate) fn remember_process(&self, index: usize, pidfd: Option<Arc<OwnedFd>>) {
        lock(&self.processes).insert(index, pidfd);
    }

    /// Tells which processes have ended, wherever it is asked.
    pub(crate) fn deaths(&self) -> impl Fn(usize) -> bool + Send + use<> {
        let processes = Arc::clone(&self.processes);
        move |proc| {
            let processes = lock(&processes);
            processes
                .get(&proc)
                .and_then(Option::as_ref)
                .is_some_and(|pidfd| process::has_ended(pidfd))
        }
    }

    /// The index is nobody's any more.
    pub(crate) fn forget_process(&self, index: usize) {
        lock(&self.processes).remove(&index);
    }

    pub(crate) fn take_rescheduled(&self) -> VecDeque<(u32, u64)> {
        std::mem::take(&mut *lock(&self.rescheduled))
    }

    pub(crate) fn take_put_off(&self) -> Vec<(u32, u64)> {
        std::mem::take(&mut *lock(&self.put_off))
    }

    pub(crate) fn take_raised(&self) -> VecDeque<Async> {
        std::mem::take(&mut *lock(&self.raised))
    }

    /// Events can be traced from now on.
    pub(crate) fn set_recorder(&self, recorder: Recorder) {
        let _ = self.recorder.set(recorder);
    }

    /// Where the daemon traces what happens.
    pub(crate) fn recorder(&self) -> Option<&Recorder> {
        self.recorder.get()
    }

    /// Gives a part of the arena's file back to the system; it reads as zeros afterwards.
    pub(crate) fn punch_hole(&self, file: BorrowedFd<'_>, offset: usize, bytes: usize) {
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let bytes = bytes.next_multiple_of(system::page_bytes());
        // Where the file's system cannot, the memory stays in use.
        let _ = fallocate(file, mode, offset as u64, bytes as u64);
    }
}

impl Env for DaemonEnv {
    fn now_ns(&self) -> u64 {
        system::now_ns()
    }

    fn wake_channel(&self, channel: u32, generation: u32) {
        if let Some((live, fd)) = lock(&self.channels).get(&(channel as usize)) {
            if *live == generation {
                fd.add(1);
            }
        }
    }

    fn reschedule(&self, qpn: u32, after_ns: u64) {
        lock(&self.rescheduled).push_back((qpn, after_ns));
    }

    fn put_off_now_ns(&self) -> u64 {
        self.clock.at(system::now_ns())
    }

    fn put_off(&self, qpn: u32, due_ns: u64) {
        lock(&self.put_off).push((qpn, due_ns));
    }

    fn in_transit(&self) -> Option<&InTransit> {
        Some(&self.in_transit)
    }

    fn raise(&self, what: Async) {
        lock(&self.raised).push_back(what);
    }

    fn trace(&self, proc: u32, event: &Event, tail: &[u8]) {
        if let Some(recorder) = self.recorder.get() {
            recorder.trace(proc, event, tail);
        }
    }

    fn trace_at(&self, t: u64, proc: u32, event: &Event, tail: &[u8]) {
        if let Some(recorder) = self.recorder.get() {
            recorder.trace_at(t, proc, event, tail);
        }
    }

    fn link_doorbell(&self, qpn: u32) {
        if let Some(link) = self.link.get() {
            link.doorbell_of(qpn);
        }
    }

    fn is_there(&self, proc: usize) -> bool {
        lock(&self.processes).contains_key(&proc)
    }
}
