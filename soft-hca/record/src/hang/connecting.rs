//! Why an event channel of the connection manager gives no event.

use soft_hca_verbs::CmEvent;

use super::moment::{Moment, Verdict};
use crate::entry::Channel;
use crate::model::{Doing, Id, Key};

impl Moment<'_> {
    /// Why the event channel with a descriptor gives no event to a process that waits there.
    pub(super) fn no_connection_event(&self, (process, fd): (u32, u32), since: u64) -> Verdict {
        let ids: Vec<_> = self.run.ids.of(process).collect();
        if ids.iter().all(|(_, id)| id.channel != Some(fd)) {
            let elsewhere = self.elsewhere((process, fd));
            return elsewhere.or_else(|| self.unused((process, fd), &ids));
        }
        let mine = ids.iter().filter(|(_, id)| id.channel == Some(fd));
        let asking = mine.filter(|(_, id)| id.asked.is_some_and(|(_, t)| t <= Some(since)));
        for (number, id) in asking {
            let (call, t) = id.asked?;
            let verdict = match call {
                "rdma_connect" => self.not_accepted((process, *number)),
                "rdma_accept" => self.not_established((process, *number)),
                "rdma_disconnect" => self.not_disconnected((process, *number)),
                _ => None,
            };
            if let Some((why, cause)) = verdict {
                let why = format!("{call} of id {number} was called{}; {why}", self.since(" ", t));
                return Some((why, cause));
            }
        }
        self.elsewhere((process, fd)).or_else(|| self.all_over((process, fd), &ids))
    }

    /// A wait at a channel that no id uses, and that gives no event.
    fn unused(&self, (process, fd): (u32, u32), ids: &[(u32, &Id)]) -> Verdict {
        // Ids that are older than the record are not known, and another thread may create some.
        if ids.iter().any(|(_, id)| id.channel.is_none()) {
            return None;
        }
        if !self.is_idle(process) {
            return None;
        }
        let more = match (self.run.ids.last_at((process, fd)), ids.first()) {
            _ if self.run.knows_all => String::new(),
            (Some((last, t)), _) => {
                format!(": id {last}, the last one, was destroyed {}", self.ago(t))
            }
            (None, Some((number, Id { channel: Some(channel), .. }))) => {
                format!(": id {number} has event channel {channel}, and nothing comes to this one")
            }
            _ => return None,
        };
        let why = format!("no id uses this event channel{more}");
        let cause = "rdma_get_cm_event is called for another channel than the one that rdma_create_id was \
                     given (without one an id has its own, id->channel)";
        Some((why, cause))
    }

    /// A wait for ids that get no event: they were told of their end, or have asked for nothing.
    fn all_over(&self, (process, fd): (u32, u32), ids: &[(u32, &Id)]) -> Verdict {
        // Another thread may ask for something.
        if !self.is_idle(process) {
            return None;
        }
        let mine: Vec<_> = ids.iter().filter(|(_, id)| id.channel == Some(fd)).collect();
        if !mine.iter().all(|(_, id)| id.gets_nothing()) {
            return None;
        }
        let last = |(_, id): &&&(u32, &Id)| id.events.last().map(|(_, t, _)| *t);
        let (number, id) = mine.iter().max_by_key(last)?;
        let end = match id.events.last() {
            Some((event, t, _)) => format!("{event} of id {number} was taken {}", self.ago(*t)),
            None if self.run.knows_all => {
                format!("the connection of id {number} was rejected or has failed")
            }
            None => return None,
        };
        let why = format!("{end}, and nothing was called since that leads to another event");
        let cause = match id.is_over {
            true => {
                "the event was not looked at (event->event, event->status): none comes behind one that \
                 tells of a failure"
            }
            false => "the next call is missing: rdma_resolve_route, rdma_connect",
        };
        Some((why, cause))
    }

    /// An event that goes to another channel, where nobody waits. Of a fabric it is told when it has come.
    fn elsewhere(&self, (process, fd): (u32, u32)) -> Verdict {
        if self.run.knows_all {
            return None;
        }
        let waits_at = |channel: u32| {
            let at = Doing::Waits { on: Channel::Connection, fd: channel };
            self.run.threads.of(process).any(|(_, blocked)| blocked.doing == at)
        };
        let is_lost = |id: &Id| id.channel.is_some_and(|at| at != fd && !waits_at(at));
        let (number, id) =
            self.run.ids.of(process).find(|(_, id)| id.asked.is_some() && is_lost(id))?;
        let (call, t) = id.asked?;
        let why = format!(
            "{call} of id {number} was called{}, and its event goes to event channel {}, where nobody \
             waits",
            self.since(" ", t),
            id.channel?
        );
        let cause = "rdma_create_id was given another channel than the one that is read, or \
                     rdma_migrate_id has moved the id";
        Some((why, cause))
    }

    fn not_accepted(&self, key: Key) -> Verdict {
        if let Some(((process, number), request)) = self.run.ids.other_end(key) {
            if request.is_answered {
                return None;
            }
            let name = self.run.name(process);
            let why = format!(
                "{name} has taken the request{} (id {number}), and has called neither rdma_accept nor \
                 rdma_reject",
                self.since(" ", request.taken)
            );
            return Some((why, "the server forgets to answer, or waits for something else first"));
        }
        // Of a fabric an event that nobody takes is told of by itself.
        if self.run.knows_all {
            return None;
        }
        let mut listeners =
            self.run.ids.all.iter().filter(|((process, _), id)| id.listens && self.lives(*process));
        let ((process, number), listener) = listeners.next()?;
        if listeners.next().is_some() {
            return None;
        }
        let waits = self.run.threads.of(*process).any(|(_, blocked)| match blocked.doing {
            Doing::Waits { on: Channel::Connection, fd } => Some(fd) == listener.channel,
            _ => false,
        });
        if waits {
            return None;
        }
        let name = self.run.name(*process);
        let last = match listener.events.last() {
            Some((_, t, _)) => format!("has taken its last one {}", self.ago(*t)),
            None => "has taken none yet".into(),
        };
        let why = format!(
            "{name}, which listens by id {number}, has not taken the request from its event channel: it \
             {last}"
        );
        Some((why, "the server does not call rdma_get_cm_event for its listening id"))
    }

    fn not_established(&self, key: Key) -> Verdict {
        let ((process, number), other) = self.run.ids.other_end(key)?;
        if !self.lives(process) || other.asked.is_none_or(|(call, _)| call != "rdma_connect") {
            return None;
        }
        let why = format!(
            "{} has not taken the answer from the event channel of its id {number}",
            self.run.name(process)
        );
        Some((why, "who connects has to call rdma_get_cm_event, which completes the connection"))
    }

    fn not_disconnected(&self, key: Key) -> Verdict {
        let ((process, number), other) = self.run.ids.other_end(key)?;
        if !self.lives(process) || other.has_disconnected {
            return None;
        }
        let name = self.run.name(process);
        let taken = other.events.iter().rev().find(|(event, ..)| *event == CmEvent::DISCONNECTED);
        let why = match other.is_disconnected {
            true => format!(
                "{name} has taken RDMA_CM_EVENT_DISCONNECTED of its id {number}{}, and has called \
                 neither rdma_disconnect nor rdma_destroy_id",
                self.since(" ", taken.map(|(_, t, _)| *t))
            ),
            false => format!(
                "{name} has not taken RDMA_CM_EVENT_DISCONNECTED from the event channel of its id \
                 {number}"
            ),
        };
        let cause = "the peer ignores the event: it has to call rdma_disconnect, which answers; until \
                     then the connection manager tries again until its time is over";
        Some((why, cause))
    }
}
