//! The rules about queue pairs, completion queues and the requests in them.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use soft_hca_verbs::cause::{Cause, Peer};
use soft_hca_verbs::{AccessFlags, QpState, SendFlags, WcStatus, WrOpcode};

use super::buffers::{AdapterWrites, Range, overlap, range};
use super::memory::Written;
use super::queue_pair::{Asked, QueuePair, Receive, Send};
use super::{Found, Rule, done, hook, source};
use crate::arguments::{self, cq, number, qp};
use crate::entry::{
    Call, Changed, Completion, Entry, Executed, Polled, ReceivePosted, ReceiveQueue, SendPosted,
    Sge, What,
};
use crate::place::Place;
use crate::value::{Name, Named};

/// More work requests than any queue has.
const MOST: u64 = 1 << 16;
/// As much is held of a process that was not seen to poll.
const HELD: usize = 1000;

/// A completion queue that is there.
#[derive(Debug, Default)]
struct CompletionQueue {
    process: u32,
    /// What was asked for.
    cqe: u64,
    /// Completions that nobody has polled.
    unpolled: VecDeque<Unpolled>,
    /// Queue pairs whose failures were polled behind other completions: the program may not have looked at them
    /// before it polls again.
    behind: Vec<u32>,
    /// Requests that will complete to it, or have and were not polled.
    pending: u64,
}

/// A completion that nobody has polled.
#[derive(Debug)]
struct Unpolled {
    qp: u32,
    wr_id: u64,
    is_receive: bool,
    has_failed: bool,
    /// The receive's memory, until the program knows that it is written.
    sges: Vec<Sge>,
}

/// A shared receive queue that is there.
#[derive(Debug, Default)]
struct Shared {
    max_wr: u64,
    max_sge: u64,
    receives: VecDeque<Receive>,
}

/// All queues of a record.
#[derive(Debug, Default)]
pub(super) struct Queues {
    qps: BTreeMap<u32, QueuePair>,
    cqs: HashMap<u32, CompletionQueue>,
    srqs: HashMap<u32, Shared>,
    /// Entries of the largest P_Key table of the ports; 0 for one.
    pub pkeys: u16,
    hook: hook::Seen,
    /// Findings by what processes have polled, which do not count if their polls are not seen.
    held: BTreeMap<u32, Vec<Found>>,
    /// What receives may write to, by process.
    written: HashMap<u32, Written>,
    /// What adapters have written to.
    adapters: AdapterWrites,
    /// Regions, by process; none if a handle was given twice.
    regions: HashMap<(u32, Name), Option<Region>>,
    /// Threads, by process, whose last call has asked the connection manager for a queue pair's attributes.
    asked: HashSet<(u32, Option<u32>)>,
}

/// A region that is there.
#[derive(Clone, Copy, Debug)]
struct Region {
    lkey: u32,
    range: Range,
    /// A peer may write to it.
    is_remote: bool,
    /// The addresses in requests are not those of the memory.
    is_elsewhere: bool,
}

impl Region {
    /// One that was registered by a call with these arguments.
    fn new(lkey: u32, args: &[Named]) -> Self {
        let start = arguments::name(args, "addr").map_or(0, |at| at.number());
        let end = start.saturating_add(number(args, "length").unwrap_or_default());
        let access: AccessFlags = arguments::word(args, "access").unwrap_or_default();
        let is_remote = access.intersects(AccessFlags::REMOTE_MODIFY | AccessFlags::MW_BIND);
        let is_elsewhere = arguments::name(args, "iova").is_some();
        Self { lkey, range: (start, end), is_remote, is_elsewhere }
    }
}

/// A place in the record and the list of what is found there.
struct Here<'f> {
    process: u32,
    t: u64,
    /// Where in the program that is.
    source: Option<Arc<Place>>,
    found: &'f mut Vec<Found>,
}

impl Here<'_> {
    fn finds(&mut self, rule: Rule, place: String, what: String) {
        let found = self.found(rule, place, what);
        self.found.push(found);
    }

    fn found(&self, rule: Rule, place: String, what: String) -> Found {
        let Self { process, t, .. } = *self;
        Found { rule, process, place, what, t, source: self.source.clone() }
    }
}

