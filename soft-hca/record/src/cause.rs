//! Why a work request waits or has failed, in English.

use soft_hca_roce::wire::headers::rnr_delay;
use soft_hca_verbs::QpState;
use soft_hca_verbs::cause::{Cause, Lost, Malformed, Peer};

use crate::time::duration;

/// The check that failed, in a few words without numbers.
pub fn check(cause: &Cause) -> &'static str {
    match cause {
        Cause::Key { .. } => "no region has the key",
        Cause::Bounds { .. } => "the access is not within the region",
        Cause::Access { .. } => "the region does not allow the access",
        Cause::QpAccess { .. } => "the peer's queue pair does not allow the access",
        Cause::ProtectionDomain { .. } => "the region is of another protection domain",
        Cause::Window { .. } => "the window is not bound to this queue pair",
        Cause::Unmapped { .. } => "the registered memory has been unmapped",
        Cause::ReceiveTooSmall { .. } => "the message is longer than the receive",
        Cause::MessageTooLong { .. } => "the message is too long",
        Cause::Alignment { .. } => "the address is not a multiple of eight",
        Cause::Malformed { .. } => "the work request makes no sense",
        Cause::ReceiverNotReady { .. } => "the receiver has no receive posted",
        Cause::NoResponse { .. } => "the peer does not answer",
        Cause::CqFull { .. } => "the completion queue is full",
        Cause::Flushed => "the queue pair is in the error state",
        Cause::Refused { .. } => "the peer on another host has refused it",
        Cause::NotTaken { .. } => "nobody takes the datagram",
        Cause::Held { .. } => "soft-hca holds it back to see who waits for it",
    }
}

/// The check with the values that were compared.
pub fn sentence(cause: &Cause) -> String {
    format!("{}{}", check(cause), values(cause))
}

/// The values that were compared, as they stand behind the check.
fn values(cause: &Cause) -> String {
    match cause {
        Cause::Key { key, .. }
        | Cause::ProtectionDomain { key, .. }
        | Cause::Window { key, .. } => {
            format!(": key {key:#x}")
        }
        Cause::Bounds { key, address, length, region_address, region_length, .. } => {
            let end = address.wrapping_add(*length);
            let region_end = region_address.wrapping_add(*region_length);
            format!(
                ": {address:#x} to {end:#x} ({length} bytes), and the region of key {key:#x} is \
                 {region_address:#x} to {region_end:#x} ({region_length} bytes)"
            )
        }
        Cause::Access { needed, allowed, .. } | Cause::QpAccess { needed, allowed } => {
            format!(": {needed} is needed, {allowed} is allowed")
        }
        Cause::ReceiveTooSmall { length, room, grh: 0 } => {
            format!(": {length} bytes, room for {room}")
        }
        Cause::ReceiveTooSmall { length, room, grh } => {
            let message = length.saturating_sub(*grh);
            format!(": {grh} bytes of GRH and {message} of message, room for {room}")
        }
        Cause::MessageTooLong { length, limit } => format!(": {length} bytes, limit {limit}"),
        Cause::Alignment { address } => format!(": {address:#x}"),
        Cause::Malformed { why } => format!(": {}", malformed(*why)),
        Cause::Refused { status } => format!(", and its answer means {status}"),
        Cause::ReceiverNotReady { waited, min_rnr_timer, rnr_retry } => {
            let retry = if *rnr_retry == 7 { ", for ever" } else { "" };
            let means = if *min_rnr_timer == 0 { "which is the longest: " } else { "" };
            let delay = rnr_timer(*min_rnr_timer);
            format!(
                "{} (rnr_retry {rnr_retry}{retry}; the receiver's min_rnr_timer {min_rnr_timer}, \
                 {means}{delay})",
                for_how_long(*waited)
            )
        }
        Cause::NoResponse { waited, timeout, retry_cnt, peer } => format!(
            "{} (timeout {timeout}, retry_cnt {retry_cnt}): {}",
            for_how_long(*waited),
            silent(peer)
        ),
        Cause::CqFull { cq, .. } => format!(": cq {cq}"),
        Cause::NotTaken { why } => format!(": {}", lost(why)),
        Cause::Held { duration: ns } => format!(", for {}", duration(*ns)),
        Cause::Unmapped { .. } | Cause::Flushed => String::new(),
    }
}

