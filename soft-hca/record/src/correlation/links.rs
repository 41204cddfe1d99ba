//! Which entries belong together.

use std::collections::HashMap;

use soft_hca_verbs::WcStatus;

use super::connections::Connections;
use super::link::Sent;
use super::model::{Arrival, Flow};
use super::regions;
use super::{Correlation, Transfer};
use crate::entry::{Channel, What};
use crate::requests::{Matching, Request};

/// What has been seen so far.
#[derive(Default)]
struct Seen {
    /// The state of the run, and its work requests.
    matching: Matching,
    /// The participant of each process.
    participant: HashMap<u32, usize>,
    /// Threads that wait.
    waits: HashMap<(usize, Option<u32>, ChannelFd), usize>,
    /// A wait's end that the event behind it belongs to.
    woken: HashMap<(usize, Option<u32>), usize>,
    connections: Connections,
}

/// Entries behind a completion among which its sender's is looked for.
const NEXT: usize = 64;

/// A channel and its descriptor.
type ChannelFd = (Channel, u32);

/// Finds all of it.
pub(super) fn find(correlation: &mut Correlation<'_>) {
    let mut seen = Seen::default();
    let entries = correlation.entries;
    for (at, entry) in entries.iter().enumerate() {
        let (participant, thread) = (correlation.participant[at], entry.thread);
        seen.participant.insert(entry.process, participant);
        let effect = seen.matching.add(entry);
        regions::add(&mut correlation.regions, at, &effect);
        let woken = seen.woken.remove(&(participant, thread));
        match &entry.what {
            What::Call(call) => {
                let ids = &seen.matching.run.ids;
                seen.connections.call(at, (entry.process, call), ids, correlation);
            }
            What::ConnectionEvent(event) => {
                correlation.groups.extend(woken.map(|woken| vec![woken, at]));
                let ids = &seen.matching.run.ids;
                seen.connections.event(at, (entry.process, event), ids, correlation);
            }
            What::Wait { on, fd } => {
                seen.waits.insert((participant, thread, (*on, *fd)), at);
            }
            What::Woken { on, fd, .. } => {
                if let Some(from) = seen.waits.remove(&(participant, thread, (*on, *fd))) {
                    correlation.waits.push(Flow { from, to: at });
                }
                seen.woken.insert((participant, thread), at);
                if let Some((armed, completion)) = effect.woken_by {
                    correlation.flows.push(Flow { from: armed, to: at });
                    correlation.groups.push(vec![armed, completion, at]);
                }
            }
            _ => {}
        }
    }
    transfers(&mut seen, correlation);
    for transfer in 0..correlation.transfers.len() {
        let peer = seen.peer_of(&correlation.transfers[transfer], correlation);
        correlation.transfers[transfer].peer = peer;
    }
    correlation.run = seen.matching.run;
    gather(correlation);
}

impl Seen {
    /// The participant that has a queue pair.
    fn owner(&self, qp: u32) -> Option<usize> {
        let process = self.matching.run.qps.get(&qp)?.process;
        self.participant.get(&process).copied()
    }

    /// Whom a work request is for.
    fn peer_of(&self, transfer: &Transfer, correlation: &Correlation<'_>) -> Option<usize> {
        if let Some(arrival) = transfer.arrivals.first() {
            return Some(arrival.participant);
        }
        let at = transfer.posted.or(transfer.executed)?;
        let qp = match &correlation.entries[at].what {
            What::SendPosted(send) => send.qp,
            What::Executed(executed) => executed.qp,
            _ => return None,
        };
        let connected = self.matching.run.peer(qp).and_then(|peer| self.owner(peer));
        connected.or_else(|| match correlation.participants.len() {
            2 => Some(1 - correlation.participant[at]),
            _ => None,
        })
    }
}

/// Makes a transfer of each send work request with what belongs to it.
fn transfers(seen: &mut Seen, correlation: &mut Correlation<'_>) {
    let all = seen.matching.requests();
    let is_alone = |request: &Request| {
        (request.posted, request.executed, request.completion) == (None, None, None)
    };
    let (alone, sends): (Vec<_>, Vec<_>) = all.into_iter().partition(is_alone);
    for request in sends {
        let met = request.executed.and_then(|at| match &correlation.entries[at].what {
            What::Executed(executed) => executed.receive.as_ref(),
            _ => None,
        });
        let own = request.entries().next().map_or(0, |at| correlation.participant[at]);
        let arrivals = met.map(|met| Arrival {
            participant: seen.participant.get(&met.process).copied().unwrap_or(own),
            receive: request.receive,
            completion: request.received,
        });
        put(
            correlation,
            Transfer {
                posted: request.posted,
                stalls: request.stalls,
                executed: request.executed,
                completion: request.completion,
                arrivals: arrivals.into_iter().collect(),
                over_link: false,
                peer: None,
            },
        );
    }
    let mut sent = Sent::new(correlation, &seen.matching.run);
    for request in alone {
        let Some(received) = request.received else { continue };
        let over_link = || Some((sent.of(correlation, received)?, true));
        let by = sender(correlation, received).map(|transfer| (transfer, false));
        match by.or_else(over_link) {
            // One of several receivers of a datagram, or the one at the other end of the link.
            Some((transfer, over_link)) => {
                correlation.transfers[transfer].over_link = over_link;
                let participant = correlation.participant[received];
                let receive = request.receive;
                let completion = request.received;
                correlation.transfers[transfer].arrivals.push(Arrival {
                    participant,
                    receive,
                    completion,
                });
                for at in request.entries() {
                    correlation.transfer[at] = Some(transfer);
                }
            }
            None => {
                correlation.returned.extend(request.receive.map(|from| Flow { from, to: received }))
            }
        }
    }
}

