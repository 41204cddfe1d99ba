//! Calls as the program made them. What a library asks the kernel for in one of them are several
//! entries, which follow each other in the thread and have the same site.

use std::collections::HashMap;
use std::sync::Arc;

use soft_hca_verbs::CmEvent;

use crate::entry::{Call, ConnectionEvent, Entry, Outcome, What};
use crate::place::Place;

/// The acknowledgement of an event of the connection manager: on record where another thread waits for it.
pub const ACKNOWLEDGES: &str = "rdma_ack_cm_event";

/// A call, with the entries of a record that belong to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProgramCall {
    /// Indices of the entries, never none.
    pub entries: Vec<usize>,
}

/// Calls, in the order in which they begin.
pub(crate) fn of_program(entries: &[Entry]) -> Vec<ProgramCall> {
    let mut calls: Vec<ProgramCall> = Vec::new();
    // The last call of each thread: its number, and which it is.
    let mut last: HashMap<(u32, u32), (u32, usize)> = HashMap::new();
    for (index, entry) in entries.iter().enumerate() {
        let (Some(site), Some(thread)) = (&entry.site, entry.thread) else { continue };
        match last.get(&(entry.process, thread)) {
            Some((number, call)) if *number == site.call => calls[*call].entries.push(index),
            _ => {
                last.insert((entry.process, thread), (site.call, calls.len()));
                calls.push(ProgramCall { entries: vec![index] });
            }
        }
    }
    calls
}

/// Commands that another entry of their call stands for, by that entry.
pub(crate) fn beneath(entries: &[Entry]) -> HashMap<usize, Vec<usize>> {
    let calls = of_program(entries);
    let of_call = calls.iter().filter_map(|call| {
        let is_command = |index: &usize| matches!(entries[*index].what, What::Call(_));
        let main = call.main(entries).and_then(|main| {
            let is_it = |index: &&usize| matches!(&entries[**index].what, What::Call(one) if std::ptr::eq(one, main));
            call.entries.iter().find(is_it)
        });
        // The wait or the event, if there is no such command.
        let other = || call.entries.iter().find(|index| !is_command(index));
        let shown = *main.or_else(other).or(call.entries.first())?;
        let hidden = |index: &usize| is_command(index) && *index != shown;
        let commands: Vec<usize> = call.entries.iter().copied().filter(hidden).collect();
        let failed = |at: &usize| matches!(&entries[*at].what, What::Call(call) if matches!(call.result, Outcome::Refused { .. }));
        // Failures are shown.
        let commands: Vec<usize> = commands.into_iter().filter(|at| !failed(at)).collect();
        Some((shown, commands)).filter(|(_, commands)| !commands.is_empty())
    });
    of_call.collect()
}

/// Events that the program gets otherwise than the library; see [`ProgramCall::event`].
pub(crate) fn fetched(entries: &[Entry]) -> HashMap<usize, CmEvent> {
    let calls = of_program(entries);
    let renamed = calls.iter().filter_map(|call| {
        let fetched = call.event(entries)?;
        let (at, event) = call.entries.iter().rev().find_map(|at| match &entries[*at].what {
            What::ConnectionEvent(event) => Some((*at, event)),
            _ => None,
        })?;
        (event.event != fetched.event).then_some((at, fetched.event))
    });
    renamed.collect()
}

/// The same entries, each a call of its own under its command's name: pictures show all commands then.
pub fn apart(entries: &[Entry]) -> Vec<Entry> {
    let mut entries = entries.to_vec();
    for (index, entry) in entries.iter_mut().enumerate() {
        let is_command = matches!(entry.what, What::Call(_));
        if let Some(site) = &mut entry.site {
            site.call = index as u32;
            if let Some(place) = site.place.as_mut().filter(|_| is_command) {
                Arc::make_mut(place).call = None;
            }
        }
    }
    entries
}

/// The name of an entry's command where it stands for its call.
pub(crate) fn name<'e>(entry: &'e Entry, command: &'e Call) -> &'e str {
    let called = entry.place().and_then(|place| place.call.as_deref());
    called.filter(|called| inner(called) == inner(&command.name)).unwrap_or(&command.name)
}

/// The name without that of its library.
fn inner(name: &str) -> &str {
    name.split_once('_').map_or(name, |(_, inner)| inner)
}

impl ProgramCall {
    /// Its entries.
    fn all<'e>(&'e self, entries: &'e [Entry]) -> impl Iterator<Item = &'e Entry> {
        self.entries.iter().map(|index| &entries[*index])
    }

    /// The commands of the library.
    fn commands<'e>(&'e self, entries: &'e [Entry]) -> impl Iterator<Item = &'e Call> {
        self.all(entries).filter_map(|entry| match &entry.what {
            What::Call(call) => Some(call),
            _ => None,
        })
    }

    /// Where the program makes it.
    pub(crate) fn place<'e>(&'e self, entries: &'e [Entry]) -> Option<&'e Place> {
        self.all(entries).next()?.place()
    }

    /// The function that the program calls.
    pub(crate) fn function<'e>(&'e self, entries: &'e [Entry]) -> &'e str {
        let named = self.place(entries).and_then(|place| place.call.as_deref());
        let first = || match &self.all(entries).next()?.what {
            What::Call(call) => Some(call.name.as_str()),
            _ => None,
        };
        named.or_else(first).unwrap_or("a call")
    }

