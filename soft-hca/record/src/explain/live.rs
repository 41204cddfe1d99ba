//! Problems while they happen: a line for each, once.

use std::collections::HashMap;

use soft_hca_verbs::WcStatus;

use super::{Explainer, Problem, STALL_NS};
use crate::entry::{Entry, What};
use crate::words::{times, without_numbers};

/// Something that was told, and how often it has happened since.
#[derive(Debug)]
struct Report {
    what: String,
    again: u64,
}

/// Tells what goes wrong in a record that grows.
#[derive(Debug, Default)]
pub struct Live {
    explainer: Explainer,
    told: HashMap<(u32, String), Report>,
}

impl Live {
    /// At the beginning of a record.
    pub fn new() -> Self {
        Self::default()
    }

    /// New problems that an entry shows. Flushed work requests are none: their queue
    /// pair has failed, or the program has put it into the error state.
    pub fn entry(&mut self, entry: &Entry) -> Vec<String> {
        let problems = self.explainer.problems(entry);
        let is_flushed = match &entry.what {
            What::Completion(completion) => {
                completion.status == WcStatus::WR_FLUSH_ERR && !completion.lost
            }
            What::Executed(executed) => executed.status == WcStatus::WR_FLUSH_ERR,
            _ => false,
        };
        let news = problems.into_iter().filter(|problem| !is_flushed && problem.is_news());
        news.filter_map(|problem| self.tell(problem)).collect()
    }

    /// Threads and requests that have waited for a second or longer at a time of the record, and were not reported yet.
    pub fn waiting(&mut self, t: u64) -> Vec<String> {
        let waiting = self.explainer.waiting(t, STALL_NS);
        waiting.into_iter().filter_map(|problem| self.tell(problem)).collect()
    }

    /// When the record ends: what has happened again after it was told.
    pub fn end(&mut self) -> Vec<String> {
        let told = self.told.drain().map(|(_, told)| told).filter(|told| told.again > 0);
        let mut lines: Vec<_> = told
            .map(|Report { what, again }| {
                format!("{}: {what}\n", times(again, "more time", "more times"))
            })
            .collect();
        lines.sort();
        lines
    }

    fn tell(&mut self, problem: Problem) -> Option<String> {
        let Problem { process, what, why, cause, source, .. } = problem;
        let key = (process, without_numbers(&what));
        if let Some(told) = self.told.get_mut(&key) {
            told.again += 1;
            return None;
        }
        let source = source.filter(|source| source.line.is_some());
        let place = source.map(|source| format!("; in {source}")).unwrap_or_default();
        let line = format!("{what}: {why}; usual cause: {cause}{place}\n");
        self.told.insert(key, Report { what, again: 0 });
        Some(line)
    }
}
