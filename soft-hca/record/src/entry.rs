//! Lines of a record.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use soft_hca_roce::wire::headers::NakCode;
use soft_hca_verbs::{
    Cause, CmEvent, ErrorNumber, EventType, Placement, Refusal, Selectivity, SendFlags, WcOpcode,
    WcStatus, WrOpcode,
};

use crate::place::{Place, Site};
use crate::value::{Name, Named};

/// The value of [`Header::format`].
pub const FORMAT: &str = "soft-hca record";
/// The value of [`Header::version`]: another one for files that this reader would misunderstand.
/// Further members and kinds of entries may come without a new number.
pub const VERSION: u32 = 2;

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// When the recording began, RFC 3339 in UTC.
    pub began: String,
    /// The device's name.
    pub device: String,
    /// The adapter whose limits the device has, if it has some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub like: Option<String>,
    /// The fabric's name.
    pub fabric: String,
    /// The device's GIDs by their index.
    #[serde(default)]
    pub gids: Vec<String>,
    /// Entries of the largest P_Key table of the fabric's ports; those of RoCE have one.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub pkeys: u16,
    /// The command that was recorded, if it was one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
}

impl Header {
    /// When the recording began, since 1970; zero if [`Header::began`] is no time.
    pub fn began_since_1970(&self) -> Duration {
        let began = humantime::parse_rfc3339(&self.began).ok();
        let began = began.and_then(|began| began.duration_since(SystemTime::UNIX_EPOCH).ok());
        began.unwrap_or_default()
    }
}

/// A line behind the first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Nanoseconds from the beginning of the recording, by the clock `CLOCK_MONOTONIC`. Of what
    /// takes time this is its beginning.
    pub t: u64,
    /// Whom it is about: a number that a [`What::ProcessBegan`] has introduced.
    pub process: u32,
    /// The thread that did it, by the system's number; none where the process did not do it
    /// itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<u32>,
    /// The process that did it in the name of the first, if it was another one: who sends also
    /// takes the receiver's receive and writes its completion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<u32>,
    /// The event.
    #[serde(flatten)]
    pub what: What,
    /// Where its program has called for it, if it has and that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<Site>,
}

impl Entry {
    /// Where its program has called a library, if that is known.
    pub fn place(&self) -> Option<&Place> {
        self.site.as_ref()?.place.as_deref()
    }

    /// The same, to be kept.
    pub fn source(&self) -> Option<Arc<Place>> {
        self.site.as_ref()?.place.clone()
    }
}

/// An event. In JSON members of the entry, with `what` to tell which.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum What {
    /// A process is part of the recording from here on. Its numbers count from 0 in the order of
    /// these entries.
    ProcessBegan {
        /// Its id, as it sees it itself.
        pid: u32,
        /// Its kind.
        role: Role,
        /// Its command line.
        command: Vec<String>,
        /// Another host's name or address, if it is not on this one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<String>,
    },
    /// The process has ended, or has closed its last device file.
    ProcessEnded {
        /// The thread that has called `exit`; none if the process was killed, or has ended without a
        /// word.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_by: Option<u32>,
        /// The exit status, if it has called `exit`; records of older releases have none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<i32>,
        /// Events that it has taken and not acknowledged by then, of objects that it has not destroyed.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unacknowledged: Vec<Unacknowledged>,
        /// Devices and completion channels that it has not closed by then.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        open: Vec<Name>,
    },
    /// A verb or a call of the connection manager that needs the kernel.
    Call(Call),
    /// A program has taken an event of the connection manager.
    ConnectionEvent(ConnectionEvent),
    /// An asynchronous event has been raised.
    AsyncEvent {
        /// Which.
        event: EventType,
        /// The object that it is about, if it is about one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        element: Option<Name>,
        /// The port, path or device that it is about, such as `port 1 of rxe0`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        place: Option<String>,
    },
    /// `ibv_post_send`: a work request was put into a send queue.
    SendPosted(SendPosted),
    /// `ibv_post_recv` or `ibv_post_srq_recv`: a receive was put into its queue. Where that was not
    /// seen itself, this entry is later; see [`ReceivePosted::seen`].
    ReceivePosted(ReceivePosted),
    /// A send work request cannot be executed yet; it will be tried again.
    Stalled {
        /// The queue pair.
        qp: u32,
        /// The request.
        wr_id: u64,
        /// The reason why it waits; `waited` in it is 0.
        reason: Cause,
    },
    /// A send work request was executed, or has failed.
    Executed(Executed),
    /// A completion was put into a completion queue.
    Completion(Completion),
    /// A thread has polled a completion queue.
    Polled(Polled),
    /// A thread waits for an event.
    Wait {
        /// The channel that it waits at.
        on: Channel,
        /// The channel's descriptor.
        fd: u32,
    },
    /// It goes on, with an event or because it was interrupted. Without a [`What::Wait`] before it the thread has
    /// taken an event of a completion channel for which it has not waited, or not in `ibv_get_cq_event`.
    Woken {
        /// The channel that it has waited at.
        on: Channel,
        /// The channel's descriptor.
        fd: u32,
        /// The nanoseconds for which it has waited, 0 if it has not.
        waited: u64,
        /// Whether there is an event.
        event: bool,
    },
    /// A packet of the link to another host.
    Packet(Packet),
    /// So many entries of this process are missing from here on, for its share of the memory for
    /// recording was full.
    Dropped {
        /// How many.
        entries: u64,
    },
}

