//! `--strict`: the functions between ours and the provider's: they stand where ours look for the provider's.

use std::ffi::{c_int, c_void};
use std::mem::offset_of;
use std::sync::atomic::Ordering::{Acquire, Release};

use zerocopy::FromBytes;

use super::table;
use crate::client::files::table as descriptors;
use crate::client::functions::{Functions, PollCq, Post, Slot, StartPoll};
use crate::client::layout::{Qp, RecvWr, SendWr, Srq, Wc};
use crate::client::strict::depth::{Polled, Receives, Send, depths};
use crate::client::strict::{self, late};
use crate::client::{memory, process};
use soft_hca_core::uapi::verbs::{send_flag, state};

/// The functions below this layer: the provider's, which are the same for all of its contexts.
struct Below {
    poll_cq: Slot<PollCq>,
    start_poll: Slot<StartPoll>,
    post_send: Slot<Post>,
    post_recv: Slot<Post>,
    post_srq_recv: Slot<Post>,
}

static BELOW: Below = Below {
    poll_cq: Slot::empty(),
    start_poll: Slot::empty(),
    post_send: Slot::empty(),
    post_recv: Slot::empty(),
    post_srq_recv: Slot::empty(),
};

/// Puts this layer before a context's functions.
pub(super) fn before_context(own: Functions) -> Functions {
    BELOW.poll_cq.store(Some(own.poll_cq), Release);
    BELOW.post_send.store(own.post_send, Release);
    BELOW.post_recv.store(own.post_recv, Release);
    BELOW.post_srq_recv.store(own.post_srq_recv, Release);
    Functions {
        poll_cq,
        post_send: own.post_send.map(|_| post_send as Post),
        post_recv: own.post_recv.map(|_| post_recv as Post),
        post_srq_recv: own.post_srq_recv.map(|_| post_srq_recv as Post),
    }
}

/// Puts this layer before an extended queue's function.
pub(super) fn before_start_poll(own: StartPoll) -> StartPoll {
    BELOW.start_poll.store(Some(own), Release);
    start_poll
}

/// The index of a completion queue of the program's, if a poll of it finds nothing yet.
fn index_and_lateness(cq: *mut c_void) -> (Option<u32>, bool) {
    let index = table::index_of(cq as usize);
    let process = process::current();
    let is_late =
        process.zip(index).is_some_and(|(process, index)| late::is_late(&process.arena, index));
    (index, is_late)
}

/// `poll_cq` of a context.
unsafe extern "C-unwind" fn poll_cq(cq: *mut c_void, count: c_int, wc: *mut c_void) -> c_int {
    let (index, is_late) = index_and_lateness(cq);
    if is_late {
        return 0;
    }
    let Some(own) = BELOW.poll_cq.load(Acquire) else { return -1 };
    // SAFETY: the caller's own call.
    let found = unsafe { own(cq, count, wc) };
    let Some(index) = index.filter(|_| found > 0) else { return found };
    late::found(index, found as u32);
    let mut depths = depths();
    for number in 0..found as usize {
        // SAFETY: the provider has filled in so many completions.
        let wc = unsafe { &*wc.cast::<Wc>().add(number) };
        depths.polled(Polled {
            qpn: wc.qp_num,
            wr_id: wc.wr_id,
            has_failed: wc.status != 0,
            is_receive: wc.is_receive(),
        });
    }
    found
}

/// `start_poll` of an extended queue.
unsafe extern "C-unwind" fn start_poll(cq: *mut c_void, attributes: *mut c_void) -> c_int {
    let (index, is_late) = index_and_lateness(cq);
    if is_late {
        return libc::ENOENT;
    }
    let Some(own) = BELOW.start_poll.load(Acquire) else { return libc::EINVAL };
    // SAFETY: the caller's own call.
    let error = unsafe { own(cq, attributes) };
    if let Some(index) = index.filter(|_| error == 0) {
        // All that is there is polled before the end, or not owed any more.
        late::found(index, u32::MAX);
    }
    error
}

/// Requests of a list that are looked at: more than any queue holds.
const LONGEST: usize = 1 << 20;

/// The requests of a list, each by its address; what cannot be read ends it.
fn requests(first: *mut c_void) -> Vec<u64> {
    let next = |at: &u64| {
        let behind = at.checked_add(offset_of!(RecvWr, next) as u64)?;
        let bytes = memory::read(behind, size_of::<u64>()).ok()?;
        bytes.first_chunk().copied().map(u64::from_ne_bytes).filter(|next| *next != 0)
    };
    let first = Some(first as u64).filter(|first| *first != 0);
    std::iter::successors(first, next).take(LONGEST).collect()
}

