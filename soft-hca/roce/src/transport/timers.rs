//! The times of a reliable connection, in nanoseconds.

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

/// How long to wait for an acknowledgement after `missed` timeouts in a row, with `left` more
/// retries after this wait: 1, 2, 4, 4 ... times [`ack_timeout_ns`], and 4 times if it is the last.
///
/// The first wait is as short as the specification allows, so that a lost packet is retransmitted
/// soon. The others give a peer whose processor is busy time to respond, and after the last one
/// nothing is retransmitted that would make it worth being quick.
pub fn ack_wait_ns(timeout: u8, missed: u8, left: u8) -> Option<u64> {
    let factor = match (missed, left) {
        (_, 0) => 4,
        (0, _) => 1,
        (1, _) => 2,
        _ => 4,
    };
    Some(factor * ack_timeout_ns(timeout)?)
}

/// How long a peer may be silent before a connection with these attributes fails; `None` if it does
/// not.
#[cfg(test)]
pub(super) fn most_silence_ns(timeout: u8, retry_cnt: u8) -> Option<u64> {
    (0..=retry_cnt).map(|missed| ack_wait_ns(timeout, missed, retry_cnt - missed)).sum()
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
            let wait = |missed| ack_wait_ns(1, missed, retry_cnt - missed).unwrap() / 8192;
            (0..=retry_cnt).map(wait).collect()
        };
        assert_eq!(waits(0), [4]);
        assert_eq!(waits(1), [1, 4]);
        assert_eq!(waits(2), [1, 2, 4]);
        assert_eq!(waits(7), [1, 2, 4, 4, 4, 4, 4, 4]);
        assert_eq!(ack_wait_ns(0, 0, 7), None);
        // Of `ibv_rc_pingpong`: 1.8 seconds.
        assert_eq!(most_silence_ns(14, 7), Some(1_811_939_328));
    }
}
