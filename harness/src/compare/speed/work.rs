//! How an example is measured: its flags, and what takes its time.

use std::ffi::OsString;

use crate::compare::speed::Waits;

/// The clock that takes the time of one run.
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
    pub(crate) flags: &'static str,
}

impl Work {
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
    use crate::examples::{EXAMPLES, Example};

    #[test]
    fn every_example_is_measured_in_some_way() {
        for example in EXAMPLES {
            let work = example.work;
            assert_eq!(work.count.is_none(), work.waits == Waits::Once, "{}", example.name);
        }
    }

    #[test]
    fn a_count_goes_only_to_those_that_take_one() {
        let flags = |name: &str| {
            Example::named(name).unwrap().work.flags(Some(7)).join(std::ffi::OsStr::new(" "))
        };
        assert_eq!(flags("srq"), "-l 1000 -c 7");
        assert_eq!(flags("mckey"), "-C 10");
    }
}
