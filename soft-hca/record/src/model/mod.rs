//! The state of a run: entries folded once, one after the other, into what a run consists of.
//!
//! | module | what it is |
//! | --- | --- |
//! | `process`, `threads` | processes; what each of their threads is blocked in |
//! | `queue_pair` | queue pairs |
//! | `send_queue`, `stalled` | send work requests from their post to the poll of their completion; why one waits |
//! | `receives` | receives, of a queue pair or of a shared receive queue |
//! | `completion_queue` | completion queues, their arming, and what was not polled |
//! | `memory`, `writes` | memory that posted receives may write to; writes of adapters |
//! | `regions` | memory regions and windows by their keys |
//! | `ids` | ids of the connection manager |
//!
//! Rules and views ask the [`Run`]; none of them folds entries into a state of these by itself.

mod completion_queue;
mod ids;
mod memory;
mod process;
mod queue_pair;
mod receives;
mod regions;
mod send_queue;
mod stalled;
mod threads;
mod writes;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use soft_hca_verbs::{Cause, EventType, QpState, WcStatus};

pub use completion_queue::{Armed, CompletionQueue, Unpolled};
pub use ids::{Id, Ids, Key, Unread};
pub use memory::range;
pub use process::Process;
pub use queue_pair::{Capacity, End, QueuePair};
pub use receives::Receives;
pub use regions::{Region, Regions};
pub use send_queue::{Range, Send, SendQueue};
pub use stalled::{STALL_NS, Stalled};
pub use threads::{Blocked, Doing, Thread, Threads};
pub use writes::{Writes, overlap};

use crate::arguments::{self, cq, number, qp};
use crate::entry::{
    Call, Completion, Entry, Executed, Outcome, Packet, Polled, ReceivePosted, ReceiveQueue, Seen,
    SendPosted, What,
};
use crate::place::Place;
use crate::text::short_name;
use crate::value::Named;

/// A shared receive queue.
#[derive(Clone, Debug, Default)]
pub struct SharedReceiveQueue {
    /// Its process.
    pub process: u32,
    /// Its creation is on record.
    pub is_whole: bool,
    /// Receives, and SGEs of each, that were requested at creation.
    pub max_wr: u64,
    /// SGEs of each.
    pub max_sge: u64,
    /// Its receives.
    pub receives: Receives,
}

/// The reason why a queue pair executes nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It was destroyed.
    Destroyed,
    /// It was reset.
    Reset,
    /// Its program has put it into the error state.
    Shut,
    /// Its process has ended.
    ProcessEnded,
}

/// A queue pair that executes nothing any more.
#[derive(Clone, Debug)]
pub struct Stopped {
    /// Its number.
    pub qp: u32,
    /// Its process.
    pub process: u32,
    /// The reason.
    pub how: Stop,
    /// The request that waited.
    pub stalled: Option<Stalled>,
    /// Requests of which no completion tells what became of them.
    pub unfinished: Option<Unfinished>,
}

/// Sends of a queue pair that were not executed, or that its peer on another host has not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// The first one.
    pub wr_id: u64,
    /// When it was posted, and where.
    pub since: u64,
    /// Where.
    pub source: Option<Arc<Place>>,
    /// How many there are.
    pub count: usize,
    /// Its peer is on another host.
    pub is_remote: bool,
}

/// The changes by an entry.
#[derive(Debug, Default)]
pub struct Effect {
    /// Where its program has called for it: the entry itself, or the request that it is about.
    pub source: Option<Arc<Place>>,
    /// Queue pairs that execute nothing any more.
    pub stopped: Vec<Stopped>,
    /// The completion is that of a send that was flushed.
    pub flushes_send: bool,
    /// Sends whose slots the poll has freed, with their queue pairs.
    pub freed: Vec<(u32, Send)>,
    /// The completion queue that was destroyed.
    pub destroyed: Option<(u32, CompletionQueue)>,
    /// Bytes of the receive that another one has, too.
    pub shared: Option<Range>,
    /// The region that was deregistered.
    pub deregistered: Option<Region>,
}

