//! The connection manager driven as programs drive it: by bytes.

#[cfg(test)]
mod addressing;
#[cfg(test)]
mod connections;
#[cfg(test)]
mod datagrams;
#[cfg(test)]
mod devices;
#[cfg(test)]
mod groups;
#[cfg(test)]
mod handlers;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod hosts;
#[cfg(test)]
mod late;
#[cfg(test)]
mod lifetimes;
#[cfg(test)]
mod mads;
pub(crate) mod strangers;

use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use soft_hca_core::errno::{Errno, Refusal, Result};
use soft_hca_core::uapi::ucma::{ConnParam, EVENT, abi, command};
use soft_hca_roce::wire::bth::Qpn;
use zerocopy::IntoBytes;

use super::connection::ConnectionState;
use super::ids::Id;
use super::peer::Peer;
use super::timer::Due;
use super::{Cm, FileId, Host};
use crate::device::{Device, Interface, Port};

pub(crate) const TCP: u16 = 0x106;
pub(crate) const UDP: u16 = 0x111;
pub(crate) const S: u64 = 1_000_000_000;
pub(crate) const GUID: u64 = 0xf073_5cff_fed2_226d;

/// A device with fe80::1 at GID 0, `own` at 1, fd00::1 at 2 and 127.0.0.1 at 3; with a link of these
/// addresses it has nothing of these but the first and them.
fn device(own: IpAddr, link: &[IpAddr]) -> Arc<Device> {
    let interface = |name: &str, addresses: &[IpAddr]| Interface {
        name: name.to_owned(),
        is_loopback: name == "lo",
        is_running: true,
        mac: None,
        addresses: addresses.to_vec(),
        mtu: 1500,
    };
    let interfaces = [
        interface("lo", &["127.0.0.1".parse().unwrap()]),
        interface("eth0", &[own, "fd00::1".parse().unwrap()]),
    ];
    let port = Port::rxe(1, &interfaces, link, 1);
    Arc::new(Device { ports: vec![port], ..Device::rxe("rxe0", GUID, &interfaces, 1) })
}

/// The status of an event that a peer has not answered.
#[cfg(test)]
const TIMED_OUT: i32 = -libc::ETIMEDOUT;
/// The status of a rejection by the peer's program.
#[cfg(test)]
const CONSUMER_DEFINED: i32 = soft_hca_roce::wire::cm::reason::CONSUMER_DEFINED as i32;

/// The device of the machine with 10.9.0.1.
static DEVICE: LazyLock<Arc<Device>> = LazyLock::new(|| device(IpAddr::from([10, 9, 0, 1]), &[]));

/// A machine with that device, on a network of IPv4 alone.
pub(crate) struct Machine {
    /// Its own address, and one that another connection manager is responsible for.
    own: IpAddr,
    neighbour: Option<IpAddr>,
    /// Whether the system knows how to reach it.
    knows_neighbour: bool,
    /// Whether messages have come to its queue pairs.
    heard: bool,
    random: u32,
    pub devices: Vec<Arc<Device>>,
}

impl Host for Machine {
    fn devices(&self) -> &[Arc<Device>] {
        &self.devices
    }

    fn random24(&mut self) -> u32 {
        self.random = self.random.wrapping_mul(1_103_515_245).wrapping_add(12345);
        self.random >> 8
    }

    fn route(&self, to: IpAddr) -> Result<IpAddr> {
        match to {
            _ if self.find_source(to).is_some() => Ok(to),
            IpAddr::V4(v4) if v4.octets()[0] == 10 => Ok(self.own),
            _ => Err(Errno::ENETUNREACH.because(Refusal::NoSystemRoute)),
        }
    }

    fn find_peer(&self, ip: IpAddr) -> Option<Peer> {
        match self.neighbour {
            Some(neighbour) if neighbour == ip => Some(Peer::Remote { own: self.own, address: ip }),
            _ => self.find_source(ip).map(|_| Peer::Local),
        }
    }

    fn has_heard(&self, _qpn: Qpn) -> bool {
        self.heard
    }

    fn knows_neighbour(&self, _own: IpAddr, to: IpAddr) -> bool {
        assert_eq!(Some(to), self.neighbour);
        self.knows_neighbour
    }
}

pub(crate) fn bytes(len: usize, parts: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; len];
    for (at, part) in parts {
        bytes[*at..at + part.len()].copy_from_slice(part);
    }
    bytes
}

