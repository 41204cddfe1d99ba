//! Fields of commands, answers and events, by the header's names. [`Request::read`] reads a
//! command.
#![allow(missing_docs, reason = "the names are the headers'")]

use std::mem::offset_of;

use zerocopy::byteorder::big_endian;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::errno::Result;
use crate::uapi::read_request;
use crate::uapi::uverbs::request::AhAttr;

/// Room for private data in connection parameters and rejections.
pub const PRIVATE_DATA: usize = 256;
/// Bytes of a `sockaddr_storage`.
pub const SOCKADDR_STORAGE: usize = 128;

/// Room for something that does not always fill it; the rest is zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(transparent)]
pub struct Room<const N: usize>(pub [u8; N]);

impl<const N: usize> Default for Room<N> {
    fn default() -> Self {
        Self([0; N])
    }
}

impl<const N: usize> Room<N> {
    /// Of some data, of which there may be too many: these are cut.
    pub fn of(data: &[u8]) -> Self {
        let mut room = Self::default();
        let length = data.len().min(N);
        room.0[..length].copy_from_slice(&data[..length]);
        room
    }

    /// The first bytes, all of them if there are not so many.
    pub fn first(&self, length: u8) -> &[u8] {
        &self.0[..N.min(length.into())]
    }
}

/// The payload of a command.
pub trait Request: FromBytes + IntoBytes + Immutable + Sized {
    /// Bytes that there must be. What is missing behind them counts as zeros.
    const REQUIRED: usize = size_of::<Self>();

    /// Reads a payload, which is what follows the header; `EINVAL` if it is too short.
    fn read(payload: &[u8]) -> Result<Self> {
        read_request(payload, Self::REQUIRED)
    }
}

