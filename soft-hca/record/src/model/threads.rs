//! Threads, and the calls that they are blocked in.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::arguments::cm_id;
use crate::calls::ACKNOWLEDGES;
use crate::entry::{Call, Channel, Entry, What};
use crate::place::Place;
use crate::value::{Name, Named, Value};

/// A process and its thread.
pub type Thread = (u32, u32);

/// A call that may never end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doing {
    /// It waits for an event at a channel with this descriptor.
    Waits {
        /// The kind of the channel.
        on: Channel,
        /// Its descriptor.
        fd: u32,
    },
    /// It polls a completion queue that is empty.
    Polls {
        /// The completion queue.
        cq: u32,
        /// How often.
        times: u64,
    },
    /// It destroys an object of which the program has so many events that it has not acknowledged.
    Destroys {
        /// The function.
        call: String,
        /// The object.
        object: Name,
        /// Events that are not acknowledged.
        events: u32,
    },
}

/// A thread that is blocked.
#[derive(Clone, Debug)]
pub struct Blocked {
    /// The call.
    pub doing: Doing,
    /// Since when.
    pub since: u64,
    /// Where in its program it is.
    pub source: Option<Arc<Place>>,
    /// The entry of the call, by its number in the record; none of polls, and of a fabric's threads.
    pub at: Option<usize>,
}

/// All threads that are blocked, those of processes that have ended as they were then.
#[derive(Debug, Default)]
pub struct Threads {
    blocked: BTreeMap<Thread, Blocked>,
    /// All that have done something.
    seen: BTreeSet<Thread>,
}

impl Blocked {
    /// As a fabric shows it, which knows of no place in the program.
    pub fn now(doing: Doing, since: u64) -> Self {
        Self { doing, since, source: None, at: None }
    }
}

impl Doing {
    /// In words that follow the process's name.
    pub fn text(&self) -> String {
        let more = match self {
            Self::Waits { fd, .. } => format!(" (channel {fd})"),
            Self::Polls { times, .. } => format!(", {times} times"),
            Self::Destroys { object, .. } => format!(" ({} {object})", object.kind()),
        };
        format!("{}{more}", self.brief())
    }

    /// The same without what only the program itself knows, such as its descriptors.
    pub fn brief(&self) -> String {
        match self {
            Self::Waits { on, .. } => format!("waits in {}", on.function()),
            Self::Polls { cq, .. } => format!("polls cq {cq} in vain"),
            Self::Destroys { call, .. } => format!("waits in {call}"),
        }
    }
}

/// The call that destroys an object with events which are not acknowledged.
fn destroys(call: &Call) -> Option<Doing> {
    let object = call.args.iter().find_map(|Named(_, value)| match value {
        Value::Name(name @ (Name::Cq(_) | Name::CmId(_) | Name::Qp(_) | Name::Srq(_))) => {
            Some(*name)
        }
        _ => None,
    });
    let (call, events) = (&call.name, call.unacknowledged);
    let of = |object| Doing::Destroys { call: call.clone(), object, events };
    object.filter(|_| events > 0).map(of)
}

impl Threads {
    /// Another entry, by its number. Gives the calls that threads return from.
    pub(super) fn entry(&mut self, at: usize, entry: &Entry) -> Vec<Blocked> {
        let Some(thread) = entry.thread.filter(|_| entry.by.is_none()) else { return Vec::new() };
        let (t, key, source) = (entry.t, (entry.process, thread), entry.source());
        self.seen.insert(key);
        let doing = match &entry.what {
            What::Wait { on, fd } => Some(Doing::Waits { on: *on, fd: *fd }),
            What::Polled(polled) if polled.found == 0 => {
                let first = polled.empty.map(|empty| (empty.count, empty.first));
                let polls = first.and_then(|first| self.polls(key, polled.cq, first, source));
                return polls.into_iter().collect();
            }
            What::Call(call) => destroys(call),
            _ => None,
        };
        let own = match doing {
            Some(doing) => {
                self.blocked.insert(key, Blocked { doing, since: t, source, at: Some(at) })
            }
            None => self.blocked.remove(&key),
        };
        let id = match &entry.what {
            What::Call(call) if call.name == ACKNOWLEDGES => cm_id(&call.args, "id"),
            _ => None,
        };
        let others = id.map(|id| self.acknowledged(entry.process, Name::CmId(id)));
        own.into_iter().chain(others.unwrap_or_default()).collect()
    }

    fn polls(
        &mut self,
        key: Thread,
        cq: u32,
        (more, first): (u64, u64),
        source: Option<Arc<Place>>,
    ) -> Option<Blocked> {
        match self.blocked.get_mut(&key).map(|blocked| &mut blocked.doing) {
            Some(Doing::Polls { cq: known, times }) if *known == cq => *times += more,
            // Of several queues that are polled in turn the first is told of.
            Some(Doing::Polls { .. }) => {}
            _ => {
                let doing = Doing::Polls { cq, times: more };
                let blocked = Blocked { doing, since: first, source, at: None };
                return self.blocked.insert(key, blocked);
            }
        }
        None
    }

    /// An event of an object is acknowledged: the call that destroys it returns if that was the last.
    fn acknowledged(&mut self, process: u32, of: Name) -> Vec<Blocked> {
        let own = self.blocked.range_mut((process, 0)..=(process, u32::MAX));
        let returns = own.filter_map(|(thread, blocked)| match &mut blocked.doing {
            Doing::Destroys { object, events, .. } if *object == of => {
                *events -= 1;
                (*events == 0).then_some(*thread)
            }
            _ => None,
        });
        let returns: Vec<_> = returns.collect();
        returns.iter().filter_map(|thread| self.blocked.remove(thread)).collect()
    }

    /// A thread is blocked, as a fabric shows it.
    pub fn block(&mut self, thread: Thread, blocked: Blocked) {
        self.seen.insert(thread);
        self.blocked.insert(thread, blocked);
    }

    /// There is another thread, which may do something.
    pub fn see(&mut self, thread: Thread) {
        self.seen.insert(thread);
    }

    /// Those that are blocked.
    pub fn all(&self) -> impl Iterator<Item = (Thread, &Blocked)> {
        self.blocked.iter().map(|(thread, blocked)| (*thread, blocked))
    }

    /// Those of a process.
    pub fn of(&self, process: u32) -> impl Iterator<Item = (u32, &Blocked)> {
        let all = self.blocked.range((process, 0)..=(process, u32::MAX));
        all.map(|((_, thread), blocked)| (*thread, blocked))
    }

    /// A thread of a process all of whose threads, as far as they were seen, have been blocked since a time.
    pub fn blocked_since(&self, process: u32, t: u64) -> Option<&Blocked> {
        let mut seen = self.seen.range((process, 0)..=(process, u32::MAX));
        let is_blocked =
            |thread: &Thread| self.blocked.get(thread).is_some_and(|blocked| blocked.since <= t);
        let are_all = seen.all(is_blocked);
        self.of(process).map(|(_, blocked)| blocked).find(|_| are_all)
    }
}
