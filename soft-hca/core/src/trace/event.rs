//! Traced events as bytes: a fixed part for each kind of event, and behind it what has no fixed
//! length. The tracing thread fills it in where it happens, and the decoder of `soft-hca record` reads it.

use std::net::IpAddr;

use soft_hca_roce::wire::ip;
use soft_hca_roce::wire::packet::Headers;
use zerocopy::{FromBytes, Immutable, IntoBytes, TryFromBytes, try_transmute};

use crate::uapi::rxe::Sge;
use crate::uapi::verbs::status;

/// Of this layout, and of what stands behind it, where checks are numbered by their places in
/// [`Cause`](soft_hca_verbs::Cause) and [`Refusal`](soft_hca_verbs::Refusal): another one for a reader that
/// would misunderstand it.
pub(super) const VERSION: u8 = 10;

macro_rules! events {
    ($($(#[$doc:meta])* $name:ident = $kind:literal {
        $($(#[$field_doc:meta])* $field:ident: $type:ty,)*
    })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
            #[repr(C, packed)]
            pub struct $name {
                $($(#[$field_doc])* pub $field: $type,)*
            }

            impl From<$name> for Event {
                fn from(event: $name) -> Self {
                    Self::$name(event)
                }
            }
        )*

        /// Something that happens, in the order in which it happens in a process: the fixed part.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Event {
            $($(#[$doc])* $name($name),)*
        }

        impl Event {
            /// The number of its kind, never 0.
            pub(super) fn kind(&self) -> u32 {
                match self {
                    $(Self::$name(_) => $kind,)*
                }
            }

            /// Its bytes.
            pub(super) fn as_bytes(&self) -> &[u8] {
                match self {
                    $(Self::$name(event) => event.as_bytes(),)*
                }
            }

            /// The event of a kind that bytes begin with, and what is behind it.
            pub(super) fn take(kind: u32, bytes: &[u8]) -> Option<(Self, &[u8])> {
                match kind {
                    $($kind => {
                        let (event, behind) = $name::read_from_prefix(bytes).ok()?;
                        Some((Self::$name(event), behind))
                    })*
                    _ => None,
                }
            }
        }

        /// Kinds, each with the bytes of its fixed part.
        #[cfg(test)]
        const SIZES: &[(u32, usize)] = &[$(($kind, size_of::<$name>()),)*];
    };
}

events! {
    /// The process's ring begins. Behind it its command line, each word ended by a 0.
    Began = 1 {
        /// Its process id.
        pid: u32,
    }
    /// A process has ended.
    Ended = 2 {
    }
    /// A command. Behind it the command, its answer, and if it is refused why
    /// ([`explanation`](crate::errno::Errno::explanation)).
    Call = 3 {
        /// Nanoseconds that it took.
        duration: u64,
        /// Descriptor of the device file.
        fd: i32,
        /// 0 uverbs, 1 the connection manager.
        device: u32,
        /// 0, or why it was refused.
        errno: i32,
        /// Index in the fabric of the completion queue that was created.
        created: u32,
        /// Bytes of the command.
        request: u32,
        /// Bytes of the answer.
        answer: u32,
        /// Of a call that destroys an object: its events that the program has taken and not acknowledged, for
        /// which the library waits.
        unacknowledged: u32,
    }
    /// A send work request was posted. Behind it its SGEs.
    SendPosted = 4 {
        /// Of the work request.
        wr_id: u64,
        /// Of an RDMA or atomic operation or a bind.
        address: u64,
        /// Of an atomic operation; for a bind the window's bytes, for a flush its placement types.
        compare_add: u64,
        /// Of compare and swap; for a flush its selectivity level.
        swap: u64,
        /// Of an RDMA or atomic operation.
        rkey: u32,
        /// Number of the queue pair.
        qpn: u32,
        /// `enum ibv_qp_type`.
        qp_type: u32,
        /// `enum ibv_wr_opcode`.
        opcode: u32,
        /// `enum ibv_send_flags`.
        flags: u32,
        /// Immediate data in network byte order, or the rkey to be invalidated.
        imm: u32,
        /// Bytes of inline data, or of a flush.
        length: u32,
        /// Of a datagram.
        dest_qpn: u32,
        /// Of a datagram.
        qkey: u32,
        /// Of a datagram's address handle.
        dgid: [u8; 16],
    }
    /// A receive was posted, some time ago unless that was seen itself. Behind it its SGEs.
    ReceivePosted = 5 {
        /// Of the work request.
        wr_id: u64,
        /// Number of the queue pair or index of the shared queue.
        queue: u32,
        /// 1 if it is a shared receive queue.
        is_shared: u32,
        /// A [`Seen`].
        seen: u32,
    }
    /// A send work request waits. Behind it the cause.
    Stalled = 6 {
        /// Of the work request.
        wr_id: u64,
        /// Number of the queue pair.
        qpn: u32,
    }
    /// A send work request was executed or has failed. Its completion follows, if it has one.
    /// Behind it the cause, if it has failed or, as a datagram, was dropped.
    Executed = 7 {
        /// Of the work request.
        wr_id: u64,
        /// Of the receive work request that it has consumed.
        receive_wr_id: u64,
        /// Number of the queue pair.
        qpn: u32,
        /// `enum ibv_wr_opcode`.
        opcode: u32,
        /// Bytes of the message; 0 if it has failed.
        length: u32,
        /// `enum ibv_wc_status`.
        status: u32,
        /// The receive's queue pair, 0 if it is not known: a group's datagram has many, and one
        /// that is sent to another host none here.
        receive_qpn: u32,
        /// The process of that queue pair.
        receive_proc: u32,
        /// 1 if it could not be executed at once.
        has_waited: u32,
    }
    /// A completion is about to appear in its queue. Behind it the cause, if it is an error with
    /// one.
    Completion = 8 {
        /// Of the work request.
        wr_id: u64,
        /// Index in the fabric of the completion queue.
        cq: u32,
        /// Number of the queue pair.
        qpn: u32,
        /// `enum ibv_wc_opcode`.
        opcode: u32,
        /// `enum ibv_wc_status`.
        status: u32,
        /// Bytes.
        length: u32,
        /// Immediate data in network byte order, or the rkey to be invalidated.
        imm: u32,
        /// `enum ibv_wc_flags`.
        wc_flags: u32,
        /// 1 if the message has asked for an event.
        is_solicited: u32,
        /// 1 if the queue had no room.
        is_lost: u32,
    }
    /// A thread begins to wait.
    Wait = 9 {
        /// A [`Channel`].
        channel: u32,
        /// Its descriptor.
        fd: i32,
    }
    /// It goes on. If there is no [`Wait`] before, it takes an event that was there already.
    Woken = 10 {
        /// Nanoseconds; 0 if it has not waited here.
        waited: u64,
        /// A [`Channel`].
        channel: u32,
        /// Its descriptor.
        fd: i32,
        /// 1 if there was an event.
        is_event: u32,
    }
    /// An event of the connection manager: behind it `struct rdma_ucm_event_resp`.
    Connection = 11 {
        /// Its descriptor.
        fd: i32,
    }
    /// An asynchronous event, as `Async` of the engine has it in words.
    Raised = 12 {
        /// Which event.
        kind: u32,
        /// Of the object.
        index: u32,
    }
    /// A fault that was asked for, as [`FaultReport`](soft_hca_fault::FaultReport) has it.
    Fault = 14 {
    }
    /// A packet of the link.
    Packet = 15 {
        /// This host's queue pair.
        qpn: u32,
        /// The receiver's queue pair.
        dest_qpn: u32,
        /// Its packet sequence number.
        psn: u32,
        /// Bytes of payload.
        length: u32,
        /// The BTH's opcode.
        opcode: u32,
        /// The extended header of an answer as its bytes; `u32::MAX` for none.
        aeth: u32,
        /// 0 for one that was sent.
        is_received: u32,
        /// Why it was not taken: 1 for no queue pair, 2 for the wrong address, 0 if it was.
        ignored: u32,
        /// Addresses of sender and receiver as GIDs.
        from: [u8; 16],
        /// See `from`.
        to: [u8; 16],
    }
    /// An asynchronous event of a port, a path or a device. Behind it where that is, in words.
    Notice = 16 {
        /// Which (`enum ib_event_type`).
        event_type: u32,
        /// The queue pair whose path it is, 0 for none.
        qpn: u32,
    }
    /// Completions were polled, or polls that have found nothing are over. Behind it buffers that were changed too
    /// early, each a [`Changed`].
    Polled = 17 {
        /// How many polls before have found nothing.
        empty: u64,
        /// When the first of them was.
        first: u64,
        /// When the last of them was.
        last: u64,
        /// Index in the fabric of the completion queue.
        cq: u32,
        /// Completions, 0 if it is about the polls before only.
        found: u32,
        /// 1 for the functions of an extended queue.
        is_extended: u32,
    }
    /// A process ends by `exit`, which this thread has called. Behind it are the objects with
    /// events that it has taken and not acknowledged, each an [`Unacknowledged`], and then the
    /// descriptors that it has open, each an [`Open`].
    Exits = 18 {
        /// The exit status.
        status: i32,
        /// How many [`Unacknowledged`] there are.
        unacknowledged: u32,
    }
    /// A work request that the program has posted is refused by the library, which asks nobody.
    PostRefused = 19 {
        /// Of the work request.
        wr_id: u64,
        /// Remote address of an RDMA or atomic operation.
        address: u64,
        /// Bytes of its SGEs.
        length: u64,
        /// The error.
        errno: i32,
        /// A [`Posts`].
        posts: u32,
        /// Number of the queue pair, or index of the shared queue.
        queue: u32,
        /// `enum ibv_wr_opcode`.
        opcode: u32,
        /// `enum ibv_send_flags`.
        flags: u32,
        /// Its SGEs.
        sges: u32,
        /// Work requests that are in the queue.
        used: u32,
        /// As many as there is room for.
        room: u32,
        /// `enum ibv_qp_state`.
        state: u32,
    }
    /// A place in the program's code from where it calls a library, told before the first record that
    /// names it. Behind it the file of the code, its build ID in hexadecimal digits, the library's
    /// function that is called and the symbol of the program's own, each ended by a 0; empty what is
    /// not known.
    Place = 20 {
        /// Its number in the process, never 0.
        number: u32,
        /// How many of `callers` there are.
        depth: u32,
        /// Addresses behind the call instructions, as in the file of the code: the innermost, then those that have
        /// called it.
        callers: [u64; 4],
    }
    /// The process goes on with what it has of a device while a child of `fork` has its memory, too. It is of the
    /// time of the `fork`.
    Forked = 21 {
        /// Nanoseconds since then.
        duration: u64,
        /// `enum ibv_fork_status`
        status: u32,
    }
    /// A child of `fork` goes on with what its parent has of a device. Behind it the name of the function that it
    /// calls.
    InChild = 22 {
        /// Its process id.
        pid: u32,
    }
    /// The program acknowledges an event of an id while another of its threads waits for that in `rdma_destroy_id`.
    Acknowledged = 23 {
        /// Number of the id.
        id: u32,
    }
}

/// An object whose events were not acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C, packed)]
pub struct Unacknowledged {
    /// A [`Source`].
    pub source: u32,
    /// Number of the id or the queue pair, index of the queue.
    pub number: u32,
    /// How many events.
    pub events: u32,
}

impl Unacknowledged {
    /// Those that bytes consist of.
    pub fn all(bytes: &[u8]) -> impl Iterator<Item = Self> {
        each(bytes)
    }
}

/// A descriptor that a process has not closed when it ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C, packed)]
pub struct Open {
    /// An [`OpenKind`].
    pub kind: u32,
    /// The descriptor.
    pub fd: i32,
}

impl Open {
    /// Those that bytes consist of.
    pub fn all(bytes: &[u8]) -> impl Iterator<Item = Self> {
        each(bytes)
    }
}

/// The kind of file that an open descriptor refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, TryFromBytes)]
#[repr(u32)]
pub enum OpenKind {
    /// A device (`ibv_context.cmd_fd`).
    Device = 0,
    /// A completion channel.
    CompletionChannel = 1,
}

impl OpenKind {
    /// The one that has a number.
    pub fn of(number: u32) -> Option<Self> {
        try_transmute!(number).ok()
    }
}

/// A source of events that a program acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, TryFromBytes)]
#[repr(u32)]
pub enum Source {
    /// A completion queue.
    Cq = 0,
    /// An id of the connection manager.
    Id = 1,
    /// A queue pair.
    Qp = 2,
    /// A shared receive queue.
    Srq = 3,
}

impl Source {
    /// The one that has a number.
    pub fn of(number: u32) -> Option<Self> {
        try_transmute!(number).ok()
    }
}

/// A buffer of a send whose bytes were changed between the post and the poll of its completion, or
/// a buffer of a receive that is gone by then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C, packed)]
pub struct Changed {
    /// Of the work request.
    pub wr_id: u64,
    /// First address of the SGE.
    pub address: u64,
    /// Its bytes.
    pub length: u32,
    /// Number of the queue pair.
    pub qpn: u32,
    /// 1 if there is no memory any more.
    pub is_unmapped: u32,
    /// 1 if it was a variable of a function that has returned.
    pub has_returned: u32,
}

impl Changed {
    /// Those that bytes consist of.
    pub fn all(bytes: &[u8]) -> impl Iterator<Item = Self> {
        each(bytes)
    }
}

/// An SGE, as they stand behind a work request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C, packed)]
pub struct TracedSge {
    /// First address.
    pub address: u64,
    /// Bytes.
    pub length: u32,
    /// Of the region.
    pub lkey: u32,
}

impl From<Sge> for TracedSge {
    fn from(sge: Sge) -> Self {
        Self { address: sge.addr, length: sge.length, lkey: sge.lkey }
    }
}

impl TracedSge {
    /// Those that bytes consist of.
    pub fn all(bytes: &[u8]) -> impl Iterator<Item = Self> {
        each(bytes)
    }
}

/// The values that bytes consist of.
fn each<T: FromBytes>(mut bytes: &[u8]) -> impl Iterator<Item = T> {
    std::iter::from_fn(move || {
        let (value, behind) = T::read_from_prefix(bytes).ok()?;
        bytes = behind;
        Some(value)
    })
}

/// On what occasion a posted receive is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, TryFromBytes)]
#[repr(u32)]
pub enum Seen {
    /// Its process makes a call, or posts another one.
    AtCall = 0,
    /// A message is about to take it or one before it.
    AtMessage = 1,
    /// It is posted.
    AtPost = 2,
}

impl Seen {
    /// The occasion that has a number.
    pub fn of(number: u32) -> Option<Self> {
        try_transmute!(number).ok()
    }
}

/// The kind of requests that are posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, TryFromBytes)]
#[repr(u32)]
pub enum Posts {
    /// `ibv_post_send`
    Send = 0,
    /// `ibv_post_recv`
    Receive = 1,
    /// `ibv_post_srq_recv`
    SharedReceive = 2,
}

impl Posts {
    /// The one that has a number.
    pub fn of(number: u32) -> Option<Self> {
        try_transmute!(number).ok()
    }
}

/// A channel that a thread waits at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, TryFromBytes)]
#[repr(u32)]
pub enum Channel {
    /// A completion channel.
    Completion = 0,
    /// An event channel of the connection manager.
    Connection = 1,
    /// A device's asynchronous events.
    Async = 2,
}

impl Channel {
    /// The channel that has a number.
    pub fn of(number: u32) -> Option<Self> {
        try_transmute!(number).ok()
    }
}

impl Packet {
    /// A packet by its headers, and the addresses of its sender and its receiver.
    pub fn of(headers: &Headers, (from, to): (IpAddr, IpAddr)) -> Self {
        let opcode = headers.operation.opcode(headers.service);
        let aeth = headers.operation.aeth();
        Self {
            dest_qpn: headers.dest_qpn.get(),
            psn: headers.psn.get(),
            opcode: opcode.map_or(u32::MAX, u32::from),
            aeth: aeth.map_or(u32::MAX, |aeth| u32::from_be_bytes(aeth.encode())),
            from: ip::gid(from),
            to: ip::gid(to),
            ..Self::default()
        }
    }
}

impl Event {
    /// Whether it is, or ends, something that goes wrong; `behind` it may be a cause.
    pub(super) fn is_failure(&self, behind: &[u8]) -> bool {
        match self {
            Self::SendPosted(_) | Self::ReceivePosted(_) | Self::Packet(_) | Self::Polled(_) => {
                false
            }
            Self::Executed(done) => {
                done.status != status::SUCCESS || !behind.is_empty() || done.has_waited != 0
            }
            Self::Completion(done) => done.status != status::SUCCESS || done.is_lost != 0,
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_layout_is_another_version() {
        let sizes = [
            (1, 4),
            (2, 0),
            (3, 36),
            (4, 84),
            (5, 20),
            (6, 12),
            (7, 44),
            (8, 44),
            (9, 8),
            (10, 20),
            (11, 4),
            (12, 8),
            (14, 0),
            (15, 64),
            (16, 8),
            (17, 36),
            (18, 8),
            (19, 60),
            (20, 40),
            (21, 12),
            (22, 4),
            (23, 4),
        ];
        assert_eq!((VERSION, SIZES), (10, &sizes[..]));
    }

    #[test]
    fn events_are_what_their_bytes_say() {
        let event = Event::from(Stalled { wr_id: 5, qpn: 17 });
        let bytes = [event.as_bytes(), b"abc"].concat();
        assert_eq!(Event::take(event.kind(), &bytes), Some((event, &b"abc"[..])));
        assert_eq!(Event::take(event.kind(), &bytes[..8]), None);
        assert_eq!(Event::take(0, &bytes), None);
        let element = TracedSge { address: 1, length: 2, lkey: 3 };
        let list = [element; 2];
        assert!(TracedSge::all(list.as_bytes()).eq(list));
    }
}
