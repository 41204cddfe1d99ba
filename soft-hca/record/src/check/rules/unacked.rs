//! Events that a program has taken and not acknowledged.

use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::arguments;
use crate::check::found::{Found, Lookout, Scene};
use crate::check::rule::{Advice, Rule};
use crate::entry::{Call, Channel, Unacknowledged, What};
use crate::model::{Run, source};
use crate::place::Place;
use crate::value::Name;

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
    /// Of completion channels and devices, by descriptor.
    channels: HashMap<(u32, u32), Option<Arc<Place>>>,
    /// The channel of each completion queue.
    queues: HashMap<(u32, Name), u32>,
    /// Threads that destroy an object which waits for acknowledgements, by process and thread. Another thread may be about to
    /// give them: it is found if it never returns.
    waiting: BTreeMap<(u32, u32), Found>,
}

impl Lookout for Unacked {
    fn entry(&mut self, scene: Scene<'_>, found: &mut Vec<Found>) {
        let entry = scene.entry;
        let process = entry.process;
        if let Some(thread) = entry.thread.filter(|_| entry.by.is_none()) {
            self.waiting.remove(&(process, thread));
        }
        match &entry.what {
            What::ConnectionEvent(event) => {
                let of = event.listen_id.unwrap_or(event.id);
                self.ids.insert((process, Name::CmId(of)), source(entry));
            }
            What::Wait { on: Channel::Completion, fd } => {
                self.channels.insert((process, *fd), source(entry));
            }
            What::Call(call) => self.call(scene, call, found),
            What::ProcessEnded { unacknowledged, .. } => {
                found.extend(self.never_returned(process..=process));
                for Unacknowledged { of, events } in unacknowledged {
                    let what = format!("the program ended with {} not acknowledged", many(*events));
                    found.push(self.found(scene, *of, what));
                }
                self.ids.retain(|(of, _), _| *of != process);
                self.channels.retain(|(of, _), _| *of != process);
                self.queues.retain(|(of, _), _| *of != process);
            }
            _ => {}
        }
    }

    fn end(&mut self, _run: &Run, found: &mut Vec<Found>) {
        found.extend(self.never_returned(0..=u32::MAX));
    }
}

impl Unacked {
    fn call(&mut self, scene: Scene<'_>, call: &Call, found: &mut Vec<Found>) {
        let entry = scene.entry;
        if let (true, Some(of)) = (call.unacknowledged > 0, destroyed(call)) {
            let events = many(call.unacknowledged);
            let what = format!("{} waits for {events} to be acknowledged", call.name);
            let waits = self.found(scene, of, what);
            match entry.thread {
                Some(thread) => drop(self.waiting.insert((entry.process, thread), waits)),
                None => found.push(waits),
            }
        }
        let Some((_, args, given)) = scene.call() else { return };
        if let (Some(cq), Some(fd)) =
            (arguments::name(given, "cq"), arguments::channel(args, "channel"))
        {
            self.queues.insert((entry.process, cq), fd);
        }
    }

    fn never_returned(&mut self, processes: RangeInclusive<u32>) -> Vec<Found> {
        let is_one = |(process, _): &(u32, u32)| processes.contains(process);
        let (gone, stay) = mem::take(&mut self.waiting).into_iter().partition(|(of, _)| is_one(of));
        self.waiting = stay;
        BTreeMap::into_values(gone).collect()
    }

    fn found(&self, scene: Scene<'_>, of: Name, what: String) -> Found {
        let process = scene.entry.process;
        let channel = self.queues.get(&(process, of));
        let taken = match channel {
            Some(fd) => self.channels.get(&(process, *fd)),
            None => self.ids.get(&(process, of)),
        };
        let finding = scene.finds(Rule::Unacked, format!("{} {of}", of.kind()), what);
        Found { source: taken.cloned().flatten(), ..finding }
    }
}

/// So many events.
fn many(events: u32) -> String {
    if events == 1 { "1 event".into() } else { format!("{events} events") }
}

/// The object that a call destroys.
fn destroyed(call: &Call) -> Option<Name> {
    let named = |wanted: &&str| arguments::name(&call.args, wanted);
    ["cq", "qp", "srq", "id"].iter().find_map(named)
}
