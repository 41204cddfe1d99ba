//! Connections that do not come about: one end says no, gives up or goes away.

use soft_hca_core::errno::{Errno, Result};
use soft_hca_core::uapi::ucma::{ConnParam, Ece, Param, Reject, event_type, private_data, reject};

use super::connect::{Stage, check_private_data, padded};
use super::id::Key;
use super::message::{Answered, CommId, Message, Rej};
use super::peer::{Peer, RemoteId};
use super::{Call, Cm, Cx, NOTHING};

impl Cm {
    pub(super) fn reject(&mut self, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Vec<u8>> {
        let request = Reject::decode(call.payload)?;
        let reason = match u32::from(request.reason) {
            0 | reject::CONSUMER_DEFINED => reject::CONSUMER_DEFINED,
            reject::VENDOR_OPTION_NOT_SUPPORTED => reject::VENDOR_OPTION_NOT_SUPPORTED,
            _ => return Err(Errno::EINVAL.because("programs may not reject for this reason")),
        };
        let key = self.find_with_device(call.file, request.id)?;
        if self.id(key)?.is_datagram {
            self.reject_service(cx, key, request.private_data)?;
        } else {
            self.send_rej(cx, key, reason, request.private_data)?;
        }
        NOTHING
    }

    /// Refuses or gives up what is not established yet (`ib_send_cm_rej`).
    pub(super) fn send_rej(
        &mut self,
        cx: &mut Cx<'_>,
        key: Key,
        reason: u32,
        data: Vec<u8>,
    ) -> Result<()> {
        let rejected = match self.stage(key) {
            Some(Stage::RequestReceived) => Answered::Req,
            Some(Stage::ReplyReceived) => Answered::Rep,
            Some(Stage::RequestSent | Stage::ReplySent) => Answered::Other,
            _ => return Err(Errno::EINVAL.because("there is no request or reply to reject")),
        };
        check_private_data(data.len(), private_data::REJ)?;
        self.is_answered(key);
        let ca_guid = self.id(key)?.node_guid();
        let connection = self.connection_mut(key)?;
        connection.stage = Stage::Over;
        // Whoever has asked knows only its own communication id until it is answered.
        let local_comm_id = match rejected {
            Answered::Req => CommId::NONE,
            _ => connection.local_id,
        };
        let (peer, remote_comm_id) = (connection.peer, connection.remote_id);
        let transaction = connection.transaction;
        if connection.qpn != 0 {
            cx.host.qp_gone(connection.qpn);
        }
        let ari = match reason {
            reject::TIMEOUT => ca_guid.to_be_bytes().to_vec(),
            _ => Vec::new(),
        };
        let rej = Rej { local_comm_id, remote_comm_id, rejected, reason, ari, private_data: data };
        self.send(cx, peer, transaction, Message::Rej(rej));
        Ok(())
    }

    /// Whose connection is rejected (`cm_acquire_rejected_id`).
    fn rejected(&self, from: Peer, rej: &Rej) -> Option<Key> {
        if rej.remote_comm_id == CommId::NONE || rej.reason == reject::TIMEOUT {
            let remote = RemoteId { peer: from, is_datagram: false, comm_id: rej.local_comm_id };
            return self.asked_by(remote);
        }
        let theirs = match rej.rejected {
            Answered::Req => CommId::NONE,
            _ => rej.local_comm_id,
        };
        self.connection_of(from, rej.remote_comm_id, theirs)
    }

    /// The other end does not want or has never been there (`cm_rej_handler`).
    pub(super) fn received_rej(&mut self, from: Peer, rej: &Rej) {
        let Some(key) = self.rejected(from, rej) else {
            let remote = RemoteId { peer: from, is_datagram: false, comm_id: rej.local_comm_id };
            self.forget_early(remote);
            return;
        };
        let Ok(connection) = self.connection_mut(key) else { return };
        if !matches!(
            connection.stage,
            Stage::RequestSent
                | Stage::RequestReceived
                | Stage::ReplySent
                | Stage::ReplyReceived
                | Stage::Established
                | Stage::DisconnectSent
        ) {
            return;
        }
        connection.stage = Stage::Over;
        self.is_answered(key);
        let private_data = padded(&rej.private_data, private_data::REJ);
        let param = ConnParam { private_data, ..ConnParam::default() };
        let (event, status) = (event_type::REJECTED, rej.reason as i32);
        self.push_with(key, event, status, Param::Conn(param), Ece::default());
    }
}