/// Finds something by what a process has polled, or will have found it when its polls are seen.
fn hold(
    hook: &hook::Seen,
    held: &mut BTreeMap<u32, Vec<Found>>,
    here: &mut Here<'_>,
    (rule, place, what): (Rule, String, String),
) {
    if hook.is_seen(here.process) {
        return here.finds(rule, place, what);
    }
    let held = held.entry(here.process).or_default();
    if held.len() < HELD {
        held.push(here.found(rule, place, what));
    }
}

impl Queues {
    pub(super) fn entry(&mut self, entry: &Entry, found: &mut Vec<Found>) {
        if self.hook.entry(entry) {
            found.extend(self.held.remove(&entry.process).unwrap_or_default());
        }
        let mut here = Here { process: entry.process, t: entry.t, source: source(entry), found };
        match &entry.what {
            What::Call(call) => {
                self.managed(entry, call);
                self.call(&mut here, call);
            }
            What::SendPosted(posted) => self.send_posted(&mut here, posted),
            What::ReceivePosted(posted) => self.receive_posted(&mut here, posted),
            What::Stalled { qp, wr_id, reason: Cause::ReceiverNotReady { .. } } => {
                here.source = self.posted_at(*qp, *wr_id);
                let what = "a send met no posted receive, and was tried again";
                here.finds(Rule::ReceiveLate, format!("qp {qp}"), what.into());
            }
            What::Stalled { qp, wr_id, reason: Cause::NoResponse { peer, .. } }
                if is_not_yet(peer) =>
            {
                let what = "a send was posted before the peer's queue pair could receive it, and was tried again";
                here.source = self.posted_at(*qp, *wr_id);
                here.finds(Rule::State, format!("qp {qp}"), what.into());
            }
            What::Executed(executed) => self.executed(entry.t, executed),
            What::Completion(completion) => self.completion(entry.t, completion),
            What::Polled(polled) => self.polled(&mut here, polled),
            What::ProcessEnded { .. } => {
                let of_process = self.qps.iter().filter(|(_, qp)| qp.process == entry.process);
                for (number, qp) in of_process {
                    ends(*number, qp, here.found);
                }
                self.qps.retain(|_, qp| qp.process != entry.process);
                self.cqs.retain(|_, cq| cq.process != entry.process);
                self.written.remove(&entry.process);
                self.adapters.remove(entry.process);
            }
            _ => {}
        }
    }

    /// Where a send that was not executed was posted.
    fn posted_at(&self, qp: u32, wr_id: u64) -> Option<Arc<Place>> {
        let is_it = |send: &&Send| send.wr_id == wr_id && !send.is_executed;
        self.qps.get(&qp)?.sends.iter().find(is_it)?.source.clone()
    }

    /// What is posted and was not completed is not known any more.
    pub(super) fn forget(&mut self) {
        let numbers: Vec<u32> = self.qps.keys().copied().collect();
        numbers.into_iter().for_each(|qp| self.empty(qp));
        for cq in self.cqs.values_mut() {
            cq.unpolled.clear();
            cq.pending = 0;
        }
        self.written.clear();
    }

    fn call(&mut self, here: &mut Here<'_>, call: &Call) {
        let Some((args, given)) = done(call) else { return };
        let process = here.process;
        match call.name.as_str() {
            "ibv_create_cq" | "ibv_create_cq_ex" => {
                let Some(cq) = cq(given, "cq") else { return };
                let cqe = number(args, "cqe").unwrap_or(u64::MAX);
                self.cqs.insert(cq, CompletionQueue { process, cqe, ..Default::default() });
            }
            "ibv_create_srq" | "ibv_create_srq_ex" => {
                let Some(srq) = arguments::srq(given, "srq") else { return };
                let of = |name| number(args, name).unwrap_or(u64::MAX);
                let (max_wr, max_sge) = (of("max_wr"), of("max_sge"));
                self.srqs.insert(srq, Shared { max_wr, max_sge, ..Shared::default() });
            }
            "ibv_create_qp" | "ibv_create_qp_ex" => {
                let Some(qp) = qp(given, "qp_num") else { return };
                self.qps.insert(qp, QueuePair::new(process, args));
            }
            "ibv_modify_qp" => self.modify_qp(here, call),
            "ibv_destroy_qp" => {
                let Some(number) = qp(args, "qp") else { return };
                self.empty(number);
                if let Some(qp) = self.qps.remove(&number) {
                    ends(number, &qp, here.found);
                }
            }
            "ibv_reg_mr" | "ibv_reg_mr_iova" => {
                let name = |wanted| arguments::name(given, wanted);
                if let (Some(mr), Some(Name::Key(key))) = (name("mr"), name("lkey")) {
                    let known = self.regions.entry((process, mr));
                    let region = Some(Region::new(key, args));
                    known.and_modify(|known| *known = None).or_insert(region);
                }
            }
            "ibv_dereg_mr" => {
                let mr = arguments::name(args, "mr");
                let known = mr.and_then(|mr| self.regions.remove(&(process, mr))).flatten();
                if let Some(region) = known {
                    self.deregistered(here, region.lkey);
                }
            }
            name if name.starts_with("rdma_") => {
                if let Some(qp) = qp(args, "qp_num").and_then(|qp| self.qps.get_mut(&qp)) {
                    qp.by_cm = true;
                }
            }
            _ => {}
        }
    }

