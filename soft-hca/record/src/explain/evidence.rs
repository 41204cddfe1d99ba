//! Evidence from the state of a run for why a request waits or has failed: when receives were posted, what became of
//! the peer, whose key it was.

use soft_hca_verbs::cause::{Cause, Lost, Peer};

use crate::hang::Moment;
use crate::model::{End, QueuePair, Region};
use crate::time::duration;

/// The evidence, and a cause that is more likely than the usual one.
pub(super) type Evidence = (String, Option<&'static str>);

impl Moment<'_> {
    /// When something was.
    fn before(&self, t: u64) -> String {
        format!("{} before", duration(self.t.saturating_sub(t)))
    }

    /// The way in which its program has put the queue pair into the error state, if it has: receives
    /// that are flushed after that are no failure.
    pub(super) fn shut(&self, qp: u32) -> Option<String> {
        let (at, by) = self.run.qps.get(&qp).filter(|qp| !qp.has_failed)?.shut.as_ref()?;
        let by = by.as_deref().filter(|call| *call != "ibv_modify_qp").unwrap_or("its program");
        Some(format!("{by} has put the queue pair into the error state {}", self.before(*at)))
    }

    /// Whether a queue pair's peer, or the peer's process, had ended before.
    pub(super) fn peer_has_ended(&self, qp: u32) -> bool {
        let peer = self.run.peer(qp).and_then(|peer| self.run.qps.get(&peer));
        peer.and_then(|peer| peer.end).is_some_and(|(_, end)| end < self.t)
    }

    /// The evidence for a reason for which a request of a queue pair waits or fails.
    pub(super) fn evidence(&self, qp: u32, reason: &Cause) -> Evidence {
        let peer = || self.run.peer(qp);
        match reason {
            Cause::ReceiverNotReady { .. } => (self.last_receive(peer()), None),
            Cause::NotTaken { why: Lost::NoReceive { qp } } => (self.last_receive(Some(*qp)), None),
            Cause::NotTaken { why: Lost::NoQueuePair { qp: number } } => {
                (self.gone(qp, Some(*number)).0, None)
            }
            Cause::NoResponse { peer: Peer::Gone, .. } => self.gone(qp, peer()),
            Cause::NoResponse { peer: Peer::NoPath, .. } => (self.down_ports(), None),
            Cause::Key { key, .. } => self.key(*key),
            _ => Default::default(),
        }
    }

    /// When the last receive was posted for a peer.
    fn last_receive(&self, peer: Option<u32>) -> String {
        let peer = peer.filter(|_| self.run.has_sends);
        let Some(number) = peer.filter(|peer| self.run.qps.contains_key(peer)) else {
            return String::new();
        };
        match self.run.receives_of(number).and_then(|receives| receives.last_posted) {
            Some(last) => format!("; its last one was seen {}", self.before(last)),
            None => "; none of its receives was seen in this record".into(),
        }
    }

    /// The ports that are down.
    fn down_ports(&self) -> String {
        let since =
            |(port, at): (&String, &u64)| format!("; {port} went down {}", self.before(*at));
        self.run.down.iter().map(since).collect()
    }

    /// The evidence about a key that was refused because no region has it.
    fn key(&self, key: u32) -> Evidence {
        let of = |region: &Region| {
            let Region { process, object, .. } = region;
            format!("{} {object} of {}", object.kind(), self.run.name(*process))
        };
        let swapped = key.swap_bytes();
        match (self.run.regions.of_key(key), self.run.regions.of_key(swapped)) {
            (Some(region @ Region { gone: Some(gone), .. }), _) => {
                let gone = self.before(*gone);
                let why = format!("; it was that of {}, deregistered {gone}", of(region));
                (why, Some("the region was deregistered before the work request was done"))
            }
            // Another process's, or a window that was invalidated.
            (Some(region), _) => (format!("; it is that of {}", of(region)), None),
            (None, Some(region)) => {
                let why = format!(
                    "; {swapped:#x}, the same bytes in another order, is that of {}",
                    of(region)
                );
                (why, Some("byte order: the rkey was sent without htonl and ntohl"))
            }
            (None, None) => Default::default(),
        }
    }

    /// The fate of a queue pair's peer, which does not exist.
    fn gone(&self, qp: u32, peer: Option<u32>) -> Evidence {
        let Some(number) = peer else { return Default::default() };
        if number == 0 {
            let cause = "rdma_connect or rdma_accept of the peer without a queue pair (its qp_num \
                         is 0), or a dest_qp_num that was not set";
            return ("; dest_qp_num is 0".into(), Some(cause));
        }
        if let Some(QueuePair { process, end, .. }) = self.run.qps.get(&number) {
            let peer = self.run.name(*process);
            return match end {
                Some((end, at)) => {
                    let before = self.before(*at);
                    let (verb, cause) = match end {
                        End::Destroyed => (
                            format!("has destroyed qp {number}"),
                            "the peer destroys its queue \
                             pair before it has got everything, and without a word to this side",
                        ),
                        End::Process => ("has ended".into(), "the peer has ended"),
                    };
                    (format!("; {peer} {verb} {before}"), Some(cause))
                }
                None => Default::default(),
            };
        }
        let mut why = format!("; no qp {number} was created in this record");
        let mut others = self.run.qps.iter();
        let is_swapped = |other: u32| {
            other.swap_bytes() >> 8 == number || other.swap_bytes() & 0xff_ffff == number
        };
        let is_cause =
            |(other, known): &(&u32, &QueuePair)| known.peer == Some(qp) || is_swapped(**other);
        if let Some((other, known)) = others.find(is_cause) {
            let peer = self.run.name(known.process);
            why += &match is_swapped(*other) {
                true => format!(", and qp {other} of {peer} has the same bytes in another order"),
                false => format!(", and qp {other} of {peer} is connected to this one"),
            };
        }
        let cause = "dest_qp_num is none of the peer's numbers: exchanged wrongly (byte order, \
                     another queue pair's), or of one that was gone before the record began";
        (why, Some(cause))
    }
}
