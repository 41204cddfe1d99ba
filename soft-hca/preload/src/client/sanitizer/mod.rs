//! A program's sanitizer, which knows its loads and stores, is told what the device does with its memory.
//!
//! From the post of a work request until its completion is polled, its buffers are the device's. So the device's accesses
//! are told at the post, as early as they may be: whatever the program does to the same bytes before it has polled races
//! with them, whether the device was quick or not.
//!
//! | file | what |
//! | --- | --- |
//! | `found` | the sanitizers of this process |
//! | `runtime` | functions of sanitizers, by their names |
//! | `thread` | ThreadSanitizer |
//! | `address` | AddressSanitizer |
//! | `memory` | MemorySanitizer |
//! | `queue` | requests of a queue, and the device's accesses for them |
//! | `peers` | what peers do by RDMA operations |
//! | `order` | what peers know of each other |
//! | `shared` | peers that may tell each other anything beside the fabric |
//! | `places` | where this process posts such operations |
//!
//! The functions between ours and the provider's that call this are in `hook::sanitized`; there are none in a program
//! without a sanitizer.

mod address;
mod found;
mod memory;
mod order;
mod peers;
mod places;
mod queue;
mod runtime;
mod shared;
mod thread;

use std::cell::Cell;
use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::MutexGuard;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use soft_hca_core::arena::{Arena, Clocks};
use soft_hca_core::engine::ReceiveQueue;
use soft_hca_core::trace::event::{SendPosted, TracedSge};
use soft_hca_core::uapi::verbs::{opcode, send_flag};

use crate::client::layout::{Sge, Wc};
use crate::client::lists::Listed;
use crate::client::of_process::OfProcess;
use crate::client::outstanding::Request;
use crate::client::process::Process;
use crate::client::receives::queue_of;
use crate::client::{site, stderr};
use found::{Sanitizers, sanitizers};
use order::Order;
use peers::Peers;
use queue::{New, Posted, Queue, Stretch};
use thread::Access;

/// Whether the program has a sanitizer that wants to know.
pub(super) fn is_on() -> bool {
    sanitizers().is_some()
}

/// In the calling thread, libraries that a sanitizer knows nothing of are left alone.
pub(super) fn leaves_libraries() {
    if let Some(memory) = sanitizers().and_then(|own| own.memory) {
        memory.leaves_libraries();
    }
}

/// A send queue.
#[derive(Debug)]
struct SendQueue {
    /// How far it was looked at.
    seen: AtomicU32,
    queue: Queue,
}

/// Queues by their queue pair's number, or the index of a shared one.
#[derive(Debug, Default)]
struct Queues {
    sends: HashMap<u32, SendQueue>,
    receives: HashMap<ReceiveQueue, Queue>,
    peers: Peers,
}

static QUEUES: OfProcess<Queues> = OfProcess::new();

