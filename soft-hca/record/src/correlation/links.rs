//! Which entries belong together.

use std::collections::HashMap;

use soft_hca_verbs::WcStatus;

use super::connections::Connections;
use super::link::Sent;
use super::model::Flow;
use super::{Correlation, regions};
use crate::entry::What;
use crate::requests::{Arrival, Request, Requests};

/// Entries behind a completion among which its sender's is looked for.
const NEXT: usize = 64;

/// Finds all of it.
pub(super) fn find(correlation: &mut Correlation<'_>) {
    let mut requests = Requests::default();
    let mut connections = Connections::default();
    // Ends of waits that the event behind them belongs to, by process and thread.
    let mut woken: HashMap<(u32, Option<u32>), usize> = HashMap::new();
    let entries = correlation.entries;
    for (at, entry) in entries.iter().enumerate() {
        let effect = requests.entry(entry);
        regions::add(&mut correlation.regions, at, &effect);
        correlation.returns.extend(effect.returned.iter().map(|&from| Flow { from, to: at }));
        let thread = (entry.process, entry.thread);
        let woken_before = woken.remove(&thread);
        let ids = &requests.run.ids;
        match &entry.what {
            What::Call(call) => connections.call(at, (entry.process, call), ids, correlation),
            What::ConnectionEvent(event) => {
                correlation.groups.extend(woken_before.map(|woken| vec![woken, at]));
                connections.event(at, (entry.process, event), ids, correlation);
            }
            What::Woken { .. } => {
                woken.insert(thread, at);
                if let Some((armed, completion)) = effect.woken_by {
                    correlation.flows.push(Flow { from: armed, to: at });
                    correlation.groups.push(vec![armed, completion, at]);
                }
            }
            _ => {}
        }
    }
    transfers(&mut requests, correlation);
    correlation.run = requests.run;
    gather(correlation);
}

/// Tells send work requests from receives alone, of which some are the other receivers of a datagram, or the one at the
/// other end of the link.
fn transfers(requests: &mut Requests, correlation: &mut Correlation<'_>) {
    let (alone, sends): (Vec<_>, Vec<_>) =
        requests.all().into_iter().partition(Request::is_receive);
    correlation.transfers = sends;
    for (number, transfer) in correlation.transfers.iter().enumerate() {
        transfer.entries().for_each(|at| correlation.transfer[at] = Some(number));
    }
    let mut sent = Sent::new(correlation, &requests.run);
    for arrival in alone.into_iter().flat_map(|request| request.arrivals) {
        let Some(received) = arrival.completion else { continue };
        let by = sender(correlation, received).map(|transfer| (transfer, false));
        match by.or_else(|| Some((sent.of(correlation, received)?, true))) {
            Some((transfer, over_link)) => {
                let arrival = Arrival { over_link, ..arrival };
                arrival.entries().for_each(|at| correlation.transfer[at] = Some(transfer));
                correlation.transfers[transfer].arrivals.push(arrival);
            }
            None => {
                correlation.returned.extend(arrival.receive.map(|from| Flow { from, to: received }))
            }
        }
    }
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
    let is_wait = |pair: &&Flow| matches!(correlation.entries[pair.to].what, What::Woken { .. });
    let waits = correlation.returns.iter().filter(is_wait);
    for pair in waits.chain(&correlation.returned).chain(&correlation.packets) {
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
