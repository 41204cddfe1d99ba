//! The ids of the connection manager in the model of a run: which event each waits for, and which events nobody
//! has fetched. A file is the event channel of its number.

use soft_hca_core::uapi::ucma::CmEvent;
use soft_hca_record::entry::Channel;
use soft_hca_record::model::{Blocked, Doing, Id as Known, Run, Unread};

use super::cm::Cm;
use super::connection::{Connection, ConnectionState};
use super::files::File;
use super::host::FileId;
use super::id::{Key, State};
use super::ids::Id;

impl Cm {
    /// Puts the ids and the unread events into the model of a run, and gives the threads that wait for an event,
    /// each with its process.
    pub(crate) fn snapshot(&self, run: &mut Run) -> Vec<(u32, Blocked)> {
        for (key, id) in self.ids.iter() {
            let Some(file) = self.files.get(id.file) else { continue };
            // Programs know the id of a request from its event on.
            if !file.unfetched().any(|event| event.request == Some(key)) {
                let owner = file.owner as u32;
                run.ids.all.insert((owner, id.number), self.known((key, id), file));
            }
        }
        run.ids.unread.extend(self.files.iter().filter_map(|of| self.unread(of)));
        self.files.iter().filter_map(waiting).collect()
    }

    fn known(&self, (key, id): (Key, &Id), file: &File) -> Known {
        use ConnectionState::{
            DreqReceived, DreqSent, Over, RepReceived, RepSent, ReqReceived, ReqSent,
        };
        let has_unread = || file.unfetched().any(|event| event.id == key);
        let state = id.connection.as_ref().map(|connection| connection.state);
        let asked = match state {
            Some(ReqSent) => Some("rdma_connect"),
            Some(RepReceived) if has_unread() => Some("rdma_connect"),
            Some(RepSent) => Some("rdma_accept"),
            Some(DreqSent) => Some("rdma_disconnect"),
            _ => None,
        };
        let is_over = state == Some(Over) && !id.is_datagram;
        let connection = id.connection.as_ref().filter(|_| !is_over);
        Known {
            channel: Some(id.file),
            listens: id.state == State::Listen,
            asked: asked.map(|call| (call, None)),
            qp: connection.map(|connection| connection.qpn.get()).filter(|number| *number != 0),
            is_request: connection.is_some_and(|connection| !connection.is_active),
            other: connection
                .and_then(|of| self.other_end(of))
                .map(|(owner, id)| (owner, id.number)),
            is_answered: state != Some(ReqReceived),
            is_disconnected: state == Some(DreqReceived) && !has_unread(),
            has_disconnected: state != Some(DreqReceived),
            is_over,
            // Others may get an event yet.
            is_established: !is_over,
            ..Known::default()
        }
    }

    /// Events of a file that its program has not fetched.
    fn unread(&self, (number, file): (FileId, &File)) -> Option<Unread> {
        let first = file.events.front()?;
        let connection = self.ids.get(first.about()).and_then(|id| id.connection.as_ref());
        let other = connection.and_then(|connection| self.other_end(connection));
        let other = other.map(|(owner, id)| (owner, id.file));
        let (event, id) = first.told;
        let channel = (file.owner as u32, number);
        Some(Unread { channel, count: file.events.len(), first: (CmEvent(event), id), other })
    }

    /// The other end of a connection, and its process, if that is an id of this fabric.
    fn other_end(&self, connection: &Connection) -> Option<(u32, &Id)> {
        // The passive side knows the other's id from the request on.
        let is_of = |active: &Connection, passive: &Connection| {
            let is_local = !active.peer.is_remote() && !passive.peer.is_remote();
            is_local
                && active.is_active
                && !passive.is_active
                && passive.remote_id == active.local_id
        };
        let is_other = |id: &&Id| {
            let other = id.connection.as_ref();
            other.is_some_and(|other| is_of(connection, other) || is_of(other, connection))
        };
        let id = self.ids.iter().map(|(_, id)| id).find(is_other)?;
        Some((self.files.get(id.file)?.owner as u32, id))
    }
}

/// A program that waits at a file that has nothing for it.
fn waiting((number, file): (FileId, &File)) -> Option<(u32, Blocked)> {
    let since = file.asked_ns.filter(|_| file.unfetched().next().is_none())?;
    let doing = Doing::Waits { on: Channel::Connection, fd: number };
    Some((file.owner as u32, Blocked::now(doing, since)))
}