/// Events of an object that were not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unacknowledged {
    /// The object.
    pub of: Name,
    /// How many.
    pub events: u32,
}

/// The kind of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A program.
    Program,
    /// The fabric's daemon, which tries again what had to wait.
    Daemon,
}

impl Role {
    /// The name of a process of this kind: its program without the folder.
    pub(crate) fn program(self, command: &[String]) -> &str {
        match (self, command.first()) {
            (Self::Daemon, _) => "soft-hca",
            (Self::Program, Some(program)) => {
                program.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(program)
            }
            (Self::Program, None) => "?",
        }
    }
}

/// A verb or a call of the connection manager.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The function's name in rdma-core, such as `ibv_create_qp` or `rdma_connect`. What a program
    /// calls may be another one that ends in this: `rdma_create_qp` calls `ibv_create_qp`.
    pub name: String,
    /// Its arguments, in the order of the verb's parameters.
    pub args: Vec<Named>,
    /// Nanoseconds that it took.
    pub duration: u64,
    /// Its result.
    pub result: Outcome,
    /// Of a call that destroys an object: its events that the program has taken and not acknowledged by then.
    /// The call returns when it has, and not before.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unacknowledged: u32,
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Success, with what the program gets.
    Done(Vec<Named>),
    /// It was refused.
    Refused {
        /// The error. In JSON its name as `errno` and its number as `number`.
        #[serde(flatten)]
        error: Failure,
        /// Which check has failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Refusal>,
        /// The values that it has compared, or the objects that are in the way; the one named `more` counts
        /// further ones.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        values: Vec<Named>,
    },
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "FailureMembers", try_from = "FailureMembers")]
pub enum Failure {
    /// With an error number.
    Error(ErrorNumber),
    /// A fault has given a completion that it brings another status.
    Completion(WcStatus),
    /// A fault has killed its process, with SIGKILL.
    Killed,
}

/// As JSON has it: the number is 0 if it is no error number.
#[derive(Serialize, Deserialize)]
struct FailureMembers {
    errno: String,
    number: i32,
}

const KILLED: &str = "SIGKILL";

impl From<Failure> for FailureMembers {
    fn from(failure: Failure) -> Self {
        let number = failure.number();
        Self { errno: failure.to_string(), number }
    }
}

impl TryFrom<FailureMembers> for Failure {
    type Error = soft_hca_verbs::Unknown;

    fn try_from(members: FailureMembers) -> Result<Self, soft_hca_verbs::Unknown> {
        match members.number {
            0 => members.errno.parse(),
            number => Ok(Self::Error(ErrorNumber(number))),
        }
    }
}

/// The error, the completion's status or the signal by its name.
impl FromStr for Failure {
    type Err = soft_hca_verbs::Unknown;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == KILLED {
            return Ok(Self::Killed);
        }
        let status =
            WcStatus::named(text).filter(|_| text.starts_with("IBV_")).map(Self::Completion);
        status.map_or_else(|| text.parse().map(Self::Error), Ok)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(error) => error.fmt(f),
            Self::Completion(status) => status.fmt(f),
            Self::Killed => f.pad(KILLED),
        }
    }
}

impl Failure {
    /// The error number; 0 if it has none.
    pub fn number(self) -> i32 {
        match self {
            Self::Error(error) => error.0,
            Self::Completion(_) | Self::Killed => 0,
        }
    }
}

