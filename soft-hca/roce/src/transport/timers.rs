//! The times of a reliable connection, in nanoseconds.

use serde::{Deserialize, Serialize};

use crate::wire::headers;

/// How long a requester waits after an RNR NAK with this timer code. Only the low
/// five bits count.
pub fn rnr_wait_ns(code: u8) -> u64 {
    headers::rnr_delay(code).as_micros() as u64 * 1000
}

/// The local ACK timeout of the attribute `timeout`; `None` if it never expires. Only the low five
/// bits count. A request may be retransmitted when it is unacknowledged for one to four times as long:
/// IBTA volume 1, 9.7.6.1.3.
pub fn ack_timeout_ns(timeout: u8) -> Option<u64> {
    let exponent = timeout & 31;
    (exponent != 0).then(|| 4096 << exponent)
}

/// How long a requester waits for an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AckTimer {
    /// Local ACK timeout, see [`ack_timeout_ns`].
    pub timeout: u8,
    /// 0, or the least `timeout` that an adapter's firmware goes by, whose times were measured.
    pub floor: u8,
}

impl AckTimer {
    /// Without a floor.
    pub const fn new(timeout: u8) -> Self {
        Self { timeout, floor: 0 }
    }

    /// How long to wait after `missed` timeouts in a row, with `left` more retries after this wait. `None` is for ever.
    ///
    /// Without a floor that is 1, 2, 4, 4 ... times [`ack_timeout_ns`], and 4 times if it is the last: the first wait is
    /// as short as the specification allows, so that a lost packet is retransmitted soon. The others give a peer whose
    /// processor is busy time to respond, and after the last one nothing is retransmitted that would make it worth
    /// being quick.
    ///
    /// With a floor that is twice the timeout, but for the first two: ConnectX-5 and 6 use up a retry by a schedule of
    /// their own at first, which took 1.5 to 1.9 timeouts, and retry each two of them after that.
    pub fn wait_ns(self, missed: u8, left: u8) -> Option<u64> {
        let timeout = ack_timeout_ns(self.timeout)?;
        if self.floor != 0 {
            let least = ack_timeout_ns(self.floor).unwrap_or(timeout).max(timeout);
            return Some(if missed < 2 { least / 5 * 4 } else { 2 * least });
        }
        let factor = match (missed, left) {
            (_, 0) => 4,
            (0, _) => 1,
            (1, _) => 2,
            _ => 4,
        };
        Some(factor * timeout)
    }

    /// How long a peer may be silent before a connection with so many retries fails; `None` if it does not.
    pub fn limit_ns(self, retry_cnt: u8) -> Option<u64> {
        (0..=retry_cnt).map(|missed| self.wait_ns(missed, retry_cnt - missed)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_tables() {
        assert_eq!(rnr_wait_ns(0), 655_360_000);
        assert_eq!(rnr_wait_ns(1), 10_000);
        assert_eq!(rnr_wait_ns(31), 491_520_000);
        assert_eq!(ack_timeout_ns(0), None);
        assert_eq!(ack_timeout_ns(14), Some(67_108_864));
        assert_eq!(ack_timeout_ns(31), Some(8_796_093_022_208));
    }

    #[test]
    fn waits_grow_within_what_is_allowed() {
        let waits = |retry_cnt: u8| -> Vec<u64> {
            let wait =
                |missed| AckTimer::new(1).wait_ns(missed, retry_cnt - missed).unwrap() / 8192;
            (0..=retry_cnt).map(wait).collect()
        };
        assert_eq!(waits(0), [4]);
        assert_eq!(waits(1), [1, 4]);
        assert_eq!(waits(2), [1, 2, 4]);
        assert_eq!(waits(7), [1, 2, 4, 4, 4, 4, 4, 4]);
        assert_eq!(AckTimer::new(0).wait_ns(0, 7), None);
        // Of `ibv_rc_pingpong`: 1.8 seconds.
        assert_eq!(AckTimer::new(14).limit_ns(7), Some(1_811_939_328));
    }

    #[test]
    fn an_adapters_times_are_as_measured() {
        let seconds =
            |timeout, floor| AckTimer { timeout, floor }.limit_ns(7).map(|ns| ns as f64 / 1e9);
        // ConnectX-5 and 6: 3.50 to 3.76 s whatever the timeout below 17, and 58.5 to 59.8 s.
        for timeout in [8, 10, 12, 14, 15, 16] {
            let limit = seconds(timeout, 16).unwrap();
            assert!((3.50..3.76).contains(&limit), "{timeout}: {limit}");
        }
        let limit = seconds(20, 16).unwrap();
        assert!((58.0..59.8).contains(&limit), "{limit}");
        assert_eq!(seconds(0, 16), None);
    }
}
