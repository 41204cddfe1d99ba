//! The state of a run at a time, and what is said of a time, a thread and a process in it.

use crate::model::{Blocked, Doing, Run};
use crate::time::{duration, seconds};

/// The least time, in nanoseconds, after which a blocked thread is reported.
pub(super) const HANG_NS: u64 = 1_000_000_000;

/// The reason why nothing comes, and its usual cause.
pub(super) type Verdict = Option<(String, &'static str)>;

/// The state of a run at a time.
#[derive(Clone, Copy)]
pub struct Moment<'a> {
    /// The state.
    pub run: &'a Run,
    /// The time, as in [`Entry::t`](crate::Entry::t).
    pub t: u64,
    /// It is now, and not in a record, where entries can be looked up.
    pub is_now: bool,
    /// Somebody asks, so that what other threads of a program may do is left out of account. Else only what is
    /// surely wrong is told.
    pub is_asked: bool,
}

impl<'r> Moment<'r> {
    /// A time of a record.
    pub(crate) fn of_record(run: &'r Run, t: u64) -> Self {
        Self { run, t, is_now: false, is_asked: false }
    }
}

impl Moment<'_> {
    pub(super) fn is_long(&self, blocked: &Blocked) -> bool {
        self.t.saturating_sub(blocked.since) >= HANG_NS
    }

    /// In words that follow the process's name. Descriptors and the number of polls only the program knows.
    pub(super) fn doing(&self, doing: &Doing) -> String {
        if self.run.knows_all { doing.brief() } else { doing.text() }
    }

    /// When something was: how long before now, or in a record where it is to be found.
    pub(super) fn ago(&self, t: u64) -> String {
        match self.is_now {
            true => format!("{} ago", duration(self.t.saturating_sub(t))),
            false => format!("at {}", seconds(t)),
        }
    }

    /// The same behind a word, if it is known.
    pub(super) fn since(&self, word: &str, t: Option<u64>) -> String {
        t.map_or(String::new(), |t| format!("{word}{}", self.ago(t)))
    }

    /// Whether a process had not ended a while ago: of one that has just done so the threads are known as
    /// they were.
    pub(super) fn lives(&self, process: u32) -> bool {
        let ended = self.run.processes.get(&process).and_then(|process| process.ended);
        ended.is_none_or(|end| end + HANG_NS > self.t)
    }

    /// A thread of a process that does nothing any more.
    pub(super) fn idle(&self, process: u32) -> Option<&Blocked> {
        self.run.threads.blocked_since(process, self.t.saturating_sub(HANG_NS / 2))
    }

    /// Whether a process is taken to do nothing any more.
    pub(super) fn is_idle(&self, process: u32) -> bool {
        self.is_asked || self.idle(process).is_some()
    }

    pub(super) fn is_stopped(&self, process: u32) -> bool {
        self.run.processes.get(&process).is_some_and(|process| process.is_stopped)
    }
}
