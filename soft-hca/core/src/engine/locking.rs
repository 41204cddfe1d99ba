//! Who waits for a lock. Programs wait for each other; the daemon, for which all programs wait, waits
//! for nobody: who has a lock may have been stopped, and may stay so.

use std::sync::atomic::Ordering::Acquire;
use std::time::Duration;

use crate::arena::{Guard, Lock, Qp};
use crate::engine::request::Requester;
use crate::engine::{Actor, DAEMON, LINK, futex};
use crate::uapi::verbs::opcode;

/// Who has waited for a lock so often, letting others run some hundred times in between, waits for
/// somebody who is stopped, or has much to copy: it sleeps from now on.
const PATIENCE: u32 = 16;
/// How long it sleeps at a time. Whoever releases the lock wakes nobody.
const SLEEP: Duration = Duration::from_micros(200);
/// A program that waits for the daemon doubts, so many times each, whether there still is one.
const DOUBT: u32 = 64;

/// Locks that are held in advance, as many as a request can need.
pub(super) type Held<'a> = [Option<Guard<'a>>; 5];

impl<'a> Actor<'a> {
    /// Takes a lock, for which a program waits. It does not wait for a daemon that has ended.
    ///
    /// The daemon gets `None` if somebody else has the lock. It is one thread, so what it has it may
    /// take again.
    pub fn lock<'l>(&self, lock: &'l Lock) -> Option<Guard<'l>> {
        if self.is_daemon() {
            return self.try_lock(lock);
        }
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

    /// Whether this is a thread of the daemon, which waits for nobody.
    pub(super) fn is_daemon(&self) -> bool {
        matches!(self.me, DAEMON | LINK)
    }

    /// The daemon's way to a lock. Programs can write to the word: nobody's lock is free.
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

    /// Takes the lock of the completion queue with an index, as [`Actor::lock`] does. Without a queue
    /// there is nothing to wait for.
    pub(super) fn lock_cq(&self, index: u32) -> Option<Option<Guard<'a>>> {
        match self.arena.cqs.get(index as usize) {
            Some(cq) => self.lock(&cq.lock).map(Some),
            None => Some(None),
        }
    }

    /// Has the daemon take a completion queue's lock in advance.
    pub(super) fn hold_cq(&self, index: u32) -> Option<Option<Guard<'a>>> {
        if self.is_daemon() { self.lock_cq(index) } else { Some(None) }
    }

    /// The lock of those who execute atomic operations on a process's memory.
    pub(super) fn atomics_of(&self, proc: usize) -> Option<&'a Lock> {
        self.arena.procs.get(proc).map(|entry| &entry.atomics)
    }

    /// For the daemon: takes what the request at the head of a send queue may need, so that nothing
    /// of it fails halfway for want of a lock. `None` if somebody else has one of them. (Programs take
    /// locks when they need them.)
    pub(super) fn hold_for(&self, requester: &Requester<'a>) -> Option<Held<'a>> {
        let send_cq = self.lock_cq(requester.send_cq)?;
        let kind = requester.wqe(requester.head()).opcode;
        if matches!(kind, opcode::LOCAL_INV | opcode::BIND_MW) {
            // Both wait for the requests of others that use the window.
            return Some([send_cq, Some(self.lock(&requester.qp.recv_lock)?), None, None, None]);
        }
        let Some(peer) = self.local_peer(requester.qp) else {
            return Some([send_cq, None, None, None, None]);
        };
        let [recv, recv_cq, srq] = self.hold_receiver(peer)?;
        let is_atomic = matches!(
            kind,
            opcode::ATOMIC_CMP_AND_SWP | opcode::ATOMIC_FETCH_AND_ADD | opcode::ATOMIC_WRITE
        );
        let atomics = match self.atomics_of(peer.proc.load(Acquire) as usize) {
            Some(lock) if is_atomic => Some(self.lock(lock)?),
            _ => None,
        };
        Some([send_cq, recv, recv_cq, srq, atomics])
    }

    /// Has the daemon take what a message to this queue pair may need. `None` if somebody else has
    /// one of them.
    pub(super) fn hold_receiver(&self, qp: &'a Qp) -> Option<[Option<Guard<'a>>; 3]> {
        if !self.is_daemon() {
            return Some([None, None, None]);
        }
        let recv = self.lock(&qp.recv_lock)?;
        let index = qp.recv_cq.load(Acquire);
        let recv_cq = self.lock_cq(index)?;
        // Nobody stages more from now on.
        if !self.settle(index) {
            return None;
        }
        let srq = qp.srq.load(Acquire).checked_sub(1);
        let srq = match srq.and_then(|index| self.arena.srqs.get(index as usize)) {
            Some(srq) => Some(self.lock(&srq.lock)?),
            None => None,
        };
        Some([Some(recv), recv_cq, srq])
    }
}
