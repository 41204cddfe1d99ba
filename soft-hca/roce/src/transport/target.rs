//! What arriving requests act upon: the receives and the memory of the program they are for.

use super::request::Remote;
use crate::wire::headers::{Feth, Immediate};
use crate::wire::opcode::SendEnd;

/// Why the owner of the memory does not do what a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Not now: as if the packet were lost.
    Busy,
    /// There is no receive: the sender is to try again.
    NotReady,
    /// The queue pair does not allow the operation.
    InvalidRequest,
    /// No such key, not this memory, not these rights.
    Access,
    /// A key to be made invalid is not valid. The message has arrived, and the peer is told nothing
    /// else (IBTA volume 1, 9.9.3.1, class J).
    Invalidate,
    /// The receive makes no sense, or its memory may not be used.
    Receive,
    /// The receive is too small for the message.
    ReceiveTooSmall,
    /// The completion queue has overflowed: the peer is told nothing.
    Overflow,
}

/// What a request does to memory.
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
        /// What it has to be.
        compare: u64,
        /// What it becomes.
        swap: u64,
    },
    /// Grows by so much, and wraps.
    FetchAdd(u64),
    /// Becomes these bytes.
    Write([u8; 8]),
}

/// What completes a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A send.
    Send(SendEnd),
    /// A write with immediate data: no byte is in the receive.
    Write(Immediate),
    /// A datagram of this queue pair, perhaps with immediate data.
    Datagram {
        /// The sender's queue pair.
        source_qpn: u32,
        /// Immediate data.
        immediate: Option<Immediate>,
    },
}

/// A receive's completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// By what.
    pub received: Received,
    /// Bytes of the message; of a datagram with the 40 before it.
    pub length: u32,
    /// The sender asked for an event.
    pub solicited: bool,
}

/// The receives and the memory of a program. Whatever a call refuses it has not done, so that it
/// can be asked again; only [`Target::place`] and [`Target::write`] may have done a part.
pub trait Target {
    /// Takes a receive from the queue: all that follows is about it, until it is completed.
    ///
    /// # Errors
    ///
    /// [`Refusal::NotReady`], [`Refusal::Receive`] and [`Refusal::Busy`].
    fn take_receive(&mut self) -> Result<(), Refusal>;

    /// Puts the bytes of packets in a row into the receive. Twice the same ones, if something behind
    /// them was refused.
    ///
    /// # Errors
    ///
    /// [`Refusal::Receive`], [`Refusal::ReceiveTooSmall`] and [`Refusal::Busy`].
    fn place(&mut self, offset: u32, parts: &[&[u8]]) -> Result<(), Refusal>;

    /// A message of an unreliable service was too long for the receive that was taken, and is
    /// dropped. A receive of the queue pair's own remains for the next message; one of a shared queue
    /// completes with an error (IBTA volume 1, 9.9.3.1, classes D and E).
    ///
    /// Returns whether it has completed, so that the next message takes another one.
    fn release_receive(&mut self) -> bool;

    /// Completes the receive, and makes the key of [`SendEnd::Invalidate`] invalid before.
    ///
    /// # Errors
    ///
    /// [`Refusal::Invalidate`], [`Refusal::Overflow`] and [`Refusal::Busy`].
    fn complete(&mut self, completion: Completion) -> Result<(), Refusal>;

    /// Whether the peer may do so with memory. Not asked for nothing, nor for atomics.
    ///
    /// # Errors
    ///
    /// [`Refusal::InvalidRequest`], [`Refusal::Access`] and [`Refusal::Busy`].
    fn check(&mut self, access: Access, remote: Remote, length: u32) -> Result<(), Refusal>;

    /// Writes the bytes of packets in a row to memory that was checked, perhaps some packets ago.
    ///
    /// # Errors
    ///
    /// [`Refusal::Access`] and [`Refusal::Busy`].
    fn write(&mut self, remote: Remote, parts: &[&[u8]]) -> Result<(), Refusal>;

    /// Checks the rights, does an atomic operation and returns the value before it.
    ///
    /// # Errors
    ///
    /// [`Refusal::InvalidRequest`], [`Refusal::Access`] and [`Refusal::Busy`].
    fn atomic(&mut self, remote: Remote, atomic: Atomic) -> Result<u64, Refusal>;

    /// Checks the rights, and places what was written to memory before as a flush asks for.
    ///
    /// # Errors
    ///
    /// [`Refusal::InvalidRequest`], [`Refusal::Access`] and [`Refusal::Busy`].
    fn flush(&mut self, remote: Remote, length: u32, feth: Feth) -> Result<(), Refusal>;

    /// The queue pair goes to the error state. A receive that was taken completes with an error
    /// that suits the reason. The machine hears nothing more.
    fn fail(&mut self, reason: Refusal);
}