    /// Takes note of a queue pair that gets the attributes that the connection manager was asked for just
    /// before: it is the manager's, even if it is never connected.
    fn managed(&mut self, entry: &Entry, call: &Call) {
        let thread = (entry.process, entry.thread);
        let has_asked = self.asked.remove(&thread);
        match call.name.as_str() {
            "rdma_init_qp_attr" => _ = self.asked.insert(thread),
            "ibv_modify_qp" if has_asked => {
                let number = qp(&call.args, "qp");
                if let Some(qp) = number.and_then(|number| self.qps.get_mut(&number)) {
                    qp.by_cm = true;
                }
            }
            _ => {}
        }
    }

    fn modify_qp(&mut self, here: &mut Here<'_>, call: &Call) {
        let Some(number) = qp(&call.args, "qp") else { return };
        let index = arguments::number(&call.args, "pkey_index");
        let pkeys = self.pkeys.max(1);
        if let Some(index) = index.filter(|index| *index >= pkeys.into()) {
            let has = if pkeys == 1 { "one P_Key".into() } else { format!("{pkeys} P_Keys") };
            let what = format!("pkey_index {index} was set, and a port has {has}");
            here.finds(Rule::PkeyIndex, format!("qp {number}"), what);
        }
        if let Some(qp) = self.qps.get_mut(&number) {
            qp.modify(here.t, &here.source, &call.args);
        }
        let state = arguments::word(&call.args, "qp_state");
        if matches!(state, Some(QpState::RESET | QpState::ERR)) {
            self.empty(number);
        }
        let Some(qp) = self.qps.get_mut(&number) else { return };
        match state {
            Some(QpState::RESET) => (qp.has_seen_failure, qp.has_failed) = (false, false),
            // What is posted from now on is flushed.
            Some(QpState::ERR) => qp.has_failed = true,
            _ => {}
        }
    }

    /// A queue pair executes nothing any more: its requests are flushed, or forgotten.
    fn empty(&mut self, number: u32) {
        let Some(qp) = self.qps.get_mut(&number) else { return };
        let (sends, receives) = qp.empty();
        let (process, [send_cq, recv_cq]) = (qp.process, [qp.send_cq, qp.recv_cq]);
        let signaled = sends.iter().filter(|send| send.is_signaled).count();
        for (cq, less) in [(send_cq, signaled), (recv_cq, receives.len())] {
            if let Some(cq) = self.cqs.get_mut(&cq) {
                cq.pending = cq.pending.saturating_sub(less as u64);
            }
        }
        let written = self.written.entry(process).or_default();
        receives.iter().for_each(|receive| written.remove(&receive.sges));
    }

    fn deregistered(&self, here: &mut Here<'_>, key: u32) {
        let uses = |sges: &[Sge]| sges.iter().any(|sge| sge.lkey == key);
        let process = here.process;
        let are_posted = |qp: &QueuePair| qp.process == process && !qp.has_failed;
        for (number, qp) in self.qps.iter().filter(|(_, qp)| are_posted(qp)) {
            let sends = qp.in_use().filter(|send| uses(&send.sges));
            let receives = qp.receives.iter().filter(|receive| uses(&receive.sges));
            let unpolled = self.cqs.get(&qp.recv_cq).into_iter().flat_map(|cq| &cq.unpolled);
            let unpolled = unpolled.filter(|one| one.qp == *number && uses(&one.sges));
            let (sends, receives) = (sends.count(), receives.count() + unpolled.count());
            if sends + receives > 0 {
                let what = format!(
                    "a region (lkey {key:#x}) was deregistered while {sends} sends and {receives} \
                     receives that use it were posted, and not polled"
                );
                here.finds(Rule::RkeyStale, format!("qp {number}"), what);
            }
        }
    }

