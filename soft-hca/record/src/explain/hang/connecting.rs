//! Why an event channel of the connection manager gives no event.

use super::ids::{Id, Key};
use super::observed::{Around, Hangs, Verdict};
use super::threads::Doing;
use crate::entry::Channel;

impl Hangs {
    /// Why the event channel with a descriptor gives no event to a process that waits there.
    pub(super) fn no_connection_event(
        &self,
        (process, fd): (u32, u32),
        since: u64,
        around: &Around<'_>,
    ) -> Verdict {
        let ids: Vec<_> = self.ids.of(process).collect();
        if ids.iter().all(|(_, id)| id.channel != Some(fd)) {
            let elsewhere = self.elsewhere((process, fd), around);
            return elsewhere.or_else(|| self.unused((process, fd), &ids, around));
        }
        let mine = ids.iter().filter(|(_, id)| id.channel == Some(fd));
        let asking = mine.filter(|(_, id)| id.asked.is_some_and(|(_, t)| t <= since));
        for (number, id) in asking {
            let (call, t) = id.asked?;
            let verdict = match call {
                "rdma_connect" => self.not_accepted((process, *number), id, around),
                "rdma_accept" => self.not_established(id, around),
                "rdma_disconnect" => self.not_disconnected(id, around),
                _ => None,
            };
            if let Some((why, cause)) = verdict {
                let why = format!("{call} of id {number} was called {}; {why}", around.ago(t));
                return Some((why, cause));
            }
        }
        self.elsewhere((process, fd), around).or_else(|| self.all_over((process, fd), &ids, around))
    }

    /// A wait at a channel that no id uses, and that gives no event.
    fn unused(
        &self,
        (process, fd): (u32, u32),
        ids: &[(u32, &Id)],
        around: &Around<'_>,
    ) -> Verdict {
        // Ids that are older than the record are not known, and another thread may create some.
        if ids.iter().any(|(_, id)| id.channel.is_none()) {
            return None;
        }
        self.idle(process, around)?;
        let why = match (self.ids.last_at((process, fd)), ids.first()) {
            (Some((last, t)), _) => format!(
                "no id uses this event channel: id {last}, the last one, was destroyed {}",
                around.ago(t)
            ),
            (None, Some((number, Id { channel: Some(channel), .. }))) => format!(
                "no id uses this event channel: id {number} has event channel {channel}, and nothing \
                 comes to this one"
            ),
            _ => return None,
        };
        let cause = "rdma_get_cm_event is called for another channel than the one that rdma_create_id was \
                     given (without one an id has its own, id->channel)";
        Some((why, cause))
    }

    /// A wait for ids that get no event: they were told of their end, or have asked for nothing.
    fn all_over(
        &self,
        (process, fd): (u32, u32),
        ids: &[(u32, &Id)],
        around: &Around<'_>,
    ) -> Verdict {
        // Another thread may ask for something.
        self.idle(process, around)?;
        let mine: Vec<_> = ids.iter().filter(|(_, id)| id.channel == Some(fd)).collect();
        if !mine.iter().all(|(_, id)| id.gets_nothing()) {
            return None;
        }
        let last = |(_, id): &&&(u32, &Id)| id.events.last().map(|(_, t, _)| *t);
        let (number, id) = mine.iter().max_by_key(last)?;
        let (event, t, _) = id.events.last()?;
        let why = format!(
            "{event} of id {number} was taken {}, and nothing was called since that leads to another event",
            around.ago(*t)
        );
        let cause = match id.is_over {
            true => {
                "the event was not looked at (event->event, event->status): none comes behind one that \
                 tells of a failure"
            }
            false => "the next call is missing: rdma_resolve_route, rdma_connect",
        };
        Some((why, cause))
    }

    /// An event that goes to another channel, where nobody waits.
    fn elsewhere(&self, (process, fd): (u32, u32), around: &Around<'_>) -> Verdict {
        let waits_at = |channel: u32| {
            let at = Doing::Waits { on: Channel::Connection, fd: channel };
            self.threads.of(process).any(|(_, blocked)| blocked.doing == at)
        };
        let is_lost = |id: &Id| id.channel.is_some_and(|at| at != fd && !waits_at(at));
        let (number, id) =
            self.ids.of(process).find(|(_, id)| id.asked.is_some() && is_lost(id))?;
        let (call, t) = id.asked?;
        let why = format!(
            "{call} of id {number} was called {}, and its event goes to event channel {}, where nobody \
             waits",
            around.ago(t),
            id.channel?
        );
        let cause = "rdma_create_id was given another channel than the one that is read, or \
                     rdma_migrate_id has moved the id";
        Some((why, cause))
    }

    fn not_accepted(&self, _key: Key, id: &Id, around: &Around<'_>) -> Verdict {
        let request = id.qp.and_then(|qp| self.ids.request_of(qp));
        if let Some(((process, number), request)) = request {
            let (_, taken) = request.request?;
            if request.is_answered {
                return None;
            }
            let name = (around.who)(process);
            let why = format!(
                "{name} has taken the request {} (id {number}), and has called neither rdma_accept nor \
                 rdma_reject",
                around.ago(taken)
            );
            return Some((why, "the server forgets to answer, or waits for something else first"));
        }
        let mut listeners = self
            .ids
            .all
            .iter()
            .filter(|((process, _), id)| id.listens && self.lives(*process, around.t));
        let ((process, number), listener) = listeners.next()?;
        if listeners.next().is_some() {
            return None;
        }
        let waits = self.threads.of(*process).any(|(_, blocked)| match blocked.doing {
            Doing::Waits { on: Channel::Connection, fd } => Some(fd) == listener.channel,
            _ => false,
        });
        if waits {
            return None;
        }
        let name = (around.who)(*process);
        let last = match listener.events.last() {
            Some((_, t, _)) => format!("has taken its last one {}", around.ago(*t)),
            None => "has taken none yet".into(),
        };
        let why = format!(
            "{name}, which listens by id {number}, has not taken the request from its event channel: it \
             {last}"
        );
        Some((why, "the server does not call rdma_get_cm_event for its listening id"))
    }

    fn not_established(&self, id: &Id, around: &Around<'_>) -> Verdict {
        let ((process, number), other) = self.ids.other_end(id)?;
        if !self.lives(process, around.t)
            || other.asked.is_none_or(|(call, _)| call != "rdma_connect")
        {
            return None;
        }
        let why = format!(
            "{} has not taken the answer from the event channel of its id {number}",
            (around.who)(process)
        );
        Some((why, "who connects has to call rdma_get_cm_event, which completes the connection"))
    }

    fn not_disconnected(&self, id: &Id, around: &Around<'_>) -> Verdict {
        let ((process, number), other) = self.ids.other_end(id)?;
        if !self.lives(process, around.t) || other.has_disconnected {
            return None;
        }
        let name = (around.who)(process);
        let why = match other.disconnected {
            Some(t) => format!(
                "{name} has taken RDMA_CM_EVENT_DISCONNECTED of its id {number} {}, and has called \
                 neither rdma_disconnect nor rdma_destroy_id",
                around.ago(t)
            ),
            None => format!(
                "{name} has not taken RDMA_CM_EVENT_DISCONNECTED from the event channel of its id \
                 {number}"
            ),
        };
        let cause = "the peer ignores the event: it has to call rdma_disconnect, which answers; until \
                     then the connection manager tries again until its time is over";
        Some((why, cause))
    }
}