/// A socket address written by hand, apart from the code under test.
pub(crate) fn sockaddr(text: &str) -> Vec<u8> {
    let address: std::net::SocketAddr = text.parse().unwrap();
    let port = address.port().to_be_bytes();
    match address {
        std::net::SocketAddr::V4(v4) => {
            bytes(16, &[(0, &[2, 0]), (2, &port), (4, &v4.ip().octets())])
        }
        std::net::SocketAddr::V6(v6) => {
            let scope = v6.scope_id().to_le_bytes();
            bytes(28, &[(0, &[10, 0]), (2, &port), (8, &v6.ip().octets()), (24, &scope)])
        }
    }
}

/// Parameters as they lie in a command.
fn valid(param: &ConnParam) -> abi::ConnParam {
    abi::ConnParam { valid: 1, ..param.into() }
}

pub(crate) fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// Type, status, name and number of an event.
pub(crate) fn summary(event: &[u8; EVENT]) -> (u32, i32, u64, u32) {
    let uid = u64::from_le_bytes(event[..8].try_into().unwrap());
    (word(event, 12), word(event, 16) as i32, uid, word(event, 8))
}

pub(crate) struct World {
    pub cm: Cm,
    pub machine: Machine,
    pub now: u64,
}

#[cfg_attr(fuzzing, allow(dead_code, reason = "the tests use what the target does not"))]
impl World {
    pub(crate) fn new() -> Self {
        let own = IpAddr::from([10, 9, 0, 1]);
        let machine = Machine {
            own,
            neighbour: None,
            knows_neighbour: true,
            heard: false,
            random: 1,
            devices: vec![Arc::clone(&DEVICE)],
        };
        Self { cm: Cm::default(), machine, now: 100 * S }
    }

    /// The id with a number, if there is one.
    pub(super) fn id(&self, number: u32) -> Option<&Id> {
        self.cm.ids.get(self.cm.ids.key(number)?)
    }

    /// How many ids there are.
    pub(crate) fn ids(&self) -> usize {
        self.cm.ids.len()
    }

    /// The file that an id belongs to, if there is such an id.
    pub(crate) fn file_of(&self, id: u32) -> Option<FileId> {
        self.id(id).map(|id| id.file)
    }

    /// Whether there is such an id and it is of a datagram port space.
    pub(crate) fn is_datagram(&self, id: u32) -> bool {
        self.id(id).is_some_and(|id| id.is_datagram)
    }

    /// Two opened files.
    pub(crate) fn with_files() -> (Self, FileId, FileId) {
        let mut world = Self::new();
        let (server, client) = (world.cm.open(1), world.cm.open(2));
        (world, server, client)
    }

    /// The same where the device is on a link with its IPv4 address.
    #[cfg(test)]
    pub(crate) fn on_link() -> (Self, FileId, FileId) {
        let (mut world, server, client) = Self::with_files();
        let own = IpAddr::from([10, 9, 0, 1]);
        world.machine.devices = vec![device(own, &[own])];
        (world, server, client)
    }

    pub(crate) fn run(&mut self, file: FileId, number: u32, payload: &[u8]) -> Result<Vec<u8>> {
        let outcome = self.cm.command(&mut self.machine, file, number, payload, 440, self.now);
        let has_reason = |error: &Errno| *error == Errno::EAGAIN || error.reason().is_some();
        assert!(outcome.as_ref().err().is_none_or(has_reason), "{outcome:?} for no reason");
        outcome
    }

    pub(crate) fn done(&mut self, file: FileId, number: u32, payload: &[u8]) -> Result<()> {
        self.run(file, number, payload).map(|answer| assert_eq!(answer, [0; 0]))
    }

    pub(crate) fn create(&mut self, file: FileId, uid: u64, space: u16) -> u32 {
        let parts: [(usize, &[u8]); 3] =
            [(0, &uid.to_le_bytes()), (16, &space.to_le_bytes()), (18, &[2])];
        word(&self.run(file, command::CREATE_ID, &bytes(24, &parts)).unwrap(), 0)
    }

    pub(crate) fn destroy(&mut self, file: FileId, id: u32) -> Result<u32> {
        self.about(file, command::DESTROY_ID, id, 0).map(|answer| word(&answer, 0))
    }

    /// The commands with a response address, an id and one more word.
    pub(crate) fn about(
        &mut self,
        file: FileId,
        number: u32,
        id: u32,
        more: u32,
    ) -> Result<Vec<u8>> {
        let parts: [(usize, &[u8]); 2] = [(8, &id.to_le_bytes()), (12, &more.to_le_bytes())];
        self.run(file, number, &bytes(16, &parts))
    }

    /// The commands with an id and one more word.
    pub(crate) fn plain(&mut self, file: FileId, number: u32, id: u32, more: u32) -> Result<()> {
        let parts: [(usize, &[u8]); 2] = [(0, &id.to_le_bytes()), (4, &more.to_le_bytes())];
        self.done(file, number, &bytes(8, &parts))
    }

