//! The data path: work requests are executed here, payload moves, completions appear.
//!
//! There is no thread of its own, those apart that copy where the system forbids a peer to.
//! Whoever rings a queue pair's doorbell executes its send queue: consumes the peer's receive work
//! request, copies from the one process to the other or leaves that to the receiver's poll, writes
//! both completions and wakes whoever waits for them. The daemon does the same with queues that could not go on.
//!
//! A file uses those below it, and none above.
//!
//! | file | is about | in the kernel |
//! | --- | --- | --- |
//! | `requester` | the send queue, one request or batch after the other | `rxe_req.c`, `rxe_comp.c` |
//! | `batch` | sends, RDMA writes and reads: moving what goes together | `rxe_req.c` |
//! | `plan` | the same: checking each, listing its memory | `rxe_req.c`, `rxe_resp.c` |
//! | `atomic`, `placement`, `window`, `datagram` | the other kinds of requests | `rxe_resp.c`, `rxe_mw.c`, `rxe_recv.c` |
//! | `locking`, `quiesce` | who waits for whom | |
//! | `strict` | programs that are served as late as is legal | |
//! | `held` | RDMA writes that are held back to see who waits for them | |
//! | `credit`, `reservation` | free entries of completion queues, and waiting for them | |
//! | `request` | one request: its memory, its end, its completion | `rxe_req.c`, `rxe_comp.c` |
//! | `incoming` | a message that goes into a receive work request, in parts | `rxe_resp.c` |
//! | `responder` | the peer's side of a request | `rxe_resp.c` |
//! | `remote` | queue pairs with a peer on another host | `rxe_req.c`, `rxe_resp.c` |
//! | `route` | the way to the peer | `rxe_net.c` |
//! | `flush` | the error state | `rxe_comp.c`, `rxe_resp.c` |
//! | `completion`, `arming`, `notification` | completion queues and their events | `rxe_cq.c` |
//! | `traffic` | what the counters of ports are made of | `rxe_hw_counters.c` |
//! | `eager`, `staging` | small sends, which the receiver's own poll brings to their places | `rxe_resp.c` |
//! | `listed` | the queues for which something is staged | |
//! | `helper` | who moves memory for others | |
//! | `receive` | the memory of a receive work request | `rxe_resp.c` |
//! | `memory` | keys and bounds | `rxe_mr.c` |
//! | `copier` | how bytes are moved | |
//! | `bounce`, `bounce_buffer`, `bounce_phase` | through the arena | |
//! | `pids`, `process_memory` | from process to process | |
//! | `own_memory` | within this process | |
//! | `registry` | regions and processes, as told to the process that copies | `rxe_mr.c` |
//! | `segments` | stretches of memory and their regions | |
//! | `check` | checks that have failed | |
//! | `traced`, `posted` | what is traced | |
//! | `asynchronous` | asynchronous events | |
//! | `wc_status`, `timing` | statuses and timers, with our choices | `rxe_comp.c` |
//! | `cursor`, `deferred`, `futex`, `signals` | what all of them need | |
//!
//! # Locks
//! In this order, never two of a kind: the requester's `send_lock`; the responder's `recv_lock`;
//! a shared receive queue's lock, only while a receive work request is consumed; a process's lock
//! for atomics; a completion queue's lock; its `eager_lock`. The `send_lock` is held while local
//! memory is used and the `recv_lock` while the responder's memory is used, so that who has held
//! both for a moment knows that no request of before is still being executed (`quiesce`).
//! Everything that may wait for the daemon happens when no lock is held (`deferred`).
//!
//! Programs wait for locks. The daemon never does, for whoever has one may be stopped: it takes all
//! that a step needs at once, in any order, or none and comes back later (`locking`).

mod arming;
mod asynchronous;
mod atomic;
mod batch;
mod bounce;
mod bounce_buffer;
mod bounce_phase;
mod check;
mod completion;
mod copier;
mod credit;
mod cursor;
mod datagram;
mod deferred;
mod eager;
mod flush;
mod futex;
mod held;
mod helper;
mod incoming;
mod listed;
mod locking;
mod memory;
mod notification;
mod own_memory;
mod pids;
mod placement;
mod plan;
mod posted;
mod process_memory;
mod quiesce;
mod receive;
mod registry;
pub mod remote;
mod request;
mod requester;
mod reservation;
mod responder;
mod route;
mod segments;
mod signals;
mod staging;
mod strict;
#[cfg(any(test, fuzzing))]
#[allow(clippy::unwrap_used, reason = "tests, of which fuzz targets use a part")]
pub(crate) mod tests;
mod timing;
mod traced;
mod traffic;
mod wc_status;
mod window;

