//! Requests: what programs write.

use super::address::{SOCKADDR_IN6, SOCKADDR_STORAGE, Sockaddr};
use super::event::Ece;
use super::{array, u8_at, u16_at, u32_at, u64_at};
use crate::errno::{Errno, Result, ensure};
use crate::uapi::verbs::Qpn;

/// Bytes of connection parameters.
pub const CONN_PARAM: usize = 272;
/// Room for private data in connection parameters and rejections.
pub const PRIVATE_DATA: usize = 256;

const RESERVED: Errno = Errno::EINVAL.because("the command's reserved field is not zero");
const NO_ADDRESS: Errno = Errno::EINVAL.because("there is no address");
const NO_FAMILY: Errno =
    Errno::EINVAL.because("the address is neither IPv4 nor IPv6 nor InfiniBand's");

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
        array::<24>(payload, 0)?;
        let (uid, ps) = (u64_at(payload, 0)?, u16_at(payload, 16)?);
        Ok(Self { uid, ps, qp_type: u8_at(payload, 18)? })
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
        array::<16>(payload, 0)?;
        Ok(Self { id: u32_at(payload, 8)? })
    }
}

/// DISCONNECT's payload is nothing but the id.
pub fn disconnect_id(payload: &[u8]) -> Result<u32> {
    u32_at(payload, 0)
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
        let bytes = array::<SOCKADDR_STORAGE>(payload, 8)?;
        let address = sized(&bytes, u16_at(payload, 4)?)?;
        ensure(u16_at(payload, 6)? == 0, RESERVED)?;
        Ok(Self { id: u32_at(payload, 0)?, address })
    }

    /// Decodes BIND_IP's payload.
    pub fn decode_ip(payload: &[u8]) -> Result<Self> {
        let address = ip_at(payload, 8)?.ok_or(NO_ADDRESS)?;
        Ok(Self { id: u32_at(payload, 36)?, address })
    }
}

/// An address whose size was given beside it.
fn sized(bytes: &[u8], size: u16) -> Result<Sockaddr> {
    const OTHER_SIZE: Errno = Errno::EINVAL.because("the address's size is not that of its family");
    let address = Sockaddr::decode(bytes).ok_or(NO_FAMILY)?;
    ensure(usize::from(size) == address.size(), OTHER_SIZE)?;
    Ok(address)
}

/// A `sockaddr_in6` field; `None` if no family is set.
fn ip_at(payload: &[u8], at: usize) -> Result<Option<Sockaddr>> {
    let bytes = array::<SOCKADDR_IN6>(payload, at)?;
    if u16_at(&bytes, 0)? == 0 {
        return Ok(None);
    }
    Sockaddr::decode(&bytes).map(Some).ok_or(NO_FAMILY)
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
        let src = array::<SOCKADDR_STORAGE>(payload, 16)?;
        let dst = array::<SOCKADDR_STORAGE>(payload, 144)?;
        let (src_size, dst_size) = (u16_at(payload, 8)?, u16_at(payload, 10)?);
        ensure(u32_at(payload, 12)? == 0, RESERVED)?;
        let src = if src_size == 0 { None } else { Some(sized(&src, src_size)?) };
        let dst = sized(&dst, dst_size)?;
        Ok(Self { id: u32_at(payload, 0)?, timeout_ms: u32_at(payload, 4)?, src, dst })
    }

    /// Decodes RESOLVE_IP's payload.
    pub fn decode_ip(payload: &[u8]) -> Result<Self> {
        let (id, timeout_ms) = (u32_at(payload, 56)?, u32_at(payload, 60)?);
        let dst = ip_at(payload, 28)?.ok_or(NO_ADDRESS)?;
        Ok(Self { id, timeout_ms, src: ip_at(payload, 0)?, dst })
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
        Ok(Self { id: u32_at(payload, 0)?, timeout_ms: u32_at(payload, 4)? })
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
        let backlog = array(payload, 4).map(i32::from_le_bytes)?;
        Ok(Self { id: u32_at(payload, 0)?, backlog })
    }
}

/// `rdma_ucm_conn_param`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnParam {
    /// Queue pair number.
    pub qp_num: u32,
    /// Q key.
    pub qkey: u32,
    /// What goes to the peer's program, at most 255 bytes.
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

impl ConnParam {
    /// Decodes the 272 bytes at `at`.
    pub fn decode(payload: &[u8], at: usize) -> Result<Self> {
        let bytes = array::<CONN_PARAM>(payload, at)?;
        let len = usize::from(bytes[264]);
        Ok(Self {
            qp_num: Qpn::new(u32_at(&bytes, 0)?).into(),
            qkey: u32_at(&bytes, 4)?,
            private_data: bytes[8..8 + len].to_vec(),
            srq: bytes[265],
            responder_resources: bytes[266],
            initiator_depth: bytes[267],
            flow_control: bytes[268],
            retry_count: bytes[269],
            rnr_retry_count: bytes[270],
            valid: bytes[271],
        })
    }

