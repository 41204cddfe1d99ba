//! A program with a sanitizer: the functions between ours and the provider's that tell it what the device does.

use std::ffi::{c_int, c_void};
use std::slice;
use std::sync::atomic::Ordering::{Acquire, Release};

use soft_hca_core::engine::ReceiveQueue;

use super::below::Below;
use super::post::{own_queue, posted_before, shared_queue};
use crate::client::functions::{Functions, NextPoll, Post, Slot, StartPoll};
use crate::client::layout::Wc;
use crate::client::{lists, process, sanitizer};

static BELOW: Below = Below::empty();

/// Puts this layer before a context's functions.
pub(super) fn before_context(own: Functions) -> Functions {
    if let Some(process) = process::current() {
        sanitizer::begins(process);
    }
    let layer = Functions {
        poll_cq,
        post_send: Some(post_send),
        post_recv: Some(post_recv),
        post_srq_recv: Some(post_srq_recv),
    };
    BELOW.put_before(own, layer)
}

/// Puts this layer before an extended queue's functions.
pub(super) fn before_start_poll(own: StartPoll) -> StartPoll {
    BELOW.start_poll.store(Some(own), Release);
    start_poll
}

/// The same of the function that finds another completion.
pub(super) fn before_next_poll(own: NextPoll) -> NextPoll {
    BELOW.next_poll.store(Some(own), Release);
    next_poll
}

/// `poll_cq` of a context.
unsafe extern "C-unwind" fn poll_cq(cq: *mut c_void, count: c_int, wc: *mut c_void) -> c_int {
    let Some(own) = BELOW.poll_cq.load(Acquire) else { return -1 };
    sanitizer::leaves_libraries();
    // SAFETY: the provider's function, which gets what the program has given to ours.
    let found = unsafe { own(cq, count, wc) };
    if let (1.., Some(process)) = (found, process::current()) {
        // SAFETY: the provider has filled in so many completions.
        let completions = unsafe { slice::from_raw_parts(wc.cast::<Wc>(), found as usize) };
        sanitizer::polled(process, completions);
    }
    found
}

/// `start_poll` of an extended queue.
unsafe extern "C-unwind" fn start_poll(cq: *mut c_void, attributes: *mut c_void) -> c_int {
    let Some(own) = BELOW.start_poll.load(Acquire) else { return libc::EINVAL };
    // SAFETY: the provider's function, which gets what the program has given to ours.
    let error = unsafe { own(cq, attributes) };
    if let (0, Some(process)) = (error, process::current()) {
        sanitizer::polled_extended(process);
    }
    error
}

/// `next_poll` of an extended queue.
unsafe extern "C-unwind" fn next_poll(cq: *mut c_void) -> c_int {
    let Some(own) = BELOW.next_poll.load(Acquire) else { return libc::EINVAL };
    // SAFETY: the provider's function, which gets what the program has given to ours.
    let error = unsafe { own(cq) };
    if let (0, Some(process)) = (error, process::current()) {
        sanitizer::polled_extended(process);
    }
    error
}

/// Posts receives, of which the sanitizer is told before: a message may come before the call returns.
unsafe fn post(own: &Slot<Post>, call: [*mut c_void; 3], queue: Option<ReceiveQueue>) -> c_int {
    let Some(own) = own.load(Acquire) else { return libc::EINVAL };
    let [to, first, bad] = call;
    sanitizer::leaves_libraries();
    if let (Some(queue), Some(process)) = (queue, process::current()) {
        sanitizer::receives_are_posted(process, queue, lists::receives(first as u64).collect());
    }
    // SAFETY: the provider's function, which gets what the program has given to ours.
    let error = unsafe { own(to, first, bad) };
    if let Some(queue) = queue.filter(|_| error != 0) {
        // SAFETY: `bad` is null, or the program's variable for an address.
        let posted = unsafe { posted_before(first, bad) };
        let refused = lists::receives(first as u64).skip(posted);
        sanitizer::receives_were_refused(queue, refused.map(|listed| listed.wr_id));
    }
    error
}

/// `post_send` of a context. What is sent is told at its doorbell.
unsafe extern "C-unwind" fn post_send(
    qp: *mut c_void,
    first: *mut c_void,
    bad: *mut c_void,
) -> c_int {
    let Some(own) = BELOW.post_send.load(Acquire) else { return libc::EINVAL };
    sanitizer::leaves_libraries();
    // SAFETY: the provider's function, which gets what the program has given to ours.
    unsafe { own(qp, first, bad) }
}

/// `post_recv` of a context.
unsafe extern "C-unwind" fn post_recv(
    qp: *mut c_void,
    first: *mut c_void,
    bad: *mut c_void,
) -> c_int {
    // SAFETY: the program's own queue pair, which it may not destroy during the call.
    let queue = unsafe { own_queue(qp) };
    // SAFETY: the function below gets what the program has given to this one.
    unsafe { post(&BELOW.post_recv, [qp, first, bad], Some(queue)) }
}

/// `post_srq_recv` of a context.
unsafe extern "C-unwind" fn post_srq_recv(
    srq: *mut c_void,
    first: *mut c_void,
    bad: *mut c_void,
) -> c_int {
    // SAFETY: the program's own queue, which it may not destroy during the call.
    let queue = unsafe { shared_queue(srq) };
    // SAFETY: the function below gets what the program has given to this one.
    unsafe { post(&BELOW.post_srq_recv, [srq, first, bad], queue) }
}