fn put(correlation: &mut Correlation<'_>, transfer: Transfer) {
    for at in transfer.entries() {
        correlation.transfer[at] = Some(correlation.transfers.len());
    }
    correlation.transfers.push(transfer);
}

/// The datagram that another process has put into a receive: what it executes next.
fn sender(correlation: &Correlation<'_>, received: usize) -> Option<usize> {
    let by = correlation.entries[received].by?;
    let is_success = matches!(&correlation.entries[received].what, What::Completion(done) if done.status == WcStatus::SUCCESS);
    let mut behind = correlation.entries[received..].iter().zip(received..).take(NEXT);
    let (_, at) = behind
        .find(|(entry, _)| entry.process == by && matches!(entry.what, What::Executed(_)))
        .filter(|_| is_success)?;
    correlation.transfer[at]
}

/// Makes groups of transfers and waits, and lists each entry's groups.
fn gather(correlation: &mut Correlation<'_>) {
    for transfer in &correlation.transfers {
        let mut entries: Vec<_> = transfer.entries().collect();
        entries.sort_unstable();
        correlation.groups.push(entries);
    }
    for pair in correlation.waits.iter().chain(&correlation.returned).chain(&correlation.packets) {
        correlation.groups.push(vec![pair.from, pair.to]);
    }
    correlation.groups.retain(|group| group.len() > 1);
    correlation.groups_of = vec![Vec::new(); correlation.entries.len()];
    for (number, group) in correlation.groups.iter_mut().enumerate() {
        group.sort_unstable();
        group.dedup();
        for &at in group.iter() {
            correlation.groups_of[at].push(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::correlation::Correlation;
    use crate::testing::{CHANNEL, Run, begun, header};

    fn arms(run: &mut Run, solicited_only: u32) {
        let args = json!([["cq", {"cq": 2}], ["solicited_only", solicited_only]]);
        run.call(0, "ibv_req_notify_cq", args, json!([]));
    }

    fn wakes(run: &mut Run) {
        let woken = json!({ "thread": 4720, "on": "completion", "fd": CHANNEL, "waited": 9, "event": true });
        run.put(50, 0, "woken", woken);
    }

    /// Armings and completions that have led to wake-ups, by the numbers of entries behind those of [`begun`].
    fn found(run: &Run) -> Vec<(usize, usize)> {
        let (header, first) = (header(), begun().entries().len());
        let correlation = Correlation::new(&header, run.entries());
        correlation.flows.iter().map(|flow| (flow.from - first, flow.to - first)).collect()
    }

    #[test]
    fn an_arming_leads_to_the_wake_up_behind_its_completion() {
        let mut run = begun();
        run.comes(5, false);
        arms(&mut run, 0);
        run.waits_at_channel().comes(5, false);
        wakes(&mut run);
        assert_eq!(found(&run), [(1, 4)]);
        let header = header();
        let correlation = Correlation::new(&header, run.entries());
        let first = begun().entries().len();
        let group = [1, 3, 4].map(|at| first + at);
        assert!(
            correlation.groups.contains(&group.to_vec()),
            "the completion between belongs to it"
        );
    }

    #[test]
    fn only_what_is_asked_for_spends_it() {
        let mut run = begun();
        arms(&mut run, 1);
        run.comes(5, false);
        wakes(&mut run);
        assert_eq!(found(&run), []);
        run.comes(5, true);
        wakes(&mut run);
        assert_eq!(found(&run), [(0, 4)]);
    }

    #[test]
    fn an_event_that_was_fetched_without_a_wait_is_gone() {
        let mut run = begun();
        arms(&mut run, 0);
        run.comes(5, false);
        arms(&mut run, 0);
        run.waits_at_channel().comes(5, false);
        wakes(&mut run);
        assert_eq!(found(&run), [(2, 5)]);
    }
}
