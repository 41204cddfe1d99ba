//! The functions that stand in the places of the provider's.

use std::ffi::{c_int, c_void};
use std::slice;

use super::table::{self, Hooked};
use crate::client::cq::Queue;
use crate::client::layout::Wc;
use crate::client::polled::Polled;
use crate::client::process::{self, Process};
use crate::client::{forked, in_vain, share};

type PollCq = unsafe extern "C-unwind" fn(*mut c_void, c_int, *mut c_void) -> c_int;
type StartPoll = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void) -> c_int;
type NextPoll = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;
type EndPoll = unsafe extern "C-unwind" fn(*mut c_void);

/// What is known of a queue, or of its context if it is none that is hooked.
#[inline]
unsafe fn hooked(cq: *mut c_void) -> Option<Hooked> {
    table::find(cq as usize).or_else(|| {
        // SAFETY: the program's own queue, which begins with the address of its context.
        table::find(unsafe { *cq.cast::<usize>() })
    })
}

/// Completions were polled: payloads that are staged for the queue are brought to their places. If there
/// can be none, they may be staged from now on if that `begins` here.
fn polled(queue: Queue, begins: bool) {
    let Some(process) = process::current().filter(|_| queue.generation != 0) else { return };
    let actor = process.actor();
    in_vain::over(&process.arena, queue.index);
    if actor.is_polled_eagerly(queue.index, queue.generation) {
        actor.settle(queue.index);
    } else if begins {
        actor.poll_eagerly(queue.index, queue.generation);
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

/// `poll_cq` of a context. It adds nothing to a poll that finds nothing but the way through here, and a
/// look at whether somebody records.
pub(super) unsafe extern "C-unwind" fn poll_cq(
    cq: *mut c_void,
    count: c_int,
    wc: *mut c_void,
) -> c_int {
    // SAFETY: the caller's own queue.
    let Some(hooked) = (unsafe { hooked(cq) }) else { return -1 };
    // SAFETY: the function that was in the place of this one.
    let own = unsafe { std::mem::transmute::<usize, PollCq>(hooked.own.poll_cq) };
    share::poll();
    // SAFETY: the caller's own call.
    let found = unsafe { own(cq, count, wc) };
    if found > 0 {
        share::has_found();
        // An extended queue whose other functions are replaced, if it has any.
        polled(hooked.queue, hooked.own.start_poll != 0);
    } else if found == 0 && hooked.queue.generation != 0 {
        in_vain::nothing(hooked.queue.index);
    }
    trace(hooked.queue, false, |polled, process| match found {
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
    let Some(hooked) = table::find(cq as usize) else { return libc::EINVAL };
    // SAFETY: the function that was in the place of this one.
    let own = unsafe { std::mem::transmute::<usize, StartPoll>(hooked.own.start_poll) };
    share::poll();
    // SAFETY: the caller's own call.
    let error = unsafe { own(cq, attributes) };
    if error == 0 {
        share::has_found();
        polled(hooked.queue, false);
    } else if error == libc::ENOENT && hooked.queue.generation != 0 {
        in_vain::nothing(hooked.queue.index);
    }
    trace(hooked.queue, true, |polled, process| match error {
        0 => polled.begins(process),
        libc::ENOENT => polled.nothing(process),
        _ => {}
    });
    error
}

/// `next_poll` of an extended queue.
pub(super) unsafe extern "C-unwind" fn next_poll(cq: *mut c_void) -> c_int {
    let Some(hooked) = table::find(cq as usize) else { return libc::EINVAL };
    // SAFETY: the function that was in the place of this one.
    let own = unsafe { std::mem::transmute::<usize, NextPoll>(hooked.own.next_poll) };
    // SAFETY: the caller's own call.
    let error = unsafe { own(cq) };
    if error == 0 {
        polled(hooked.queue, false);
        trace(hooked.queue, true, |polled, _| polled.goes_on());
    }
    error
}

/// `end_poll` of an extended queue.
pub(super) unsafe extern "C-unwind" fn end_poll(cq: *mut c_void) {
    let Some(hooked) = table::find(cq as usize) else { return };
    // SAFETY: the function that was in the place of this one.
    let own = unsafe { std::mem::transmute::<usize, EndPoll>(hooked.own.end_poll) };
    // SAFETY: the caller's own call.
    unsafe { own(cq) };
    trace(hooked.queue, true, |polled, process| polled.ends(process));
}
