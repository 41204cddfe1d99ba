//! Probes: the oldest unacknowledged packet is sent once more before the ACK timeout, as TCP's tail
//! loss probe is (RFC 8985).
//!
//! A responder sends a NAK for a lost packet as soon as the next one arrives. No NAK comes if nothing
//! follows, if the ACK or NAK itself is lost, or if the retransmitted packet is lost again (a NAK is
//! sent once). Then only a timeout helps, and programs choose long ones: connections of the
//! connection manager have two seconds. So adapters begin with short timeouts and double them up to
//! the attribute's (NVIDIA's "adaptive retransmission", on by default), and so does this, with one
//! packet at a time: a peer that is merely slow gets few duplicates. `retry_cnt` is not used up.

use serde::{Deserialize, Serialize};
/// The first wait: much longer than a round trip, unless processors are busy.
pub(super) const FIRST_NS: u64 = 4096 << 10;

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
    pub(super) fn begin(now_ns: u64, timeout_ns: u64) -> Probe {
        if FIRST_NS < timeout_ns { Probe::wait(now_ns, FIRST_NS) } else { Probe::Off }
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
        const FAR: u64 = 1 << 61;
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
