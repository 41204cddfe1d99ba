//! Requests: what programs write.

use zerocopy::IntoBytes;

use super::abi::{self, Ece, PRIVATE_DATA, Request as _, Room, SOCKADDR_STORAGE, SockaddrIn6};
use super::address::Sockaddr;
use crate::errno::{Errno, Refusal, Result, ensure};
use crate::uapi::verbs::Qpn;

const RESERVED: Errno = Errno::EINVAL.because(Refusal::CommandReserved);
const NO_ADDRESS: Errno = Errno::EINVAL.because(Refusal::NoAddress);
const NO_FAMILY: Errno = Errno::EINVAL.because(Refusal::AddressFamily);

/// CREATE_ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateId {
    /// The program's name for the id, which its events carry.
    pub uid: u64,
    /// Port space.
    pub ps: u16,
    /// Queue pair type, heeded in the port space IB only.
    pub qp_type: u8,
}

impl CreateId {
    /// Decodes a payload.
    pub fn decode(payload: &[u8]) -> Result<Self> {
        let abi::CreateId { uid, ps, qp_type, .. } = abi::CreateId::read(payload)?;
        Ok(Self { uid, ps, qp_type })
    }
}

/// DESTROY_ID, QUERY_ROUTE and LEAVE_MCAST: an answer about one id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The id, or for LEAVE_MCAST the membership.
    pub id: u32,
}

impl Target {
    /// Decodes a payload.
    pub fn decode(payload: &[u8]) -> Result<Self> {
        Ok(Self { id: abi::DestroyId::read(payload)?.id })
    }
}

/// DISCONNECT's payload is nothing but the id.
pub fn disconnect_id(payload: &[u8]) -> Result<u32> {
    Ok(abi::Disconnect::read(payload)?.id)
}

/// BIND and BIND_IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bind {
    /// The id.
    pub id: u32,
    /// Where to.
    pub address: Sockaddr,
}

impl Bind {
    /// Decodes BIND's payload. The size given must be that of the address's family.
    pub fn decode(payload: &[u8]) -> Result<Self> {
        let bind = abi::Bind::read(payload)?;
        let address = sized(&bind.addr, bind.addr_size)?;
        ensure(bind.reserved == 0, RESERVED)?;
        Ok(Self { id: bind.id, address })
    }

    /// Decodes BIND_IP's payload.
    pub fn decode_ip(payload: &[u8]) -> Result<Self> {
        let bind = abi::BindIp::read(payload)?;
        Ok(Self { id: bind.id, address: ip(&bind.addr)?.ok_or(NO_ADDRESS)? })
    }
}

/// An address whose size was given beside it.
fn sized(room: &Room<SOCKADDR_STORAGE>, size: u16) -> Result<Sockaddr> {
    const OTHER_SIZE: Errno = Errno::EINVAL.because(Refusal::AddressSize);
    let address = Sockaddr::decode(&room.0).ok_or(NO_FAMILY)?;
    ensure(usize::from(size) == address.size(), OTHER_SIZE)?;
    Ok(address)
}

/// The address of a `sockaddr_in6`; `None` if no family is set.
fn ip(room: &SockaddrIn6) -> Result<Option<Sockaddr>> {
    if room.sin6_family == 0 {
        return Ok(None);
    }
    Sockaddr::decode(room.as_bytes()).map(Some).ok_or(NO_FAMILY)
}

/// RESOLVE_ADDR and RESOLVE_IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResolveAddr {
    /// The id.
    pub id: u32,
    /// How long to look for the address, in milliseconds.
    pub timeout_ms: u32,
    /// Where from, if that matters.
    pub src: Option<Sockaddr>,
    /// Where to.
    pub dst: Sockaddr,
}

impl ResolveAddr {
    /// Decodes RESOLVE_ADDR's payload.
    pub fn decode(payload: &[u8]) -> Result<Self> {
        let resolve = abi::ResolveAddr::read(payload)?;
        ensure(resolve.reserved == 0, RESERVED)?;
        let src = match resolve.src_size {
            0 => None,
            size => Some(sized(&resolve.src_addr, size)?),
        };
        let dst = sized(&resolve.dst_addr, resolve.dst_size)?;
        Ok(Self { id: resolve.id, timeout_ms: resolve.timeout_ms, src, dst })
    }

    /// Decodes RESOLVE_IP's payload.
    pub fn decode_ip(payload: &[u8]) -> Result<Self> {
        let resolve = abi::ResolveIp::read(payload)?;
        let dst = ip(&resolve.dst_addr)?.ok_or(NO_ADDRESS)?;
        let src = ip(&resolve.src_addr)?;
        Ok(Self { id: resolve.id, timeout_ms: resolve.timeout_ms, src, dst })
    }
}

