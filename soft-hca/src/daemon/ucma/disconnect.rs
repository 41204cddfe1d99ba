//! The end of connections: disconnection, time wait, and ids that go without a word.

use super::connect::{NO_CONNECTION, Stage};
use super::id::{Key, State};
use super::message::{Drep, Dreq, Message};
use super::peer::Peer;
use super::timer::{GIVE_UP_NS, TIME_WAIT_NS, Timer};
use super::{Call, Cm, Cx, NOTHING};
use crate::errno::{Errno, Result, ensure};
use crate::uapi::ucma::{disconnect_id, event_type, reject};

impl Cm {
    pub(super) fn disconnect(&mut self, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Vec<u8>> {
        let key = self.find_with_device(call.file, disconnect_id(call.payload)?)?;
        let is_datagram = self.id(key)?.is_datagram;
        ensure(!is_datagram, Errno::EINVAL.because("datagrams have no connection to end"))?;
        match self.stage(key).ok_or(NO_CONNECTION)? {
            Stage::Established => {
                self.set_stage(key, Stage::DisconnectSent);
                let at_ns = cx.now_ns.saturating_add(GIVE_UP_NS);
                self.set_timer(key, at_ns, Timer::Disconnection);
                self.send_dreq(cx, key);
            }
            Stage::DisconnectReceived => self.send_drep(cx, key),
            // Whatever else there was is over already or will be; the kernel says yes too.
            _ => {}
        }
        NOTHING
    }

    fn send_dreq(&mut self, cx: &mut Cx<'_>, key: Key) {
        let Ok(connection) = self.connection(key) else { return };
        let (peer, remote_qpn) = (connection.peer, connection.remote_qpn);
        let (local_comm_id, remote_comm_id) = (connection.local_id, connection.remote_id);
        let dreq = Dreq { local_comm_id, remote_comm_id, remote_qpn };
        self.send(cx, peer, Message::Dreq(dreq));
    }

    /// `cm_dreq_handler`
    pub(super) fn received_dreq(&mut self, cx: &mut Cx<'_>, from: Peer, dreq: Dreq) {
        let drep = Drep { local_comm_id: dreq.remote_comm_id, remote_comm_id: dreq.local_comm_id };
        let key = self.connection_of(from, dreq.remote_comm_id, dreq.local_comm_id);
        let Some((key, connection)) = key.and_then(|key| Some((key, self.connection(key).ok()?)))
        else {
            // Whatever it was is over.
            return self.send(cx, from, Message::Drep(drep));
        };
        if connection.qpn != dreq.remote_qpn {
            return;
        }
        match connection.stage {
            Stage::Established | Stage::ReplySent | Stage::DisconnectSent => {
                self.cancel_timer(key);
                self.set_stage(key, Stage::DisconnectReceived);
                self.disconnected(key, 0);
            }
            Stage::TimeWait => self.send(cx, from, Message::Drep(drep)),
            _ => {}
        }
    }

    fn send_drep(&mut self, cx: &mut Cx<'_>, key: Key) {
        self.enter_time_wait(cx, key);
        let Ok(connection) = self.connection(key) else { return };
        let peer = connection.peer;
        let drep =
            Drep { local_comm_id: connection.local_id, remote_comm_id: connection.remote_id };
        self.send(cx, peer, Message::Drep(drep));
    }

    /// `cm_drep_handler`
    pub(super) fn received_drep(&mut self, cx: &mut Cx<'_>, from: Peer, drep: Drep) {
        if let Some(key) = self.connection_of(from, drep.remote_comm_id, drep.local_comm_id)
            && let Some(Stage::DisconnectSent | Stage::DisconnectReceived) = self.stage(key)
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
        let Some(id) = self.ids.get_mut(&key) else { return };
        if id.state == State::Connect {
            id.state = State::Disconnect;
            self.push(key, event_type::DISCONNECTED, status);
        }
    }

    fn enter_time_wait(&mut self, cx: &mut Cx<'_>, key: Key) {
        let Ok(connection) = self.connection_mut(key) else { return };
        connection.stage = Stage::TimeWait;
        cx.host.qp_gone(connection.qpn);
        self.set_timer(key, cx.now_ns.saturating_add(TIME_WAIT_NS), Timer::TimeWait);
    }

    pub(super) fn time_wait_over(&mut self, key: Key) {
        self.set_stage(key, Stage::Over);
        if self.ids.get(&key).is_some_and(|id| id.state == State::Disconnect) {
            self.push(key, event_type::TIMEWAIT_EXIT, 0);
        }
    }

    /// An id is about to go: its peer hears what the stage of the connection calls for
    /// (`cm_destroy_id`).
    pub(super) fn take_leave(&mut self, cx: &mut Cx<'_>, key: Key) {
        let Some(stage) = self.stage(key) else { return };
        match stage {
            Stage::RequestSent => {
                let _ = self.send_rej(cx, key, reject::TIMEOUT, Vec::new());
            }
            Stage::RequestReceived | Stage::ReplySent | Stage::ReplyReceived => {
                let _ = self.send_rej(cx, key, reject::CONSUMER_DEFINED, Vec::new());
            }
            Stage::Established => {
                self.send_dreq(cx, key);
                if let Ok(connection) = self.connection(key) {
                    cx.host.qp_gone(connection.qpn);
                }
            }
            Stage::DisconnectReceived => self.send_drep(cx, key),
            Stage::ServiceRequestSent => self.take_back_sidr_req(key),
            Stage::ServiceRequestReceived => {
                let _ = self.reject_service(cx, key, Vec::new());
            }
            Stage::DisconnectSent | Stage::TimeWait | Stage::Over => {}
        }
    }
}
