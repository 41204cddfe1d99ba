//! Notes as entries of a record: numbers get their names here.

use std::collections::HashMap;

use soft_hca_core::engine::Async;
use soft_hca_core::engine::cause::{self, Cause, MalformedWqe, MemorySide};
use soft_hca_core::engine::{DAEMON, LINK};
use soft_hca_core::errno::{Errno, Label, Values};
use soft_hca_core::recording::note::{self, Body};
use soft_hca_core::recording::{About, Note};
use soft_hca_core::uapi::ucma::event_type;
use soft_hca_core::uapi::verbs::{
    access, event, opcode, placement, qp_type, selectivity, send_flag, state, status, wc_flag,
    wc_opcode,
};
use soft_hca_fault::{ErrorNumber, Happened};
use soft_hca_record::entry::{
    self, Call, Channel, ConnectionEvent, Destination, Entry, Executed, Flush, MatchedReceive,
    Outcome, ReceivePosted, ReceiveQueue, Remote, Role, Seen, SendPosted, Sge, What,
};
use soft_hca_record::reason::{ASKED_FOR, Memory, Peer, Reason, Side};
use soft_hca_record::{Name, Named};
use zerocopy::FromBytes;

use super::link::Link;
use super::{cm, verbs};

/// A constant by rdma-core's name, or its number where it has none.
pub(super) fn constant(prefix: &str, name: Option<&str>, number: u32) -> String {
    name.map_or_else(|| number.to_string(), |name| format!("{prefix}{name}"))
}

/// Flags by their names, joined by `|`; `0` for none.
pub(super) fn flags(prefix: &str, name: fn(u32) -> Option<&'static str>, set: u32) -> String {
    match flag_list(prefix, name, set) {
        list if list.is_empty() => "0".into(),
        list => list.join("|"),
    }
}

fn flag_list(prefix: &str, name: fn(u32) -> Option<&'static str>, set: u32) -> Vec<String> {
    let bits = (0..32).map(|bit| 1 << bit).filter(|bit| set & bit != 0);
    let word = |bit| name(bit).map_or(format!("{bit:#x}"), |name| format!("{prefix}{name}"));
    bits.map(word).collect()
}

/// A GID as tools print it.
pub(super) fn gid(bytes: [u8; 16]) -> String {
    let groups = bytes.chunks_exact(2).map(|pair| format!("{:02x}{:02x}", pair[0], pair[1]));
    groups.collect::<Vec<_>>().join(":")
}

pub(super) fn status_name(number: u32) -> String {
    constant("IBV_WC_", status::name(number), number)
}

fn opcode_name(number: u32) -> String {
    constant("IBV_WR_", opcode::name(number), number)
}

pub(super) fn access_names(set: u32) -> String {
    flags("IBV_ACCESS_", access::name, set)
}

/// An object of a process: its descriptor and handle lead to a number of the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Handle {
    /// Index of the process.
    pub proc: u32,
    /// The device's descriptor.
    pub fd: i32,
    pub handle: u32,
}

/// What is known of the fabric from the notes so far.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// Processes by their index in the fabric: number in the record, and whether it is known what
    /// they are.
    processes: HashMap<u32, (u32, bool)>,
    count: u32,
    pub cqs: HashMap<Handle, u32>,
    pub qps: HashMap<Handle, u32>,
    pub srqs: HashMap<Handle, u32>,
    /// Of ids, by process and the program's own name: number, and whether they are of datagrams.
    pub ids: HashMap<(u32, u64), (u32, bool)>,
    /// What the link has sent.
    link: Link,
    /// Types of ids that are of datagrams.
    pub datagram_ids: std::collections::HashSet<u32>,
    /// When the recording began, `CLOCK_MONOTONIC` nanoseconds.
    began: u64,
}

impl Words {
    pub(super) fn new(began: u64) -> Self {
        Self { began, ..Self::default() }
    }

    /// What a note of a process says, which may need an entry for a process before it.
    pub(super) fn entries(&mut self, by: u32, note: &Note) -> Vec<Entry> {
        let mut entries = Vec::new();
        let About { thread, proc, t } = note.about;
        let t = t.saturating_sub(self.began);
        if note.kind == note::Began::KIND {
            entries.extend(self.process_began(t, proc, &note.bytes));
            return entries;
        }
        let Some(what) = self.what(t, proc, note, &mut entries) else { return entries };
        let process = self.process(t, proc, &mut entries);
        let by = (by != proc).then(|| self.process(t, by, &mut entries));
        if note.kind == note::Ended::KIND {
            self.processes.remove(&proc);
        }
        let thread = Some(thread).filter(|thread| *thread != 0);
        entries.push(Entry { t, process, thread, by, what });
        entries
    }