/// The state of a run.
#[derive(Debug, Default)]
pub struct Run {
    /// By the numbers in [`Entry::process`].
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
    /// Threads, by process, whose last call has asked the connection manager for a queue pair's attributes.
    asked: HashSet<(u32, Option<u32>)>,
}

/// Where its program has called for an entry.
pub fn source(entry: &Entry) -> Option<Arc<Place>> {
    entry.site.as_ref()?.place.clone()
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

    /// Whether the posts and polls of a process are on record.
    pub fn is_hooked(&self, process: u32) -> bool {
        self.processes.get(&process).is_some_and(|process| process.is_hooked)
    }

    /// Takes another entry in.
    pub fn entry(&mut self, entry: &Entry) -> Effect {
        let Entry { t, process, .. } = *entry;
        self.last = self.last.max(t);
        self.threads.entry(entry);
        self.ids.entry(entry);
        self.hook(entry);
        let mut effect = Effect { source: source(entry), ..Effect::default() };
        effect.deregistered = self.regions.entry(entry);
        match &entry.what {
            What::ProcessBegan { pid, role, command, .. } => {
                let name = format!("{}[{pid}]", short_name(*role, command));
                self.processes.insert(process, Process { name, ..Process::default() });
            }
            What::ProcessEnded { .. } => effect.stopped = self.process_ended(process, t),
            What::Call(call) => self.call(entry, call, &mut effect),
            What::SendPosted(posted) => self.send_posted(entry, posted),
            What::ReceivePosted(posted) => effect.shared = self.receive_posted(entry, posted),
            What::Stalled { reason: Cause::Held { .. }, .. } => {}
            What::Stalled { qp, wr_id, reason } => {
                let qp = self.qp_mut(*qp, process);
                let mut pending = qp.sends.pending();
                let source = pending.find(|send| send.wr_id == *wr_id);
                let source = source.and_then(|send| send.source.clone());
                drop(pending);
                let stalled = qp.stalled.take().filter(|stalled| stalled.wr_id == *wr_id);
                let new = || Stalled::new((*wr_id, source), process, t, reason);
                let stalled = qp.stalled.insert(stalled.unwrap_or_else(new));
                stalled.becomes(t, reason);
                effect.source.clone_from(&stalled.source);
            }
            What::Executed(executed) => effect.source = self.executed(entry, executed),
            What::Completion(completion) => self.completion(t, completion, &mut effect),
            What::Polled(polled) => effect.freed = self.polled(entry, polled),
            What::Packet(Packet { qp: Some(qp), .. }) => {
                self.qp_mut(*qp, process).has_packets = true;
            }
            What::AsyncEvent { event, place: Some(place), .. } => match *event {
                EventType::PORT_ERR => drop(self.down.entry(place.clone()).or_insert(t)),
                EventType::PORT_ACTIVE => drop(self.down.remove(place)),
                _ => {}
            },
            What::Dropped { .. } => self.forget(),
            What::ConnectionEvent(_)
            | What::AsyncEvent { .. }
            | What::Packet(_)
            | What::Wait { .. }
            | What::Woken { .. } => {}
        }
        effect
    }

    fn process_mut(&mut self, process: u32) -> &mut Process {
        self.processes.entry(process).or_default()
    }

    fn qp_mut(&mut self, number: u32, process: u32) -> &mut QueuePair {
        self.qps.entry(number).or_insert_with(|| QueuePair::unknown(process))
    }

    /// Polls show that a process's calls pass through the hook, and posts by a function of the context, as the hook
    /// replaces all functions of a context together. So a program that never polls is told from one whose polls are
    /// not seen.
    fn hook(&mut self, entry: &Entry) {
        let called = || entry.place()?.call.as_deref();
        let is_shown = match &entry.what {
            What::Polled(_) => true,
            What::ReceivePosted(posted) => posted.seen == Seen::AtPost,
            What::SendPosted(_) => called() == Some("ibv_post_send"),
            _ => false,
        };
        if is_shown {
            self.process_mut(entry.process).is_hooked = true;
        }
    }

    fn process_ended(&mut self, process: u32, t: u64) -> Vec<Stopped> {
        self.process_mut(process).ended = Some(t);
        let is_its = |(_, qp): &(&u32, &QueuePair)| qp.process == process && qp.is_alive();
        let own: Vec<u32> = self.qps.iter().filter(is_its).map(|(number, _)| *number).collect();
        let stopped = own.into_iter().filter_map(|number| {
            let stopped = self.stops(number, Stop::ProcessEnded);
            self.qps.get_mut(&number)?.end = Some((End::Process, t));
            stopped
        });
        stopped.collect()
    }

    /// A queue pair stops; its requests are there yet.
    fn stops(&mut self, number: u32, how: Stop) -> Option<Stopped> {
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
    fn empty(&mut self, number: u32) {
        let Some(qp) = self.qps.get_mut(&number) else { return };
        let signaled = qp.sends.take().iter().filter(|send| send.is_signaled).count();
        let written = &mut self.processes.entry(qp.process).or_default().written;
        qp.receives.requests().for_each(|receive| written.remove(&receive.sges));
        let receives = qp.receives.requests().len();
        qp.receives.forget();
        for (cq, less) in [(qp.send_cq, signaled), (qp.recv_cq, receives)] {
            if let Some(cq) = cq.and_then(|cq| self.cqs.get_mut(&cq)) {
                cq.pending = cq.pending.saturating_sub(less as u64);
            }
        }
    }

    /// Entries are missing: what was posted may have been executed.
    fn forget(&mut self) {
        self.is_partial = true;
        let numbers: Vec<u32> = self.qps.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.empty(number));
        self.srqs.values_mut().for_each(|srq| srq.receives.forget());
        self.cqs.values_mut().for_each(CompletionQueue::forget);
        self.processes.values_mut().for_each(|process| process.written.clear());
    }

    fn call(&mut self, entry: &Entry, call: &Call, effect: &mut Effect) {
        let Entry { t, process, thread, .. } = *entry;
        let has_asked = self.asked.remove(&(process, thread));
        let Outcome::Done(given) = &call.result else { return };
        let args = &call.args;
        match call.name.as_str() {
            "ibv_create_comp_channel" => {
                let fd = arguments::channel(given, "channel");
                self.process_mut(process).channels.extend(fd);
            }
            "ibv_create_cq" | "ibv_create_cq_ex" => {
                let Some(number) = cq(given, "cq") else { return };
                let cqe = arguments::number(args, "cqe").unwrap_or(u64::MAX);
                let channel = arguments::channel(args, "channel");
                let new = CompletionQueue { process, cqe, channel, ..Default::default() };
                self.cqs.insert(number, new);
            }
            "ibv_destroy_cq" => {
                let gone = |number| Some((number, self.cqs.remove(&number)?));
                effect.destroyed = cq(args, "cq").and_then(gone);
            }
            "ibv_req_notify_cq" => {
                let queue = cq(args, "cq").and_then(|number| self.cqs.get_mut(&number));
                let Some(queue) = queue else { return };
                let solicited_only = number(args, "solicited_only").is_some_and(|only| only != 0);
                queue.arms(t, call.duration, solicited_only);
            }
            "ibv_create_srq" | "ibv_create_srq_ex" => {
                let Some(number) = arguments::srq(given, "srq") else { return };
                let of = |name| arguments::number(args, name).unwrap_or(u64::MAX);
                let (max_wr, max_sge) = (of("max_wr"), of("max_sge"));
                let new = SharedReceiveQueue {
                    process,
                    is_whole: true,
                    max_wr,
                    max_sge,
                    receives: Receives::default(),
                };
                self.srqs.insert(number, new);
            }
            "ibv_create_qp" | "ibv_create_qp_ex" => {
                let Some(number) = qp(given, "qp_num") else { return };
                self.qps.insert(number, QueuePair::new(process, args));
            }
            "ibv_modify_qp" => {
                let Some(number) = qp(args, "qp") else { return };
                let by = entry.place().and_then(|place| place.call.clone());
                let stop = match arguments::word(args, "qp_state") {
                    Some(QpState::RESET) => Some(Stop::Reset),
                    Some(QpState::ERR) => Some(Stop::Shut),
                    _ => None,
                };
                effect.stopped.extend(stop.and_then(|how| self.stops(number, how)));
                if stop == Some(Stop::Reset) {
                    self.empty(number);
                }
                let known = self.qp_mut(number, process);
                known.is_managed |= has_asked;
                known.modify(t, args, by);
            }
            "ibv_destroy_qp" => {
                let Some(number) = qp(args, "qp") else { return };
                effect.stopped.extend(self.stops(number, Stop::Destroyed));
                self.empty(number);
                self.qp_mut(number, process).end = Some((End::Destroyed, t));
            }
            "rdma_init_qp_attr" => _ = self.asked.insert((process, thread)),
            name if name.starts_with("rdma_") => self.manages(entry, name, args),
            _ => {}
        }
    }

    /// A call of the connection manager, which may name the queue pair that it connects.
    fn manages(&mut self, entry: &Entry, name: &str, args: &[Named]) {
        let named = qp(args, "qp_num");
        if let Some(qp) = named.and_then(|number| self.qps.get_mut(&number)) {
            qp.is_managed = true;
        }
        if name == "rdma_accept" {
            // Of a process that has asked it is the command by which the library confirms the answer.
            let of_id = || self.ids.get(entry.process, args)?.qp;
            let number = named.or_else(of_id);
            if let Some(qp) = number.and_then(|number| self.qps.get_mut(&number)) {
                qp.opened.get_or_insert(entry.t);
            }
        }
    }

    fn send_posted(&mut self, entry: &Entry, posted: &SendPosted) {
        self.has_sends = true;
        let qp = self.qp_mut(posted.qp, entry.process);
        let send = Send::new(entry.t, posted, qp.signals_all, source(entry));
        let cq = qp.send_cq.filter(|_| send.is_signaled);
        qp.sends.posts(send);
        if let Some(cq) = cq.and_then(|cq| self.cqs.get_mut(&cq)) {
            cq.pending += 1;
        }
    }

    /// Gives the bytes that another receive has, too.
    fn receive_posted(&mut self, entry: &Entry, posted: &ReceivePosted) -> Option<Range> {
        let written = &mut self.process_mut(entry.process).written;
        let shared = written.overlap(&posted.sges);
        written.add(&posted.sges);
        match posted.queue {
            ReceiveQueue::Qp(number) => {
                let qp = self.qp_mut(number, entry.process);
                qp.receives.posts(entry.t, posted, source(entry));
                let cq = qp.recv_cq;
                if let Some(cq) = cq.and_then(|cq| self.cqs.get_mut(&cq)) {
                    cq.pending += 1;
                }
            }
            ReceiveQueue::Srq(number) => {
                let srq = self.srqs.entry(number).or_default();
                srq.receives.posts(entry.t, posted, source(entry));
            }
        }
        shared
    }

    /// Gives the place where the request was posted.
    fn executed(&mut self, entry: &Entry, executed: &Executed) -> Option<Arc<Place>> {
        let qp = self.qp_mut(executed.qp, entry.process);
        qp.stalled = None;
        if executed.status != WcStatus::SUCCESS {
            (qp.has_failed, qp.is_in_error) = (true, true);
            qp.sends.failed = Some(executed.wr_id);
        }
        let (process, peer) = (qp.process, qp.peer);
        let send = qp.sends.executes(executed.wr_id)?;
        let source = send.source.clone();
        let read = send.sges.iter().filter(|_| send.is_read).map(range);
        let (read, target) = (read.collect::<Vec<_>>(), send.target);
        let writes = &mut self.process_mut(process).adapter_writes;
        read.into_iter().for_each(|range| writes.add(entry.t, range));
        let peer = peer.and_then(|peer| self.qps.get(&peer)).map(|peer| peer.process);
        if let (Some(target), Some(peer)) = (target, peer) {
            self.process_mut(peer).adapter_writes.add(entry.t, target);
        }
        source
    }

    fn completion(&mut self, t: u64, completion: &Completion, effect: &mut Effect) {
        let Completion { qp: number, wr_id, opcode, status, .. } = *completion;
        let has_failed = status != WcStatus::SUCCESS;
        let is_receive = !has_failed && opcode.is_receive();
        effect.source = None;
        let mut receive = None;
        if let Some(qp) = self.qps.get_mut(&number) {
            qp.is_in_error |= has_failed;
            qp.has_failed |= has_failed && status != WcStatus::WR_FLUSH_ERR;
            if is_receive {
                qp.messages += 1;
            } else {
                qp.sends.unsignaled = 0;
            }
            let is_failed_send = has_failed && qp.sends.failed.take_if(|of| *of == wr_id).is_some();
            if status == WcStatus::WR_FLUSH_ERR && !is_failed_send {
                if let Some(send) = qp.sends.flushes(wr_id) {
                    (effect.flushes_send, effect.source) = (true, send.source.clone());
                }
            }
            let queue = match qp.srq {
                Some(srq) => &mut self.srqs.entry(srq).or_default().receives,
                None => &mut qp.receives,
            };
            receive = match has_failed {
                false if is_receive => queue.takes(wr_id),
                true if !effect.flushes_send && !is_failed_send => queue.remove(wr_id),
                _ => None,
            };
            let owner = self.processes.entry(qp.process).or_default();
            if is_receive {
                owner.last_message = Some(t);
            }
            if let Some(receive) = &receive {
                owner.written.remove(&receive.sges);
                if is_receive {
                    let written = receive.sges.iter().map(range);
                    written.for_each(|range| owner.adapter_writes.add(t, range));
                }
                effect.source = receive.source.clone();
            }
        }
        let unpolled = Unpolled { qp: number, wr_id, has_failed, is_receive, receive };
        if let Some(cq) = self.cqs.get_mut(&completion.cq).filter(|_| !completion.lost) {
            cq.completes(t, completion, unpolled);
        }
    }

    /// Gives the sends whose slots are free.
    fn polled(&mut self, entry: &Entry, polled: &Polled) -> Vec<(u32, Send)> {
        let Some(cq) = self.cqs.get_mut(&polled.cq) else { return Vec::new() };
        for number in std::mem::take(&mut cq.failed_behind) {
            if let Some(qp) = self.qps.get_mut(&number) {
                qp.failure_is_seen = true;
            }
        }
        let found = cq.polls(entry.thread, polled.found);
        cq.pending = cq.pending.saturating_sub(found.len() as u64);
        let mut freed = Vec::new();
        for (at, one) in found.iter().enumerate() {
            let Some(qp) = self.qps.get_mut(&one.qp) else { continue };
            if one.is_receive {
                qp.sends.is_answered();
                continue;
            }
            let sends = match one.has_failed {
                true => qp.sends.frees_executed(),
                false => qp.sends.frees(one.wr_id),
            };
            freed.extend(sends.into_iter().map(|send| (one.qp, send)));
            // The program looks at the first one before it goes on; it may not look at those behind.
            match (one.has_failed, at) {
                (true, 0) => qp.failure_is_seen = true,
                (true, _) => cq.failed_behind.push(one.qp),
                _ => {}
            }
        }
        freed
    }
}
