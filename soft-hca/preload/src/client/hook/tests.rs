//! Contexts and queues of a provider that does nothing but count and answer, as programs have them.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem;

use super::*;
use crate::client::functions::{EndPoll, NextPoll, StartPoll};
use crate::client::layout::{Qp, Srq};

const FD: RawFd = 1234;
const QUEUE: Queue = Queue { index: 5, generation: 9 };

thread_local! {
    /// The value that the provider's functions return.
    static ANSWER: Cell<c_int> = const { Cell::new(0) };
    /// How often they were called, and what with.
    static CALLS: Cell<(usize, [usize; 3])> = const { Cell::new((0, [0; 3])) };
}

fn called(arguments: [usize; 3]) -> c_int {
    CALLS.set((CALLS.get().0 + 1, arguments));
    ANSWER.get()
}

/// The arguments of the one call since the last time.
fn only_call() -> [usize; 3] {
    let (count, arguments) = CALLS.replace((0, [0; 3]));
    assert_eq!(count, 1, "calls of the provider's");
    arguments
}

unsafe extern "C-unwind" fn polls(cq: *mut c_void, count: c_int, wc: *mut c_void) -> c_int {
    called([cq as usize, count as usize, wc as usize])
}

unsafe extern "C-unwind" fn posts(to: *mut c_void, wr: *mut c_void, bad: *mut c_void) -> c_int {
    called([to as usize, wr as usize, bad as usize])
}

unsafe extern "C-unwind" fn starts(cq: *mut c_void, attributes: *mut c_void) -> c_int {
    called([cq as usize, attributes as usize, 0])
}

unsafe extern "C-unwind" fn nexts(cq: *mut c_void) -> c_int {
    called([cq as usize, 1, 0])
}

unsafe extern "C-unwind" fn ends(cq: *mut c_void) {
    called([cq as usize, 2, 0]);
}

/// A context, with a queue, which are hooked at the end of their test at the latest.
struct Program {
    context: Box<Context>,
    cq: Box<ExtendedCq>,
    own_poll: Slot<PollCq>,
}

impl Program {
    fn new() -> Self {
        // SAFETY: zeros are null pointers, numbers, and slots without a function.
        let (mut context, mut cq): (Box<Context>, Box<ExtendedCq>) =
            unsafe { (Box::new(mem::zeroed()), Box::new(mem::zeroed())) };
        context.poll_cq.store(Some(polls), Relaxed);
        context.post_send.store(Some(posts), Relaxed);
        context.post_recv.store(Some(posts), Relaxed);
        context.cmd_fd = FD;
        cq.context = (&raw mut *context).expose_provenance() as *mut Context;
        Self { context, cq, own_poll: Slot::empty() }
    }

    fn extended() -> Self {
        let program = Self::new();
        program.cq.start_poll.store(Some(starts), Relaxed);
        program.cq.next_poll.store(Some(nexts), Relaxed);
        program.cq.end_poll.store(Some(ends), Relaxed);
        program
    }

    fn address(&self) -> usize {
        (&raw const *self.cq).expose_provenance()
    }

    fn watch(&self) {
        watch(self.address(), QUEUE, FD, &self.own_poll);
    }

    /// `ibv_poll_cq`
    fn poll(&self) -> c_int {
        let function = self.context.poll_cq.load(Relaxed).unwrap();
        // SAFETY: the queue of this program, and no room for completions, of which the provider gives none.
        unsafe { function(self.address() as *mut c_void, 3, ptr::null_mut()) }
    }

    fn is_hooked(&self) -> bool {
        self.context.poll_cq.load(Relaxed).is_some_and(|own| !ptr::fn_addr_eq(own, polls as PollCq))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        forget(self.address());
        CONTEXTS.remove((&raw const *self.context).addr());
    }
}

#[test]
fn polls_reach_the_provider_once_until_the_queue_is_gone_and_after() {
    let program = Program::new();
    program.watch();
    // Of the next queue of the same context, our own functions are in their places already.
    program.watch();
    assert!(program.is_hooked());
    assert_eq!(table::index_of(program.address()), Some(QUEUE.index));
    for answer in [0, -1, 0] {
        ANSWER.set(answer);
        assert_eq!((program.poll(), only_call()), (answer, [program.address(), 3, 0]));
    }
    forget(program.address());
    assert_eq!(table::index_of(program.address()), None);
    assert_eq!((program.poll(), only_call()), (0, [program.address(), 3, 0]));
}

