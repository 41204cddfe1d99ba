//! Figures, and what they have to reach.

use crate::baseline::Baselines;
use crate::perftest::{AVERAGE, RATE, TYPICAL};

/// The value that a figure is compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// A latency in microseconds, of what takes no system call: at most 6 F.
    Staged,
    /// A latency in microseconds: at most 1.6 P + 8 F.
    Polled,
    /// A latency in microseconds: at most 1.5 W + P.
    Blocked,
    /// MiB in a second: at least 0.85 of the raw throughput with this index.
    Stream(usize),
    /// Millions of messages in a second, of what takes no system call: at least 0.6 / F.
    StagedRate,
    /// Millions of messages in a second: at least 1.4 / P.
    Rate,
}

impl Goal {
    /// The column of perftest's output that has the figure.
    pub fn column(self) -> &'static str {
        match self {
            Self::Staged | Self::Polled | Self::Blocked => TYPICAL,
            Self::Stream(_) => AVERAGE,
            Self::StagedRate | Self::Rate => RATE,
        }
    }

    /// The figure's unit.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Staged | Self::Polled | Self::Blocked => "us",
            Self::Stream(_) => "MiB/s",
            Self::StagedRate | Self::Rate => "M/s",
        }
    }

    /// The goal in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Staged => "<= 6 F",
            Self::Polled => "<= 1.6 P + 8 F",
            Self::Blocked => "<= 1.5 W + P",
            Self::Stream(_) => ">= 0.85 raw",
            Self::StagedRate => ">= 0.6 / F",
            Self::Rate => ">= 1.4 / P",
        }
    }

    /// The goal in figures.
    pub fn limit(self, base: &Baselines) -> f64 {
        match self {
            Self::Staged => 6.0 * base.flag,
            Self::Polled => 1.6 * base.write + 8.0 * base.flag,
            Self::Blocked => 1.5 * base.wake + base.write,
            Self::Stream(size) => 0.85 * base.raw[size],
            Self::StagedRate => 0.6 / base.flag,
            Self::Rate => 1.4 / base.write,
        }
    }

    /// The baseline of the ratio.
    pub fn baseline(self, base: &Baselines) -> f64 {
        match self {
            Self::Staged => base.flag,
            Self::Polled => base.write,
            Self::Blocked => base.wake,
            Self::Stream(size) => base.raw[size],
            Self::StagedRate => 1.0 / base.flag,
            Self::Rate => 1.0 / base.write,
        }
    }

    /// The baseline's name.
    pub fn baseline_name(self) -> &'static str {
        match self {
            Self::Staged => "F",
            Self::Polled => "P",
            Self::Blocked => "W",
            Self::Stream(_) => "raw",
            Self::StagedRate => "/ F",
            Self::Rate => "/ P",
        }
    }

    /// Whether a figure, as a share of its limit, reaches the goal.
    pub fn is_reached(self, share: f64) -> bool {
        match self {
            Self::Staged | Self::Polled | Self::Blocked => share <= 1.0,
            Self::Stream(_) | Self::StagedRate | Self::Rate => share >= 1.0,
        }
    }
}

/// A measurement: a program of perftest and its arguments.
#[derive(Clone, Copy, Debug)]
pub struct Item<G> {
    /// Its name.
    pub what: &'static str,
    /// The program.
    pub program: &'static str,
    /// Its arguments.
    pub arguments: &'static [&'static str],
    /// Its goal.
    pub goal: G,
}

/// A list of [`Item`]s, a line each.
macro_rules! items {
    ($($what:literal: $program:literal $($argument:literal)* => $goal:expr;)*) => {
        &[$($crate::goals::Item {
            what: $what,
            program: $program,
            arguments: &[$($argument),*],
            goal: $goal,
        }),*]
    };
}

pub(crate) use items;

/// All of them. `-N` leaves out the search for the best message, which costs time of its own.
pub const ITEMS: &[Item<Goal>] = items! {
    "send 8 B": "ib_send_lat" "-s" "8" "-n" "20000" => Goal::Staged;
    "send 64 B": "ib_send_lat" "-s" "64" "-n" "20000" => Goal::Staged;
    "send 4 KiB": "ib_send_lat" "-s" "4096" "-n" "20000" => Goal::Polled;
    "RDMA write 8 B": "ib_write_lat" "-s" "8" "-n" "20000" => Goal::Polled;
    "RDMA write 64 B": "ib_write_lat" "-s" "64" "-n" "20000" => Goal::Polled;
    "RDMA read 8 B, idle target": "ib_read_lat" "-s" "8" "-n" "20000" => Goal::Polled;
    "send 8 B, blocked receiver": "ib_send_lat" "-s" "8" "-n" "5000" "-e" => Goal::Blocked;
    "send stream 64 KiB": "ib_send_bw" "-s" "65536" "-n" "20000" "-N" => Goal::Stream(0);
    "send stream 1 MiB": "ib_send_bw" "-s" "1048576" "-n" "1500" "-N" => Goal::Stream(1);
    "send stream 4 MiB": "ib_send_bw" "-s" "4194304" "-n" "400" "-N" => Goal::Stream(2);
    "write stream 64 KiB": "ib_write_bw" "-s" "65536" "-n" "20000" "-N" => Goal::Stream(0);
    "write stream 1 MiB": "ib_write_bw" "-s" "1048576" "-n" "1500" "-N" => Goal::Stream(1);
    "write stream 4 MiB": "ib_write_bw" "-s" "4194304" "-n" "400" "-N" => Goal::Stream(2);
    "send rate 8 B, lists of 16":
        "ib_send_bw" "-s" "8" "-n" "320000" "-l" "16" "-N" => Goal::StagedRate;
    "write rate 8 B, lists of 16":
        "ib_write_bw" "-s" "8" "-n" "320000" "-l" "16" "-N" => Goal::Rate;
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_follow_the_baselines() {
        let base = Baselines { flag: 0.05, write: 1.5, wake: 20.0, raw: [10_000.0; 3] };
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        close(Goal::Staged.limit(&base), 0.3);
        close(Goal::StagedRate.limit(&base), 12.0);
        close(Goal::Polled.limit(&base), 2.8);
        close(Goal::Blocked.limit(&base), 31.5);
        close(Goal::Stream(1).limit(&base), 8500.0);
        close(Goal::Rate.limit(&base), 1.4 / 1.5);
        assert!(Goal::Polled.is_reached(1.0) && !Goal::Polled.is_reached(1.01));
        assert!(Goal::Rate.is_reached(1.0) && !Goal::Stream(0).is_reached(0.99));
    }
}
