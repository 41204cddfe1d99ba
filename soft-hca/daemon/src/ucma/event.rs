//! Queues of events, one for each opened file.

use std::collections::VecDeque;

use soft_hca_core::device_spec::DeviceSet;
use soft_hca_core::errno::{Errno, Refusal, Result, ensure};
use soft_hca_core::uapi::ucma::{CmEvent, EVENT, Ece, Event, Param, WriteEvent, event_type};

use super::id::Key;
use super::late::Late;
use super::timer::Due;
use super::{Call, Cm, Cx, FileId, NOTHING};

/// An opened file.
#[derive(Debug)]
pub(super) struct File {
    /// Its process, for listings.
    pub owner: usize,
    /// The devices that its program finds.
    pub found: DeviceSet,
    pub events: VecDeque<Waiting>,
    /// Those that its program cannot fetch yet.
    pub late: Option<Late>,
    /// When its program has asked for an event for the first time since the last one, and there was none.
    pub asked_ns: Option<u64>,
}

impl File {
    pub(super) fn new(owner: usize) -> Self {
        Self { owner, found: DeviceSet::ALL, events: VecDeque::new(), late: None, asked_ns: None }
    }

    /// The events that nobody has fetched, in no order.
    pub(super) fn unfetched(&self) -> impl Iterator<Item = &Waiting> {
        self.events.iter().chain(self.late.iter().flat_map(Late::events))
    }
}

/// An event that nobody has fetched.
#[derive(Debug)]
pub(super) struct Waiting {
    /// The id that it counts for; for a connection request that is the listener.
    pub id: Key,
    /// The new id of a connection request.
    pub request: Option<Key>,
    /// The membership that it counts for as well.
    pub membership: Option<u32>,
    /// Its type, and the number of its id.
    pub told: (u32, u32),
    pub bytes: [u8; EVENT],
}

impl Waiting {
    /// The id that it is about: of a connection request the new one.
    pub(super) fn about(&self) -> Key {
        self.request.unwrap_or(self.id)
    }
}

/// Events that may wait in a file before commands that bring forth more are refused. The kernel
/// has no such limit, but a program that never fetches must not use up everybody's memory.
const MAX_WAITING: usize = 0x4000;

impl Cm {
    /// Queues an event of an id that carries nothing but its type and status.
    pub(super) fn push(&mut self, key: Key, event: u32, status: i32) {
        self.push_with(key, event, status, Param::None, Ece::default());
    }

    /// Queues an event of an id.
    pub(super) fn push_with(&mut self, key: Key, event: u32, status: i32, param: Param, ece: Ece) {
        let Some(id) = self.ids.get(&key) else { return };
        let event = Event { uid: id.uid, id: id.number, event, status, param, ece };
        self.report(key, None, None, &event);
    }

    /// Queues the event of a request at a listener. It has the listener's name and the number
    /// of the new id.
    pub(super) fn push_request(&mut self, listener: Key, request: Key, mut event: Event) {
        let (Some(id), Some(new)) = (self.ids.get(&listener), self.ids.get(&request)) else {
            return;
        };
        (event.uid, event.id) = (id.uid, new.number);
        self.report(listener, Some(request), None, &event);
    }

    /// Queues an event of a membership.
    pub(super) fn push_membership(&mut self, key: Key, event: &Event) {
        self.report(key, None, Some(event.id), event);
    }

    /// Every event of every id and membership passes here once, with all that its program is
    /// going to be told: whose, which, status, private data.
    fn report(&mut self, key: Key, request: Option<Key>, membership: Option<u32>, event: &Event) {
        let Some(id) = self.ids.get(&key) else { return };
        // Without a name the program could not tell whose it is. The id of a request has none
        // until it is accepted.
        if id.uid == 0 && request.is_none() {
            return;
        }
        let Some(file) = self.files.get_mut(&id.file) else { return };
        let name = CmEvent(event.event).short_name().unwrap_or("unknown event");
        tracing::debug!(owner = file.owner, id = event.id, status = event.status, "{name}");
        let told = (event.event, event.id);
        let event = Waiting { id: key, request, membership, told, bytes: event.encode() };
        if let Some(late) = &mut file.late {
            let due_ns = late.push(event, self.now_ns);
            self.timers.insert((due_ns, Due::Event(id.file)));
            return;
        }
        file.events.push_back(event);
        self.touched.insert(id.file);
    }

    /// WRITE_CM_EVENT: the program wants to read this among its events.
    pub(super) fn write_event(&mut self, _: &mut Cx<'_>, call: &Call<'_>) -> Result<Vec<u8>> {
        let request = WriteEvent::decode(call.payload)?;
        let is_own = matches!(request.event, event_type::USER | event_type::INTERNAL);
        ensure(is_own, Errno::EINVAL.because(Refusal::EventKind))?;
        let key = self.find(call.file, request.id)?;
        self.room_for_event(call.file)?;
        let param = Param::Arg(request.arg);
        self.push_with(key, request.event, request.status, param, Ece::default());
        NOTHING
    }

    /// Refuses what would bring forth an event while too many wait.
    pub(super) fn room_for_event(&self, file: FileId) -> Result<()> {
        let unfetched = self.files.get(&file).map_or(0, |file| file.unfetched().count());
        let has_room = unfetched < MAX_WAITING;
        ensure(has_room, Errno::ENOMEM.because(Refusal::EventsFull))
    }

    /// Counts an event that has been handed out.
    pub(super) fn count_reported(&mut self, event: &Waiting) {
        if let Some(id) = self.ids.get_mut(&event.id) {
            id.events_reported += 1;
            if event.request.is_some() {
                id.backlog += 1;
            }
        }
        let membership = event.membership.and_then(|number| self.memberships.get_mut(&number));
        if let Some(membership) = membership {
            membership.events_reported += 1;
        }
    }

    /// Forgets a file's events that `is_meant` picks, and gives the ids of the requests among
    /// them.
    pub(super) fn forget_events(
        &mut self,
        file: FileId,
        is_meant: impl Fn(&Waiting) -> bool,
    ) -> Vec<Key> {
        let mut requests = Vec::new();
        let Some(queue) = self.files.get_mut(&file) else { return requests };
        let mut is_kept = |event: &Waiting| {
            let is_meant = is_meant(event);
            requests.extend(event.request.filter(|_| is_meant));
            !is_meant
        };
        queue.events.retain(&mut is_kept);
        if let Some(late) = &mut queue.late {
            late.retain(is_kept);
        }
        self.touched.insert(file);
        requests
    }

    /// Moves an id to another file, its events to the end of that one's queue, and gives the ids of
    /// the requests among them.
    pub(super) fn move_to(&mut self, to: FileId, key: Key) -> Vec<Key> {
        let Some(id) = self.ids.get_mut(&key) else { return Vec::new() };
        let from = std::mem::replace(&mut id.file, to);
        let Some(old) = self.files.get_mut(&from) else { return Vec::new() };
        let (mut moved, kept): (VecDeque<_>, _) =
            std::mem::take(&mut old.events).into_iter().partition(|event| event.id == key);
        old.events = kept;
        if let Some(late) = &mut old.late {
            moved.extend(late.take_of(key));
        }
        let requests = moved.iter().filter_map(|event| event.request).collect();
        if let Some(new) = self.files.get_mut(&to) {
            new.events.extend(moved);
        }
        self.touched.extend([from, to]);
        requests
    }
}