#[test]
fn nothing_is_done_to_what_is_no_queue_of_the_file() {
    let mut program = Program::new();
    watch(program.address(), QUEUE, FD + 1, &program.own_poll);
    watch(program.address() + 4, QUEUE, FD, &program.own_poll);
    watch(0, QUEUE, FD, &program.own_poll);
    watch(8, QUEUE, FD, &program.own_poll);
    let context = mem::replace(&mut program.cq.context, 16 as *mut Context);
    program.watch();
    program.cq.context = context;
    assert!(!program.is_hooked());
    assert_eq!(table::index_of(program.address()), None);
    assert!(!hook(program.address(), QUEUE), "it is not watched");
}

#[test]
fn posts_reach_the_provider_and_what_it_lacks_stays_away() {
    let mut program = Program::new();
    program.watch();
    assert!(program.context.post_srq_recv.load(Relaxed).is_none());
    // SAFETY: zeros are null pointers and numbers.
    let mut qp: Qp = unsafe { mem::zeroed() };
    let (mut wr, mut bad) = ([0u64; 8], 0u64);
    let qp_address = (&raw mut qp).cast::<c_void>();
    let (wr_address, bad_address) = ((&raw mut wr).cast(), (&raw mut bad).cast());
    let slots = [&program.context.post_send, &program.context.post_recv];
    let [send, recv] = slots.map(|slot| slot.load(Relaxed).unwrap());
    // SAFETY: a queue pair of no context that is known, which is all that is looked at.
    assert_eq!(unsafe { send(qp_address, wr_address, bad_address) }, libc::EINVAL);
    // SAFETY: the field is the first one.
    unsafe { qp_address.cast::<*mut Context>().write(&raw mut *program.context) };
    for (answer, function) in [(0, send), (libc::ENOMEM, recv), (libc::EINVAL, send)] {
        ANSWER.set(answer);
        // SAFETY: a queue pair of this program's, with a request.
        assert_eq!(unsafe { function(qp_address, wr_address, bad_address) }, answer);
        let arguments = [qp_address, wr_address, bad_address].map(|address| address as usize);
        assert_eq!(only_call(), arguments);
    }
    // SAFETY: as above.
    let mut srq: Srq = unsafe { mem::zeroed() };
    srq.context = &raw mut *program.context;
    // SAFETY: as above; the provider has no such function.
    let error = unsafe { post_srq_recv((&raw mut srq).cast(), wr_address, bad_address) };
    assert_eq!(error, libc::EINVAL);
}

#[test]
fn an_extended_queue_has_its_functions_replaced_when_a_queue_pair_reports_there() {
    let program = Program::extended();
    program.watch();
    let is = |own: StartPoll| ptr::fn_addr_eq(own, starts as StartPoll);
    assert!(program.cq.start_poll.load(Relaxed).is_some_and(is));
    assert!(!hook(program.address(), Queue { generation: QUEUE.generation + 1, ..QUEUE }));
    assert!(program.cq.start_poll.load(Relaxed).is_some_and(is));
    hook(program.address(), QUEUE);
    let (start, next, end): (StartPoll, NextPoll, EndPoll) = (
        program.cq.start_poll.load(Relaxed).unwrap(),
        program.cq.next_poll.load(Relaxed).unwrap(),
        program.cq.end_poll.load(Relaxed).unwrap(),
    );
    assert!(!is(start));
    let cq = program.address() as *mut c_void;
    for answer in [0, libc::ENOENT, libc::EINVAL] {
        ANSWER.set(answer);
        // SAFETY: the queue of this program; its functions look at its address only.
        assert_eq!(unsafe { start(cq, 8 as *mut c_void) }, answer);
        assert_eq!(only_call(), [program.address(), 8, 0]);
        // SAFETY: as above.
        assert_eq!(unsafe { next(cq) }, answer);
        assert_eq!(only_call(), [program.address(), 1, 0]);
        // SAFETY: as above.
        unsafe { end(cq) };
        assert_eq!(only_call(), [program.address(), 2, 0]);
    }
    forget(program.address());
    // SAFETY: as above; the queue is destroyed for us.
    assert_eq!(unsafe { start(cq, ptr::null_mut()) }, libc::EINVAL);
}

/// Behind a plain queue lies what the provider wants.
#[test]
fn a_plain_queue_stays_as_it_is() {
    let program = Program::new();
    let behind = (&raw const program.cq.start_poll).cast::<usize>().cast_mut();
    // SAFETY: a number that is no function's address, in a field of this program's; nobody calls it.
    unsafe { behind.write(64) };
    program.watch();
    assert!(hook(program.address(), QUEUE), "all of its polls pass through here");
    // SAFETY: as above.
    assert_eq!(unsafe { behind.read() }, 64);
    // SAFETY: as above.
    unsafe { behind.write(0) };
}