fn for_how_long(waited: u64) -> String {
    if waited > 0 { format!(" for {}", duration(waited)) } else { String::new() }
}

/// A responder's `min_rnr_timer` in the unit of the specification's table (IBTA volume 1, table 46).
fn rnr_timer(code: u32) -> String {
    let micros = rnr_delay(code as u8).as_micros();
    format!("{}.{:02} ms", micros / 1000, micros % 1000 / 10)
}

fn state_name(state: QpState) -> &'static str {
    state.short_name().unwrap_or("an unknown one")
}

/// The defect of a work request.
fn malformed(why: Malformed) -> &'static str {
    match why {
        Malformed::Unknown => "no more is known",
        Malformed::Opcode => "the queue pair's type has no such operation, or not on this key",
        Malformed::MaxSendSge => "the work request has more SGEs than max_send_sge",
        Malformed::MaxRecvSge => "the receive has more SGEs than max_recv_sge",
        Malformed::MaxRdAtomic => "the queue pair's max_rd_atomic is 0",
        Malformed::MaxDestRdAtomic => "the peer's max_dest_rd_atomic is 0",
        Malformed::AddressHandle => "the address handle is none of the protection domain's",
        Malformed::Window => "the protection domain has no such window",
        Malformed::WindowBound => {
            "a window of type 2 that is bound already, or to be bound to nothing"
        }
        Malformed::WindowBase => "the window or its region is zero-based",
        Malformed::Placement => "the flush guarantees nothing, or what is not known",
    }
}

/// Why a peer does not answer.
fn silent(peer: &Peer) -> String {
    match peer {
        Peer::Gone => "its queue pair does not exist".into(),
        Peer::NotConnectedToUs { dest_qp: 0 } => "it is connected to nobody".into(),
        Peer::NotConnectedToUs { dest_qp } => {
            format!("it is connected to another queue pair, {dest_qp}")
        }
        Peer::InState { state } => format!("it is in state {}", state_name(*state)),
        Peer::OtherPsn { expected, sent } => {
            format!("it expects packet {expected}, and {sent} is sent (rq_psn and sq_psn)")
        }
        Peer::Remote => "it is on another host".into(),
        Peer::Unreachable => "its memory cannot be reached".into(),
        Peer::NoPath => "a port on the path is down, or nobody has its LID".into(),
        Peer::OtherPartition { own, its } if own & 0x7fff == its & 0x7fff => {
            format!("both are limited members of their partition (P_Key {own:#06x})")
        }
        Peer::OtherPartition { own, its } => {
            format!("it is in another partition (P_Key {its:#06x}, and {own:#06x} is sent)")
        }
    }
}

/// Why nobody takes a datagram.
fn lost(why: &Lost) -> String {
    match why {
        Lost::NoQueuePair { qp } => format!("no queue pair has the number {qp}"),
        Lost::OtherType { qp } => format!("qp {qp} is none for datagrams (IBV_QPT_UD)"),
        Lost::InState { qp, state } => format!("qp {qp} is in state {}", state_name(*state)),
        Lost::QKey { qp, sent, its } => {
            format!("qp {qp} has another Q_Key, {its:#x}, and {sent:#x} is sent")
        }
        Lost::OtherPartition { qp, sent, its } => format!(
            "qp {qp} is in another partition, or both are limited members of it (P_Key {its:#06x}, and \
             {sent:#06x} is sent)"
        ),
        Lost::NoReceive { qp } => format!("qp {qp} has no receive posted"),
        Lost::NoPath => "nobody has the address".into(),
        Lost::OnPurpose => "--strict loses some datagrams".into(),
    }
}
