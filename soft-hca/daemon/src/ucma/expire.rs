//! Deadlines that have come.

use soft_hca_core::errno::Errno;
use soft_hca_core::uapi::ucma::event_type;

use super::cm::Cm;
use super::connection::ConnectionState;
use super::host::{Cx, Host};
use super::id::Key;
use super::timer::{Due, MAX_RETRIES, Timer};

impl Cm {
    /// When to call [`run_timers`](Self::run_timers) next.
    pub(crate) fn next_timer(&self) -> Option<u64> {
        self.timers.first()
    }

    /// When an event that is put off can be fetched, by the clock of what is.
    pub(crate) fn next_late(&self) -> Option<u64> {
        self.files.next_late()
    }

    /// Does what is due.
    pub(crate) fn run_timers(&mut self, host: &mut dyn Host, now_ns: u64) {
        let cx = &mut self.at(host, now_ns);
        while let Some(due) = self.timers.take_due(now_ns) {
            self.expire(cx, due);
            self.deliver(cx);
        }
        self.files.take_late(now_ns);
    }

    fn expire(&mut self, cx: &mut Cx<'_>, due: Due) {
        match due {
            Due::Id(key) => self.expire_id(cx, key),
            Due::PendingRequest(remote) => self.nobody_listens(cx, remote),
            Due::DreqSent(comm_id) => {
                let Self { dreqs_sent, timers, messages, .. } = self;
                dreqs_sent.again(timers, messages, cx.now_ns, comm_id);
            }
            Due::TimeWait(remote) => self.connections.timewait_over(remote),
        }
    }

    fn expire_id(&mut self, cx: &mut Cx<'_>, key: Key) {
        match self.ids.get_mut(key).and_then(|id| id.timer.take()) {
            Some((_, Timer::Address)) => self.address_unknown(key),
            Some((_, Timer::Neighbour(query))) => self.look_for(cx, key, query),
            Some((_, Timer::Answer)) => self.unanswered(cx, key),
            Some((_, Timer::TimeWait)) => self.time_wait_over(key),
            None => {}
        }
    }

    /// Nothing has come in time.
    fn unanswered(&mut self, cx: &mut Cx<'_>, key: Key) {
        let Ok(connection) = self.ids.connection_mut(key) else { return };
        if connection.unanswered.is_some() && connection.retries < MAX_RETRIES {
            connection.retries += 1;
            self.wait_for_answer(cx, key);
            if self.is_sent_again(cx, key) {
                self.send_again(key);
            }
            return;
        }
        connection.unanswered = None;
        match connection.state {
            ConnectionState::ReqSent | ConnectionState::RepSent => {
                connection.state = ConnectionState::Over;
                self.push(key, event_type::UNREACHABLE, -Errno::ETIMEDOUT.number());
            }
            ConnectionState::SidrReqSent => self.service_unknown(key),
            ConnectionState::DreqSent => self.disconnection_unanswered(cx, key),
            _ => {}
        }
    }
}
