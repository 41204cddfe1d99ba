//! Ids: numbers, making, destroying, handing to another file.

use std::collections::BTreeSet;

use soft_hca_core::errno::{Errno, Refusal, Result, ensure};
use soft_hca_core::uapi::ucma::{CreateId, MigrateId, Sockaddr, Target, port_space};
use soft_hca_core::uapi::verbs::qp_type;
use soft_hca_roce::wire::bth::Psn;
use soft_hca_roce::wire::cm;

use super::connection::Connection;
use super::timer::Timer;
use super::{Call, Cm, Cx, FileId};
use crate::device::Source;

/// Names one id for ever, unlike its number, which is used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key(u64);

pub(super) const NO_ID: Errno = Errno::ENOENT.because(Refusal::NoId);

/// Ids that there may be at a time; the library's own table holds as many.
const MAX_NUMBERS: u32 = 0x1_0000;

/// Numbers, of which the lowest free one is taken.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    free: BTreeSet<u32>,
    end: u32,
}

impl Numbers {
    pub(super) fn take(&mut self) -> Result<u32> {
        if let Some(number) = self.free.pop_first() {
            return Ok(number);
        }
        let is_left = self.end < MAX_NUMBERS;
        ensure(is_left, Errno::ENOMEM.because(Refusal::IdsExhausted))?;
        self.end += 1;
        Ok(self.end - 1)
    }

    pub(super) fn give_back(&mut self, number: u32) {
        self.free.insert(number);
    }
}

/// Port space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Space {
    Ipoib,
    Tcp,
    Udp,
    Ib,
}

impl Space {
    pub(super) fn from_number(number: u16) -> Result<Self> {
        match number {
            port_space::IPOIB => Ok(Self::Ipoib),
            port_space::TCP => Ok(Self::Tcp),
            port_space::UDP => Ok(Self::Udp),
            port_space::IB => Ok(Self::Ib),
            _ => Err(Errno::EINVAL.because(Refusal::NoSuchPortSpace)),
        }
    }

    /// The service id of a port.
    pub(super) fn service_id(self, port: u16) -> u64 {
        let number = match self {
            Self::Ipoib => port_space::IPOIB,
            Self::Tcp => port_space::TCP,
            Self::Udp => port_space::UDP,
            Self::Ib => port_space::IB,
        };
        cm::service_id(number, port)
    }
}

/// How far an id has come (`enum rdma_cm_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Idle,
    Bound,
    AddrQuery,
    AddrResolved,
    RouteResolved,
    Listen,
    Connect,
    Disconnect,
    /// Its device has been removed: it can only be destroyed.
    Removed,
}

impl State {
    /// Of what an id in this state cannot do.
    pub(super) const fn refusal(self) -> Errno {
        Errno::EINVAL.because(match self {
            Self::Idle => Refusal::IdUnbound,
            Self::Bound => Refusal::IdBound,
            Self::AddrQuery => Refusal::IdResolvesAddress,
            Self::AddrResolved => Refusal::IdHasAddress,
            Self::RouteResolved => Refusal::IdHasRoute,
            Self::Listen => Refusal::IdListens,
            Self::Connect => Refusal::IdConnects,
            Self::Disconnect => Refusal::IdDisconnected,
            Self::Removed => Refusal::IdRemoved,
        })
    }
}

/// A `rdma_cm_id`.
#[derive(Debug)]
pub(super) struct Id {
    pub number: u32,
    pub file: FileId,
    /// The program's name for it; without one it gets no events.
    pub uid: u64,
    pub space: Space,
    pub is_datagram: bool,
    pub state: State,
    pub src: Option<Sockaddr>,
    pub dst: Option<Sockaddr>,
    /// The device, port and GID of `src`, once the id belongs to a device.
    pub source: Option<Source>,
    /// The port that it holds.
    pub port: Option<(Space, u16)>,
    pub reuse_address: bool,
    /// Whether an IPv6 wildcard leaves IPv4 alone, if the program has said.
    pub family_only: Option<bool>,
    pub type_of_service: u8,
    pub ack_timeout: Option<u8>,
    /// Requests that a listener still accepts before one is fetched.
    pub backlog: u32,
    pub events_reported: u32,
    /// The first packet number that the peer is to send.
    pub psn: Psn,
    pub flow_label: u32,
    /// The MTU of its path to another host, or that a request has (`ib_mtu`).
    pub path_mtu: Option<u8>,
    /// Whether there is a path.
    pub has_path: bool,
    pub connection: Option<Connection>,
    /// Its deadline, if any, which is in [`Cm`]'s set too.
    pub timer: Option<(u64, Timer)>,
}

impl Cm {
    /// Makes an id that has nothing yet.
    pub(super) fn new_id(
        &mut self,
        cx: &mut Cx<'_>,
        file: FileId,
        (space, is_datagram): (Space, bool),
        uid: u64,
    ) -> Result<Key> {
        let number = self.id_numbers.take()?;
        self.last_key += 1;
        let key = Key(self.last_key);
        let id = Id {
            number,
            file,
            uid,
            space,
            is_datagram,
            state: State::Idle,
            src: None,
            dst: None,
            source: None,
            port: None,
            reuse_address: false,
            family_only: None,
            type_of_service: 0,
            ack_timeout: None,
            backlog: 0,
            events_reported: 0,
            psn: Psn::new(cx.host.random24()),
            flow_label: 0,
            path_mtu: None,
            has_path: false,
            connection: None,
            timer: None,
        };
        self.ids.insert(key, id);
        self.keys.insert(number, key);
        Ok(key)
    }

