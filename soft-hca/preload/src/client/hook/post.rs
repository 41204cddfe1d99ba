//! The functions that stand in the places of those by which work requests are posted. They are there for
//! whoever records, and do nothing else. Sends that are posted are seen at their doorbell, and so here only
//! what the provider refuses.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::Ordering::Relaxed;

use soft_hca_core::engine::ReceiveQueue;
use soft_hca_core::trace::event::{PostRefused, Posts};
use soft_hca_core::trace::{self, Site};

use super::at_once::{self, Left};
use super::table::{self, CONTEXTS};
use crate::client::files::table as descriptors;
use crate::client::functions::Post;
use crate::client::layout::{Qp, RecvWr, SendWr, Sge, Srq};
use crate::client::recorded::{self, Posting};
use crate::client::{forked, memory, receives, site};

/// Calls the provider's own function `post`, between what is there for whoever records.
#[inline]
unsafe fn call(
    own: Post,
    [to, first, bad]: [*mut c_void; 3],
    function: &'static CStr,
    queue: impl Fn() -> Option<ReceiveQueue>,
) -> c_int {
    let is_recorded = forked::recorded_at(function);
    let site = is_recorded.map_or_else(Site::default, |process| site::of_inline(process, function));
    trace::at(site, || {
        let recorded = is_recorded.and_then(|process| Some((process, queue()?)));
        let posting = recorded.map(|(process, queue)| {
            receives::posts(process, queue, first as u64);
            Posting::begin(process, queue)
        });
        // SAFETY: the provider's function, which gets what the program has given to ours.
        let error = unsafe { own(to, first, bad) };
        if let Some(posting) = posting {
            posting.end();
        }
        if let Some((process, queue)) = recorded.filter(|_| error != 0) {
            receives::forget(process, queue);
        }
        if error != 0 && recorded::is_on() {
            // SAFETY: `bad` is null, or the program's variable for an address.
            let request = memory::read_as::<RecvWr>(unsafe { refused(first, bad) });
            if let (Some(request), Some(queue)) = (request, queue()) {
                let (posts, number) = match queue {
                    ReceiveQueue::Own(qpn) => (Posts::Receive, qpn),
                    ReceiveQueue::Shared(index) => (Posts::SharedReceive, index),
                };
                recorded::post_refused(PostRefused {
                    wr_id: request.wr_id,
                    length: length(request.sg_list, request.num_sge),
                    errno: error,
                    posts: posts as u32,
                    queue: number,
                    sges: request.num_sge as u32,
                    ..PostRefused::default()
                });
            }
        }
        error
    })
}

/// Requests of a list that are looked at.
const LONGEST: usize = 4096;

/// The request of a list that was refused: the one whose address the provider has left in `bad`. It does not
/// always leave one.
///
/// # Safety
/// `bad` is null, or has an address.
unsafe fn refused(first: *mut c_void, bad: *mut c_void) -> u64 {
    // SAFETY: `bad` is null or has an address, as the caller promises.
    let posted = unsafe { posted_before(first, bad) };
    requests(first as u64).nth(posted).unwrap_or(first as u64)
}

/// The addresses of a list's requests.
fn requests(first: u64) -> impl Iterator<Item = u64> {
    // The next one is named behind the first word, whatever is posted.
    let next =
        |at: &u64| memory::read_as::<[u64; 2]>(*at).map(|[_, next]| next).filter(|next| *next != 0);
    std::iter::successors(Some(first), next).take(LONGEST)
}

/// The number of requests of a list that were posted before one was refused, whose address the provider has left in
/// `bad`; 0 if it has left none.
///
/// # Safety
/// `bad` is null, or has an address.
pub(super) unsafe fn posted_before(first: *mut c_void, bad: *mut c_void) -> usize {
    // SAFETY: `bad` is null or has an address, as the caller promises.
    let Some(bad) = (unsafe { bad.cast::<u64>().as_ref() }) else { return 0 };
    requests(first as u64).position(|at| at == *bad).unwrap_or(0)
}

/// SGEs of a list that are looked at.
const MOST: usize = 256;

/// Bytes of a list's SGEs.
fn length(list: u64, sges: i32) -> u64 {
    let sges = usize::try_from(sges).unwrap_or(0).min(MOST);
    let sge =
        |index: usize| memory::read_as::<Sge>(list.wrapping_add((index * size_of::<Sge>()) as u64));
    (0..sges).map_while(sge).map(|sge| u64::from(sge.length)).sum()
}

