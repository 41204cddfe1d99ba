//! A queue pair: what was asked for, and the requests that it has.

use std::collections::VecDeque;
use std::sync::Arc;

use soft_hca_verbs::{SendFlags, WrOpcode};

use super::buffers::Range;
use crate::arguments::{self, cq, number};
use crate::entry::{ReceiveQueue, SendPosted, Sge};
use crate::place::Place;
use crate::value::{Named, Value};

/// A send work request whose place in the queue is not free again.
#[derive(Debug)]
pub(super) struct Send {
    pub wr_id: u64,
    pub is_signaled: bool,
    pub sges: Vec<Sge>,
    /// When it was posted.
    pub t: u64,
    /// It is read into its elements, not sent from them.
    pub is_read: bool,
    /// What it writes to in the peer's memory.
    pub target: Option<Range>,
    /// It was executed: its memory is the program's.
    pub is_executed: bool,
    /// Where it was posted.
    pub source: Option<Arc<Place>>,
}

impl Send {
    /// One that was posted.
    pub(super) fn new(
        t: u64,
        posted: &SendPosted,
        signals_all: bool,
        source: Option<Arc<Place>>,
    ) -> Self {
        let has = |flag| posted.flags.contains(flag);
        let opcode = posted.opcode;
        let length = if opcode.is_atomic() { 8 } else { posted.length };
        let target = posted.remote.filter(|_| opcode.writes());
        Self {
            wr_id: posted.wr_id,
            is_signaled: signals_all || has(SendFlags::SIGNALED),
            sges: if has(SendFlags::INLINE) { Vec::new() } else { posted.sges.clone() },
            t,
            is_read: opcode == WrOpcode::RDMA_READ || opcode.fetches(),
            target: target.map(|at| (at.address, at.address.saturating_add(length))),
            is_executed: false,
            source,
        }
    }
}

/// A receive that no message has taken.
#[derive(Debug)]
pub(super) struct Receive {
    pub wr_id: u64,
    pub sges: Vec<Sge>,
}

/// What was asked for at creation. What the provider gives may be more.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asked {
    pub send_wr: u64,
    pub recv_wr: u64,
    pub send_sge: u64,
    pub recv_sge: u64,
    pub inline: u64,
}

/// A queue pair that is there.
#[derive(Debug, Default)]
pub(super) struct QueuePair {
    pub process: u32,
    pub asked: Asked,
    pub signals_all: bool,
    pub send_cq: u32,
    pub recv_cq: u32,
    pub srq: Option<u32>,
    pub sends: VecDeque<Send>,
    /// The number of the oldest sends that were posted before a message came that was polled since.
    answered: usize,
    pub receives: VecDeque<Receive>,
    /// The connection manager has connected it.
    pub by_cm: bool,
    /// `dest_qp_num`
    pub peer: Option<u32>,
    pub max_rd_atomic: u64,
    pub max_dest_rd_atomic: u64,
    /// When it came to RTS with timers that never end, where that was, and which.
    pub endless: Option<(u64, Option<Arc<Place>>, String)>,
    /// The program has polled the completion of a request that has failed.
    pub has_seen_failure: bool,
    /// A request has failed, or the queue pair was put into the error state: those behind are flushed.
    pub has_failed: bool,
}

impl QueuePair {
    /// One that was created, by the call's arguments.
    pub(super) fn new(process: u32, args: &[Named]) -> Self {
        let asked = Asked {
            send_wr: number(args, "max_send_wr").unwrap_or_default(),
            recv_wr: number(args, "max_recv_wr").unwrap_or_default(),
            send_sge: number(args, "max_send_sge").unwrap_or_default(),
            recv_sge: number(args, "max_recv_sge").unwrap_or_default(),
            inline: number(args, "max_inline_data").unwrap_or_default(),
        };
        Self {
            process,
            asked,
            signals_all: number(args, "sq_sig_all").unwrap_or_default() != 0,
            send_cq: cq(args, "send_cq").unwrap_or_default(),
            recv_cq: cq(args, "recv_cq").unwrap_or_default(),
            srq: arguments::srq(args, "srq"),
            ..Self::default()
        }
    }

    /// The queue that its receives are in.
    pub(super) fn receive_queue(&self, number: u32) -> ReceiveQueue {
        self.srq.map_or(ReceiveQueue::Qp(number), ReceiveQueue::Srq)
    }

    /// What a change of its attributes says.
    pub(super) fn modify(&mut self, t: u64, source: &Option<Arc<Place>>, args: &[Named]) {
        for Named(name, value) in args {
            match (name.as_str(), value) {
                ("max_rd_atomic", Value::Number(depth)) => self.max_rd_atomic = *depth as u64,
                ("max_dest_rd_atomic", Value::Number(depth)) => {
                    self.max_dest_rd_atomic = *depth as u64;
                }
                ("dest_qp_num", Value::Name(peer)) => self.peer = u32::try_from(peer.number()).ok(),
                ("timeout", Value::Number(0)) => {
                    self.endless = Some((t, source.clone(), "timeout 0".into()))
                }
                ("rnr_retry", Value::Number(7)) if self.endless.is_none() => {
                    self.endless = Some((t, source.clone(), "rnr_retry 7".into()));
                }
                _ => {}
            }
        }
    }

    /// A send was executed.
    pub(super) fn executes(&mut self, wr_id: u64) -> Option<&Send> {
        let is_it = |send: &&mut Send| send.wr_id == wr_id && !send.is_executed;
        let send = self.sends.iter_mut().find(is_it)?;
        send.is_executed = true;
        Some(send)
    }

    /// The completion of a send was polled: its place, and those before it, are free.
    pub(super) fn frees(&mut self, wr_id: u64) {
        let is_it = |send: &Send| send.wr_id == wr_id && send.is_signaled;
        if let Some(at) = self.sends.iter().position(is_it) {
            self.drop_sends(at + 1);
        }
    }

    /// Takes all that is posted.
    pub(super) fn empty(&mut self) -> (VecDeque<Send>, VecDeque<Receive>) {
        self.answered = 0;
        (std::mem::take(&mut self.sends), std::mem::take(&mut self.receives))
    }

    /// Removes the oldest sends, which are done.
    pub(super) fn drop_sends(&mut self, count: usize) {
        let count = count.min(self.sends.len());
        self.sends.drain(..count);
        self.answered = self.answered.saturating_sub(count);
    }

    /// Takes note of a polled message of the peer's. It may answer all posted sends: then the peer has them.
    pub(super) fn is_answered(&mut self) {
        self.answered = self.sends.len();
    }

    /// Sends whose memory the program may not use yet, as far as it knows.
    pub(super) fn in_use(&self) -> impl Iterator<Item = &Send> {
        let sends = self.sends.iter().enumerate();
        sends.filter(|(at, send)| *at >= self.answered || !send.is_executed).map(|(_, send)| send)
    }
}