/// An event of the connection manager, as a program takes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionEvent {
    /// Which.
    pub event: CmEvent,
    /// The id that it is about.
    pub id: u32,
    /// For a connection request the id that it has come to; `id` is the new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen_id: Option<u32>,
    /// 0, a negative error number, or the reason of a rejection.
    pub status: i32,
    /// The peer's queue pair, if it is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qp: Option<u32>,
    /// Bytes of private data.
    pub private_data: u32,
}

/// An SGE: an element of a scatter/gather list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sge {
    /// Where the memory begins.
    pub address: u64,
    /// Its bytes.
    pub length: u32,
    /// The region's key.
    pub lkey: u32,
}

/// The peer's memory that an RDMA operation names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remote {
    /// First address.
    pub address: u64,
    /// The region's or window's key.
    pub rkey: u32,
}

/// The guarantee of an RDMA FLUSH.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flush {
    /// For what.
    #[serde(with = "soft_hca_verbs::list")]
    pub placement: Placement,
    /// Of which memory.
    pub selectivity: Selectivity,
}

/// Where a datagram goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Destination {
    /// The queue pair; 0xffffff for a multicast group.
    pub qp: u32,
    /// Its Q_Key.
    pub qkey: u32,
    /// The GID of the address handle.
    pub gid: String,
}

/// A send work request as it was posted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendPosted {
    /// The queue pair.
    pub qp: u32,
    /// The program's name for it.
    pub wr_id: u64,
    /// Its operation.
    pub opcode: WrOpcode,
    /// How.
    #[serde(with = "soft_hca_verbs::list")]
    pub flags: SendFlags,
    /// Bytes of the message.
    pub length: u64,
    /// The memory that it is sent from or read into; empty for inline data.
    pub sges: Vec<Sge>,
    /// The peer's memory that it reaches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<Remote>,
    /// Immediate data, in host byte order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imm: Option<u32>,
    /// The key that is invalidated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invalidate: Option<u32>,
    /// Of an atomic operation: what is added, or compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compare_add: Option<u64>,
    /// Of compare and swap: what is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swap: Option<u64>,
    /// Of an RDMA FLUSH: what it guarantees, and of which memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flush: Option<Flush>,
    /// Where a datagram goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<Destination>,
}

/// The queue that a receive is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiveQueue {
    /// A queue pair's own.
    Qp(u32),
    /// A shared one.
    Srq(u32),
}

/// Such as `qp 17`.
impl fmt::Display for ReceiveQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Qp(number) => write!(f, "qp {number}"),
            Self::Srq(number) => write!(f, "srq {number}"),
        }
    }
}

/// A receive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceivePosted {
    /// Where it is.
    pub queue: ReceiveQueue,
    /// The program's name for it.
    pub wr_id: u64,
    /// Bytes of room.
    pub length: u64,
    /// Where they are.
    pub sges: Vec<Sge>,
    /// On what occasion it was seen.
    pub seen: Seen,
}

/// On what occasion a receive was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Seen {
    /// It was posted then.
    AtPost,
    /// Its process has made a call, so it was posted between that and the call before.
    AtCall,
    /// A message was about to take it or one before it, so it was posted some time before.
    AtMessage,
}

/// A send work request that was executed, or has failed. Its completion, if it has one, follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Executed {
    /// The queue pair.
    pub qp: u32,
    /// The program's name for it.
    pub wr_id: u64,
    /// Its operation.
    pub opcode: WrOpcode,
    /// Bytes that were moved; 0 if it has failed.
    pub length: u64,
    /// How it has ended.
    pub status: WcStatus,
    /// The receive that has taken the message, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive: Option<MatchedReceive>,
    /// Why it has failed; of a datagram that was sent, why it was dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cause>,
}

/// A receive that a message has gone into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatchedReceive {
    /// The receiver.
    pub process: u32,
    /// Its queue pair.
    pub qp: u32,
    /// Its name for the receive.
    pub wr_id: u64,
}

/// A completion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completion {
    /// The completion queue, by its number in the fabric.
    pub cq: u32,
    /// The queue pair.
    pub qp: u32,
    /// The work request.
    pub wr_id: u64,
    /// Of what; means nothing unless the status is success.
    pub opcode: WcOpcode,
    /// How it has ended.
    pub status: WcStatus,
    /// Bytes.
    pub length: u32,
    /// Immediate data, in host byte order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imm: Option<u32>,
    /// The sender has asked for an event.
    #[serde(default, skip_serializing_if = "is_false")]
    pub solicited: bool,
    /// The queue was full: nobody will poll it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lost: bool,
    /// Why it is no success, where that is not told by an [`Executed`] of the same queue pair and
    /// `wr_id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cause>,
}

