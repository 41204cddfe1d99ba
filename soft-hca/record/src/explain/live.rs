//! What goes wrong while it happens: a line for each, once.

use std::collections::HashMap;

use super::{Explainer, Problem};
use crate::entry::{Entry, What};

/// Who waits for less, in nanoseconds, is not told of: programs that keep up wait now and then.
const STALL_NS: u64 = 1_000_000_000;

/// Something that was told, and how often it has happened since.
#[derive(Debug)]
struct Told {
    what: String,
    again: u64,
}

/// Tells what goes wrong in a record that grows.
#[derive(Debug, Default)]
pub struct Live {
    explainer: Explainer,
    told: HashMap<(u32, String), Told>,
}

/// A text without its numbers: what is the same but for them is told once.
fn kind(text: &str) -> String {
    let is_word = |word: &&str| !word.contains(|c: char| c.is_ascii_digit());
    text.split([' ', '=']).filter(is_word).collect::<Vec<_>>().join(" ")
}

impl Live {
    /// At the beginning of a record.
    pub fn new() -> Self {
        Self::default()
    }

    /// What an entry tells of, if that is something new. Work requests that were flushed are not:
    /// their queue pair has failed, or the program has put it into the error state.
    pub fn entry(&mut self, entry: &Entry) -> Option<String> {
        let problem = self.explainer.problem(entry)?;
        let is_flushed = |status: &str| status == "IBV_WC_WR_FLUSH_ERR";
        match &entry.what {
            What::Completion(completion) if is_flushed(&completion.status) => None,
            What::Executed(executed) if is_flushed(&executed.status) => None,
            _ => self.tell(problem),
        }
    }

    /// Who has waited for a second or longer at a time of the record, and was not told of yet.
    pub fn waiting(&mut self, t: u64) -> Vec<String> {
        let waiting = self.explainer.waiting(t, STALL_NS);
        waiting.into_iter().filter_map(|problem| self.tell(problem)).collect()
    }

    /// When the record ends: what has happened again after it was told.
    pub fn end(&mut self) -> Vec<String> {
        let told = self.told.drain().map(|(_, told)| told).filter(|told| told.again > 0);
        let mut lines: Vec<_> = told
            .map(|Told { what, again }| {
                let times = if again == 1 { "time" } else { "times" };
                format!("{again} more {times}: {what}\n")
            })
            .collect();
        lines.sort();
        lines
    }

    fn tell(&mut self, problem: Problem) -> Option<String> {
        let Problem { process, what, why, cause, .. } = problem;
        let key = (process, kind(&what));
        if let Some(told) = self.told.get_mut(&key) {
            told.again += 1;
            return None;
        }
        let line = format!("{what}: {why}; usual cause: {cause}\n");
        self.told.insert(key, Told { what, again: 0 });
        Some(line)
    }
}
