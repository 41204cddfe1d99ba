//! The arming of a completion queue, the completion that spends it, and the wake-up that follows.

use std::collections::HashMap;

use soft_hca_verbs::WcStatus;

use super::Correlation;
use super::model::Flow;
use crate::arguments::{channel, cq, number};
use crate::entry::{Channel, Outcome, What};

/// A channel: its process and descriptor.
type At = (u32, u32);

/// An arming that a completion has spent, so that there is an event.
struct Spent {
    cq: u32,
    armed: usize,
    completion: usize,
}

/// Finds wake-ups: as arrows from the arming, and in groups with the completion between.
pub(super) fn find(correlation: &mut Correlation<'_>) {
    let mut channels: HashMap<u32, At> = HashMap::new();
    let mut armed: HashMap<u32, (usize, bool)> = HashMap::new();
    let mut events: HashMap<At, Vec<Spent>> = HashMap::new();
    for (at, entry) in correlation.entries.iter().enumerate() {
        match &entry.what {
            What::Call(call) if call.name == "ibv_create_cq" => {
                if let (Some(fd), Outcome::Done(results)) =
                    (channel(&call.args, "channel"), &call.result)
                {
                    channels.extend(cq(results, "cq").map(|cq| (cq, (entry.process, fd))));
                }
            }
            What::Call(call) if call.name == "ibv_req_notify_cq" => {
                let Some(cq) = cq(&call.args, "cq") else { continue };
                let solicited_only =
                    number(&call.args, "solicited_only").is_some_and(|only| only != 0);
                armed.insert(cq, (at, solicited_only));
                // It was fetched without a wait.
                if let Some(events) = channels.get(&cq).and_then(|channel| events.get_mut(channel))
                {
                    events.retain(|event| event.cq != cq);
                }
            }
            What::Completion(done) => {
                let counts =
                    |only: bool| !only || done.solicited || done.status != WcStatus::SUCCESS;
                let Some((of, only)) = armed.get(&done.cq).copied() else { continue };
                if let Some(channel) = channels.get(&done.cq).filter(|_| counts(only)) {
                    armed.remove(&done.cq);
                    let spent = Spent { cq: done.cq, armed: of, completion: at };
                    events.entry(*channel).or_default().push(spent);
                }
            }
            What::Woken { on: Channel::Completion, fd, event: true, .. } => {
                let Some(events) = events.get_mut(&(entry.process, *fd)) else { continue };
                if !events.is_empty() {
                    let Spent { armed, completion, .. } = events.remove(0);
                    correlation.flows.push(Flow { from: armed, to: at });
                    correlation.groups.push(vec![armed, completion, at]);
                }
            }
            _ => {}
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

    /// What has led to wake-ups, by the numbers of entries behind those of [`begun`].
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
