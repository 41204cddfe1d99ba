//! The ids of a fabric.

use std::collections::HashMap;

use soft_hca_core::errno::{Errno, Refusal, Result, ensure};
use soft_hca_core::uapi::ucma::Sockaddr;
use soft_hca_roce::wire::bth::{DEFAULT_PKEY, Psn};

use super::connection::{Connection, ConnectionState, NO_CONNECTION};
use super::host::{FileId, Host};
use super::id::{Key, NO_ID, Numbers, Space, State};
use super::timer::{PACKET_LIFE_TIME, Timer};
use crate::device::{Port, Source};

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
    /// Its deadline, if any, which is in [`Cm::timers`](super::cm::Cm) too.
    pub timer: Option<(u64, Timer)>,
}

impl Id {
    /// Where its packets come from; `EINVAL` while it belongs to no device.
    pub(super) fn source(&self) -> Result<&Source> {
        self.source.as_ref().ok_or(Errno::EINVAL.because(Refusal::IdWithoutDevice))
    }

    /// The GUID of its device, 0 while it belongs to none.
    pub(super) fn node_guid(&self) -> u64 {
        self.source.as_ref().map_or(0, |source| source.device.node_guid)
    }

    /// GUID and port.
    pub(super) fn device(&self) -> Option<(u64, u8)> {
        self.source.as_ref().map(|source| (source.device.node_guid, source.port_num))
    }

    /// The P_Key of its port's interface of IPoIB (`ib_addr_get_pkey`), which is in the default
    /// partition, as a full member whatever the port is (`ipoib_add_port`); 0 on Ethernet.
    pub(super) fn pkey(&self) -> u16 {
        let port = self.source.as_ref().and_then(Source::port);
        if port.is_some_and(|port| port.gids.is_infiniband()) { DEFAULT_PKEY } else { 0 }
    }

    /// The MTU of its path (`ib_mtu`).
    pub(super) fn path_mtu(&self) -> u8 {
        let usual = || self.source.as_ref().and_then(Source::port).map_or(0, Port::active_mtu);
        self.path_mtu.unwrap_or_else(usual)
    }

    /// Of its path: half of the timeout that the program has chosen (`cma_resolve_iboe_route`).
    pub(super) fn packet_life_time(&self) -> u8 {
        match self.ack_timeout {
            Some(timeout @ 1..) => timeout - 1,
            _ => PACKET_LIFE_TIME,
        }
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Ids {
    ids: HashMap<Key, Id>,
    keys: HashMap<u32, Key>,
    numbers: Numbers,
    last: Key,
}

impl Ids {
    /// Makes an id that has nothing yet.
    pub(super) fn make(
        &mut self,
        host: &mut dyn Host,
        file: FileId,
        (space, is_datagram): (Space, bool),
        uid: u64,
    ) -> Result<Key> {
        let number = self.numbers.take()?;
        self.last = self.last.next();
        let key = self.last;
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
            psn: Psn::new(host.random24()),
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

    /// Takes an id away, and gives back its number.
    pub(super) fn remove(&mut self, key: Key) -> Option<Id> {
        let id = self.ids.remove(&key)?;
        self.keys.remove(&id.number);
        self.numbers.give_back(id.number);
        Some(id)
    }

    /// The id that a file calls `number`; `ENXIO` if its device has been removed (`ucma_get_ctx`).
    pub(super) fn find(&self, file: FileId, number: u32) -> Result<Key> {
        let key = self.find_any(file, number)?;
        let is_removed = self.id(key)?.state == State::Removed;
        ensure(!is_removed, Errno::ENXIO.because(Refusal::IdRemoved))?;
        Ok(key)
    }

    /// The same, even then.
    pub(super) fn find_any(&self, file: FileId, number: u32) -> Result<Key> {
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

    pub(super) fn get(&self, key: Key) -> Option<&Id> {
        self.ids.get(&key)
    }

    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut Id> {
        self.ids.get_mut(&key)
    }

    pub(super) fn id(&self, key: Key) -> Result<&Id> {
        self.ids.get(&key).ok_or(NO_ID)
    }

    pub(super) fn id_mut(&mut self, key: Key) -> Result<&mut Id> {
        self.ids.get_mut(&key).ok_or(NO_ID)
    }

    /// All ids, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Key, &Id)> {
        self.ids.iter().map(|(key, id)| (*key, id))
    }

    /// Those of a file, in no order.
    pub(super) fn of_file(&self, file: FileId) -> impl Iterator<Item = Key> {
        self.iter().filter(move |(_, id)| id.file == file).map(|(key, _)| key)
    }

    /// The state of an id's connection.
    pub(super) fn connection_state(&self, key: Key) -> Option<ConnectionState> {
        self.get(key)?.connection.as_ref().map(|connection| connection.state)
    }

    pub(super) fn set_connection_state(&mut self, key: Key, state: ConnectionState) {
        let id = self.get_mut(key);
        if let Some(connection) = id.and_then(|id| id.connection.as_mut()) {
            connection.state = state;
        }
    }

    pub(super) fn connection(&self, key: Key) -> Result<&Connection> {
        self.id(key)?.connection.as_ref().ok_or(NO_CONNECTION)
    }

    pub(super) fn connection_mut(&mut self, key: Key) -> Result<&mut Connection> {
        self.id_mut(key)?.connection.as_mut().ok_or(NO_CONNECTION)
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn key(&self, number: u32) -> Option<Key> {
        self.keys.get(&number).copied()
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn len(&self) -> usize {
        assert_eq!(self.ids.len(), self.keys.len());
        self.ids.len()
    }
}
