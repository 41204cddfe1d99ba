//! Why a work request or a call has failed: the check, the side, and what was compared.

use std::fmt;

use serde::{Deserialize, Serialize};
use soft_hca_roce::wire::headers::rnr_delay;
use soft_hca_verbs::{AccessFlags, QpState, WcStatus};

use crate::text::duration;

/// Why a call fails that was to fail.
pub const ASKED_FOR: &str = "a fault that was asked for";

/// Whose memory or queue pair a check is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// Who has posted the send work request.
    Requester,
    /// The peer.
    Responder,
}

/// What memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Memory {
    /// The scatter/gather list of a send work request.
    Local,
    /// The scatter list of a receive.
    Receive,
    /// What an RDMA operation names by its remote address and rkey.
    Remote,
    /// The region that a window is to be bound to.
    Bound,
}

/// Why a work request is not executed, or has failed. In JSON an object whose `check` names the
/// check that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "check", rename_all = "snake_case")]
pub enum Reason {
    /// No region or window has this key: never registered, deregistered, or another process's
    /// number.
    Key {
        /// Whose memory.
        side: Side,
        /// What for.
        memory: Memory,
        /// The key.
        key: u32,
    },
    /// The region or window does not cover the access.
    Bounds {
        /// Whose memory.
        side: Side,
        /// What for.
        memory: Memory,
        /// The key.
        key: u32,
        /// First address of the access.
        address: u64,
        /// Its bytes.
        length: u64,
        /// First address of the region, as accesses name it.
        region_address: u64,
        /// The region's bytes.
        region_length: u64,
    },
    /// The region or window, or the responder's queue pair, does not allow the access.
    Access {
        /// Whose memory.
        side: Side,
        /// What for.
        memory: Memory,
        /// The key; none if it is the queue pair that does not allow it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<u32>,
        /// The access that is needed.
        needed: AccessFlags,
        /// The access that is allowed.
        allowed: AccessFlags,
    },
    /// The region belongs to another protection domain or process than the queue pair.
    ProtectionDomain {
        /// Whose memory.
        side: Side,
        /// What for.
        memory: Memory,
        /// The key.
        key: u32,
    },
    /// A window of type 2 is not bound, or is bound to another queue pair.
    Window {
        /// Whose memory.
        side: Side,
        /// The key.
        key: u32,
    },
    /// The memory is registered, but the process has unmapped it.
    Unmapped {
        /// Whose memory.
        side: Side,
        /// What for.
        memory: Memory,
    },
    /// The message is longer than the receive that it has met.
    ReceiveTooSmall {
        /// Bytes of the message.
        length: u64,
        /// Bytes of the receive.
        room: u64,
        /// Bytes of `length` that are the global route header (GRH) of a datagram.
        #[serde(default, skip_serializing_if = "is_zero")]
        grh: u64,
    },
    /// The message is longer than any may be, or than inline data may be.
    MessageTooLong {
        /// Bytes of the message.
        length: u64,
        /// What may be.
        limit: u64,
    },
    /// The address of an atomic operation is not a multiple of eight, or its length is not eight.
    Alignment {
        /// The address.
        address: u64,
    },
    /// The work request makes no sense.
    Malformed {
        /// Whose queue pair does not suit it; the requester's if it is not said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        side: Option<Side>,
        /// Why not.
        text: String,
    },
    /// The peer had no receive posted in all the time that the sender's retries allow.
    ReceiverNotReady {
        /// Nanoseconds for which the request has waited.
        waited: u64,
        /// The responder's `min_rnr_timer`.
        min_rnr_timer: u32,
        /// The requester's `rnr_retry`; 7 is for ever.
        rnr_retry: u32,
    },
    /// The peer did not answer in all the time that the sender's retries allow.
    NoResponse {
        /// Nanoseconds for which the request has waited.
        waited: u64,
        /// The requester's `timeout`: 4.096 us times two to the power of it; 0 is for ever.
        timeout: u32,
        /// The requester's `retry_cnt`.
        retry_cnt: u32,
        /// What soft-hca knows of the peer.
        peer: Peer,
    },
    /// A completion queue had no room.
    CqFull {
        /// Whose.
        side: Side,
        /// Its number in the fabric.
        cq: u32,
    },
    /// Not a failure of its own: the queue pair had failed, or was put into the error state,
    /// before the request's turn.
    Flushed,
    /// The peer on another host has refused it; which check failed is known there only.
    Refused {
        /// The completion's status that its answer leads to.
        status: WcStatus,
    },
    /// Nobody takes a datagram, which is lost without a word to its sender.
    NotTaken {
        /// Why not.
        why: Lost,
    },
    /// Nothing is wrong: it is put off to see whether somebody waits for it without a call.
    Held {
        /// Nanoseconds for which it is put off at least.
        duration: u64,
    },
    /// Another check.
    Other {
        /// Which, in a few words.
        text: String,
    },
}

