//! The state of threads, queues and ids, as the entries so far tell.

use std::collections::BTreeMap;

use super::ids::Ids;
use super::queues::Queues;
use super::threads::{Blocked, Threads};
use crate::entry::{Entry, What};
use crate::explain::stalled::Stalled;
use crate::time::{duration, seconds};

/// The least time, in nanoseconds, after which a blocked thread is reported.
pub(super) const HANG_NS: u64 = 1_000_000_000;

/// The reason why nothing comes, and its usual cause.
pub(super) type Verdict = Option<(String, &'static str)>;

/// The state of a run.
#[derive(Debug, Default)]
pub(in crate::explain) struct Hangs {
    pub(super) threads: Threads,
    pub(super) queues: Queues,
    pub(super) ids: Ids,
    /// When processes have ended.
    pub(super) ended: BTreeMap<u32, u64>,
}

/// The rest that an explanation needs: the time, names of processes, and requests that wait.
pub(in crate::explain) struct Around<'a> {
    pub(in crate::explain) t: u64,
    pub(in crate::explain) who: &'a dyn Fn(u32) -> String,
    pub(in crate::explain) stalled: &'a BTreeMap<u32, Stalled>,
    /// It is told while it happens: nobody looks entries up.
    pub(in crate::explain) is_live: bool,
}

impl Around<'_> {
    /// When something was: how long before now, or in a record where it is to be found.
    pub(super) fn ago(&self, t: u64) -> String {
        match self.is_live {
            true => format!("{} ago", duration(self.t.saturating_sub(t))),
            false => format!("at {}", seconds(t)),
        }
    }
}

impl Hangs {
    /// Another entry.
    pub(in crate::explain) fn entry(&mut self, entry: &Entry) {
        self.threads.entry(entry);
        self.queues.entry(entry);
        self.ids.entry(entry);
        if matches!(entry.what, What::ProcessEnded { .. }) {
            self.ended.insert(entry.process, entry.t);
        }
    }

    /// Whether a process had not ended a while ago: of one that has just done so the threads are known as
    /// they were.
    pub(super) fn lives(&self, process: u32, t: u64) -> bool {
        self.ended.get(&process).is_none_or(|end| end + HANG_NS > t)
    }

    /// A thread of a process that does nothing any more.
    pub(super) fn idle(&self, process: u32, around: &Around<'_>) -> Option<&Blocked> {
        self.threads.blocked_since(process, around.t.saturating_sub(HANG_NS / 2))
    }
}