/// Polls of a completion queue by a thread: one that has found something and those before it that have
/// not, or these alone, where the thread goes on to something else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Polled {
    /// The completion queue, by its number in the fabric.
    pub cq: u32,
    /// Completions that the poll has given, 0 if there are only those before.
    pub found: u32,
    /// Polls before that have found nothing, since the last [`Polled`] of this thread and queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty: Option<EmptyPolls>,
    /// By `ibv_start_poll`, `ibv_next_poll` and `ibv_end_poll`, not by `ibv_poll_cq`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub extended: bool,
    /// Buffers of sends that were changed before this poll gave their completion, and buffers that are gone of receives
    /// whose completion it gave, if the recording looks at them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<Changed>,
}

/// An SGE of a send that was changed between the post and the poll of its completion, or of a receive whose memory is
/// gone by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// The queue pair.
    pub qp: u32,
    /// The request.
    pub wr_id: u64,
    /// Where the memory begins.
    pub address: u64,
    /// Its bytes.
    pub length: u32,
    /// It is not there any more.
    #[serde(default, skip_serializing_if = "is_false")]
    pub unmapped: bool,
    /// Whether a receive's SGE was a variable of a function that has returned.
    #[serde(default, skip_serializing_if = "is_false")]
    pub returned: bool,
}

impl Polled {
    /// The function that was called.
    pub fn function(&self) -> &'static str {
        if self.extended { "ibv_start_poll" } else { "ibv_poll_cq" }
    }
}

/// Polls that have found nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmptyPolls {
    /// How many.
    pub count: u64,
    /// Nanoseconds from the beginning of the recording to the first.
    pub first: u64,
    /// To the last.
    pub last: u64,
}

impl EmptyPolls {
    /// Nanoseconds from the first to the last.
    pub fn duration(&self) -> u64 {
        self.last.saturating_sub(self.first)
    }
}

fn one() -> u16 {
    1
}

fn is_one(value: &u16) -> bool {
    *value == 1
}

fn is_zero(value: &u32) -> bool {
    *value == 0
}

fn is_false(value: &bool) -> bool {
    !value
}

/// A channel that a thread can wait at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// A completion channel (`ibv_get_cq_event`).
    Completion,
    /// An event channel (`rdma_get_cm_event`).
    Connection,
    /// A device's asynchronous events (`ibv_get_async_event`).
    Async,
}

impl Channel {
    /// The function of rdma-core that waits at it.
    pub fn function(self) -> &'static str {
        match self {
            Self::Completion => "ibv_get_cq_event",
            Self::Connection => "rdma_get_cm_event",
            Self::Async => "ibv_get_async_event",
        }
    }
}

/// A packet of the link to another host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packet {
    /// Whether it was sent or received.
    pub direction: Direction,
    /// IP address of the sender.
    pub from: String,
    /// IP address of the receiver.
    pub to: String,
    /// As the specification has it, such as `RC_SEND_ONLY`.
    pub opcode: String,
    /// The queue pair of the process that has sent or received it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qp: Option<u32>,
    /// The queue pair that it goes to.
    pub dest_qp: u32,
    /// Packet sequence number.
    pub psn: u32,
    /// Bytes of payload.
    pub length: u32,
    /// A note on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<PacketNote>,
}

/// Whether a packet was sent or received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Sent.
    Sent,
    /// Received.
    Received,
}

/// A note on a packet beyond its headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PacketNote {
    /// It is sent again, and why.
    Retransmission(Retransmission),
    /// It acknowledges all up to its sequence number.
    Ack,
    /// It asks to wait for so many nanoseconds: the receiver is not ready.
    RnrNak(u64),
    /// It refuses, and why.
    Nak(NakCode),
    /// It was not taken, and why.
    Ignored(Ignored),
}

/// The reason why a packet is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Retransmission {
    /// No acknowledgement has come in time.
    Timeout,
    /// The receiver was not ready.
    ReceiverNotReady,
    /// The peer has refused it.
    Nak(NakCode),
}

/// The reason why a packet was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ignored {
    /// No queue pair takes it.
    NoQueuePair,
    /// The queue pair is connected to another address.
    OtherAddress,
}