    fn send_posted(&mut self, here: &mut Here<'_>, posted: &SendPosted) {
        let Some(qp) = self.qps.get_mut(&posted.qp) else { return };
        let place = || format!("qp {}", posted.qp);
        let Asked { send_wr, send_sge, inline, .. } = qp.asked;
        let is_inline = posted.flags.contains(SendFlags::INLINE);
        if is_inline && posted.length > inline {
            let what = format!("{} bytes of inline data, max_inline_data {inline}", posted.length);
            here.finds(Rule::InlineSize, place(), what);
        }
        let elements = posted.sges.len() as u64;
        if elements > send_sge {
            let what = format!("a send of {elements} elements, max_send_sge {send_sge}");
            here.finds(Rule::SgeCount, place(), what);
        }
        if qp.has_seen_failure {
            let what = "a send was posted after the program had polled a failed completion";
            here.finds(Rule::AfterError, place(), what.into());
        }
        let is_read = posted.opcode == WrOpcode::RDMA_READ || posted.opcode.is_atomic();
        let depths = (qp.max_rd_atomic, qp.peer.filter(|_| is_read));
        let written = self.written.entry(here.process).or_default();
        if let Some((from, to)) = written.overlap(&posted.sges).filter(|_| !is_inline) {
            let what = format!("a send uses {from:#x} to {to:#x}, which a posted receive has, too");
            here.finds(Rule::Overlap, place(), what);
        }
        let send = Send::new(here.t, posted, qp.signals_all, here.source.clone());
        let is_signaled = send.is_signaled;
        qp.sends.push_back(send);
        let used = qp.sends.len() as u64;
        if used > send_wr {
            let before = qp.sends.iter().rev().skip(1);
            let unsignaled = before.take_while(|send| !send.is_signaled).count() as u64;
            let (rule, what) = if unsignaled >= send_wr {
                let what = format!("{unsignaled} unsignaled sends in a row, max_send_wr {send_wr}");
                (Rule::UnsignaledRun, what)
            } else {
                let what =
                    format!("{used} sends that no polled completion ends, max_send_wr {send_wr}");
                (Rule::QueueFull, what)
            };
            hold(&self.hook, &mut self.held, here, (rule, place(), what));
        }
        // Of a process that is not seen to poll no more is remembered than any queue has.
        if used > MOST {
            qp.drop_sends(1);
        }
        let cq = qp.send_cq;
        if let (own, Some(peer)) = depths {
            let its = self.qps.get(&peer).map_or(u64::MAX, |peer| peer.max_dest_rd_atomic);
            if own > its {
                let what = format!("max_rd_atomic {own}, and the peer's max_dest_rd_atomic {its}");
                here.finds(Rule::ReadDepth, place(), what);
            }
        }
        if is_signaled {
            self.will_complete(here, cq);
        }
    }

    fn receive_posted(&mut self, here: &mut Here<'_>, posted: &ReceivePosted) {
        let written = self.written.entry(here.process).or_default();
        let overlap = written.overlap(&posted.sges);
        written.add(&posted.sges);
        let receive = Receive { wr_id: posted.wr_id, sges: posted.sges.clone() };
        let elements = posted.sges.len() as u64;
        let (place, room, sges, used, cq) = match posted.queue {
            ReceiveQueue::Qp(number) => {
                let Some(qp) = self.qps.get_mut(&number) else { return };
                if qp.has_seen_failure {
                    let what =
                        "a receive was posted after the program had polled a failed completion";
                    here.finds(Rule::AfterError, format!("qp {number}"), what.into());
                }
                qp.receives.push_back(receive);
                let used = qp.receives.len() as u64;
                let Asked { recv_wr, recv_sge, .. } = qp.asked;
                (format!("qp {number}"), recv_wr, recv_sge, used, Some(qp.recv_cq))
            }
            ReceiveQueue::Srq(number) => {
                let Some(srq) = self.srqs.get_mut(&number) else { return };
                srq.receives.push_back(receive);
                let used = srq.receives.len() as u64;
                (format!("srq {number}"), srq.max_wr, srq.max_sge, used, None)
            }
        };
        if let Some((from, to)) = overlap {
            let what = format!("two posted receives have {from:#x} to {to:#x}");
            here.finds(Rule::Overlap, place.clone(), what);
        }
        if elements > sges {
            let what = format!("a receive of {elements} elements, {sges} were asked for");
            here.finds(Rule::SgeCount, place.clone(), what);
        }
        if used > room {
            let what = format!("{used} receives that no message has taken, {room} were asked for");
            here.finds(Rule::QueueFull, place, what);
        }
        if let Some(cq) = cq {
            self.will_complete(here, cq);
        }
    }

