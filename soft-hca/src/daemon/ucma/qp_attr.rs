//! INIT_QP_ATTR: how a queue pair is to be set up for its connection.

use super::connect::Stage;
use super::query::PACKET_LIFE_TIME;
use super::{Call, Cm, Cx};
use crate::errno::{Errno, Result};
use crate::uapi::ucma::{InitQpAttr, QpAttr, UDP_QKEY};

/// Bits of the attribute mask (`ib_qp_attr_mask`).
mod mask {
    pub(super) const STATE: u32 = 1 << 0;
    pub(super) const ACCESS: u32 = 1 << 3;
    pub(super) const PKEY_INDEX: u32 = 1 << 4;
    pub(super) const PORT: u32 = 1 << 5;
    pub(super) const QKEY: u32 = 1 << 6;
    pub(super) const AV: u32 = 1 << 7;
    pub(super) const PATH_MTU: u32 = 1 << 8;
    pub(super) const TIMEOUT: u32 = 1 << 9;
    pub(super) const RETRY_CNT: u32 = 1 << 10;
    pub(super) const RNR_RETRY: u32 = 1 << 11;
    pub(super) const RQ_PSN: u32 = 1 << 12;
    pub(super) const MAX_QP_RD_ATOMIC: u32 = 1 << 13;
    pub(super) const MIN_RNR_TIMER: u32 = 1 << 15;
    pub(super) const SQ_PSN: u32 = 1 << 16;
    pub(super) const MAX_DEST_RD_ATOMIC: u32 = 1 << 17;
    pub(super) const DEST_QPN: u32 = 1 << 20;
}

const INIT: u32 = 1;
const RTR: u32 = 2;
const RTS: u32 = 3;
const ERR: u32 = 6;

const REMOTE_WRITE: u32 = 2;
const REMOTE_READ: u32 = 4;
const REMOTE_ATOMIC: u32 = 8;

impl Cm {
    pub(super) fn init_qp_attr(&mut self, _: &mut Cx<'_>, call: &Call<'_>) -> Result<Vec<u8>> {
        let InitQpAttr { id: number, qp_state } = InitQpAttr::decode(call.payload)?;
        if qp_state > ERR {
            return Err(Errno::EINVAL);
        }
        let key = self.find_with_device(call.file, number)?;
        let id = self.id(key)?;
        let port_num = id.source()?.port_num;
        let mut attr = QpAttr { qp_state, port_num, ..QpAttr::default() };
        let connection = id.connection.as_ref().filter(|_| !id.is_datagram);
        let Some(connection) = connection else {
            // Without a connection the answer is the same whatever state is asked for.
            attr.mask = mask::STATE | mask::PKEY_INDEX | mask::PORT;
            if id.is_datagram {
                attr.mask |= mask::QKEY;
                attr.qkey = UDP_QKEY;
            } else {
                attr.mask |= mask::ACCESS;
            }
            return Ok(attr.encode());
        };
        let is_asking = connection.stage == Stage::RequestSent;
        let is_alive = matches!(
            connection.stage,
            Stage::RequestReceived | Stage::ReplySent | Stage::ReplyReceived | Stage::Established
        );
        match qp_state {
            INIT if is_alive || is_asking => {
                attr.mask = mask::STATE | mask::ACCESS | mask::PKEY_INDEX | mask::PORT;
                attr.access = REMOTE_WRITE;
                if connection.responder_resources > 0 {
                    attr.access |= REMOTE_READ | REMOTE_ATOMIC;
                }
            }
            RTR if is_alive => {
                attr.mask = mask::STATE
                    | mask::AV
                    | mask::PATH_MTU
                    | mask::RQ_PSN
                    | mask::MIN_RNR_TIMER
                    | mask::MAX_DEST_RD_ATOMIC
                    | mask::DEST_QPN;
                attr.path_mtu = id.path_mtu().into();
                attr.rq_psn = id.psn;
                attr.dest_qp_num = connection.remote_qpn;
                attr.max_dest_rd_atomic = connection.responder_resources;
                attr.ah_attr = Some(self.ah_attr(key)?);
            }
            RTS if is_alive => {
                attr.mask = mask::STATE
                    | mask::TIMEOUT
                    | mask::RETRY_CNT
                    | mask::RNR_RETRY
                    | mask::MAX_QP_RD_ATOMIC
                    | mask::SQ_PSN;
                attr.timeout = id.ack_timeout.unwrap_or(PACKET_LIFE_TIME + 1);
                attr.sq_psn = connection.sq_psn;
                attr.retry_cnt = connection.retry_count;
                attr.rnr_retry = connection.rnr_retry_count;
                attr.max_rd_atomic = connection.initiator_depth;
            }
            _ => return Err(Errno::EINVAL),
        }
        Ok(attr.encode())
    }
}

#[cfg(test)]
mod tests {
    use super::mask::*;

    #[test]
    fn masks_as_the_kernel_gives_them() {
        assert_eq!(STATE | ACCESS | PKEY_INDEX | PORT, 0x39);
        assert_eq!(STATE | PKEY_INDEX | PORT | QKEY, 0x71);
        let rtr = STATE | AV | PATH_MTU | RQ_PSN | MIN_RNR_TIMER | MAX_DEST_RD_ATOMIC | DEST_QPN;
        assert_eq!(rtr, 0x129181);
        let rts = STATE | TIMEOUT | RETRY_CNT | RNR_RETRY | MAX_QP_RD_ATOMIC | SQ_PSN;
        assert_eq!(rts, 0x12e01);
    }
}
