//! Why a thread is blocked: where it waits, what would wake it, who would have to do that, and why it
//! does not come. Only what the state of a run shows is told; of a thread that just waits for work there is nothing.
//!
//! The state comes from a record, or is a fabric's at the moment: the same is said of both.

mod completions;
mod connecting;
mod events;
mod fabric;

use std::sync::Arc;

use crate::entry::Channel;
use crate::model::{Blocked, Doing, Run, Thread};
use crate::place::Place;
use crate::time::{duration, seconds};

pub use fabric::Finding;

/// The least time, in nanoseconds, after which a blocked thread is reported.
const HANG_NS: u64 = 1_000_000_000;

/// The reason why nothing comes, and its usual cause.
type Verdict = Option<(String, &'static str)>;

/// A thread that is blocked, and why.
#[derive(Clone, Debug)]
pub struct Hang {
    /// The thread.
    pub thread: Thread,
    /// Since when it is blocked.
    pub since: u64,
    /// What it does, in words that follow the process's name.
    pub what: String,
    /// Why what it waits for does not come.
    pub why: String,
    /// What usually causes that.
    pub cause: &'static str,
    /// Where in its program the thread is.
    pub source: Option<Arc<Place>>,
}

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

fn times(count: u64, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {many}") }
}

impl Moment<'_> {
    /// Threads that are blocked, of those that `is_meant` picks.
    pub fn blocked(&self, is_meant: impl Fn(Thread, &Blocked) -> bool) -> Vec<Hang> {
        let all = self.run.threads.all();
        let all =
            all.filter(|(thread, blocked)| self.is_long(blocked) && is_meant(*thread, blocked));
        let hangs = all.filter_map(|(thread, blocked)| {
            let (why, cause) = self.why(thread, blocked)?;
            let (what, source) = (self.doing(&blocked.doing), blocked.source.clone());
            Some(Hang { thread, since: blocked.since, what, why, cause, source })
        });
        hangs.collect()
    }

    fn is_long(&self, blocked: &Blocked) -> bool {
        self.t.saturating_sub(blocked.since) >= HANG_NS
    }

    /// In words that follow the process's name. Descriptors and the number of polls only the program knows.
    fn doing(&self, doing: &Doing) -> String {
        if self.run.knows_all { doing.brief() } else { doing.text() }
    }

    fn why(&self, (process, _): Thread, blocked: &Blocked) -> Verdict {
        match &blocked.doing {
            Doing::Waits { on: Channel::Completion, fd } => self.no_event(process, *fd),
            Doing::Waits { on: Channel::Connection, fd } => {
                self.no_connection_event((process, *fd), blocked.since)
            }
            Doing::Waits { on: Channel::Async, .. } => None,
            Doing::Polls { cq, .. } => self.polls_in_vain(*cq),
            Doing::Destroys { call, object, events } => {
                let taken = self.taken_events(process, object.number() as u32, call);
                let events = times((*events).into(), "event was", "events were");
                let why = format!(
                    "{events} taken of {} {object} and not acknowledged{taken}, and the call returns \
                     when that is done",
                    object.kind()
                );
                Some((why, acknowledgement(call)))
            }
        }
    }

    /// The events of an id that a program has taken.
    fn taken_events(&self, process: u32, number: u32, call: &str) -> String {
        let destroyed = self.run.ids.destroyed.get(&(process, number));
        let id = destroyed.filter(|_| call == "rdma_destroy_id");
        let events = id.map_or(&[][..], |id| &id.events);
        let texts = events
            .iter()
            .map(|(event, t, thread)| format!("{event} by thread {thread} {}", self.ago(*t)));
        let texts: Vec<_> = texts.collect();
        if texts.is_empty() { String::new() } else { format!(" (taken: {})", texts.join(", ")) }
    }

    /// When something was: how long before now, or in a record where it is to be found.
    fn ago(&self, t: u64) -> String {
        match self.is_now {
            true => format!("{} ago", duration(self.t.saturating_sub(t))),
            false => format!("at {}", seconds(t)),
        }
    }

    /// The same behind a word, if it is known.
    fn since(&self, word: &str, t: Option<u64>) -> String {
        t.map_or(String::new(), |t| format!("{word}{}", self.ago(t)))
    }

    /// Whether a process had not ended a while ago: of one that has just done so the threads are known as
    /// they were.
    fn lives(&self, process: u32) -> bool {
        let ended = self.run.processes.get(&process).and_then(|process| process.ended);
        ended.is_none_or(|end| end + HANG_NS > self.t)
    }

    /// A thread of a process that does nothing any more.
    fn idle(&self, process: u32) -> Option<&Blocked> {
        self.run.threads.blocked_since(process, self.t.saturating_sub(HANG_NS / 2))
    }

    /// Whether a process is taken to do nothing any more.
    fn is_idle(&self, process: u32) -> bool {
        self.is_asked || self.idle(process).is_some()
    }

    fn is_stopped(&self, process: u32) -> bool {
        self.run.processes.get(&process).is_some_and(|process| process.is_stopped)
    }
}

fn acknowledgement(call: &str) -> &'static str {
    match call {
        "rdma_destroy_id" => "rdma_ack_cm_event is missing, or comes after rdma_destroy_id",
        "ibv_destroy_cq" => "ibv_ack_cq_events is missing, or counts too few",
        _ => "ibv_ack_async_event is missing",
    }
}
