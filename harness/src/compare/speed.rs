//! Speed and cost: runs of the C pair and of ours in turn, as ratios.

mod runs;
mod size;
pub(crate) mod work;

use std::ffi::OsString;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::compare::speed::runs::{FAILURES, Runs, Sample};
use crate::compare::stage::{Maker, Stage};
use crate::compare::stats::{Ratio, median};
use crate::error::Error;
use crate::examples::Example;
use crate::transcript::Side;

/// Most that ours may take of what the C takes, in time and in processor time, for a round trip
/// or a message. Work done once in a few milliseconds is reported and has no limit.
pub const LIMIT: f64 = 1.05;
/// Most memory that ours may have more than the C, in KiB.
pub const MEMORY_LIMIT: f64 = 2048.0;
/// How many times as many pairs there are at most where chance may decide.
const MORE_IF_UNCLEAR: usize = 4;
/// Most pairs of runs of an example that does its work once.
const MAX_PAIRS: usize = 200;

/// How an example waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Waits {
    /// It asks again and again, so that it takes a processor all the time.
    BusyPolling,
    /// It sleeps until it is woken.
    Blocking,
    /// It does its work once: what is measured is mostly start-up and connection.
    Once,
}

impl std::fmt::Display for Waits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Waits::BusyPolling => "busy polling",
            Waits::Blocking => "blocking",
            Waits::Once => "once",
        })
    }
}

/// The cost of one maker's programs, in the middle of all runs.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Cost {
    /// Of one round trip, or of the whole run.
    pub microseconds: Option<f64>,
    /// Round trips, or messages, in a second.
    pub per_second: Option<f64>,
    /// Processor time in the programs, of both sides, for each round trip or run.
    pub user_microseconds: f64,
    /// Processor time in the kernel.
    pub system_microseconds: f64,
    /// Most memory of the server at once.
    pub server_peak_kib: Option<f64>,
    /// Most memory of the client at once.
    pub client_peak_kib: f64,
    /// From start to end when the program is asked for help.
    pub start_up_microseconds: Option<f64>,
    /// Bytes of the programs' files that are loaded, without symbols.
    pub loaded_bytes: Option<u64>,
    /// The files.
    pub file_bytes: u64,
}

/// C and Rust side by side.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Speed {
    /// How the example waits.
    pub waits: Waits,
    /// The arguments of the client.
    pub client: Vec<String>,
    /// Round trips or messages in a run; none if it does its work once.
    pub count: Option<u64>,
    /// How many pairs of runs.
    pub runs: usize,
    /// The C's.
    pub c: Cost,
    /// Ours.
    pub rust: Cost,
    /// Time for a round trip, or of a run.
    pub time: Option<Ratio>,
    /// Processor time, in program and kernel.
    pub cpu: Option<Ratio>,
    /// Time to start and to print the help.
    pub start_up: Option<Ratio>,
    /// Memory that ours has more than the C, in KiB; of server and client the worse.
    pub more_memory_kib: f64,
    /// Values over their limit.
    pub over: Vec<String>,
    /// Why runs of the C are not among them.
    pub left_out: Vec<String>,
}

/// How thoroughly to measure.
#[derive(Clone, Debug)]
pub struct Effort {
    /// Pairs of runs.
    pub runs: usize,
    /// How long one run is to take.
    pub seconds: f64,
    /// Flags of the user's, behind ours.
    pub flags: Vec<OsString>,
}

impl Effort {
    /// Time of all pairs of runs together, without what is around them.
    fn time(&self) -> Duration {
        Duration::from_secs_f64(2.0 * self.runs as f64 * self.seconds)
    }
}

/// Why there are no figures.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A pair did not do its work: which, and how it ended.
    #[error("{0}")]
    Run(String),
    /// It could not be run.
    #[error(transparent)]
    Harness(#[from] Error),
}

