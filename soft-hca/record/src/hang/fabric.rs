//! Findings about a fabric beside its threads: programs that are stopped, send queues that do not go on, events that
//! no program takes.

use super::moment::Moment;
use crate::entry::Channel;
use crate::model::{Blocked, Doing, Unread};
use crate::words::times;

/// Something of a process that does not go on.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The process.
    pub process: u32,
    /// In words that follow its name.
    pub what: String,
    /// The usual cause.
    pub cause: &'static str,
}

impl Moment<'_> {
    /// Processes that are stopped.
    pub fn stopped(&self) -> impl Iterator<Item = Finding> {
        let stopped = self.run.processes.iter().filter(|(_, known)| known.is_stopped);
        stopped.map(|(process, _)| Finding {
            process: *process,
            what: "is stopped: whatever waits for it waits until it goes on".into(),
            cause: "SIGSTOP, Ctrl-Z or a debugger",
        })
    }

    /// Send queues whose first request waits.
    pub fn stalled(&self) -> impl Iterator<Item = Finding> {
        let stalled = self.run.live_qps().filter(|(_, pair)| pair.stalled.is_some());
        stalled.filter_map(|(number, pair)| {
            let (why, cause) = self.pending((number, pair))?;
            let peer = pair.peer.and_then(|peer| Some((peer, self.run.qp(peer)?)));
            let peer = peer.map_or(String::new(), |(peer, known)| {
                format!(" for qp {peer} of {}", self.run.name(known.process))
            });
            Some(Finding { process: pair.process, what: format!("waits{peer}: {why}"), cause })
        })
    }

    /// Event channels that are not read; unless somebody asks, only if somebody waits for what their events
    /// lead to.
    pub fn unread(&self) -> impl Iterator<Item = Finding> {
        let unread = self.run.ids.unread.iter();
        let unread = unread.filter(|unread| self.is_asked || self.is_awaited(unread));
        unread.map(|Unread { channel: (process, _), count, first: (event, id), .. }| Finding {
            process: *process,
            what: format!(
                "has {} in an event channel that it does not read, the first is {event} of id {id}",
                times(*count as u64, "event", "events")
            ),
            cause: "rdma_get_cm_event is not called for the channel that the id was created with, or the \
                    thread that calls it waits for something else, as in the handler of an event",
        })
    }

    /// Whether the other end has waited for long, or the program itself at another channel.
    fn is_awaited(&self, unread: &Unread) -> bool {
        let (owner, _) = unread.channel;
        let any = |process: u32, is_meant: &dyn Fn(&Doing) -> bool| {
            let mut all = self.run.threads.of(process).map(|(_, blocked)| blocked);
            all.any(|blocked: &Blocked| self.is_long(blocked) && is_meant(&blocked.doing))
        };
        let gets_events =
            |doing: &Doing| matches!(doing, Doing::Waits { on: Channel::Connection, .. });
        unread.other.is_some_and(|(process, channel)| {
            let at = Doing::Waits { on: Channel::Connection, fd: channel };
            any(process, &|doing| *doing == at)
                || process != owner && any(process, &|doing| !gets_events(doing))
        }) || any(owner, &gets_events)
    }
}
