//! Events that a program has taken and not acknowledged.

use std::collections::HashMap;
use std::sync::Arc;

use crate::check::found::{Found, Lookout, Scene};
use crate::check::rule::{Advice, Rule};
use crate::entry::{Channel, Unacknowledged, What};
use crate::model::{Doing, Run};
use crate::place::Place;
use crate::value::Name;
use crate::words::times;

pub(in crate::check) const ADVICE: Advice = Advice {
    why: "an event that is not acknowledged keeps its memory, and what destroys its object waits for that, for \
         ever",
    cure: "call rdma_ack_cm_event, ibv_ack_cq_events or ibv_ack_async_event for each event that was taken",
};

/// Where a program takes events, by process.
#[derive(Debug, Default)]
pub(in crate::check) struct Unacked {
    /// Of ids.
    ids: HashMap<(u32, Name), Option<Arc<Place>>>,
    /// Of completion channels, by descriptor.
    channels: HashMap<(u32, u32), Option<Arc<Place>>>,
}

impl Lookout for Unacked {
    fn entry(&mut self, scene: Scene<'_>, found: &mut Vec<Found>) {
        let entry = scene.entry;
        let (process, t) = (entry.process, entry.t);
        match &entry.what {
            What::ConnectionEvent(event) => {
                let of = event.listen_id.unwrap_or(event.id);
                self.ids.insert((process, Name::CmId(of)), entry.source());
            }
            What::Wait { on: Channel::Completion, fd } => {
                self.channels.insert((process, *fd), entry.source());
            }
            What::ProcessEnded { unacknowledged, .. } => {
                found.extend(self.never_returned(scene.run, |of| of == process));
                for Unacknowledged { of, events } in unacknowledged {
                    let what = format!("the program ended with {} not acknowledged", many(*events));
                    found.push(self.found(scene.run, (process, t), *of, what));
                }
                self.ids.retain(|(of, _), _| *of != process);
                self.channels.retain(|(of, _), _| *of != process);
            }
            _ => {}
        }
    }

    fn end(&mut self, run: &Run, found: &mut Vec<Found>) {
        let has_ended = |of| run.processes.get(&of).is_some_and(|process| process.ended.is_some());
        found.extend(self.never_returned(run, |of| !has_ended(of)));
    }
}

impl Unacked {
    /// Threads of such processes that destroy an object which waits for acknowledgements, and that another thread has not
    /// given.
    fn never_returned(&self, run: &Run, is_meant: impl Fn(u32) -> bool) -> Vec<Found> {
        let all = run.threads.all().filter(|((process, _), _)| is_meant(*process));
        let waiting = all.filter_map(|((process, _), blocked)| match &blocked.doing {
            Doing::Destroys { call, object, events } => {
                let what = format!("{call} waits for {} to be acknowledged", many(*events));
                Some(self.found(run, (process, blocked.since), *object, what))
            }
            _ => None,
        });
        waiting.collect()
    }

    fn found(&self, run: &Run, (process, t): (u32, u64), of: Name, what: String) -> Found {
        let taken = match of {
            Name::Cq(cq) => {
                let fd = run.cqs.get(&cq).and_then(|cq| cq.channel);
                fd.and_then(|fd| self.channels.get(&(process, fd)))
            }
            of => self.ids.get(&(process, of)),
        };
        let (place, source) = (format!("{} {of}", of.kind()), taken.cloned().flatten());
        Found { rule: Rule::Unacked, process, place, what, t, source, needs_polls: false }
    }
}

/// So many events.
fn many(events: u32) -> String {
    times(events.into(), "event", "events")
}