/// Of the C's and of ours, what was measured one after the other.
#[derive(Debug, Default)]
struct Pairs {
    runs: Vec<(Sample, Sample)>,
    /// Seconds.
    starts: Vec<(f64, f64)>,
    /// Why runs of the C are not among them.
    left_out: Vec<String>,
}

/// Measures an example.
pub fn measure(stage: &Stage, example: &Example, effort: &Effort) -> Result<Speed, Failure> {
    let runs = Runs { stage, example, work: example.work, flags: &effort.flags };
    let effort = runs.beyond_start_up(effort)?;
    let count = runs.count_that_takes(effort.seconds)?;
    let pairs = Pairs::collect(runs, &effort, count)?;
    Ok(pairs.summary(runs, count))
}

impl Pairs {
    fn collect(runs: Runs<'_>, effort: &Effort, count: Option<u64>) -> Result<Pairs, Failure> {
        let mut pairs = Pairs::default();
        let begun = Instant::now();
        for turn in 0.. {
            // A short run says less: there are more of them, in the time that the others take.
            let short = count.is_none() && turn < MAX_PAIRS && begun.elapsed() < effort.time();
            let unclear =
                count.is_some() && turn < MORE_IF_UNCLEAR * effort.runs && pairs.are_unclear();
            if turn >= effort.runs && !short && !unclear {
                break;
            }
            let run = in_turn(turn, |maker| match runs.sample(maker, count) {
                Err(Failure::Run(why))
                    if maker == Maker::C
                        && pairs.left_out.len() < FAILURES.max(pairs.runs.len()) =>
                {
                    pairs.left_out.push(why);
                    Ok(None)
                }
                found => found.map(Some),
            });
            // The C's failure came first, and ours may have the same cause.
            if let (true, Err(_), Some(why)) = (pairs.runs.is_empty(), &run, pairs.left_out.first())
            {
                return Err(Failure::Run(why.clone()));
            }
            pairs.runs.extend(run?);
            pairs.starts.extend(in_turn(turn, |maker| runs.start_up(maker))?);
        }
        Ok(pairs)
    }

    fn time(&self) -> Option<Ratio> {
        let timed = self.runs.iter().filter_map(|(c, rust)| Some((c.seconds?, rust.seconds?)));
        Ratio::of(&timed.collect::<Vec<_>>())
    }

    fn cpu(&self) -> Option<Ratio> {
        let cpu = |sample: &Sample| sample.user + sample.system;
        Ratio::of(&self.runs.iter().map(|(c, rust)| (cpu(c), cpu(rust))).collect::<Vec<_>>())
    }

    fn are_unclear(&self) -> bool {
        [self.time(), self.cpu()].iter().flatten().any(|ratio| ratio.is_unclear(LIMIT))
    }

    fn summary(self, runs: Runs<'_>, count: Option<u64>) -> Speed {
        let (c, rust) = (self.cost(runs, Maker::C, count), self.cost(runs, Maker::Rust, count));
        let client = rust.client_peak_kib - c.client_peak_kib;
        let server = rust.server_peak_kib.zip(c.server_peak_kib).map(|(rust, c)| rust - c);
        let arguments = runs.arguments(Side::Client, count).unwrap_or_default();
        let mut speed = Speed {
            waits: runs.work.waits,
            client: arguments.iter().map(|arg| arg.to_string_lossy().into_owned()).collect(),
            count,
            runs: self.runs.len(),
            c,
            rust,
            time: self.time(),
            cpu: self.cpu(),
            start_up: Ratio::of(&self.starts),
            more_memory_kib: server.map_or(client, |server| server.max(client)),
            over: Vec::new(),
            left_out: self.left_out,
        };
        speed.over = speed.over_the_limits();
        speed
    }

