//! The functions that stand in the places of the provider's.

use std::ffi::{c_int, c_void};
use std::slice;
use std::sync::atomic::Ordering::Relaxed;

use super::provider;
use super::table::{CONTEXTS, QUEUES};
use crate::client::cq::Queue;
use crate::client::layout::Wc;
use crate::client::polled::Polled;
use crate::client::process::{self, Process};
use crate::client::{forked, in_vain, port_lease};

/// Completions were polled: payloads that are staged for the queue are brought to their places. If there
/// can be none, they may be staged from now on if that `begins` here.
fn polled(queue: Queue, begins: bool) {
    let Some(process) = process::current().filter(|_| queue.generation != 0) else { return };
    let actor = process.actor();
    in_vain::over(&process.arena, queue.index);
    if actor.is_polled_eagerly(queue.index, queue.generation) {
        actor.drain_staged(queue.index);
    } else if begins {
        actor.poll_eagerly(queue.index, queue.generation);
    }
}

/// The program has found a completion. After that of a receive it is likely to post another one.
#[inline]
fn expect_receive(wc: &Wc) {
    if let Some(process) = process::current().filter(|_| wc.is_receive()) {
        process.actor().expect_receive(wc.qp_num);
    }
}

/// Has it traced that a queue was polled, if all is recorded.
#[inline]
fn trace(queue: Queue, is_extended: bool, how: impl FnOnce(Polled, &Process)) {
    if queue.generation == 0 {
        return;
    }
    let function = if is_extended { c"ibv_start_poll" } else { c"ibv_poll_cq" };
    if let Some(process) = forked::recorded_at(function) {
        how(Polled::new(process, queue.index, is_extended), process);
    }
}

/// Whether a poll finds nothing, while nobody records: without the provider, whose lock costs more than the look.
#[inline]
fn finds_nothing(queue: Queue) -> bool {
    if !provider::is_next() || queue.generation == 0 {
        return false;
    }
    let process = process::current().filter(|process| !process.arena.is_traced());
    process.is_some_and(|process| process.actor().finds_nothing(queue.index))
}

/// `poll_cq` of a context.
pub(super) unsafe extern "C-unwind" fn poll_cq(
    cq: *mut c_void,
    count: c_int,
    wc: *mut c_void,
) -> c_int {
    port_lease::poll();
    let (own, queue, is_extended) = match QUEUES.find(cq as usize) {
        Some(known) => {
            let queue = known.queue();
            if finds_nothing(queue) {
                in_vain::nothing(queue.index);
                return 0;
            }
            let is_extended = known.start_poll.load(Relaxed).is_some();
            (known.poll_cq.load(Relaxed), queue, is_extended)
        }
        None => {
            // SAFETY: the program polls a queue, which begins with the address of its context.
            let context = unsafe { *cq.cast::<usize>() };
            let known = CONTEXTS.find(context);
            (known.and_then(|known| known.poll_cq.load(Relaxed)), Queue::default(), false)
        }
    };
    let Some(own) = own else { return -1 };
    // SAFETY: the function that was in the place of this one, which gets what the program has given to this one.
    let found = unsafe { own(cq, count, wc) };
    if found > 0 {
        port_lease::has_found();
        // SAFETY: the provider has filled in a completion at least.
        expect_receive(unsafe { &*wc.cast::<Wc>() });
        // An extended queue whose other functions are replaced, if it has any.
        polled(queue, is_extended);
    } else if found == 0 && queue.generation != 0 {
        in_vain::nothing(queue.index);
    }
    trace(queue, false, |polled, process| match found {
        0 => polled.nothing(process),
        1.. => {
            // SAFETY: the provider has filled in so many completions.
            let completions = unsafe { slice::from_raw_parts(wc.cast::<Wc>(), found as usize) };
            polled.completions(process, completions);
        }
        // The call itself has failed.
        _ => {}
    });
    found
}

/// `start_poll` of an extended queue.
pub(super) unsafe extern "C-unwind" fn start_poll(
    cq: *mut c_void,
    attributes: *mut c_void,
) -> c_int {
    let Some(known) = QUEUES.find(cq as usize) else { return libc::EINVAL };
    let Some(own) = known.start_poll.load(Relaxed) else { return libc::EINVAL };
    let queue = known.queue();
    port_lease::poll();
    // SAFETY: the provider's function, which gets what the program has given to ours.
    let error = unsafe { own(cq, attributes) };
    if error == 0 {
        port_lease::has_found();
        polled(queue, false);
    } else if error == libc::ENOENT && queue.generation != 0 {
        in_vain::nothing(queue.index);
    }
    trace(queue, true, |polled, process| match error {
        0 => polled.begins(process),
        libc::ENOENT => polled.nothing(process),
        _ => {}
    });
    error
}

/// `next_poll` of an extended queue.
pub(super) unsafe extern "C-unwind" fn next_poll(cq: *mut c_void) -> c_int {
    let Some(known) = QUEUES.find(cq as usize) else { return libc::EINVAL };
    let Some(own) = known.next_poll.load(Relaxed) else { return libc::EINVAL };
    let queue = known.queue();
    // SAFETY: the provider's function, which gets what the program has given to ours.
    let error = unsafe { own(cq) };
    if error == 0 {
        polled(queue, false);
        trace(queue, true, |polled, _| polled.goes_on());
    }
    error
}

/// `end_poll` of an extended queue.
pub(super) unsafe extern "C-unwind" fn end_poll(cq: *mut c_void) {
    let Some(known) = QUEUES.find(cq as usize) else { return };
    let Some(own) = known.end_poll.load(Relaxed) else { return };
    let queue = known.queue();
    // SAFETY: the provider's function, which gets what the program has given to ours.
    unsafe { own(cq) };
    trace(queue, true, |polled, process| polled.ends(process));
}