thread_local! {
    /// Whether the thread has the queues: files that it reads and writes meanwhile are this library's own.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// The queues, which the calling thread has.
struct Locked(MutexGuard<'static, Queues>);

fn queues() -> Locked {
    let locked = QUEUES.lock();
    IS_INSIDE.set(true);
    Locked(locked)
}

impl Deref for Locked {
    type Target = Queues;

    fn deref(&self) -> &Queues {
        &self.0
    }
}

impl DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut Queues {
        &mut self.0
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        IS_INSIDE.set(false);
    }
}

impl Queues {
    fn count(&self) -> usize {
        self.sends.len() + self.receives.len()
    }

    /// Tells of what peers have done meanwhile.
    fn take(&mut self, own: &Sanitizers, process: &Process) {
        if let Some(operations) = process.arena.operations.get(process.index) {
            self.peers.take(own, &process.arena, operations);
        }
    }

    /// All that was posted is over.
    fn are_over(&self) {
        self.sends.values().for_each(|sends| sends.queue.is_over());
        self.receives.values().for_each(Queue::is_over);
    }
}

/// The device's access to the SGEs of a send queue's requests; none to those of some.
fn access_of(kind: u32) -> Option<Access> {
    match kind {
        opcode::SEND
        | opcode::SEND_WITH_IMM
        | opcode::SEND_WITH_INV
        | opcode::RDMA_WRITE
        | opcode::RDMA_WRITE_WITH_IMM => Some(Access::Read),
        opcode::RDMA_READ | opcode::ATOMIC_CMP_AND_SWP | opcode::ATOMIC_FETCH_AND_ADD => {
            Some(Access::Write)
        }
        _ => None,
    }
}

fn stretches(access: Access, list: &[TracedSge]) -> Vec<Stretch> {
    let stretch =
        |&TracedSge { address, length, .. }: &TracedSge| Stretch { access, address, length };
    list.iter().map(stretch).filter(|stretch| stretch.length > 0).collect()
}

/// Sends were posted to a queue pair, and are not executed yet.
pub(super) fn sends_posted(process: &Process, qpn: u32) {
    let Some(own) = sanitizers() else { return };
    let stack = site::callers();
    let callers = stack.callers();
    let place = callers.first().copied().unwrap_or_default();
    let signals_all = process.arena.qp(qpn).is_some_and(|qp| qp.sq_sig_all.load(Acquire) != 0);
    let moment = process.arena.clocks.get(process.index).map_or(0, Clocks::newest);
    let mut queues = queues();
    let before = queues.count();
    let new = || {
        let queue = own.queue(before, &format!("send queue of qp {qpn}"));
        SendQueue { seen: AtomicU32::new(0), queue }
    };
    let SendQueue { seen, queue } = queues.sends.entry(qpn).or_insert_with(new);
    process.actor().posted_since(qpn, seen, |send: &SendPosted, list| {
        let SendPosted { wr_id, opcode, flags, .. } = *send;
        let list = access_of(opcode).map(|access| stretches(access, list)).unwrap_or_default();
        let is_signaled = signals_all || flags & send_flag::SIGNALED != 0;
        let request = || format!("the posted send {wr_id:#x} of qp {qpn}");
        own.check(&list, place, request);
        own.check_written(&list, request);
        if list.iter().any(|stretch| stretch.access == Access::Write) {
            queue.has_answers(|| own.fiber(before, &format!("answers to qp {qpn}")));
        }
        let is_fenced = flags & send_flag::FENCE != 0;
        let what = New { is_fenced, moment };
        queue.post(callers, Request { wr_id, is_signaled, what }, list);
    });
}

/// The calling thread rings the doorbell of a queue pair; its peer may want to know from where. The files in which a
/// runtime looks for the line tell nobody anything.
#[cold]
pub(super) fn posts(process: &Process, qpn: u32) {
    let outer = IS_INSIDE.replace(true);
    let counts = sanitizers().is_some_and(|own| own.thread.is_some());
    let clocks = process.arena.clocks.get(process.index).filter(|_| counts);
    let moment = clocks.map_or(0, Clocks::newest) as u32;
    process.actor().set_origins(qpn, moment, || places::number(process));
    IS_INSIDE.set(outer);
}

/// How messages name a queue of receives.
fn name(queue: ReceiveQueue) -> String {
    match queue {
        ReceiveQueue::Own(qpn) => format!("receive queue of qp {qpn}"),
        ReceiveQueue::Shared(index) => format!("shared receive queue {index}"),
    }
}

/// Receives are about to be posted to a queue.
pub(super) fn receives_are_posted(process: &Process, queue: ReceiveQueue, list: Vec<Listed>) {
    let Some(own) = sanitizers() else { return };
    tells(process);
    let stack = site::callers();
    let callers = stack.callers();
    let place = callers.first().copied().unwrap_or_default();
    let mut queues = queues();
    let before = queues.count();
    let known = queues.receives.entry(queue).or_insert_with(|| own.queue(before, &name(queue)));
    for Listed { wr_id, sges } in list {
        let written =
            |sge: &Sge| Stretch { access: Access::Write, address: sge.addr, length: sge.length };
        let list: Vec<Stretch> = sges.iter().map(written).collect();
        own.check(&list, place, || format!("the posted receive {wr_id:#x}, {}", name(queue)));
        known.post(callers, Request { wr_id, is_signaled: true, what: New::default() }, list);
    }
}

/// Receives of a queue were refused: the device leaves their memory alone.
pub(super) fn receives_were_refused(queue: ReceiveQueue, list: impl IntoIterator<Item = u64>) {
    let mut queues = queues();
    let Some(known) = queues.receives.get_mut(&queue) else { return };
    for wr_id in list {
        known.received(wr_id);
    }
}

/// The calling thread has polled completions, which the program is about to get.
pub(super) fn polled(process: &Process, completions: &[Wc]) {
    let Some(own) = sanitizers() else { return };
    if let Some(sanitizer) = &own.memory {
        let first = completions.as_ptr().expose_provenance() as u64;
        sanitizer.are_written(first, size_of_val(completions) as u64);
    }
    let mut queues = queues();
    queues.take(own, process);
    for completion in completions {
        let qpn = completion.qp_num;
        let done = queues.complete(process, completion);
        let written = done.iter().filter(|_| completion.status == 0);
        for Request { wr_id, what, .. } in written {
            let list = arrived(&what.list, completion);
            let place = || site::callers().callers().first().copied().unwrap_or_default();
            let request = || format!("request {wr_id:#x} of qp {qpn}, whose completion is polled");
            if !list.is_empty() {
                own.check(&list, place(), request);
                own.are_written(&list);
            }
        }
    }
}

/// The memory to which what has come was written: of a receive no more than the message.
fn arrived(list: &[Stretch], completion: &Wc) -> Vec<Stretch> {
    let mut left = if completion.is_receive() { completion.byte_len } else { u32::MAX };
    let written = list.iter().filter(|stretch| stretch.access == Access::Write);
    let cut = written.map(|stretch| {
        let length = stretch.length.min(left);
        left -= length;
        Stretch { length, ..*stretch }
    });
    cut.filter(|stretch| stretch.length > 0).collect()
}

impl Queues {
    /// The calling thread has polled a completion. Returns the requests that are over by it.
    fn complete(&mut self, process: &Process, completion: &Wc) -> Vec<Request<Posted>> {
        let (qpn, arena) = (completion.qp_num, &process.arena);
        let sends = self.sends.get_mut(&qpn).map(|sends| &mut sends.queue);
        let receives = self.receives.get_mut(&queue_of(arena, qpn));
        let order = self.peers.order.as_mut();
        if completion.status != 0 {
            // Its opcode says nothing. What is posted to the queue pair is flushed.
            sends.into_iter().for_each(Queue::is_flushed);
            if let Some(receives) = receives {
                receives.received(completion.wr_id);
                receives.is_over();
            }
            order.into_iter().for_each(|order| order.hears_all(arena));
            return Vec::new();
        }
        if !completion.is_receive() {
            let done = sends.map(|sends| sends.sent(completion.wr_id)).unwrap_or_default();
            if let (Some(last), Some(order)) = (done.last(), order) {
                order.are_done(qpn, last.what.moment);
            }
            return done;
        }
        // It may be the answer to what was sent, whose completion need not be polled then.
        match order.and_then(|order| order.hears_message(arena, qpn)) {
            Some(known) => sends.into_iter().for_each(|sends| sends.is_over_until(known)),
            None => sends.into_iter().for_each(|sends| sends.is_over()),
        }
        receives.and_then(|receives| receives.received(completion.wr_id)).into_iter().collect()
    }
}

/// The calling thread has polled an extended queue. Which completions it has found is not known here: all that was
/// posted may be over.
pub(super) fn polled_extended(process: &Process) {
    let Some(own) = sanitizers() else { return };
    let mut queues = queues();
    queues.take(own, process);
    queues.are_over();
    // The completion of a request tells that those before it are done.
    let last = queues.sends.iter().filter_map(|(qpn, sends)| Some((*qpn, sends.queue.newest()?)));
    let last: Vec<(u32, u64)> = last.collect();
    if let Some(order) = &mut queues.peers.order {
        last.into_iter().for_each(|(qpn, moment)| order.are_done(qpn, moment));
        order.hears_messages(&process.arena);
    }
}

/// The calling thread has deregistered a region, which no device can access any more. What is accessed elsewhere is
/// taken to be over, too, so that a race there may be missed.
pub(super) fn deregistered(process: &Process) {
    if is_on() {
        are_over(process).are_over();
    }
}

/// Peers cannot access memory any more. Gives the queues.
fn are_over(process: &Process) -> Locked {
    let mut queues = queues();
    if let Some(own) = sanitizers() {
        queues.take(own, process);
    }
    queues.peers.order.iter_mut().for_each(|order| order.hears_all(&process.arena));
    queues
}

/// A queue pair is reset, or gone: its requests are not executed any more, nor are those of its peer.
pub(super) fn forget(process: &Process, qpn: u32) {
    if !is_on() {
        return;
    }
    let mut queues = are_over(process);
    queues.peers.order.iter_mut().for_each(|order| order.forget(qpn));
    if let Some(mut sends) = queues.sends.remove(&qpn) {
        sends.queue.is_flushed();
    }
    forget_receives(&mut queues, ReceiveQueue::Own(qpn));
}

/// The same of a shared receive queue.
pub(super) fn forget_shared(index: u32) {
    if is_on() {
        forget_receives(&mut queues(), ReceiveQueue::Shared(index));
    }
}

fn forget_receives(queues: &mut Queues, queue: ReceiveQueue) {
    if let Some(mut receives) = queues.receives.remove(&queue) {
        receives.is_flushed();
    }
}

/// The process is about to create its first queues: from now on it wants to know what peers do at its memory.
pub(super) fn begins(process: &Process) {
    let Some(own) = sanitizers() else { return };
    let wants = &process.arena.procs[process.index].wants_operations;
    if wants.swap(1, AcqRel) == 0 {
        queues().peers.begin(own.thread, &process.arena, process.index);
        process.arena.watch();
    }
}

/// The calling thread is about to post a request, by which it tells its peer something.
pub(super) fn tells(process: &Process) {
    with_peers(process, |order, arena| {
        order.tells(arena);
    });
}

/// The calling thread is about to give a command, without which peers could do nothing.
pub(super) fn commands(process: &Process) {
    with_peers(process, Order::commands);
}

/// The calling thread is about to tell something by a file, a socket or a pipe, or by the connection manager.
pub(super) fn says(process: &Process) {
    with_peers(process, Order::says);
}

/// The calling thread has read from a file, a socket or a pipe.
pub(super) fn hears(process: &Process) {
    with_peers(process, Order::hears_what_is_said);
}

/// The calling thread has got an event of the connection manager, after which peers may do nothing more.
pub(super) fn hears_of_connection(process: &Process) {
    with_peers(process, Order::hears_of_connection);
}

/// The calling thread arms a completion queue.
pub(super) fn arms(process: &Process, cq: u32) {
    with_peers(process, |order, _| order.arms(cq));
}

/// The calling thread has taken an event of a completion queue. It tells nothing of the device that the poll behind it does
/// not.
pub(super) fn takes_event(process: &Process, cq: u32) {
    with_peers(process, |order, _| order.takes_event(cq));
}

/// The process ends.
pub(super) fn takes(process: &Process) {
    with_peers(process, |_, _| {});
}

/// Tells of what peers have done meanwhile, and then something else. Files that this library itself reads and writes tell
/// nobody anything.
fn with_peers(process: &Process, then: impl FnOnce(&mut Order, &Arena)) {
    let Some(own) = sanitizers() else { return };
    if IS_INSIDE.get() {
        return;
    }
    let mut queues = queues();
    queues.take(own, process);
    if let Some(order) = &mut queues.peers.order {
        then(order, &process.arena);
    }
}

/// Memory is about to be registered.
pub(super) fn registers(address: u64, length: u64) {
    let Some(own) = sanitizers() else { return };
    queues().peers.register(address, length);
    let Some(sanitizer) = own.address else { return };
    if let Some(bad) = sanitizer.first_bad(address, length) {
        stderr::say(&format!(
            "{length} bytes at {address:#x} are registered, of which {bad:#x} is not the program's memory"
        ));
        let place = site::callers().callers().first().copied().unwrap_or_default();
        sanitizer.report(Access::Read, bad, length, place);
    }
}
