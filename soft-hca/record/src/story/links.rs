//! Which entries belong together.

use std::collections::{HashMap, VecDeque};

use super::{Arrival, Flow, Story, Transfer, cm_id, queue_pair, value};
use crate::entry::{
    Call, Channel, Completion, ConnectionEvent, Executed, Outcome, ReceivePosted, ReceiveQueue,
    What,
};
use crate::words::SUCCESS;

/// A queue pair and a `wr_id`.
type Request = (u32, u64);

/// What has been seen so far.
#[derive(Default)]
struct Seen {
    /// Posted and not executed.
    waiting: HashMap<Request, VecDeque<usize>>,
    /// The last that was executed and has no completion yet.
    executed: HashMap<Request, usize>,
    /// Receives in queue pairs' own queues.
    receives: HashMap<Request, VecDeque<usize>>,
    /// Receives in shared queues, by the party and the `wr_id`.
    shared: HashMap<(usize, u64), VecDeque<usize>>,
    /// Arrivals without a completion: transfer and number of the arrival.
    arrivals: HashMap<Request, (usize, usize)>,
    /// The last transfer that a party's thread has executed.
    last_of: HashMap<u32, usize>,
    /// The party of each queue pair.
    owner: HashMap<u32, usize>,
    /// The party of each process.
    party: HashMap<u32, usize>,
    /// The queue pair that each is connected to.
    peer: HashMap<u32, u32>,
    /// Threads that wait.
    waits: HashMap<(usize, Option<u32>, Channel2), usize>,
    /// A wait's end that the event behind it belongs to.
    woken: HashMap<(usize, Option<u32>), usize>,
    connections: Connections,
}

/// A channel and its descriptor.
type Channel2 = (u8, u32);

/// Finds all of it.
pub(super) fn find(story: &mut Story<'_>) {
    let mut seen = Seen::default();
    for at in 0..story.entries.len() {
        let (party, thread) = (story.party[at], story.entries[at].thread);
        seen.party.insert(story.entries[at].process, party);
        match &story.entries[at].what {
            What::Call(call) => seen.call(at, party, call, story),
            What::ConnectionEvent(event) => {
                if let Some(woken) = seen.woken.remove(&(party, thread)) {
                    story.groups.push(vec![woken, at]);
                }
                seen.connections.event(at, party, event, &seen.owner, story);
            }
            What::SendPosted(send) => {
                seen.owner.insert(send.qp, party);
                let transfer = story.transfers.len();
                story.transfers.push(Transfer { posted: Some(at), ..Transfer::default() });
                story.transfer[at] = Some(transfer);
                seen.waiting.entry((send.qp, send.wr_id)).or_default().push_back(transfer);
            }
            What::ReceivePosted(receive) => seen.receive(at, party, receive),
            What::Stalled { qp, wr_id, .. } => {
                let waiting = seen.waiting.get(&(*qp, *wr_id)).and_then(VecDeque::front);
                if let Some(&transfer) = waiting {
                    story.transfers[transfer].stalls.push(at);
                    story.transfer[at] = Some(transfer);
                }
            }
            What::Executed(executed) => seen.executed(at, party, executed, story),
            What::Completion(completion) => seen.completion(at, party, completion, story),
            What::Wait { on, fd } => {
                seen.waits.insert((party, thread, (channel(*on), *fd)), at);
            }
            What::Woken { on, fd, .. } => {
                if let Some(from) = seen.waits.remove(&(party, thread, (channel(*on), *fd))) {
                    story.waits.push(Flow { from, to: at });
                }
                seen.woken.insert((party, thread), at);
            }
            What::ProcessBegan { .. }
            | What::ProcessEnded
            | What::AsyncEvent { .. }
            | What::Packet(_)
            | What::Dropped { .. } => {}
        }
        if !matches!(story.entries[at].what, What::Woken { .. }) {
            seen.woken.remove(&(party, thread));
        }
    }
    for transfer in 0..story.transfers.len() {
        let peer = seen.peer_of(&story.transfers[transfer], story);
        story.transfers[transfer].peer = peer;
    }
    gather(story);
}

fn channel(channel: Channel) -> u8 {
    match channel {
        Channel::Completion => 0,
        Channel::Connection => 1,
        Channel::Async => 2,
    }
}

impl Seen {
    fn call(&mut self, at: usize, party: usize, call: &Call, story: &mut Story<'_>) {
        if let Outcome::Done(results) = &call.result
            && let Some(qp) = value(results, "qp_num").and_then(queue_pair)
        {
            self.owner.insert(qp, party);
        }
        let dest = value(&call.args, "dest_qp_num").and_then(queue_pair);
        let own = call.args.iter().find(|named| named.0 == "qp" || named.0 == "qp_num");
        if let (Some(dest), Some(own)) = (dest, own.and_then(|own| queue_pair(&own.1))) {
            self.peer.insert(own, dest);
        }
        self.connections.call(at, party, call, story);
    }

