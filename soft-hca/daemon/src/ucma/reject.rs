//! Connections that do not come about: one end says no, gives up or goes away.

use soft_hca_core::errno::{Errno, Refusal, Result};
use soft_hca_core::uapi::ucma::{ConnParam, Ece, Param, Reject, event_type};
use soft_hca_roce::wire::cm::{Answered, CommId, Rej, reason};

use super::cm::Cm;
use super::connection::ConnectionState;
use super::host::{Call, Cx, NOTHING};
use super::id::Key;
use super::peer::{Peer, RemoteId};
use super::wire::{self, Envelope};

impl Cm {
    pub(super) fn reject(&mut self, _: &mut Cx<'_>, call: &Call<'_>) -> Result<Vec<u8>> {
        let request = Reject::decode(call.payload)?;
        let reason = match u16::from(request.reason) {
            0 | reason::CONSUMER_DEFINED => reason::CONSUMER_DEFINED,
            reason::VENDOR_OPTION_NOT_SUPPORTED => reason::VENDOR_OPTION_NOT_SUPPORTED,
            _ => return Err(Errno::EINVAL.because(Refusal::RejectReason)),
        };
        let key = self.ids.find_with_device(call.file, request.id)?;
        if self.ids.id(key)?.is_datagram {
            self.reject_service(key, &request.private_data)?;
        } else {
            self.send_rej(key, reason, &request.private_data)?;
        }
        NOTHING
    }

    /// Refuses or gives up what is not established yet (`ib_send_cm_rej`).
    pub(super) fn send_rej(&mut self, key: Key, reason: u16, data: &[u8]) -> Result<()> {
        let rejected = match self.ids.connection_state(key) {
            Some(ConnectionState::ReqReceived) => Answered::Req,
            Some(ConnectionState::RepReceived) => Answered::Rep,
            Some(ConnectionState::ReqSent | ConnectionState::RepSent) => Answered::Other,
            _ => return Err(Errno::EINVAL.because(Refusal::NothingToReject)),
        };
        let private_data = wire::private_data(data)?;
        self.is_answered(key);
        let ca_guid = self.ids.id(key)?.node_guid();
        let connection = self.ids.connection_mut(key)?;
        connection.state = ConnectionState::Over;
        // The active side knows only its own communication id until it is answered.
        let local_comm_id = match rejected {
            Answered::Req => CommId::NONE,
            _ => connection.local_id,
        };
        let (peer, remote_comm_id) = (connection.peer, connection.remote_id);
        let transaction = connection.transaction;
        let mut rej =
            Rej { local_comm_id, remote_comm_id, rejected, reason, private_data, ..Rej::default() };
        if reason == reason::TIMEOUT {
            rej.set_info(ca_guid.to_be_bytes());
        }
        self.messages.send(peer, Envelope::new(transaction, rej));
        Ok(())
    }

    /// Whose connection is rejected (`cm_acquire_rejected_id`).
    fn rejected(&self, from: Peer, rej: &Rej) -> Option<Key> {
        if rej.remote_comm_id == CommId::NONE || rej.reason == reason::TIMEOUT {
            let remote = RemoteId { peer: from, is_datagram: false, comm_id: rej.local_comm_id };
            return self.connections.asked_by(remote);
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
            self.pending.take(&mut self.timers, remote);
            return;
        };
        let Ok(connection) = self.ids.connection_mut(key) else { return };
        if !matches!(
            connection.state,
            ConnectionState::ReqSent
                | ConnectionState::ReqReceived
                | ConnectionState::RepSent
                | ConnectionState::RepReceived
                | ConnectionState::Established
                | ConnectionState::DreqSent
        ) {
            return;
        }
        connection.state = ConnectionState::Over;
        self.is_answered(key);
        let private_data = rej.private_data.to_vec();
        let param = ConnParam { private_data, ..ConnParam::default() };
        let (event, status) = (event_type::REJECTED, rej.reason.into());
        self.push_with(key, event, status, Param::Conn(param), Ece::default());
    }
}
