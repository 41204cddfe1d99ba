//! The connection manager: the kernel's `ucma.c`, `cma.c` and `cm.c` on one machine.
//!
//! A pure state machine. Commands come in as bytes and are answered with bytes, events wait in
//! the queue of the opened file that their id belongs to, and time is a parameter. The two ends
//! of a connection know of each other what their messages say. Between two ids of this machine a
//! message is handed over by a call; to another host it goes as a management datagram, which the
//! caller fetches and sends.
//!
//! | file | what | kernel |
//! |---|---|---|
//! | `id` | ids: numbers, making, destroying, handing to another file | `ucma.c` |
//! | `event` | queues of events; where every event passes | `ucma.c` |
//! | `bind` | ports and listening | `cma.c` |
//! | `resolve` | finding addresses and routes | `cma.c`, `addr.c` |
//! | `peer` | where messages go, and which connection they mean | `cm.c` |
//! | `wire` | messages, what goes beside them, datagrams | `cm_msgs.h` |
//! | `resend` | what is sent again until it is answered | `mad.c`, `cm.c` |
//! | `dreq_sent` | DREQs of ids that have gone | |
//! | `stale` | connections of the past | `cm.c` |
//! | `connection` | what an id has of a connection | `cm.c` |
//! | `connect`, `reject`, `disconnect` | connections from request to time wait | `cma.c`, `cm.c` |
//! | `pending` | requests that come before their listener | |
//! | `sidr` | datagram service resolution | `cma.c`, `cm.c` |
//! | `multicast` | membership in groups | `cma.c` |
//! | `mgid` | groups of InfiniBand: GIDs and LIDs | `cma_set_mgid`, a subnet manager |
//! | `query`, `qp_attr` | what programs ask of an id | `ucma.c`, `cm.c` |
//! | `option` | SET_OPTION | `ucma.c` |
//! | `removal` | ids whose device is removed | `cma.c`, `ucma.c` |
//! | `timer` | deadlines | `cm.c` |
//! | `late` | events that come late, with `--strict` | |
//! | `why` | who waits for what | |

mod bind;
mod connect;
mod connection;
mod disconnect;
mod dreq_sent;
mod event;
mod id;
mod late;
mod listing;
mod mgid;
mod multicast;
mod option;
mod peer;
mod pending;
mod qp_attr;
mod query;
mod reject;
mod removal;
mod resend;
mod resolve;
mod sidr;
mod stale;
mod timer;
mod why;
mod wire;

#[cfg(any(test, fuzzing))]
#[allow(clippy::unwrap_used, reason = "tests, of which fuzz targets use a part")]
pub(crate) mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use soft_hca_core::device_spec::DeviceSet;
use soft_hca_core::errno::{Errno, Refusal, Result, ensure};
use soft_hca_core::uapi::ucma::{
    EVENT, GET_EVENT_MIN, QP_ATTR, QUERY_PATH_MIN, QUERY_ROUTE_MIN, command,
};
use soft_hca_roce::wire::bth::Qpn;
use soft_hca_roce::wire::cm::CommId;

use crate::device::{self, Device, Port, Source};
use crate::ucma::bind::Ports;
use crate::ucma::dreq_sent::DreqSent;
use crate::ucma::event::File;
use crate::ucma::id::{Id, Key, Numbers};
use crate::ucma::mgid::Mlids;
use crate::ucma::multicast::Membership;
use crate::ucma::peer::{CommIds, RemoteId};
use crate::ucma::pending::PendingRequest;
use crate::ucma::stale::RemoteQp;
use crate::ucma::timer::Due;

pub(crate) use crate::ucma::peer::{Outgoing, Peer};
pub(crate) use crate::ucma::why::Reason;
pub(crate) use soft_hca_core::uapi::ucma::command::MIGRATE_ID;

/// An opened `/dev/infiniband/rdma_cm`.
pub(crate) type FileId = u32;

/// What the connection manager asks of the rest of the daemon.
pub(crate) trait Host {
    /// The fabric's devices, whose GIDs are what can be reached.
    fn devices(&self) -> &[Arc<Device>];
    /// A random number of 24 bits.
    fn random24(&mut self) -> u32;
    /// The address that the system would send from to reach `to`, or `ENETUNREACH`.
    fn route(&self, to: IpAddr) -> Result<IpAddr>;

    /// The device, port and GID of one of the machine's addresses, `None` for any other address.
    fn find_source(&self, ip: IpAddr) -> Option<Source> {
        device::find_source(self.devices(), ip)
    }

    /// The connection manager that is responsible for an address, `None` if the address cannot
    /// be reached.
    fn find_peer(&self, ip: IpAddr) -> Option<Peer> {
        self.find_source(ip).map(|_| Peer::Local)
    }