/// Calls the provider's function with the first `count` requests of a list of which the next one has no
/// room. Gives the error, and how many were posted.
///
/// # Safety
/// The call is the caller's own, with `list` its requests.
unsafe fn post(
    own: &Slot<Post>,
    [to, first, bad]: [*mut c_void; 3],
    list: &[u64],
    count: usize,
) -> (c_int, usize) {
    let Some(own) = own.load(Acquire) else { return (libc::EINVAL, 0) };
    let refuse = |at: u64| {
        // SAFETY: the caller's own place for an address.
        if let Some(bad) = unsafe { bad.cast::<u64>().as_mut() } {
            *bad = at;
        }
    };
    let posted_before = |bad: *mut c_void| {
        // SAFETY: the caller's own place for an address.
        let bad = unsafe { bad.cast::<u64>().as_ref() };
        list.iter().position(|at| Some(at) == bad).unwrap_or(0)
    };
    if count == list.len() {
        // SAFETY: the caller's own call.
        let error = unsafe { own(to, first, bad) };
        return (error, if error == 0 { count } else { posted_before(bad) });
    }
    if let Some(last) = count.checked_sub(1) {
        let place = (list[last] + offset_of!(RecvWr, next) as u64) as *mut u64;
        // The list ends before the one that has no room, as long as the provider looks at it.
        // SAFETY: a word of the caller's list, which is the provider's during the call.
        let next = unsafe { place.replace(0) };
        // SAFETY: the caller's own call.
        let error = unsafe { own(to, first, bad) };
        // SAFETY: as above.
        unsafe { place.write(next) };
        if error != 0 {
            return (error, posted_before(bad));
        }
    }
    refuse(list[count]);
    (libc::ENOMEM, count)
}

/// `post_send` of a context.
unsafe extern "C-unwind" fn post_send(
    qp: *mut c_void,
    first: *mut c_void,
    bad: *mut c_void,
) -> c_int {
    // SAFETY: the program's own queue pair.
    let qpn = unsafe { (*qp.cast::<Qp>()).qp_num };
    let list = requests(first);
    let sends: Vec<Send> = list
        .iter()
        .map_while(|at| SendWr::read_from_bytes(&memory::read(*at, size_of::<SendWr>()).ok()?).ok())
        .map(|wr| Send { wr_id: wr.wr_id, is_signaled: wr.send_flags & send_flag::SIGNALED != 0 })
        .collect();
    let taken = depths().post_sends(qpn, &sends);
    let count = if taken == sends.len() { list.len() } else { taken };
    // SAFETY: the caller's own call.
    let (error, posted) = unsafe { post(&BELOW.post_send, [qp, first, bad], &list, count) };
    depths().take_back_sends(qpn, taken.saturating_sub(posted));
    error
}

unsafe fn post_receives(
    own: &Slot<Post>,
    call: [*mut c_void; 3],
    queue: Option<Receives>,
) -> c_int {
    let list = requests(call[1]);
    let taken = queue.map_or(list.len(), |queue| depths().post_receives(queue, list.len()));
    // SAFETY: the caller's own call.
    let (error, posted) = unsafe { post(own, call, &list, taken) };
    if let Some(queue) = queue {
        depths().take_back_receives(queue, taken.saturating_sub(posted));
    }
    error
}

/// `post_recv` of a context.
unsafe extern "C-unwind" fn post_recv(
    qp: *mut c_void,
    first: *mut c_void,
    bad: *mut c_void,
) -> c_int {
    // SAFETY: the program's own queue pair.
    let qpn = unsafe { (*qp.cast::<Qp>()).qp_num };
    let queue = Receives::Own(qpn);
    // Before RTR no message comes.
    let may_receive = |process: &process::Process| {
        process.arena.qp(qpn).is_some_and(|qp| qp.state.load(Acquire) >= state::RTR)
    };
    if let Some(seed) = strict::seed().filter(|_| process::current().is_some_and(may_receive)) {
        late::before_receive(seed);
    }
    // SAFETY: the caller's own call.
    unsafe { post_receives(&BELOW.post_recv, [qp, first, bad], Some(queue)) }
}

/// `post_srq_recv` of a context.
unsafe extern "C-unwind" fn post_srq_recv(
    srq: *mut c_void,
    first: *mut c_void,
    bad: *mut c_void,
) -> c_int {
    // SAFETY: the program's own queue.
    let Srq { context, handle, .. } = unsafe { &*srq.cast::<Srq>() };
    // SAFETY: a context lives as long as its queues.
    let fd = unsafe { (**context).cmd_fd };
    let queue = descriptors::srq_index(fd, *handle).map(Receives::Shared);
    // SAFETY: the caller's own call.
    unsafe { post_receives(&BELOW.post_srq_recv, [srq, first, bad], queue) }
}