    /// Cost of the programs of one maker.
    fn cost(&self, runs: Runs<'_>, maker: Maker, count: Option<u64>) -> Cost {
        let each = count.unwrap_or(1) as f64;
        let of: Vec<Sample> = self.runs.iter().map(|pair| *made_by(pair, maker)).collect();
        let middle = |what: fn(&Sample) -> f64| median(of.iter().map(what)).unwrap_or_default();
        let seconds = median(of.iter().filter_map(|sample| sample.seconds));
        let start = median(self.starts.iter().map(|pair| *made_by(pair, maker)));
        let (loaded_bytes, file_bytes) = size::size(runs.stage, runs.example, maker);
        Cost {
            microseconds: seconds.map(|seconds| seconds / each * 1e6),
            per_second: count.and(seconds).map(|seconds| each / seconds),
            user_microseconds: middle(|sample| sample.user) / each * 1e6,
            system_microseconds: middle(|sample| sample.system) / each * 1e6,
            server_peak_kib: median(of.iter().filter_map(|sample| sample.server_peak)),
            client_peak_kib: middle(|sample| sample.client_peak),
            start_up_microseconds: start.map(|seconds| seconds * 1e6),
            loaded_bytes,
            file_bytes,
        }
    }
}

impl Speed {
    fn over_the_limits(&self) -> Vec<String> {
        let mut over = Vec::new();
        let has_limit = self.waits != Waits::Once;
        for (what, ratio) in [("time", self.time), ("processor time", self.cpu)] {
            if let Some(ratio) = ratio.filter(|ratio| has_limit && ratio.exceeds(LIMIT)) {
                over.push(format!("{what} is {ratio} times the C's, at most {LIMIT:.2} is right"));
            }
        }
        if self.more_memory_kib > MEMORY_LIMIT {
            over.push(format!(
                "peak memory is {:.1} MiB more than the C's, at most {:.1} is right",
                self.more_memory_kib / 1024.0,
                MEMORY_LIMIT / 1024.0
            ));
        }
        over
    }
}

/// Runs something of both, the first of them in turn, so that neither always finds the machine as
/// the other has left it. None unless both have something to say.
fn in_turn<T: Copy, E>(
    turn: usize,
    mut run: impl FnMut(Maker) -> Result<Option<T>, E>,
) -> Result<Option<(T, T)>, E> {
    let mut found = [None; 2];
    for maker in if turn % 2 == 0 { Maker::BOTH } else { [Maker::Rust, Maker::C] } {
        found[maker as usize] = run(maker)?;
    }
    let [c, rust] = found;
    Ok(c.zip(rust))
}

fn made_by<T>((c, rust): &(T, T), maker: Maker) -> &T {
    match maker {
        Maker::C => c,
        Maker::Rust => rust,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_are_first_in_turn_and_stay_in_their_places() {
        let mut order = Vec::new();
        for turn in 0..2 {
            let pair = in_turn(turn, |maker| {
                order.push(maker);
                Ok::<_, ()>(Some(maker))
            });
            assert_eq!(pair, Ok(Some((Maker::C, Maker::Rust))));
        }
        assert_eq!(order, [Maker::C, Maker::Rust, Maker::Rust, Maker::C]);
    }

    #[test]
    fn only_round_trips_and_messages_have_a_limit_of_time() {
        let ratio = Ratio::of(&[(1.0, 2.0); 9]);
        let speed = |waits| Speed {
            waits,
            client: Vec::new(),
            count: None,
            runs: 9,
            c: Cost::default(),
            rust: Cost::default(),
            time: ratio,
            cpu: ratio,
            start_up: ratio,
            more_memory_kib: MEMORY_LIMIT + 1.0,
            over: Vec::new(),
            left_out: Vec::new(),
        };
        assert_eq!(speed(Waits::BusyPolling).over_the_limits().len(), 3);
        assert_eq!(speed(Waits::Blocking).over_the_limits().len(), 3);
        assert_eq!(speed(Waits::Once).over_the_limits().len(), 1, "memory");
    }

    #[test]
    fn a_pair_needs_both() {
        let pair = in_turn(0, |maker| Ok::<_, ()>((maker == Maker::Rust).then_some(1)));
        assert_eq!(pair, Ok(None));
    }
}
