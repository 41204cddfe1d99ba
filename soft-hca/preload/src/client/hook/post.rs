//! The functions that stand in the places of those by which a provider's receives are posted. They
//! are there for whoever records, and do nothing else.

use std::ffi::{c_int, c_void};

use soft_hca_core::engine::ReceiveQueue;

use super::layout::{Qp, Srq};
use super::table;
use crate::client::recorded::Posting;
use crate::client::{process, uverbs};

type Post = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, *mut c_void) -> c_int;

/// Calls the provider's own function `post`, between what is there for whoever records.
#[inline]
unsafe fn call(
    own: usize,
    [to, first, bad]: [*mut c_void; 3],
    queue: impl FnOnce() -> Option<ReceiveQueue>,
) -> c_int {
    let posting = process::recorded().and_then(|process| Some(Posting::begin(process, queue()?)));
    // SAFETY: the function that was in the place of ours.
    let own = unsafe { std::mem::transmute::<usize, Post>(own) };
    // SAFETY: the caller's own call.
    let error = unsafe { own(to, first, bad) };
    if let Some(posting) = posting {
        posting.end();
    }
    error
}

/// `post_recv` of a context.
pub(super) unsafe extern "C-unwind" fn post_recv(
    qp: *mut c_void,
    first: *mut c_void,
    bad: *mut c_void,
) -> c_int {
    // SAFETY: the program's own queue pair, which begins with the address of its context.
    let Some(hooked) = table::find(unsafe { *qp.cast::<usize>() }) else { return libc::EINVAL };
    // SAFETY: as above.
    let queue = || Some(ReceiveQueue::Own(unsafe { (*qp.cast::<Qp>()).qp_num }));
    // SAFETY: the function that was in the place of this one, and the caller's own call.
    unsafe { call(hooked.own.post_recv, [qp, first, bad], queue) }
}

/// `post_srq_recv` of a context.
pub(super) unsafe extern "C-unwind" fn post_srq_recv(
    srq: *mut c_void,
    first: *mut c_void,
    bad: *mut c_void,
) -> c_int {
    // SAFETY: the program's own queue, which begins with the address of its context.
    let Some(hooked) = table::find(unsafe { *srq.cast::<usize>() }) else { return libc::EINVAL };
    let queue = || {
        // SAFETY: as above.
        let Srq { context, handle, .. } = unsafe { &*srq.cast::<Srq>() };
        // SAFETY: a context lives as long as its queues.
        let fd = unsafe { (**context).cmd_fd };
        uverbs::srq_index(fd, *handle).map(ReceiveQueue::Shared)
    };
    // SAFETY: the function that was in the place of this one, and the caller's own call.
    unsafe { call(hooked.own.post_srq_recv, [srq, first, bad], queue) }
}