/// The functions of the context of a queue pair or a shared receive queue.
///
/// # Safety
/// `queue` is the address of a `struct ibv_qp` or `ibv_srq`, which begins with that of its context.
#[inline]
unsafe fn functions(queue: *mut c_void) -> Option<&'static table::Context> {
    // SAFETY: a queue begins with its context, and the caller promises that it is one.
    CONTEXTS.find(unsafe { *queue.cast::<usize>() })
}

/// The receive queue of a queue pair.
///
/// # Safety
/// `qp` is the address of a `struct ibv_qp`.
pub(super) unsafe fn own_queue(qp: *mut c_void) -> ReceiveQueue {
    // SAFETY: the caller promises that it is a queue pair, whose number never changes.
    ReceiveQueue::Own(unsafe { (*qp.cast::<Qp>()).qp_num })
}

/// A shared receive queue, if it is known.
///
/// # Safety
/// `srq` is the address of a `struct ibv_srq`.
pub(super) unsafe fn shared_queue(srq: *mut c_void) -> Option<ReceiveQueue> {
    // SAFETY: the caller promises that it is a shared receive queue, whose fields never change.
    let Srq { context, handle, .. } = unsafe { &*srq.cast::<Srq>() };
    // SAFETY: a context lives as long as its queues.
    let fd = unsafe { (**context).cmd_fd };
    descriptors::srq_index(fd, *handle).map(ReceiveQueue::Shared)
}

/// `post_send` of a context.
pub(super) unsafe extern "C-unwind" fn post_send(
    qp: *mut c_void,
    first: *mut c_void,
    bad: *mut c_void,
) -> c_int {
    // SAFETY: the program's own call, of which the provider gets what is left.
    let first = match unsafe { at_once::send(qp, first, bad) } {
        Left::Nothing => return 0,
        Left::From(first) => first,
    };
    // SAFETY: the program posts to a queue pair, as `functions` wants it.
    let own = unsafe { functions(qp) }.and_then(|known| known.post_send.load(Relaxed));
    let Some(own) = own else { return libc::EINVAL };
    let site = match forked::recorded_at(c"ibv_post_send") {
        Some(process) => site::of_inline(process, c"ibv_post_send"),
        None => Site::default(),
    };
    trace::at(site, || {
        // SAFETY: the provider's function, which gets what the program has given to ours.
        let error = unsafe { own(qp, first, bad) };
        if error != 0 && recorded::is_on() {
            // SAFETY: `bad` is null, or the program's variable for an address.
            if let Some(request) = memory::read_as::<SendWr>(unsafe { refused(first, bad) }) {
                // SAFETY: the program gives a queue pair of its own, and may not destroy it during the call.
                let queue = unsafe { (*qp.cast::<Qp>()).qp_num };
                recorded::post_refused(PostRefused {
                    wr_id: request.wr_id,
                    address: request.remote_addr,
                    length: length(request.sg_list, request.num_sge),
                    errno: error,
                    posts: Posts::Send as u32,
                    queue,
                    opcode: request.opcode,
                    flags: request.send_flags,
                    sges: request.num_sge as u32,
                    ..PostRefused::default()
                });
            }
        }
        error
    })
}

/// `post_recv` of a context.
pub(super) unsafe extern "C-unwind" fn post_recv(
    qp: *mut c_void,
    first: *mut c_void,
    bad: *mut c_void,
) -> c_int {
    // SAFETY: the program's own queue pair, which it may not destroy during the call.
    let own = unsafe { functions(qp) }.and_then(|known| known.post_recv.load(Relaxed));
    let Some(own) = own else { return libc::EINVAL };
    // SAFETY: the program's own queue pair, which it may not destroy during the call.
    let queue = || Some(unsafe { own_queue(qp) });
    // SAFETY: the provider's function, which gets what the program has given to this one.
    unsafe { call(own, [qp, first, bad], c"ibv_post_recv", queue) }
}

/// `post_srq_recv` of a context.
pub(super) unsafe extern "C-unwind" fn post_srq_recv(
    srq: *mut c_void,
    first: *mut c_void,
    bad: *mut c_void,
) -> c_int {
    // SAFETY: as in `post_send`, of a shared receive queue.
    let own = unsafe { functions(srq) }.and_then(|known| known.post_srq_recv.load(Relaxed));
    let Some(own) = own else { return libc::EINVAL };
    // SAFETY: the program's own queue, which it may not destroy during the call.
    let queue = || unsafe { shared_queue(srq) };
    // SAFETY: the provider's function, which gets what the program has given to this one.
    unsafe { call(own, [srq, first, bad], c"ibv_post_srq_recv", queue) }
}