    pub(crate) fn bind(&mut self, file: FileId, id: u32, address: &str) -> Result<()> {
        let address = sockaddr(address);
        let parts: [(usize, &[u8]); 3] =
            [(0, &id.to_le_bytes()), (4, &[address.len() as u8]), (8, &address)];
        self.done(file, command::BIND, &bytes(136, &parts))
    }

    pub(crate) fn listen(&mut self, file: FileId, id: u32, backlog: u32) -> Result<()> {
        self.plain(file, command::LISTEN, id, backlog)
    }

    pub(crate) fn resolve(&mut self, file: FileId, id: u32, to: &str) -> Result<()> {
        self.resolve_from(file, id, None, to)
    }

    pub(crate) fn resolve_from(
        &mut self,
        file: FileId,
        id: u32,
        from: Option<&str>,
        to: &str,
    ) -> Result<()> {
        let (src, dst) = (from.map(sockaddr).unwrap_or_default(), sockaddr(to));
        let parts: [(usize, &[u8]); 6] = [
            (0, &id.to_le_bytes()),
            (4, &2000u32.to_le_bytes()),
            (8, &[src.len() as u8]),
            (10, &[dst.len() as u8]),
            (16, &src),
            (144, &dst),
        ];
        self.done(file, command::RESOLVE_ADDR, &bytes(272, &parts))
    }

    pub(crate) fn route(&mut self, file: FileId, id: u32) -> Result<()> {
        self.plain(file, command::RESOLVE_ROUTE, id, 2000)
    }

    pub(crate) fn connect(&mut self, file: FileId, id: u32, param: &ConnParam) -> Result<()> {
        let param = valid(param);
        let parts: [(usize, &[u8]); 2] = [(0, param.as_bytes()), (272, &id.to_le_bytes())];
        self.done(file, command::CONNECT, &bytes(288, &parts))
    }

    pub(crate) fn accept(
        &mut self,
        file: FileId,
        id: u32,
        uid: u64,
        param: &ConnParam,
    ) -> Result<()> {
        let param = valid(param);
        let parts: [(usize, &[u8]); 3] =
            [(0, &uid.to_le_bytes()), (8, param.as_bytes()), (280, &id.to_le_bytes())];
        self.done(file, command::ACCEPT, &bytes(296, &parts))
    }

    /// The active side's "ready to use".
    pub(crate) fn establish(&mut self, file: FileId, id: u32) -> Result<()> {
        self.done(file, command::ACCEPT, &bytes(296, &[(280, &id.to_le_bytes())]))
    }

    pub(crate) fn reject(&mut self, file: FileId, id: u32, reason: u8, data: &[u8]) -> Result<()> {
        let parts: [(usize, &[u8]); 3] =
            [(0, &id.to_le_bytes()), (4, &[data.len() as u8, reason]), (8, data)];
        self.done(file, command::REJECT, &bytes(264, &parts))
    }

    pub(crate) fn disconnect(&mut self, file: FileId, id: u32) -> Result<()> {
        self.done(file, command::DISCONNECT, &id.to_le_bytes())
    }

    pub(crate) fn option(
        &mut self,
        file: FileId,
        id: u32,
        (level, name): (u32, u32),
        value: &[u8],
    ) -> Result<()> {
        let len = (value.len() as u32).to_le_bytes();
        let (id, level, name) = (id.to_le_bytes(), level.to_le_bytes(), name.to_le_bytes());
        let parts: [(usize, &[u8]); 5] =
            [(8, &id), (12, &level), (16, &name), (20, &len), (24, value)];
        self.done(file, command::SET_OPTION, &bytes(24 + value.len(), &parts))
    }

    pub(crate) fn event(&mut self, file: FileId) -> Option<[u8; EVENT]> {
        self.cm.pop_event(file)
    }

    /// Fetches all events of a file; gives their types.
    pub(crate) fn events(&mut self, file: FileId) -> Vec<u32> {
        std::iter::from_fn(|| self.cm.pop_event(file)).map(|event| word(&event, 12)).collect()
    }

    /// Fetches all events of a file; gives their types and statuses.
    pub(crate) fn statuses(&mut self, file: FileId) -> Vec<(u32, i32)> {
        std::iter::from_fn(|| self.cm.pop_event(file))
            .map(|event| (word(&event, 12), word(&event, 16) as i32))
            .collect()
    }

    pub(crate) fn pass(&mut self, ns: u64) {
        self.now += ns;
        self.cm.run_timers(&mut self.machine, self.now);
    }