    /// That notes of a process are missing.
    pub(super) fn dropped(&mut self, t: u64, proc: u32, count: u64) -> Vec<Entry> {
        let t = t.saturating_sub(self.began);
        let mut entries = Vec::new();
        let process = self.process(t, proc, &mut entries);
        let what = What::Dropped { entries: count };
        entries.push(Entry { t, process, thread: None, by: None, what });
        entries
    }

    fn process_began(&mut self, t: u64, proc: u32, bytes: &[u8]) -> Option<Entry> {
        let (body, command) = note::Began::take(bytes)?;
        let number = match self.processes.get(&proc) {
            Some((number, false)) => *number,
            _ => self.next_number(),
        };
        self.processes.insert(proc, (number, true));
        let words = command.split(|byte| *byte == 0).filter(|word| !word.is_empty());
        let command = words.map(|word| String::from_utf8_lossy(word).into_owned());
        let is_daemon = [DAEMON, LINK].contains(&(proc as usize));
        let (role, command) =
            if is_daemon { (Role::Daemon, Vec::new()) } else { (Role::Program, command.collect()) };
        let what = What::ProcessBegan { pid: body.pid, role, command, host: None };
        Some(Entry { t, process: number, thread: None, by: None, what })
    }

    fn next_number(&mut self) -> u32 {
        self.count += 1;
        self.count - 1
    }

    /// A process's number. One that has not told what it is gets an entry all the same.
    fn process(&mut self, t: u64, proc: u32, entries: &mut Vec<Entry>) -> u32 {
        if let Some((number, _)) = self.processes.get(&proc) {
            return *number;
        }
        let process = self.next_number();
        self.processes.insert(proc, (process, false));
        let role = Role::Program;
        let what = What::ProcessBegan { pid: 0, role, command: Vec::new(), host: None };
        entries.push(Entry { t, process, thread: None, by: None, what });
        process
    }

    fn what(&mut self, t: u64, proc: u32, note: &Note, entries: &mut Vec<Entry>) -> Option<What> {
        let bytes = &note.bytes[..];
        Some(match note.kind {
            note::Ended::KIND => What::ProcessEnded,
            note::Call::KIND => What::Call(self.call(proc, bytes)?),
            note::SendPosted::KIND => What::SendPosted(send_posted(bytes)?),
            note::ReceivePosted::KIND => What::ReceivePosted(receive_posted(bytes)?),
            note::Stalled::KIND => {
                let (note::Stalled { wr_id, qpn: qp }, rest) = note::Stalled::take(bytes)?;
                What::Stalled { qp, wr_id, reason: reason(rest)? }
            }
            note::Executed::KIND => {
                let (body, rest) = note::Executed::take(bytes)?;
                let receiver =
                    (body.receive_qpn != 0).then(|| self.process(t, body.receive_proc, entries));
                let receive = receiver.map(|process| MatchedReceive {
                    process,
                    qp: body.receive_qpn,
                    wr_id: body.receive_wr_id,
                });
                What::Executed(Executed {
                    qp: body.qpn,
                    wr_id: body.wr_id,
                    opcode: opcode_name(body.opcode),
                    length: body.length.into(),
                    status: status_name(body.status),
                    receive,
                    reason: reason(rest),
                })
            }
            note::Completion::KIND => What::Completion(completion(bytes)?),
            note::Wait::KIND => {
                let (note::Wait { channel: on, fd }, _) = note::Wait::take(bytes)?;
                What::Wait { on: channel(on)?, fd: fd as u32 }
            }
            note::Woken::KIND => {
                let (body, _) = note::Woken::take(bytes)?;
                let note::Woken { waited, channel: on, fd, is_event } = body;
                What::Woken { on: channel(on)?, fd: fd as u32, waited, event: is_event != 0 }
            }
            note::Connection::KIND => {
                let (_, event) = note::Connection::take(bytes)?;
                What::ConnectionEvent(self.connection_event(proc, event)?)
            }
            note::Packet::KIND => {
                let (packet, _) = note::Packet::take(bytes)?;
                What::Packet(self.link.packet(&packet))
            }
            note::Raised::KIND => {
                let (note::Raised { kind, index }, _) = note::Raised::take(bytes)?;
                let (number, element) = match Async::from_words(kind, index)? {
                    Async::CqOverflow(cq) => (event::CQ_ERR, Name::Cq(cq)),
                    Async::SrqLimit(srq) => (event::SRQ_LIMIT_REACHED, Name::Srq(srq + 1)),
                    Async::SqDrained(qpn) => (event::SQ_DRAINED, Name::Qp(qpn)),
                    Async::QpFatal(qpn) => (event::QP_FATAL, Name::Qp(qpn)),
                    Async::LastWqeReached(qpn) => (event::QP_LAST_WQE_REACHED, Name::Qp(qpn)),
                    Async::QpRequest(qpn) => (event::QP_REQ_ERR, Name::Qp(qpn)),
                    Async::QpAccess(qpn) => (event::QP_ACCESS_ERR, Name::Qp(qpn)),
                };
                let event = constant("IBV_EVENT_", event::name(number), number);
                What::AsyncEvent { event, element }
            }
            note::Fault::KIND => What::Call(fault(note::Fault::take(bytes)?.1)?),
            _ => return None,
        })
    }

