//! Why a thread is blocked: where it waits, what would wake it, who would have to do that, and why it
//! does not come. Only what the record shows is told; of who just waits for work there is nothing.

mod connecting;
mod ids;
mod observed;
mod queues;
#[cfg(test)]
mod tests;
mod threads;

use std::sync::Arc;

use soft_hca_verbs::cause::Side;

use super::checks::{side, usual_cause};
use crate::arguments::qp;
use crate::cause::sentence;
use crate::entry::Channel;
use crate::place::Place;
use crate::text::duration;
use crate::value::Named;
use observed::{HANG_NS, Verdict};
use queues::{Armed, Pair};
use threads::{Blocked, Doing, Thread};

pub(super) use observed::{Around, Hangs};

/// A thread that is blocked, and why.
#[derive(Clone, Debug)]
pub(super) struct Hang {
    pub(super) process: u32,
    pub(super) since: u64,
    /// What it does, in words that follow the process's name.
    pub(super) what: String,
    pub(super) why: String,
    pub(super) cause: &'static str,
    /// Where in its program the thread is.
    pub(super) source: Option<Arc<Place>>,
}

/// What usually causes that a queue pair's send waits.
fn cause_of(number: u32, around: &Around<'_>) -> &'static str {
    let stalled = around.stalled.get(&number);
    stalled.map_or(STALLED, |stalled| usual_cause(stalled.reason_at(around.t).0))
}

fn times(count: u64, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {many}") }
}

impl Hangs {
    /// How many receives were posted for the peer of a queue pair, how many messages have taken one, and how
    /// many sends wait for more.
    pub(super) fn counts(&self, number: u32) -> String {
        let pair = self.queues.pairs.get(&number);
        let Some((pair, peer)) = pair.and_then(|pair| Some((pair, pair.peer?))) else {
            return String::new();
        };
        let (posted, taken) = self.queues.receives_of(peer);
        if pair.pending.is_empty() || !self.queues.pairs.contains_key(&peer) {
            return String::new();
        }
        let receives = times(posted, "receive was", "receives were");
        let messages = times(taken, "message has", "messages have");
        let sends = times(pair.pending.len() as u64, "send waits", "sends wait");
        format!("; {receives} posted there, {messages} taken one, and {sends}")
    }

    /// What keeps the send queue of the queue pair full that a call is about.
    pub(super) fn full(&self, args: &[Named], around: &Around<'_>) -> String {
        let number = qp(args, "qp");
        let pair = number.and_then(|number| Some((number, self.queues.pairs.get(&number)?)));
        let waits = pair.and_then(|(number, pair)| self.pending(number, pair, around));
        waits.map_or(String::new(), |waits| format!("; {waits}"))
    }

    /// Threads that are blocked at a time, of a process or of all that have not ended; only those that
    /// were not told of, and that `is_meant` picks.
    pub(super) fn blocked(
        &mut self,
        around: &Around<'_>,
        is_meant: impl Fn(Thread) -> bool,
    ) -> Vec<Hang> {
        let is_long = |blocked: &Blocked| around.t.saturating_sub(blocked.since) >= HANG_NS;
        let all = self
            .threads
            .all()
            .filter(|(thread, blocked)| !blocked.is_told && is_long(blocked) && is_meant(*thread));
        let found = all.filter_map(|(thread, blocked)| {
            let (why, cause) = self.why(thread, blocked, around)?;
            let (what, source) = (blocked.doing.text(), blocked.source.clone());
            Some((
                thread,
                Hang { process: thread.0, since: blocked.since, what, why, cause, source },
            ))
        });
        let found: Vec<(Thread, Hang)> = found.collect();
        found.iter().for_each(|(thread, _)| self.threads.told(*thread));
        found.into_iter().map(|(_, hang)| hang).collect()
    }

    fn why(&self, (process, _): Thread, blocked: &Blocked, around: &Around<'_>) -> Verdict {
        match &blocked.doing {
            Doing::Waits { on: Channel::Completion, fd } => self.no_event(process, *fd, around),
            Doing::Waits { on: Channel::Connection, fd } => {
                self.no_connection_event((process, *fd), blocked.since, around)
            }
            Doing::Waits { on: Channel::Async, .. } => None,
            Doing::Polls { cq, .. } => {
                let (why, cause) = self.nothing_comes(*cq, around)?;
                let is_idle = [UNPOSTED, UNSIGNALED].contains(&cause);
                let other = self.unpolled_elsewhere(*cq, around).filter(|_| is_idle);
                Some(match other {
                    Some(elsewhere) => (format!("{why}, and {elsewhere}"), ELSEWHERE),
                    None => (why, cause),
                })
            }
            Doing::Destroys { call, object, events } => {
                let taken = self.taken_events(process, object.number() as u32, call, around);
                let events = times((*events).into(), "event was", "events were");
                let why = format!(
                    "{events} taken of {} {object} and not acknowledged{taken}, and the call returns \
                     when that is done",
                    object.kind()
                );
                Some((why, acknowledgement(call)))
            }
        }
    }

    /// The events of an id that a program has taken.
    fn taken_events(&self, process: u32, number: u32, call: &str, around: &Around<'_>) -> String {
        let id = self.ids.destroyed.get(&(process, number)).filter(|_| call == "rdma_destroy_id");
        let events = id.map_or(&[][..], |id| &id.events);
        let texts = events
            .iter()
            .map(|(event, t, thread)| format!("{event} by thread {thread} {}", around.ago(*t)));
        let texts: Vec<_> = texts.collect();
        if texts.is_empty() { String::new() } else { format!(" (taken: {})", texts.join(", ")) }
    }

    /// Why a completion channel gives no event.
    fn no_event(&self, process: u32, fd: u32, around: &Around<'_>) -> Verdict {
        let reports = |cq: &queues::Cq| cq.process == process && cq.channel == Some(fd);
        let all: Vec<_> = self.queues.cqs.iter().filter(|(_, cq)| reports(cq)).collect();
        // Those of before the record are not known.
        if !self.queues.channels.contains(&(process, fd)) {
            return None;
        }
        if all.is_empty() {
            let why = "no completion queue reports to this channel".into();
            return Some((why, "ibv_create_cq was given another channel, or none"));
        }
        let knows_polls = self.queues.sees_polls(process);
        if let Some((number, cq)) = all.iter().find(|(_, cq)| knows_polls && cq.waiting() > 0) {
            return Some(unheard(**number, cq, around));
        }
        let is_silent = |cq: &queues::Cq| match cq.armed {
            Armed::Never => true,
            Armed::Spent { .. } => around.t.saturating_sub(cq.event) >= HANG_NS,
            Armed::Yes { .. } => false,
        };
        if all.iter().all(|(_, cq)| is_silent(cq)) {
            let (number, cq) = all[0];
            let (state, cause) = match cq.armed {
                Armed::Spent { t } => (
                    format!(
                        "was armed {}, which has given its event {}, and not again since",
                        around.ago(t),
                        around.ago(cq.event)
                    ),
                    AGAIN,
                ),
                _ => ("was never armed".into(), NEVER),
            };
            let others = match all.len() - 1 {
                0 => String::new(),
                more => format!(", nor were the {more} others of this channel"),
            };
            let why =
                format!("cq {number} {state}{others}: no completion, if one comes, gives an event");
            return Some((why, cause));
        }
        // Each has to be explained.
        let verdicts: Option<Vec<_>> =
            all.iter().map(|(number, _)| self.nothing_comes(**number, around)).collect();
        verdicts?.into_iter().next()
    }

    /// Why nothing completes in a queue that is empty.
    fn nothing_comes(&self, cq: u32, around: &Around<'_>) -> Verdict {
        if !self.queues.cqs.contains_key(&cq) {
            return None;
        }
        let pairs: Vec<_> = self.queues.of(cq).collect();
        if pairs.is_empty() {
            let why = format!("no queue pair reports to cq {cq}");
            return Some((why, "the program waits at another queue than its queue pair's"));
        }
        let mut verdicts = Vec::new();
        for (number, pair) in &pairs {
            verdicts.push(self.nothing_completes(cq, (*number, pair), around)?);
        }
        // What waits says more than what is idle.
        let is_idle = |verdict: &(String, &str)| verdict.1 == UNPOSTED;
        let at = verdicts.iter().position(|verdict| !is_idle(verdict)).unwrap_or(0);
        Some(verdicts.swap_remove(at))
    }

    /// Why nothing of a queue pair completes in a queue.
    fn nothing_completes(
        &self,
        cq: u32,
        (number, pair): (u32, &Pair),
        around: &Around<'_>,
    ) -> Verdict {
        let (sends, receives) = (pair.send_cq == Some(cq), pair.recv_cq == Some(cq));
        if let Some(waits) = self.pending(number, pair, around).filter(|_| sends) {
            return Some((waits, cause_of(number, around)));
        }
        if !self.queues.sees_receives(number) {
            return None;
        }
        let posted = if receives { self.queues.receives(number) } else { 0 };
        if posted > 0 {
            return self.no_message((number, pair), posted, around);
        }
        if sends && pair.unsignaled > 0 {
            let sends = times(pair.unsignaled, "send of it is", "sends of it are");
            let why = format!(
                "qp {number} reports to cq {cq}; {sends} done without a completion: IBV_SEND_SIGNALED \
                 was not set"
            );
            return Some((why, UNSIGNALED));
        }
        // Another thread may post something.
        self.idle(pair.process, around)?;
        let what = match (sends, receives) {
            (true, true) => "no send and no receive",
            (true, false) => "no send",
            _ => "no receive",
        };
        Some((format!("qp {number}, which reports to cq {cq}, has {what} posted"), UNPOSTED))
    }

    /// Another queue that a queue pair reports to which reports to this one, in which something has come a while ago,
    /// and which was neither polled nor armed.
    fn unpolled_elsewhere(&self, number: u32, around: &Around<'_>) -> Option<String> {
        let others = self.queues.of(number).flat_map(|(_, pair)| [pair.send_cq, pair.recv_cq]);
        let mut others = others.flatten().filter(|other| *other != number);
        let is_it = |cq: &queues::Cq| {
            let is_old = around.t.saturating_sub(cq.last) >= HANG_NS;
            cq.is_new() && cq.armed == Armed::Never && is_old
        };
        others.find_map(|other| {
            let cq = self.queues.cqs.get(&other).filter(|cq| is_it(cq))?;
            let completions = times(cq.waiting(), "completion", "completions");
            Some(format!(
                "reports to cq {other}, too, which has {completions} and was never polled"
            ))
        })
    }

    /// What a queue pair's oldest send waits for, if one does.
    fn pending(&self, number: u32, pair: &Pair, around: &Around<'_>) -> Option<String> {
        let first = pair.pending.front()?;
        let behind = match pair.pending.len() - 1 {
            0 => String::new(),
            more => format!(", with {more} behind it,"),
        };
        let reason = match around.stalled.get(&number) {
            Some(stalled) => {
                let reason = stalled.reason_at(around.t).0;
                format!("waits: {}: {}", side(reason, Side::Requester), sentence(reason))
            }
            None => "is not done".into(),
        };
        let since = around.ago(first.since);
        Some(format!(
            "the send work request wr_id={:#x} of qp {number}, posted {since}{behind} {reason}",
            first.wr_id
        ))
    }

    /// Why a queue pair that has receives gets no message.
    fn no_message(
        &self,
        (number, pair): (u32, &Pair),
        posted: u64,
        around: &Around<'_>,
    ) -> Verdict {
        let peer_number = pair.peer?;
        let peer = self.queues.pairs.get(&peer_number)?;
        let name = (around.who)(peer.process);
        let has = format!("qp {number} has {} posted", times(posted, "receive", "receives"));
        if !self.lives(peer.process, around.t) {
            let end = self.ended.get(&peer.process).copied().unwrap_or_default();
            let why = format!(
                "{has}, and its peer, qp {peer_number} of {name}, has ended {}",
                around.ago(end)
            );
            return Some((why, PEER_ENDED));
        }
        if peer.is_destroyed {
            let why = format!("{has}, and its peer {name} has destroyed qp {peer_number}");
            return Some((why, PEER_ENDED));
        }
        if peer.is_in_error {
            let why =
                format!("{has}, and its peer, qp {peer_number} of {name}, is in the error state");
            return Some((
                why,
                "the peer's queue pair has failed, or its program ends the connection",
            ));
        }
        if let Some(waits) = self.pending(peer_number, peer, around) {
            return Some((format!("{has}; {name}: {waits}"), cause_of(peer_number, around)));
        }
        // Of several threads the one that waits for the peer's queue pair.
        let is_about_peer = |blocked: &&Blocked| match blocked.doing {
            Doing::Polls { cq, .. } => peer.recv_cq == Some(cq),
            Doing::Waits { on: Channel::Completion, fd } => {
                let cq = peer.recv_cq.and_then(|cq| self.queues.cqs.get(&cq));
                cq.is_some_and(|cq| cq.channel == Some(fd))
            }
            _ => false,
        };
        let any = self.idle(peer.process, around)?;
        let mut all = self.threads.of(peer.process).map(|(_, blocked)| blocked);
        let blocked = all.find(is_about_peer).unwrap_or(any);
        let receives = times(self.queues.receives(peer_number), "receive", "receives");
        let sent = match peer.sends {
            0 => "it has posted no send".into(),
            sends => format!(
                "it has posted {}, the last {}, and all are done",
                times(sends, "send", "sends"),
                around.ago(peer.last_send)
            ),
        };
        let why = format!(
            "{has}, and its peer sends nothing: {name} {}, since {}; {sent}, and qp {peer_number} has \
             {receives} posted",
            blocked.doing.text(),
            duration(around.t.saturating_sub(blocked.since)),
        );
        Some((why, BOTH))
    }
}

/// Completions that are there, and of which nobody is told.
fn unheard(number: u32, cq: &queues::Cq, around: &Around<'_>) -> (String, &'static str) {
    let waiting = cq.waiting();
    let have = if waiting == 1 { "has come" } else { "have come" };
    let completions = times(waiting, "completion", "completions");
    let last = around.ago(cq.last);
    match cq.armed {
        Armed::Never => {
            let why = format!(
                "{completions} {have} in cq {number}, the last {last}, and it was never armed"
            );
            (why, NEVER)
        }
        Armed::Spent { t } => {
            let why = format!(
                "cq {number} was armed {}, which has given its event {}; {completions} of it {} not \
                 polled, and it was not armed again",
                around.ago(t),
                around.ago(cq.event),
                if waiting == 1 { "is" } else { "are" },
            );
            (why, AGAIN)
        }
        Armed::Yes { t, solicited_only: true } if cq.last >= t => {
            let why = format!(
                "{completions} {have} in cq {number}, the last {last}, and it is armed for solicited \
                 ones only"
            );
            let cause = "the peer posts its sends without IBV_SEND_SOLICITED: set it there, or call \
                         ibv_req_notify_cq with solicited_only 0";
            (why, cause)
        }
        Armed::Yes { t, .. } => {
            let why = format!(
                "cq {number} was armed {}, after its {completions} had come, the last {last}, and gives \
                 an event for the next one only",
                around.ago(t)
            );
            let cause = "a completion that comes before ibv_req_notify_cq gives no event: poll once \
                         more after arming, and wait only if nothing was found";
            (why, cause)
        }
    }
}

fn acknowledgement(call: &str) -> &'static str {
    match call {
        "rdma_destroy_id" => "rdma_ack_cm_event is missing, or comes after rdma_destroy_id",
        "ibv_destroy_cq" => "ibv_ack_cq_events is missing, or counts too few",
        _ => "ibv_ack_async_event is missing",
    }
}

const NEVER: &str = "ibv_req_notify_cq is missing before the wait";
const AGAIN: &str = "ibv_req_notify_cq arms for one event: call it again after each one, and then poll \
                     the queue until it is empty";
const STALLED: &str =
    "the peer is on another host, has ended, or has its hands full: see its record";
const UNPOSTED: &str = "the request was never posted, or its completion was taken already";
const UNSIGNALED: &str = "sq_sig_all is 0, and no request asks for a completion: set IBV_SEND_SIGNALED at those \
                          that are waited for";
const ELSEWHERE: &str = "the program polls another queue than its requests complete to";
const PEER_ENDED: &str = "nobody tells this side of the peer's end: use the connection manager's \
                          RDMA_CM_EVENT_DISCONNECTED, or a send of one's own";
const BOTH: &str = "both sides wait for the other's message: one has to send first, or an answer is \
                    missing";
