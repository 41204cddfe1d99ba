//! A thread that moves memory for those who cannot reach it: that of its own process, or, in the
//! daemon, that of processes which the daemon can reach. It sleeps until it is asked (`bounce`).

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::thread::{self, JoinHandle};

use crate::arena::{BOUNCE_BUFFER_BYTES, Mapping};
use crate::engine::bounce::{self, Job};
use crate::engine::bounce_buffer::Way;
use crate::engine::pids::Pids;
use crate::engine::proc::DAEMON;
use crate::engine::process_memory::CopyError;
use crate::engine::registry::Registry;
use crate::engine::segments::length;
use crate::engine::{futex, signals};

/// Bytes of the thread's stack.
const STACK: usize = 128 << 10;

/// Tells which processes have ended.
pub(crate) type IsDead = Box<dyn Fn(usize) -> bool + Send>;

/// A helper; it ends with the value.
#[derive(Debug)]
pub struct Helper {
    arena: Arc<Mapping>,
    me: usize,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Helper {
    /// Starts the helper of process `me`, for memory that is in a registry. The daemon's helper
    /// also answers for helpers that are dead. The program's signals are not for this thread.
    pub fn start(
        arena: Arc<Mapping>,
        me: usize,
        registry: Arc<Registry>,
        is_dead: IsDead,
    ) -> io::Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let thread = {
            let (arena, is_over) = (Arc::clone(&arena), Arc::clone(&is_over));
            let run = move || serve(&arena, me, &registry, &is_dead, &is_over);
            let builder = thread::Builder::new().name("soft-hca".into()).stack_size(STACK);
            signals::while_blocked(|| builder.spawn(run))?
        };
        Ok(Self { arena, me, is_over, thread: Some(thread) })
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.is_over.store(true, Release);
        bounce::wake_helper(&self.arena, self.me);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(
    arena: &Mapping,
    me: usize,
    registry: &Arc<Registry>,
    is_dead: &IsDead,
    is_over: &AtomicBool,
) {
    let pids = Pids::of(Some(Arc::clone(registry)));
    let entry = &arena.procs[me];
    while !is_over.load(Acquire) {
        let doorbell = entry.doorbell.load(Acquire);
        let requested = entry.requested.swap(0, AcqRel);
        for index in (0..u64::BITS as usize).filter(|index| requested >> index & 1 != 0) {
            let slot = &arena.bounce_slots[index];
            if let Some(job) = slot.claim(me) {
                slot.finish(execute(&pids, registry, arena, me, index, &job));
            }
        }
        if requested == 0 {
            if me == DAEMON {
                bounce::fail_dead(arena, is_dead);
            }
            futex::wait(&entry.doorbell, doorbell, None);
        }
    }
}

/// Moves what is registered, and nothing else, whatever a requester has written.
fn execute(
    pids: &Pids,
    registry: &Registry,
    arena: &Mapping,
    me: usize,
    index: usize,
    job: &Job,
) -> Result<(), CopyError> {
    if job.proc != me && me != DAEMON {
        return Err(CopyError::Unreachable);
    }
    let fits = length(&job.segments()).checked_add(job.offset);
    if fits.is_none_or(|end| end > BOUNCE_BUFFER_BYTES as u64) {
        return Err(CopyError::Fault);
    }
    let segments = job.segments.iter().copied();
    let _in_use =
        registry.hold_all(job.proc, segments, job.way == Way::Out).ok_or(CopyError::Fault)?;
    bounce::transfer(pids, arena, me, index, job)
}
