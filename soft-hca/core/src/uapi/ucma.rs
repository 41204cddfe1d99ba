//! The ABI of `/dev/infiniband/rdma_cm`, version 4: numbers, requests, answers and events of the
//! kernel's `rdma_user_cm.h`.
//!
//! A request is decoded from a command's payload, which is what follows the 8-byte header. One
//! that is too short is refused with `EINVAL`; every other byte string decodes to something, and
//! whether it makes sense is the connection manager's business. Answers and events are built
//! whole, so that nothing uninitialised reaches the program.

mod address;
mod answer;
mod event;
mod request;

use crate::errno::Errno;

pub use address::{IbAddress, SOCKADDR_IN6, SOCKADDR_STORAGE, Sockaddr};
pub use answer::{
    AddressAnswer, PathRecord, QP_ATTR, QUERY_ADDR_MIN, QUERY_PATH_MIN, QUERY_ROUTE_MIN, QpAttr,
    RouteAnswer, path_answer,
};
pub use event::{AhAttr, EVENT, Ece, Event, GET_EVENT_MIN, Param, UdParam};
pub use request::{
    Accept, Bind, CONN_PARAM, ConnParam, Connect, CreateId, InitQpAttr, JoinMcast, Listen,
    MigrateId, Notify, PRIVATE_DATA, Query, Reject, ResolveAddr, ResolveRoute, SetOption, Target,
    WriteEvent, disconnect_id,
};

/// Command numbers (`RDMA_USER_CM_CMD_*`).
pub mod command {
    named_numbers!("RDMA_USER_CM_CMD_":
        CREATE_ID = 0,
        DESTROY_ID = 1,
        BIND_IP = 2,
        RESOLVE_IP = 3,
        RESOLVE_ROUTE = 4,
        QUERY_ROUTE = 5,
        CONNECT = 6,
        LISTEN = 7,
        ACCEPT = 8,
        REJECT = 9,
        DISCONNECT = 10,
        INIT_QP_ATTR = 11,
        GET_EVENT = 12,
        GET_OPTION = 13,
        SET_OPTION = 14,
        NOTIFY = 15,
        JOIN_IP_MCAST = 16,
        LEAVE_MCAST = 17,
        MIGRATE_ID = 18,
        QUERY = 19,
        BIND = 20,
        RESOLVE_ADDR = 21,
        JOIN_MCAST = 22,
        RESOLVE_IB_SERVICE = 23,
        WRITE_CM_EVENT = 24,
    );
}

/// Event types (`RDMA_CM_EVENT_*`).
pub mod event_type {
    named_numbers!("RDMA_CM_EVENT_":
        ADDR_RESOLVED = 0,
        ADDR_ERROR = 1,
        ROUTE_RESOLVED = 2,
        ROUTE_ERROR = 3,
        CONNECT_REQUEST = 4,
        CONNECT_RESPONSE = 5,
        CONNECT_ERROR = 6,
        UNREACHABLE = 7,
        REJECTED = 8,
        ESTABLISHED = 9,
        DISCONNECTED = 10,
        DEVICE_REMOVAL = 11,
        MULTICAST_JOIN = 12,
        MULTICAST_ERROR = 13,
        ADDR_CHANGE = 14,
        TIMEWAIT_EXIT = 15,
        USER = 18,
        INTERNAL = 19,
    );
}

/// Port spaces (`RDMA_PS_*`).
pub mod port_space {
    /// `RDMA_PS_IPOIB`
    pub const IPOIB: u16 = 0x0002;
    /// `RDMA_PS_TCP`
    pub const TCP: u16 = 0x0106;
    /// `RDMA_PS_UDP`
    pub const UDP: u16 = 0x0111;
    /// `RDMA_PS_IB`
    pub const IB: u16 = 0x013f;
}

/// What QUERY can be asked for.
pub mod query {
    /// Addresses as they were given.
    pub const ADDR: u32 = 0;
    /// Path records.
    pub const PATH: u32 = 1;
    /// Addresses as GIDs.
    pub const GID: u32 = 2;
}

/// SET_OPTION's levels and names.
pub mod option {
    /// Level of the options that belong to an id.
    pub const LEVEL_ID: u32 = 0;
    /// Level of the options that belong to the transport.
    pub const LEVEL_IB: u32 = 1;
    /// Type of service, one byte.
    pub const ID_TOS: u32 = 0;
    /// Share the port with other ids that want it, an `int`.
    pub const ID_REUSEADDR: u32 = 1;
    /// An IPv6 wildcard means IPv6 only, an `int`.
    pub const ID_AFONLY: u32 = 2;
    /// The queue pair's acknowledgement timeout, one byte.
    pub const ID_ACK_TIMEOUT: u32 = 3;
    /// Path records made elsewhere.
    pub const IB_PATH: u32 = 1;
}

/// The Q key of all datagram queue pairs in the UDP port space.
pub const UDP_QKEY: u32 = 0x0123_4567;

pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> crate::errno::Result<[u8; N]> {
    const TOO_SHORT: Errno = Errno::EINVAL.because("the command is too short for its request");
    bytes.get(at..).and_then(<[u8]>::first_chunk).copied().ok_or(TOO_SHORT)
}

fn u8_at(bytes: &[u8], at: usize) -> crate::errno::Result<u8> {
    array::<1>(bytes, at).map(|[byte]| byte)
}

fn u16_at(bytes: &[u8], at: usize) -> crate::errno::Result<u16> {
    array(bytes, at).map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> crate::errno::Result<u32> {
    array(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> crate::errno::Result<u64> {
    array(bytes, at).map(u64::from_le_bytes)
}

/// Puts bytes where the caller knows them to fit.
fn put(to: &mut [u8], at: usize, bytes: &[u8]) {
    to[at..at + bytes.len()].copy_from_slice(bytes);
}
