//! What passes by in a fabric, for whoever watches it.
//!
//! As long as nobody watches this costs a look at a word that is read anyway.

use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;

use soft_hca_roce::wire::packet::Headers;

use crate::engine::cause::Cause;
use crate::engine::{Actor, Async};
use crate::uapi::rxe::{Cqe, RecvWqe, SendWqe};

/// Something that happens, in the order in which it happens in this process.
#[derive(Clone, Copy, Debug)]
pub enum Event<'e> {
    /// A send work request was posted.
    SendPosted(SendPosted<'e>),
    /// A receive was posted some time ago.
    ReceivePosted(ReceivePosted<'e>),
    /// A send work request has to wait.
    Stalled {
        /// Index of its process.
        proc: u32,
        /// Number of the queue pair.
        qpn: u32,
        /// The request.
        wr_id: u64,
        /// What for.
        cause: Cause,
    },
    /// A send work request has been executed. Its completion follows, if it has one.
    WorkRequest(WorkRequest<'e>),
    /// A completion is about to appear in a completion queue.
    Completion(Completion),
    /// An asynchronous event is about to be raised.
    Async(Async),
    /// A packet of the link to another host was sent, or has come.
    Packet(LinkPacket<'e>),
}

/// A packet of the link to another host.
#[derive(Clone, Copy, Debug)]
pub struct LinkPacket<'e> {
    /// Number of this host's queue pair.
    pub qpn: u32,
    /// It has come.
    pub is_received: bool,
    /// Addresses of its sender and its receiver.
    pub path: (IpAddr, IpAddr),
    /// Its headers.
    pub headers: &'e Headers,
    /// Bytes of payload.
    pub length: u32,
    /// It was not taken, and why: 1 for no queue pair, 2 for the wrong address.
    pub ignored: u32,
}

/// A send work request as it was posted.
#[derive(Clone, Copy, Debug)]
pub struct SendPosted<'e> {
    /// Index of the process.
    pub proc: u32,
    /// Number of the queue pair.
    pub qpn: u32,
    /// `ibv_qp_type`.
    pub qp_type: u32,
    /// The request.
    pub wqe: SendWqe<'e>,
    /// Elements that it has.
    pub elements: usize,
    /// Where the address handle of a datagram leads to.
    pub dgid: [u8; 16],
}

/// The queue that a receive is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveQueue {
    /// Of the queue pair with a number.
    Own(u32),
    /// The shared one with an index.
    Shared(u32),
}

/// A receive that was posted.
#[derive(Clone, Copy, Debug)]
pub struct ReceivePosted<'e> {
    /// Index of the process.
    pub proc: u32,
    /// Where it is.
    pub queue: ReceiveQueue,
    /// The receive.
    pub wqe: RecvWqe<'e>,
    /// It was seen because of a message, not of a call of its process.
    pub at_message: bool,
}

/// A send work request that was executed.
#[derive(Clone, Copy, Debug)]
pub struct WorkRequest<'e> {
    /// Index of the process.
    pub proc: u32,
    /// Number of the queue pair.
    pub qpn: u32,
    /// The request.
    pub wqe: SendWqe<'e>,
    /// Bytes of the message; 0 if it has failed.
    pub length: u32,
    /// `ibv_wc_status`.
    pub status: u32,
    /// The receive that has taken the message, if that is known: a group's datagram has many, and
    /// one that is sent to another host none here.
    pub receive: Option<MatchedReceive>,
    /// Index of the receive's process.
    pub receive_proc: u32,
    /// Why it has failed; of a datagram that was sent, why it was dropped.
    pub cause: Option<Cause>,
    /// It could not be executed at once.
    pub has_waited: bool,
}

/// The receive that a message has gone into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchedReceive {
    /// Number of its queue pair.
    pub qpn: u32,
    /// The program's name for it.
    pub wr_id: u64,
}

/// A completion: of a send or receive work request, with success, an error or flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Index of the process.
    pub proc: u32,
    /// Index of the completion queue.
    pub cq: u32,
    /// What the program polls.
    pub cqe: Cqe,
    /// The sender has asked for an event.
    pub is_solicited: bool,
    /// The queue is full: nobody will poll it.
    pub is_lost: bool,
    /// Why it is no success.
    pub cause: Option<Cause>,
}

impl Actor<'_> {
    /// Whether somebody watches.
    #[inline]
    pub fn is_observed(&self) -> bool {
        self.arena.observed.load(Relaxed) != 0
    }

    /// Has an event pass by.
    #[inline]
    pub fn observe<'e>(&self, event: impl FnOnce() -> Event<'e>) {
        if self.is_observed() {
            self.tell(&event());
        }
    }

    #[cold]
    fn tell(&self, event: &Event<'_>) {
        self.env.observe(event);
    }
}
