//! Whether the link's thread looks for more before it sleeps.
//!
//! Waking the thread takes some microseconds, and a system call of the program that wakes it: more
//! than the protocol needs for a small message. So, right after a packet or a doorbell, the thread
//! goes on looking for the next one, and programs that see it awake only set a bit.
//!
//! | rule | |
//! | --- | --- |
//! | where | on four processors or more, for the programs that it looks for need some, too |
//! | when | a packet or a doorbell has come since it has slept last; a timer is none |
//! | how long | 50 us, or until its next deadline: a ping-pong's answer takes 10 to 20 |
//! | until | something is found; |
//! | | after n looks in a row that have found nothing, the next 2^n - 1 occasions pass unused, at most 63, so that traffic that is not so dense costs next to nothing; |
//! | | somebody else got the processor meanwhile: 63 occasions pass unused |
//!
//! [`SPIN`](config::SPIN) has another number of microseconds, and looks then wherever it is.

use std::time::Duration;

use soft_hca_core::config;

/// How long it looks.
const USUAL: Duration = Duration::from_micros(50);
/// Processors that there have to be.
const PROCESSORS: usize = 4;
/// Looks in a row that find nothing, of which each doubles the occasions that pass.
const MOST_MISSES: u32 = 6;
/// One look that takes longer was interrupted.
const INTERRUPTED: Duration = Duration::from_micros(200);

/// The state by which it is decided.
#[derive(Debug, Default)]
pub(super) struct Spin {
    /// Nanoseconds; 0 for never.
    limit_ns: u64,
    /// A packet or a doorbell has come.
    has_traffic: bool,
    misses: u32,
    /// Occasions that are to pass.
    passing: u32,
}

impl Spin {
    /// As it is on this machine, if the environment does not say otherwise.
    pub(super) fn of_machine() -> Self {
        let usual = || {
            let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
            if processors >= PROCESSORS { USUAL } else { Duration::ZERO }
        };
        Self::new(config::spin().unwrap_or_else(usual))
    }

    fn new(limit: Duration) -> Self {
        Self { limit_ns: limit.as_nanos() as u64, ..Self::default() }
    }

    /// A packet or a doorbell has come.
    pub(super) fn traffic(&mut self) {
        self.has_traffic = true;
    }

    /// Looks as long as it makes sense, but not behind a deadline. Whether it was `found`; if not, it
    /// is time to sleep.
    pub(super) fn look(
        &mut self,
        deadline_ns: Option<u64>,
        now_ns: impl Fn() -> u64,
        mut found: impl FnMut() -> bool,
    ) -> bool {
        let is_occasion = std::mem::take(&mut self.has_traffic) && self.limit_ns > 0;
        if !is_occasion {
            return false;
        }
        if self.passing > 0 {
            self.passing -= 1;
            return false;
        }
        let mut now = now_ns();
        let end = deadline_ns.unwrap_or(u64::MAX).min(now + self.limit_ns);
        while now < end {
            if found() {
                // Again, whatever it is: an occasion of its own.
                (self.misses, self.has_traffic) = (0, true);
                return true;
            }
            std::hint::spin_loop();
            let before = std::mem::replace(&mut now, now_ns());
            if now - before > INTERRUPTED.as_nanos() as u64 {
                self.misses = MOST_MISSES;
                break;
            }
        }
        self.misses = (self.misses + 1).min(MOST_MISSES);
        self.passing = (1 << self.misses) - 1;
        false
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Looks with a clock that goes on by `step_ns` with each look; finds something after `finds`.
    /// Whether it was found, and how often it was looked.
    fn look(spin: &mut Spin, deadline: Option<u64>, step_ns: u64, finds: u32) -> (bool, u32) {
        let (clock, looks) = (Cell::new(1_000_000), Cell::new(0));
        let now = || clock.replace(clock.get() + step_ns);
        let is_found = spin.look(deadline, now, || {
            looks.set(looks.get() + 1);
            looks.get() > finds
        });
        (is_found, looks.get())
    }

    #[test]
    fn it_looks_after_traffic_only() {
        let mut spin = Spin::new(USUAL);
        assert_eq!(look(&mut spin, None, 1000, 0), (false, 0));
        spin.traffic();
        assert_eq!(look(&mut spin, None, 1000, 3), (true, 4));
        // It has found traffic.
        assert_eq!(look(&mut spin, None, 1000, 3), (true, 4));
        assert_eq!(look(&mut spin, None, 1000, u32::MAX), (false, 50));
        assert_eq!(look(&mut spin, None, 1000, 0), (false, 0));
        let mut never = Spin::new(Duration::ZERO);
        never.traffic();
        assert_eq!(look(&mut never, None, 1000, 0), (false, 0));
    }

    #[test]
    fn it_does_not_miss_a_deadline() {
        let mut spin = Spin::new(USUAL);
        spin.traffic();
        assert_eq!(look(&mut spin, Some(1_000_000 + 5_000), 1000, u32::MAX), (false, 5));
        let mut spin = Spin::new(USUAL);
        spin.traffic();
        assert_eq!(look(&mut spin, Some(999_999), 1000, u32::MAX), (false, 0));
    }

    /// Of so many occasions, those at which it looks.
    fn used(spin: &mut Spin, occasions: u32) -> u32 {
        let uses = |_| {
            spin.traffic();
            u32::from(look(spin, None, 1000, u32::MAX).1 > 0)
        };
        (0..occasions).map(uses).sum()
    }

    #[test]
    fn who_finds_nothing_looks_seldom() {
        let mut spin = Spin::new(USUAL);
        // 1 + 1 + 3 + 7 + 15 + 31 pass between the first seven.
        assert_eq!(used(&mut spin, 64), 6);
        assert_eq!(used(&mut spin, 640), 10);
        // One success, and it looks as before.
        spin.traffic();
        while look(&mut spin, None, 1000, 1).1 == 0 {
            spin.traffic();
        }
        assert_eq!(used(&mut spin, 2), 1);
        assert_eq!(used(&mut spin, 2), 1);
    }

    #[test]
    fn who_is_interrupted_gives_up() {
        let mut spin = Spin::new(USUAL);
        spin.traffic();
        assert_eq!(look(&mut spin, None, 300_000, u32::MAX), (false, 1));
        assert_eq!(used(&mut spin, 63), 0);
    }
}
