//! How long a request that cannot be executed waits: the timers of `rxe_comp.c`, in nanoseconds.

use std::sync::atomic::Ordering::Acquire;

use soft_hca_roce::transport::timers::{ack_timeout_ns, rnr_wait_ns};

use crate::arena::Qp;

/// `rnr_retry` that means "for ever".
const FOR_EVER: u32 = 7;

/// How long a request may wait for a receive of the peer in all; `None` for ever.
pub(super) fn rnr_limit_ns(requester: &Qp, responder_timer: u32) -> Option<u64> {
    let retries = requester.rnr_retry.load(Acquire);
    (retries < FOR_EVER).then(|| u64::from(retries) * rnr_wait_ns(responder_timer as u8))
}

/// How long a request may wait for a peer that does not answer; `None` for ever. A `retry_cnt` of
/// 7 is seven retries, as specified, where rxe never gives up.
pub(super) fn ack_limit_ns(requester: &Qp) -> Option<u64> {
    let timer = requester.ack_timer();
    let retries = requester.retry_cnt.load(Acquire) as u8 & 7;
    if timer.floor != 0 {
        return timer.limit_ns(retries);
    }
    Some((u64::from(retries) + 1) * ack_timeout_ns(timer.timeout)?)
}

/// How long a request waits for a free entry of a completion queue: time enough for a program that has
/// much else to do to poll.
pub(super) const CQ_FULL_NS: u64 = 2_000_000_000;

/// The daemon tries a queue that somebody else is executing again after so long.
pub(super) const DAEMON_BUSY_NS: u64 = 1_000_000;

/// The first wait before the daemon looks again.
const FIRST_RETRY_NS: u64 = 32_000;
/// The longest.
const LAST_RETRY_NS: u64 = 8_192_000;

/// The wait before attempt `attempt`: nobody tells when a receive has been posted, so the daemon
/// looks, ever more rarely. The message is then late by no more than half of what it has waited
/// anyway.
pub(super) fn retry_after_ns(attempt: u32) -> u64 {
    (FIRST_RETRY_NS << (attempt / 2).min(16)).min(LAST_RETRY_NS)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Release;

    use super::*;
    use crate::arena::Mapping;

    #[test]
    fn limits_are_as_measured() {
        let ms = 1_000_000;
        let arena = Mapping::create().unwrap();
        let qp = &arena.qps[0];
        qp.rnr_retry.store(1, Release);
        assert_eq!(rnr_limit_ns(qp, 26), Some(8192 * ms / 100));
        assert_eq!(rnr_limit_ns(qp, 0), Some(65536 * ms / 100));
        qp.rnr_retry.store(0, Release);
        assert_eq!(rnr_limit_ns(qp, 26), Some(0));
        qp.rnr_retry.store(7, Release);
        assert_eq!(rnr_limit_ns(qp, 26), None);
        // (timeout, retry_cnt) and milliseconds measured
        for (timeout, retries, measured) in
            [(14, 1, 135), (14, 6, 470), (16, 3, 1140), (18, 2, 3260)]
        {
            qp.timeout.store(timeout, Release);
            qp.retry_cnt.store(retries, Release);
            let limit = ack_limit_ns(qp).unwrap() / ms;
            assert!(limit.abs_diff(measured) * 14 <= measured, "{limit} {measured}");
        }
        // Like ConnectX-5, retry_cnt 7: 3.50 to 3.76 s
        qp.timeout.store(14, Release);
        qp.retry_cnt.store(7, Release);
        qp.timeout_floor.store(16, Release);
        assert!((3500..3760).contains(&(ack_limit_ns(qp).unwrap() / ms)));
        qp.timeout.store(0, Release);
        assert_eq!(ack_limit_ns(qp), None);
    }

    #[test]
    fn retries_become_rarer() {
        assert_eq!(retry_after_ns(0), FIRST_RETRY_NS);
        assert_eq!(retry_after_ns(u32::MAX), LAST_RETRY_NS);
        let mut waited = retry_after_ns(0) + retry_after_ns(1);
        for attempt in 2..100 {
            let next = retry_after_ns(attempt);
            assert!(next >= retry_after_ns(attempt - 1));
            assert!(next <= waited / 2 + FIRST_RETRY_NS, "{attempt}");
            waited += next;
        }
    }
}
