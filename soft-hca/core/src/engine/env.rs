//! The part of the data path that each process has of its own.

use crate::engine::asynchronous::Async;
use crate::engine::in_transit::InTransit;
use crate::trace::Event;
use crate::trace::event::{SendPosted, TracedSge};

/// The services that the data path needs of the process it runs in.
///
/// No lock of the arena is held when these are called, [`Env::now_ns`], [`Env::put_off_now_ns`], [`Env::in_transit`],
/// [`Env::trace`] and [`Env::is_there`] apart.
pub trait Env {
    /// `CLOCK_MONOTONIC` in nanoseconds.
    fn now_ns(&self) -> u64;

    /// The time by which requests of strict programs are put off, in nanoseconds: the daemon's, who does that, need not
    /// be the system's.
    fn put_off_now_ns(&self) -> u64 {
        self.now_ns()
    }

    /// Adds one token to a completion channel's event descriptor.
    fn wake_channel(&self, channel: u32, generation: u32);

    /// Has the daemon run this queue pair's send queue later.
    fn reschedule(&self, qpn: u32, after_ns: u64);

    /// Has the daemon run a strict program's send queue when that [time](Self::put_off_now_ns) has come.
    fn put_off(&self, qpn: u32, due_ns: u64) {
        self.reschedule(qpn, due_ns.saturating_sub(self.put_off_now_ns()));
    }

    /// Has the daemon queue an asynchronous event.
    fn raise(&self, what: Async);

    /// Whether the daemon has ended, which then may have left locks behind. Asked by programs that
    /// have waited long.
    fn is_daemon_gone(&self) -> bool {
        false
    }

    /// Has the link to other hosts look at a queue pair's send queue.
    fn link_doorbell(&self, _qpn: u32) {}

    /// Has the link's thread look at a queue pair whose lease this process has begun to run, or of another
    /// process's lease for which it has taken packets.
    fn link_looks(&self, _qpn: u32) {}

    /// Sends a datagram to another host; false if it is to be tried again. Locks may be held. Only
    /// the link's thread does.
    fn send_datagram(&self, _datagram: &RemoteDatagram<'_>) -> bool {
        true
    }

    /// A send, of which these are the SGEs that are read or written, was posted by this process to a queue
    /// pair of its own, and was not executed yet. Asked only while somebody records.
    fn send_posted(&self, _posted: &SendPosted, _list: &[TracedSge]) {}

    /// Traces an event about a process, with what is behind its fixed part. Locks
    /// may be held: this waits for nobody and does not use the engine.
    fn trace(&self, _proc: u32, _event: &Event, _tail: &[u8]) {}

    /// The same for what has begun at a time that is known.
    fn trace_at(&self, _t: u64, proc: u32, event: &Event, tail: &[u8]) {
        self.trace(proc, event, tail);
    }

    /// The bytes that are on their way between queue pairs of strict programs. Only the daemon has them.
    fn in_transit(&self) -> Option<&InTransit> {
        None
    }

    /// Whether an index is a process's that may hold locks. Only the daemon knows.
    fn is_there(&self, _proc: usize) -> bool {
        true
    }
}

/// A datagram for another host.
#[derive(Debug)]
pub struct RemoteDatagram<'d> {
    /// The sender's GID.
    pub sgid: [u8; 16],
    /// The receiver's GID.
    pub dgid: [u8; 16],
    /// Of the address handle.
    pub traffic_class: u8,
    /// Of the address handle, if it is for a group. A datagram for one host has the system's.
    pub hop_limit: Option<u8>,
    /// The receiver's queue pair.
    pub dest_qpn: u32,
    /// The key that it has to have.
    pub qkey: u32,
    /// The sender's queue pair.
    pub source_qpn: u32,
    /// Its packet's number.
    pub psn: u32,
    /// Immediate data.
    pub immediate: Option<[u8; 4]>,
    /// The receiver is to have an event.
    pub solicited: bool,
    /// Its bytes.
    pub payload: &'d [u8],
}
