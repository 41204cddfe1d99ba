//! Conversations of the connection manager: the events that a call leads to, on both sides.

use std::collections::HashMap;

use soft_hca_verbs::CmEvent;

use super::Correlation;
use super::model::Flow;
use crate::arguments::cm_id;
use crate::entry::{Call, ConnectionEvent};
use crate::model::{Ids, Key};

/// The connection manager's conversations. Ids, and which of them are the ends of a connection, are the model's.
#[derive(Default)]
pub(super) struct Connections {
    /// The group of what an id is about at present.
    chain: HashMap<Key, usize>,
    /// The last call on an id, by the event that it leads to.
    leads: HashMap<(Key, &'static str), usize>,
}

/// Calls that lead to events without a peer.
const LOCAL: [&str; 3] = ["rdma_resolve_addr", "rdma_resolve_route", "rdma_join_multicast"];

/// The one of these that leads to an event.
fn led_to(event: CmEvent) -> Option<&'static str> {
    use CmEvent as Event;
    match event {
        Event::ADDR_RESOLVED | Event::ADDR_ERROR | Event::ADDR_CHANGE => Some(LOCAL[0]),
        Event::ROUTE_RESOLVED | Event::ROUTE_ERROR => Some(LOCAL[1]),
        Event::MULTICAST_JOIN | Event::MULTICAST_ERROR => Some(LOCAL[2]),
        _ => None,
    }
}

impl Connections {
    fn join(&mut self, at: usize, id: Key, correlation: &mut Correlation<'_>) {
        let chain = *self.chain.entry(id).or_insert_with(|| {
            correlation.groups.push(Vec::new());
            correlation.groups.len() - 1
        });
        correlation.groups[chain].push(at);
    }

    /// From here on an id is about something new.
    fn anew(&mut self, id: Key, correlation: &mut Correlation<'_>) {
        correlation.groups.push(Vec::new());
        self.chain.insert(id, correlation.groups.len() - 1);
    }

    /// From here on an id is about the same as another one.
    fn follow(&mut self, id: Key, other: Key) {
        if let Some(&chain) = self.chain.get(&other) {
            self.chain.insert(id, chain);
        }
    }

    /// A call of a process, by its entry's number.
    pub(super) fn call(
        &mut self,
        at: usize,
        (process, call): (u32, &Call),
        ids: &Ids,
        correlation: &mut Correlation<'_>,
    ) {
        let Some(id) = cm_id(&call.args, "id").map(|id| (process, id)) else { return };
        let leads = match call.name.as_str() {
            "rdma_connect" => "connect",
            "rdma_accept" => "accept",
            "rdma_reject" => "reject",
            "rdma_disconnect" => "disconnect",
            name => match LOCAL.into_iter().find(|local| *local == name) {
                Some(local) => local,
                None => return,
            },
        };
        match leads {
            "accept" | "reject" => {}
            "disconnect" => self.disconnects(id, ids.other_of(id), correlation),
            _ => self.anew(id, correlation),
        }
        self.leads.insert((id, leads), at);
        self.join(at, id, correlation);
    }

    /// The end of a connection is one conversation, whichever side begins it.
    fn disconnects(&mut self, id: Key, other: Option<Key>, correlation: &mut Correlation<'_>) {
        match other {
            Some(other) if self.leads.contains_key(&(other, "disconnect")) => {
                self.follow(id, other);
            }
            other => {
                self.anew(id, correlation);
                other.into_iter().for_each(|other| self.follow(other, id));
            }
        }
    }

    /// An event that a process takes, by its entry's number.
    pub(super) fn event(
        &mut self,
        at: usize,
        (process, event): (u32, &ConnectionEvent),
        ids: &Ids,
        correlation: &mut Correlation<'_>,
    ) {
        let id = (process, event.id);
        let other = ids.other_of(id);
        let of_other = |leads: &HashMap<_, _>, what| leads.get(&(other?, what)).copied();
        let from = match event.event {
            CmEvent::CONNECT_REQUEST => {
                match other {
                    Some(other) => self.follow(id, other),
                    None => self.anew(id, correlation),
                }
                of_other(&self.leads, "connect")
            }
            CmEvent::CONNECT_RESPONSE | CmEvent::ESTABLISHED => {
                // The accepting side is told when the other side's answer has come.
                let accepted = of_other(&self.leads, "accept");
                let from = match self.leads.contains_key(&(id, "accept")) {
                    true => accepted.or_else(|| of_other(&self.leads, "established")),
                    false => accepted,
                };
                self.leads.insert((id, "established"), at);
                from
            }
            CmEvent::REJECTED => other.and_then(|other| self.leads.remove(&(other, "reject"))),
            CmEvent::DISCONNECTED => {
                other.and_then(|other| self.leads.remove(&(other, "disconnect")))
            }
            CmEvent::UNREACHABLE | CmEvent::CONNECT_ERROR => {
                self.leads.get(&(id, "connect")).copied()
            }
            event => led_to(event).and_then(|call| self.leads.remove(&(id, call))),
        };
        correlation.flows.extend(from.map(|from| Flow { from, to: at }));
        self.join(at, id, correlation);
    }
}
