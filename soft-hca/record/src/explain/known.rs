//! What a record tells of queue pairs: whose they are, whom they are connected to, how they have
//! ended, and when receives were posted for them.

use std::collections::{BTreeMap, HashMap, VecDeque};

use soft_hca_verbs::cause::{Cause, Lost, Peer};
use soft_hca_verbs::{EventType, QpState};

use super::keys::Keys;
use crate::arguments::{self, qp};
use crate::entry::{Call, Entry, Outcome, Packet, ReceiveQueue, What};
use crate::text::duration;

/// How the life of a queue pair has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Destroyed,
    /// With its process.
    Process,
}

#[derive(Clone, Debug, Default)]
struct Qp {
    process: u32,
    srq: Option<u32>,
    /// `dest_qp_num`.
    peer: Option<u32>,
    end: Option<(End, u64)>,
    /// A work request has failed.
    has_failed: bool,
    /// The time at which its program has put it into the error state, and the library's call that did it.
    shut: Option<(u64, Option<String>)>,
    /// Sends that were posted and neither executed nor flushed: `wr_id` and time.
    posted: VecDeque<(u64, u64)>,
    /// Those that were executed before it was seen that they were posted.
    early: Vec<u64>,
    /// Its packets go to another host.
    has_packets: bool,
}

/// Sends of a queue pair that were not executed, or that its peer on another host has not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unfinished {
    pub(super) qp: u32,
    pub(super) process: u32,
    /// The first one.
    pub(super) wr_id: u64,
    /// When it was posted.
    pub(super) since: u64,
    pub(super) count: usize,
    pub(super) is_remote: bool,
}

impl Qp {
    fn posts(&mut self, wr_id: u64, t: u64) {
        match self.early.iter().position(|early| *early == wr_id) {
            Some(at) => {
                self.early.swap_remove(at);
            }
            None => self.posted.push_back((wr_id, t)),
        }
    }

    /// Those before it were flushed, if there are any.
    fn executes(&mut self, wr_id: u64) {
        match self.posted.iter().position(|posted| posted.0 == wr_id) {
            Some(at) => {
                self.posted.drain(..=at);
            }
            None => self.early.push(wr_id),
        }
    }
}

/// What a call does to a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Destroyed,
    Reset,
    Shut,
}

/// What is known from the entries so far.
#[derive(Debug, Default)]
pub(super) struct Known {
    qps: HashMap<u32, Qp>,
    /// When a receive was posted last.
    receives: BTreeMap<ReceiveQueue, u64>,
    keys: Keys,
    /// When a port went down that has not come up since, by its name in the record.
    down: BTreeMap<String, u64>,
    /// The record has not only what goes wrong.
    is_complete: bool,
}

impl Known {
    /// Another entry. Gives what a call of the program does to a queue pair.
    pub(super) fn entry(&mut self, entry: &Entry) -> Option<(u32, Change)> {
        self.keys.entry(entry);
        match &entry.what {
            What::Call(call) => return self.call(entry, call),
            What::ReceivePosted(posted) => {
                self.receives.insert(posted.queue, entry.t);
            }
            What::SendPosted(posted) => {
                self.is_complete = true;
                self.qp_mut(posted.qp, entry.process).posts(posted.wr_id, entry.t);
            }
            What::Executed(executed) => {
                self.qp_mut(executed.qp, entry.process).executes(executed.wr_id);
            }
            What::Packet(Packet { qp: Some(qp), .. }) => {
                self.qp_mut(*qp, entry.process).has_packets = true;
            }
            What::AsyncEvent { event, place: Some(place), .. } => match *event {
                EventType::PORT_ERR => drop(self.down.entry(place.clone()).or_insert(entry.t)),
                EventType::PORT_ACTIVE => drop(self.down.remove(place)),
                _ => {}
            },
            // What is not seen may have been executed.
            What::Dropped { .. } => self.qps.values_mut().for_each(|qp| qp.posted.clear()),
            What::ProcessEnded { .. } => {
                let of_process = |qp: &&mut Qp| qp.process == entry.process && qp.end.is_none();
                for qp in self.qps.values_mut().filter(of_process) {
                    qp.end = Some((End::Process, entry.t));
                }
            }
            _ => {}
        }
        None
    }

