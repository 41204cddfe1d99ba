//! Programs that wait for an event, and those that would bring it about.

use soft_hca_core::uapi::ucma::CmEvent;

use super::cm::Cm;
use super::connection::{Connection, ConnectionState};
use super::files::File;
use super::host::FileId;
use super::id::Key;
use super::ids::Id;
use super::waiting::Waiting;

/// A program that waits for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asking {
    /// Index of its process.
    pub owner: usize,
    /// `CLOCK_MONOTONIC` nanoseconds.
    pub since: u64,
    /// Number of the id whose event does not come; `None` if no id has the event channel.
    pub id: Option<u32>,
    pub why: Reason,
}

/// Process and id of the one that would have to do something.
type Other = (usize, u32);

/// Why an event does not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The request was taken, and neither accepted nor rejected.
    NotAnswered(Other),
    /// The disconnection was told, and not answered.
    NotDisconnected(Other),
    /// The connections of all ids of the event channel are over, so that no event follows.
    Over,
    /// No id has the event channel.
    Unused,
}

impl Cm {
    /// Events that wait in files whose programs have not fetched them: process, how many, and name and id
    /// of the first. With a time only those that somebody has waited for since then; `waits` says whether a process
    /// waits for completions.
    pub(crate) fn unread(
        &self,
        since: Option<u64>,
        waits: impl Fn(usize) -> bool,
    ) -> Vec<(usize, usize, &'static str, u32)> {
        let unread = self.files.iter().map(|(_, file)| file).filter_map(|file| {
            let first = file.events.front()?;
            if since.is_some_and(|since| !self.is_awaited(file.owner, first, since, &waits)) {
                return None;
            }
            let (event, id) = first.told;
            let name = CmEvent(event).short_name().unwrap_or("unknown");
            Some((file.owner, file.events.len(), name, id))
        });
        unread.collect()
    }

    /// Whether the other end waits for what an event leads to, or its own program at another file.
    fn is_awaited(
        &self,
        owner: usize,
        event: &Waiting,
        since: u64,
        waits: impl Fn(usize) -> bool,
    ) -> bool {
        let asks = |file: &File| {
            file.events.is_empty() && file.asked_ns.is_some_and(|asked| asked <= since)
        };
        let key = event.about();
        let connection = self.ids.get(key).and_then(|id| id.connection.as_ref());
        let other = connection.and_then(|connection| self.other_end(connection));
        let other = other.and_then(|(_, id)| self.files.get(id.file));
        other.is_some_and(|file| asks(file) || file.owner != owner && waits(file.owner))
            || self.files.iter().map(|(_, file)| file).any(|file| file.owner == owner && asks(file))
    }

    /// Programs that wait for an event since a time or longer.
    pub(crate) fn asking(&self, since: u64) -> Vec<Asking> {
        let mut all: Vec<Asking> = self
            .files
            .iter()
            .filter(|(_, file)| file.events.is_empty())
            .filter_map(|(number, file)| Some((number, file.asked_ns.filter(|at| *at <= since)?)))
            .flat_map(|(file, at)| {
                let nothing = self.gets_nothing(file, at);
                nothing.into_iter().chain(self.asking_of(file, at))
            })
            .collect();
        all.sort_unstable_by_key(|asking| asking.id);
        all
    }

    /// A program that waits at a file that gets no event as long as the program waits.
    fn gets_nothing(&self, number: FileId, since: u64) -> Option<Asking> {
        let file = self.files.get(number).filter(|file| file.unfetched().next().is_none())?;
        let mut own = self.ids.iter().map(|(_, id)| id).filter(|id| id.file == number);
        let is_over = |id: &Id| {
            let connection = id.connection.as_ref();
            !id.is_datagram
                && connection.is_some_and(|connection| connection.state == ConnectionState::Over)
        };
        let (id, why) = match own.next() {
            None => (None, Reason::Unused),
            Some(first) if is_over(first) && own.all(is_over) => (Some(first.number), Reason::Over),
            Some(_) => return None,
        };
        Some(Asking { owner: file.owner, since, id, why })
    }

    fn asking_of(&self, file: FileId, since: u64) -> Vec<Asking> {
        let own = self.ids.iter().map(|(_, id)| id).filter(|id| id.file == file);
        let asking = own.filter_map(|id| {
            let connection = id.connection.as_ref()?;
            let (key, other) = self.other_end(connection)?;
            // An event that is not fetched is told of by itself.
            if self.has_unread(key, other) {
                return None;
            }
            let state = other.connection.as_ref()?.state;
            let owner = self.files.get(file)?.owner;
            let other = (self.files.get(other.file)?.owner, other.number);
            let why = match (connection.state, state) {
                (ConnectionState::ReqSent, ConnectionState::ReqReceived) => {
                    Reason::NotAnswered(other)
                }
                (ConnectionState::DreqSent, ConnectionState::DreqReceived) => {
                    Reason::NotDisconnected(other)
                }
                _ => return None,
            };
            Some(Asking { owner, since, id: Some(id.number), why })
        });
        asking.collect()
    }

    /// The other end of a connection, if that is an id of this fabric.
    fn other_end(&self, connection: &Connection) -> Option<(Key, &Id)> {
        let is_other = |(_, id): &(Key, &Id)| {
            let other = id.connection.as_ref();
            other.is_some_and(|other| {
                other.remote_id == connection.local_id && other.is_active != connection.is_active
            })
        };
        self.ids.iter().find(is_other)
    }

    fn has_unread(&self, key: Key, id: &Id) -> bool {
        let mut files = self.files.get(id.file).into_iter();
        files
            .any(|file| file.unfetched().any(|event| event.id == key || event.request == Some(key)))
    }
}
