//! Events of ids and memberships.

use soft_hca_core::errno::{Errno, Refusal, Result, ensure};
use soft_hca_core::uapi::ucma::{CmEvent, Ece, Event, Param, WriteEvent, event_type};

use super::cm::Cm;
use super::host::{Call, Cx, FileId, NOTHING};
use super::id::Key;
use super::waiting::Waiting;

impl Cm {
    /// Queues an event of an id that carries nothing but its type and status.
    pub(super) fn push(&mut self, key: Key, event: u32, status: i32) {
        self.push_with(key, event, status, Param::None, Ece::default());
    }

    /// Queues an event of an id.
    pub(super) fn push_with(&mut self, key: Key, event: u32, status: i32, param: Param, ece: Ece) {
        let Some(id) = self.ids.get(key) else { return };
        let event = Event { uid: id.uid, id: id.number, event, status, param, ece };
        self.report(key, None, None, &event);
    }

    /// Queues the event of a request at a listener. It has the listener's name and the number
    /// of the new id.
    pub(super) fn push_request(&mut self, listener: Key, request: Key, mut event: Event) {
        let (Some(id), Some(new)) = (self.ids.get(listener), self.ids.get(request)) else {
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
        let Some(id) = self.ids.get(key) else { return };
        // Without a name the program could not tell whose it is. The id of a request has none
        // until it is accepted.
        if id.uid == 0 && request.is_none() {
            return;
        }
        let (number, Some(file)) = (id.file, self.files.get(id.file)) else { return };
        let name = CmEvent(event.event).short_name().unwrap_or("unknown event");
        tracing::debug!(owner = file.owner, id = event.id, status = event.status, "{name}");
        let told = (event.event, event.id);
        let event = Waiting { id: key, request, membership, told, bytes: event.encode() };
        self.files.push(number, event, self.now_ns);
    }

    /// WRITE_CM_EVENT: the program wants to read this among its events.
    pub(super) fn write_event(&mut self, _: &mut Cx<'_>, call: &Call<'_>) -> Result<Vec<u8>> {
        let request = WriteEvent::decode(call.payload)?;
        let is_own = matches!(request.event, event_type::USER | event_type::INTERNAL);
        ensure(is_own, Errno::EINVAL.because(Refusal::EventKind))?;
        let key = self.ids.find(call.file, request.id)?;
        self.files.room_for_event(call.file)?;
        let param = Param::Arg(request.arg);
        self.push_with(key, request.event, request.status, param, Ece::default());
        NOTHING
    }

    /// Counts an event that has been handed out.
    pub(super) fn count_reported(&mut self, event: &Waiting) {
        if let Some(id) = self.ids.get_mut(event.id) {
            id.events_reported += 1;
            if event.request.is_some() {
                id.backlog += 1;
            }
        }
        if let Some(number) = event.membership {
            self.groups.count_reported(number);
        }
    }

    /// Moves an id to another file, its events to the end of that one's queue, and gives the ids of
    /// the requests among them.
    pub(super) fn move_to(&mut self, to: FileId, key: Key) -> Vec<Key> {
        let Some(id) = self.ids.get_mut(key) else { return Vec::new() };
        let from = std::mem::replace(&mut id.file, to);
        self.files.move_events(key, from, to)
    }
}