/// RESOLVE_ROUTE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResolveRoute {
    /// The id.
    pub id: u32,
    /// How long to look for a path, in milliseconds.
    pub timeout_ms: u32,
}

impl ResolveRoute {
    /// Decodes a payload.
    pub fn decode(payload: &[u8]) -> Result<Self> {
        let abi::ResolveRoute { id, timeout_ms } = abi::ResolveRoute::read(payload)?;
        Ok(Self { id, timeout_ms })
    }
}

/// LISTEN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The id.
    pub id: u32,
    /// How many requests may wait to be fetched. The kernel has it signed.
    pub backlog: i32,
}

impl Listen {
    /// Decodes a payload.
    pub fn decode(payload: &[u8]) -> Result<Self> {
        let abi::Listen { id, backlog } = abi::Listen::read(payload)?;
        Ok(Self { id, backlog: backlog as i32 })
    }
}

/// `rdma_ucm_conn_param`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnParam {
    /// Queue pair number.
    pub qp_num: u32,
    /// Q key.
    pub qkey: u32,
    /// Data for the peer's program, at most 255 bytes.
    pub private_data: Vec<u8>,
    /// Whether the queue pair has a shared receive queue.
    pub srq: u8,
    /// How many reads and atomics of the peer it serves at once.
    pub responder_resources: u8,
    /// How many reads and atomics it has outstanding.
    pub initiator_depth: u8,
    /// Flow control by the hardware.
    pub flow_control: u8,
    /// Retries after a missing acknowledgement.
    pub retry_count: u8,
    /// Retries when the receiver is not ready.
    pub rnr_retry_count: u8,
    /// In requests: whether the rest means anything.
    pub valid: u8,
}

impl From<&abi::ConnParam> for ConnParam {
    fn from(param: &abi::ConnParam) -> Self {
        Self {
            qp_num: Qpn::new(param.qp_num).into(),
            qkey: param.qkey,
            private_data: param.private_data.first(param.private_data_len).to_vec(),
            srq: param.srq,
            responder_resources: param.responder_resources,
            initiator_depth: param.initiator_depth,
            flow_control: param.flow_control,
            retry_count: param.retry_count,
            rnr_retry_count: param.rnr_retry_count,
            valid: param.valid,
        }
    }
}

/// Private data of more than 255 bytes is cut.
impl From<&ConnParam> for abi::ConnParam {
    fn from(param: &ConnParam) -> Self {
        let (private_data, private_data_len) = with_length(&param.private_data);
        Self {
            qp_num: param.qp_num,
            qkey: param.qkey,
            private_data,
            private_data_len,
            srq: param.srq,
            responder_resources: param.responder_resources,
            initiator_depth: param.initiator_depth,
            flow_control: param.flow_control,
            retry_count: param.retry_count,
            rnr_retry_count: param.rnr_retry_count,
            valid: param.valid,
        }
    }
}

/// Private data, as far as one byte can say how long it is, and its length.
pub(super) fn with_length(data: &[u8]) -> (Room<PRIVATE_DATA>, u8) {
    let length = u8::try_from(data.len()).unwrap_or(u8::MAX);
    (Room::of(&data[..length.into()]), length)
}

/// CONNECT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connect {
    /// The id.
    pub id: u32,
    /// Parameters.
    pub param: ConnParam,
    /// ECE options; older libraries do not send any.
    pub ece: Ece,
}

impl Connect {
    /// Decodes a payload.
    pub fn decode(payload: &[u8]) -> Result<Self> {
        let connect = abi::Connect::read(payload)?;
        let (param, ece) = (ConnParam::from(&connect.conn_param), connect.ece);
        Ok(Self { id: connect.id, param, ece })
    }
}

/// ACCEPT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accept {
    /// The program's name for the id from now on.
    pub uid: u64,
    /// Parameters; not valid ones mean "ready to use" from the side that has connected.
    pub param: ConnParam,
    /// The id.
    pub id: u32,
    /// ECE options; older libraries do not send any.
    pub ece: Ece,
}

impl Accept {
    /// Decodes a payload.
    pub fn decode(payload: &[u8]) -> Result<Self> {
        let accept = abi::Accept::read(payload)?;
        let (param, ece) = (ConnParam::from(&accept.conn_param), accept.ece);
        Ok(Self { uid: accept.uid, param, id: accept.id, ece })
    }
}

/// REJECT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reject {
    /// The id.
    pub id: u32,
    /// Why; 0 means that the program does not say.
    pub reason: u8,
    /// Data for the peer's program.
    pub private_data: Vec<u8>,
}

