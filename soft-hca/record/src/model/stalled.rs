//! Requests that wait, and their reasons.

use std::mem;
use std::sync::Arc;

use soft_hca_verbs::cause::{Cause, Peer};

use crate::place::Place;

/// The least time, in nanoseconds, after which a wait is reported: programs that keep up wait now and then.
pub const STALL_NS: u64 = 1_000_000_000;

/// A request that waits, at the head of its queue pair's send queue.
#[derive(Clone, Debug)]
pub struct Stalled {
    /// The program's name for it.
    pub wr_id: u64,
    /// Where it was posted, if that is known.
    pub source: Option<Arc<Place>>,
    /// Its process.
    pub process: u32,
    /// Since when it waits.
    pub since: u64,
    /// The reason why it waits, and the time since which it does.
    reason: (Cause, u64),
    /// The reason that has lasted longest before, and its nanoseconds.
    before: Option<(Cause, u64)>,
}

impl Stalled {
    /// A request that begins to wait at a time.
    pub fn new(
        (wr_id, source): (u64, Option<Arc<Place>>),
        process: u32,
        t: u64,
        reason: &Cause,
    ) -> Self {
        let reason = (*reason, t);
        Self { wr_id, source, process, since: t, reason, before: None }
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
    pub fn is_out_of_reach(&self, t: u64) -> bool {
        let (reason, _) = self.reason_at(t);
        let is_unreachable = matches!(reason, Cause::NoResponse { peer: Peer::Unreachable, .. });
        is_unreachable && t.saturating_sub(self.since) < STALL_NS
    }

    /// The reason at a time: the one that has lasted longest, and the last one, with its nanoseconds, if that is
    /// another.
    pub fn reason_at(&self, t: u64) -> (&Cause, Option<(&Cause, u64)>) {
        let (last, since) = &self.reason;
        let lasted = t.saturating_sub(*since);
        match &self.before {
            Some((reason, longest)) if *longest > lasted => (reason, Some((last, lasted))),
            _ => (last, None),
        }
    }
}
