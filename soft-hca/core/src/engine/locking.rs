//! Waiting for a lock. Programs wait for each other; the daemon, for which all programs wait, waits
//! for nobody: a program that has a lock may have been stopped, and may stay so.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Acquire;
use std::time::Duration;

use crate::arena::{Arena, Guard, Lock};
use crate::engine::actor::Actor;
use crate::engine::futex;
use crate::engine::proc::{DAEMON, LINK};

/// A program that has waited for a lock so often, letting others run some hundred times in between,
/// waits for one that is stopped, or has much to copy: it sleeps from now on.
const PATIENCE: u32 = 16;
/// How long it sleeps at a time. Releasing the lock wakes nobody.
const SLEEP: Duration = Duration::from_micros(200);
/// A program that waits for the daemon doubts, so many times each, whether there still is one.
const DOUBT: u32 = 64;

impl Actor<'_> {
    /// Takes a lock, for which a program waits. It does not wait for a daemon that has ended.
    ///
    /// The daemon gets `None` if somebody else has the lock. It is one thread, so what it has it may
    /// take again.
    #[inline]
    pub fn lock<'l>(&self, lock: &'l Lock) -> Option<Guard<'l>> {
        if self.is_daemon() {
            return self.try_lock(lock);
        }
        lock.try_lock(self.me).or_else(|| self.wait_for(lock))
    }

    #[cold]
    fn wait_for<'l>(&self, lock: &'l Lock) -> Option<Guard<'l>> {
        let mut waits: u32 = 0;
        Some(lock.lock(self.me, || {
            waits = waits.wrapping_add(1);
            let owner = lock.owner();
            match owner {
                Some(owner @ (DAEMON | LINK))
                    if waits % DOUBT == 0 && self.env.is_daemon_gone() =>
                {
                    lock.release_of(owner);
                }
                Some(owner) if waits >= PATIENCE => {
                    futex::wait(lock.word(), owner as u32 + 1, Some(SLEEP));
                }
                _ => {}
            }
        }))
    }

    /// The daemon's way to a lock. Programs can write to the word; an owner
    /// that is no live process counts as none.
    fn try_lock<'l>(&self, lock: &'l Lock) -> Option<Guard<'l>> {
        match lock.owner() {
            Some(owner) if owner == self.me => return Some(lock.again()),
            Some(DAEMON | LINK) => return None,
            Some(owner) if !self.env.is_there(owner) => {
                lock.release_of(owner);
            }
            _ => {}
        }
        lock.try_lock(self.me)
    }
}

/// Takes the lock of the completion queue with an index, as [`Actor::lock`] does. Without a queue
/// there is nothing to wait for.
pub(super) fn lock_cq<'a>(actor: &Actor<'a>, index: u32) -> Option<Option<Guard<'a>>> {
    match actor.arena.cqs.get(index as usize) {
        Some(cq) => actor.lock(&cq.lock).map(Some),
        None => Some(None),
    }
}

/// Has the daemon take a completion queue's lock in advance.
pub(super) fn lock_cq_ahead<'a>(actor: &Actor<'a>, index: u32) -> Option<Option<Guard<'a>>> {
    if actor.is_daemon() { lock_cq(actor, index) } else { Some(None) }
}

/// The lock of those who execute atomic operations on a process's memory.
pub(super) fn atomics_of(arena: &Arena, proc: usize) -> Option<&Lock> {
    arena.procs.get(proc).map(|entry| &entry.atomics)
}

/// Takes the lock of a queue; the daemon takes that of its completion queue in advance.
pub(super) fn lock_with_cq<'l>(
    actor: &Actor<'l>,
    lock: &'l Lock,
    cq: &AtomicU32,
) -> Option<(Guard<'l>, Option<Guard<'l>>)> {
    let guard = actor.lock(lock)?;
    Some((guard, lock_cq_ahead(actor, cq.load(Acquire))?))
}
