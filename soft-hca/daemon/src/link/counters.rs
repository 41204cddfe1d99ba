//! What the link has sent and received, and why it has dropped packets.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Drop {
    /// No packet: too short or long, an unknown opcode.
    Malformed,
    /// A wrong ICRC.
    Icrc,
    /// Another partition.
    Partition,
    /// No such queue pair, another type, not in a state to receive, or a datagram that nobody
    /// takes.
    QueuePair,
    /// Not from the address that the queue pair is connected to.
    Address,
    /// The system does not send it: too long, or there is no route.
    Unsendable,
}

const NAMES: [&str; 6] =
    ["malformed", "wrong ICRC", "other partition", "no receiver", "wrong address", "not sendable"];

/// Counters of a link.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub sent: AtomicU64,
    pub received: AtomicU64,
    dropped: [AtomicU64; NAMES.len()],
}

impl Counters {
    pub(super) fn count(&self, reason: Drop) {
        self.dropped[reason as usize].fetch_add(1, Relaxed);
    }

    #[cfg(test)]
    pub(super) fn dropped(&self, reason: Drop) -> u64 {
        self.dropped[reason as usize].load(Relaxed)
    }
}

impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sent, received) = (self.sent.load(Relaxed), self.received.load(Relaxed));
        write!(f, "{sent} packets sent, {received} received")?;
        for (name, count) in NAMES.iter().zip(&self.dropped) {
            match count.load(Relaxed) {
                0 => {}
                count => write!(f, ", {count} dropped ({name})")?,
            }
        }
        Ok(())
    }
}