impl Reject {
    /// Decodes a payload.
    pub fn decode(payload: &[u8]) -> Result<Self> {
        let reject = abi::Reject::read(payload)?;
        let private_data = reject.private_data.first(reject.private_data_len).to_vec();
        Ok(Self { id: reject.id, reason: reject.reason, private_data })
    }
}

/// INIT_QP_ATTR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitQpAttr {
    /// The id.
    pub id: u32,
    /// The state that the queue pair is to be in.
    pub qp_state: u32,
}

impl InitQpAttr {
    /// Decodes a payload.
    pub fn decode(payload: &[u8]) -> Result<Self> {
        let abi::InitQpAttr { id, qp_state, .. } = abi::InitQpAttr::read(payload)?;
        Ok(Self { id, qp_state })
    }
}

/// SET_OPTION. The value stands at an address of the program; whoever forwards the command puts
/// the bytes from there behind the payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetOption {
    /// The id.
    pub id: u32,
    /// Level.
    pub level: u32,
    /// Name.
    pub name: u32,
    /// Value.
    pub value: Vec<u8>,
}

impl SetOption {
    /// Decodes a payload with the value behind it; `EFAULT` if the value is missing.
    pub fn decode(payload: &[u8]) -> Result<Self> {
        const NO_VALUE: Errno = Errno::EFAULT.because(Refusal::OptionUnreadable);
        let abi::SetOption { id, level, optname: name, optlen, .. } =
            abi::SetOption::read(payload)?;
        let behind = &payload[size_of::<abi::SetOption>()..];
        let value = behind.get(..optlen as usize).ok_or(NO_VALUE)?.to_vec();
        Ok(Self { id, level, name, value })
    }
}

/// NOTIFY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notify {
    /// The id.
    pub id: u32,
    /// An asynchronous event of its queue pair.
    pub event: u32,
}

impl Notify {
    /// Decodes a payload.
    pub fn decode(payload: &[u8]) -> Result<Self> {
        let abi::Notify { id, event } = abi::Notify::read(payload)?;
        Ok(Self { id, event })
    }
}

/// WRITE_CM_EVENT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteEvent {
    /// The id.
    pub id: u32,
    /// One of [`event_type`](super::event_type).
    pub event: u32,
    /// The event's status.
    pub status: i32,
    /// The event's argument.
    pub arg: u64,
}

impl WriteEvent {
    /// Decodes a payload.
    pub fn decode(payload: &[u8]) -> Result<Self> {
        let abi::WriteCmEvent { id, event, status, arg, .. } = abi::WriteCmEvent::read(payload)?;
        Ok(Self { id, event, status, arg })
    }
}

/// JOIN_MCAST and JOIN_IP_MCAST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinMcast {
    /// The program's name for the membership, which its events carry.
    pub uid: u64,
    /// The id.
    pub id: u32,
    /// 0 full member, 1 sender only.
    pub join_flags: u16,
    /// The group.
    pub address: Sockaddr,
}

impl JoinMcast {
    /// Decodes JOIN_MCAST's payload.
    pub fn decode(payload: &[u8]) -> Result<Self> {
        let join = abi::JoinMcast::read(payload)?;
        let address = sized(&join.addr, join.addr_size)?;
        let is_known = join.join_flags <= 1;
        ensure(is_known, Errno::EINVAL.because(Refusal::JoinFlags))?;
        Ok(Self { uid: join.uid, id: join.id, join_flags: join.join_flags, address })
    }

    /// Decodes JOIN_IP_MCAST's payload.
    pub fn decode_ip(payload: &[u8]) -> Result<Self> {
        let join = abi::JoinIpMcast::read(payload)?;
        let address = ip(&join.addr)?.ok_or(NO_ADDRESS)?;
        Ok(Self { uid: join.uid, id: join.id, join_flags: 0, address })
    }
}

/// MIGRATE_ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigrateId {
    /// The id.
    pub id: u32,
    /// The file that it belongs to so far.
    pub file: u32,
}

impl MigrateId {
    /// Decodes a payload.
    pub fn decode(payload: &[u8]) -> Result<Self> {
        let abi::MigrateId { id, fd, .. } = abi::MigrateId::read(payload)?;
        Ok(Self { id, file: fd as u32 })
    }
}

/// QUERY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// The id.
    pub id: u32,
    /// The option of that level.
    pub option: u32,
}

impl Query {
    /// Decodes a payload.
    pub fn decode(payload: &[u8]) -> Result<Self> {
        let abi::Query { id, option, .. } = abi::Query::read(payload)?;
        Ok(Self { id, option })
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
