//! The connection manager: the kernel's `ucma.c`, `cma.c` and `cm.c` on one machine.
//!
//! A pure state machine. Commands come in as bytes and are answered with bytes, events wait in
//! the queue of the opened file that their id belongs to, and time is a parameter. The two ends
//! of a connection know of each other what their messages say. A message between two ids of this
//! machine is received when the command that has sent it is done; to another host it goes as a
//! management datagram, which the caller fetches and sends.
//!
//! A file uses those below it.
//!
//! | file | what | kernel |
//! |---|---|---|
//! | `removal` | ids whose device is removed | `cma.c`, `ucma.c` |
//! | `expire` | what is done when a deadline has come | `cm.c` |
//! | `received` | messages that have come | `cm.c` |
//! | `lifetime` | making and destroying ids, handing them to another file | `ucma.c` |
//! | `connect`, `stale`, `disconnect`, `reject` | connections from request to time wait | `cma.c`, `cm.c` |
//! | `sidr` | datagram service resolution | `cma.c`, `cm.c` |
//! | `resend` | what is sent again until it is answered | `mad.c`, `cm.c` |
//! | `begin` | how an id gets a connection | `cm.c` |
//! | `multicast` | joining and leaving groups | `cma.c` |
//! | `option` | SET_OPTION | `ucma.c` |
//! | `resolve` | finding addresses and routes | `cma.c`, `addr.c` |
//! | `qp_attr`, `query` | what programs ask of an id | `ucma.c`, `cm.c` |
//! | `bind` | ports, listening, requests that come before their listener | `cma.c` |
//! | `event` | where every event passes | `ucma.c` |
//! | `snapshot`, `listing` | who waits for what; what `soft-hca ls` shows | |
//! | `cm` | the connection manager's parts | |
//! | `files`, `late`, `waiting` | opened files with their queues of events; those that come late, with `--strict` | `ucma.c` |
//! | `connections`, `comm_ids` | which connection a message means | `cm.c` |
//! | `dreq_sent` | DREQs of ids that have gone | |
//! | `pending` | requests that wait for a listener | |
//! | `ports` | which ids hold which port | `cma.c` |
//! | `groups`, `mgid` | memberships; groups of InfiniBand: GIDs and LIDs | `cma_set_mgid`, a subnet manager |
//! | `messages` | messages on their way | `mad.c` |
//! | `ids`, `connection` | ids, and what each has of a connection | `ucma.c`, `cm.c` |
//! | `wire` | messages, what goes beside them, datagrams | `cm_msgs.h` |
//! | `timer` | deadlines | `cm.c` |
//! | `host`, `peer`, `id` | what a command runs with; the other end of a connection; keys, port spaces, states | |

mod begin;
mod bind;
mod cm;
mod comm_ids;
mod connect;
mod connection;
mod connections;
mod disconnect;
mod dreq_sent;
mod event;
mod expire;
mod files;
mod groups;
mod host;
mod id;
mod ids;
mod late;
mod lifetime;
mod listing;
mod messages;
mod mgid;
mod multicast;
mod option;
mod peer;
mod pending;
mod ports;
mod qp_attr;
mod query;
mod received;
mod reject;
mod removal;
mod resend;
mod resolve;
mod sidr;
mod snapshot;
mod stale;
mod timer;
mod waiting;
mod wire;

#[cfg(any(test, fuzzing))]
#[allow(clippy::unwrap_used, reason = "tests, of which fuzz targets use a part")]
pub(crate) mod tests;

use std::sync::Arc;

use soft_hca_core::device_spec::DeviceSet;
use soft_hca_core::errno::{Errno, Refusal, Result, ensure};
use soft_hca_core::rpc::LateEvents;
use soft_hca_core::uapi::ucma::{
    EVENT, GET_EVENT_MIN, QP_ATTR, QUERY_PATH_MIN, QUERY_ROUTE_MIN, command,
};

use crate::clock::Clock;
use crate::ucma::files::Files;
use crate::ucma::host::{Call, Cx, NO_ROOM};
use crate::ucma::id::Key;

pub(crate) use crate::ucma::cm::Cm;
pub(crate) use crate::ucma::host::{FileId, Host};
pub(crate) use crate::ucma::messages::Outgoing;
pub(crate) use crate::ucma::peer::Peer;
pub(crate) use soft_hca_core::uapi::ucma::command::MIGRATE_ID;

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

impl Cm {
    /// A connection manager without files, with the clock by which events of strict programs are put off.
    pub(crate) fn new(clock: Arc<Clock>) -> Self {
        Self { files: Files::new(clock), ..Self::default() }
    }

    /// Opens the device for a process, whose index is only given back in listings.
    pub(crate) fn open(&mut self, owner: usize) -> FileId {
        self.files.open(owner)
    }

    /// The program of a file finds these devices and no others.
    pub(crate) fn restrict(&mut self, file: FileId, found: DeviceSet) {
        if let Some(file) = self.files.get_mut(file) {
            file.found = found;
        }
    }

    /// Closes a file, or notices that its process has died: all its ids are destroyed, which
    /// disconnects or rejects their peers.
    pub(crate) fn close(&mut self, host: &mut dyn Host, file: FileId, now_ns: u64) {
        let cx = &mut self.at(host, now_ns);
        let mut keys: Vec<Key> = self.ids.of_file(file).collect();
        keys.sort_unstable();
        for key in keys {
            self.destroy(cx, key);
        }
        self.files.close(file);
        self.deliver(cx);
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
        let is_open = self.files.get(file).is_some();
        ensure(is_open, Errno::EBADF.because(Refusal::FileClosed))?;
        let (least, handler) = lookup(number)?;
        ensure(out_len >= least, NO_ROOM)?;
        let cx = &mut self.at(host, now_ns);
        let answer = handler(self, cx, &Call { file, payload, room: out_len });
        self.deliver(cx);
        let mut answer = answer?;
        answer.truncate(out_len);
        Ok(answer)
    }

    /// Takes the oldest event of a file, which then counts as reported.
    pub(crate) fn pop_event(&mut self, file: FileId) -> Option<[u8; EVENT]> {
        let event = self.files.pop(file)?;
        self.count_reported(&event);
        Some(event.bytes)
    }

    /// The program of a file is run strictly, and these events come late; or none does.
    pub(crate) fn put_off_events(&mut self, file: FileId, late: Option<LateEvents>) {
        self.files.put_off_events(file, late);
    }

    /// A file's program has asked for an event, in vain at a time, or has got one.
    pub(crate) fn note_asked(&mut self, file: FileId, in_vain_ns: Option<u64>) {
        if let Some(file) = self.files.get_mut(file) {
            file.asked_ns = in_vain_ns.map(|now| file.asked_ns.unwrap_or(now));
        }
    }

    /// Whether a fabric that is to end waits for DREPs: 1.5 s at most.
    pub(crate) fn awaits_drep(&self) -> bool {
        !self.dreqs_sent.is_empty()
    }

    /// How many events wait in a file.
    pub(crate) fn pending_events(&self, file: FileId) -> usize {
        self.files.get(file).map_or(0, |file| file.events.len())
    }

    /// Files whose number of waiting events may have changed since the last call.
    pub(crate) fn touched(&mut self) -> Vec<FileId> {
        self.files.take_touched().into_iter().collect()
    }

    fn get_event(&mut self, _: &mut Cx<'_>, call: &Call<'_>) -> Result<Vec<u8>> {
        self.pop_event(call.file).map(Vec::from).ok_or(Errno::EAGAIN)
    }
}
