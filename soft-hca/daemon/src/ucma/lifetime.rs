//! Making and destroying ids, and handing them to another file.

use soft_hca_core::errno::{Errno, Refusal, Result, ensure};
use soft_hca_core::uapi::ucma::{CreateId, MigrateId, Target};
use soft_hca_core::uapi::verbs::qp_type;

use super::cm::Cm;
use super::host::{Call, Cx};
use super::id::{Key, Space};

impl Cm {
    pub(super) fn create_id(&mut self, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Vec<u8>> {
        let request = CreateId::decode(call.payload)?;
        let space = Space::from_number(request.ps)?;
        let is_datagram = match space {
            Space::Tcp => false,
            Space::Udp | Space::Ipoib => true,
            Space::Ib => u32::from(request.qp_type) == qp_type::UD,
        };
        let key = self.ids.make(cx.host, call.file, (space, is_datagram), request.uid)?;
        Ok(self.ids.id(key)?.number.to_le_bytes().to_vec())
    }

    pub(super) fn destroy_id(&mut self, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Vec<u8>> {
        let key = self.ids.find_any(call.file, Target::decode(call.payload)?.id)?;
        Ok(self.destroy(cx, key).to_le_bytes().to_vec())
    }

    /// Ends all that an id takes part in.
    pub(super) fn release(&mut self, cx: &mut Cx<'_>, key: Key) {
        self.end_connection(cx, key);
        self.cancel_timer(key);
        self.groups.leave_all(key);
        let Some(id) = self.ids.get_mut(key) else { return };
        id.source = None;
        if let Some(port) = id.port.take() {
            self.ports.release(port, key);
        }
        if let Some(connection) = id.connection.take() {
            let id = (key, id.is_datagram);
            self.connections.forget(&mut self.timers, cx.now_ns, id, &connection);
        }
    }

    /// Destroys an id: ends its connection, gives back its port, forgets its events and the
    /// requests among them. Gives the number of events reported (`ucma_destroy_private_ctx`).
    pub(super) fn destroy(&mut self, cx: &mut Cx<'_>, key: Key) -> u32 {
        self.release(cx, key);
        let Some(id) = self.ids.remove(key) else { return 0 };
        for request in self.files.forget_events(id.file, |event| event.id == key) {
            self.destroy(cx, request);
        }
        id.events_reported
    }

    /// Hands an id with its events to the file that the command was written to.
    pub(super) fn migrate_id(&mut self, _: &mut Cx<'_>, call: &Call<'_>) -> Result<Vec<u8>> {
        let MigrateId { id: number, file: old } = MigrateId::decode(call.payload)?;
        let is_open = self.files.get(old).is_some();
        ensure(is_open, Errno::ENOENT.because(Refusal::IdFromClosedFile))?;
        let key = self.ids.find(old, number)?;
        // Requests that nobody has fetched go with their listener: whoever fetches them there
        // must be able to use them. One that was accepted or moved by its number alone may have
        // events of its own, and elsewhere.
        for request in self.move_to(call.file, key) {
            self.move_to(call.file, request);
        }
        Ok(self.ids.id(key)?.events_reported.to_le_bytes().to_vec())
    }
}
