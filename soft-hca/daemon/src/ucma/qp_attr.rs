//! INIT_QP_ATTR: how a queue pair is to be set up for its connection.

use soft_hca_core::errno::{Errno, Refusal, Result, ensure};
use soft_hca_core::uapi::ucma::{InitQpAttr, QpAttr, UDP_QKEY};
use soft_hca_core::uapi::verbs::state::{ERR, INIT, RTR, RTS};
use soft_hca_core::uapi::verbs::{QpAttrMask, access};

use super::cm::Cm;
use super::connection::ConnectionState;
use super::host::{Call, Cx};

impl Cm {
    pub(super) fn init_qp_attr(&mut self, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Vec<u8>> {
        let InitQpAttr { id: number, qp_state } = InitQpAttr::decode(call.payload)?;
        ensure(qp_state <= ERR, Errno::EINVAL.because(Refusal::NoSuchState))?;
        let key = self.ids.find_with_device(call.file, number)?;
        let id = self.ids.id(key)?;
        let port_num = id.source()?.port_num;
        let mut attr = QpAttr { qp_state, port_num, ..QpAttr::default() };
        let connection = id.connection.as_ref().filter(|_| !id.is_datagram);
        let Some(connection) = connection else {
            // Without a connection the answer is the same whatever state is asked for.
            if id.is_datagram {
                attr.mask = QpAttrMask::INIT_UD;
                attr.qkey = UDP_QKEY;
            } else {
                attr.mask = QpAttrMask::INIT;
            }
            return Ok(attr.encode());
        };
        let has_asked = connection.state == ConnectionState::ReqSent;
        let is_alive = matches!(
            connection.state,
            ConnectionState::ReqReceived
                | ConnectionState::RepSent
                | ConnectionState::RepReceived
                | ConnectionState::Established
        );
        match qp_state {
            INIT if is_alive || has_asked => {
                attr.mask = QpAttrMask::INIT;
                attr.access = access::REMOTE_WRITE;
                if connection.responder_resources > 0 {
                    attr.access |= access::REMOTE_READ | access::REMOTE_ATOMIC;
                }
            }
            RTR if is_alive => {
                attr.mask = QpAttrMask::RTR_RC;
                attr.path_mtu = connection.path_mtu.into();
                attr.rq_psn = id.psn.into();
                attr.dest_qp_num = connection.remote_qpn.into();
                attr.max_dest_rd_atomic = connection.responder_resources;
                attr.ah_attr = Some(self.ah_attr(cx.host, key)?);
            }
            RTS if is_alive => {
                attr.mask = QpAttrMask::RTS_RC;
                attr.timeout = id.ack_timeout.unwrap_or(connection.ack_timeout);
                attr.sq_psn = connection.sq_psn.into();
                attr.retry_cnt = connection.retry_count;
                attr.rnr_retry = connection.rnr_retry_count;
                attr.max_rd_atomic = connection.initiator_depth;
            }
            RTR | RTS if has_asked => {
                return Err(Errno::EINVAL.because(Refusal::PeerHasNotReplied));
            }
            INIT | RTR | RTS => return Err(Errno::EINVAL.because(Refusal::ConnectionOver)),
            _ => return Err(Errno::EINVAL.because(Refusal::ConnectionState)),
        }
        Ok(attr.encode())
    }
}