    /// The command that has the call's arguments, if there is one: its namesake, or what it does for an
    /// object of librdmacm.
    pub(crate) fn main<'e>(&'e self, entries: &'e [Entry]) -> Option<&'e Call> {
        let function = self.function(entries);
        let same = self.commands(entries).filter(|call| call.name == function);
        let alike = || self.commands(entries).find(|call| inner(&call.name) == inner(function));
        same.last().or_else(alike)
    }

    /// How many other commands there are.
    pub(crate) fn others(&self, entries: &[Entry]) -> usize {
        let main = usize::from(self.main(entries).is_some());
        self.commands(entries).count() - main
    }

    /// The command that was refused, if one was.
    pub(crate) fn refused<'e>(&'e self, entries: &'e [Entry]) -> Option<&'e Call> {
        self.commands(entries).find(|call| matches!(call.result, Outcome::Refused { .. }))
    }

    /// The event that it has brought, as the program gets it: a response to a request for connection
    /// is taken by the library, which accepts it and says that the connection is established.
    pub(crate) fn event(&self, entries: &[Entry]) -> Option<ConnectionEvent> {
        let events = self.all(entries).filter_map(|entry| match &entry.what {
            What::ConnectionEvent(event) => Some(event.clone()),
            _ => None,
        });
        let mut event = events.last()?;
        let accepts = self.commands(entries).any(|call| call.name == "rdma_accept");
        if event.event == CmEvent::CONNECT_RESPONSE && accepts {
            event.event = CmEvent::ESTABLISHED;
        }
        Some(event)
    }

    /// Whether its thread waits meanwhile.
    pub(crate) fn waits(&self, entries: &[Entry]) -> bool {
        self.all(entries).any(|entry| matches!(entry.what, What::Wait { .. }))
    }

    /// The descriptor of the channel that it waits at.
    pub(crate) fn channel(&self, entries: &[Entry]) -> Option<u32> {
        self.all(entries).find_map(|entry| match &entry.what {
            What::Wait { fd, .. } => Some(*fd),
            _ => None,
        })
    }

    /// Whether it is still waiting when the record, or its process, ends.
    pub(crate) fn is_open(&self, entries: &[Entry]) -> bool {
        let last = self.all(entries).last();
        last.is_some_and(|entry| matches!(entry.what, What::Wait { .. }))
    }

    /// Nanoseconds that it took, as far as its entries tell.
    pub(crate) fn duration(&self, entries: &[Entry]) -> u64 {
        let ends = self.all(entries).map(|entry| match &entry.what {
            What::Call(call) => entry.t + call.duration,
            _ => entry.t,
        });
        let begins = self.all(entries).next().map_or(0, |entry| entry.t);
        ends.max().unwrap_or(begins).saturating_sub(begins)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{CLIENT, Run, SERVER};

    /// A command of a call from a place.
    fn command(run: &mut Run, process: u32, name: &str, call: u32, function: &str) {
        run.put(10, process, "call", json!({
            "thread": 5, "name": name, "args": [["id", {"cm_id": 1}]], "duration": 4, "result": {"done": []},
            "site": {"call": call, "number": 1, "place": {"call": function, "module": "a", "offset": 1}},
        }));
    }

    #[test]
    fn commands_of_a_call_are_one() {
        let mut run = Run::new();
        for name in ["rdma_init_qp_attr", "ibv_modify_qp", "rdma_accept"] {
            command(&mut run, SERVER, name, 3, "rdma_accept");
            command(&mut run, CLIENT, "ibv_dereg_mr", 3, "ibv_dereg_mr");
        }
        command(&mut run, SERVER, "ibv_destroy_qp", 4, "rdma_destroy_qp");
        let entries = run.entries();
        let calls = of_program(entries);
        let found: Vec<_> = calls.iter().map(|call| call.entries.clone()).collect();
        assert_eq!(found, [vec![0, 2, 4], vec![1, 3, 5], vec![6]]);
        let accept = &calls[0];
        assert_eq!((accept.function(entries), accept.others(entries)), ("rdma_accept", 2));
        assert_eq!(accept.main(entries).unwrap().name, "rdma_accept");
        assert_eq!(accept.duration(entries), 44);
        assert_eq!(calls[2].main(entries).unwrap().name, "ibv_destroy_qp");
        assert_eq!(calls[2].others(entries), 0);
    }

    #[test]
    fn what_the_program_fetches_is_established() {
        let mut run = Run::new();
        let site = |call: u32| json!({"call": call, "number": 1, "place": {"call": "rdma_get_cm_event", "module": "a", "offset": 1}});
        let mut event = |call: u32, name: &str| {
            run.put(5, CLIENT, "connection_event", json!({
                "thread": 5, "event": name, "id": 1, "status": 0, "private_data": 0, "site": site(call),
            }));
            if call == 1 {
                command(&mut run, CLIENT, "rdma_accept", call, "rdma_get_cm_event");
            }
        };
        event(1, "RDMA_CM_EVENT_CONNECT_RESPONSE");
        event(2, "RDMA_CM_EVENT_DISCONNECTED");
        let entries = run.entries();
        let events = of_program(entries)
            .iter()
            .map(|call| call.event(entries).unwrap().event)
            .collect::<Vec<_>>();
        assert_eq!(events, [CmEvent::ESTABLISHED, CmEvent::DISCONNECTED]);
        assert_eq!(fetched(entries), HashMap::from([(0, CmEvent::ESTABLISHED)]));
        assert_eq!(fetched(&apart(entries)), HashMap::new());
    }
}
