//! Targets of the peer's requests: receive work requests and memory.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::packet_sender::Busy;
use super::request::Remote;
use crate::wire::headers::{Feth, Immediate};
use crate::wire::opcode::SendEnd;

/// Why a request of the peer is not executed.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// Not now: as if the packet were lost.
    #[error("busy")]
    Busy,
    /// No receive work request is posted: the requester gets an RNR NAK.
    #[error("no receive work request is posted")]
    NotReady,
    /// The queue pair does not allow the operation.
    #[error("the operation is not allowed")]
    InvalidRequest,
    /// No such R_Key, not in its bounds, or not with these rights.
    #[error("the remote key does not allow the access")]
    Access,
    /// A key to be invalidated is not valid. The message has arrived and is acknowledged
    /// (IBTA volume 1, 9.9.3.1, class J).
    #[error("the key to be invalidated is not valid")]
    Invalidate,
    /// The receive work request is malformed, or its memory may not be used.
    #[error("the receive work request is malformed, or its memory may not be used")]
    Receive,
    /// The receive work request is too small for the message.
    #[error("the receive work request is too small")]
    ReceiveTooSmall,
    /// The completion queue has overflowed: the peer gets no response.
    #[error("the completion queue has overflowed")]
    Overflow,
}

impl From<Busy> for Refusal {
    fn from(Busy: Busy) -> Refusal {
        Refusal::Busy
    }
}

/// How a request accesses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads it.
    Read,
    /// Writes it.
    Write,
}

/// An operation on eight bytes at an address that is a multiple of eight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomic {
    /// To `swap` if it is `compare`.
    CompareSwap {
        /// The value that it has to have.
        compare: u64,
        /// Its new value.
        swap: u64,
    },
    /// Adds so much, and wraps.
    FetchAdd(u64),
    /// Becomes these bytes.
    Write([u8; 8]),
}

/// The operation that completes a receive work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A send.
    Send(SendEnd),
    /// A write with immediate data: nothing is scattered to the receive work request.
    Write(Immediate),
}

/// The completion of a receive work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// By what.
    pub received: Received,
    /// Bytes of the message.
    pub length: u32,
    /// The sender wants an event (solicited event).
    pub solicited: bool,
}

/// The receive queue and the memory that the peer may use. What a call refuses it has not done, so
/// that it can be asked again; only [`Target::scatter`] and [`Target::write`] may have done a part.
///
/// Operations on memory are refused unless they are implemented.
pub trait Target {
    /// Consumes a receive work request: what follows is about it, until it is completed.
    ///
    /// # Errors
    ///
    /// [`Refusal::NotReady`], [`Refusal::Receive`] and [`Refusal::Busy`].
    fn consume_receive(&mut self) -> Result<(), Refusal>;

    /// Scatters the payloads of consecutive packets to the receive work request, from `offset` bytes
    /// on. The same bytes come again if what follows them was refused.
    ///
    /// # Errors
    ///
    /// [`Refusal::Receive`], [`Refusal::ReceiveTooSmall`] and [`Refusal::Busy`].
    fn scatter(&mut self, offset: u32, parts: &[&[u8]]) -> Result<(), Refusal>;

    /// A message of an unreliable connection was too long for the receive work request that was
    /// consumed, and is dropped. The request stays for the next message; if it is of a shared
    /// receive queue, it completes with an error (IBTA volume 1, 9.9.3.1, classes D and E).
    ///
    /// Returns whether it has completed, so that the next message consumes another one.
    fn release_receive(&mut self) -> bool {
        false
    }

    /// Completes the receive work request, and invalidates the key of [`SendEnd::Invalidate`]
    /// before.
    ///
    /// # Errors
    ///
    /// [`Refusal::Invalidate`], [`Refusal::Overflow`] and [`Refusal::Busy`].
    fn complete(&mut self, completion: Completion) -> Result<(), Refusal>;

    /// Whether the peer may access memory so. With a length of zero the queue pair has to allow it,
    /// and the key does not count. Not asked for atomics.
    ///
    /// # Errors
    ///
    /// [`Refusal::InvalidRequest`], [`Refusal::Access`] and [`Refusal::Busy`].
    fn check(&mut self, access: Access, remote: Remote, length: u32) -> Result<(), Refusal> {
        let _ = (access, remote, length);
        Err(Refusal::InvalidRequest)
    }

    /// Copies memory that was checked, perhaps some packets ago, into `parts`, one behind the other.
    ///
    /// # Errors
    ///
    /// [`Refusal::Access`] and [`Refusal::Busy`].
    fn read(&mut self, remote: Remote, parts: &mut [&mut [u8]]) -> Result<(), Refusal> {
        let _ = (remote, parts);
        Err(Refusal::Access)
    }

    /// Writes the payloads of consecutive packets to memory that was checked, perhaps some packets
    /// ago.
    ///
    /// # Errors
    ///
    /// [`Refusal::Access`] and [`Refusal::Busy`].
    fn write(&mut self, remote: Remote, parts: &[&[u8]]) -> Result<(), Refusal> {
        let _ = (remote, parts);
        Err(Refusal::Access)
    }

    /// Checks the rights, does an atomic operation and returns the value before it.
    ///
    /// # Errors
    ///
    /// [`Refusal::InvalidRequest`], [`Refusal::Access`] and [`Refusal::Busy`].
    fn atomic(&mut self, remote: Remote, atomic: Atomic) -> Result<u64, Refusal> {
        let _ = (remote, atomic);
        Err(Refusal::InvalidRequest)
    }

    /// Checks the rights, and makes what was written to memory before visible or persistent, as a
    /// FLUSH asks for.
    ///
    /// # Errors
    ///
    /// [`Refusal::InvalidRequest`], [`Refusal::Access`] and [`Refusal::Busy`].
    fn flush(&mut self, remote: Remote, length: u32, feth: Feth) -> Result<(), Refusal> {
        let _ = (remote, length, feth);
        Err(Refusal::InvalidRequest)
    }

    /// The queue pair goes to the error state. A receive work request that was consumed completes
    /// with an error that suits the reason. The target is called no more.
    ///
    /// # Errors
    ///
    /// [`Busy`]: it is called again.
    fn fail(&mut self, reason: Refusal) -> Result<(), Busy>;
}