    fn call(&mut self, proc: u32, bytes: &[u8]) -> Option<Call> {
        let (body, rest) = note::Call::take(bytes)?;
        let (request, rest) = rest.split_at_checked(body.request as usize)?;
        let (answer, why) = rest.split_at_checked(body.answer as usize)?;
        let answer = (body.errno == 0).then_some(answer);
        let (name, args, done) = match body.device {
            0 => verbs::call(self, proc, &body, request, answer),
            _ => cm::call(self, proc, body.fd, request, answer),
        };
        let result = match body.errno {
            0 => Outcome::Done(done),
            number => {
                let (compared, text) = Values::take(why).unwrap_or_default();
                Outcome::Refused {
                    errno: format!("{:?}", Errno::new(number)),
                    number,
                    reason: Some(String::from_utf8_lossy(text).into_owned())
                        .filter(|text| !text.is_empty()),
                    values: compared.iter().map(compared_value).collect(),
                }
            }
        };
        Some(Call { name, args, duration: body.duration, result })
    }

    fn connection_event(&mut self, proc: u32, bytes: &[u8]) -> Option<ConnectionEvent> {
        /// `struct rdma_ucm_event_resp` up to what an event carries.
        const PARAM: usize = 20;
        let word = |at: usize| {
            bytes
                .get(at..)
                .and_then(|rest| rest.first_chunk())
                .map(|word| u32::from_le_bytes(*word))
        };
        let uid = u64::from(word(0)?) | u64::from(word(4)?) << 32;
        let (id, number, status) = (word(8)?, word(12)?, word(16)? as i32);
        let known = self.ids.get(&(proc, uid)).copied();
        let is_request = number == event_type::CONNECT_REQUEST;
        let is_datagram = match known {
            Some((_, is_datagram)) if is_request => is_datagram,
            _ => self.datagram_ids.contains(&id),
        };
        if is_request && is_datagram {
            self.datagram_ids.insert(id);
        }
        let has_qp = matches!(
            number,
            event_type::CONNECT_REQUEST
                | event_type::CONNECT_RESPONSE
                | event_type::ESTABLISHED
                | event_type::MULTICAST_JOIN
        );
        let has_data = has_qp || number == event_type::REJECTED;
        // `struct rdma_ucm_ud_param` has its private data behind an address, `conn_param` before.
        let length_at = PARAM + if is_datagram { 40 + 256 } else { 8 + 256 };
        let private_data = bytes.get(length_at).filter(|_| has_data).copied().unwrap_or(0);
        Some(ConnectionEvent {
            event: constant("RDMA_CM_EVENT_", event_type::name(number), number),
            id,
            listen_id: known.filter(|_| is_request).map(|(listen_id, _)| listen_id),
            status,
            qp: word(PARAM).filter(|qp| has_qp && *qp != 0),
            private_data: private_data.into(),
        })
    }
}

/// A call to which a fault has happened. It counts as made if it only was late or skipped.
fn fault(bytes: &[u8]) -> Option<Call> {
    let Happened { call: name, specs, outcome } = Happened::decode(bytes)?;
    let number = outcome.parse().map_or(0, |ErrorNumber(number)| number);
    let result = match outcome.is_empty() {
        true => Outcome::Done(Vec::new()),
        false => Outcome::Refused {
            errno: outcome,
            number,
            reason: Some(ASKED_FOR.into()),
            values: Vec::new(),
        },
    };
    let args = vec![Named("fault".into(), specs.as_str().into())];
    Some(Call { name, args, duration: 0, result })
}

