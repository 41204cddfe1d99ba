//! The transport of RoCE v2's connected queue pairs as a state machine: packets and work requests
//! in; packets, completions and effects on memory out; and the time at which to be called again.
//! Times are nanoseconds of any clock that does not go back.
//!
//! ```text
//!   requester                                                     responder
//!
//!   SendQueue::next_request
//!   SendQueue::gather ──── send or write ────────────────────────> Target::consume_receive, scatter
//!                     ──── ... the last packet has AckReq ───────> or check, write; complete
//!   SendQueue::complete <───────── ACK ─────────────────────────── Target::complete
//!
//!                     ──── read request ─────────────────────────> Target::check
//!   SendQueue::scatter <────────── read responses ──────────────── Target::read
//!   SendQueue::complete <───────── ... the last one
//!
//!                     ──── send ──────────────── lost
//!                     ──── send ─────────────────────────────────> not the expected PSN
//!                      <────────── NAK, PSN sequence error ─────── once
//!                     ──── both are retransmitted ───────────────> Target::...
//! ```
//!
//! A [`QueuePair`](queue_pair::QueuePair) is both of them. It holds no payload: a packet names a
//! range of its work request, or of memory that the peer reads, and the bytes are copied when the
//! packet is built in the [`PacketSender`](packet_sender::PacketSender)'s buffer. Whatever the caller is asked for he may
//! refuse as [busy](packet_sender::Busy), and then it is as if a packet had been lost, or it is asked for
//! again later. All that is kept is bounded: requests in flight by a window, responses and requests
//! that are kept for duplicates by `max_dest_rd_atomic`.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`queue_pair`] | what a caller has: [`queue_pair::QueuePair`] |
//! | [`attributes`] | of a connection: MTU, PSNs, timers, depths |
//! | [`packet_sender`] | where packets leave: [`packet_sender::PacketSender`] |
//! | [`request`] | work requests, segmented into packets, and whose they are: [`request::SendQueue`] |
//! | [`target`] | receives, and memory that the peer uses: [`target::Target`] |
//! | `requester`, `responder` | the two halves of a reliable connection |
//! | `resource` | requests that are kept for their duplicates |
//! | `uc` | those of an unreliable connection |
//! | [`timers`] | codes of times |
//! | `window`, `probe` | how many packets may be under way, and one that is sent again early |
//! | [`snapshot`] | a queue pair as bytes, so that another process goes on with it |
//! | [`events`] | what is counted of losses and retries |
//!
//! Addresses, the ICRC and the partition of a packet were checked before. Local operations (binding a
//! window, invalidating a key) are not seen here: the caller does them when no request is in flight.

pub mod attributes;
mod error_state;
pub mod events;
mod message;
pub mod packet_sender;
mod probe;
pub mod queue_pair;
pub mod request;
pub(crate) mod requester;
mod resource;
pub(crate) mod responder;
pub mod snapshot;
pub mod target;
pub mod timers;
pub(crate) mod uc;
mod window;

#[cfg(test)]
mod tests;