    /// Whether messages for the other connection manager that [`Host::find_peer`] has found may be
    /// sent from an address of this machine, to which the program has bound its id.
    fn has_way(&self, _own: IpAddr, _to: IpAddr) -> bool {
        true
    }

    /// Whether the system knows how to reach another host from an address of this machine: the
    /// hardware address of the next host on the way. If not, this begins to resolve it.
    fn knows_neighbour(&self, _own: IpAddr, _to: IpAddr) -> bool {
        true
    }

    /// Whether a message has come to one of this machine's queue pairs, which shows that its peer
    /// is there.
    fn has_heard(&self, _qpn: Qpn) -> bool {
        false
    }

    /// The MTU of paths to other hosts from an address of this machine (`ib_mtu`).
    fn path_mtu(&self, own: IpAddr) -> u8 {
        let source = self.find_source(own);
        source.as_ref().and_then(Source::port).map_or(0, Port::active_mtu)
    }
}

/// What a command runs with beside its own bytes.
struct Cx<'a> {
    host: &'a mut dyn Host,
    now_ns: u64,
    /// Of the message that has come; 0 if none has.
    transaction: u64,
}

impl Cx<'_> {
    /// The same, about the message that has this transaction.
    fn answering(&mut self, transaction: u64) -> Cx<'_> {
        Cx { host: &mut *self.host, now_ns: self.now_ns, transaction }
    }
}

/// A command's own bytes, and whose it is.
#[derive(Clone, Copy, Debug)]
struct Call<'a> {
    file: FileId,
    payload: &'a [u8],
    /// Bytes of the program's buffer for the answer.
    room: usize,
}

/// One row of the command table: the least room for the answer, and the handler.
type Command = (usize, fn(&mut Cm, &mut Cx<'_>, &Call<'_>) -> Result<Vec<u8>>);

/// The handler of a command, as in the kernel's `ucma_cmd_table`.
fn lookup(number: u32) -> Result<Command> {
    Ok(match number {
        command::CREATE_ID => (4, Cm::create_id),
        command::DESTROY_ID => (4, Cm::destroy_id),
        command::BIND_IP => (0, Cm::bind_ip),
        command::RESOLVE_IP => (0, Cm::resolve_ip),
        command::RESOLVE_ROUTE => (0, Cm::resolve_route),
        command::QUERY_ROUTE => (QUERY_ROUTE_MIN, Cm::query_route),
        command::CONNECT => (0, Cm::connect),
        command::LISTEN => (0, Cm::listen),
        command::ACCEPT => (0, Cm::accept),
        command::REJECT => (0, Cm::reject),
        command::DISCONNECT => (0, Cm::disconnect),
        command::INIT_QP_ATTR => (QP_ATTR, Cm::init_qp_attr),
        command::GET_EVENT => (GET_EVENT_MIN, Cm::get_event),
        command::GET_OPTION => return Err(Errno::ENOSYS.because(Refusal::OptionRead)),
        command::SET_OPTION => (0, Cm::set_option),
        command::NOTIFY => (0, Cm::notify),
        command::JOIN_IP_MCAST => (4, Cm::join_ip_mcast),
        command::LEAVE_MCAST => (4, Cm::leave_mcast),
        command::MIGRATE_ID => (4, Cm::migrate_id),
        command::QUERY => (QUERY_PATH_MIN, Cm::query),
        command::BIND => (0, Cm::bind),
        command::RESOLVE_ADDR => (0, Cm::resolve_addr),
        command::JOIN_MCAST => (4, Cm::join_mcast),
        // Services are found in a subnet manager's records, of which there are none here.
        command::RESOLVE_IB_SERVICE => {
            return Err(Errno::EOPNOTSUPP.because(Refusal::NoServiceRecords));
        }
        command::WRITE_CM_EVENT => (0, Cm::write_event),
        _ => return Err(Errno::EINVAL.because(Refusal::NoSuchCommand)),
    })
}

/// The connection manager of a fabric.
#[derive(Debug, Default)]
pub(crate) struct Cm {
    files: BTreeMap<FileId, File>,
    last_file: FileId,
    ids: HashMap<Key, Id>,
    keys: HashMap<u32, Key>,
    id_numbers: Numbers,
    last_key: u64,
    memberships: BTreeMap<u32, Membership>,
    membership_numbers: Numbers,
    mlids: Mlids,
    ports: Ports,
    comm_ids: CommIds,
    /// The ids that were made for requests.
    remote_ids: HashMap<RemoteId, Key>,
    /// Requests that wait for a listener.
    pending: BTreeMap<RemoteId, PendingRequest>,
    /// The queue pairs that other hosts have connected.
    remote_qps: HashMap<RemoteQp, Key>,
    /// Requests whose connections are over: copies may still come.
    timewait: BTreeSet<RemoteId>,
    /// DREQs of ids that have gone, by their communication ids.
    dreqs_sent: HashMap<CommId, DreqSent>,
    outbox: Vec<Outgoing>,
    /// Messages that had no effect.
    dropped: u64,
    /// What the numbers of transactions begin with.
    transactions: Option<u32>,
    timers: BTreeSet<(u64, Due)>,
    /// The time of what is going on.
    now_ns: u64,
    touched: BTreeSet<FileId>,
}