abi! { "rdma/rdma_user_cm.h":
    struct CmdHdr = "struct rdma_ucm_cmd_hdr" {
        cmd: u32,
        r#in: u16,
        out: u16,
    }
    struct CreateId = "struct rdma_ucm_create_id" {
        uid: u64,
        response: u64,
        ps: u16,
        qp_type: u8,
        reserved: [u8; 5],
    }
    /// QUERY_ROUTE and LEAVE_MCAST have the same payload.
    struct DestroyId = "struct rdma_ucm_destroy_id" {
        response: u64,
        id: u32,
        reserved: u32,
    }
    struct BindIp = "struct rdma_ucm_bind_ip" {
        response: u64,
        addr: SockaddrIn6,
        id: u32,
    }
    struct Bind = "struct rdma_ucm_bind" {
        id: u32,
        addr_size: u16,
        reserved: u16,
        addr: Room<SOCKADDR_STORAGE>,
    }
    struct ResolveIp = "struct rdma_ucm_resolve_ip" {
        src_addr: SockaddrIn6,
        dst_addr: SockaddrIn6,
        id: u32,
        timeout_ms: u32,
    }
    struct ResolveAddr = "struct rdma_ucm_resolve_addr" {
        id: u32,
        timeout_ms: u32,
        src_size: u16,
        dst_size: u16,
        reserved: u32,
        src_addr: Room<SOCKADDR_STORAGE>,
        dst_addr: Room<SOCKADDR_STORAGE>,
    }
    struct ResolveRoute = "struct rdma_ucm_resolve_route" {
        id: u32,
        timeout_ms: u32,
    }
    struct Query = "struct rdma_ucm_query" {
        response: u64,
        id: u32,
        option: u32,
    }
    struct QueryRouteResp = "struct rdma_ucm_query_route_resp" {
        node_guid: big_endian::U64,
        ib_route: [UserPathRec; 2],
        src_addr: SockaddrIn6,
        dst_addr: SockaddrIn6,
        num_paths: u32,
        port_num: u8,
        reserved: [u8; 3],
        ibdev_index: u32,
        reserved1: u32,
    }
    struct QueryAddrResp = "struct rdma_ucm_query_addr_resp" {
        node_guid: big_endian::U64,
        port_num: u8,
        reserved: u8,
        pkey: u16,
        src_size: u16,
        dst_size: u16,
        src_addr: Room<SOCKADDR_STORAGE>,
        dst_addr: Room<SOCKADDR_STORAGE>,
        ibdev_index: u32,
        reserved1: u32,
    }
    /// The paths follow, each a [`PathRecData`].
    struct QueryPathResp = "struct rdma_ucm_query_path_resp" {
        num_paths: u32,
        reserved: u32,
    }
    struct ConnParam = "struct rdma_ucm_conn_param" {
        qp_num: u32,
        qkey: u32,
        private_data: Room<PRIVATE_DATA>,
        private_data_len: u8,
        srq: u8,
        responder_resources: u8,
        initiator_depth: u8,
        flow_control: u8,
        retry_count: u8,
        rnr_retry_count: u8,
        valid: u8,
    }
    struct UdParam = "struct rdma_ucm_ud_param" {
        qp_num: u32,
        qkey: u32,
        ah_attr: AhAttr,
        private_data: Room<PRIVATE_DATA>,
        private_data_len: u8,
        reserved: [u8; 7],
    }
    /// Options for enhanced connection establishment, which travel with a request and its answer.
    struct Ece = "struct rdma_ucm_ece" {
        vendor_id: u32,
        attr_mod: u32,
    }
    struct Connect = "struct rdma_ucm_connect" {
        conn_param: ConnParam,
        id: u32,
        reserved: u32,
        ece: Ece,
    }
    struct Listen = "struct rdma_ucm_listen" {
        id: u32,
        backlog: u32,
    }
    struct Accept = "struct rdma_ucm_accept" {
        uid: u64,
        conn_param: ConnParam,
        id: u32,
        reserved: u32,
        ece: Ece,
    }
    struct Reject = "struct rdma_ucm_reject" {
        id: u32,
        private_data_len: u8,
        reason: u8,
        reserved: [u8; 2],
        private_data: Room<PRIVATE_DATA>,
    }
    struct Disconnect = "struct rdma_ucm_disconnect" {
        id: u32,
    }
    struct InitQpAttr = "struct rdma_ucm_init_qp_attr" {
        response: u64,
        id: u32,
        qp_state: u32,
    }
    struct Notify = "struct rdma_ucm_notify" {
        id: u32,
        event: u32,
    }
    struct JoinIpMcast = "struct rdma_ucm_join_ip_mcast" {
        response: u64,
        uid: u64,
        addr: SockaddrIn6,
        id: u32,
    }
    struct JoinMcast = "struct rdma_ucm_join_mcast" {
        response: u64,
        uid: u64,
        id: u32,
        addr_size: u16,
        join_flags: u16,
        addr: Room<SOCKADDR_STORAGE>,
    }
    struct GetEvent = "struct rdma_ucm_get_event" {
        response: u64,
    }
    /// With room for the largest of what an event may carry: [`ConnParam`] or [`UdParam`].
    struct EventResp = "struct rdma_ucm_event_resp" {
        uid: u64,
        id: u32,
        event: u32,
        status: i32,
        param: Room<{ size_of::<UdParam>() }>,
        reserved: u32,
        ece: Ece,
    }
    struct SetOption = "struct rdma_ucm_set_option" {
        optval: u64,
        id: u32,
        level: u32,
        optname: u32,
        optlen: u32,
    }
    struct MigrateId = "struct rdma_ucm_migrate_id" {
        response: u64,
        id: u32,
        fd: i32,
    }
    "linux/in.h":
    struct SockaddrIn = "struct sockaddr_in" {
        sin_family: u16,
        sin_port: big_endian::U16,
        sin_addr: [u8; 4],
        __pad: [u8; 8],
    }
    "linux/in6.h":
    /// The flow label is kept as it comes.
    struct SockaddrIn6 = "struct sockaddr_in6" {
        sin6_family: u16,
        sin6_port: big_endian::U16,
        sin6_flowinfo: u32,
        sin6_addr: [u8; 16],
        sin6_scope_id: u32,
    }
    "infiniband/ib.h":
    struct SockaddrIb = "struct sockaddr_ib" {
        sib_family: u16,
        sib_pkey: big_endian::U16,
        sib_flowinfo: big_endian::U32,
        sib_addr: [u8; 16],
        sib_sid: big_endian::U64,
        sib_sid_mask: big_endian::U64,
        sib_scope_id: u64,
    }
    "rdma/ib_user_sa.h":
    struct UserPathRec = "struct ib_user_path_rec" {
        dgid: [u8; 16],
        sgid: [u8; 16],
        dlid: big_endian::U16,
        slid: big_endian::U16,
        raw_traffic: u32,
        flow_label: big_endian::U32,
        reversible: u32,
        mtu: u32,
        pkey: big_endian::U16,
        hop_limit: u8,
        traffic_class: u8,
        numb_path: u8,
        sl: u8,
        mtu_selector: u8,
        rate_selector: u8,
        rate: u8,
        packet_life_time_selector: u8,
        packet_life_time: u8,
        preference: u8,
    }
    struct PathRecData = "struct ib_path_rec_data" {
        flags: u32,
        reserved: u32,
        path_rec: PathRecord,
    }
    "infiniband/sa.h":
    struct PathRecord = "struct ibv_path_record" {
        service_id: big_endian::U64,
        dgid: [u8; 16],
        sgid: [u8; 16],
        dlid: big_endian::U16,
        slid: big_endian::U16,
        flowlabel_hoplimit: big_endian::U32,
        tclass: u8,
        reversible_numpath: u8,
        pkey: big_endian::U16,
        qosclass_sl: big_endian::U16,
        mtu: u8,
        rate: u8,
        packetlifetime: u8,
        preference: u8,
        reserved: [u8; 6],
    }
}

/// `struct rdma_ucm_write_cm_event` with an argument, which few headers have yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, Immutable, IntoBytes)]
#[repr(C)]
pub struct WriteCmEvent {
    pub id: u32,
    pub reserved: u32,
    pub event: u32,
    pub status: i32,
    pub arg: u64,
}

/// Payloads that have to be there whole.
macro_rules! whole {
    ($($name:ident),* $(,)?) => {
        $( impl Request for $name {} )*
    };
}

whole! {
    Bind, BindIp, CreateId, DestroyId, Disconnect, GetEvent, InitQpAttr, JoinIpMcast, JoinMcast,
    Listen, MigrateId, Notify, Query, Reject, ResolveAddr, ResolveIp, ResolveRoute, SetOption,
    WriteCmEvent,
}

/// Older libraries do not send ECE options.
impl Request for Connect {
    const REQUIRED: usize = offset_of!(Connect, ece);
}

impl Request for Accept {
    const REQUIRED: usize = offset_of!(Accept, ece);
}
