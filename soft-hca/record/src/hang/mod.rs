//! Why a thread is blocked: where it waits, what would wake it, who would have to do that, and why it
//! does not come. Only what the state of a run shows is told; a thread that just waits for work is not mentioned.
//!
//! The state comes from a record, or is a fabric's at the moment: the same is said of both.

mod completions;
mod connecting;
mod events;
mod fabric;
mod moment;

use std::sync::Arc;

use crate::entry::Channel;
use crate::model::{Blocked, Doing, Thread};
use crate::place::Place;
use crate::words::times;

pub use fabric::Finding;
pub use moment::Moment;
use moment::Verdict;

/// A thread that is blocked, and why.
#[derive(Clone, Debug)]
pub struct Hang {
    /// The thread.
    pub thread: Thread,
    /// Since when it is blocked.
    pub since: u64,
    /// The call, in words that follow the process's name.
    pub what: String,
    /// The reason why it is not woken.
    pub why: String,
    /// The usual cause.
    pub cause: &'static str,
    /// Where in its program the thread is.
    pub source: Option<Arc<Place>>,
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
}

fn acknowledgement(call: &str) -> &'static str {
    match call {
        "rdma_destroy_id" => "rdma_ack_cm_event is missing, or comes after rdma_destroy_id",
        "ibv_destroy_cq" => "ibv_ack_cq_events is missing, or counts too few",
        _ => "ibv_ack_async_event is missing",
    }
}
