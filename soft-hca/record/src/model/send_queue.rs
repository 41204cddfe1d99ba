//! The send queue of a queue pair.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

use soft_hca_verbs::{SendFlags, WrOpcode};

use crate::entry::{SendPosted, Sge};
use crate::place::Place;

/// The most requests that are remembered of a queue whose completions are not seen to be polled; no queue has more.
const MOST: usize = 1 << 16;

/// Bytes of memory: the first, and the first behind them.
pub type Range = (u64, u64);

/// A send work request whose slot in the queue is not free again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Send {
    /// The program's name for it.
    pub wr_id: u64,
    /// When it was posted; none if that is not known.
    pub t: Option<u64>,
    /// Where.
    pub source: Option<Arc<Place>>,
    /// It has a completion even if it succeeds.
    pub is_signaled: bool,
    /// Its memory; none of inline data, which the post has copied.
    pub sges: Vec<Sge>,
    /// Whether it is read into its SGEs, not sent from them.
    pub is_read: bool,
    /// The peer's memory that it writes to.
    pub target: Option<Range>,
    /// Whether it takes a receive of the peer's.
    pub takes_receive: bool,
    /// The entry of its post, by its number in the record.
    pub at: Option<usize>,
}

impl Send {
    /// One that was posted by an entry of this number and time to a queue pair that signals all, or not.
    pub(super) fn new(
        (at, t): (usize, u64),
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
            t: Some(t),
            source,
            is_signaled: signals_all || has(SendFlags::SIGNALED),
            sges: if has(SendFlags::INLINE) { Vec::new() } else { posted.sges.clone() },
            is_read: opcode == WrOpcode::RDMA_READ || opcode.fetches(),
            target: target.map(|at| (at.address, at.address.saturating_add(length))),
            takes_receive: opcode.takes_receive(),
            at: Some(at),
        }
    }
}

/// A request whose execution is on record before its posting.
#[derive(Clone, Copy, Debug)]
struct Early {
    wr_id: u64,
    /// The number of the execution's entry.
    at: usize,
    is_completed: bool,
}

/// The send queue of a queue pair. Requests are executed in their order; a slot is free again when a completion
/// of its request, or of one behind it, has been polled.
#[derive(Clone, Debug, Default)]
pub struct SendQueue {
    requests: VecDeque<Send>,
    /// How many of the oldest were executed, or flushed.
    executed: usize,
    /// How many of the oldest have a completion, or one behind them has.
    completed: usize,
    /// How many of the oldest were posted before a message came that was polled since.
    answered: usize,
    early: Vec<Early>,
    /// The name of the request that has failed, until its completion comes.
    pub(super) failed: Option<u64>,
    /// Requests that were ever posted.
    pub posted: u64,
    /// When the last of them was.
    pub last_posted: u64,
    /// Those of them that take a receive.
    pub messages: u64,
    /// Unsignaled requests that were executed since the last completion of a send.
    pub unsignaled: u64,
}

impl SendQueue {
    /// One with these requests that are not executed, the oldest first, and so many unsignaled ones that were
    /// since the last completion; of earlier ones no more is known.
    pub fn at_rest(pending: impl IntoIterator<Item = Send>, unsignaled: u64) -> Self {
        Self { requests: pending.into_iter().collect(), unsignaled, ..Self::default() }
    }

    /// Gives the entry of the request's execution, if that was before.
    pub(super) fn posts(&mut self, send: Send) -> Option<usize> {
        (self.posted, self.last_posted) = (self.posted + 1, send.t.unwrap_or_default());
        self.messages += u64::from(send.takes_receive);
        let early = self.early.iter().position(|early| early.wr_id == send.wr_id);
        let early = early.map(|at| self.early.swap_remove(at));
        let is_signaled = send.is_signaled;
        self.requests.push_back(send);
        if let Some(early) = early {
            self.executed = self.requests.len();
            self.completed = if early.is_completed { self.executed } else { self.completed };
            self.unsignaled += u64::from(!is_signaled);
        }
        if self.requests.len() > MOST {
            self.take_oldest(1);
        }
        early.map(|early| early.at)
    }