    fn call(&mut self, entry: &Entry, call: &Call) -> Option<(u32, Change)> {
        let Outcome::Done(done) = &call.result else { return None };
        match call.name.as_str() {
            "ibv_create_qp" | "ibv_create_qp_ex" => {
                let srq = arguments::srq(&call.args, "srq");
                let new = Qp { process: entry.process, srq, ..Qp::default() };
                self.qps.insert(qp(done, "qp_num")?, new);
                None
            }
            "ibv_modify_qp" => {
                let number = qp(&call.args, "qp")?;
                let known = self.qp_mut(number, entry.process);
                known.peer = qp(&call.args, "dest_qp_num").or(known.peer);
                match arguments::word(&call.args, "qp_state") {
                    Some(QpState::RESET) => {
                        (known.has_failed, known.shut) = (false, None);
                        Some((number, Change::Reset))
                    }
                    Some(QpState::ERR) => {
                        let by = entry.place().and_then(|place| place.call.clone());
                        known.shut.get_or_insert((entry.t, by));
                        Some((number, Change::Shut))
                    }
                    _ => None,
                }
            }
            "ibv_destroy_qp" => {
                let number = qp(&call.args, "qp")?;
                self.qp_mut(number, entry.process).end = Some((End::Destroyed, entry.t));
                Some((number, Change::Destroyed))
            }
            _ => None,
        }
    }

    /// Sends, of the queue pairs for which `is_over` holds, that were not executed, or that another host had not
    /// acknowledged. If they `are_flushed`, completions tell of them, but not of what another host
    /// may have got.
    pub(super) fn unfinished(
        &mut self,
        is_over: impl Fn(u32, u32) -> bool,
        are_flushed: bool,
    ) -> Vec<Unfinished> {
        let is_left = |qp: &Qp| !are_flushed && qp.shut.is_none() && !qp.has_failed;
        let over = self.qps.iter_mut().filter(|(number, qp)| is_over(**number, qp.process));
        let over = over.filter(|(_, qp)| qp.has_packets || is_left(qp));
        let unfinished = over.filter_map(|(number, qp)| {
            let posted = std::mem::take(&mut qp.posted);
            let (wr_id, since) = *posted.front()?;
            let (is_remote, process, count) = (qp.has_packets, qp.process, posted.len());
            Some(Unfinished { qp: *number, process, wr_id, since, count, is_remote })
        });
        let mut unfinished: Vec<_> = unfinished.collect();
        unfinished.sort_by_key(|unfinished| unfinished.qp);
        unfinished
    }

    fn qp_mut(&mut self, number: u32, process: u32) -> &mut Qp {
        self.qps.entry(number).or_insert_with(|| Qp { process, ..Qp::default() })
    }

    /// A work request of a queue pair has failed.
    pub(super) fn failed(&mut self, qp: u32, process: u32) {
        self.qp_mut(qp, process).has_failed = true;
    }

    /// Takes note of a request's flushed completion. Returns whether the request is a posted send.
    pub(super) fn flushes(&mut self, qp: u32, wr_id: u64) -> bool {
        let Some(qp) = self.qps.get_mut(&qp) else { return false };
        let at = qp.posted.iter().position(|posted| posted.0 == wr_id);
        at.and_then(|at| qp.posted.remove(at)).is_some()
    }

    /// The way in which its program has put the queue pair into the error state by a time, if it has: receives
    /// that are flushed after that are no failure.
    pub(super) fn shut(&self, qp: u32, t: u64) -> Option<String> {
        let (at, by) = self.qps.get(&qp).filter(|qp| !qp.has_failed)?.shut.as_ref()?;
        let by = by.as_deref().filter(|call| *call != "ibv_modify_qp").unwrap_or("its program");
        let before = duration(t.saturating_sub(*at));
        Some(format!("{by} has put the queue pair into the error state {before} before"))
    }

    /// The queue pair that another one is connected to.
    pub(super) fn peer(&self, qp: u32) -> Option<u32> {
        self.qps.get(&qp)?.peer
    }

    /// Whether a queue pair's peer, or the peer's process, had ended before a time.
    pub(super) fn peer_has_ended(&self, qp: u32, t: u64) -> bool {
        let peer = self.peer(qp).and_then(|peer| self.qps.get(&peer));
        peer.and_then(|peer| peer.end).is_some_and(|(_, end)| end < t)
    }

