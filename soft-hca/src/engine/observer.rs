//! What passes by in a fabric, for whoever watches it.
//!
//! As long as nobody watches this costs a look at a word that is read anyway.

use std::sync::atomic::Ordering::Relaxed;

use crate::engine::{Actor, Async};
use crate::errno::Errno;
use crate::uapi::rxe::{Cqe, SendWqe};

/// Something that happens, in the order in which it happens in this process.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event<'e> {
    /// A send work request has been executed. Its completion follows, if it has one.
    WorkRequest(WorkRequest<'e>),
    /// A completion is about to appear in a completion queue.
    Completion(Completion),
    /// An asynchronous event is about to be raised.
    Async(Async),
    /// A command of the uverbs file has been answered.
    UverbsCommand(Command<'e>),
    /// A command of the connection manager's file has been answered.
    UcmaCommand(Command<'e>),
    /// A program takes an event of the connection manager.
    Connection {
        /// Index of the process.
        proc: usize,
        /// `struct rdma_ucm_event_resp`.
        event: &'e [u8],
    },
}

/// A send work request that was executed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkRequest<'e> {
    /// Number of the queue pair.
    pub qpn: u32,
    /// `ibv_qp_type`.
    pub qp_type: u32,
    /// Number of the connected peer; a datagram has its own.
    pub dest_qpn: u32,
    /// The request: its name, opcode, flags and all the rest.
    pub wqe: SendWqe<'e>,
    /// Bytes of the message; 0 if it has failed.
    pub length: u32,
    /// `ibv_wc_status`.
    pub status: u32,
    /// The receive that has taken the message, if that is known: a group's datagram has many, and
    /// one that is sent to another host none here.
    pub receive: Option<MatchedReceive>,
}

/// The receive that a message has gone into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MatchedReceive {
    /// Number of its queue pair.
    pub qpn: u32,
    /// The program's name for it.
    pub wr_id: u64,
}

/// A completion: of a send or receive work request, with success, an error or flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Completion {
    /// Index of the completion queue.
    pub cq: u32,
    /// What the program polls.
    pub cqe: Cqe,
    /// The sender has asked for an event.
    pub is_solicited: bool,
    /// The queue is full: nobody will poll it.
    pub is_lost: bool,
}

/// A command of a program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Command<'e> {
    /// Index of the process.
    pub proc: usize,
    /// Header and request, as the program has written it.
    pub request: &'e [u8],
    /// What it gets.
    pub result: Result<&'e [u8], Errno>,
}

impl Actor<'_> {
    /// Whether somebody watches.
    #[inline]
    pub(super) fn is_observed(&self) -> bool {
        self.arena.observed.load(Relaxed) != 0
    }

    /// Has an event pass by.
    #[inline]
    pub(crate) fn observe<'e>(&self, event: impl FnOnce() -> Event<'e>) {
        if self.is_observed() {
            self.tell(&event());
        }
    }

    #[cold]
    fn tell(&self, event: &Event<'_>) {
        self.env.observe(event);
    }
}
