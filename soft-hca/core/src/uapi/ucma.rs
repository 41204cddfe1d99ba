//! The ABI of `/dev/infiniband/rdma_cm`, version 4: numbers, requests, answers and events of the
//! kernel's `rdma_user_cm.h`.
//!
//! [`mod@abi`] has the structures as they lie in memory; beside it are requests, answers and events
//! as values. A request is decoded from a command's payload, which is what follows its header. One
//! that is too short is refused with `EINVAL`; every other byte string decodes to something, and
//! whether it makes sense is the connection manager's business. Answers and events are built whole,
//! so that nothing uninitialised reaches the program.

pub mod abi;
mod address;
mod answer;
mod event;
mod request;

use crate::errno::{Errno, Refusal, Result};
use abi::{CmdHdr, Request};
use zerocopy::FromBytes;

pub use abi::Ece;
pub use address::{IbAddress, Sockaddr};
pub use answer::{
    AddressAnswer, PathRecord, QP_ATTR, QUERY_ADDR_MIN, QUERY_PATH_MIN, QUERY_ROUTE_MIN, QpAttr,
    RouteAnswer, path_answer,
};
pub use event::{AhAttr, EVENT, Event, GET_EVENT_MIN, Param, UdParam};
pub use request::{
    Accept, Bind, ConnParam, Connect, CreateId, InitQpAttr, JoinMcast, Listen, MigrateId, Notify,
    Query, Reject, ResolveAddr, ResolveRoute, SetOption, Target, WriteEvent, disconnect_id,
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

pub use soft_hca_verbs::CmEvent;
pub use soft_hca_verbs::numbers::cm_event as event_type;

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

/// Options of QUERY.
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

/// A command, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command<'a> {
    /// One of [`command`].
    pub number: u32,
    /// Bytes of the payload that the header speaks of.
    pub in_len: usize,
    /// Bytes of room for the answer.
    pub out_len: usize,
    /// All that is behind the header.
    pub payload: &'a [u8],
}

impl<'a> Command<'a> {
    /// Takes apart what was written; `EINVAL` if it has no header.
    pub fn parse(written: &'a [u8]) -> Result<Self> {
        const TOO_SHORT: Errno = Errno::EINVAL.because(Refusal::ShortHeader);
        let (header, payload) = CmdHdr::read_from_prefix(written).map_err(|_| TOO_SHORT)?;
        let (in_len, out_len) = (header.r#in.into(), header.out.into());
        Ok(Self { number: header.cmd, in_len, out_len, payload })
    }

    /// Where in the program the answer is to be written, if there is one; `EINVAL` if the command
    /// is too short to say.
    pub fn response(&self) -> Result<Option<u64>> {
        let payload = self.payload;
        Ok(Some(match self.number {
            command::CREATE_ID => abi::CreateId::read(payload)?.response,
            command::DESTROY_ID | command::QUERY_ROUTE | command::LEAVE_MCAST => {
                abi::DestroyId::read(payload)?.response
            }
            command::INIT_QP_ATTR => abi::InitQpAttr::read(payload)?.response,
            command::GET_EVENT => abi::GetEvent::read(payload)?.response,
            command::JOIN_IP_MCAST => abi::JoinIpMcast::read(payload)?.response,
            command::MIGRATE_ID => abi::MigrateId::read(payload)?.response,
            command::QUERY => abi::Query::read(payload)?.response,
            command::JOIN_MCAST => abi::JoinMcast::read(payload)?.response,
            _ => return Ok(None),
        }))
    }
}

/// The Q key of all datagram queue pairs in the UDP port space.
pub const UDP_QKEY: u32 = 0x0123_4567;
