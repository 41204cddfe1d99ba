//! A record's entries, correlated: the participants, transfers, flows and regions.

use std::collections::HashMap;

use soft_hca_verbs::CmEvent;

use super::threads::Threads;
use crate::entry::{Entry, Header, ReceiveQueue};
use crate::model::Run;
use crate::requests::Request;

/// A participant: a process, or another host of which only packets are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Participant {
    /// The command line, or the other host.
    pub(crate) title: String,
    /// The pid and what else there is to say.
    pub(crate) subtitle: String,
    /// Whether it is a process of this record, which has entries.
    pub(crate) recorded: bool,
}

/// Something leads to something else: a call to an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) from: usize,
    pub(crate) to: usize,
}

/// A queue that work requests are posted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Queue {
    /// The send queue of a queue pair.
    Send(u32),
    Receive(ReceiveQueue),
}

/// A work request's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number {
    pub(crate) queue: Queue,
    pub(crate) number: u32,
    /// Whether its process uses several such queues.
    pub(crate) one_of_several: bool,
}

impl Number {
    /// Such as `send 3`; with its queue where there are several.
    pub(crate) fn text(&self) -> String {
        let (what, of) = match self.queue {
            Queue::Send(qp) => ("send", format!("qp {qp}")),
            Queue::Receive(ReceiveQueue::Qp(qp)) => ("receive", format!("qp {qp}")),
            Queue::Receive(ReceiveQueue::Srq(srq)) => ("receive", format!("srq {srq}")),
        };
        let number = self.number;
        if self.one_of_several {
            format!("{what} {number} of {of}")
        } else {
            format!("{what} {number}")
        }
    }
}

/// A memory region from its registration on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    /// The call that has registered it.
    pub(crate) at: usize,
    /// The call that has deregistered it.
    pub(crate) ended: Option<usize>,
    /// The work requests that name it, as they were posted: by a `lkey`, or from the peer by its `rkey`.
    pub(crate) users: Vec<usize>,
}

/// A record's entries, correlated.
#[derive(Debug)]
pub(crate) struct Correlation<'r> {
    pub(crate) header: &'r Header,
    pub(crate) entries: &'r [Entry],
    /// The state of the run at its end.
    pub(crate) run: Run,
    pub(crate) participants: Vec<Participant>,
    /// The participant of each entry.
    pub(crate) participant: Vec<usize>,
    /// The participant of each process that has entries.
    pub(crate) of_process: HashMap<u32, usize>,
    /// Entries that are not shown: the beginning and the end of a daemon that has done
    /// nothing else.
    pub(crate) aside: Vec<usize>,
    /// Commands that are not shown for another entry of their call stands for them, by that entry.
    pub(crate) beneath: HashMap<usize, Vec<usize>>,
    /// Names of events as the program gets them, where the library gets others.
    pub(crate) fetched: HashMap<usize, CmEvent>,
    /// Whether an entry is such a command.
    pub(crate) is_beneath: Vec<bool>,
    /// Send work requests. A datagram to a group has arrived in several places.
    pub(crate) transfers: Vec<Request>,
    /// The send work request that an entry is part of.
    pub(crate) transfer: Vec<Option<usize>>,
    pub(crate) flows: Vec<Flow>,
    /// Packets that were sent and have come.
    pub(crate) packets: Vec<Flow>,
    /// Calls that their threads were blocked in, and the entries where they return.
    pub(crate) returns: Vec<Flow>,
    /// Receives that were given back unused, and the completions by which they were.
    pub(crate) returned: Vec<Flow>,
    /// The number of the work request that an entry is about.
    pub(crate) numbers: Vec<Option<Number>>,
    /// Memory regions, in the order in which they were registered.
    pub(crate) regions: Vec<Region>,
    /// The threads of each participant.
    pub(crate) threads: Threads,
    /// Entries that belong together, each group in the order of time.
    pub(crate) groups: Vec<Vec<usize>>,
    /// The groups that an entry is in.
    pub(crate) groups_of: Vec<Vec<usize>>,
}