/// A value that a refused call was checked with.
fn compared_value((label, value): (Label, u64)) -> Named {
    let number = value as u32;
    let value = match label {
        Label::Qp => Name::Qp(number).into(),
        Label::Mr => Name::Mr(number).into(),
        Label::Mw => Name::Mw(number).into(),
        Label::Ah => Name::Ah(number).into(),
        Label::Srq => Name::Srq(number).into(),
        Label::State => constant("IBV_QPS_", state::name(number), number).into(),
        Label::Access => access_names(number).into(),
        Label::Asked | Label::Limit | Label::Entries | Label::Handle | Label::More => {
            soft_hca_record::Value::Number(value as i64)
        }
    };
    Named(label.name().into(), value)
}

fn channel(number: u32) -> Option<Channel> {
    [Channel::Completion, Channel::Connection, Channel::Async].get(number as usize).copied()
}

fn sges(mut bytes: &[u8]) -> Vec<Sge> {
    let mut sges = Vec::new();
    while let Some((element, rest)) = note::Element::take(bytes) {
        let note::Element { address, length, lkey } = element;
        sges.push(Sge { address, length, lkey });
        bytes = rest;
    }
    sges
}

fn total(sges: &[Sge]) -> u64 {
    sges.iter().map(|sge| u64::from(sge.length)).sum()
}

fn send_posted(bytes: &[u8]) -> Option<SendPosted> {
    let (body, rest) = note::SendPosted::take(bytes)?;
    let sges = sges(rest);
    let is_rdma = matches!(
        body.opcode,
        opcode::RDMA_WRITE
            | opcode::RDMA_WRITE_WITH_IMM
            | opcode::RDMA_READ
            | opcode::ATOMIC_CMP_AND_SWP
            | opcode::ATOMIC_FETCH_AND_ADD
            | opcode::FLUSH
            | opcode::ATOMIC_WRITE
            | opcode::BIND_MW
    );
    let is_atomic =
        matches!(body.opcode, opcode::ATOMIC_CMP_AND_SWP | opcode::ATOMIC_FETCH_AND_ADD);
    let has_swap = matches!(body.opcode, opcode::ATOMIC_CMP_AND_SWP | opcode::ATOMIC_WRITE);
    let has_imm = matches!(body.opcode, opcode::SEND_WITH_IMM | opcode::RDMA_WRITE_WITH_IMM);
    let invalidates = matches!(body.opcode, opcode::SEND_WITH_INV | opcode::LOCAL_INV);
    let is_inline = body.flags & send_flag::INLINE != 0 || sges.is_empty();
    let flush = (body.opcode == opcode::FLUSH).then(|| {
        let (placements, level) = (body.compare_add as u32, body.swap as u32);
        Flush {
            placement: flag_list("IBV_FLUSH_", placement::name, placements),
            selectivity: constant("IBV_FLUSH_", selectivity::name(level), level),
        }
    });
    let kind = body.opcode;
    let length = match kind {
        opcode::LOCAL_INV => 0,
        opcode::BIND_MW => body.compare_add,
        opcode::ATOMIC_WRITE => 8,
        _ if is_inline => body.length.into(),
        _ => total(&sges),
    };
    let destination = (body.qp_type == qp_type::UD).then(|| Destination {
        qp: body.dest_qpn,
        qkey: body.qkey,
        gid: gid(body.dgid),
    });
    Some(SendPosted {
        qp: body.qpn,
        wr_id: body.wr_id,
        opcode: opcode_name(body.opcode),
        flags: flag_list("IBV_SEND_", send_flag::name, body.flags),
        length,
        sges,
        remote: is_rdma.then_some(Remote { address: body.address, rkey: body.rkey }),
        imm: has_imm.then(|| u32::from_be(body.imm)),
        invalidate: invalidates.then_some(body.imm),
        compare_add: is_atomic.then_some(body.compare_add),
        swap: has_swap.then_some(body.swap),
        flush,
        destination,
    })
}

fn receive_posted(bytes: &[u8]) -> Option<ReceivePosted> {
    let (body, rest) = note::ReceivePosted::take(bytes)?;
    let sges = sges(rest);
    Some(ReceivePosted {
        queue: match body.is_shared {
            0 => ReceiveQueue::Qp(body.queue),
            _ => ReceiveQueue::Srq(body.queue + 1),
        },
        wr_id: body.wr_id,
        length: total(&sges),
        sges,
        seen: if body.seen == 0 { Seen::AtCall } else { Seen::AtMessage },
    })
}

fn completion(bytes: &[u8]) -> Option<entry::Completion> {
    let (body, rest) = note::Completion::take(bytes)?;
    let opcode = body.opcode;
    Some(entry::Completion {
        cq: body.cq,
        qp: body.qpn,
        wr_id: body.wr_id,
        opcode: constant("IBV_WC_", wc_opcode::name(opcode), opcode),
        status: status_name(body.status),
        length: body.length,
        imm: (body.wc_flags & wc_flag::WITH_IMM != 0 && body.opcode >= wc_opcode::RECV)
            .then(|| u32::from_be(body.imm)),
        solicited: body.is_solicited != 0,
        lost: body.is_lost != 0,
        reason: reason(rest),
    })
}

