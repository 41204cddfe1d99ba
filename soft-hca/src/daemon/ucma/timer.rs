//! Deadlines. An id has one at most.

use super::id::Key;
use super::peer::RemoteId;
use super::{Cm, Cx};

/// Whose deadline it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// An id's.
    Id(Key),
    /// A request's that nobody listens for yet.
    Early(RemoteId),
}

/// What is to happen at an id's deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// Nobody has the address asked for.
    Address,
    /// Nobody has answered a connection request.
    Request,
    /// Nobody has answered a datagram service request.
    Service,
    /// Nobody has answered a disconnection.
    Disconnection,
    /// A connection's packets are no longer under way.
    TimeWait,
}

/// How long the connection manager waits for an answer before it sends again: 4.096 us times two
/// to the power of `CMA_CM_RESPONSE_TIMEOUT`.
pub(super) const RESPONSE_NS: u64 = 4096 << 20;
/// How often it sends again (`CMA_MAX_CM_RETRIES`).
pub(super) const MAX_RETRIES: u32 = 15;
/// How long a request waits for somebody to listen before it is refused. The kernel refuses at
/// once, but takes milliseconds to bring a request there; programs such as perftest, whose client
/// connects before its server listens, live on that.
pub(super) const LISTENER_NS: u64 = 250_000_000;
/// How long an answer may take that a MRA has announced (`CMA_CM_MRA_SETTING`), as a message has
/// it.
pub(super) const SERVICE_TIMEOUT: u8 = 24;
/// When it gives up.
pub(super) const GIVE_UP_NS: u64 = RESPONSE_NS * (MAX_RETRIES as u64 + 1);
/// How long a disconnected id waits: two to the power of (acknowledgement timeout 19 - 8)
/// milliseconds, as `cm_convert_to_ms` has it.
pub(super) const TIME_WAIT_NS: u64 = 2_048_000_000;

impl Cm {
    /// Sets an id's deadline, in the place of one that it may have.
    pub(super) fn set_timer(&mut self, key: Key, at_ns: u64, timer: Timer) {
        self.cancel_timer(key);
        if let Some(id) = self.ids.get_mut(&key) {
            id.timer = Some((at_ns, timer));
            self.timers.insert((at_ns, Due::Id(key)));
        }
    }

    pub(super) fn cancel_timer(&mut self, key: Key) {
        let timer = self.ids.get_mut(&key).and_then(|id| id.timer.take());
        if let Some((at_ns, _)) = timer {
            self.timers.remove(&(at_ns, Due::Id(key)));
        }
    }

    /// Does what is due.
    pub(super) fn expire(&mut self, cx: &mut Cx<'_>) {
        while let Some(&(at_ns, due)) = self.timers.first()
            && at_ns <= cx.now_ns
        {
            self.timers.remove(&(at_ns, due));
            let key = match due {
                Due::Id(key) => key,
                Due::Early(remote) => {
                    self.nobody_listens(cx, remote);
                    continue;
                }
            };
            match self.ids.get_mut(&key).and_then(|id| id.timer.take()) {
                Some((_, Timer::Address)) => self.address_unknown(key),
                Some((_, Timer::Request)) => self.request_again(cx, key),
                Some((_, Timer::Service)) => self.service_unknown(key),
                Some((_, Timer::Disconnection)) => self.disconnection_unanswered(cx, key),
                Some((_, Timer::TimeWait)) => self.time_wait_over(key),
                None => {}
            }
        }
    }
}
