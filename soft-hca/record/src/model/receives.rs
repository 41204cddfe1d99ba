//! The receives of a queue pair, or of a shared receive queue.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::entry::{ReceivePosted, Seen, Sge};
use crate::place::Place;

/// A receive that no message has taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receive {
    pub wr_id: u64,
    pub sges: Vec<Sge>,
    /// Where it was posted.
    pub source: Option<Arc<Place>>,
    /// The number of its entry.
    pub at: usize,
    /// Whether the execution of the request whose message has taken it is on record.
    pub is_met: bool,
}

/// When a queue's first receive was posted, and where.
pub type First = (u64, Option<Arc<Place>>);

/// A queue of receives.
#[derive(Clone, Debug, Default)]
pub struct Receives {
    requests: VecDeque<Receive>,
    /// Receives that were ever posted.
    pub posted: u64,
    /// Messages that have taken one.
    pub taken: u64,
    /// When the last one was seen.
    pub last_posted: Option<u64>,
    first: Option<Option<First>>,
    /// Some were not seen when they were posted, but later.
    pub some_are_late: bool,
}

impl Receives {
    /// So many wait for a message, of which no more is known.
    pub fn at_rest(waiting: u64) -> Self {
        Self { posted: waiting, ..Self::default() }
    }

    pub(super) fn posts(
        &mut self,
        (at, t): (usize, u64),
        posted: &ReceivePosted,
        source: Option<Arc<Place>>,
    ) {
        let is_seen = posted.seen == Seen::AtPost;
        self.posted += 1;
        self.last_posted = Some(t);
        self.some_are_late |= !is_seen;
        self.first.get_or_insert_with(|| is_seen.then(|| (t, source.clone())));
        let (wr_id, sges) = (posted.wr_id, posted.sges.clone());
        self.requests.push_back(Receive { wr_id, sges, source, at, is_met: false });
    }

    /// A request was executed whose message has taken the receive of this name, which has no completion yet; gives
    /// the receive's entry.
    pub(super) fn meets(&mut self, wr_id: u64) -> Option<usize> {
        let is_it = |receive: &&mut Receive| receive.wr_id == wr_id && !receive.is_met;
        let receive = self.requests.iter_mut().find(is_it)?;
        receive.is_met = true;
        Some(receive.at)
    }

    /// A message has taken the receive of this name.
    pub(super) fn takes(&mut self, wr_id: u64) -> Option<Receive> {
        self.taken += 1;
        self.remove(wr_id)
    }

    /// The receive of this name was flushed.
    pub(super) fn remove(&mut self, wr_id: u64) -> Option<Receive> {
        let at = self.requests.iter().position(|receive| receive.wr_id == wr_id)?;
        self.requests.remove(at)
    }

    /// Those that are there, the oldest first.
    pub fn requests(&self) -> impl ExactSizeIterator<Item = &Receive> {
        self.requests.iter()
    }

    /// How many wait for a message.
    pub fn waiting(&self) -> u64 {
        self.posted.saturating_sub(self.taken)
    }

    /// The first, if it was seen when it was posted.
    pub fn first(&self) -> Option<&First> {
        self.first.as_ref()?.as_ref()
    }

    /// The receives that are there become unknown.
    pub(super) fn forget(&mut self) {
        self.requests.clear();
    }
}
