//! The state of a run, and queries of it.

use std::collections::{BTreeMap, HashSet};

use super::messages::Ends;
use super::{
    Capacity, CompletionQueue, Ids, Process, QueuePair, Receives, Regions, SharedReceiveQueue,
    Stop, Stopped, Threads, Unfinished,
};
use crate::entry::ReceiveQueue;

/// The state of a run.
#[derive(Debug, Default)]
pub struct Run {
    /// By the numbers in [`Entry::process`](crate::Entry::process).
    pub processes: BTreeMap<u32, Process>,
    /// Threads that are blocked.
    pub threads: Threads,
    /// Ids of the connection manager.
    pub ids: Ids,
    /// Memory regions and windows.
    pub regions: Regions,
    /// By their numbers; those that are gone until the number is another's.
    pub qps: BTreeMap<u32, QueuePair>,
    /// Those that are there, and those that were when their process ended.
    pub cqs: BTreeMap<u32, CompletionQueue>,
    /// Shared receive queues by their numbers.
    pub srqs: BTreeMap<u32, SharedReceiveQueue>,
    /// Since when ports are down, by their names on record.
    pub down: BTreeMap<String, u64>,
    /// Sends are on record, and not only what has failed.
    pub has_sends: bool,
    /// All objects that are there are known, as the state is a fabric's and not a record's.
    pub knows_all: bool,
    /// Entries are missing.
    pub is_partial: bool,
    /// The time of the last entry.
    pub last: u64,
    /// How many entries were folded.
    pub(super) count: usize,
    /// Threads, by process, whose last call has asked the connection manager for a queue pair's attributes.
    pub(super) asked: HashSet<(u32, Option<u32>)>,
}

/// The receives for messages to a queue pair.
pub(super) fn receives<'r>(
    qp: &'r mut QueuePair,
    srqs: &'r mut BTreeMap<u32, SharedReceiveQueue>,
) -> &'r mut Receives {
    match qp.srq {
        Some(srq) => &mut srqs.entry(srq).or_default().receives,
        None => &mut qp.receives,
    }
}

impl Run {
    /// Of a fabric, whose objects are put into it as they are: all of them are known.
    pub fn of_fabric() -> Self {
        Self { knows_all: true, ..Self::default() }
    }

    /// The name of a process.
    pub fn name(&self, process: u32) -> String {
        let name = self.processes.get(&process).map(|known| &known.name);
        let name = name.filter(|name| !name.is_empty()).cloned();
        name.unwrap_or_else(|| format!("process {process}"))
    }

    /// A queue pair whose creation is on record, be it there or gone.
    pub fn qp(&self, number: u32) -> Option<&QueuePair> {
        self.qps.get(&number).filter(|qp| qp.is_whole)
    }

    /// The same if it is there.
    pub fn live_qp(&self, number: u32) -> Option<&QueuePair> {
        self.qp(number).filter(|qp| qp.is_alive())
    }

    /// All that are there.
    pub fn live_qps(&self) -> impl Iterator<Item = (u32, &QueuePair)> {
        let all = self.qps.iter().filter(|(_, qp)| qp.is_whole && qp.is_alive());
        all.map(|(number, qp)| (*number, qp))
    }

    /// A shared receive queue whose creation is on record.
    pub fn srq(&self, number: u32) -> Option<&SharedReceiveQueue> {
        self.srqs.get(&number).filter(|srq| srq.is_whole)
    }

    /// The queue pair that another one is connected to.
    pub fn peer(&self, number: u32) -> Option<u32> {
        self.qps.get(&number)?.peer
    }

    /// The receives for messages to a queue pair: its own, or those of its shared queue.
    pub fn receives_of(&self, number: u32) -> Option<&Receives> {
        let qp = self.qps.get(&number)?;
        match qp.srq {
            Some(srq) => self.srqs.get(&srq).map(|srq| &srq.receives),
            None => Some(&qp.receives),
        }
    }

    /// The receives in a queue whose creation is on record, and the capacity that was requested for it.
    pub fn receives_in(&self, queue: ReceiveQueue) -> Option<(&Receives, Capacity)> {
        match queue {
            ReceiveQueue::Qp(qp) => self.live_qp(qp).map(|qp| (&qp.receives, qp.requested)),
            ReceiveQueue::Srq(srq) => self.srq(srq).map(|srq| (&srq.receives, srq.requested)),
        }
    }

    /// Whether the posts and polls of a process are on record.
    pub fn is_hooked(&self, process: u32) -> bool {
        self.processes.get(&process).is_some_and(|process| process.is_hooked)
    }

    pub(super) fn process_mut(&mut self, process: u32) -> &mut Process {
        self.processes.entry(process).or_default()
    }

    pub(super) fn qp_mut(&mut self, number: u32, process: u32) -> &mut QueuePair {
        self.qps.entry(number).or_insert_with(|| QueuePair::unknown(process))
    }

    /// A queue pair stops; its requests are there yet.
    pub(super) fn stops(&mut self, number: u32, how: Stop) -> Option<Stopped> {
        let qp = self.qps.get_mut(&number)?;
        // The threads of a process that has ended are asked about after that.
        let stalled = match how {
            Stop::ProcessEnded => qp.stalled.clone(),
            _ => qp.stalled.take(),
        };
        let is_silent = how != Stop::Shut && qp.shut.is_none() && !qp.has_failed;
        let first = qp.sends.pending().next().filter(|_| qp.has_packets || is_silent);
        let unfinished = first.map(|first| Unfinished {
            wr_id: first.wr_id,
            since: first.t.unwrap_or_default(),
            source: first.source.clone(),
            count: qp.sends.pending().len(),
            is_remote: qp.has_packets,
        });
        Some(Stopped { qp: number, process: qp.process, how, stalled, unfinished })
    }

    /// The requests of a queue pair are gone, without completions.
    pub(super) fn empty(&mut self, number: u32) {
        let Some(qp) = self.qps.get_mut(&number) else { return };
        let signaled = qp.sends.take().iter().filter(|send| send.is_signaled).count();
        let written = &mut self.processes.entry(qp.process).or_default().written;
        qp.receives.requests().for_each(|receive| written.remove(&receive.sges));
        let receives = qp.receives.requests().len();
        qp.receives.forget();
        qp.ends = Ends::default();
        for (cq, less) in [(qp.send_cq, signaled), (qp.recv_cq, receives)] {
            if let Some(cq) = cq.and_then(|cq| self.cqs.get_mut(&cq)) {
                cq.pending = cq.pending.saturating_sub(less as u64);
            }
        }
    }
}