impl Cm {
    /// A connection manager without files.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Opens the device for a process, whose index is only given back in listings.
    pub(crate) fn open(&mut self, owner: usize) -> FileId {
        self.last_file = self.last_file.wrapping_add(1).max(1);
        self.files.insert(self.last_file, File::new(owner));
        self.last_file
    }

    /// What is done now, at this time.
    fn at<'a>(&mut self, host: &'a mut dyn Host, now_ns: u64) -> Cx<'a> {
        self.now_ns = now_ns;
        Cx { host, now_ns, transaction: 0 }
    }

    /// The program of a file finds these devices and no others.
    pub(crate) fn restrict(&mut self, file: FileId, found: DeviceSet) {
        if let Some(file) = self.files.get_mut(&file) {
            file.found = found;
        }
    }

    /// The device, port and GID of an address, if the program of a file finds that device.
    fn source(&self, host: &dyn Host, file: FileId, ip: IpAddr) -> Option<Source> {
        host.find_source(ip).filter(|source| self.finds(file, &source.device))
    }

    /// Whether the program of a file finds a device.
    fn finds(&self, file: FileId, device: &Device) -> bool {
        self.files.get(&file).is_some_and(|file| file.found.has(device.index))
    }

    /// Closes a file, or notices that its process has died: all its ids are destroyed, which
    /// disconnects or rejects their peers.
    pub(crate) fn close(&mut self, host: &mut dyn Host, file: FileId, now_ns: u64) {
        let cx = &mut self.at(host, now_ns);
        let mut keys: Vec<Key> = self.ids_of(file).collect();
        keys.sort_unstable();
        for key in keys {
            self.destroy(cx, key);
        }
        self.files.remove(&file);
        self.touched.remove(&file);
    }

    /// Executes one command, given by its number and what follows its header, and gives the
    /// answer, which has at most `out_len` bytes.
    ///
    /// Two payloads differ from what the program has written: MIGRATE_ID's names the old channel
    /// by its [`FileId`], and SET_OPTION's has the option's value behind it.
    pub(crate) fn command(
        &mut self,
        host: &mut dyn Host,
        file: FileId,
        number: u32,
        payload: &[u8],
        out_len: usize,
        now_ns: u64,
    ) -> Result<Vec<u8>> {
        let is_open = self.files.contains_key(&file);
        ensure(is_open, Errno::EBADF.because(Refusal::FileClosed))?;
        let (least, handler) = lookup(number)?;
        ensure(out_len >= least, NO_ROOM)?;
        let cx = &mut self.at(host, now_ns);
        let mut answer = handler(self, cx, &Call { file, payload, room: out_len })?;
        answer.truncate(out_len);
        Ok(answer)
    }

    /// Takes the oldest event of a file, which then counts as reported.
    pub(crate) fn pop_event(&mut self, file: FileId) -> Option<[u8; EVENT]> {
        let event = self.files.get_mut(&file)?.events.pop_front()?;
        self.touched.insert(file);
        self.count_reported(&event);
        Some(event.bytes)
    }

    /// A file's program has asked for an event, in vain at a time, or has got one.
    pub(crate) fn note_asked(&mut self, file: FileId, in_vain_ns: Option<u64>) {
        if let Some(file) = self.files.get_mut(&file) {
            file.asked_ns = in_vain_ns.map(|now| file.asked_ns.unwrap_or(now));
        }
    }

    /// How many events wait in a file.
    pub(crate) fn pending_events(&self, file: FileId) -> usize {
        self.files.get(&file).map_or(0, |file| file.events.len())
    }

    /// When to call [`run_timers`](Self::run_timers) next.
    pub(crate) fn next_timer(&self) -> Option<u64> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Does what is due.
    pub(crate) fn run_timers(&mut self, host: &mut dyn Host, now_ns: u64) {
        let cx = &mut self.at(host, now_ns);
        self.expire(cx);
    }

    /// Files whose number of waiting events may have changed since the last call.
    pub(crate) fn touched(&mut self) -> Vec<FileId> {
        std::mem::take(&mut self.touched).into_iter().collect()
    }

    fn get_event(&mut self, _: &mut Cx<'_>, call: &Call<'_>) -> Result<Vec<u8>> {
        self.pop_event(call.file).map(Vec::from).ok_or(Errno::EAGAIN)
    }
}

const NO_ROOM: Errno = Errno::ENOSPC.because(Refusal::AnswerTooLong);

/// The answer of most commands.
const NOTHING: Result<Vec<u8>> = Ok(Vec::new());
