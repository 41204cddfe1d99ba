//! The program's own polls of completion queues, and its posts of receives, which pass through here.
//!
//! `ibv_poll_cq`, `ibv_post_recv` and `ibv_post_srq_recv` are inline functions of `verbs.h` that call a
//! function of the context, and `ibv_start_poll`, `ibv_next_poll` and `ibv_end_poll` call functions of an
//! extended queue. All are found without
//! a symbol of the library: CREATE_CQ tells the kernel the address of the program's `struct ibv_cq`
//! (`user_handle`), which begins with that of its context. These structures are compiled into every
//! program, and so they are the same in all releases of rdma-core, and also where a program brings
//! its own library.
//!
//! A thread that polls by the provider's function must not find a completion whose payload is staged. So
//! the functions of a context get ours in their places when its first queue is created, before there is
//! anything to poll. Those of an extended queue are not yet there at that time: they are replaced when the
//! first queue pair is created that reports there. If another thread may be in one of them then,
//! payloads are staged only when `ibv_poll_cq` has found a completion: the program polls by that one, as
//! UCX does.
//!
//! Each function gets ours in its place once, and ours calls it, so it does no harm if somebody else has
//! done the same before us or does it after us.

mod at_once;
mod below;
mod layer;
mod poll;
mod post;
mod provider;
mod sanitized;
mod table;
#[cfg(test)]
mod tests;

use std::mem::offset_of;
use std::os::fd::RawFd;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::client::cq::Queue;
use crate::client::functions::{Functions, PollCq, Post, Slot};
use crate::client::layout::{Context, ExtendedCq};
use crate::client::of_process::OfProcess;
use crate::client::{memory, sanitizer, strict};
use poll::{end_poll, next_poll, poll_cq, start_poll};
use post::{post_recv, post_send, post_srq_recv};
use table::{CONTEXTS, QUEUES};

/// Taken to replace functions.
static HOOKING: OfProcess<()> = OfProcess::new();

/// The pointer at an address of the program's, if there is one.
fn pointer(address: usize) -> Option<usize> {
    let bytes = memory::read(address as u64, size_of::<usize>()).ok()?;
    Some(usize::from_ne_bytes(bytes.try_into().ok()?)).filter(|pointer| *pointer != 0)
}

/// Whether a function of a loaded library is named at an address.
fn is_function(address: usize) -> bool {
    pointer(address).is_some_and(|function| provider::library_of(function).is_some())
}

/// The context of a queue, if what lies there is one of the device file `fd`.
fn context_of(cq: usize, fd: RawFd) -> Option<usize> {
    let context = pointer(cq)?;
    let own_fd = context.checked_add(offset_of!(Context, cmd_fd))?;
    let is_aligned = (cq | context) % align_of::<ExtendedCq>() == 0;
    let bytes = memory::read(own_fd as u64, size_of::<RawFd>()).ok()?;
    (is_aligned && bytes == fd.to_ne_bytes()).then_some(context)
}

/// Has `ibv_poll_cq` of a new completion queue pass through here. `own_poll` is the function of its
/// context, empty until the first queue of the context is hooked. If it cannot be done, the queue works as
/// before.
///
/// `cq` is what CREATE_CQ has named by `user_handle`. If what lies there is not a queue of the device
/// file `fd`, nothing is done.
pub(crate) fn watch(cq: usize, queue: Queue, fd: RawFd, own_poll: &Slot<PollCq>) {
    // A second thread must not take ours for the provider's.
    let _hooking = HOOKING.lock();
    let context = context_of(cq, fd);
    if context.is_some_and(|context| hook_functions(context, own_poll)) {
        QUEUES.insert(cq, |known| known.begin(queue, own_poll.load(Acquire)));
    }
}

/// Replaces the functions of a context, unless that is done.
fn hook_functions(address: usize, own_poll: &Slot<PollCq>) -> bool {
    if own_poll.load(Acquire).is_some() {
        return true;
    }
    let context: *const Context = ptr::with_exposed_provenance(address);
    // SAFETY: an aligned context, as its descriptor tells, which lives as long as its queues. The words are used
    // atomically here, and the program's inline functions only read them.
    let (polls, sends, receives, shared) = unsafe {
        (
            &(*context).poll_cq,
            &(*context).post_send,
            &(*context).post_recv,
            &(*context).post_srq_recv,
        )
    };
    let Some(provided) = polls.load(Acquire) else { return false };
    let mut own = Functions {
        poll_cq: provided,
        post_send: sends.load(Acquire),
        post_recv: receives.load(Acquire),
        post_srq_recv: shared.load(Acquire),
    };
    provider::look(&own);
    if sanitizer::is_on() {
        own = sanitized::before_context(own);
    }
    if strict::is_on() {
        own = layer::before_context(own);
    }
    let is_entered = CONTEXTS.insert(address, |known| {
        known.poll_cq.store(Some(own.poll_cq), Relaxed);
        known.post_send.store(own.post_send, Relaxed);
        known.post_recv.store(own.post_recv, Relaxed);
        known.post_srq_recv.store(own.post_srq_recv, Relaxed);
    });
    if !is_entered {
        return false;
    }
    own_poll.store(Some(own.poll_cq), Release);
    polls.store(Some(poll_cq), Release);
    let posts: [(&Slot<Post>, Option<Post>, Post); 3] = [
        (sends, own.post_send, post_send),
        (receives, own.post_recv, post_recv),
        (shared, own.post_srq_recv, post_srq_recv),
    ];
    for (slot, own, ours) in posts {
        slot.store(own.map(|_| ours), Release);
    }
    true
}

/// Whether this thread is the only one.
fn is_alone() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1)
}

/// A queue pair is about to report to a watched queue. Whether it is sure that all polls of it pass through here from
/// now on.
///
/// The queue has not been destroyed, and this is asked for once.
pub(crate) fn hook(cq: usize, queue: Queue) -> bool {
    let _hooking = HOOKING.lock();
    let Some(known) = QUEUES.find(cq).filter(|known| known.queue() == queue) else {
        return false;
    };
    let offsets = [
        offset_of!(ExtendedCq, start_poll),
        offset_of!(ExtendedCq, next_poll),
        offset_of!(ExtendedCq, end_poll),
    ];
    // A plain queue has zeros there, or the provider's own data.
    if !offsets.iter().all(|offset| is_function(cq.wrapping_add(*offset))) {
        return true;
    }
    let extended: *const ExtendedCq = ptr::with_exposed_provenance(cq);
    // SAFETY: an extended queue, whose functions these are, aligned as `watch` has seen, and not destroyed. The words
    // are used atomically here, and the program's inline functions only read them.
    let (starts, nexts, ends) =
        unsafe { (&(*extended).start_poll, &(*extended).next_poll, &(*extended).end_poll) };
    let (mut own, mut own_next) = (starts.load(Acquire), nexts.load(Acquire));
    if sanitizer::is_on() {
        own = own.map(sanitized::before_start_poll);
        own_next = own_next.map(sanitized::before_next_poll);
    }
    if strict::is_on() {
        own = own.map(layer::before_start_poll);
    }
    known.next_poll.store(own_next, Relaxed);
    known.end_poll.store(ends.load(Acquire), Relaxed);
    known.start_poll.store(own, Release);
    starts.store(Some(start_poll), Release);
    nexts.store(Some(next_poll), Release);
    ends.store(Some(end_poll), Release);
    is_alone()
}

/// A queue is destroyed.
pub(crate) fn forget(cq: usize) {
    QUEUES.remove(cq);
}