    /// What the record has to say to why a queue pair's request waits or fails at a time, and a
    /// cause that is more likely than the usual one.
    pub(super) fn evidence(
        &self,
        (qp, t): (u32, u64),
        reason: &Cause,
        who: impl Fn(u32) -> String,
    ) -> (String, Option<&'static str>) {
        match reason {
            Cause::ReceiverNotReady { .. } => (self.last_receive(self.peer(qp), t), None),
            Cause::NotTaken { why: Lost::NoReceive { qp } } => {
                (self.last_receive(Some(*qp), t), None)
            }
            Cause::NotTaken { why: Lost::NoQueuePair { qp: number } } => {
                (self.gone((qp, Some(*number)), t, who).0, None)
            }
            Cause::NoResponse { peer: Peer::Gone, .. } => self.gone((qp, self.peer(qp)), t, who),
            Cause::NoResponse { peer: Peer::NoPath, .. } => (self.down_ports(t), None),
            Cause::Key { key, .. } => self.keys.evidence((*key, t), who),
            _ => Default::default(),
        }
    }

    /// When the last receive was posted for a peer.
    fn last_receive(&self, peer: Option<u32>, t: u64) -> String {
        let peer = peer.filter(|_| self.is_complete);
        let Some((number, peer)) = peer.and_then(|peer| Some((peer, self.qps.get(&peer)?))) else {
            return String::new();
        };
        let queue = peer.srq.map_or(ReceiveQueue::Qp(number), ReceiveQueue::Srq);
        match self.receives.get(&queue) {
            Some(last) => {
                format!("; its last one was seen {} before", duration(t.saturating_sub(*last)))
            }
            None => "; none of its receives was seen in this record".into(),
        }
    }

    /// The ports that are down at a time.
    fn down_ports(&self, t: u64) -> String {
        let since = |(port, at): (&String, &u64)| {
            format!("; {port} went down {} before", duration(t.saturating_sub(*at)))
        };
        self.down.iter().map(since).collect()
    }

    /// What has become of the peer of a queue pair, which does not exist.
    fn gone(
        &self,
        (qp, peer): (u32, Option<u32>),
        t: u64,
        who: impl Fn(u32) -> String,
    ) -> (String, Option<&'static str>) {
        let Some(number) = peer else { return Default::default() };
        if number == 0 {
            let cause = "rdma_connect or rdma_accept of the peer without a queue pair (its qp_num \
                         is 0), or a dest_qp_num that was not set";
            return ("; dest_qp_num is 0".into(), Some(cause));
        }
        if let Some(Qp { process, end, .. }) = self.qps.get(&number) {
            let peer = who(*process);
            return match end {
                Some((end, at)) => {
                    let before = duration(t.saturating_sub(*at));
                    let (verb, cause) = match end {
                        End::Destroyed => (
                            format!("has destroyed qp {number}"),
                            "the peer destroys its queue \
                             pair before it has got everything, and without a word to this side",
                        ),
                        End::Process => ("has ended".into(), "the peer has ended"),
                    };
                    (format!("; {peer} {verb} {before} before"), Some(cause))
                }
                None => Default::default(),
            };
        }
        let mut why = format!("; no qp {number} was created in this record");
        let mut others: Vec<_> = self.qps.iter().collect();
        others.sort_by_key(|(other, _)| **other);
        let is_swapped = |other: u32| {
            other.swap_bytes() >> 8 == number || other.swap_bytes() & 0xff_ffff == number
        };
        let is_cause =
            |(other, known): &&(&u32, &Qp)| known.peer == Some(qp) || is_swapped(**other);
        if let Some((other, known)) = others.iter().find(is_cause) {
            let peer = who(known.process);
            why += &match is_swapped(**other) {
                true => format!(", and qp {other} of {peer} has the same bytes in another order"),
                false => format!(", and qp {other} of {peer} is connected to this one"),
            };
        }
        let cause = "dest_qp_num is none of the peer's numbers: exchanged wrongly (byte order, \
                     another queue pair's), or of one that was gone before the record began";
        (why, Some(cause))
    }
}
