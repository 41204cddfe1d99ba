//! Whether nobody uses a process's memory any more for a request of before. For the daemon, between
//! making a region invalid and telling the program that it may free the memory.

use std::hint;
use std::sync::atomic::Ordering::{Acquire, SeqCst};
use std::sync::atomic::fence;

use crate::arena::{Arena, FIRST_QPN, Lock};
use crate::engine::actor::Actor;
use crate::engine::bounce;
use crate::engine::registry::Retired;

/// How often it looks before it says that somebody does: short requests are over by then. It does not
/// yield in between: on a busy machine the daemon might not run again for long, and all programs
/// would wait for it.
const LOOKS: u32 = 200;

/// Possible users of memory.
#[derive(Debug)]
pub struct Quiesce {
    /// Locks of queue pairs that were not seen free since: index, and whether it is the `send_lock`.
    locks: Vec<(usize, bool)>,
    /// Bounce slots with a helper at work: index, and the word that says so.
    bounces: Vec<(usize, u32)>,
    /// Deregistered regions that copies may still be using.
    retired: Vec<Retired>,
}

impl Actor<'_> {
    /// Begins to wait for work requests that use memory of process `proc`; `qps` are the indices of
    /// the queue pairs in use, `retired` is the region that was deregistered.
    pub fn quiesce(
        &self,
        qps: impl IntoIterator<Item = usize>,
        proc: usize,
        retired: Option<Retired>,
    ) -> Quiesce {
        let is_its_own = |index: &usize| {
            self.arena.qps.get(*index).is_some_and(|qp| {
                qp.live.load(Acquire) >= FIRST_QPN && qp.proc.load(Acquire) as usize == proc
            })
        };
        let own = qps.into_iter().filter(is_its_own);
        fence(SeqCst);
        Quiesce {
            locks: own.flat_map(|index| [(index, true), (index, false)]).collect(),
            bounces: bounce::busy(self.arena, |slot| slot.proc.load(Acquire) as usize == proc),
            retired: Vec::from_iter(retired),
        }
    }

    /// Whether all of them are done. It may take a moment to find out.
    pub fn is_quiet(&self, quiesce: &mut Quiesce) -> bool {
        for _ in 0..LOOKS {
            // Those who had a lock before are done when this process has had it for a moment.
            quiesce.locks.retain(|of| self.lock(lock_of(self.arena, *of)).is_none());
            quiesce.bounces.retain(|slot| bounce::is_busy(self.arena, *slot));
            quiesce.retired.retain_mut(|region| !region.is_unused());
            let Quiesce { locks, bounces, retired } = &*quiesce;
            if locks.is_empty() && bounces.is_empty() && retired.is_empty() {
                return true;
            }
            hint::spin_loop();
        }
        false
    }
}

fn lock_of(arena: &Arena, (index, is_send): (usize, bool)) -> &Lock {
    let qp = &arena.qps[index];
    if is_send { &qp.send_lock } else { &qp.recv_lock }
}
