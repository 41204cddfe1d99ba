//! The protocol of RoCE v2's queue pairs as state machines: packets and work requests in, packets
//! and effects on memory out, and the time at which to be woken. Time is nanoseconds of any clock.
//!
//! ```text
//!        the program that sends                                 its peer
//!
//!  post ──> requester::Requester                        responder::Responder
//!              │ transmit: headers, and which bytes               │
//!              ├────────────── send or write ───────────────────>─┤ Target::take_receive, place
//!              ├────────────── ... the last one asks ───────────>─┤ or check, write; complete
//!              │                                                  │ transmit
//!   SendQueue::├─<──────────────── ACK ───────────────────────────┤
//!   complete   │                                                  │
//!              ├────────────── read request ────────────────────>─┤ Target::check
//!   place      ├─<───────── responses, with bytes ────────────────┤ transmit
//!   complete   ├─<───────── ... the last one ─────────────────────┤
//!              │                                                  │
//!              ├────────────── send ──────────────── lost         │
//!              ├────────────── send ────────────────────────────>─┤ a gap
//!              ├─<──────────────── NAK: the expected number ──────┤
//!              ├────────────── both again ──────────────────────>─┤ Target::...
//! ```
//!
//! Nothing here holds a message's bytes: a packet names a range of its work request, or of memory
//! that a read asked for, and the caller takes the bytes when he builds it. Everything that the
//! caller is asked for he may refuse as [busy](target::Refusal::Busy), and then it is as if the
//! packet had been lost. What is kept is bounded: requests by [`requester::WINDOW`], answers by
//! `max_dest_rd_atomic`.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`attributes`] | of a connection: MTU, numbers, timers, depths |
//! | [`request`] | work requests, how they are cut into packets, and whose they are: [`request::SendQueue`] |
//! | [`target`] | what requests act upon: [`target::Target`] |
//! | [`requester`], [`responder`] | the two halves of a reliable connection |
//! | [`uc`], [`ud`] | unreliable connections and datagrams, both halves |
//! | [`timers`] | codes of times |
//!
//! A packet for which [`is_response`](crate::wire::opcode::Operation::is_response) holds is for the
//! requester, any other for the responder. Addresses, the check and the partition were looked at
//! before. Local operations (binding a window, making a key invalid) are not seen here: the caller
//! does them when [`is_idle`](requester::Requester::is_idle).

pub mod attributes;
mod message;
mod probe;
pub mod request;
pub mod requester;
pub mod responder;
pub mod target;
pub mod timers;
pub mod uc;
pub mod ud;

#[cfg(test)]
mod tests;
