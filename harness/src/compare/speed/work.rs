//! How each example is measured: its flags, and what takes its time.

use std::ffi::OsString;

use crate::compare::speed::Waits;
use crate::examples::Example;

/// What takes the time of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The program reports it.
    Reported,
    /// From the client's start to its end.
    WholeRun,
    /// Nothing worth looking at: it sleeps by the clock.
    Asleep,
}

/// How an example is measured.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    pub waits: Waits,
    pub clock: Clock,
    /// The flag for the number of messages, if it can be chosen.
    pub count: Option<&'static str>,
    /// Other flags.
    flags: &'static str,
}

impl Work {
    /// The work of an example.
    pub fn of(example: &Example) -> Work {
        let (waits, clock, count, flags) = match example.name {
            "ping-sr-0" | "ping-sr-1" | "ping-sr-2" => {
                (Waits::BusyPolling, Clock::Reported, Some("-c"), "")
            }
            "blast-sr-2" => (Waits::BusyPolling, Clock::Reported, Some("-c"), "-s 4096 -b 8"),
            "ping-sr-3" | "ping-sr-4" | "ping-rdma-1" | "ping-rdma-2" | "ping-rdma-3" => {
                (Waits::Blocking, Clock::Reported, Some("-c"), "")
            }
            "blast-rdma-1" => (Waits::Blocking, Clock::Reported, Some("-c"), "-s 4096 -b 8"),
            "srq" => (Waits::Blocking, Clock::WholeRun, Some("-c"), "-l 1000"),
            "mckey" => (Waits::Once, Clock::Asleep, None, "-C 10"),
            "mc" => (Waits::Once, Clock::WholeRun, None, "-c 2"),
            "pubsub-rdma-1" | "pubsub-rdma-2" => (Waits::Once, Clock::Asleep, None, "-c 2"),
            "apm" => (Waits::Once, Clock::WholeRun, None, "-c 4"),
            "read-write" => (Waits::Once, Clock::WholeRun, None, "write"),
            _ => (Waits::Once, Clock::WholeRun, None, ""),
        };
        Work { waits, clock, count, flags }
    }

    /// The flags for that many messages.
    pub fn flags(&self, count: Option<u64>) -> Vec<OsString> {
        let mut all: Vec<OsString> = self.flags.split_whitespace().map(OsString::from).collect();
        if let (Some(flag), Some(count)) = (self.count, count) {
            all.extend([flag.into(), count.to_string().into()]);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_measured_in_some_way() {
        for example in &crate::examples::EXAMPLES {
            let work = Work::of(example);
            assert_eq!(work.count.is_none(), work.waits == Waits::Once, "{}", example.name);
        }
    }

    #[test]
    fn a_count_goes_only_to_those_that_take_one() {
        let flags = |name: &str| {
            Work::of(Example::named(name).unwrap()).flags(Some(7)).join(std::ffi::OsStr::new(" "))
        };
        assert_eq!(flags("srq"), "-l 1000 -c 7");
        assert_eq!(flags("mckey"), "-C 10");
    }
}
