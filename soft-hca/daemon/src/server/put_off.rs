//! Things put off for strict programs, and when to look whether these wait.

use std::collections::BTreeSet;

use soft_hca_core::deadlines::Deadlines;
use soft_hca_core::system;

use crate::idle::Busy;

/// Between two looks at what programs do at first, and at last.
const FIRST_LOOK_NS: u64 = 20_000;
const LAST_LOOK_NS: u64 = 1_000_000;

/// Programs that have had processors for so long since they waited compute.
const COMPUTES_NS: u64 = 5_000_000;
/// Programs that have not waited for so long may compute.
const SHORT_NS: u64 = 1_000_000;
/// Programs that have not waited for so long do something that cannot be seen. On a machine with other work they may only
/// wait for a processor, much longer than it takes elsewhere.
const PATIENCE_NS: u64 = 1_000_000_000;

/// Times until which threads are stopped, at most: more than a fabric has threads that are.
const MOST_PAUSES: usize = 1 << 12;

/// While something is put off the daemon wants to be on a processor as soon as it is woken.
const TIME_SLICE_NS: u64 = 100_000;

/// Things put off, each with its time by the fabric's clock. Events of connections are `ucma`'s.
#[derive(Debug, Default)]
pub(super) struct PutOff {
    /// Queue pairs to be run.
    pub(super) queue_pairs: Deadlines<u32>,
    /// Times until which threads are stopped.
    pauses: BTreeSet<u64>,
    /// Something has happened that threads may wait for.
    pub(super) has_happened: bool,
    pub(super) looks: Looks,
}

/// Looks at what programs do.
#[derive(Debug, Default)]
pub(super) struct Looks {
    /// Whether there are any: otherwise the clock just goes.
    pub(super) are_on: bool,
    /// Whether anything was put off yet.
    pub(super) have_begun: bool,
    /// Whether something was when its programs were told of that last.
    pub(super) have_work: bool,
    pub(super) next_ns: u64,
    between_ns: u64,
    /// Whether the log says that time has passed.
    is_told: bool,
    /// Those for whom time passes, as they compute.
    pub(super) busy: Option<Busy>,
    /// When programs were first seen to run since all have waited.
    since_ns: Option<u64>,
    /// For how long they had had processors when they were seen to go on with that.
    had_ns: Option<u64>,
}

impl Looks {
    /// All wait, or did a moment ago: they will soon wait again.
    pub(super) fn begin_anew(&mut self, now_ns: u64) {
        if !std::mem::replace(&mut self.have_begun, true) {
            system::set_time_slice(TIME_SLICE_NS);
        }
        if self.busy.is_none() {
            (self.between_ns, self.next_ns) = (FIRST_LOOK_NS, now_ns + FIRST_LOOK_NS);
        }
    }

    /// Programs run. Whether they have done so for too long; most do not for long enough to ask how much they have had
    /// of the processors.
    pub(super) fn goes_on(&mut self, now_ns: u64, processor_ns: impl Fn() -> u64) -> bool {
        let real_ns = now_ns.saturating_sub(*self.since_ns.get_or_insert(now_ns));
        if real_ns < SHORT_NS {
            return false;
        }
        let has_ns = processor_ns();
        let used_ns = has_ns.saturating_sub(*self.had_ns.get_or_insert(has_ns));
        used_ns > COMPUTES_NS || real_ns > PATIENCE_NS
    }

    /// The next one comes later than this one has, and when something is due in so many nanoseconds, if time passes.
    pub(super) fn become_rarer(&mut self, now_ns: u64, due_in_ns: u64) {
        self.between_ns = (self.between_ns * 2).clamp(FIRST_LOOK_NS, LAST_LOOK_NS);
        let is_sooner = self.busy.is_some() && due_in_ns < self.between_ns;
        let after_ns = if is_sooner { due_in_ns.max(FIRST_LOOK_NS) } else { self.between_ns };
        self.next_ns = now_ns + after_ns;
    }

