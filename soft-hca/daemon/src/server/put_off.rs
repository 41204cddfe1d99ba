//! Things put off for strict programs, and when to look whether these wait.

use soft_hca_core::deadlines::Deadlines;
use soft_hca_core::system;

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

/// While something is put off the daemon wants to be on a processor as soon as it is woken.
const TIME_SLICE_NS: u64 = 100_000;

/// Things put off, each with its time by the fabric's clock. Events of connections are `ucma`'s.
#[derive(Debug, Default)]
pub(super) struct PutOff {
    /// Queue pairs to be run.
    pub(super) queue_pairs: Deadlines<u32>,
    /// Processes of which a thread is stopped.
    pub(super) pauses: Deadlines<usize>,
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
    /// The clock goes, as somebody computes.
    pub(super) goes: bool,
    /// When programs were first seen to run since all have waited.
    since_ns: Option<u64>,
    /// For how long they had had processors when they were seen to go on with that, where the system counts it.
    had_ns: Option<u64>,
}

impl Looks {
    /// All wait, or did a moment ago: they will soon wait again.
    pub(super) fn begin_anew(&mut self, now_ns: u64) {
        if !std::mem::replace(&mut self.have_begun, true) {
            system::set_time_slice(TIME_SLICE_NS);
        }
        if !self.goes {
            (self.between_ns, self.next_ns) = (FIRST_LOOK_NS, now_ns + FIRST_LOOK_NS);
        }
    }

    /// Programs run. Whether they have done so for too long; most do not for long enough to ask how much they have had
    /// of the processors.
    pub(super) fn goes_on(&mut self, now_ns: u64, processor_ns: impl Fn() -> Option<u64>) -> bool {
        let real_ns = now_ns.saturating_sub(*self.since_ns.get_or_insert(now_ns));
        if real_ns < SHORT_NS {
            return false;
        }
        let has_ns = processor_ns();
        let had_ns = *self.had_ns.get_or_insert(has_ns.unwrap_or(0));
        let used_ns = has_ns.map_or(real_ns, |has_ns| has_ns.saturating_sub(had_ns));
        used_ns > COMPUTES_NS || real_ns > PATIENCE_NS
    }

    /// The next one comes later than this one has.
    pub(super) fn become_rarer(&mut self, now_ns: u64) {
        self.between_ns = (self.between_ns * 2).clamp(FIRST_LOOK_NS, LAST_LOOK_NS);
        self.next_ns = now_ns + self.between_ns;
    }

    /// Forgets how long programs have run.
    pub(super) fn forget(&mut self) {
        (self.since_ns, self.had_ns) = (None, None);
    }
}

impl PutOff {
    /// Something has happened that threads may wait for.
    pub(super) fn happened(&mut self) {
        self.has_happened = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_compute_that_have_had_processors_for_long() {
        let mut looks = Looks::default();
        let (began, had) = (1_000_000_000, 7_000_000_000);
        let mut goes_on = |after, has| looks.goes_on(began + after, || has);
        // Time that they had before the first look does not count.
        assert!(!goes_on(0, Some(0)) && !goes_on(SHORT_NS, Some(had)));
        assert!(!goes_on(COMPUTES_NS * 2, Some(had + COMPUTES_NS)));
        assert!(goes_on(COMPUTES_NS * 2, Some(had + 1 + COMPUTES_NS)));
        // One of them may have ended, with its time, and somebody else may have the processors.
        assert!(!goes_on(PATIENCE_NS, Some(0)));
        assert!(goes_on(PATIENCE_NS + 1, Some(0)));
        looks.forget();
        let mut goes_on = |after| looks.goes_on(began + after, || None);
        assert!(!goes_on(0) && !goes_on(COMPUTES_NS) && goes_on(COMPUTES_NS + 1));
    }

    #[test]
    fn looks_become_rarer_only_while_programs_run() {
        let mut looks = Looks { between_ns: LAST_LOOK_NS, ..Looks::default() };
        looks.begin_anew(5);
        assert_eq!((looks.next_ns, looks.between_ns), (5 + FIRST_LOOK_NS, FIRST_LOOK_NS));
        looks.goes = true;
        looks.begin_anew(7);
        assert_eq!(looks.next_ns, 5 + FIRST_LOOK_NS);
    }
}