    /// One more request will complete to a queue.
    fn will_complete(&mut self, here: &mut Here<'_>, number: u32) {
        let Some(cq) = self.cqs.get_mut(&number) else { return };
        cq.pending += 1;
        if cq.pending > cq.cqe {
            let what = format!(
                "{} requests that complete to it were posted and not polled, cqe {}",
                cq.pending, cq.cqe
            );
            let found = (Rule::CqFull, format!("cq {number}"), what);
            hold(&self.hook, &mut self.held, here, found);
        }
    }

    fn executed(&mut self, t: u64, executed: &Executed) {
        let Some(qp) = self.qps.get_mut(&executed.qp) else { return };
        let (process, peer) = (qp.process, qp.peer);
        let Some(send) = qp.executes(executed.wr_id) else { return };
        let (target, sges) = (send.target, send.sges.iter().map(range).collect::<Vec<_>>());
        if send.is_read {
            sges.into_iter().for_each(|written| self.adapters.add(process, t, written));
        }
        let peer = peer.and_then(|peer| self.qps.get(&peer));
        if let (Some(target), Some(peer)) = (target, peer) {
            self.adapters.add(peer.process, t, target);
        }
    }

    /// A send's buffer was changed, maybe by the program.
    fn changed(&self, here: &mut Here<'_>, changed: &Changed) {
        let Changed { qp, wr_id, address, length, unmapped, returned } = *changed;
        let is_it = |sge: &Sge| sge.address == address && sge.length == length;
        let is_send = |send: &&Send| send.wr_id == wr_id && send.sges.iter().any(is_it);
        let sends = self.qps.get(&qp).filter(|_| !returned).map(|qp| &qp.sends);
        let Some(send) = sends.and_then(|sends| sends.iter().find(is_send)) else {
            if unmapped || returned {
                let became = if returned { "of a function that has returned" } else { "unmapped" };
                let what = format!(
                    "the buffer of a receive (wr_id {wr_id:#x}, {length} bytes at {address:#x}) is {became}, before \
                     the poll of its completion"
                );
                here.finds(Rule::ReceiveGone, format!("qp {qp}"), what);
            }
            return;
        };
        let at = (address, address.saturating_add(length.into()));
        if !unmapped && self.may_be_an_adapter(here.process, send.t, at) {
            return;
        }
        let became = if unmapped { "unmapped" } else { "changed" };
        let what = format!(
            "the buffer of a send (wr_id {wr_id:#x}, {length} bytes at {address:#x}) was {became} between the \
             post and the poll of its completion"
        );
        let poll = std::mem::replace(&mut here.source, send.source.clone());
        here.finds(Rule::BufferEarly, format!("qp {qp}"), what);
        here.source = poll;
    }

    /// Whether an adapter may have written to these bytes since a time.
    fn may_be_an_adapter(&self, process: u32, since: u64, at: Range) -> bool {
        let is_here = |number: Option<u32>| number.and_then(|number| self.qps.get(&number));
        let is_posted = |qp: &QueuePair| {
            let writes = is_here(qp.peer).is_some_and(|peer| peer.process == process);
            qp.sends.iter().filter(|send| !send.is_executed).any(|send| {
                let reads = qp.process == process && send.is_read;
                writes && send.target.is_some_and(|target| overlap(target, at))
                    || reads && send.sges.iter().any(|sge| overlap(range(sge), at))
            })
        };
        let is_received =
            || self.written.get(&process).is_some_and(|written| written.shared(at).is_some());
        let regions = || {
            let own = self.regions.iter().filter(|((of, _), _)| *of == process);
            own.filter_map(|(_, region)| *region)
        };
        let is_far = |qp: &QueuePair| {
            qp.process == process && qp.peer.is_some() && is_here(qp.peer).is_none()
        };
        let is_given = |region: Region| region.is_remote && overlap(region.range, at);
        self.adapters.since(process, since, at)
            || is_received()
            || self.qps.values().any(is_posted)
            || regions().any(|region| region.is_elsewhere)
            // What a peer on another host writes is not on record.
            || regions().any(is_given) && self.qps.values().any(is_far)
    }