    /// Somebody of some processes computes, or still does: how much time has passed.
    pub(super) fn time_passes(&mut self, pids: &[u32], now_ns: u64) -> u64 {
        match &mut self.busy {
            Some(busy) => busy.passes_ns(pids, now_ns),
            None => {
                if !std::mem::replace(&mut self.is_told, true) {
                    tracing::info!(
                        "time passes, as programs do not wait: the same seed may do something else"
                    );
                }
                self.busy = Some(Busy::of(pids, now_ns));
                0
            }
        }
    }

    /// Nobody computes any longer: time stands still.
    pub(super) fn time_stands_still(&mut self) {
        self.busy = None;
        self.forget();
    }

    /// Forgets how long programs have run.
    pub(super) fn forget(&mut self) {
        (self.since_ns, self.had_ns) = (None, None);
    }
}

impl PutOff {
    /// A thread is stopped until a time. One beyond [`MOST_PAUSES`] goes on by the system's clock.
    pub(super) fn pause(&mut self, until_ns: u64) {
        if self.pauses.len() < MOST_PAUSES {
            self.pauses.insert(until_ns);
        }
    }

    /// When the next of those that are stopped goes on.
    pub(super) fn next_pause(&self) -> Option<u64> {
        self.pauses.first().copied()
    }

    /// Whether any of those that are stopped has to go on at a time.
    pub(super) fn end_pauses(&mut self, now_ns: u64) -> bool {
        let before = self.pauses.len();
        self.pauses.retain(|until_ns| *until_ns > now_ns);
        self.pauses.len() < before
    }

    /// Something has happened that threads may wait for.
    pub(super) fn happened(&mut self) {
        self.has_happened = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_go_on_when_it_is_time() {
        let mut put_off = PutOff::default();
        [7, 5, 5].into_iter().for_each(|until_ns| put_off.pause(until_ns));
        assert!(!put_off.end_pauses(4) && put_off.next_pause() == Some(5));
        assert!(put_off.end_pauses(6) && put_off.next_pause() == Some(7));
        (100..100_000).for_each(|until_ns| put_off.pause(until_ns));
        assert_eq!(put_off.pauses.len(), MOST_PAUSES);
        assert!(put_off.end_pauses(u64::MAX) && put_off.next_pause().is_none());
    }

    #[test]
    fn programs_compute_that_have_had_processors_for_long() {
        let mut looks = Looks::default();
        let (began, had) = (1_000_000_000, 7_000_000_000);
        let mut goes_on = |after, has| looks.goes_on(began + after, || has);
        // Time that they had before the first look does not count.
        assert!(!goes_on(0, 0) && !goes_on(SHORT_NS, had));
        assert!(!goes_on(COMPUTES_NS * 2, had + COMPUTES_NS));
        assert!(goes_on(COMPUTES_NS * 2, had + 1 + COMPUTES_NS));
        // One of them may have ended, with its time, and somebody else may have the processors.
        assert!(!goes_on(PATIENCE_NS, 0));
        assert!(goes_on(PATIENCE_NS + 1, 0));
    }

    #[test]
    fn looks_become_rarer_only_while_programs_run() {
        let mut looks = Looks { between_ns: LAST_LOOK_NS, ..Looks::default() };
        looks.begin_anew(5);
        assert_eq!((looks.next_ns, looks.between_ns), (5 + FIRST_LOOK_NS, FIRST_LOOK_NS));
        looks.busy = Some(Busy::default());
        looks.begin_anew(7);
        assert_eq!(looks.next_ns, 5 + FIRST_LOOK_NS);
        looks.become_rarer(9, 7);
        assert_eq!(looks.next_ns, 9 + FIRST_LOOK_NS);
        looks.become_rarer(9, FIRST_LOOK_NS + 1);
        assert_eq!(looks.next_ns, 10 + FIRST_LOOK_NS);
        looks.busy = None;
        looks.become_rarer(9, 7);
        assert_eq!(looks.next_ns, 9 + 8 * FIRST_LOOK_NS);
    }
}
