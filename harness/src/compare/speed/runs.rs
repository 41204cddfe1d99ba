//! Single runs of an example, and what each of them takes.

use std::ffi::OsString;
use std::time::Duration;

use crate::agent::Usage;
use crate::compare::interop::judge;
use crate::compare::speed::work::{Clock, Work};
use crate::compare::speed::{Effort, Failure};
use crate::compare::stage::{Maker, Stage};
use crate::error::Error;
use crate::examples::{Example, Sides};
use crate::hosts::Played;
use crate::run::Unobserved;
use crate::transcript::{Side, Stream};

/// How many times longer than a start a run is at least.
const STARTS_IN_A_RUN: f64 = 30.0;
/// How many runs of the C may fail before one that succeeds: some of the originals fail now and
/// then.
pub(super) const FAILURES: usize = 3;
/// Most messages of one run.
const MAX_COUNT: u64 = 20_000_000;

/// Cost of one run.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Time, if it can be told.
    pub seconds: Option<f64>,
    /// Processor time in the programs, of both sides, in seconds.
    pub user: f64,
    /// Processor time in the kernel, in seconds.
    pub system: f64,
    /// Most memory of the server at once, in KiB.
    pub server_peak: Option<f64>,
    /// Most memory of the client at once, in KiB.
    pub client_peak: f64,
}

/// The example that runs, and where.
#[derive(Clone, Copy)]
pub struct Runs<'a> {
    pub stage: &'a Stage,
    pub example: &'a Example,
    pub work: Work,
    /// Flags of the user's, behind ours.
    pub flags: &'a [OsString],
}

impl Runs<'_> {
    /// The arguments of a side, which has none if the example has no such side.
    pub fn arguments(&self, side: Side, count: Option<u64>) -> Option<Vec<OsString>> {
        let mut all = self.work.flags(count);
        all.extend(self.flags.iter().cloned());
        self.example.arguments(side, self.stage.address_of(self.example, side), &all)
    }

    /// Both sides by the same maker, from start to end.
    pub fn sample(&self, maker: Maker, count: Option<u64>) -> Result<Sample, Failure> {
        let Runs { stage, example, .. } = self;
        let program = |side| {
            let args = self.arguments(side, count);
            args.map(|args| stage.program(example, maker, side, args))
        };
        let server = (example.sides != Sides::Single).then(|| program(Side::Server)).flatten();
        let plan = stage.pair(example, server, program(Side::Client));
        let played = stage.play(plan, true, &mut Unobserved)?;
        let (works, note) = judge(example, [maker; 2], &played);
        let failure = |why: &str| Failure::Run(format!("{maker}: {why}"));
        let client = played
            .usage(Side::Client)
            .filter(|_| works)
            .ok_or_else(|| failure(note.as_deref().unwrap_or("no cost is known")))?;
        let server = played.usage(Side::Server);
        let sum = |what: fn(&Usage) -> Duration| {
            (what(&client) + server.as_ref().map_or(Duration::ZERO, what)).as_secs_f64()
        };
        let seconds = match self.work.clock {
            Clock::Reported => Some(
                reported(&played).ok_or_else(|| failure("the client reports no elapsed time"))?,
            ),
            Clock::WholeRun => Some(client.elapsed.as_secs_f64()),
            Clock::Asleep => None,
        };
        Ok(Sample {
            seconds,
            user: sum(|usage| usage.user),
            system: sum(|usage| usage.system),
            server_peak: server.map(|usage| usage.peak_kib as f64),
            client_peak: client.peak_kib as f64,
        })
    }

    /// Seconds that the program takes to print its help, or, if it takes no arguments, to do its
    /// work.
    pub fn start_up(&self, maker: Maker) -> Result<Option<f64>, Error> {
        let program = self.stage.program(self.example, maker, Side::Client, vec!["-h".into()]);
        let plan = self.stage.pair(self.example, None, Some(program));
        let played = self.stage.play(plan, true, &mut Unobserved)?;
        Ok(played.usage(Side::Client).map(|usage| usage.elapsed.as_secs_f64()))
    }

    /// Long enough runs that the start of a program, which on an emulated processor takes tens
    /// of milliseconds, does not count for much.
    pub fn beyond_start_up(&self, effort: &Effort) -> Result<Effort, Error> {
        let mut quickest = f64::INFINITY;
        // The first one reads files that the others find in memory.
        for _ in 0..3 {
            quickest = quickest.min(self.start_up(Maker::C)?.unwrap_or(0.0));
        }
        Ok(Effort { seconds: effort.seconds.max(quickest * STARTS_IN_A_RUN), ..effort.clone() })
    }

    /// How many messages take the C that long; none if the number cannot be chosen.
    pub fn count_that_takes(&self, seconds: f64) -> Result<Option<u64>, Failure> {
        if self.work.count.is_none() {
            return Ok(None);
        }
        let mut count = 100;
        let mut failures = 0;
        loop {
            let sample = match self.sample(Maker::C, Some(count)) {
                Err(Failure::Run(_)) if failures < FAILURES => {
                    failures += 1;
                    continue;
                }
                found => found?,
            };
            let taken = sample.seconds.unwrap_or(seconds).max(1e-6);
            // A first guess from a short run is far off: come closer by steps.
            if taken >= seconds / 4.0 || count >= MAX_COUNT {
                let exact = count as f64 * seconds / taken;
                return Ok(Some((exact as u64).clamp(count.min(100), MAX_COUNT)));
            }
            count = (count * 8).min(MAX_COUNT);
        }
    }
}

/// The client's "N seconds elapsed time".
fn reported(played: &Played) -> Option<f64> {
    played.outcome.transcript.of(Side::Client, Stream::Stderr).find_map(|line| {
        let before = line.text.strip_suffix(" seconds elapsed time")?;
        before.rsplit(' ').next()?.parse().ok()
    })
}
