//! Requests that wait, and for what.

use std::mem;

use super::STALL_NS;
use crate::reason::{Peer, Reason};

/// A request that waits, at the head of its queue pair's send queue.
#[derive(Debug)]
pub(super) struct Stalled {
    pub(super) wr_id: u64,
    pub(super) process: u32,
    pub(super) since: u64,
    /// What it waits for, and since when.
    reason: (Reason, u64),
    /// What it has waited for the longest before, and for how many nanoseconds.
    before: Option<(Reason, u64)>,
    /// That it waits was told.
    pub(super) is_told: bool,
}

impl Stalled {
    /// One that begins to wait at a time.
    pub(super) fn new(wr_id: u64, process: u32, t: u64, reason: &Reason) -> Self {
        let reason = (reason.clone(), t);
        Self { wr_id, process, since: t, reason, before: None, is_told: false }
    }

    /// At a time it waits for something else: the peer posts no receive, and then it ends.
    pub(super) fn becomes(&mut self, t: u64, reason: &Reason) {
        let (last, since) = &mut self.reason;
        if mem::discriminant(last) != mem::discriminant(reason) {
            let lasted = t.saturating_sub(*since);
            if self.before.as_ref().is_none_or(|(_, longest)| lasted > *longest) {
                self.before = Some((last.clone(), lasted));
            }
            *since = t;
        }
        last.clone_from(reason);
    }

    /// Whether it has waited for a moment only, and for memory that cannot be reached.
    pub(super) fn is_out_of_reach(&self, t: u64) -> bool {
        let (reason, _) = self.reason_at(t);
        let is_unreachable = matches!(reason, Reason::NoResponse { peer: Peer::Unreachable, .. });
        is_unreachable && t.saturating_sub(self.since) < STALL_NS
    }

    /// What it waits for at a time: what it has waited for the longest, and what that has become at last, and for how
    /// many nanoseconds.
    pub(super) fn reason_at(&self, t: u64) -> (&Reason, Option<(&Reason, u64)>) {
        let (last, since) = &self.reason;
        let lasted = t.saturating_sub(*since);
        match &self.before {
            Some((reason, longest)) if *longest > lasted => (reason, Some((last, lasted))),
            _ => (last, None),
        }
    }
}
