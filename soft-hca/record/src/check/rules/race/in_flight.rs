//! Operations in flight: from their post until somebody can know that they are over.
//!
//! An operation is over when its completion, or that of a request behind it, was polled, or an event was taken that
//! tells of it. What has gone to the peer is over, too, when the peer polls a message that was behind it, for it may
//! tell anybody; and it may have seen in its memory what was written there, as soon as that can have arrived. What a
//! request fetches is over only with its completion, or that of a fenced request behind it.

use std::collections::{BTreeMap, VecDeque};

use soft_hca_verbs::{SendFlags, WrOpcode};

use super::access::{Access, How, Side};
use crate::entry::{Entry, SendPosted};
use crate::model::{Range, Run, Send, overlap};

/// The most that are remembered of a queue pair: most queues have fewer places.
const MOST: usize = 1 << 12;

/// An operation.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    /// The number of the entry of its post.
    at: usize,
    pub(super) send: Send,
    pub(super) qp: u32,
    pub(super) process: u32,
    /// The thread that has posted it, if that is known.
    thread: Option<u32>,
    pub(super) opcode: WrOpcode,
    /// None are followed of a process whose polls are not seen.
    accesses: Vec<Access>,
    /// It begins when those before it that fetch something are complete.
    is_fenced: bool,
    /// There is such a request behind it.
    has_fence_behind: bool,
    /// All that is done to its peer's memory is on record.
    is_followed: bool,
    /// It cannot have come to its peer before.
    arrives: u64,
    /// It takes a receive, and has not yet.
    wants_receive: bool,
}

/// The reason why two operations have no order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disorder {
    /// They are of different queues.
    Queues,
    /// The second one does not wait for what the first one fetches.
    Fence,
}

/// Two operations that access the same bytes, and nothing orders them.
#[derive(Debug)]
pub(super) struct Race<'o> {
    pub(super) first: &'o Operation,
    /// How both access the bytes.
    pub(super) how: [How; 2],
    pub(super) process: u32,
    pub(super) bytes: Range,
    pub(super) disorder: Disorder,
}

impl Operation {
    /// One that was posted by an entry.
    pub(super) fn new(run: &Run, entry: &Entry, posted: &SendPosted, send: &Send) -> Option<Self> {
        let (qp, own) = (posted.qp, run.live_qp(posted.qp)?);
        let is_peer = |peer: &u32| run.live_qp(*peer).is_some_and(|peer| peer.peer == Some(qp));
        let peer = own.peer.filter(is_peer).filter(|_| !own.has_packets);
        let peer = peer.and_then(|peer| run.live_qp(peer)).map(|peer| peer.process);
        let is_hooked = run.is_hooked(own.process);
        let of_request = || Access::of_request(run, own.process, peer, posted, send.is_read);
        let accesses = is_hooked.then(of_request);
        Some(Self {
            at: send.at?,
            send: send.clone(),
            qp,
            process: own.process,
            thread: entry.thread,
            opcode: posted.opcode,
            accesses: accesses.unwrap_or_default(),
            is_fenced: posted.flags.contains(SendFlags::FENCE),
            has_fence_behind: false,
            is_followed: peer.is_some(),
            arrives: entry.t,
            wants_receive: send.takes_receive,
        })
    }

    /// The race with an earlier one, if accesses of this one, which may be some of them, make one.
    fn race<'o>(&self, first: &'o Self, accesses: &[Access]) -> Option<Race<'o>> {
        let is_same = first.qp == self.qp;
        let may = match is_same {
            true => {
                let is_behind = first.at < self.at && !first.has_fence_behind;
                is_behind && first.send.is_read && self.opcode != WrOpcode::RDMA_READ
            }
            false => first.is_followed && self.is_followed,
        };
        if !may {
            return None;
        }
        let results = !is_same && first.opcode.fetches() && self.opcode.fetches();
        let pairs =
            first.accesses.iter().flat_map(|one| accesses.iter().map(move |two| (one, two)));
        let mut pairs = pairs.filter(|(one, two)| {
            // Many a program gives all atomic operations one place for results that it does not need.
            !(results && one.side == Side::Own && two.side == Side::Own)
        });
        pairs.find_map(|(one, two)| {
            let (bytes, disorder) = match is_same {
                true => (one.clashes_with_later(two)?, Disorder::Fence),
                false => (one.clashes(two)?, Disorder::Queues),
            };
            Some(Race { first, how: [one.how, two.how], process: one.process, bytes, disorder })
        })
    }

    fn named(&self) -> Option<&Access> {
        self.accesses.iter().find(|access| access.side == Side::Named)
    }

    /// The peer has a message that was behind it, behind a fence or not.
    fn is_delivered(&mut self, behind_fence: bool) {
        let is_fetch = self.send.is_read;
        self.accesses.retain(|access| {
            let is_fetched = access.side == Side::Own || access.how == How::Read;
            is_fetch && is_fetched && !behind_fence
        });
    }
}

/// Operations of a queue pair, the oldest first.
#[derive(Debug, Default)]
struct Queue {
    operations: VecDeque<Operation>,
    /// Until then the one at its head is held back.
    held_until: u64,
    /// Memory in which all their accesses lie: for each process from the first byte to the last. It only grows until
    /// there are none.
    reach: Vec<(u32, Range)>,
    /// The process to whose memory they write.
    writes_to: Option<u32>,
}