use std::fmt;
use std::sync::atomic::Ordering::Acquire;

use crate::arena::{Mapping, Qp};
use crate::engine::cursor::SendCursors;
use crate::engine::deferred::Deferred;
use crate::errno::{Errno, Label, Refusal, Result, Values};
use crate::trace::Event;
use crate::trace::event::{Element, SendPosted};
use crate::uapi::verbs::{qp_type, state};

pub use asynchronous::{Async, Subject};
pub use copier::{Copier, LocalCopier};
pub use credit::{cqe_of, ring_entries};
pub use eager::{EAGER_SLOT_BYTES, EAGER_SLOTS};
pub use helper::Helper;
pub use listed::CqSet;
pub use notification::{Reading, Tokens};
pub use own_memory::{guard, is_guarded_signal, set_action};
pub use posted::ReceiveQueue;
pub use quiesce::Quiesce;
pub use registry::{Identity, Registered, Registry, Retired};
pub use remote::{DatagramReceiver, RemoteDatagram};
pub use route::Route;
pub use traced::trace_packet;

/// The daemon's index in the table of processes.
pub const DAEMON: usize = 0;
/// The index of the daemon's thread that serves the link to other hosts.
pub const LINK: usize = 1;

/// What the data path needs from the process it runs in.
///
/// No lock of the arena is held when these are called, [`Env::now_ns`], [`Env::trace`] and
/// [`Env::is_there`] apart.
pub trait Env {
    /// `CLOCK_MONOTONIC` in nanoseconds.
    fn now_ns(&self) -> u64;

    /// Adds one token to a completion channel's event descriptor.
    fn wake_channel(&self, channel: u32, generation: u32);

    /// Has the daemon run this queue pair's send queue later.
    fn reschedule(&self, qpn: u32, after_ns: u64);

    /// Has the daemon queue an asynchronous event.
    fn raise(&self, what: Async);

    /// Whether the daemon has ended, which then may have left locks behind. Asked by programs that
    /// have waited long.
    fn is_daemon_gone(&self) -> bool {
        false
    }

    /// Has the link to other hosts look at a queue pair's send queue.
    fn link_doorbell(&self, _qpn: u32) {}

    /// Has the link's thread look at a queue pair whose share this process has begun to run, or of another
    /// process's share for which it has taken packets.
    fn link_looks(&self, _qpn: u32) {}

    /// Sends a datagram to another host; false if it is to be tried again. Locks may be held. Only
    /// the link's thread does.
    fn send_datagram(&self, _datagram: &RemoteDatagram<'_>) -> bool {
        true
    }

    /// A send, of which these are the elements that are read or written, was posted by this process to a queue
    /// pair of its own, and was not executed yet. Asked only while somebody records.
    fn send_posted(&self, _posted: &SendPosted, _list: &[Element]) {}

    /// Traces an event about a process, with what is behind its fixed part. Locks
    /// may be held: this waits for nobody and does not use the engine.
    fn trace(&self, _proc: u32, _event: &Event, _tail: &[u8]) {}

    /// The same for what has begun at a time that is known.
    fn trace_at(&self, _t: u64, proc: u32, event: &Event, tail: &[u8]) {
        self.trace(proc, event, tail);
    }

    /// Whether an index is a process's that may hold locks. Only the daemon knows.
    fn is_there(&self, _proc: usize) -> bool {
        true
    }
}

/// A process that runs the data path.
#[derive(Clone, Copy)]
pub struct Actor<'a> {
    /// The fabric's memory.
    pub arena: &'a Mapping,
    /// Index of this process in the arena; 0 is the daemon.
    pub me: usize,
    /// What the process gives.
    pub env: &'a dyn Env,
    /// Moves bytes between processes.
    pub copier: &'a dyn Copier,
}

impl fmt::Debug for Actor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Actor").field("me", &self.me).finish_non_exhaustive()
    }
}

const NO_QP: Errno = Errno::ENOENT.because(Refusal::NoQueuePair);
const NOT_YET: Errno = Errno::EINVAL.because(Refusal::SendBeforeRts);

