//! The end of connections: disconnection, time wait, and ids that go without a word.

use soft_hca_core::errno::{Errno, Refusal, Result, ensure};
use soft_hca_core::uapi::ucma::{disconnect_id, event_type};
use soft_hca_roce::wire::cm::{Drep, Dreq, reason};

use super::cm::Cm;
use super::connection::{Connection, ConnectionState, NO_CONNECTION};
use super::host::{Call, Cx, NOTHING};
use super::id::{Key, State};
use super::messages::Opens;
use super::peer::Peer;
use super::timer::{TIME_WAIT_NS, Timer};
use super::wire::Envelope;

impl Cm {
    pub(super) fn disconnect(&mut self, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Vec<u8>> {
        let key = self.ids.find_with_device(call.file, disconnect_id(call.payload)?)?;
        let is_datagram = self.ids.id(key)?.is_datagram;
        ensure(!is_datagram, Errno::EINVAL.because(Refusal::DatagramDisconnect))?;
        match self.ids.connection_state(key).ok_or(NO_CONNECTION)? {
            ConnectionState::Established => self.begin_disconnection(cx, key),
            ConnectionState::DreqReceived => self.send_drep(cx, key),
            // Whatever else there was is over already or will be; the kernel says yes too.
            _ => {}
        }
        NOTHING
    }

    /// Disconnects what is established.
    pub(super) fn begin_disconnection(&mut self, cx: &mut Cx<'_>, key: Key) {
        let Some(dreq) = self.dreq(cx, key) else { return };
        self.ids.set_connection_state(key, ConnectionState::DreqSent);
        self.send_until_answered(cx, key, dreq);
    }

    /// The request to disconnect, which begins a transaction.
    fn dreq(&mut self, cx: &mut Cx<'_>, key: Key) -> Option<Envelope> {
        let Connection { local_id, remote_id, remote_qpn, .. } = *self.ids.connection(key).ok()?;
        let transaction = self.messages.new_transaction(cx.host, Opens::Disconnection, local_id);
        self.ids.connection_mut(key).ok()?.transaction = transaction;
        let dreq = Dreq {
            local_comm_id: local_id,
            remote_comm_id: remote_id,
            remote_qpn,
            ..Dreq::default()
        };
        Some(Envelope::new(transaction, dreq))
    }

    /// `cm_dreq_handler`
    pub(super) fn received_dreq(&mut self, cx: &mut Cx<'_>, from: Peer, dreq: &Dreq) {
        let drep = Drep {
            local_comm_id: dreq.remote_comm_id,
            remote_comm_id: dreq.local_comm_id,
            ..Drep::default()
        };
        let drep = Envelope::new(cx.transaction, drep);
        let key = self.connection_of(from, dreq.remote_comm_id, dreq.local_comm_id);
        let Some((key, connection)) =
            key.and_then(|key| Some((key, self.ids.connection(key).ok()?)))
        else {
            // Whatever it was is over.
            let ids = (dreq.remote_comm_id, dreq.local_comm_id);
            self.dreqs_sent.answered(&mut self.timers, from, ids);
            return self.messages.send(from, drep);
        };
        if connection.qpn != dreq.remote_qpn {
            return;
        }
        match connection.state {
            ConnectionState::Established | ConnectionState::RepSent | ConnectionState::DreqSent => {
                self.is_answered(key);
                self.ids.set_connection_state(key, ConnectionState::DreqReceived);
                self.answer_later(cx, key);
                self.disconnected(key, 0);
            }
            // The answer was lost. A peer that counts its time in seconds may ask after time wait.
            ConnectionState::TimeWait | ConnectionState::Over => self.messages.send(from, drep),
            _ => {}
        }
    }

    fn send_drep(&mut self, cx: &mut Cx<'_>, key: Key) {
        self.enter_time_wait(cx, key);
        let Ok(connection) = self.ids.connection(key) else { return };
        let (peer, transaction) = (connection.peer, connection.transaction);
        let drep = Drep {
            local_comm_id: connection.local_id,
            remote_comm_id: connection.remote_id,
            ..Drep::default()
        };
        self.messages.send(peer, Envelope::new(transaction, drep));
    }

    /// The program's answer will be one to the message that has come.
    pub(super) fn answer_later(&mut self, cx: &Cx<'_>, key: Key) {
        if let Ok(connection) = self.ids.connection_mut(key) {
            connection.transaction = cx.transaction;
        }
    }

    /// `cm_drep_handler`
    pub(super) fn received_drep(&mut self, cx: &mut Cx<'_>, from: Peer, drep: &Drep) {
        let ids = (drep.remote_comm_id, drep.local_comm_id);
        self.dreqs_sent.answered(&mut self.timers, from, ids);
        let Some(key) = self.connection_of(from, ids.0, ids.1) else { return };
        if let Some(ConnectionState::DreqSent | ConnectionState::DreqReceived) =
            self.ids.connection_state(key)
        {
            self.enter_time_wait(cx, key);
            self.disconnected(key, 0);
        }
    }

    pub(super) fn disconnection_unanswered(&mut self, cx: &mut Cx<'_>, key: Key) {
        self.enter_time_wait(cx, key);
        self.disconnected(key, -Errno::ETIMEDOUT.number());
    }

    /// Tells the program, once.
    fn disconnected(&mut self, key: Key, status: i32) {
        let Some(id) = self.ids.get_mut(key) else { return };
        if id.state == State::Connect {
            id.state = State::Disconnect;
            self.push(key, event_type::DISCONNECTED, status);
        }
    }

    fn enter_time_wait(&mut self, cx: &mut Cx<'_>, key: Key) {
        let Ok(connection) = self.ids.connection_mut(key) else { return };
        connection.state = ConnectionState::TimeWait;
        connection.unanswered = None;
        self.set_timer(key, cx.now_ns.saturating_add(TIME_WAIT_NS), Timer::TimeWait);
    }

    pub(super) fn time_wait_over(&mut self, key: Key) {
        self.ids.set_connection_state(key, ConnectionState::Over);
        if self.ids.get(key).is_some_and(|id| id.state == State::Disconnect) {
            self.push(key, event_type::TIMEWAIT_EXIT, 0);
        }
    }

    /// An id is about to go: its peer hears what the state of the connection calls for
    /// (`cm_destroy_id`).
    pub(super) fn end_connection(&mut self, cx: &mut Cx<'_>, key: Key) {
        let Some(state) = self.ids.connection_state(key) else { return };
        match state {
            ConnectionState::ReqSent => {
                let _ = self.send_rej(key, reason::TIMEOUT, &[]);
            }
            ConnectionState::ReqReceived
            | ConnectionState::RepSent
            | ConnectionState::RepReceived => {
                let _ = self.send_rej(key, reason::CONSUMER_DEFINED, &[]);
            }
            ConnectionState::Established => {
                let Some(dreq) = self.dreq(cx, key) else { return };
                let Ok(connection) = self.ids.connection(key) else { return };
                let peer = connection.peer;
                self.dreqs_sent.keep(&mut self.timers, cx.now_ns, connection, &dreq);
                self.messages.send(peer, dreq);
            }
            ConnectionState::DreqReceived => self.send_drep(cx, key),
            ConnectionState::SidrReqSent => self.take_back_sidr_req(key),
            ConnectionState::SidrReqReceived => {
                let _ = self.reject_service(key, &[]);
            }
            ConnectionState::DreqSent => {
                let Ok(connection) = self.ids.connection_mut(key) else { return };
                if let Some(dreq) = connection.unanswered.take() {
                    self.dreqs_sent.keep(&mut self.timers, cx.now_ns, connection, &dreq);
                }
            }
            ConnectionState::TimeWait | ConnectionState::Over => {}
        }
    }
}
