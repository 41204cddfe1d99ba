//! Deadlines. An id has one at most.

use soft_hca_roce::wire::cm::CommId;

use super::id::Key;
use super::peer::RemoteId;
use super::query::PACKET_LIFE_TIME;
use super::resolve::NeighbourQuery;
use super::{Cm, Cx, FileId};

/// Whose deadline it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// An id's.
    Id(Key),
    /// A request's that nobody listens for yet.
    PendingRequest(RemoteId),
    /// That of a request whose connection is over.
    TimeWait(RemoteId),
    /// That of a DREQ whose id has gone.
    DreqSent(CommId),
    /// An event's that comes late.
    Event(FileId),
}

/// What is to happen at an id's deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// The address is not resolved.
    Address,
    /// To look again whether a neighbour is known.
    Neighbour(NeighbourQuery),
    /// A message is not answered.
    Answer,
    /// A connection's packets are no longer under way.
    TimeWait,
}

/// How long the connection manager waits for an answer before it retransmits, as a message has it:
/// 4.096 us times two to the power of this (`CMA_CM_RESPONSE_TIMEOUT`).
pub(super) const RESPONSE_TIMEOUT: u8 = 20;
/// The same in nanoseconds.
pub(super) const RESPONSE_NS: u64 = 4096 << RESPONSE_TIMEOUT;
/// The same between hosts, where `cm_convert_to_ms` takes it for milliseconds.
pub(super) const REMOTE_RESPONSE_NS: u64 = cm_timeout_ns(RESPONSE_TIMEOUT);
/// How long a packet is under way (`CMA_IBOE_PACKET_LIFETIME`).
pub(super) const PACKET_LIFE_NS: u64 = cm_timeout_ns(PACKET_LIFE_TIME);
/// How many times it retransmits (`CMA_MAX_CM_RETRIES`).
pub(super) const MAX_RETRIES: u8 = 15;
/// How long a request waits for a listener before it is refused. The kernel refuses at
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

/// A timeout as messages have it: two to the power of (8 less) milliseconds, at least one
/// (`cm_convert_to_ms`).
pub(super) const fn cm_timeout_ns(timeout: u8) -> u64 {
    1_000_000 << timeout.saturating_sub(8)
}

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
        while let Some(&(at_ns, due)) = self.timers.first() {
            if at_ns > cx.now_ns {
                break;
            }
            self.timers.remove(&(at_ns, due));
            let key = match due {
                Due::Id(key) => key,
                Due::PendingRequest(remote) => {
                    self.nobody_listens(cx, remote);
                    continue;
                }
                Due::DreqSent(comm_id) => {
                    self.dreq_again(cx, comm_id);
                    continue;
                }
                Due::TimeWait(remote) => {
                    self.forget_timewait(remote);
                    continue;
                }
                Due::Event(file) => {
                    self.events_have_come(file);
                    continue;
                }
            };
            match self.ids.get_mut(&key).and_then(|id| id.timer.take()) {
                Some((_, Timer::Address)) => self.address_unknown(key),
                Some((_, Timer::Neighbour(query))) => self.look_for(cx, key, query),
                Some((_, Timer::Answer)) => self.unanswered(cx, key),
                Some((_, Timer::TimeWait)) => self.time_wait_over(key),
                None => {}
            }
        }
    }
}
