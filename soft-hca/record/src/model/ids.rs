//! Ids of the connection manager: which event each waits for, and who would bring it about.

use std::collections::BTreeMap;

use soft_hca_verbs::CmEvent;

use crate::arguments::{cm_id, event_channel, qp};
use crate::calls::ACKNOWLEDGES;
use crate::connection;
use crate::entry::{Call, ConnectionEvent, Entry, Outcome, What};
use crate::value::Named;

/// Process and number.
pub type Key = (u32, u32);

/// An id.
#[derive(Clone, Debug, Default)]
pub struct Id {
    /// Descriptor of its event channel.
    pub channel: Option<u32>,
    /// `rdma_listen` was called.
    pub listens: bool,
    /// The last call whose event has not been taken, and its time, if that is known.
    pub asked: Option<(&'static str, Option<u64>)>,
    /// The queue pair that it connects.
    pub qp: Option<u32>,
    /// It is that of a connection request, which was taken.
    pub is_request: bool,
    /// When that was, if it is known.
    pub taken: Option<u64>,
    /// The other end of its connection, from the time on when the request was taken.
    pub other: Option<Key>,
    /// It was accepted or rejected.
    pub is_answered: bool,
    /// It was told that the peer has disconnected.
    pub is_disconnected: bool,
    /// `rdma_disconnect` was called.
    pub has_disconnected: bool,
    /// An event has told of its connection or membership, whose end another event will tell.
    pub is_established: bool,
    /// An event has told that there will be no connection or membership.
    pub is_over: bool,
    /// Events that were taken: name, time and thread.
    pub events: Vec<(CmEvent, u64, u32)>,
}

/// Events that wait in an event channel; known of a fabric, not of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unread {
    /// The process and the channel.
    pub channel: (u32, u32),
    /// How many there are.
    pub count: usize,
    /// The first one, and its id.
    pub first: (CmEvent, u32),
    /// Process and channel of the other end of the connection that the first one is about.
    pub other: Option<(u32, u32)>,
}

/// All ids.
#[derive(Debug, Default)]
pub struct Ids {
    /// Those that are there.
    pub all: BTreeMap<Key, Id>,
    /// Those that were destroyed last, with the events that were taken of them.
    pub destroyed: BTreeMap<Key, Id>,
    /// The last id of an event channel that was destroyed, and the time.
    last: BTreeMap<(u32, u32), (u32, u64)>,
    /// Events that no program has taken; known of a fabric, not of a record.
    pub unread: Vec<Unread>,
}

impl Id {
    /// Whether it gets no event before the program calls something for it.
    pub fn gets_nothing(&self) -> bool {
        let may_get = self.listens || self.asked.is_some() || self.is_request;
        !may_get && (self.is_over || !self.is_established)
    }
}

/// Calls that lead to an event of their id.
const ASKING: [&str; 6] = [
    "rdma_resolve_addr",
    "rdma_resolve_route",
    "rdma_connect",
    "rdma_accept",
    "rdma_disconnect",
    "rdma_join_multicast",
];

impl Ids {
    /// Another entry.
    pub fn entry(&mut self, entry: &Entry) {
        match &entry.what {
            What::Call(call) => self.call(entry, call),
            What::ConnectionEvent(event) => self.event(entry, event),
            _ => {}
        }
    }

    fn call(&mut self, entry: &Entry, call: &Call) {
        let Outcome::Done(done) = &call.result else { return };
        if call.name == "rdma_create_id" {
            if let Some(number) = cm_id(done, "id") {
                let new = Id { channel: event_channel(&call.args, "channel"), ..Id::default() };
                self.all.insert((entry.process, number), new);
            }
            return;
        }
        // An id whose events are acknowledged may be gone.
        let Some(number) = cm_id(&call.args, "id").filter(|_| call.name != ACKNOWLEDGES) else {
            return;
        };
        let key = (entry.process, number);
        if call.name == "rdma_destroy_id" {
            if let Some(id) = self.all.remove(&key) {
                if let Some(channel) = id.channel {
                    self.last.insert((entry.process, channel), (number, entry.t));
                }
                self.destroyed.insert(key, id);
            }
            return;
        }
        let id = self.all.entry(key).or_default();
        match call.name.as_str() {
            "rdma_listen" => id.listens = true,
            "rdma_migrate_id" => id.channel = event_channel(&call.args, "channel"),
            "rdma_accept" | "rdma_reject" => id.is_answered = true,
            "rdma_disconnect" => id.has_disconnected = true,
            _ => {}
        }
        id.qp = qp(&call.args, "qp_num").or(id.qp);
        if let Some(name) = ASKING.into_iter().find(|name| *name == call.name) {
            // An id that was told of the end gets no further event.
            let is_over = name == "rdma_disconnect" && id.is_disconnected;
            // The library of who connects answers an acceptance by one of its own.
            let is_answer = name == "rdma_accept" && !id.is_request;
            if name == "rdma_connect" {
                id.other = None;
            }
            if !is_answer {
                id.asked = (!is_over).then_some((name, Some(entry.t)));
            }
        }
    }