    fn receive(&mut self, at: usize, party: usize, receive: &ReceivePosted) {
        match receive.queue {
            ReceiveQueue::Qp(qp) => {
                self.owner.insert(qp, party);
                self.receives.entry((qp, receive.wr_id)).or_default().push_back(at);
            }
            ReceiveQueue::Srq(_) => {
                self.shared.entry((party, receive.wr_id)).or_default().push_back(at);
            }
        }
    }

    /// The receive of this name that was posted first.
    fn take_receive(&mut self, party: usize, request: Request) -> Option<usize> {
        let own = self.receives.get_mut(&request).and_then(VecDeque::pop_front);
        own.or_else(|| self.shared.get_mut(&(party, request.1)).and_then(VecDeque::pop_front))
    }

    fn executed(&mut self, at: usize, party: usize, executed: &Executed, story: &mut Story<'_>) {
        let request = (executed.qp, executed.wr_id);
        self.owner.insert(executed.qp, party);
        let posted = self.waiting.get_mut(&request).and_then(VecDeque::pop_front);
        let transfer = posted.unwrap_or_else(|| {
            story.transfers.push(Transfer::default());
            story.transfers.len() - 1
        });
        story.transfers[transfer].executed = Some(at);
        story.transfer[at] = Some(transfer);
        self.executed.insert(request, transfer);
        self.last_of.insert(story.entries[at].process, transfer);
        if let Some(receive) = &executed.receive {
            let to = self.owner.get(&receive.qp).copied();
            let party = to.or_else(|| self.party.get(&receive.process).copied()).unwrap_or(party);
            self.peer.insert(executed.qp, receive.qp);
            self.arrive(transfer, party, (receive.qp, receive.wr_id), story);
        }
    }

    /// A message has gone into a receive.
    fn arrive(&mut self, transfer: usize, party: usize, request: Request, story: &mut Story<'_>) {
        let receive = self.take_receive(party, request);
        if let Some(receive) = receive {
            story.transfer[receive] = Some(transfer);
        }
        let arrivals = &mut story.transfers[transfer].arrivals;
        arrivals.push(Arrival { party, receive, completion: None });
        self.arrivals.insert(request, (transfer, arrivals.len() - 1));
    }

    fn completion(&mut self, at: usize, party: usize, done: &Completion, story: &mut Story<'_>) {
        let request = (done.qp, done.wr_id);
        let of_receive = done.opcode.starts_with("IBV_WC_RECV");
        let success = done.status == SUCCESS;
        let sent = self.executed.get(&request).copied().filter(|&transfer| {
            let executed = story.transfers[transfer].executed.map(|at| &story.entries[at].what);
            matches!(executed, Some(What::Executed(e)) if e.status == done.status)
        });
        match sent {
            Some(transfer) if !(success && of_receive) => {
                self.executed.remove(&request);
                story.transfers[transfer].completion = Some(at);
                story.transfer[at] = Some(transfer);
                return;
            }
            _ => {}
        }
        if !self.arrivals.contains_key(&request) && success && of_receive {
            // One of several receivers of a datagram, or one whose receive was not known.
            let by = story.entries[at].by.unwrap_or(story.entries[at].process);
            if let Some(&transfer) = self.last_of.get(&by) {
                self.arrive(transfer, party, request, story);
            }
        }
        if let Some((transfer, arrival)) = self.arrivals.remove(&request) {
            story.transfers[transfer].arrivals[arrival].completion = Some(at);
            story.transfer[at] = Some(transfer);
        } else if let Some(from) = self.take_receive(party, request) {
            story.returned.push(Flow { from, to: at });
        }
    }

    /// Whom a work request is for.
    fn peer_of(&self, transfer: &Transfer, story: &Story<'_>) -> Option<usize> {
        if let Some(arrival) = transfer.arrivals.first() {
            return Some(arrival.party);
        }
        let at = transfer.posted.or(transfer.executed)?;
        let qp = match &story.entries[at].what {
            What::SendPosted(send) => send.qp,
            What::Executed(executed) => executed.qp,
            _ => return None,
        };
        let connected = self.peer.get(&qp).and_then(|peer| self.owner.get(peer)).copied();
        connected.or_else(|| match story.parties.len() {
            2 => Some(1 - story.party[at]),
            _ => None,
        })
    }
}

/// An id of the connection manager: the party and the number.
type Id = (usize, u32);

/// The connection manager's conversations.
#[derive(Default)]
struct Connections {
    /// The group of what an id is about now.
    chain: HashMap<Id, usize>,
    /// The other end.
    other: HashMap<Id, Id>,
    /// What was called last on an id, by the event that it leads to.
    leads: HashMap<(Id, &'static str), usize>,
    /// Connections that were asked for and have not arrived, in their order.
    asked: VecDeque<(Id, usize)>,
}

/// The calls that lead to events, and the beginning of the events' names.
const LOCAL: [(&str, &str); 3] = [
    ("rdma_resolve_addr", "RDMA_CM_EVENT_ADDR_"),
    ("rdma_resolve_route", "RDMA_CM_EVENT_ROUTE_"),
    ("rdma_join_multicast", "RDMA_CM_EVENT_MULTICAST_"),
];

impl Connections {
    fn join(&mut self, at: usize, id: Id, story: &mut Story<'_>) {
        let chain = *self.chain.entry(id).or_insert_with(|| {
            story.groups.push(Vec::new());
            story.groups.len() - 1
        });
        story.groups[chain].push(at);
    }