    /// A request was executed, by the entry of this number. Those before it were flushed, if they were not executed.
    pub(super) fn executes(&mut self, wr_id: u64, number: usize) -> Option<&Send> {
        let Some(at) = self.pending().position(|send| send.wr_id == wr_id) else {
            self.early.push(Early { wr_id, at: number, is_completed: false });
            return None;
        };
        self.executed += at + 1;
        let send = &self.requests[self.executed - 1];
        self.unsignaled += u64::from(!send.is_signaled);
        Some(send)
    }

    /// A request was flushed; none if it is none of these.
    pub(super) fn flushes(&mut self, wr_id: u64) -> Option<&Send> {
        let at = self.pending().position(|send| send.wr_id == wr_id)?;
        self.executed += at + 1;
        self.completed = self.executed;
        self.last_executed()
    }

    /// A request that was executed has a completion: the entry that it is known by. Requests of a list may have one
    /// name, of which one that is signaled has the completion; of a queue that has failed the last has it.
    pub(super) fn completes(&mut self, wr_id: u64) -> Option<usize> {
        let is_it = |at: &usize| self.requests[*at].wr_id == wr_id;
        let mut same = (self.completed..self.executed).filter(is_it);
        let signaled = same.clone().find(|at| self.requests[*at].is_signaled);
        let Some(at) = signaled.or_else(|| same.next_back()) else {
            let is_it = |early: &&mut Early| early.wr_id == wr_id && !early.is_completed;
            let early = self.early.iter_mut().rfind(is_it)?;
            early.is_completed = true;
            return Some(early.at);
        };
        self.completed = at + 1;
        self.requests[at].at
    }

    /// The completion of a request was polled: its slot, and those before it, are free.
    pub(super) fn frees(&mut self, wr_id: u64) -> Vec<Send> {
        let is_it = |send: &Send| send.wr_id == wr_id && send.is_signaled;
        let at = self.requests.iter().position(is_it);
        self.take_oldest(at.map_or(0, |at| at + 1))
    }

    /// The completion of a request that has failed was polled: the slots of all that are done are free.
    pub(super) fn frees_executed(&mut self) -> Vec<Send> {
        self.take_oldest(self.executed)
    }

    /// A message of the peer's was polled. It may answer all posted requests: then the peer has them.
    pub(super) fn is_answered(&mut self) {
        self.answered = self.requests.len();
    }

    fn take_oldest(&mut self, count: usize) -> Vec<Send> {
        self.executed = self.executed.saturating_sub(count);
        self.completed = self.completed.saturating_sub(count);
        self.answered = self.answered.saturating_sub(count);
        self.requests.drain(..count).collect()
    }

    /// Takes all requests whose slots are not free.
    pub(super) fn take(&mut self) -> VecDeque<Send> {
        (self.executed, self.completed, self.answered) = (0, 0, 0);
        mem::take(&mut self.requests)
    }

    /// All whose slots are not free, the oldest first.
    pub fn requests(&self) -> impl DoubleEndedIterator<Item = &Send> + ExactSizeIterator {
        self.requests.iter()
    }

    /// Those of them that were neither executed nor flushed.
    pub fn pending(&self) -> impl DoubleEndedIterator<Item = &Send> + ExactSizeIterator {
        self.requests.range(self.executed..)
    }

    /// The one that was executed last, if its slot is not free.
    pub fn last_executed(&self) -> Option<&Send> {
        self.requests.get(self.executed.checked_sub(1)?)
    }

    /// Those whose memory the program may not use yet, as far as it knows.
    pub fn in_use(&self) -> impl Iterator<Item = &Send> {
        self.requests.range(self.answered.min(self.executed)..)
    }
}