impl Queue {
    fn extends_to(&mut self, accesses: &[Access]) {
        for Access { process, range, how, side } in accesses {
            match self.reach.iter_mut().find(|(of, _)| of == process) {
                Some((_, reach)) => *reach = (reach.0.min(range.0), reach.1.max(range.1)),
                None => self.reach.push((*process, *range)),
            }
            if *side == Side::Named && *how != How::Read {
                self.writes_to = Some(*process);
            }
        }
    }

    fn reaches(&self, accesses: &[Access]) -> bool {
        let is_in = |access: &Access| {
            let mut all = self.reach.iter();
            all.any(|(process, reach)| *process == access.process && overlap(*reach, access.range))
        };
        accesses.iter().any(is_in)
    }

    /// The peer knows at this time of all that can have come to it.
    fn is_delivered(&mut self, t: u64) {
        let mut behind_fence = false;
        for operation in self.operations.iter_mut().rev().filter(|one| one.arrives <= t) {
            operation.is_delivered(behind_fence);
            behind_fence |= operation.is_fenced;
        }
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct InFlight(BTreeMap<u32, Queue>);

impl InFlight {
    /// Another one is posted. Gives the race with an earlier one.
    pub(super) fn posts(&mut self, mut new: Operation) -> Option<Race<'_>> {
        let queue = self.0.entry(new.qp).or_default();
        new.arrives = new.arrives.max(queue.held_until);
        if new.is_fenced {
            queue.operations.iter_mut().for_each(|one| one.has_fence_behind = true);
        }
        if queue.operations.len() == MOST {
            queue.operations.pop_front();
        }
        if queue.operations.is_empty() {
            queue.reach.clear();
        }
        queue.extends_to(&new.accesses);
        queue.operations.push_back(new.clone());
        self.race(&new, &new.accesses)
    }

    /// The race of an operation that makes accesses, with another one. Of several that is the latest of a queue.
    fn race(&self, new: &Operation, accesses: &[Access]) -> Option<Race<'_>> {
        let queues = self.0.values().filter(|queue| queue.reaches(accesses));
        let all = queues.flat_map(|queue| queue.operations.iter().rev());
        all.filter(|one| one.at != new.at).find_map(|one| new.race(one, accesses))
    }

    /// The message of the next operation of a queue pair that takes a receive has gone into one. Gives the operation,
    /// and its race.
    pub(super) fn fills(
        &mut self,
        qp: u32,
        accesses: Vec<Access>,
    ) -> Option<(Operation, Race<'_>)> {
        let queue = self.0.get_mut(&qp)?;
        let operation = queue.operations.iter_mut().find(|one| one.wants_receive)?;
        operation.wants_receive = false;
        if !operation.opcode.is_send() {
            return None;
        }
        operation.accesses.extend(&accesses);
        let operation = operation.clone();
        queue.extends_to(&accesses);
        let race = self.race(&operation, &accesses)?;
        Some((operation, race))
    }

    /// The one whose post is the entry of this number is held back, until a time.
    pub(super) fn is_held(&mut self, qp: u32, at: usize, until: u64) {
        let Some(queue) = self.0.get_mut(&qp) else { return };
        queue.held_until = until;
        let held = queue.operations.iter_mut().filter(|one| one.at >= at);
        held.for_each(|one| one.arrives = one.arrives.max(until));
    }

    /// All of a queue pair are over, up to that whose post is the entry of this number.
    pub(super) fn completes(&mut self, qp: u32, at: usize, t: u64) {
        let Some(queue) = self.0.get_mut(&qp) else { return };
        let done = queue.operations.partition_point(|one| one.at <= at);
        let done = queue.operations.drain(..done).filter(|one| one.opcode.fetches());
        let words: Vec<Access> = done.filter_map(|one| one.named().copied()).collect();
        // It may have got what another atomic operation has left there, and knows that this one is done.
        for queue in self.0.values_mut().filter(|_| !words.is_empty()) {
            let has_told = |one: &Operation| {
                let is_same = |word: &Access, other: &Access| {
                    word.process == other.process && overlap(word.range, other.range)
                };
                let named = one.named().filter(|named| named.how == How::Atomic);
                one.arrives <= t
                    && named.is_some_and(|named| words.iter().any(|word| is_same(word, named)))
            };
            if queue.operations.iter().any(has_told) {
                queue.is_delivered(t);
            }
        }
    }

    /// The peer of a queue pair knows of what can have come to it at this time.
    pub(super) fn is_delivered(&mut self, qp: u32, t: u64) {
        if let Some(queue) = self.0.get_mut(&qp) {
            queue.is_delivered(t);
        }
    }

    /// A thread of a process goes on: the process may have seen what was written to its memory before. A thread that
    /// writes to memory of its own process, by two of its queue pairs, does not watch that in between.
    pub(super) fn is_seen(&mut self, (process, thread): (u32, Option<u32>), t: u64) {
        for queue in self.0.values_mut().filter(|queue| queue.writes_to == Some(process)) {
            let is_shown = |one: &Operation| {
                let named = one.named().filter(|named| named.how != How::Read);
                let is_own = (one.process, one.thread) == (process, thread) && thread.is_some();
                one.arrives <= t && !is_own && named.is_some_and(|named| named.process == process)
            };
            if queue.operations.iter().any(is_shown) {
                queue.is_delivered(t);
            }
        }
    }

    /// All of a queue pair are over, or nothing is known of them any more.
    pub(super) fn forget(&mut self, qp: u32) {
        self.0.remove(&qp);
    }
}