    /// Waits until nothing is known any more of connections whose ids have gone.
    pub(crate) fn forget(&mut self) {
        (0..5).for_each(|_| self.pass(S));
        self.cm.take_messages();
    }

    pub(crate) fn close(&mut self, file: FileId) {
        self.cm.close(&mut self.machine, file, self.now);
    }

    /// A listener at an address.
    pub(crate) fn listener(&mut self, file: FileId, uid: u64, space: u16, at: &str) -> u32 {
        let id = self.create(file, uid, space);
        self.bind(file, id, at).unwrap();
        self.listen(file, id, 0).unwrap();
        id
    }

    /// An id with a route to an address, its events fetched.
    pub(crate) fn routed(&mut self, file: FileId, uid: u64, space: u16, to: &str) -> u32 {
        let id = self.create(file, uid, space);
        self.resolve(file, id, to).unwrap();
        self.route(file, id).unwrap();
        assert_eq!(self.events(file), [0, 2]);
        id
    }

    /// A connection: the listener, the accepted id and the one that has asked.
    pub(crate) fn connected(&mut self, server: FileId, client: FileId) -> (u32, u32, u32) {
        let listener = self.listener(server, 0x51, TCP, "10.9.0.1:7471");
        let active = self.routed(client, 0xc1, TCP, "10.9.0.1:7471");
        self.connect(client, active, &ConnParam { qp_num: 0x11, ..ConnParam::default() }).unwrap();
        let accepted = word(&self.event(server).unwrap(), 8);
        let param = ConnParam { qp_num: 0x12, ..ConnParam::default() };
        self.accept(server, accepted, 0x5a, &param).unwrap();
        assert_eq!(self.events(client), [5]);
        self.establish(client, active).unwrap();
        assert_eq!(self.events(server), [9]);
        (listener, accepted, active)
    }
}

/// Nothing is left of anything.
pub(crate) fn check_empty(world: &World) {
    let cm = &world.cm;
    assert!(cm.ids.len() == 0 && cm.files.is_empty());
    assert!(cm.groups.is_empty() && cm.timers.len() == 0 && cm.ports.is_empty());
    assert!(cm.connections.comm_ids() == 0 && cm.connections.requests().count() == 0);
    assert!(cm.connections.queue_pairs().count() == 0 && cm.connections.timewaits() == 0);
    assert!(cm.pending.requests().len() == 0);
    assert!(!cm.awaits_drep());
}

/// Every table agrees with every other.
pub(crate) fn check(world: &World) {
    let cm = &world.cm;
    for (key, id) in cm.ids.iter() {
        assert_eq!(cm.ids.key(id.number), Some(key));
        assert!(cm.files.get(id.file).is_some());
        assert_eq!(
            id.timer.is_some(),
            id.timer.is_some_and(|(at, _)| cm.timers.contains(at, Due::Id(key)))
        );
        if let Some(connection) = &id.connection {
            assert_eq!(cm.connections.find(connection.local_id), Some(key));
        }
    }
    let connected = cm.ids.iter().filter(|(_, id)| id.connection.is_some()).count();
    assert_eq!(cm.connections.comm_ids(), connected);
    for (remote, key) in cm.connections.requests() {
        let id = cm.ids.id(key).unwrap();
        let connection = id.connection.as_ref().unwrap();
        assert_eq!((remote.peer, remote.comm_id), (connection.peer, connection.remote_id));
        assert_eq!(remote.is_datagram, id.is_datagram);
    }
    // A local request waits for a listener no longer than for its answer.
    for remote in cm.pending.requests().filter(|remote| remote.peer == Peer::Local) {
        let key = cm.connections.find(remote.comm_id).unwrap();
        let state = cm.ids.connection_state(key);
        assert!(matches!(state, Some(ConnectionState::ReqSent | ConnectionState::SidrReqSent)));
    }
    let timers = cm.ids.iter().filter(|(_, id)| id.timer.is_some()).count();
    let others = cm.pending.requests().len() + cm.connections.timewaits() + cm.dreqs_sent.len();
    assert_eq!(cm.timers.len(), timers + others);
    assert!(cm.connections.queue_pairs().count() <= cm.ids.len());
    for (remote_qp, key) in cm.connections.queue_pairs() {
        assert_eq!(cm.ids.connection(key).unwrap().remote_qp, Some(remote_qp));
    }
    for (file, queue) in cm.files.iter() {
        for event in &queue.events {
            assert_eq!(cm.ids.get(event.id).map(|id| id.file), Some(file));
            assert!(event.membership.is_none_or(|number| cm.groups.get(number).is_some()));
        }
    }
}
