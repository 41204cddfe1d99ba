//! Completion queues.

use std::collections::VecDeque;
use std::iter::repeat_n;

use soft_hca_verbs::WcStatus;

use super::receives::Receive;
use crate::arguments;
use crate::entry::{Completion, Polled};
use crate::value::Named;

/// The most completions that are remembered of a queue that is not seen to be polled.
const MOST: usize = 1 << 16;

/// Whether, and since when, the next completion of a queue gives an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Armed {
    /// It was never armed.
    #[default]
    Never,
    /// It was armed at a time, and that has given its event.
    Spent {
        /// When it was armed.
        t: u64,
    },
    /// It is not; whether it ever was is not known.
    No,
    /// It is, since a time, if that is known.
    Yes {
        /// When it was armed.
        t: Option<u64>,
        /// Only solicited completions and errors give an event.
        solicited_only: bool,
    },
}

/// A completion that nobody has polled.
#[derive(Clone, Debug)]
pub struct Unpolled {
    /// The queue pair.
    pub qp: u32,
    /// The name of the request.
    pub wr_id: u64,
    /// Its status is another than success.
    pub has_failed: bool,
    /// Whether it is a message's.
    pub is_receive: bool,
    /// The receive that it is of, if that was seen.
    pub receive: Option<Receive>,
    /// The entry of the send's post, or of its execution if that came first, by its number.
    pub send: Option<usize>,
    /// The number of its own entry.
    pub at: usize,
}

/// A completion queue.
#[derive(Clone, Debug, Default)]
pub struct CompletionQueue {
    /// Its process.
    pub process: u32,
    /// Completions that were requested at creation. The provider may have given more.
    pub cqe: u64,
    /// Descriptor of its completion channel.
    pub channel: Option<u32>,
    /// Its arming.
    pub armed: Armed,
    /// How often it was armed.
    pub arms: u32,
    /// When the call that has armed it last was over.
    pub armed_until: u64,
    /// Completions that have come, but for those that found it full.
    pub completions: u64,
    /// Completions that were polled.
    pub polled: u64,
    /// The number of completions with the last one that is solicited, or an error.
    pub last_solicited: u64,
    /// When the last completion came.
    pub last: Option<u64>,
    /// When the last event was given.
    pub event: Option<u64>,
    /// The thread that has polled it last.
    pub poller: Option<u32>,
    /// Completions that nobody has polled, the oldest first.
    pub unpolled: VecDeque<Unpolled>,
    /// Requests that will complete to it, or have, and whose completion was not polled.
    pub pending: u64,
    /// Queue pairs whose failures were polled behind other completions: the program may not have looked at them
    /// before it polls again.
    pub failed_behind: Vec<u32>,
    /// Entries were missing while it was there: completions and polls of it are unknown.
    pub is_partial: bool,
    /// Polls, by their entries' numbers, that have given completions which were not on record by then.
    pub early: VecDeque<usize>,
    /// The entry that has armed it, until a completion that gives an event, by its number.
    pub armed_by: Option<usize>,
    /// The entries of an arming and of the completion that has given its event, until a thread has taken it.
    pub gives: Option<(usize, usize)>,
    /// Its event waits in the channel; known of a fabric, not of a record.
    pub has_event: bool,
}

impl CompletionQueue {
    /// One that was created by a call with these arguments.
    pub(super) fn new(process: u32, args: &[Named]) -> Self {
        let cqe = arguments::number(args, "cqe").unwrap_or(u64::MAX);
        Self { process, cqe, channel: arguments::channel(args, "channel"), ..Self::default() }
    }

    /// Completions that nobody has polled.
    pub fn waiting(&self) -> u64 {
        self.completions.saturating_sub(self.polled)
    }

    /// Whether completions have come, and none was ever polled.
    pub fn is_new(&self) -> bool {
        self.completions > 0 && self.polled == 0
    }

    /// `ibv_req_notify_cq` in an entry of this number and time, which took so many nanoseconds.
    pub(super) fn arms(&mut self, (at, t): (usize, u64), duration: u64, solicited_only: bool) {
        // The stronger request stays.
        let solicited_only = match self.armed {
            Armed::Yes { solicited_only: before, .. } => solicited_only && before,
            _ => solicited_only,
        };
        self.armed = Armed::Yes { t: Some(t), solicited_only };
        self.armed_until = t + duration;
        self.arms += 1;
        // An event that was there was fetched without a wait.
        (self.armed_by, self.gives) = (Some(at), None);
    }

    /// A completion is put into it, by an entry of a time. Gives the entry of the poll that has given it to the program,
    /// if that was before.
    pub(super) fn completes(
        &mut self,
        t: u64,
        completion: &Completion,
        unpolled: Unpolled,
    ) -> Option<(usize, Unpolled)> {
        let at = unpolled.at;
        let is_meant = completion.solicited || completion.status != WcStatus::SUCCESS;
        (self.completions, self.last) = (self.completions + 1, Some(t));
        if is_meant {
            self.last_solicited = self.completions;
        }
        if let Armed::Yes { t: Some(armed), solicited_only } = self.armed {
            if !solicited_only || is_meant {
                self.gives = self.armed_by.take().map(|armed| (armed, at)).or(self.gives);
                // One that comes while the queue is being armed may be before or behind that.
                if t >= self.armed_until {
                    (self.armed, self.event) = (Armed::Spent { t: armed }, Some(t));
                }
            }
        }
        if let Some(poll) = self.early.pop_front() {
            return Some((poll, unpolled));
        }
        self.unpolled.push_back(unpolled);
        if self.unpolled.len() > MOST {
            self.unpolled.pop_front();
        }
        None
    }

    /// A thread polls, by an entry of this number. Gives the completions that it gets.
    pub(super) fn polls(
        &mut self,
        at: usize,
        thread: Option<u32>,
        polled: &Polled,
    ) -> Vec<Unpolled> {
        let found = polled.found as usize;
        self.polled += u64::from(polled.found);
        self.poller = thread;
        let known = self.unpolled.len().min(found);
        // Extended polls may give what was polled before.
        if !polled.extended && !self.is_partial {
            self.early.extend(repeat_n(at, (found - known).min(MOST - self.early.len())));
        }
        self.unpolled.drain(..known).collect()
    }

    /// Entries are missing.
    pub(super) fn forget(&mut self) {
        self.unpolled.clear();
        self.early.clear();
        self.pending = 0;
        self.is_partial = true;
    }
}