/// Why a peer does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Peer {
    /// There is no such queue pair, any more or at all.
    Gone,
    /// It is connected to another queue pair, or to none.
    NotConnectedToUs {
        /// The queue pair that it is connected to, 0 for none.
        dest_qp: u32,
    },
    /// Its state does not let it receive.
    InState {
        /// `enum ibv_qp_state`.
        state: u32,
    },
    /// Its `rq_psn` is not the sender's `sq_psn`.
    OtherPsn {
        /// What it expects.
        expected: u32,
        /// What is sent.
        sent: u32,
    },
    /// It is on another host: nothing is known.
    Remote,
    /// Its process's memory cannot be reached any more.
    Unreachable,
    /// The path leads nowhere: nobody has the LID, or a port on it is down.
    NoPath,
    /// The two are of different partitions, or limited members of the same.
    OtherPartition {
        /// The sender's P_Key.
        own: u16,
        /// The peer's.
        its: u16,
    },
}

/// Why nobody takes a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Lost {
    /// There is no queue pair with the number.
    NoQueuePair {
        /// The queue pair that it is for.
        qp: u32,
    },
    /// The queue pair is none for datagrams.
    OtherType {
        /// The queue pair that it is for.
        qp: u32,
    },
    /// Its state does not let it receive.
    InState {
        /// The queue pair that it is for.
        qp: u32,
        /// `enum ibv_qp_state`.
        state: u32,
    },
    /// It has another Q_Key.
    QKey {
        /// The queue pair that it is for.
        qp: u32,
        /// The datagram's Q_Key.
        sent: u32,
        /// The queue pair's.
        its: u32,
    },
    /// The two are of different partitions, or limited members of the same.
    OtherPartition {
        /// The queue pair that it is for.
        qp: u32,
        /// The sender's P_Key.
        sent: u16,
        /// The queue pair's.
        its: u16,
    },
    /// It has no receive.
    NoReceive {
        /// The queue pair that it is for.
        qp: u32,
    },
    /// Nobody has the address.
    NoPath,
    /// It is lost by `--strict`.
    OnPurpose,
}

fn state_name(state: u32) -> &'static str {
    QpState(state).short_name().unwrap_or("an unknown one")
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A responder's `min_rnr_timer` in the unit of the specification's table (IBTA volume 1, table 46).
fn rnr_timer(code: u32) -> String {
    let micros = rnr_delay(code as u8).as_micros();
    format!("{}.{:02} ms", micros / 1000, micros % 1000 / 10)
}

impl Reason {
    /// The check that failed, in a few words without numbers.
    pub fn check(&self) -> &'static str {
        match self {
            Self::Key { .. } => "no region has the key",
            Self::Bounds { .. } => "the access is not within the region",
            Self::Access { key: Some(_), .. } => "the region does not allow the access",
            Self::Access { key: None, .. } => "the peer's queue pair does not allow the access",
            Self::ProtectionDomain { .. } => "the region is of another protection domain",
            Self::Window { .. } => "the window is not bound to this queue pair",
            Self::Unmapped { .. } => "the registered memory has been unmapped",
            Self::ReceiveTooSmall { .. } => "the message is longer than the receive",
            Self::MessageTooLong { .. } => "the message is too long",
            Self::Alignment { .. } => "the address is not a multiple of eight",
            Self::Malformed { .. } => "the work request makes no sense",
            Self::ReceiverNotReady { .. } => "the receiver has no receive posted",
            Self::NoResponse { .. } => "the peer does not answer",
            Self::CqFull { .. } => "the completion queue is full",
            Self::Flushed => "the queue pair is in the error state",
            Self::Refused { .. } => "the peer on another host has refused it",
            Self::NotTaken { .. } => "nobody takes the datagram",
            Self::Held { .. } => "soft-hca holds it back to see who waits for it",
            Self::Other { .. } => "another check has failed",
        }
    }
}