    fn event(&mut self, entry: &Entry, event: &ConnectionEvent) {
        let taken = (event.event, entry.t, entry.thread.unwrap_or_default());
        if let Some(listen) = event.listen_id {
            let listener = self.all.entry((entry.process, listen)).or_default();
            listener.events.push(taken);
            let channel = listener.channel;
            let (key, other) = ((entry.process, event.id), self.asking_for(event.qp));
            if let Some(asking) = other.and_then(|other| self.all.get_mut(&other)) {
                asking.other = Some(key);
            }
            // Of datagrams the one who accepts gets no further event.
            let is_request = event.qp.is_some();
            let taken = is_request.then_some(entry.t);
            let new = Id { channel, is_request, taken, other, ..Id::default() };
            self.all.insert(key, new);
            return;
        }
        let id = self.all.entry((entry.process, event.id)).or_default();
        id.events.push(taken);
        id.asked = None;
        id.is_over |= connection::has_failed(event.event, event.status);
        // Without a queue pair of its own an id is told of the response.
        id.is_established |= matches!(
            event.event,
            CmEvent::ESTABLISHED | CmEvent::CONNECT_RESPONSE | CmEvent::MULTICAST_JOIN
        );
        id.is_disconnected |= event.event == CmEvent::DISCONNECTED;
    }

    /// The id whose `rdma_connect` has made a request, by its queue pair's number. The request of one for datagrams
    /// tells none; it is that of the first whose request was not taken.
    fn asking_for(&self, qp: Option<u32>) -> Option<Key> {
        let mut all = self.all.iter();
        match qp {
            Some(qp) => all.find(|(_, id)| id.qp == Some(qp) && !id.is_request),
            None => {
                let asks = |id: &Id| id.asked.filter(|(call, _)| *call == "rdma_connect");
                let all = all.filter(|(_, id)| id.other.is_none() && asks(id).is_some());
                all.min_by_key(|(_, id)| asks(id).map(|(_, t)| t))
            }
        }
        .map(|(key, _)| *key)
    }

    /// The id that arguments of a process name.
    pub(super) fn get(&self, process: u32, args: &[Named]) -> Option<&Id> {
        self.all.get(&(process, cm_id(args, "id")?))
    }

    /// The id that was destroyed last of those that used an event channel.
    pub fn last_at(&self, channel: (u32, u32)) -> Option<(u32, u64)> {
        self.last.get(&channel).copied()
    }

    /// The queue pair that an id connects, or that the last one of this number did.
    pub fn qp_of(&self, key: Key) -> Option<u32> {
        self.last_of(key)?.qp
    }

    /// The other end of the connection of an id, or of the last one of this number; that may be gone, too.
    pub fn other_of(&self, key: Key) -> Option<Key> {
        self.last_of(key)?.other
    }

    fn last_of(&self, key: Key) -> Option<&Id> {
        self.all.get(&key).or_else(|| self.destroyed.get(&key))
    }

    /// The ids of a process.
    pub fn of(&self, process: u32) -> impl Iterator<Item = (u32, &Id)> {
        self.all.range((process, 0)..=(process, u32::MAX)).map(|((_, number), id)| (*number, id))
    }

    /// The other end of an id, if it is there.
    pub fn other_end(&self, key: Key) -> Option<(Key, &Id)> {
        let other = self.all.get(&key)?.other?;
        // Its number may be another's by this time.
        let id = self.all.get(&other).filter(|id| id.other == Some(key))?;
        Some((other, id))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{CLIENT, Run, SERVER};

    /// Ids of a client call `rdma_connect`, each with this queue pair.
    fn connect(asking: &[(u32, u32)]) -> Run {
        let mut run = Run::new();
        for (id, qp) in asking {
            let args = json!([["id", {"cm_id": id}], ["qp_num", {"qp": qp}]]);
            run.call(CLIENT, "rdma_connect", args, json!([]));
        }
        run
    }

    /// A request comes to a listener, with the peer's queue pair if it tells that.
    fn comes(run: &mut Run, id: u32, qp: Value) {
        run.event(SERVER, "RDMA_CM_EVENT_CONNECT_REQUEST", id, json!({"listen_id": 0, "qp": qp}));
    }

    fn ids(run: &Run) -> Ids {
        let mut ids = Ids::default();
        run.entries().iter().for_each(|entry| ids.entry(entry));
        ids
    }

    #[test]
    fn a_request_is_that_of_the_id_with_its_queue_pair() {
        let mut run = connect(&[(1, 17), (2, 18)]);
        comes(&mut run, 5, json!(18));
        let ids = ids(&run);
        assert_eq!(ids.other_of((SERVER, 5)), Some((CLIENT, 2)));
        assert_eq!(ids.other_end((CLIENT, 2)).map(|(key, _)| key), Some((SERVER, 5)));
        assert_eq!(ids.other_of((CLIENT, 1)), None);
    }

    /// A request that comes from where nobody records is nobody's.
    #[test]
    fn a_request_of_another_host_has_no_other_end() {
        let mut run = connect(&[(1, 17)]);
        comes(&mut run, 5, json!(99));
        assert_eq!(ids(&run).other_of((SERVER, 5)), None);
    }

    #[test]
    fn requests_for_datagrams_come_in_their_order() {
        let mut run = connect(&[(2, 18), (1, 17)]);
        comes(&mut run, 5, json!(null));
        comes(&mut run, 6, json!(null));
        let ids = ids(&run);
        let others = [5, 6].map(|id| ids.other_of((SERVER, id)));
        assert_eq!(others, [Some((CLIENT, 2)), Some((CLIENT, 1))]);
    }

    #[test]
    fn a_number_that_is_used_again_is_no_end_of_a_connection_of_before() {
        let mut run = connect(&[(1, 17)]);
        comes(&mut run, 5, json!(17));
        run.call(CLIENT, "rdma_destroy_id", json!([["id", {"cm_id": 1}]]), json!([]));
        let gone = ids(&run);
        assert_eq!(gone.other_of((CLIENT, 1)), Some((SERVER, 5)), "that is gone");
        assert!(gone.other_end((SERVER, 5)).is_none());
        run.call(CLIENT, "rdma_create_id", json!([]), json!([["id", {"cm_id": 1}]]));
        assert!(ids(&run).other_end((SERVER, 5)).is_none());
    }
}
