//! Why a work request waits or has failed, in words.

use soft_hca_core::engine::cause::{self, Cause, MalformedWqe, MemorySide};
use soft_hca_record::reason::{Lost, Memory, Peer, Reason, Side};
use soft_hca_verbs::{AccessFlags, WcStatus};

/// The reason behind an event, if there is one.
pub(super) fn reason(bytes: &[u8]) -> Option<Reason> {
    let memory = |side| match side {
        MemorySide::Local => (Side::Requester, Memory::Local),
        MemorySide::Receive => (Side::Responder, Memory::Receive),
        MemorySide::Remote => (Side::Responder, Memory::Remote),
        MemorySide::Bound => (Side::Requester, Memory::Bound),
    };
    Some(match Cause::decode(bytes)? {
        Cause::Key { side, key } => {
            let (side, memory) = memory(side);
            Reason::Key { side, memory, key }
        }
        Cause::Bounds { side, key, access, region } => {
            let (side, memory) = memory(side);
            let ((address, length), (region_address, region_length)) = (access, region);
            Reason::Bounds { side, memory, key, address, length, region_address, region_length }
        }
        Cause::Access { side, key, needed, allowed } => {
            let (side, memory) = memory(side);
            let key = Some(key).filter(|key| *key != 0);
            let (needed, allowed) =
                (AccessFlags::from_bits_retain(needed), AccessFlags::from_bits_retain(allowed));
            Reason::Access { side, memory, key, needed, allowed }
        }
        Cause::Domain { side, key } => {
            let (side, memory) = memory(side);
            Reason::ProtectionDomain { side, memory, key }
        }
        Cause::Window { side, key } => Reason::Window { side: memory(side).0, key },
        Cause::Unmapped { side } => {
            let (side, memory) = memory(side);
            Reason::Unmapped { side, memory }
        }
        Cause::Small { length, room, grh } => Reason::ReceiveTooSmall { length, room, grh },
        Cause::Long { length, limit } => Reason::MessageTooLong { length, limit },
        Cause::Alignment { address } => Reason::Alignment { address },
        Cause::Malformed(why) => {
            let is_peers =
                matches!(why, MalformedWqe::ReceiveElements | MalformedWqe::NoReadsServed);
            let side = is_peers.then_some(Side::Responder);
            Reason::Malformed { side, text: malformed(why).into() }
        }
        Cause::NotReady { waited, timer: min_rnr_timer, retries: rnr_retry } => {
            Reason::ReceiverNotReady { waited, min_rnr_timer, rnr_retry }
        }
        Cause::NoResponse { waited, timeout, retries: retry_cnt, peer } => {
            let peer = match peer {
                cause::Peer::Gone => Peer::Gone,
                cause::Peer::Elsewhere(dest_qp) => Peer::NotConnectedToUs { dest_qp },
                cause::Peer::State(state) => Peer::InState { state },
                cause::Peer::Psn(expected, sent) => Peer::OtherPsn { expected, sent },
                cause::Peer::Remote => Peer::Remote,
                cause::Peer::Unreachable => Peer::Unreachable,
                cause::Peer::NoPath => Peer::NoPath,
                cause::Peer::Partition(own, its) => {
                    Peer::OtherPartition { own: own as u16, its: its as u16 }
                }
            };
            Reason::NoResponse { waited, timeout, retry_cnt, peer }
        }
        Cause::CqFull { is_requester, cq } => {
            let side = if is_requester { Side::Requester } else { Side::Responder };
            Reason::CqFull { side, cq }
        }
        Cause::Flushed => Reason::Flushed,
        Cause::Lost(why) => Reason::NotTaken {
            why: match why {
                cause::Lost::NoQueuePair(qp) => Lost::NoQueuePair { qp },
                cause::Lost::OtherType(qp) => Lost::OtherType { qp },
                cause::Lost::State(qp, state) => Lost::InState { qp, state },
                cause::Lost::QKey(qp, sent, its) => Lost::QKey { qp, sent, its },
                cause::Lost::Partition(qp, sent, its) => {
                    Lost::OtherPartition { qp, sent: sent as u16, its: its as u16 }
                }
                cause::Lost::NoReceive(qp) => Lost::NoReceive { qp },
                cause::Lost::NoPath => Lost::NoPath,
                cause::Lost::OnPurpose => Lost::OnPurpose,
            },
        },
        Cause::Refused { status } => Reason::Refused { status: WcStatus(status) },
        Cause::Held { duration } => Reason::Held { duration },
    })
}

fn malformed(why: MalformedWqe) -> &'static str {
    match why {
        MalformedWqe::Any => "the work request makes no sense",
        MalformedWqe::Opcode => "the queue pair's type has no such operation, or not on this key",
        MalformedWqe::Elements => "the work request has more elements than max_send_sge",
        MalformedWqe::NoReads => "the queue pair's max_rd_atomic is 0",
        MalformedWqe::AddressHandle => "the address handle is none of the protection domain's",
        MalformedWqe::ReceiveElements => "the receive has more elements than max_recv_sge",
        MalformedWqe::NoReadsServed => "the peer's max_dest_rd_atomic is 0",
        MalformedWqe::NoWindow => "the protection domain has no such window",
        MalformedWqe::WindowBound => {
            "a window of type 2 that is bound already, or to be bound to nothing"
        }
        MalformedWqe::WindowBase => "the window or its region is zero-based",
        MalformedWqe::Placement => "the flush guarantees nothing, or what is not known",
    }
}
