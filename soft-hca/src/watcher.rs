//! The checker and the explainer of a run, while it runs or afterwards.

use soft_hca_daemon::device::like;
use soft_hca_record::Entry;
use soft_hca_record::check::{Checker, Finding};
use soft_hca_record::explain::Explainer;

/// The checker and the explainer of a run: mistakes that the program got away with, and the number of failures,
/// which other commands explain.
#[derive(Debug, Default)]
pub struct Watcher {
    checker: Checker,
    explainer: Explainer,
    problems: usize,
}

/// The results of a run.
pub(super) struct Seen {
    pub(super) findings: Vec<Finding>,
    /// See [`Checker::unseen`].
    pub(super) unseen: Vec<String>,
    /// The number of problems that [`Explainer`] has found.
    pub(super) problems: usize,
}

impl Watcher {
    /// A watcher of a run; its device may have the limits of an adapter, and its ports so many P_Keys.
    pub fn new(adapter: Option<String>, pkeys: u16) -> Self {
        let profile = adapter.as_deref().and_then(like::profile);
        let lacks_atomics = profile.is_some_and(|profile| !profile.has_atomics());
        let checker = Checker::like(adapter, lacks_atomics, pkeys);
        Self { checker, ..Self::default() }
    }

    /// Takes the next entry.
    pub fn entry(&mut self, entry: &Entry) {
        self.checker.entry(entry);
        self.problems += self.explainer.problems(entry).len();
    }

    /// Ends the run.
    pub(super) fn end(mut self) -> Seen {
        let problems = self.problems + self.explainer.rest().len();
        Seen { unseen: self.checker.unseen(), findings: self.checker.end(), problems }
    }
}
