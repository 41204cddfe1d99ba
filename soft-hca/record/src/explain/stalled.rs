//! Requests that wait, and their reasons.

use std::mem;

use soft_hca_verbs::cause::{Cause, Peer};

/// The least time, in nanoseconds, after which a wait is reported: programs that keep up wait now and then.
pub(super) const STALL_NS: u64 = 1_000_000_000;

/// A request that waits, at the head of its queue pair's send queue.
#[derive(Debug)]
pub(super) struct Stalled {
    pub(super) wr_id: u64,
    pub(super) process: u32,
    pub(super) since: u64,
    /// The reason why it waits, and the time since which it does.
    reason: (Cause, u64),
    /// The reason that has lasted longest before, and its nanoseconds.
    before: Option<(Cause, u64)>,
    /// Whether the wait was reported.
    pub(super) is_told: bool,
}

impl Stalled {
    /// A request that begins to wait at a time.
    pub(super) fn new(wr_id: u64, process: u32, t: u64, reason: &Cause) -> Self {
        let reason = (*reason, t);
        Self { wr_id, process, since: t, reason, before: None, is_told: false }
    }

    /// Takes note of another reason at a time, such as a peer that posts no receive, and then ends.
    pub(super) fn becomes(&mut self, t: u64, reason: &Cause) {
        let (last, since) = &mut self.reason;
        if mem::discriminant(last) != mem::discriminant(reason) {
            let lasted = t.saturating_sub(*since);
            if self.before.as_ref().is_none_or(|(_, longest)| lasted > *longest) {
                self.before = Some((*last, lasted));
            }
            *since = t;
        }
        *last = *reason;
    }

    /// Whether it has waited for a moment only, and for memory that cannot be reached.
    pub(super) fn is_out_of_reach(&self, t: u64) -> bool {
        let (reason, _) = self.reason_at(t);
        let is_unreachable = matches!(reason, Cause::NoResponse { peer: Peer::Unreachable, .. });
        is_unreachable && t.saturating_sub(self.since) < STALL_NS
    }

    /// The reason at a time: the one that has lasted longest, and the last one, with its nanoseconds, if that is
    /// another.
    pub(super) fn reason_at(&self, t: u64) -> (&Cause, Option<(&Cause, u64)>) {
        let (last, since) = &self.reason;
        let lasted = t.saturating_sub(*since);
        match &self.before {
            Some((reason, longest)) if *longest > lasted => (reason, Some((last, lasted))),
            _ => (last, None),
        }
    }
}