    /// Encodes to 272 bytes. Private data of more than 255 bytes is cut.
    pub fn encode(&self) -> [u8; CONN_PARAM] {
        let mut bytes = [0; CONN_PARAM];
        super::put(&mut bytes, 0, &self.qp_num.to_le_bytes());
        super::put(&mut bytes, 4, &self.qkey.to_le_bytes());
        let len = self.private_data.len().min(usize::from(u8::MAX));
        super::put(&mut bytes, 8, &self.private_data[..len]);
        bytes[264] = len as u8;
        bytes[265] = self.srq;
        bytes[266] = self.responder_resources;
        bytes[267] = self.initiator_depth;
        bytes[268] = self.flow_control;
        bytes[269] = self.retry_count;
        bytes[270] = self.rnr_retry_count;
        bytes[271] = self.valid;
        bytes
    }
}

/// CONNECT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connect {
    /// The id.
    pub id: u32,
    /// Parameters.
    pub param: ConnParam,
    /// Vendor's options; older libraries do not send any.
    pub ece: Ece,
}

impl Connect {
    /// Decodes a payload.
    pub fn decode(payload: &[u8]) -> Result<Self> {
        array::<280>(payload, 0)?;
        let (id, ece) = (u32_at(payload, 272)?, Ece::decode(payload, 280));
        Ok(Self { id, param: ConnParam::decode(payload, 0)?, ece })
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
    /// Vendor's options; older libraries do not send any.
    pub ece: Ece,
}

impl Accept {
    /// Decodes a payload.
    pub fn decode(payload: &[u8]) -> Result<Self> {
        array::<288>(payload, 0)?;
        let param = ConnParam::decode(payload, 8)?;
        let (uid, id) = (u64_at(payload, 0)?, u32_at(payload, 280)?);
        Ok(Self { uid, param, id, ece: Ece::decode(payload, 288) })
    }
}

/// REJECT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reject {
    /// The id.
    pub id: u32,
    /// Why; 0 means that the program does not say.
    pub reason: u8,
    /// What goes to the peer's program.
    pub private_data: Vec<u8>,
}

impl Reject {
    /// Decodes a payload.
    pub fn decode(payload: &[u8]) -> Result<Self> {
        let data = array::<PRIVATE_DATA>(payload, 8)?;
        let len = usize::from(u8_at(payload, 4)?);
        let (id, reason) = (u32_at(payload, 0)?, u8_at(payload, 5)?);
        Ok(Self { id, reason, private_data: data[..len].to_vec() })
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
        Ok(Self { id: u32_at(payload, 8)?, qp_state: u32_at(payload, 12)? })
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
    /// Bytes of the payload proper.
    pub const SIZE: usize = 24;

    /// Decodes a payload with the value behind it; `EFAULT` if the value is missing.
    pub fn decode(payload: &[u8]) -> Result<Self> {
        const NO_VALUE: Errno = Errno::EFAULT.because("the option's value cannot be read");
        let (id, level) = (u32_at(payload, 8)?, u32_at(payload, 12)?);
        let (name, len) = (u32_at(payload, 16)?, u32_at(payload, 20)? as usize);
        let value = payload[Self::SIZE..].get(..len).ok_or(NO_VALUE)?.to_vec();
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
        Ok(Self { id: u32_at(payload, 0)?, event: u32_at(payload, 4)? })
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
    /// What the event says.
    pub arg: u64,
}

impl WriteEvent {
    /// Decodes a payload.
    pub fn decode(payload: &[u8]) -> Result<Self> {
        Ok(Self {
            id: u32_at(payload, 0)?,
            event: u32_at(payload, 8)?,
            status: u32_at(payload, 12)? as i32,
            arg: u64_at(payload, 16)?,
        })
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
        let bytes = array::<SOCKADDR_STORAGE>(payload, 24)?;
        let address = sized(&bytes, u16_at(payload, 20)?)?;
        let join_flags = u16_at(payload, 22)?;
        let is_known = join_flags <= 1;
        ensure(
            is_known,
            Errno::EINVAL.because("the membership is neither full nor that of a sender only"),
        )?;
        Ok(Self { uid: u64_at(payload, 8)?, id: u32_at(payload, 16)?, join_flags, address })
    }

    /// Decodes JOIN_IP_MCAST's payload.
    pub fn decode_ip(payload: &[u8]) -> Result<Self> {
        let address = ip_at(payload, 16)?.ok_or(NO_ADDRESS)?;
        let (uid, id) = (u64_at(payload, 8)?, u32_at(payload, 44)?);
        Ok(Self { uid, id, join_flags: 0, address })
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
        Ok(Self { id: u32_at(payload, 8)?, file: u32_at(payload, 12)? })
    }
}

/// QUERY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// The id.
    pub id: u32,
    /// What of it.
    pub option: u32,
}

impl Query {
    /// Decodes a payload.
    pub fn decode(payload: &[u8]) -> Result<Self> {
        Ok(Self { id: u32_at(payload, 8)?, option: u32_at(payload, 12)? })
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
