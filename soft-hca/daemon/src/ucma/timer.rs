//! Deadlines, and how long things take.

use std::collections::BTreeSet;
use std::net::IpAddr;

use soft_hca_roce::wire::cm::CommId;

use super::id::Key;
use super::peer::RemoteId;

/// The owner of a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// An id's.
    Id(Key),
    /// A request's that nobody listens for yet.
    PendingRequest(RemoteId),
    /// A request's whose connection is over.
    TimeWait(RemoteId),
    /// A DREQ's whose id has gone.
    DreqSent(CommId),
}

/// An address whose neighbour is being asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NeighbourQuery {
    /// The own address on the way there.
    pub(super) from: IpAddr,
    /// When it counts as unknown.
    pub(super) until_ns: u64,
    /// The time between two looks.
    pub(super) wait_ns: u64,
}

/// The purpose of an id's deadline.
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

/// Life time of packets on RoCE (`CMA_IBOE_PACKET_LIFETIME`).
pub(super) const PACKET_LIFE_TIME: u8 = 18;
/// How long the adapter takes to acknowledge: rxe's `local_ca_ack_delay`.
pub(super) const ACK_DELAY: u8 = 15;
/// The acknowledgement timeout where nobody has chosen one.
pub(super) const ACK_TIMEOUT: u8 = ack_timeout(ACK_DELAY, PACKET_LIFE_TIME);

/// The timeout that covers a packet, its acknowledgement and an adapter's delay, all of them powers of
/// two (`cm_ack_timeout`).
pub(super) const fn ack_timeout(ack_delay: u8, packet_life_time: u8) -> u8 {
    let both_ways = packet_life_time + 1;
    let (more, less) =
        if both_ways >= ack_delay { (both_ways, ack_delay) } else { (ack_delay, both_ways) };
    let timeout = if less + 1 >= more { more + 1 } else { more };
    if timeout > 31 { 31 } else { timeout }
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

/// All deadlines.
#[derive(Debug, Default)]
pub(super) struct Timers(BTreeSet<(u64, Due)>);

impl Timers {
    pub(super) fn set(&mut self, at_ns: u64, due: Due) {
        self.0.insert((at_ns, due));
    }

    pub(super) fn cancel(&mut self, at_ns: u64, due: Due) {
        self.0.remove(&(at_ns, due));
    }

    /// The first deadline.
    pub(super) fn first(&self) -> Option<u64> {
        self.0.first().map(|(at_ns, _)| *at_ns)
    }

    /// Takes the first deadline, if it has come.
    pub(super) fn take_due(&mut self, now_ns: u64) -> Option<Due> {
        self.first().filter(|at_ns| *at_ns <= now_ns)?;
        self.0.pop_first().map(|(_, due)| due)
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn contains(&self, at_ns: u64, due: Due) -> bool {
        self.0.contains(&(at_ns, due))
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