/// The reason behind a note, if there is one.
fn reason(bytes: &[u8]) -> Option<Reason> {
    let (words, _) = cause::Words::read_from_prefix(bytes).ok()?;
    let memory = |side| match side {
        MemorySide::Local => (Side::Requester, Memory::Local),
        MemorySide::Receive => (Side::Responder, Memory::Receive),
        MemorySide::Remote => (Side::Responder, Memory::Remote),
        MemorySide::Bound => (Side::Requester, Memory::Bound),
    };
    Some(match Cause::from_words(&words)? {
        Cause::Key { side, key } => {
            let (side, memory) = memory(side);
            Reason::Key { side, memory, key }
        }
        Cause::Bounds { side, key, access, region } => {
            let (side, memory) = memory(side);
            let ((address, length), (region_address, region_length)) = (access, region);
            Reason::Bounds { side, memory, key, address, length, region_address, region_length }
        }
        Cause::Access { side, key, needed, allowed } => {
            let (side, memory) = memory(side);
            let key = Some(key).filter(|key| *key != 0);
            let (needed, allowed) = (access_names(needed), access_names(allowed));
            Reason::Access { side, memory, key, needed, allowed }
        }
        Cause::Domain { side, key } => {
            let (side, memory) = memory(side);
            Reason::ProtectionDomain { side, memory, key }
        }
        Cause::Window { side, key } => Reason::Window { side: memory(side).0, key },
        Cause::Unmapped { side } => {
            let (side, memory) = memory(side);
            Reason::Unmapped { side, memory }
        }
        Cause::Small { length, room, grh } => Reason::ReceiveTooSmall { length, room, grh },
        Cause::Long { length, limit } => Reason::MessageTooLong { length, limit },
        Cause::Alignment { address } => Reason::Alignment { address },
        Cause::Malformed(why) => {
            let is_peers =
                matches!(why, MalformedWqe::ReceiveElements | MalformedWqe::NoReadsServed);
            let side = is_peers.then_some(Side::Responder);
            Reason::Malformed { side, text: malformed(why).into() }
        }
        Cause::NotReady { waited, timer: min_rnr_timer, retries: rnr_retry } => {
            Reason::ReceiverNotReady { waited, min_rnr_timer, rnr_retry }
        }
        Cause::NoResponse { waited, timeout, retries: retry_cnt, peer } => {
            let peer = match peer {
                cause::Peer::Gone => Peer::Gone,
                cause::Peer::Elsewhere(dest_qp) => Peer::NotConnectedToUs { dest_qp },
                cause::Peer::State(state) => Peer::InState { state },
                cause::Peer::Psn(expected, sent) => Peer::OtherPsn { expected, sent },
                cause::Peer::Remote => Peer::Remote,
                cause::Peer::Unreachable => Peer::Unreachable,
            };
            Reason::NoResponse { waited, timeout, retry_cnt, peer }
        }
        Cause::CqFull { is_requester, cq } => {
            let side = if is_requester { Side::Requester } else { Side::Responder };
            Reason::CqFull { side, cq }
        }
        Cause::Flushed => Reason::Flushed,
        Cause::Refused { status } => Reason::Refused { status: status_name(status) },
    })
}

fn malformed(why: MalformedWqe) -> &'static str {
    match why {
        MalformedWqe::Any => "the work request makes no sense",
        MalformedWqe::Opcode => "the queue pair's type has no such operation, or not on this key",
        MalformedWqe::Elements => "the work request has more elements than max_send_sge",
        MalformedWqe::NoReads => "the queue pair's max_rd_atomic is 0",
        MalformedWqe::AddressHandle => "the address handle is none of the protection domain's",
        MalformedWqe::ReceiveElements => "the receive has more elements than max_recv_sge",
        MalformedWqe::NoReadsServed => "the peer's max_dest_rd_atomic is 0",
        MalformedWqe::NoWindow => "the protection domain has no such window",
        MalformedWqe::WindowBound => {
            "a window of type 2 that is bound already, or to be bound to nothing"
        }
        MalformedWqe::WindowBase => "the window or its region is zero-based",
        MalformedWqe::Placement => "the flush guarantees nothing, or what is not known",
    }
}

/// A value with its name.
pub(super) fn named(name: &str, value: impl Into<soft_hca_record::Value>) -> Named {
    Named(name.into(), value.into())
}
