//! Probes: the oldest unacknowledged packet is sent once more before the ACK timeout, as TCP's tail
//! loss probe is (RFC 8985).
//!
//! A responder sends a NAK for a lost packet as soon as the next one arrives. No NAK comes if nothing
//! follows, if the ACK or NAK itself is lost, or if the retransmitted packet is lost again (a NAK is
//! sent once). Then only a timeout helps, and programs choose long ones: connections of the
//! connection manager have two seconds. So adapters begin with short timeouts and double them up to
//! the attribute's (NVIDIA's "adaptive retransmission", on by default), and so does this, with one
//! packet at a time: a peer that is merely slow gets few duplicates. One that is always slow gets none,
//! as the first wait depends on how long it has been silent before. `retry_cnt` is not used up.

use serde::{Deserialize, Serialize};

/// The shortest first wait: much longer than a round trip, unless processors are busy.
pub(super) const FIRST_NS: u64 = 4096 << 10;
/// The longest one. Lost packets make the peer's silence longer, too, and that must not go on for ever.
pub(super) const LAST_FIRST_NS: u64 = FIRST_NS << 4;

/// How long the peer is silent before it acknowledges something, smoothed as the round-trip time of TCP
/// is (RFC 6298, 2.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Silence {
    since: u64,
    smoothed_ns: u64,
}

impl Silence {
    /// Something is unacknowledged from now on.
    pub(super) fn begins(&mut self, now_ns: u64) {
        self.since = now_ns;
    }

    /// Something was acknowledged.
    pub(super) fn ends(&mut self, now_ns: u64) {
        let silent_ns = now_ns.saturating_sub(self.since);
        self.smoothed_ns = self.smoothed_ns - self.smoothed_ns / 8 + silent_ns / 8;
    }

    /// How long to wait before the first probe.
    fn first_wait_ns(self) -> u64 {
        (2 * self.smoothed_ns).clamp(FIRST_NS, LAST_FIRST_NS)
    }

    /// Whether its times are none that are too far away to count with.
    pub(super) fn is_possible(self) -> bool {
        self.since < FAR && self.smoothed_ns < FAR
    }
}

const FAR: u64 = 1 << 61;

/// When the next probe is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Probe {
    Off,
    /// At this time, which is so long after the last one.
    Waiting {
        at: u64,
        wait_ns: u64,
    },
    /// As soon as the port has room, which is at least so long after the last one.
    Due {
        wait_ns: u64,
    },
}

impl Probe {
    /// The ACK timer was started, with this timeout.
    pub(super) fn begin(now_ns: u64, timeout_ns: u64, silence: Silence) -> Probe {
        let wait_ns = silence.first_wait_ns();
        if wait_ns < timeout_ns { Probe::wait(now_ns, wait_ns) } else { Probe::Off }
    }

    fn wait(now_ns: u64, wait_ns: u64) -> Probe {
        Probe::Waiting { at: now_ns + wait_ns, wait_ns }
    }

    /// When [`Probe::on_timer`] is to be called.
    pub(super) fn deadline(self) -> Option<u64> {
        match self {
            Probe::Waiting { at, .. } => Some(at),
            Probe::Off | Probe::Due { .. } => None,
        }
    }

    pub(super) fn on_timer(&mut self, now_ns: u64) {
        match *self {
            Probe::Waiting { at, wait_ns } if at <= now_ns => *self = Probe::Due { wait_ns },
            Probe::Off | Probe::Waiting { .. } | Probe::Due { .. } => {}
        }
    }

    /// Whether its times are none that are too far away to count with.
    pub(super) fn is_possible(self) -> bool {
        match self {
            Probe::Off => true,
            Probe::Waiting { at, wait_ns } => at < FAR && wait_ns < FAR,
            Probe::Due { wait_ns } => wait_ns < FAR,
        }
    }

    pub(super) fn is_due(self) -> bool {
        matches!(self, Probe::Due { .. })
    }

    /// A probe was sent: the next wait is twice as long.
    pub(super) fn sent(&mut self, now_ns: u64) {
        if let Probe::Due { wait_ns } = *self {
            *self = Probe::wait(now_ns, 2 * wait_ns);
        }
    }
}