impl Actor<'_> {
    /// POST_SEND: work requests were put into the queue pair's send ring. `EINVAL` before RTS,
    /// where they are dropped; in the error state they are flushed, in SQD they wait. `ENOENT` if
    /// the queue pair is gone.
    pub fn doorbell(&self, qpn: u32) -> Result<()> {
        let qp = self.take_posted(qpn)?;
        self.run(qpn, true);
        // Who posts receives or polls tells nobody. If the peer waits for that, now is a good time
        // to look.
        let waits =
            |peer: &Qp| requester::waits_for_peer(peer) && peer.dest_qpn.load(Acquire) == qpn;
        if qp.qp_type.load(Acquire) == qp_type::RC && self.local_peer(qp).is_some_and(waits) {
            self.run(qp.dest_qpn.load(Acquire), false);
        }
        Ok(())
    }

    /// The same for a queue pair that is served strictly: the daemon executes what was posted, later.
    pub fn strict_doorbell(&self, qpn: u32) -> Result<()> {
        self.take_posted(qpn)?;
        self.env.reschedule(qpn, 0);
        Ok(())
    }

    /// Sends were posted to a queue pair, which is to be in a state for that.
    #[inline]
    fn take_posted(&self, qpn: u32) -> Result<&Qp> {
        let qp = self.arena.qp(qpn).filter(|qp| qp.live.load(Acquire) == qpn).ok_or(NO_QP)?;
        let current = qp.state.load(Acquire);
        if flush::is_before_rts(current) && self.drop_refused(qp, qpn) {
            return Err(NOT_YET.with(Values::of([(Label::State, current.into())])));
        }
        if self.is_traced() {
            self.trace_posted(qp, qpn);
        }
        Ok(qp)
    }

    /// Executes what is in the queue pair's send ring: for the daemon, when a request that could
    /// not be executed is due again, or the queue pair has come to RTS or SQD.
    pub fn run_send_queue(&self, qpn: u32) {
        self.run(qpn, !self.is_daemon());
    }

    /// MODIFY_QP to the error state: all work requests of the queue pair are flushed, sends first.
    /// Receives of a shared receive queue stay. For the daemon; false, and nothing is done, if
    /// somebody else has a lock that this needs.
    #[must_use]
    pub fn enter_error(&self, qpn: u32) -> bool {
        let Some(qp) = self.arena.qp(qpn) else { return true };
        let mut deferred = Deferred::default();
        {
            let own = [&qp.send_lock, &qp.recv_lock].map(|lock| self.lock(lock));
            let cqs = [&qp.send_cq, &qp.recv_cq].map(|cq| self.lock_cq(cq.load(Acquire)));
            if own.iter().any(Option::is_none) || cqs.iter().any(Option::is_none) {
                return false;
            }
            if qp.live.load(Acquire) == qpn {
                flush::set_error(qp, qpn, |_| true, &mut deferred);
                self.flush_send_ring(qp, qpn, &mut deferred);
                self.flush_receive_ring(qp, qpn, &mut deferred);
            }
        }
        self.run_deferred(&mut deferred);
        true
    }

    /// Flushes receives that were posted to a queue pair in the error state: nobody rings a
    /// doorbell for them.
    pub fn poll_error_receives_of(&self, qpn: u32) {
        let Some(qp) = self.arena.qp(qpn) else { return };
        if qp.state.load(Acquire) != state::ERR || !self.has_receives_to_flush(qp) {
            return;
        }
        let mut deferred = Deferred::default();
        self.flush_receives(qp, qpn, &mut deferred);
        self.run_deferred(&mut deferred);
    }

    /// Whether a queue pair has requests that are posted and neither executed nor flushed.
    pub fn has_unsent(&self, qpn: u32) -> bool {
        let Some(qp) = self.arena.qp(qpn) else { return false };
        let is_up = qp.state.load(Acquire) == state::RTS;
        let ring = self.arena.ring(&qp.sq).filter(|_| is_up);
        ring.is_some_and(|ring| ring.producer() != SendCursors::of(qp, &ring).next)
    }

    /// Has send queues run again that are not empty. For the daemon, after the end of a process: it
    /// may have died executing one of them, before it could say that it is to be tried again.
    pub fn run_again(&self, qps: impl IntoIterator<Item = usize>) {
        for qp in qps.into_iter().filter_map(|index| self.arena.qps.get(index)) {
            let ring = self.arena.ring(&qp.sq);
            if ring.is_some_and(|ring| ring.producer() != SendCursors::of(qp, &ring).next) {
                self.env.reschedule(qp.live.load(Acquire), 0);
            }
        }
    }
}
