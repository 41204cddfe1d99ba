//! When the oldest packet is sent once more although the time to wait for its answer is not over.
//!
//! A responder asks for a lost packet as soon as another arrives behind it. Nobody asks if nothing
//! follows, if the acknowledgement or the NAK is lost, or the packet is lost again when it is sent
//! again (a NAK comes once). Then only time helps, and programs choose it long: connections of the
//! manager wait two seconds. So adapters begin with short waits and double them up to the
//! attribute's (NVIDIA's "adaptive retransmission", on unless it is switched off), and so does this,
//! with one packet at a time: a peer that is merely slow gets little twice. `retry_cnt` is not touched.

/// The first wait: much longer than an answer takes, unless processors are busy.
pub(super) const FIRST_NS: u64 = 4096 << 10;

/// The state of what is sent early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Probe {
    Off,
    /// At this time, after so long a wait.
    Waiting {
        at: u64,
        wait_ns: u64,
    },
    /// As soon as the network takes it, after so long a wait.
    Due {
        wait_ns: u64,
    },
}

impl Probe {
    /// Something was sent, or answered, and the next answer may take `timeout_ns`.
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

    pub(super) fn is_due(self) -> bool {
        matches!(self, Probe::Due { .. })
    }

    /// The packet was sent: the next wait is twice as long.
    pub(super) fn sent(&mut self, now_ns: u64) {
        if let Probe::Due { wait_ns } = *self {
            *self = Probe::wait(now_ns, 2 * wait_ns);
        }
    }
}