    fn completion(&mut self, t: u64, completion: &Completion) {
        let Completion { cq, qp: number, wr_id, opcode, status, .. } = completion;
        let has_failed = *status != WcStatus::SUCCESS;
        let is_receive = !has_failed && opcode.is_receive();
        let mut sges = Vec::new();
        if let Some(qp) = self.qps.get_mut(number) {
            qp.has_failed |= has_failed;
            let receives = match qp.receive_queue(*number) {
                ReceiveQueue::Qp(_) => Some(&mut qp.receives),
                ReceiveQueue::Srq(srq) => self.srqs.get_mut(&srq).map(|srq| &mut srq.receives),
            };
            let receives = receives.filter(|_| is_receive);
            let taken = receives.and_then(|receives| {
                let at = receives.iter().position(|receive| receive.wr_id == *wr_id)?;
                receives.remove(at)
            });
            if let Some(receive) = taken {
                let written = receive.sges.iter().map(range);
                written.for_each(|written| self.adapters.add(qp.process, t, written));
                self.written.entry(qp.process).or_default().remove(&receive.sges);
                sges = receive.sges;
            }
        }
        let unpolled = Unpolled { qp: *number, wr_id: *wr_id, is_receive, has_failed, sges };
        if let Some(cq) = self.cqs.get_mut(cq).filter(|_| !completion.lost) {
            cq.unpolled.push_back(unpolled);
            if cq.unpolled.len() as u64 > MOST {
                cq.unpolled.pop_front();
            }
        }
    }

    fn polled(&mut self, here: &mut Here<'_>, polled: &Polled) {
        polled.changed.iter().for_each(|changed| self.changed(here, changed));
        let Some(cq) = self.cqs.get_mut(&polled.cq) else { return };
        for seen in std::mem::take(&mut cq.behind) {
            if let Some(qp) = self.qps.get_mut(&seen) {
                qp.has_seen_failure = true;
            }
        }
        let found = cq.unpolled.len().min(polled.found as usize);
        let found: Vec<Unpolled> = cq.unpolled.drain(..found).collect();
        let firsts = std::iter::once(true).chain(std::iter::repeat(false));
        found
            .iter()
            .zip(firsts)
            .for_each(|(one, is_first)| self.is_polled(polled.cq, one, is_first));
    }

    /// The program has a completion, the first one of a poll or one behind it.
    fn is_polled(&mut self, cq: u32, polled: &Unpolled, is_first: bool) {
        let Some(cq) = self.cqs.get_mut(&cq) else { return };
        cq.pending = cq.pending.saturating_sub(1);
        let Some(qp) = self.qps.get_mut(&polled.qp) else { return };
        if polled.has_failed {
            qp.has_seen_failure |= is_first;
            if !is_first {
                cq.behind.push(polled.qp);
            }
            self.empty(polled.qp);
        } else if polled.is_receive {
            qp.is_answered();
        } else {
            qp.frees(polled.wr_id);
        }
    }

    /// Processes with findings that do not count, as their polls are not seen.
    pub(super) fn unseen(&self) -> Vec<u32> {
        self.held.keys().copied().collect()
    }

    /// The record ends.
    pub(super) fn end(&self, found: &mut Vec<Found>) {
        self.qps.iter().for_each(|(number, qp)| ends(*number, qp, found));
    }
}

/// Whether a peer does not answer because it is not connected yet.
fn is_not_yet(peer: &Peer) -> bool {
    match peer {
        Peer::InState { state } => matches!(*state, QpState::RESET | QpState::INIT),
        Peer::NotConnectedToUs { dest_qp } => *dest_qp == 0,
        _ => false,
    }
}

/// A queue pair ends. Whether the connection manager has connected it is known by then.
fn ends(number: u32, qp: &QueuePair, found: &mut Vec<Found>) {
    if let Some((t, source, timer)) = qp.endless.as_ref().filter(|_| !qp.by_cm) {
        let what = format!("{timer}, and no connection manager that notices the peer's end");
        let (rule, process, place, t) = (Rule::Timers, qp.process, format!("qp {number}"), *t);
        found.push(Found { rule, process, place, what, t, source: source.clone() });
    }
}