    /// From here on an id is about something new.
    fn anew(&mut self, id: Id, story: &mut Story<'_>) {
        story.groups.push(Vec::new());
        self.chain.insert(id, story.groups.len() - 1);
    }

    fn call(&mut self, at: usize, party: usize, call: &Call, story: &mut Story<'_>) {
        let Some(id) = cm_id(&call.args).map(|id| (party, id)) else { return };
        if let Some((_, event)) = LOCAL.iter().find(|(name, _)| *name == call.name) {
            self.anew(id, story);
            self.leads.insert((id, event), at);
            self.join(at, id, story);
            return;
        }
        match call.name.as_str() {
            "rdma_connect" => {
                self.anew(id, story);
                self.asked.push_back((id, at));
                self.leads.insert((id, "connect"), at);
            }
            "rdma_accept" => {
                self.leads.insert((id, "accept"), at);
            }
            "rdma_reject" => {
                self.leads.insert((id, "reject"), at);
            }
            "rdma_disconnect" => {
                let closing = self.other.get(&id).and_then(|other| {
                    self.leads.contains_key(&(*other, "disconnect")).then(|| self.chain.get(other))
                });
                match closing.flatten().copied() {
                    Some(chain) => {
                        self.chain.insert(id, chain);
                    }
                    None => {
                        self.anew(id, story);
                        if let (Some(&other), Some(&chain)) =
                            (self.other.get(&id), self.chain.get(&id))
                        {
                            self.chain.insert(other, chain);
                        }
                    }
                }
                self.leads.insert((id, "disconnect"), at);
            }
            _ => return,
        }
        self.join(at, id, story);
    }

    fn event(
        &mut self,
        at: usize,
        party: usize,
        event: &ConnectionEvent,
        owner: &HashMap<u32, usize>,
        story: &mut Story<'_>,
    ) {
        let id = (party, event.id);
        let local = LOCAL.iter().find(|(_, beginning)| event.event.starts_with(beginning));
        if let Some((_, beginning)) = local {
            if let Some(from) = self.leads.remove(&(id, beginning)) {
                story.flows.push(Flow { from, to: at });
            }
            self.join(at, id, story);
            return;
        }
        let other = self.other.get(&id).copied();
        let from = match event.event.as_str() {
            "RDMA_CM_EVENT_CONNECT_REQUEST" => {
                let asker = event.qp.and_then(|qp| owner.get(&qp)).copied();
                let asked = asker.and_then(|asker| {
                    self.asked.iter().position(|((party, _), _)| *party == asker)
                });
                let asked = asked.or(if self.asked.is_empty() { None } else { Some(0) });
                let asked = asked.and_then(|asked| self.asked.remove(asked));
                if let Some((asker, _)) = asked {
                    self.other.insert(asker, id);
                    self.other.insert(id, asker);
                    if let Some(&chain) = self.chain.get(&asker) {
                        self.chain.insert(id, chain);
                    }
                } else {
                    self.anew(id, story);
                }
                asked.map(|(_, at)| at)
            }
            "RDMA_CM_EVENT_CONNECT_RESPONSE" | "RDMA_CM_EVENT_ESTABLISHED" => {
                // Who accepts is told when the other side's answer has come.
                let told = other.and_then(|other| self.leads.get(&(other, "established")));
                let accepted = other.and_then(|other| self.leads.get(&(other, "accept")));
                let from = match self.leads.contains_key(&(id, "accept")) {
                    true => told,
                    false => accepted,
                };
                let from = from.copied();
                self.leads.insert((id, "established"), at);
                from
            }
            "RDMA_CM_EVENT_REJECTED" => {
                other.and_then(|other| self.leads.remove(&(other, "reject")))
            }
            "RDMA_CM_EVENT_DISCONNECTED" => {
                other.and_then(|other| self.leads.remove(&(other, "disconnect")))
            }
            "RDMA_CM_EVENT_UNREACHABLE" | "RDMA_CM_EVENT_CONNECT_ERROR" => {
                self.leads.get(&(id, "connect")).copied()
            }
            _ => None,
        };
        if let Some(from) = from {
            story.flows.push(Flow { from, to: at });
        }
        self.join(at, id, story);
    }
}

/// Makes groups of transfers and waits, and lists each entry's groups.
fn gather(story: &mut Story<'_>) {
    for transfer in &story.transfers {
        let mut entries: Vec<_> = transfer.entries().collect();
        entries.sort_unstable();
        story.groups.push(entries);
    }
    for pair in story.waits.iter().chain(&story.returned) {
        story.groups.push(vec![pair.from, pair.to]);
    }
    story.groups.retain(|group| group.len() > 1);
    story.groups_of = vec![Vec::new(); story.entries.len()];
    for (number, group) in story.groups.iter_mut().enumerate() {
        group.sort_unstable();
        group.dedup();
        for &at in group.iter() {
            story.groups_of[at].push(number);
        }
    }
}
