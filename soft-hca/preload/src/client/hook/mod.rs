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
//! Who has begun to poll by the provider's function must not find a completion whose payload is staged. So
//! the functions of a context get ours in their places when its first queue is created, before there is
//! anything to poll. Those of an extended queue are not yet there at that time: they are replaced when the
//! first queue pair is created that reports there. If another thread may be in one of them then,
//! payloads are staged only when `ibv_poll_cq` has found a completion: the program polls by that one, as
//! UCX does.
//!
//! Each function gets ours in its place once, and ours calls it, so it does no harm if somebody else has
//! done the same before us or does it after us.

mod layer;
mod poll;
mod post;
mod table;

use std::ffi::c_void;
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::RawFd;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Release};

use crate::client::layout::{Context, ExtendedCq};
use poll::{end_poll, next_poll, poll_cq, start_poll};
use post::{post_recv, post_send, post_srq_recv};
use table::{Hooked, Own};

use crate::client::cq::Queue;
use crate::client::of_process::OfProcess;
use crate::client::{memory, strict};

/// Taken to replace functions.
static HOOKING: OfProcess<()> = OfProcess::new();

/// A word of the program's memory, which other threads of it may use.
///
/// # Safety
/// The address is that of a pointer in a structure of the program that lives on.
unsafe fn word<'a>(address: usize) -> &'a AtomicUsize {
    // SAFETY: the caller's promise; pointers are aligned.
    unsafe { AtomicUsize::from_ptr(address as *mut usize) }
}

/// The pointer at an address of the program's, if there is one.
fn pointer(address: usize) -> Option<usize> {
    let bytes = memory::read(address as u64, size_of::<usize>()).ok()?;
    Some(usize::from_ne_bytes(bytes.try_into().ok()?)).filter(|pointer| *pointer != 0)
}

/// Whether a function of a loaded library is named at an address.
fn is_function(address: usize) -> bool {
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    pointer(address).is_some_and(|function| {
        // SAFETY: looks for what is loaded at an address, whatever that is.
        unsafe { libc::dladdr(function as *const c_void, found.as_mut_ptr()) != 0 }
    })
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
/// context, 0 until the first queue of the context is hooked. If it cannot be done, the queue works as
/// before.
///
/// `cq` is what CREATE_CQ has named by `user_handle`. If what lies there is not a queue of the device
/// file `fd`, nothing is done.
pub(crate) fn watch(cq: usize, queue: Queue, fd: RawFd, own_poll: &AtomicUsize) {
    // Who is second must not take ours for the provider's.
    let _hooking = HOOKING.lock();
    let context = context_of(cq, fd);
    if !context.is_some_and(|context| hook_functions(context, own_poll)) {
        return;
    }
    let own = Own { poll_cq: own_poll.load(Acquire), ..Own::default() };
    table::insert(cq, Hooked { own, queue });
}

/// Replaces the functions of a context, unless that is done.
fn hook_functions(context: usize, own_poll: &AtomicUsize) -> bool {
    if own_poll.load(Acquire) != 0 {
        return true;
    }
    let ours = [
        (offset_of!(Context, poll_cq), poll_cq as *const () as usize),
        (offset_of!(Context, post_send), post_send as *const () as usize),
        (offset_of!(Context, post_recv), post_recv as *const () as usize),
        (offset_of!(Context, post_srq_recv), post_srq_recv as *const () as usize),
    ];
    // SAFETY: a context, as its descriptor tells, which lives as long as its queues.
    let places = ours.map(|(offset, ours)| (unsafe { word(context + offset) }, ours));
    let [poll_cq, post_send, post_recv, post_srq_recv] =
        places.map(|(place, _)| place.load(Acquire));
    if poll_cq == 0 {
        return false;
    }
    let mut own =
        Own { poll_cq, post_recv, post_srq_recv, ..Own::default() }.with_post_send(post_send);
    if strict::is_on() {
        own = layer::before_context(own);
    }
    if !table::insert(context, Hooked { own, queue: Queue::default() }) {
        return false;
    }
    own_poll.store(own.poll_cq, Release);
    for (place, ours) in places.into_iter().filter(|(place, _)| place.load(Acquire) != 0) {
        place.store(ours, Release);
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
    let Some(mut hooked) = table::find(cq).filter(|hooked| hooked.queue == queue) else {
        return false;
    };
    let ours = [
        (offset_of!(ExtendedCq, start_poll), start_poll as *const () as usize),
        (offset_of!(ExtendedCq, next_poll), next_poll as *const () as usize),
        (offset_of!(ExtendedCq, end_poll), end_poll as *const () as usize),
    ];
    let ours = ours.map(|(offset, ours)| (cq.wrapping_add(offset), ours));
    // What a plain queue has there is zeros, or the provider's own business.
    if !ours.iter().all(|(place, _)| is_function(*place)) {
        return true;
    }
    // SAFETY: an extended queue, whose functions these are, and which lives on.
    let places = ours.map(|(place, ours)| (unsafe { word(place) }, ours));
    let own = &mut hooked.own;
    [own.start_poll, own.next_poll, own.end_poll] = places.map(|(place, _)| place.load(Acquire));
    if strict::is_on() {
        own.start_poll = layer::before_start_poll(own.start_poll);
    }
    if !table::insert(cq, hooked) {
        return false;
    }
    places.into_iter().for_each(|(place, ours)| place.store(ours, Release));
    is_alone()
}

/// A queue is destroyed.
pub(crate) fn forget(cq: usize) {
    table::remove(cq);
}
