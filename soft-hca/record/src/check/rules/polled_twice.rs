//! Extended polling that gives completions which had been polled before.
//!
//! In the rxe provider of rdma-core before 55 `ibv_next_poll` goes beyond the last completion, and `ibv_end_poll` once
//! more: the next `ibv_start_poll` finds all that the ring has kept.

use std::collections::BTreeMap;

use crate::check::found::{Found, Lookout, Scene};
use crate::check::rule::{Advice, Rule};
use crate::entry::What;
use crate::model::{CompletionQueue, Run};

pub(in crate::check) const ADVICE: Advice = Advice {
    why: "in the rxe provider of rdma-core before 55 the poll behind an ibv_next_poll that has emptied the queue finds old \
         completions as if they were new, and misses others; the program is right, and so are other adapters' providers",
    cure: "take rdma-core 55 or newer (soft-hca doctor says which one there is), or poll by ibv_poll_cq",
};

/// By completion queues, the extended poll since which more were polled than had come.
#[derive(Debug, Default)]
pub(in crate::check) struct PolledTwice(BTreeMap<u32, Found>);

impl PolledTwice {
    /// Judges a queue when all its completions are on record.
    fn ends(&mut self, number: u32, cq: &CompletionQueue) -> Option<Found> {
        let first = self.0.remove(&number)?;
        let more = cq.polled.checked_sub(cq.completions).filter(|more| *more > 0)?;
        let completions = if more == 1 { "completion" } else { "completions" };
        let what = format!("extended polls have given {more} {completions} more than had come");
        Some(Found { process: cq.process, what, ..first })
    }
}

impl Lookout for PolledTwice {
    fn entry(&mut self, scene: Scene<'_>, found: &mut Vec<Found>) {
        match &scene.entry.what {
            What::Completion(completion) if !completion.lost => {
                // The completion was on record behind the poll that has found it.
                let cq = scene.run.cqs.get(&completion.cq);
                if cq.is_some_and(|cq| cq.polled <= cq.completions) {
                    self.0.remove(&completion.cq);
                }
            }
            What::Polled(polled) if polled.extended => {
                let cq = scene.run.cqs.get(&polled.cq);
                if cq.is_some_and(|cq| cq.polled > cq.completions) {
                    let place = format!("cq {}", polled.cq);
                    let new = || scene.finds(Rule::PolledTwice, place, String::new());
                    self.0.entry(polled.cq).or_insert_with(new);
                }
            }
            _ => {}
        }
        if let Some((number, cq)) = &scene.effect.destroyed {
            found.extend(self.ends(*number, cq));
        }
    }

    fn end(&mut self, run: &Run, found: &mut Vec<Found>) {
        found.extend(run.cqs.iter().filter_map(|(number, cq)| self.ends(*number, cq)));
    }

    fn needs_all(&self) -> bool {
        true
    }
}