    /// The id that a file calls `number`; `ENXIO` if its device has been removed (`ucma_get_ctx`).
    pub(super) fn find(&self, file: FileId, number: u32) -> Result<Key> {
        let key = self.find_any(file, number)?;
        let is_removed = self.id(key)?.state == State::Removed;
        ensure(!is_removed, Errno::ENXIO.because(Refusal::IdRemoved))?;
        Ok(key)
    }

    /// The same, even then.
    fn find_any(&self, file: FileId, number: u32) -> Result<Key> {
        let key = *self.keys.get(&number).ok_or(NO_ID)?;
        let is_own = self.id(key)?.file == file;
        ensure(is_own, Errno::EINVAL.because(Refusal::IdOfOtherFile))?;
        Ok(key)
    }

    /// The same, and it must belong to a device.
    pub(super) fn find_with_device(&self, file: FileId, number: u32) -> Result<Key> {
        let key = self.find(file, number)?;
        self.id(key)?.source()?;
        Ok(key)
    }

    pub(super) fn id(&self, key: Key) -> Result<&Id> {
        self.ids.get(&key).ok_or(NO_ID)
    }

    pub(super) fn id_mut(&mut self, key: Key) -> Result<&mut Id> {
        self.ids.get_mut(&key).ok_or(NO_ID)
    }

    pub(super) fn ids_of(&self, file: FileId) -> impl Iterator<Item = Key> {
        self.ids.iter().filter(move |(_, id)| id.file == file).map(|(key, _)| *key)
    }

    pub(super) fn create_id(&mut self, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Vec<u8>> {
        let request = CreateId::decode(call.payload)?;
        let space = Space::from_number(request.ps)?;
        let is_datagram = match space {
            Space::Tcp => false,
            Space::Udp | Space::Ipoib => true,
            Space::Ib => u32::from(request.qp_type) == qp_type::UD,
        };
        let key = self.new_id(cx, call.file, (space, is_datagram), request.uid)?;
        Ok(self.id(key)?.number.to_le_bytes().to_vec())
    }

    pub(super) fn destroy_id(&mut self, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Vec<u8>> {
        let key = self.find_any(call.file, Target::decode(call.payload)?.id)?;
        Ok(self.destroy(cx, key).to_le_bytes().to_vec())
    }

    /// Ends all that an id takes part in.
    pub(super) fn release(&mut self, cx: &mut Cx<'_>, key: Key) {
        self.end_connection(cx, key);
        self.cancel_timer(key);
        self.leave_all(key);
        let Some(mut id) = self.ids.remove(&key) else { return };
        self.forget_connection(cx, &id, key);
        self.ports.release(&id, key);
        (id.connection, id.port, id.source) = (None, None, None);
        self.ids.insert(key, id);
    }

    /// Destroys an id: ends its connection, gives back its port, forgets its events and the
    /// requests among them. Gives the number of events reported (`ucma_destroy_private_ctx`).
    pub(super) fn destroy(&mut self, cx: &mut Cx<'_>, key: Key) -> u32 {
        self.release(cx, key);
        let Some(id) = self.ids.remove(&key) else { return 0 };
        self.keys.remove(&id.number);
        self.id_numbers.give_back(id.number);
        for request in self.forget_events(id.file, |event| event.id == key) {
            self.destroy(cx, request);
        }
        id.events_reported
    }

    /// Hands an id with its events to the file that the command was written to.
    pub(super) fn migrate_id(&mut self, _: &mut Cx<'_>, call: &Call<'_>) -> Result<Vec<u8>> {
        let MigrateId { id: number, file: old } = MigrateId::decode(call.payload)?;
        let is_open = self.files.contains_key(&old);
        ensure(is_open, Errno::ENOENT.because(Refusal::IdFromClosedFile))?;
        let key = self.find(old, number)?;
        // Requests that nobody has fetched go with their listener: whoever fetches them there
        // must be able to use them. One that was accepted or moved by its number alone may have
        // events of its own, and elsewhere.
        for request in self.move_to(call.file, key) {
            self.move_to(call.file, request);
        }
        Ok(self.id(key)?.events_reported.to_le_bytes().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_number_comes_first() {
        let mut numbers = Numbers::default();
        let taken: Vec<u32> = (0..4).map(|_| numbers.take().unwrap()).collect();
        assert_eq!(taken, [0, 1, 2, 3]);
        numbers.give_back(2);
        numbers.give_back(1);
        assert_eq!(numbers.take(), Ok(1));
        assert_eq!(numbers.take(), Ok(2));
        assert_eq!(numbers.take(), Ok(4));
        numbers.end = MAX_NUMBERS;
        assert_eq!(numbers.take(), Err(Errno::ENOMEM));
    }

    #[test]
    fn service_ids_are_made_of_space_and_port() {
        assert_eq!(Space::Tcp.service_id(7471), 0x0106_1d2f);
        assert_eq!(Space::from_number(0x111), Ok(Space::Udp));
        assert_eq!(Space::from_number(0x112), Err(Errno::EINVAL));
    }
}
