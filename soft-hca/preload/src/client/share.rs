//! This process's share of the port to other hosts, see [`Running`]: it is run in the program's own calls.
#![allow(unsafe_code, reason = "a static that outlives all threads")]

use std::os::fd::OwnedFd;
use std::ptr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use soft_hca_core::arena::Share;
use soft_hca_core::port::socket::Socket;
use soft_hca_core::port::{QueuePair, Running};
use soft_hca_core::rpc::{Connection, Request};
use soft_hca_core::system;
use soft_hca_core::uapi::verbs::Qpn;

use crate::client::daemon;
use crate::client::process::Process;

/// The share. Never freed: threads may be at it until the very end.
struct Own {
    process: &'static Process,
    number: usize,
    running: Mutex<Running>,
    /// Queue pairs that were posted to, for whoever has `running` or has it next.
    posted: Mutex<Vec<u32>>,
}

static OWN: AtomicPtr<Own> = AtomicPtr::new(ptr::null_mut());

/// The process that has asked for a share: its index + 1.
static ASKED: AtomicUsize = AtomicUsize::new(0);

/// The share, if there are queue pairs with peers on other hosts, or have been.
fn own() -> Option<&'static Own> {
    // SAFETY: null, or what `ask` has leaked.
    let own = unsafe { OWN.load(Acquire).as_ref() }?;
    let is_in_use = || own.entry().is_in_use.load(Relaxed) != 0;
    (own.process.is_current() && is_in_use()).then_some(own)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks for a share, once in a process's life. There is none without a link, and for who comes late.
pub(crate) fn ask(process: &'static Process, connection: &Connection) {
    if ASKED.swap(process.index + 1, AcqRel) == process.index + 1 {
        return;
    }
    let Ok((answer, fds)) = daemon::ask(connection, &Request::Share) else { return };
    let Some((number, gids)) = answer.bytes.split_first_chunk() else { return };
    let number = u32::from_le_bytes(*number) as usize;
    let bound = |(gid, fd): (&[u8], OwnedFd)| Socket::lent(gid.try_into().ok()?, system::hide(fd));
    let sockets: Option<Vec<Socket>> = gids.chunks(16).zip(fds).map(bound).collect();
    let Some(sockets) = sockets.filter(|sockets| sockets.len() * 16 == gids.len()) else { return };
    let running = Running::new(Arc::clone(&process.arena), number, sockets);
    let own = Own { process, number, running: Mutex::new(running), posted: Mutex::default() };
    OWN.store(ptr::from_ref(Box::leak(Box::new(own))).cast_mut(), Release);
}

/// The process is about to look for completions.
#[inline]
pub(crate) fn poll() {
    let Some(own) = own() else { return };
    if let Some(mut running) = own.try_running() {
        running.poll(&own.process.actor());
        own.serve_posted(running);
    }
}

/// It has found some.
pub(crate) fn has_found() {
    if let Some(own) = own() {
        if let Some(mut running) = own.try_running() {
            running.has_found();
        }
    }
}

/// A queue pair with a peer on another host was posted to. False if that is for the daemon to know.
pub(crate) fn posted(qpn: u32) -> bool {
    let Some(own) = own() else { return false };
    let is_own = QueuePair::share(&own.process.arena, Qpn::new(qpn)) == Some(own.number);
    if !is_own || !own.entry().is_run_by_process() {
        return false;
    }
    lock(&own.posted).push(qpn);
    // Whoever has it, this thread perhaps, looks again when it gives it back.
    if let Some(running) = own.try_running() {
        own.serve_posted(running);
    }
    true
}

/// The program asks for something by which a queue pair may end: acknowledgements of what it has found
/// leave before.
pub(crate) fn finish() {
    if let Some(own) = own() {
        if let Some(mut running) = own.try_running() {
            running.posted(&own.process.actor(), &[]);
            own.serve_posted(running);
        }
    }
}

/// The program is going to wait for an event: the daemon goes on.
pub(crate) fn give_back() {
    let Some(own) = own().filter(|own| own.entry().is_run_by_process()) else { return };
    let mut running = lock(&own.running);
    running.give_back(&own.process.actor(), |qpn| own.process.env.tell_link(qpn));
}

impl Own {
    fn entry(&self) -> &Share {
        &self.process.arena.shares[self.number]
    }

    fn try_running(&self) -> Option<MutexGuard<'_, Running>> {
        match self.running.try_lock() {
            Ok(running) => Some(running),
            Err(TryLockError::Poisoned(running)) => Some(running.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Serves what was posted to, until there is nothing more when the lock is given back.
    fn serve_posted<'a>(&'a self, mut running: MutexGuard<'a, Running>) {
        loop {
            let posted = std::mem::take(&mut *lock(&self.posted));
            if !posted.is_empty() && !running.posted(&self.process.actor(), &posted) {
                posted.iter().for_each(|qpn| self.process.env.tell_link(*qpn));
            }
            drop(running);
            if lock(&self.posted).is_empty() {
                return;
            }
            let Some(again) = self.try_running() else { return };
            running = again;
        }
    }
}
