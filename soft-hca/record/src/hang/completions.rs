//! Why nothing completes in a completion queue.

use soft_hca_verbs::cause::{Cause, Side};

use super::moment::{HANG_NS, Moment, Verdict};
use crate::arguments::qp;
use crate::cause::sentence;
use crate::entry::Channel;
use crate::model::{Armed, Blocked, CompletionQueue, Doing, End, QueuePair};
use crate::time::duration;
use crate::usual::{side, usual_cause};
use crate::value::Named;
use crate::words::times;

const STALLED: &str =
    "the peer is on another host, has ended, or has its hands full: see its record";
const UNPOSTED: &str = "the request was never posted, or its completion was taken already";
const UNSIGNALED: &str = "sq_sig_all is 0, and no request asks for a completion: set IBV_SEND_SIGNALED at those \
                          that are waited for";
const ELSEWHERE: &str = "the program polls another queue than its requests complete to";
const PEER_ENDED: &str = "nobody tells this side of the peer's end: use the connection manager's \
                          RDMA_CM_EVENT_DISCONNECTED, or a send of one's own";
const SEE_THERE: &str = "see there";
const BOTH: &str = "both sides wait for the other's message: one has to send first, or an answer is \
                    missing";

impl Moment<'_> {
    /// How many receives were posted for the peer of a queue pair, how many messages have taken one, and how
    /// many sends wait for more.
    pub fn counts(&self, number: u32) -> String {
        let Some(pair) = self.run.qp(number) else { return String::new() };
        let peer = pair.peer.filter(|peer| self.run.qp(*peer).is_some());
        let receives = peer.and_then(|peer| self.run.receives_of(peer));
        let Some(receives) = receives.filter(|_| pair.sends.pending().len() > 0) else {
            return String::new();
        };
        let posted = times(receives.posted, "receive was", "receives were");
        let messages = times(receives.taken, "message has", "messages have");
        let sends = times(pair.sends.pending().len() as u64, "send waits", "sends wait");
        format!("; {posted} posted there, {messages} taken one, and {sends}")
    }

    /// The reason why the send queue of the queue pair that a call names is full.
    pub fn full(&self, args: &[Named]) -> String {
        let number = qp(args, "qp");
        let pair = number.and_then(|number| Some((number, self.run.qp(number)?)));
        let waits = pair.and_then(|pair| self.pending(pair));
        waits.map_or(String::new(), |(waits, _)| format!("; {waits}"))
    }

    /// Why a queue that is polled is empty.
    pub(super) fn polls_in_vain(&self, cq: u32) -> Verdict {
        let (why, cause) = self.nothing_comes(cq)?;
        let is_idle = [UNPOSTED, UNSIGNALED].contains(&cause);
        Some(match self.unpolled_elsewhere(cq).filter(|_| is_idle) {
            Some(elsewhere) => (format!("{why}, and {elsewhere}"), ELSEWHERE),
            None => (why, cause),
        })
    }

    /// Queue pairs that report to a completion queue.
    fn reporting(&self, cq: u32) -> impl Iterator<Item = (u32, &QueuePair)> {
        let reports = move |pair: &&QueuePair| {
            let is_destroyed = matches!(pair.end, Some((End::Destroyed, _)));
            let both = [pair.send_cq, pair.recv_cq];
            both.contains(&Some(cq)) && pair.is_whole && !is_destroyed
        };
        let pairs = self.run.qps.iter().map(|(number, pair)| (*number, pair));
        pairs.filter(move |(_, pair)| reports(pair))
    }

    /// Why nothing completes in a queue that is empty.
    pub(super) fn nothing_comes(&self, cq: u32) -> Verdict {
        if !self.run.cqs.contains_key(&cq) {
            return None;
        }
        let pairs: Vec<_> = self.reporting(cq).collect();
        if pairs.is_empty() {
            let why = format!("no queue pair reports to cq {cq}");
            return Some((why, "the program waits at another queue than its queue pair's"));
        }
        let mut verdicts = Vec::new();
        for pair in &pairs {
            verdicts.push(self.nothing_completes(cq, *pair)?);
        }
        // A request that waits says more than an idle queue.
        let is_idle = |verdict: &(String, &str)| verdict.1 == UNPOSTED;
        let at = verdicts.iter().position(|verdict| !is_idle(verdict)).unwrap_or(0);
        Some(verdicts.swap_remove(at))
    }

    /// Why nothing of a queue pair completes in a queue.
    fn nothing_completes(&self, cq: u32, (number, pair): (u32, &QueuePair)) -> Verdict {
        let (sends, receives) = (pair.send_cq == Some(cq), pair.recv_cq == Some(cq));
        if let Some(waits) = self.pending((number, pair)).filter(|_| sends) {
            return Some(waits);
        }
        if !self.sees_receives(pair) {
            return None;
        }
        let posted = if receives { self.waiting_receives(number) } else { 0 };
        if posted > 0 {
            return self.no_message((number, pair), posted);
        }
        if sends && pair.sends.unsignaled > 0 {
            let sends = times(pair.sends.unsignaled, "send of it is", "sends of it are");
            let why = format!(
                "qp {number} reports to cq {cq}; {sends} done without a completion: IBV_SEND_SIGNALED \
                 was not set"
            );
            return Some((why, UNSIGNALED));
        }
        // Another thread may post something.
        if !self.is_idle(pair.process) {
            return None;
        }
        let what = match (sends, receives) {
            (true, true) => "no send and no receive",
            (true, false) => "no send",
            _ => "no receive",
        };
        Some((format!("qp {number}, which reports to cq {cq}, has {what} posted"), UNPOSTED))
    }

    /// Whether all receives of a queue pair were seen.
    fn sees_receives(&self, pair: &QueuePair) -> bool {
        pair.srq.is_none_or(|srq| self.run.srqs.get(&srq).is_some_and(|srq| srq.is_whole))
    }

    /// Receives that wait for a message to a queue pair.
    fn waiting_receives(&self, number: u32) -> u64 {
        self.run.receives_of(number).map_or(0, |receives| receives.waiting())
    }

    /// Another queue that a queue pair reports to which reports to this one, in which something has come a while ago,
    /// and which was neither polled nor armed.
    fn unpolled_elsewhere(&self, number: u32) -> Option<String> {
        let others = self.reporting(number).flat_map(|(_, pair)| [pair.send_cq, pair.recv_cq]);
        let mut others = others.flatten().filter(|other| *other != number);
        let is_it = |cq: &CompletionQueue| {
            let is_old = cq.last.is_none_or(|last| self.t.saturating_sub(last) >= HANG_NS);
            let is_heard =
                cq.has_event || matches!(cq.armed, Armed::Yes { .. } | Armed::Spent { .. });
            cq.is_new() && !is_heard && is_old
        };
        others.find_map(|other| {
            let cq = self.run.cqs.get(&other).filter(|cq| is_it(cq))?;
            let completions = times(cq.waiting(), "completion", "completions");
            Some(format!(
                "reports to cq {other}, too, which has {completions} and was never polled"
            ))
        })
    }

    /// The oldest send of a queue pair, the reason why it waits, and the usual cause of that.
    pub(super) fn pending(&self, (number, pair): (u32, &QueuePair)) -> Verdict {
        let first = pair.sends.pending().next()?;
        let behind = match pair.sends.pending().len() - 1 {
            0 => String::new(),
            more => format!(", with {more} behind it,"),
        };
        let peer = pair.peer.and_then(|peer| self.run.qp(peer));
        let stopped = peer.map(|peer| peer.process).filter(|process| self.is_stopped(*process));
        let (reason, cause) =
            match (pair.stalled.as_ref().map(|of| of.reason_at(self.t).0), stopped) {
                (Some(Cause::NoResponse { .. }), Some(process)) => {
                    (format!("waits: its peer {} is stopped", self.run.name(process)), SEE_THERE)
                }
                (Some(reason), _) => (
                    format!("waits: {}: {}", side(reason, Side::Requester), sentence(reason)),
                    usual_cause(reason),
                ),
                (None, _) => ("is not done".into(), STALLED),
            };
        let since = self.since(", posted ", first.t);
        let wr_id = first.wr_id;
        let why = format!(
            "the send work request wr_id={wr_id:#x} of qp {number}{since}{behind} {reason}"
        );
        Some((why, cause))
    }

    /// Why a queue pair that has receives gets no message.
    fn no_message(&self, (number, pair): (u32, &QueuePair), posted: u64) -> Verdict {
        let peer_number = pair.peer?;
        let has = format!("qp {number} has {} posted", times(posted, "receive", "receives"));
        let Some(peer) = self.run.qp(peer_number) else {
            let why = format!("{has}, and its peer, qp {peer_number}, does not exist");
            let cause = "the peer has ended or has destroyed its queue pair";
            return (self.run.knows_all && !pair.has_packets && peer_number != 0)
                .then_some((why, cause));
        };
        if let Some((why, cause)) = self.cannot_send((peer_number, peer)) {
            return Some((format!("{has}, and its peer{why}"), cause));
        }
        let name = self.run.name(peer.process);
        if let Some((waits, cause)) = self.pending((peer_number, peer)) {
            // Of a fabric it is not known since when: it may just be executed.
            let is_sure = peer.stalled.is_some() || !self.run.knows_all;
            return is_sure.then(|| (format!("{has}; {name}: {waits}"), cause));
        }
        let (any, about) = (self.idle(peer.process), self.waits_for(peer));
        let unpolled = if about.is_none() { self.does_not_look(peer, any) } else { None };
        let (why, cause) = match unpolled {
            Some(unpolled) => unpolled,
            None => (self.sends_nothing((peer_number, peer), about.or(any)?), BOTH),
        };
        Some((format!("{has}, and its peer {why}"), cause))
    }

    /// Why a queue pair can send nothing, in words that follow "its peer".
    fn cannot_send(&self, (number, peer): (u32, &QueuePair)) -> Verdict {
        let name = self.run.name(peer.process);
        if !self.lives(peer.process) {
            let ended = self.run.processes.get(&peer.process).and_then(|process| process.ended);
            let since = self.since(" ", ended);
            return Some((format!(", qp {number} of {name}, has ended{since}"), PEER_ENDED));
        }
        if matches!(peer.end, Some((End::Destroyed, _))) {
            return Some((format!(" {name} has destroyed qp {number}"), PEER_ENDED));
        }
        if self.is_stopped(peer.process) {
            return Some((format!(" {name} is stopped"), SEE_THERE));
        }
        let why = format!(", qp {number} of {name}, is in the error state");
        let cause = "the peer's queue pair has failed, or its program ends the connection";
        peer.is_in_error.then_some((why, cause))
    }

    /// The thread of a process that waits for what one of its queue pairs receives.
    fn waits_for(&self, pair: &QueuePair) -> Option<&Blocked> {
        let is_about_it = |blocked: &&Blocked| match blocked.doing {
            Doing::Polls { cq, .. } => pair.recv_cq == Some(cq),
            Doing::Waits { on: Channel::Completion, fd } => {
                let cq = pair.recv_cq.and_then(|cq| self.run.cqs.get(&cq));
                cq.is_some_and(|cq| cq.channel == Some(fd))
            }
            _ => false,
        };
        let is_idle = self.idle(pair.process).is_some();
        // Of a fabric's threads only those that wait are known.
        let is_sure = |blocked: &&Blocked| is_idle || self.run.knows_all && self.is_long(blocked);
        let all = self.run.threads.of(pair.process).map(|(_, blocked)| blocked);
        all.filter(is_sure).find(is_about_it)
    }

    /// Why the program of a queue pair that has got something may not know of it, in words that follow "its peer".
    fn does_not_look(&self, peer: &QueuePair, any: Option<&Blocked>) -> Verdict {
        let is_asleep = self.run.processes.get(&peer.process).is_some_and(|known| known.is_asleep);
        if any.is_none() && !is_asleep && !self.is_asked {
            return None;
        }
        let unpolled = self.unpolled_of(peer)?;
        let does = any.map_or(String::new(), |any| {
            let since = duration(self.t.saturating_sub(any.since));
            format!("; it {}, since {since}", self.doing(&any.doing))
        });
        let name = self.run.name(peer.process);
        let cause = "the peer's thread waits for something else meanwhile: a loop that serves events must not \
                     wait in its handlers";
        Some((format!("{name} does not look at what it has got: {unpolled}{does}"), cause))
    }

    /// A queue pair's program waits itself, in words that follow "its peer".
    fn sends_nothing(&self, (number, peer): (u32, &QueuePair), blocked: &Blocked) -> String {
        let name = self.run.name(peer.process);
        let receives = times(self.waiting_receives(number), "receive", "receives");
        let sent = match peer.sends.posted {
            _ if self.run.knows_all => "it has no send that is not done".into(),
            0 => "it has posted no send".into(),
            sends => format!(
                "it has posted {}, the last {}, and all are done",
                times(sends, "send", "sends"),
                self.ago(peer.sends.last_posted)
            ),
        };
        format!(
            "sends nothing: {name} {}, since {}; {sent}, and qp {number} has {receives} posted",
            self.doing(&blocked.doing),
            duration(self.t.saturating_sub(blocked.since)),
        )
    }

    /// Completions of a queue pair that its program has not polled.
    fn unpolled_of(&self, pair: &QueuePair) -> Option<String> {
        let both = [pair.recv_cq, pair.send_cq].into_iter().flatten();
        let mut both = both.filter(|_| self.run.is_hooked(pair.process));
        both.find_map(|number| {
            let count = self.run.cqs.get(&number)?.waiting();
            let completions = times(count, "completion", "completions");
            (count > 0).then(|| format!("cq {number} has {completions} that nobody has polled"))
        })
    }
}
