//! `--strict`: the functions between ours and the provider's: they stand where ours look for the provider's.

use std::ffi::{c_int, c_void};
use std::mem::offset_of;
use std::sync::atomic::Ordering::{Acquire, Release};

use zerocopy::FromBytes;

use super::below::Below;
use super::{post as posts, table};
use crate::client::functions::{Functions, Post, Slot, StartPoll};
use crate::client::layout::{Qp, RecvWr, SendWr, Wc};
use crate::client::strict::depth::{Polled, Send, depths};
use crate::client::strict::{late, wait};
use crate::client::{memory, process};
use soft_hca_core::engine::ReceiveQueue;
use soft_hca_core::uapi::verbs::{send_flag, state};

static BELOW: Below = Below::empty();

/// Puts this layer before a context's functions.
pub(super) fn before_context(own: Functions) -> Functions {
    let (post_send, post_recv) = (Some(post_send as Post), Some(post_recv as Post));
    let layer = Functions { poll_cq, post_send, post_recv, post_srq_recv: Some(post_srq_recv) };
    BELOW.put_before(own, layer)
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

/// The program has looked for completions; whether it goes on with something.
fn looked(has_found: bool) {
    match process::current() {
        Some(process) if !has_found => wait::nothing(&process.arena),
        _ => wait::over(),
    }
}

/// `poll_cq` of a context.
unsafe extern "C-unwind" fn poll_cq(cq: *mut c_void, count: c_int, wc: *mut c_void) -> c_int {
    let (index, is_late) = index_and_lateness(cq);
    if is_late {
        return 0;
    }
    let Some(own) = BELOW.poll_cq.load(Acquire) else { return -1 };
    // SAFETY: the provider's function, which gets what the program has given to ours.
    let found = unsafe { own(cq, count, wc) };
    looked(found > 0);
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
    // SAFETY: the provider's function, which gets what the program has given to ours.
    let error = unsafe { own(cq, attributes) };
    looked(error != libc::ENOENT);
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
        // SAFETY: null, or the program's variable for an address, which is this function's during the call.
        if let Some(bad) = unsafe { bad.cast::<u64>().as_mut() } {
            *bad = at;
        }
    };
    let posted_before = |bad: *mut c_void| {
        // SAFETY: null, or the program's variable for an address, which is this function's during the call.
        let bad = unsafe { bad.cast::<u64>().as_ref() };
        list.iter().position(|at| Some(at) == bad).unwrap_or(0)
    };
    if count == list.len() {
        // SAFETY: the provider's function, which gets what the program has given to ours.
        let error = unsafe { own(to, first, bad) };
        return (error, if error == 0 { count } else { posted_before(bad) });
    }
    if let Some(last) = count.checked_sub(1) {
        let place = (list[last] + offset_of!(RecvWr, next) as u64) as *mut u64;
        // The list ends before the one that has no room, as long as the provider looks at it.
        // SAFETY: a word of the caller's list, which is the provider's during the call.
        let next = unsafe { place.replace(0) };
        // SAFETY: the provider's function, which gets what the program has given to ours.
        let error = unsafe { own(to, first, bad) };
        // SAFETY: `place` is the request's link, as above, which is given its value back.
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
    // SAFETY: the program gives a queue pair of its own, and may not destroy it during the call.
    let qpn = unsafe { (*qp.cast::<Qp>()).qp_num };
    let list = requests(first);
    let sends: Vec<Send> = list
        .iter()
        .map_while(|at| SendWr::read_from_bytes(&memory::read(*at, size_of::<SendWr>()).ok()?).ok())
        .map(|wr| Send { wr_id: wr.wr_id, is_signaled: wr.send_flags & send_flag::SIGNALED != 0 })
        .collect();
    let taken = depths().post_sends(qpn, &sends);
    let count = if taken == sends.len() { list.len() } else { taken };
    // SAFETY: the program's own call, whose list `requests` has read.
    let (error, posted) = unsafe { post(&BELOW.post_send, [qp, first, bad], &list, count) };
    depths().take_back_sends(qpn, taken.saturating_sub(posted));
    error
}

unsafe fn post_receives(
    own: &Slot<Post>,
    call: [*mut c_void; 3],
    queue: Option<ReceiveQueue>,
) -> c_int {
    let list = requests(call[1]);
    let taken = queue.map_or(list.len(), |queue| depths().post_receives(queue, list.len()));
    // SAFETY: the program's own call, whose list `requests` has read.
    let (error, posted) = unsafe { post(own, call, &list, taken) };
    if let Some(queue) = queue {
        let mut depths = depths();
        depths.take_back_receives(queue, taken.saturating_sub(posted));
        depths.posted(queue, posted);
    }
    error
}

/// `post_recv` of a context.
unsafe extern "C-unwind" fn post_recv(
    qp: *mut c_void,
    first: *mut c_void,
    bad: *mut c_void,
) -> c_int {
    // SAFETY: the program gives a queue pair of its own, and may not destroy it during the call.
    let qpn = unsafe { (*qp.cast::<Qp>()).qp_num };
    let queue = ReceiveQueue::Own(qpn);
    // Before RTR no message comes.
    let may_receive = |process: &&process::Process| {
        process.arena.qp(qpn).is_some_and(|qp| qp.state.load(Acquire) >= state::RTR)
    };
    if let Some(process) = process::current().filter(may_receive) {
        let before = depths().posted_receives(qpn);
        late::before_receive(process, qpn, before);
    }
    // SAFETY: the program's own call, of which nothing is changed.
    unsafe { post_receives(&BELOW.post_recv, [qp, first, bad], Some(queue)) }
}

/// `post_srq_recv` of a context.
unsafe extern "C-unwind" fn post_srq_recv(
    srq: *mut c_void,
    first: *mut c_void,
    bad: *mut c_void,
) -> c_int {
    // SAFETY: the program gives a queue of its own, and may not destroy it during the call.
    let queue = unsafe { posts::shared_queue(srq) };
    // SAFETY: the program's own call, of which nothing is changed.
    unsafe { post_receives(&BELOW.post_srq_recv, [srq, first, bad], queue) }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::mem;
    use std::ptr;

    use super::*;
    use crate::client::cq::Queue;
    use crate::client::hook::table::QUEUES;
    use crate::client::strict::depth::RequestedDepth;

    thread_local! {
        /// The addresses of the requests that the provider was given.
        static POSTED: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
        /// It refuses all from the request at this index on, with `EINVAL`.
        static REFUSES: Cell<usize> = const { Cell::new(usize::MAX) };
    }

    unsafe extern "C-unwind" fn posts(_: *mut c_void, wr: *mut c_void, bad: *mut c_void) -> c_int {
        let list = requests(wr);
        let refused = list.get(REFUSES.get()).copied();
        POSTED.set(list.into_iter().take(REFUSES.get()).collect());
        let Some(refused) = refused else { return 0 };
        // SAFETY: each test gives a place for an address.
        unsafe { bad.cast::<u64>().write(refused) };
        libc::EINVAL
    }

    /// Finds two completions: of the first send, and of a receive.
    unsafe extern "C-unwind" fn polls(_: *mut c_void, _: c_int, wc: *mut c_void) -> c_int {
        let wc = wc.cast::<Wc>();
        // SAFETY: the test gives two completions to be filled.
        unsafe { ((*wc).wr_id, (*wc.add(1)).opcode) = (1, Wc::RECV) };
        2
    }

    fn begin(qpn: u32, max_send_wr: u32, max_recv_wr: u32) -> Qp {
        let own = Functions {
            poll_cq: polls,
            post_send: Some(posts),
            post_recv: Some(posts),
            post_srq_recv: Some(posts),
        };
        // All tests have the same provider.
        assert!(before_context(own).post_send.is_some());
        let asked = RequestedDepth {
            max_send_wr,
            max_recv_wr,
            is_followed: [true; 2],
            ..RequestedDepth::default()
        };
        depths().begin(qpn, asked);
        // SAFETY: zeros are null pointers and numbers.
        let mut qp: Qp = unsafe { mem::zeroed() };
        qp.qp_num = qpn;
        qp
    }

    /// A list of signaled sends. Its requests stay where they are.
    fn sends(count: u64) -> Vec<SendWr> {
        // SAFETY: zeros are a request without SGEs, the last one of its list.
        let zeroed = || unsafe { mem::zeroed::<SendWr>() };
        let mut list: Vec<SendWr> = (0..count).map(|_| zeroed()).collect();
        let first = list.as_mut_ptr().expose_provenance() as u64;
        for (number, wr) in (1..).zip(&mut list) {
            (wr.wr_id, wr.send_flags) = (number, send_flag::SIGNALED);
            wr.next = if number < count { first + number * size_of::<SendWr>() as u64 } else { 0 };
        }
        list
    }

    /// Posts a list: the error, the index of the request that is named as bad, and how many the provider got.
    fn post_list(post: Post, qp: &mut Qp, list: &mut [SendWr]) -> (c_int, Option<usize>, usize) {
        let mut bad = 0u64;
        let first = list.as_mut_ptr();
        POSTED.take();
        // SAFETY: a queue pair, and requests of which only the beginning is looked at, as of those of both kinds.
        let error = unsafe { post(ptr::from_mut(qp).cast(), first.cast(), (&raw mut bad).cast()) };
        let at = |wr: &SendWr| ptr::from_ref(wr).addr() as u64 == bad;
        (error, list.iter().position(at), POSTED.take().len())
    }

    fn nexts(list: &[SendWr]) -> Vec<u64> {
        list.iter().map(|wr| wr.next).collect()
    }

    #[test]
    fn a_list_is_posted_as_far_as_there_was_asked_for_room_and_stays_as_it_was() {
        let mut qp = begin(0x101, 2, 3);
        let mut list = sends(4);
        let before = nexts(&list);
        assert_eq!(post_list(post_send, &mut qp, &mut list), (libc::ENOMEM, Some(2), 2));
        assert_eq!(post_list(post_send, &mut qp, &mut list), (libc::ENOMEM, Some(0), 0));
        assert_eq!(post_list(post_recv, &mut qp, &mut list), (libc::ENOMEM, Some(3), 3));
        assert_eq!(nexts(&list), before);
        assert_eq!(post_list(post_recv, &mut qp, &mut sends(1)), (libc::ENOMEM, Some(0), 0));
    }

    #[test]
    fn what_the_provider_refuses_takes_no_room() {
        let mut qp = begin(0x102, 2, 2);
        for post in [post_send as Post, post_recv as Post] {
            REFUSES.set(1);
            // With and without a request behind, for which there is no room.
            assert_eq!(post_list(post, &mut qp, &mut sends(2)), (libc::EINVAL, Some(1), 1));
            REFUSES.set(0);
            assert_eq!(post_list(post, &mut qp, &mut sends(3)), (libc::EINVAL, Some(0), 0));
            REFUSES.set(usize::MAX);
            assert_eq!(post_list(post, &mut qp, &mut sends(2)), (libc::ENOMEM, Some(1), 1));
        }
    }

    #[test]
    fn polled_completions_give_room_back() {
        const CQ: usize = 0x5000_0000_0040;
        let mut qp = begin(0, 1, 1);
        assert_eq!(post_list(post_send, &mut qp, &mut sends(1)).0, 0);
        assert_eq!(post_list(post_recv, &mut qp, &mut sends(1)).0, 0);
        // SAFETY: a completion consists of numbers, for which zeros are good.
        let mut found: [Wc; 2] = unsafe { mem::zeroed() };
        let wc = found.as_mut_ptr().cast();
        // SAFETY: the provider of these tests looks at the completions only.
        let poll = || unsafe { poll_cq(CQ as *mut c_void, 2, wc) };
        // A queue that is not watched is none whose completions are counted.
        assert_eq!(poll(), 2);
        assert_eq!(post_list(post_send, &mut qp, &mut sends(1)).0, libc::ENOMEM);
        QUEUES.insert(CQ, |known| known.begin(Queue { index: 1000, generation: 1 }, Some(poll_cq)));
        assert_eq!(poll(), 2);
        assert_eq!(post_list(post_send, &mut qp, &mut sends(2)), (libc::ENOMEM, Some(1), 1));
        assert_eq!(post_list(post_recv, &mut qp, &mut sends(2)), (libc::ENOMEM, Some(1), 1));
        QUEUES.remove(CQ);
    }

    #[test]
    fn a_list_that_cannot_be_read_goes_on_to_the_provider() {
        let mut qp = begin(0x103, 1, 1);
        let mut list = sends(2);
        list[1].next = 8;
        assert_eq!(post_list(post_send, &mut qp, &mut list[1..]).0, 0);
    }
}
