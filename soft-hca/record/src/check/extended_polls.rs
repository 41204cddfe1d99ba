//! Extended polling that gives completions which had been polled before.
//!
//! In the rxe provider of rdma-core before 55 `ibv_next_poll` goes beyond the last completion, and `ibv_end_poll` once
//! more: the next `ibv_start_poll` finds all that the ring has kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Found, Rule, done, source};
use crate::arguments;
use crate::entry::{Call, Entry, What};
use crate::place::Place;

/// The completion queues that are there, by their numbers.
#[derive(Debug, Default)]
pub(super) struct ExtendedPolls(BTreeMap<u32, Queue>);

#[derive(Debug, Default)]
struct Queue {
    process: u32,
    /// Completions that have come.
    completions: u64,
    /// Completions that were polled.
    polled: u64,
    /// The time and place of the extended poll since which more were polled than had come.
    since: Option<(u64, Option<Arc<Place>>)>,
}

impl ExtendedPolls {
    pub(super) fn entry(&mut self, entry: &Entry, found: &mut Vec<Found>) {
        match &entry.what {
            What::Call(call) => self.call(entry, call, found),
            What::Completion(completion) if !completion.lost => {
                if let Some(queue) = self.0.get_mut(&completion.cq) {
                    queue.completions += 1;
                    // The completion was on record behind the poll that has found it.
                    if queue.polled <= queue.completions {
                        queue.since = None;
                    }
                }
            }
            What::Polled(polled) => {
                if let Some(queue) = self.0.get_mut(&polled.cq) {
                    queue.polled += u64::from(polled.found);
                    if polled.extended && queue.polled > queue.completions {
                        queue.since.get_or_insert_with(|| (entry.t, source(entry)));
                    }
                }
            }
            _ => {}
        }
    }

    fn call(&mut self, entry: &Entry, call: &Call, found: &mut Vec<Found>) {
        let Some((args, given)) = done(call) else { return };
        match call.name.as_str() {
            "ibv_create_cq" | "ibv_create_cq_ex" => {
                if let Some(cq) = arguments::cq(given, "cq") {
                    self.0.insert(cq, Queue { process: entry.process, ..Queue::default() });
                }
            }
            "ibv_destroy_cq" => {
                let cq = arguments::cq(args, "cq");
                let queue = cq.and_then(|cq| Some((cq, self.0.remove(&cq)?)));
                found.extend(queue.and_then(|(cq, queue)| queue.ends(cq)));
            }
            _ => {}
        }
    }

    /// The record ends.
    pub(super) fn end(self, found: &mut Vec<Found>) {
        found.extend(self.0.into_iter().filter_map(|(cq, queue)| queue.ends(cq)));
    }
}

impl Queue {
    /// Judges the queue when all its completions are on record.
    fn ends(self, cq: u32) -> Option<Found> {
        let (t, source) = self.since?;
        let more = self.polled.checked_sub(self.completions).filter(|more| *more > 0)?;
        let completions = if more == 1 { "completion" } else { "completions" };
        Some(Found {
            rule: Rule::PolledTwice,
            process: self.process,
            place: format!("cq {cq}"),
            what: format!("extended polls have given {more} {completions} more than had come"),
            t,
            source,
        })
    }
}