/// The check with the values that were compared.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.check())?;
        match self {
            Self::Key { key, .. }
            | Self::ProtectionDomain { key, .. }
            | Self::Window { key, .. } => write!(f, ": key {key:#x}"),
            Self::Bounds { key, address, length, region_address, region_length, .. } => {
                let end = address.wrapping_add(*length);
                let region_end = region_address.wrapping_add(*region_length);
                write!(
                    f,
                    ": {address:#x} to {end:#x} ({length} bytes), and the region of key {key:#x} \
                     is {region_address:#x} to {region_end:#x} ({region_length} bytes)"
                )
            }
            Self::Access { needed, allowed, .. } => {
                write!(f, ": {needed} is needed, {allowed} is allowed")
            }
            Self::ReceiveTooSmall { length, room, grh: 0 } => {
                write!(f, ": {length} bytes, room for {room}")
            }
            Self::ReceiveTooSmall { length, room, grh } => {
                let message = length.saturating_sub(*grh);
                write!(f, ": {grh} bytes of GRH and {message} of message, room for {room}")
            }
            Self::MessageTooLong { length, limit } => write!(f, ": {length} bytes, limit {limit}"),
            Self::Alignment { address } => write!(f, ": {address:#x}"),
            Self::Malformed { text, .. } | Self::Other { text } => write!(f, ": {text}"),
            Self::Refused { status } => write!(f, ", and its answer means {status}"),
            Self::ReceiverNotReady { waited, min_rnr_timer, rnr_retry } => {
                if *waited > 0 {
                    write!(f, " for {}", duration(*waited))?;
                }
                let retry = if *rnr_retry == 7 { ", for ever" } else { "" };
                let means = if *min_rnr_timer == 0 { "which is the longest: " } else { "" };
                let delay = rnr_timer(*min_rnr_timer);
                write!(
                    f,
                    " (rnr_retry {rnr_retry}{retry}; the receiver's min_rnr_timer {min_rnr_timer}, \
                     {means}{delay})"
                )
            }
            Self::NoResponse { waited, timeout, retry_cnt, peer } => {
                if *waited > 0 {
                    write!(f, " for {}", duration(*waited))?;
                }
                write!(f, " (timeout {timeout}, retry_cnt {retry_cnt}): ")?;
                peer.fmt(f)
            }
            Self::CqFull { cq, .. } => write!(f, ": cq {cq}"),
            Self::NotTaken { why } => write!(f, ": {why}"),
            Self::Held { duration: ns } => write!(f, ", for {}", duration(*ns)),
            Self::Unmapped { .. } | Self::Flushed => Ok(()),
        }
    }
}

/// Why it does not answer.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("its queue pair does not exist"),
            Self::NotConnectedToUs { dest_qp: 0 } => f.write_str("it is connected to nobody"),
            Self::NotConnectedToUs { dest_qp } => {
                write!(f, "it is connected to another queue pair, {dest_qp}")
            }
            Self::InState { state } => {
                write!(f, "it is in state {}", state_name(*state))
            }
            Self::OtherPsn { expected, sent } => {
                write!(f, "it expects packet {expected}, and {sent} is sent (rq_psn and sq_psn)")
            }
            Self::Remote => f.write_str("it is on another host"),
            Self::Unreachable => f.write_str("its memory cannot be reached"),
            Self::NoPath => f.write_str("a port on the path is down, or nobody has its LID"),
            Self::OtherPartition { own, its } if own & 0x7fff == its & 0x7fff => {
                write!(f, "both are limited members of their partition (P_Key {own:#06x})")
            }
            Self::OtherPartition { own, its } => {
                write!(f, "it is in another partition (P_Key {its:#06x}, and {own:#06x} is sent)")
            }
        }
    }
}

/// Why nobody takes it.
impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoQueuePair { qp } => write!(f, "no queue pair has the number {qp}"),
            Self::OtherType { qp } => write!(f, "qp {qp} is none for datagrams (IBV_QPT_UD)"),
            Self::InState { qp, state } => write!(f, "qp {qp} is in state {}", state_name(*state)),
            Self::QKey { qp, sent, its } => {
                write!(f, "qp {qp} has another Q_Key, {its:#x}, and {sent:#x} is sent")
            }
            Self::OtherPartition { qp, sent, its } => write!(
                f,
                "qp {qp} is in another partition, or both are limited members of it (P_Key \
                 {its:#06x}, and {sent:#06x} is sent)"
            ),
            Self::NoReceive { qp } => write!(f, "qp {qp} has no receive posted"),
            Self::NoPath => f.write_str("nobody has the address"),
            Self::OnPurpose => f.write_str("--strict loses some datagrams"),
        }
    }
}
