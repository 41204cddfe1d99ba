//! What `soft-hca ls --why` says: who waits, for what, and why that does not come. A line for each, as of
//! now; a record knows how it has come to that.

use std::fmt::Write;
use std::sync::atomic::Ordering::Acquire;
use std::time::Duration;

use soft_hca_core::arena::{Channel, Cq, Qp};
use soft_hca_core::uapi::rxe::SendWqe;
use soft_hca_core::uapi::verbs::{QpState, opcode, qp_type, send_flag, state};

use crate::fabric::Fabric;
use crate::threads::Threads;
use crate::ucma::{Cm, Reason};

/// Who waits for less, in nanoseconds, is not told of.
const LONG_NS: u64 = 1_000_000_000;

/// What does not come, and what usually causes that.
type Verdict = (String, &'static str);

/// All that waits, a line each. Unless somebody asks, requests that wait are left out, which are told of otherwise,
/// and events that nobody fetches are told of only if somebody waits for them.
pub(crate) fn text(fabric: &Fabric, cm: &Cm, is_asked: bool, now: u64) -> String {
    let look = Look { fabric, now, is_asked };
    let mut out = String::new();
    look.stopped(&mut out);
    look.channels(&mut out);
    look.polls(&mut out);
    if is_asked {
        look.sends(&mut out);
    }
    look.connections(cm, &mut out);
    out
}

struct Look<'a> {
    fabric: &'a Fabric,
    now: u64,
    /// Somebody asks; else only what is surely wrong is told.
    is_asked: bool,
}

/// The low bits of `Cq::armed`.
const KIND: u32 = 3;
const SOLICITED: u32 = 1;

