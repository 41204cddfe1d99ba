//! Why a work request waits or has failed: the check, and the values that it has compared.
//!
//! A cause is the same for the engine that finds it, for the trace and for the record. JSON has it as
//! an object whose `check` names the check, and formats that are not for humans as the variant's number
//! and its values.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{AccessFlags, QpState, WcStatus};

/// Defines an enumeration that JSON has as an object with the variant's name in a member, and formats
/// without names as the variant's number.
macro_rules! tagged {
    ($(#[$doc:meta])* pub enum $name:ident by $tag:literal { $($variants:tt)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($variants)* }

        const _: () = {
            type Remote = $name;

            #[derive(Serialize, Deserialize)]
            #[serde(remote = "Remote", tag = $tag, rename_all = "snake_case")]
            enum Named { $($variants)* }

            #[derive(Serialize, Deserialize)]
            #[serde(remote = "Remote")]
            enum Numbered { $($variants)* }

            impl Serialize for $name {
                fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    match serializer.is_human_readable() {
                        true => Named::serialize(self, serializer),
                        false => Numbered::serialize(self, serializer),
                    }
                }
            }

            impl<'de> Deserialize<'de> for $name {
                fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    match deserializer.is_human_readable() {
                        true => Named::deserialize(deserializer),
                        false => Numbered::deserialize(deserializer),
                    }
                }
            }
        };
    };
}

/// One of the two ends of a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The one that has posted the send work request.
    Requester,
    /// The peer.
    Responder,
}

/// The role of memory in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryRole {
    /// The scatter/gather list of a send work request.
    Local,
    /// The scatter list of a receive.
    Receive,
    /// Memory that an RDMA operation names by its remote address and rkey.
    Remote,
    /// The region that a window is to be bound to.
    Bound,
}

impl MemoryRole {
    /// The side whose memory it is.
    pub const fn side(self) -> Side {
        match self {
            Self::Local | Self::Bound => Side::Requester,
            Self::Receive | Self::Remote => Side::Responder,
        }
    }
}

tagged! {
    /// The check that has failed, with what it has compared.
    pub enum Cause by "check" {
        /// No region or window has this key: never registered, deregistered, or another process's
        /// number.
        Key {
            /// The memory's role.
            memory: MemoryRole,
            /// The lkey or rkey that was given.
            key: u32,
        },
        /// The region or window does not cover the access.
        Bounds {
            /// The memory's role.
            memory: MemoryRole,
            /// The region's lkey or rkey.
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
        /// The region or window does not allow the access.
        Access {
            /// The memory's role.
            memory: MemoryRole,
            /// The region's lkey or rkey.
            key: u32,
            /// The access that is needed.
            needed: AccessFlags,
            /// The access that is allowed.
            allowed: AccessFlags,
        },
        /// The responder's queue pair does not allow the access.
        QpAccess {
            /// The access that is needed.
            needed: AccessFlags,
            /// The access that is allowed.
            allowed: AccessFlags,
        },
        /// The region belongs to another protection domain or process than the queue pair.
        ProtectionDomain {
            /// The memory's role.
            memory: MemoryRole,
            /// The region's lkey or rkey.
            key: u32,
        },
        /// A window of type 2 is not bound, or is bound to another queue pair.
        Window {
            /// The memory's role.
            memory: MemoryRole,
            /// The window's rkey.
            key: u32,
        },
        /// The memory is registered, but the process has unmapped it.
        Unmapped {
            /// The memory's role.
            memory: MemoryRole,
        },
        /// The message is longer than the receive that it has met.
        ReceiveTooSmall {
            /// Bytes of the message.
            length: u64,
            /// Bytes of the receive.
            room: u64,
            /// Bytes of `length` that are the global route header (GRH) of a datagram.
            grh: u64,
        },
        /// The message is longer than any may be, or than inline data may be.
        MessageTooLong {
            /// Bytes of the message.
            length: u64,
            /// The most that it may have.
            limit: u64,
        },
        /// The address of an atomic operation is not a multiple of eight, or its length is not eight.
        Alignment {
            /// The address.
            address: u64,
        },
        /// The work request makes no sense.
        Malformed {
            /// Its defect.
            why: Malformed,
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
            /// The peer, as far as it is known.
            peer: Peer,
        },
        /// A completion queue had no room.
        CqFull {
            /// The side that has the queue.
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
    }
}

/// The defect of a work request, or of a queue pair's attributes, which do not allow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Malformed {
    /// No more is known.
    Unknown,
    /// Its opcode is none of this type of queue pair.
    Opcode,
    /// It has more SGEs than the queue pair's `max_send_sge`.
    MaxSendSge,
    /// A receive has more SGEs than its queue's `max_recv_sge`.
    MaxRecvSge,
    /// It is an RDMA read or atomic operation, and `max_rd_atomic` is 0.
    MaxRdAtomic,
    /// It is an RDMA read or atomic operation, and the peer's `max_dest_rd_atomic` is 0.
    MaxDestRdAtomic,
    /// Its address handle is none of the queue pair's protection domain.
    AddressHandle,
    /// A bind of what is no window of the queue pair's protection domain.
    Window,
    /// A window of type 2 is bound already, or is to be bound to nothing.
    WindowBound,
    /// A window of type 1, or of a zero-based region, that is to be zero-based.
    WindowBase,
    /// A flush that guarantees nothing, or what is not known.
    Placement,
}

impl Malformed {
    /// The side whose work request or queue pair it is about.
    pub const fn side(self) -> Side {
        match self {
            Self::MaxRecvSge | Self::MaxDestRdAtomic => Side::Responder,
            _ => Side::Requester,
        }
    }
}

tagged! {
    /// A peer that does not answer, as far as it is known.
    pub enum Peer by "is" {
        /// There is no such queue pair, any more or at all.
        Gone,
        /// It is connected to another queue pair, or to none.
        NotConnectedToUs {
            /// The queue pair that it is connected to, 0 for none.
            dest_qp: u32,
        },
        /// Its state does not let it receive.
        InState {
            /// The state.
            state: QpState,
        },
        /// Its `rq_psn` is not the sender's `sq_psn`.
        OtherPsn {
            /// The packet sequence number that it expects.
            expected: u32,
            /// The one that is sent.
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
}

tagged! {
    /// Why nobody takes a datagram.
    pub enum Lost by "is" {
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
            /// The state.
            state: QpState,
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
}

impl Cause {
    /// The role of the memory that the check is about, if it is about memory.
    pub const fn memory(&self) -> Option<MemoryRole> {
        match *self {
            Self::Key { memory, .. }
            | Self::Bounds { memory, .. }
            | Self::Access { memory, .. }
            | Self::ProtectionDomain { memory, .. }
            | Self::Window { memory, .. }
            | Self::Unmapped { memory } => Some(memory),
            _ => None,
        }
    }

    /// The side whose memory, queue or queue pair does not suit; none if no check has failed.
    pub const fn side(&self) -> Option<Side> {
        if let Some(memory) = self.memory() {
            return Some(memory.side());
        }
        match *self {
            Self::CqFull { side, .. } => Some(side),
            Self::Malformed { why } => Some(why.side()),
            Self::MessageTooLong { .. } => Some(Side::Requester),
            Self::Flushed | Self::Held { .. } => None,
            _ => Some(Side::Responder),
        }
    }
}
