//! The end of connections: disconnection, time wait, and ids that go without a word.

use super::connect::Stage;
use super::id::{Key, State};
use super::timer::{GIVE_UP_NS, TIME_WAIT_NS, Timer};
use super::{Call, Cm, Cx, NOTHING};
use crate::errno::{Errno, Result};
use crate::uapi::ucma::{disconnect_id, event_type, reject};

impl Cm {
    pub(super) fn disconnect(&mut self, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Vec<u8>> {
        let key = self.find_with_device(call.file, disconnect_id(call.payload)?)?;
        if self.id(key)?.is_datagram {
            return Err(Errno::EINVAL);
        }
        match self.stage(key).ok_or(Errno::EINVAL)? {
            Stage::Established => {
                self.set_stage(key, Stage::DisconnectSent);
                let at_ns = cx.now_ns.saturating_add(GIVE_UP_NS);
                self.set_timer(key, at_ns, Timer::Disconnection);
                if let Some(peer) = self.peer(key) {
                    self.disconnect_received(peer);
                }
            }
            Stage::DisconnectReceived => self.answer_disconnect(cx, key),
            // Whatever else there was is over already or will be; the kernel says yes too.
            _ => {}
        }
        NOTHING
    }

    fn disconnect_received(&mut self, key: Key) {
        if let Some(Stage::Established | Stage::ReplySent | Stage::DisconnectSent) = self.stage(key)
        {
            self.cancel_timer(key);
            self.set_stage(key, Stage::DisconnectReceived);
            self.disconnected(key, 0);
        }
    }

    fn answer_disconnect(&mut self, cx: &mut Cx<'_>, key: Key) {
        self.enter_time_wait(cx, key);
        if let Some(peer) = self.peer(key)
            && self.stage(peer) == Some(Stage::DisconnectSent)
        {
            self.enter_time_wait(cx, peer);
            self.disconnected(peer, 0);
        }
    }

    pub(super) fn disconnection_unanswered(&mut self, cx: &mut Cx<'_>, key: Key) {
        self.enter_time_wait(cx, key);
        self.disconnected(key, -Errno::ETIMEDOUT.0);
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
                let _ = self.send_reject(cx, key, reject::TIMEOUT, &[]);
            }
            Stage::RequestReceived | Stage::ReplySent | Stage::ReplyReceived => {
                let _ = self.send_reject(cx, key, reject::CONSUMER_DEFINED, &[]);
            }
            Stage::Established => {
                if let Some(peer) = self.peer(key) {
                    self.disconnect_received(peer);
                }
                if let Ok(connection) = self.connection_mut(key) {
                    cx.host.qp_gone(connection.qpn);
                }
            }
            Stage::DisconnectReceived => self.answer_disconnect(cx, key),
            Stage::ServiceRequestReceived => {
                let _ = self.reject_service(key, &[]);
            }
            Stage::DisconnectSent | Stage::TimeWait | Stage::ServiceRequestSent | Stage::Over => {}
        }
    }
}