impl Look<'_> {
    /// A process, for people.
    fn who(&self, proc: usize) -> String {
        let pid = self.fabric.processes.pid(proc).unwrap_or(0);
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        format!("{}[{pid}]", name.trim_end())
    }

    fn waited(&self, since: u64) -> String {
        let waited = Duration::from_nanos(self.now.saturating_sub(since));
        format!("{:.1} s", waited.as_secs_f64())
    }

    /// The threads of a process.
    fn threads(&self, proc: usize) -> Threads {
        Threads::of(self.fabric.processes.pid(proc).unwrap_or(0))
    }

    fn is_stopped(&self, proc: usize) -> bool {
        self.threads(proc).are_stopped()
    }

    fn stopped(&self, out: &mut String) {
        let mut all: Vec<usize> = self.fabric.processes.iter().map(|(index, _)| index).collect();
        all.sort_unstable();
        for proc in all.into_iter().filter(|proc| self.is_stopped(*proc)) {
            let who = self.who(proc);
            let _ = writeln!(
                out,
                "{who} is stopped: whatever waits for it waits until it goes on; usual cause: SIGSTOP, \
                 Ctrl-Z or a debugger"
            );
        }
    }

    /// Threads that wait for completion events.
    fn channels(&self, out: &mut String) {
        for (index, channel) in self.fabric.arena.channels.iter().enumerate() {
            if channel.live.load(Acquire) == 0 {
                continue;
            }
            let Some(since) = self.waits_since(channel) else { continue };
            let reports = |cq: &&usize| {
                self.fabric.arena.cqs[**cq].channel.load(Acquire) as usize == index + 1
            };
            let cqs: Vec<usize> = self.fabric.cqs.taken().collect();
            let cqs: Vec<usize> = cqs.iter().filter(reports).copied().collect();
            if let Some((why, cause)) = self.no_event(&cqs) {
                let (who, waited) =
                    (self.who(channel.proc.load(Acquire) as usize), self.waited(since));
                let _ = writeln!(
                    out,
                    "{who} waits in ibv_get_cq_event for {waited}: {why}; usual cause: {cause}"
                );
            }
        }
    }

    /// Threads that poll a queue in vain.
    fn polls(&self, out: &mut String) {
        for index in self.fabric.cqs.taken() {
            let Some(since) = self.polls_since(index) else { continue };
            let cq = &self.fabric.arena.cqs[index];
            let all = self.fabric.qps.taken().map(|qp| &self.fabric.arena.qps[qp]);
            let reports = |qp: &&Qp| {
                [&qp.send_cq, &qp.recv_cq].map(|cq| cq.load(Acquire)).contains(&(index as u32))
            };
            // Each has to be explained.
            let verdicts: Option<Vec<Verdict>> =
                all.filter(reports).map(|qp| self.nothing_comes(index as u32, qp)).collect();
            if let Some((why, cause)) = verdicts.and_then(|all| all.into_iter().next()) {
                let (who, waited) = (self.who(cq.proc.load(Acquire) as usize), self.waited(since));
                let _ = writeln!(
                    out,
                    "{who} polls cq {index} in vain for {waited}: {why}; usual cause: {cause}"
                );
            }
        }
    }

    /// Why a queue pair brings nothing to a queue that is polled.
    fn nothing_comes(&self, cq: u32, qp: &Qp) -> Option<Verdict> {
        let [sends, receives] = [&qp.send_cq, &qp.recv_cq].map(|of| of.load(Acquire) == cq);
        let waits = sends && self.posted(qp) > 0 || receives && self.receives(qp) > 0;
        if waits {
            return self.nothing(qp);
        }
        // A program may poll all the time, and post when it has something to do.
        if !self.is_asked && !self.polls_only(cq) {
            return None;
        }
        let number = qp.live.load(Acquire);
        if let Some(why) = self.unpolled_elsewhere(cq, qp) {
            let why = format!(
                "qp {number} has nothing posted that completes there, and reports to {why}"
            );
            return Some((why, "the program polls another queue than its requests complete to"));
        }
        if sends && self.last_is_unsignaled(qp) {
            let why = format!(
                "the last send of qp {number} is done without a completion: IBV_SEND_SIGNALED was not set"
            );
            return Some((why, UNSIGNALED));
        }
        let what = match (sends, receives) {
            (true, true) => "no send and no receive",
            (true, false) => "no send",
            _ => "no receive",
        };
        let why = format!("qp {number}, which reports to it, has {what} posted");
        Some((why, "the request was never posted, or its completion was taken already"))
    }

    /// Whether the program that polls a queue has one thread, and that polls no other queue and waits at no channel:
    /// then nobody posts what would complete there as long as it polls.
    fn polls_only(&self, cq: u32) -> bool {
        let arena = &self.fabric.arena;
        let proc = arena.cqs[cq as usize].proc.load(Acquire);
        let polls_others = || {
            self.fabric.cqs.taken().filter(|other| *other != cq as usize).any(|other| {
                let other = &arena.cqs[other];
                let until = other.in_vain_until.load(Acquire);
                let is_recent = until != 0 && self.now.saturating_sub(until) < LONG_NS;
                is_recent && other.proc.load(Acquire) == proc
            })
        };
        let waits = || {
            arena.channels.iter().any(|channel| {
                let is_its = channel.live.load(Acquire) != 0 && channel.proc.load(Acquire) == proc;
                is_its && channel.waits_since.load(Acquire) != 0
            })
        };
        self.threads(proc as usize).is_one() && !polls_others() && !waits()
    }

    /// Another queue that a queue pair reports to, with completions, if it was never seen to be polled, and is not
    /// armed.
    fn unpolled_elsewhere(&self, cq: u32, qp: &Qp) -> Option<String> {
        let arena = &self.fabric.arena;
        let both = [&qp.send_cq, &qp.recv_cq].map(|cq| cq.load(Acquire));
        let index = both.into_iter().find(|other| *other != cq)?;
        let other = arena.cqs.get(index as usize)?;
        let is_new = arena.ring(&other.ring).is_some_and(|ring| ring.consumer() == 0)
            && other.in_vain_since.load(Acquire) == 0;
        let is_heard =
            other.armed.load(Acquire) & KIND != 0 || other.pending_events.load(Acquire) != 0;
        let unpolled = self.unpolled(other);
        (is_new && !is_heard && unpolled > 0).then(|| {
            format!("cq {index}, too, which has {} and was never polled", completions(unpolled))
        })
    }

    /// Whether the last send of a queue pair that was posted has asked for no completion.
    fn last_is_unsignaled(&self, qp: &Qp) -> bool {
        let Some(ring) =
            self.fabric.arena.ring(&qp.sq).filter(|_| qp.sq_sig_all.load(Acquire) == 0)
        else {
            return false;
        };
        let last = SendWqe::read(ring.slot(ring.producer().wrapping_sub(1)));
        // Of a slot that was never filled all is 0.
        let is_filled = last.opcode != opcode::RDMA_WRITE || last.remote().addr != 0;
        is_filled && last.flags & send_flag::SIGNALED == 0
    }

    /// Since when a thread has polled a queue in vain, if that is long and it still does.
    fn polls_since(&self, index: usize) -> Option<u64> {
        let cq = &self.fabric.arena.cqs[index];
        let [since, until] = [&cq.in_vain_since, &cq.in_vain_until].map(|t| t.load(Acquire));
        let is_over = until == 0 || self.now.saturating_sub(until) >= LONG_NS;
        (!is_over && until.saturating_sub(since) >= LONG_NS).then_some(since)
    }

    /// Completions that nobody has polled.
    fn unpolled(&self, cq: &Cq) -> u32 {
        let ring = self.fabric.arena.ring(&cq.ring);
        ring.map_or(0, |ring| ring.distance(ring.consumer(), ring.producer()))
    }

    fn no_event(&self, cqs: &[usize]) -> Option<Verdict> {
        if cqs.is_empty() {
            let why = "no completion queue reports to its channel".into();
            return Some((why, "ibv_create_cq was given another channel, or none"));
        }
        for &index in cqs {
            let cq = &self.fabric.arena.cqs[index];
            let unpolled = self.unpolled(cq);
            if unpolled == 0 || cq.pending_events.load(Acquire) != 0 {
                continue;
            }
            let have = format!("cq {index} has {} that nobody has polled", completions(unpolled));
            return Some(match cq.armed.load(Acquire) & KIND {
                0 => (format!("{have}, and is not armed"), UNARMED),
                SOLICITED => (
                    format!("{have}, and is armed for solicited ones only"),
                    "the peer posts its sends without IBV_SEND_SOLICITED",
                ),
                _ => (
                    format!("{have}, and was armed after they had come"),
                    "a completion that comes before ibv_req_notify_cq gives no event: poll once more \
                     after arming",
                ),
            });
        }
        let is_armed =
            |index: &usize| self.fabric.arena.cqs[*index].armed.load(Acquire) & KIND != 0;
        if !cqs.iter().any(is_armed) {
            return Some((format!("cq {} is not armed", cqs[0]), UNARMED));
        }
        let all = self.fabric.qps.taken().map(|index| &self.fabric.arena.qps[index]);
        let is_its = |qp: &&Qp| {
            let reports = |cq: u32| cqs.contains(&(cq as usize));
            reports(qp.recv_cq.load(Acquire)) || reports(qp.send_cq.load(Acquire))
        };
        let pairs: Vec<&Qp> = all.filter(is_its).collect();
        // Each has to be explained.
        let verdicts: Option<Vec<Verdict>> = pairs.iter().map(|qp| self.nothing(qp)).collect();
        verdicts?.into_iter().next()
    }

    /// Why nothing of a queue pair completes.
    fn nothing(&self, qp: &Qp) -> Option<Verdict> {
        let number = qp.live.load(Acquire);
        let sends = self.posted(qp);
        if sends > 0 {
            let why = format!("qp {number} has {} that wait", times(sends, "send", "sends"));
            return Some((why, "see what the send queue waits for"));
        }
        let receives = self.receives(qp);
        if receives == 0 || qp.qp_type.load(Acquire) == qp_type::UD {
            return None;
        }
        let has = format!("qp {number} has {} posted", times(receives, "receive", "receives"));
        let peer_number = qp.dest_qpn.load(Acquire);
        let Some(peer) = self.fabric.arena.qp(peer_number) else {
            let is_here = qp.route.load(Acquire) == 0 && peer_number != 0;
            let why = format!("{has}, and its peer, qp {peer_number}, does not exist");
            return is_here.then_some((why, "the peer has ended or has destroyed its queue pair"));
        };
        let proc = peer.proc.load(Acquire) as usize;
        let who = self.who(proc);
        if self.is_stopped(proc) {
            return Some((format!("{has}, and its peer {who} is stopped"), "see there"));
        }
        let its_state = peer.state.load(Acquire);
        if its_state == state::ERR {
            let why =
                format!("{has}, and its peer, qp {peer_number} of {who}, is in the error state");
            return Some((
                why,
                "the peer's queue pair has failed, or its program ends the connection",
            ));
        }
        if self.posted(peer) > 0 {
            return None;
        }
        if let Some(waits) = self.waits(peer) {
            let its = times(self.receives(peer), "receive", "receives");
            let why = format!(
                "{has}, and its peer sends nothing: {who} {waits}, and qp {peer_number} has {its} posted"
            );
            return Some((why, "both sides wait for the other's message: one has to send first"));
        }
        // A program that computes may poll later.
        let is_blocked = || self.is_asked || self.threads(proc).all_sleep();
        let unpolled = self.unpolled_of(peer).filter(|_| is_blocked())?;
        let why = format!("{has}, and its peer {who} does not look at what it has got: {unpolled}");
        Some((
            why,
            "the peer's thread waits for something else meanwhile: a loop that serves events must not \
             wait in its handlers",
        ))
    }

    /// Completions of a queue pair that nobody has polled.
    fn unpolled_of(&self, qp: &Qp) -> Option<String> {
        let both = [&qp.recv_cq, &qp.send_cq].map(|cq| cq.load(Acquire));
        both.into_iter().find_map(|index| {
            let count = self.unpolled(self.fabric.arena.cqs.get(index as usize)?);
            let completions = completions(count);
            (count > 0).then(|| format!("cq {index} has {completions} that nobody has polled"))
        })
    }

    /// The way in which a thread has waited long for the receives of a queue pair, if one has.
    fn waits(&self, qp: &Qp) -> Option<String> {
        let index = qp.recv_cq.load(Acquire);
        let cq = self.fabric.arena.cqs.get(index as usize)?;
        let channel = (cq.channel.load(Acquire) as usize).checked_sub(1);
        let channel = channel.and_then(|index| self.fabric.arena.channels.get(index));
        if channel.is_some_and(|channel| self.waits_since(channel).is_some()) {
            return Some("waits in ibv_get_cq_event, too".into());
        }
        self.polls_since(index as usize)?;
        Some(format!("polls cq {index} in vain"))
    }

    /// Whether a thread of a process has waited for completions for long.
    fn waits_for_completions(&self, proc: usize) -> bool {
        let arena = &self.fabric.arena;
        let is_its = |owner: u32| owner as usize == proc;
        let mut channels = arena.channels.iter().filter(|channel| {
            channel.live.load(Acquire) != 0 && is_its(channel.proc.load(Acquire))
        });
        channels.any(|channel| self.waits_since(channel).is_some())
            || self.fabric.cqs.taken().any(|index| {
                is_its(arena.cqs[index].proc.load(Acquire)) && self.polls_since(index).is_some()
            })
    }

    /// Since when a thread waits at a channel, if that is long.
    fn waits_since(&self, channel: &Channel) -> Option<u64> {
        let since = channel.waits_since.load(Acquire);
        (since != 0 && self.now.saturating_sub(since) >= LONG_NS).then_some(since)
    }

    /// Sends that are not done.
    fn posted(&self, qp: &Qp) -> u32 {
        self.fabric.arena.posted(&qp.sq, &qp.sq_consumer).0
    }

    /// Receives that no message has taken.
    fn receives(&self, qp: &Qp) -> u32 {
        let srq = (qp.srq.load(Acquire) as usize).checked_sub(1);
        let srq = srq.and_then(|index| self.fabric.arena.srqs.get(index));
        let (place, next) = match srq {
            Some(srq) => (&srq.ring, &srq.consumer),
            None => (&qp.rq, &qp.rq_consumer),
        };
        self.fabric.arena.posted(place, next).0
    }

    /// Send queues whose first request waits.
    fn sends(&self, out: &mut String) {
        for index in self.fabric.qps.taken() {
            let qp = &self.fabric.arena.qps[index];
            let held_by = qp.wait.load(Acquire) & 0xff;
            if held_by == 0 {
                continue;
            }
            let (number, dest) = (qp.live.load(Acquire), qp.dest_qpn.load(Acquire));
            let peer = self.fabric.arena.qp(dest);
            let whose = |peer: &Qp| self.who(peer.proc.load(Acquire) as usize);
            let peers = peer.map_or(String::new(), |peer| format!(" of {}", whose(peer)));
            let (why, cause) = match (held_by, peer) {
                (1, Some(peer)) => (
                    format!(
                        "its peer, qp {dest}{peers}, has {} posted",
                        receives(self.receives(peer))
                    ),
                    "the receiver posts its receives too late or too few: both have to agree on how \
                     many messages may be on their way",
                ),
                (2, Some(peer)) if self.is_stopped(peer.proc.load(Acquire) as usize) => (
                    format!("its peer, qp {dest}{peers}, does not answer: the process is stopped"),
                    "see there",
                ),
                (2, Some(peer)) => {
                    let name = QpState(peer.state.load(Acquire)).short_name().unwrap_or("?");
                    (
                        format!(
                            "its peer, qp {dest}{peers}, does not answer: it is in state {name}"
                        ),
                        "the peer is not connected to this queue pair, or not in RTR yet",
                    )
                }
                (2, None) => (
                    format!("its peer, qp {dest}, does not exist"),
                    "the peer has ended or has destroyed its queue pair",
                ),
                (3, _) => (
                    "a completion queue is full".into(),
                    "the queue is too small, or nobody polls it",
                ),
                _ => continue,
            };
            let who = self.who(qp.proc.load(Acquire) as usize);
            let sends = times(self.posted(qp), "send", "sends");
            let _ = writeln!(
                out,
                "{who} has {sends} of qp {number} that wait: {why}; usual cause: {cause}"
            );
        }
    }

    fn connections(&self, cm: &Cm, out: &mut String) {
        let long_ago = self.now.saturating_sub(LONG_NS);
        let since = (!self.is_asked).then_some(long_ago);
        let unread = cm.unread(since, |proc| self.waits_for_completions(proc));
        for (owner, count, event, id) in unread {
            let who = self.who(owner);
            let events = times(count as u32, "event", "events");
            let _ = writeln!(
                out,
                "{who} has {events} in an event channel that it does not read, the first is \
                 RDMA_CM_EVENT_{event} of id {id}; usual cause: rdma_get_cm_event is not called for the \
                 channel that the id was created with, or the thread that calls it waits for something \
                 else, as in the handler of an event"
            );
        }
        for asking in cm.asking(long_ago) {
            let (who, waited) = (self.who(asking.owner), self.waited(asking.since));
            // Another thread may call something that leads to an event.
            let is_sure = self.is_asked || self.threads(asking.owner).is_one();
            let (why, cause) = match asking.why {
                Reason::NotAnswered((other, its)) => (
                    format!(
                        "{} has taken the request (id {its}), and has called neither rdma_accept nor \
                         rdma_reject",
                        self.who(other)
                    ),
                    "the server forgets to answer, or waits for something else first",
                ),
                Reason::NotDisconnected((other, its)) => (
                    format!(
                        "{} was told RDMA_CM_EVENT_DISCONNECTED of its id {its}, and has called neither \
                         rdma_disconnect nor rdma_destroy_id",
                        self.who(other)
                    ),
                    "the peer ignores the event",
                ),
                Reason::Over | Reason::Unused if !is_sure => continue,
                Reason::Over => (
                    "its connection was rejected or has failed, and no event comes behind that"
                        .into(),
                    "the event that said so was not looked at (event->event, event->status)",
                ),
                Reason::Unused => (
                    "no id has its event channel".into(),
                    "rdma_create_id was given another channel, or none, which gives the id its own \
                     (id->channel)",
                ),
            };
            let of = asking.id.map(|own| format!(", for an event of id {own}")).unwrap_or_default();
            let _ = writeln!(
                out,
                "{who} waits in rdma_get_cm_event for {waited}{of}: {why}; usual cause: {cause}"
            );
        }
    }
}

fn times(count: u32, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {many}") }
}

fn completions(count: u32) -> String {
    times(count, "completion", "completions")
}

fn receives(count: u32) -> String {
    if count == 0 { "no receive".into() } else { times(count, "receive", "receives") }
}

const UNSIGNALED: &str = "sq_sig_all is 0, and no request asks for a completion: set IBV_SEND_SIGNALED at \
                          those that are waited for";
const UNARMED: &str = "ibv_req_notify_cq is missing: it arms for one event, so it is called before the \
                       wait and again after each event";
