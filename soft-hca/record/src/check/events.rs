//! Events that a program has taken and not acknowledged.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Found, Rule, done, source};
use crate::arguments;
use crate::entry::{Call, Channel, Entry, Unacknowledged, What};
use crate::place::Place;
use crate::value::Name;

/// Where a program takes events, by process.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// Of ids.
    ids: HashMap<(u32, Name), Option<Arc<Place>>>,
    /// Of completion channels and devices, by descriptor.
    channels: HashMap<(u32, u32), Option<Arc<Place>>>,
    /// The channel of each completion queue.
    queues: HashMap<(u32, Name), u32>,
}

impl Events {
    pub(super) fn entry(&mut self, entry: &Entry, found: &mut Vec<Found>) {
        let process = entry.process;
        match &entry.what {
            What::ConnectionEvent(event) => {
                let of = event.listen_id.unwrap_or(event.id);
                self.ids.insert((process, Name::CmId(of)), source(entry));
            }
            What::Wait { on: Channel::Completion, fd } => {
                self.channels.insert((process, *fd), source(entry));
            }
            What::Call(call) => self.call(entry, call, found),
            What::ProcessEnded { unacknowledged, .. } => {
                for Unacknowledged { of, events } in unacknowledged {
                    let what = format!("the program ended with {} not acknowledged", many(*events));
                    found.push(self.found(entry, *of, what));
                }
                self.ids.retain(|(of, _), _| *of != process);
                self.channels.retain(|(of, _), _| *of != process);
                self.queues.retain(|(of, _), _| *of != process);
            }
            _ => {}
        }
    }

    fn call(&mut self, entry: &Entry, call: &Call, found: &mut Vec<Found>) {
        if let (true, Some(of)) = (call.unacknowledged > 0, destroyed(call)) {
            let events = many(call.unacknowledged);
            let what = format!("{} waits for {events} to be acknowledged", call.name);
            found.push(self.found(entry, of, what));
        }
        let Some((args, given)) = done(call) else { return };
        if let (Some(cq), Some(fd)) =
            (arguments::name(given, "cq"), arguments::channel(args, "channel"))
        {
            self.queues.insert((entry.process, cq), fd);
        }
    }

    fn found(&self, entry: &Entry, of: Name, what: String) -> Found {
        let process = entry.process;
        let channel = self.queues.get(&(process, of));
        let taken = match channel {
            Some(fd) => self.channels.get(&(process, *fd)),
            None => self.ids.get(&(process, of)),
        };
        Found {
            rule: Rule::Unacked,
            process,
            place: format!("{} {of}", of.kind()),
            what,
            t: entry.t,
            source: taken.cloned().flatten(),
        }
    }
}

/// So many events.
fn many(events: u32) -> String {
    if events == 1 { "1 event".into() } else { format!("{events} events") }
}

/// What a call destroys.
fn destroyed(call: &Call) -> Option<Name> {
    let named = |wanted: &&str| arguments::name(&call.args, wanted);
    ["cq", "qp", "srq", "id"].iter().find_map(named)
}
