//! The two times of a reliable connection, in nanoseconds.

use crate::wire::headers;

/// How long a requester waits after a receiver-not-ready NAK with this timer code. Only the low
/// five bits count.
pub fn rnr_wait_ns(code: u8) -> u64 {
    headers::rnr_delay(code).as_micros() as u64 * 1000
}

/// How long a request may remain unanswered before it is sent again; `None` for ever. Only the low
/// five bits count. IBTA volume 1, 9.7.6.1.3.
pub fn ack_timeout_ns(timeout: u8) -> Option<u64> {
    let exponent = timeout & 31;
    (exponent != 0).then(|| 4096 << exponent)
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
}
