//! Speed and cost: runs of the C pair and of ours in turn, as ratios.

use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::compare::interop::judge;
use crate::compare::stage::{Maker, Played, Stage};
use crate::compare::stats::{Ratio, median};
use crate::error::Error;
use crate::examples::{Example, Sides};
use crate::run::Unobserved;
use crate::transcript::{Side, Stream};

/// Most that ours may take of what the C takes, in time and in processor time.
pub const LIMIT: f64 = 1.05;
/// Most memory that ours may have more than the C, in KiB.
pub const MEMORY_LIMIT: f64 = 2048.0;
/// How many times longer than a start a run is at least.
const STARTS_IN_A_RUN: f64 = 30.0;
/// Most pairs of runs of an example that does its work once.
const MAX_PAIRS: usize = 200;
/// Most messages of one run.
const MAX_COUNT: u64 = 20_000_000;

/// How an example waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
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

/// What takes the time of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clock {
    /// The program reports it.
    Reported,
    /// From the client's start to its end.
    WholeRun,
    /// Nothing worth looking at: it sleeps by the clock.
    Asleep,
}

/// How an example is measured.
#[derive(Clone, Copy, Debug)]
struct Work {
    waits: Waits,
    clock: Clock,
    /// The flag for the number of messages, if it can be chosen, and others.
    count: Option<&'static str>,
    flags: &'static str,
}

fn work(example: &Example) -> Work {
    let (waits, clock, count, flags) = match example.name {
        "ping-sr-0" | "ping-sr-1" | "ping-sr-2" => {
            (Waits::BusyPolling, Clock::Reported, Some("-c"), "")
        }
        "blast-sr-2" => (Waits::BusyPolling, Clock::Reported, Some("-c"), "-s 4096 -b 8"),
        "ping-sr-3" | "ping-sr-4" => (Waits::Blocking, Clock::Reported, Some("-c"), ""),
        "srq" => (Waits::Blocking, Clock::WholeRun, Some("-c"), "-l 1000"),
        "mckey" => (Waits::Once, Clock::Asleep, None, "-C 10"),
        "mc" => (Waits::Once, Clock::WholeRun, None, "-c 2"),
        "apm" => (Waits::Once, Clock::WholeRun, None, "-c 4"),
        _ => (Waits::Once, Clock::WholeRun, None, ""),
    };
    Work { waits, clock, count, flags }
}

/// What one maker's programs take, in the middle of all runs.
#[derive(Clone, Copy, Debug, Default, Serialize)]
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
    /// What of the programs' files is loaded, without symbols.
    pub loaded_bytes: Option<u64>,
    /// The files.
    pub file_bytes: u64,
}

/// C and Rust side by side.
#[derive(Clone, Debug, Serialize)]
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
    /// What is over its limit.
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
    /// Long enough runs that the start of a program, which on an emulated processor takes a
    /// tenth of a second, does not count for much.
    fn beyond_start_up(&self, stage: &Stage, example: &Example) -> Result<Effort, Error> {
        let mut quickest = f64::INFINITY;
        // The first one reads files that the others find in memory.
        for _ in 0..3 {
            quickest = quickest.min(start_up(stage, example, Maker::C)?.unwrap_or(0.0));
        }
        Ok(Effort { seconds: self.seconds.max(quickest * STARTS_IN_A_RUN), ..self.clone() })
    }

    /// What all pairs of runs take together, without what is around them.
    fn time(&self) -> Duration {
        Duration::from_secs_f64(2.0 * self.runs as f64 * self.seconds)
    }
}

/// One run.
#[derive(Clone, Copy, Debug)]
struct Sample {
    seconds: Option<f64>,
    user: f64,
    system: f64,
    server_peak: Option<f64>,
    client_peak: f64,
}

/// Measures an example. The text of an error says which pair did not do its work.
pub fn measure(
    stage: &Stage,
    example: &Example,
    effort: &Effort,
) -> Result<Result<Speed, String>, Error> {
    let work = work(example);
    let effort = &effort.beyond_start_up(stage, example)?;
    let count = match chosen_count(stage, example, work, effort)? {
        Ok(count) => count,
        Err(why) => return Ok(Err(why)),
    };
    let mut samples: Vec<(Sample, Sample)> = Vec::new();
    let mut starts: Vec<(f64, f64)> = Vec::new();
    let mut left_out = Vec::new();
    let begun = Instant::now();
    // A short run says less: there are more of them, in the time that the others take.
    let goes_on = |turn| {
        turn < effort.runs
            || (work.count.is_none() && turn < MAX_PAIRS && begun.elapsed() < effort.time())
    };
    for turn in (0..).take_while(|turn| goes_on(*turn)) {
        let mut pair = [None; 2];
        // In turn, so that neither always finds the machine as the other has left it.
        let order = if turn % 2 == 0 { Maker::BOTH } else { [Maker::Rust, Maker::C] };
        for maker in order {
            match sample(stage, example, work, maker, count, &effort.flags)? {
                Ok(found) => pair[maker as usize] = Some(found),
                // Some of the originals fail now and then.
                Err(why)
                    if maker == Maker::C
                        && !samples.is_empty()
                        && left_out.len() < effort.runs / 2 =>
                {
                    left_out.push(why);
                }
                Err(why) => return Ok(Err(why)),
            }
        }
        if let [Some(c), Some(rust)] = pair {
            samples.push((c, rust));
        }
        let mut pair = [None; 2];
        for maker in order {
            pair[maker as usize] = start_up(stage, example, maker)?;
        }
        if let [Some(c), Some(rust)] = pair {
            starts.push((c, rust));
        }
    }
    let each = count.unwrap_or(1) as f64;
    let timed: Vec<(f64, f64)> =
        samples.iter().filter_map(|(c, rust)| Some((c.seconds?, rust.seconds?))).collect();
    let cpu: Vec<(f64, f64)> =
        samples.iter().map(|(c, rust)| (c.user + c.system, rust.user + rust.system)).collect();
    let cost = |maker: Maker| {
        let of: Vec<Sample> =
            samples.iter().map(|(c, rust)| if maker == Maker::C { *c } else { *rust }).collect();
        let middle = |what: fn(&Sample) -> f64| median(of.iter().map(what)).unwrap_or_default();
        let seconds = median(of.iter().filter_map(|sample| sample.seconds));
        let start = starts.iter().map(|(c, rust)| if maker == Maker::C { *c } else { *rust });
        let (loaded_bytes, file_bytes) = size(stage, example, maker);
        Cost {
            microseconds: seconds.map(|seconds| seconds / each * 1e6),
            per_second: count.and(seconds).map(|seconds| each / seconds),
            user_microseconds: middle(|sample| sample.user) / each * 1e6,
            system_microseconds: middle(|sample| sample.system) / each * 1e6,
            server_peak_kib: median(of.iter().filter_map(|sample| sample.server_peak)),
            client_peak_kib: middle(|sample| sample.client_peak),
            start_up_microseconds: median(start).map(|seconds| seconds * 1e6),
            loaded_bytes,
            file_bytes,
        }
    };
    let (c, rust) = (cost(Maker::C), cost(Maker::Rust));
    let client = rust.client_peak_kib - c.client_peak_kib;
    let server = rust.server_peak_kib.zip(c.server_peak_kib).map(|(rust, c)| rust - c);
    let mut speed = Speed {
        waits: work.waits,
        client: arguments(stage, example, work, Side::Client, count, &effort.flags)
            .iter()
            .flatten()
            .map(|arg| arg.to_string_lossy().into_owned())
            .collect(),
        count,
        runs: samples.len(),
        c,
        rust,
        time: Ratio::of(&timed),
        cpu: Ratio::of(&cpu),
        start_up: Ratio::of(&starts),
        more_memory_kib: server.map_or(client, |server| server.max(client)),
        over: Vec::new(),
        left_out,
    };
    for (what, ratio) in [("time", speed.time), ("processor time", speed.cpu)] {
        if let Some(ratio) = ratio.filter(|ratio| ratio.exceeds(LIMIT)) {
            speed
                .over
                .push(format!("{what} is {ratio} times the C's, at most {LIMIT:.2} is right"));
        }
    }
    if speed.more_memory_kib > MEMORY_LIMIT {
        speed.over.push(format!(
            "peak memory is {:.1} MiB more than the C's, at most {:.1} is right",
            speed.more_memory_kib / 1024.0,
            MEMORY_LIMIT / 1024.0
        ));
    }
    Ok(Ok(speed))
}

/// How many messages take about as long as a run is to take, with the C.
fn chosen_count(
    stage: &Stage,
    example: &Example,
    work: Work,
    effort: &Effort,
) -> Result<Result<Option<u64>, String>, Error> {
    if work.count.is_none() {
        return Ok(Ok(None));
    }
    let mut count = 100;
    loop {
        let found = match sample(stage, example, work, Maker::C, Some(count), &effort.flags)? {
            Ok(found) => found,
            Err(why) => return Ok(Err(why)),
        };
        let seconds = found.seconds.unwrap_or(effort.seconds).max(1e-6);
        // A first guess from a short run is far off: come closer by steps.
        if seconds >= effort.seconds / 4.0 || count >= MAX_COUNT {
            let exact = count as f64 * effort.seconds / seconds;
            return Ok(Ok(Some((exact as u64).clamp(count.min(100), MAX_COUNT))));
        }
        count = (count * 8).min(MAX_COUNT);
    }
}

fn arguments(
    stage: &Stage,
    example: &Example,
    work: Work,
    side: Side,
    count: Option<u64>,
    flags: &[OsString],
) -> Option<Vec<OsString>> {
    let mut all: Vec<OsString> = work.flags.split_whitespace().map(OsString::from).collect();
    if let (Some(flag), Some(count)) = (work.count, count) {
        all.extend([flag.into(), count.to_string().into()]);
    }
    all.extend(flags.iter().cloned());
    example.arguments(side, stage.address_of(example, side), &all)
}

fn sample(
    stage: &Stage,
    example: &Example,
    work: Work,
    maker: Maker,
    count: Option<u64>,
    flags: &[OsString],
) -> Result<Result<Sample, String>, Error> {
    let program = |side| {
        let args = arguments(stage, example, work, side, count, flags);
        args.map(|args| stage.program(example, maker, side, args))
    };
    let server = (example.sides != Sides::Single).then(|| program(Side::Server)).flatten();
    let plan = stage.pair(example, server, program(Side::Client));
    let played = stage.play(plan, true, &mut Unobserved)?;
    let (works, note) = judge(example, [maker; 2], &played);
    let cost = played.usage(Side::Client).filter(|_| works);
    let Some(client) = cost else {
        return Ok(Err(format!("{maker}: {}", note.unwrap_or_else(|| "no cost is known".into()))));
    };
    let server = played.usage(Side::Server);
    let sum = |what: fn(&crate::agent::Usage) -> Duration| {
        (what(&client) + server.as_ref().map_or(Duration::ZERO, what)).as_secs_f64()
    };
    let seconds = match work.clock {
        Clock::Reported => match reported(&played) {
            Some(seconds) => Some(seconds),
            None => return Ok(Err(format!("{maker}: the client reports no elapsed time"))),
        },
        Clock::WholeRun => Some(client.elapsed.as_secs_f64()),
        Clock::Asleep => None,
    };
    Ok(Ok(Sample {
        seconds,
        user: sum(|usage| usage.user),
        system: sum(|usage| usage.system),
        server_peak: server.map(|usage| usage.peak_kib as f64),
        client_peak: client.peak_kib as f64,
    }))
}

/// The client's "N seconds elapsed time".
fn reported(played: &Played) -> Option<f64> {
    played.outcome.transcript.of(Side::Client, Stream::Stderr).find_map(|line| {
        let before = line.text.strip_suffix(" seconds elapsed time")?;
        before.rsplit(' ').next()?.parse().ok()
    })
}

/// How long the program takes to print its help, or, if it takes no arguments, to do its work.
fn start_up(stage: &Stage, example: &Example, maker: Maker) -> Result<Option<f64>, Error> {
    let program = stage.program(example, maker, Side::Client, vec!["-h".into()]);
    let played = stage.play(stage.pair(example, None, Some(program)), true, &mut Unobserved)?;
    Ok(played.usage(Side::Client).map(|usage| usage.elapsed.as_secs_f64()))
}

/// Bytes that are loaded, if that can be told, and bytes of the files of all sides.
fn size(stage: &Stage, example: &Example, maker: Maker) -> (Option<u64>, u64) {
    let sides: &[Side] =
        if example.sides == Sides::TwoPrograms { &Side::BOTH } else { &[Side::Client] };
    let files = sides.iter().map(|&side| stage.program(example, maker, side, Vec::new()).path);
    let (mut loaded, mut all) = (Some(0), 0);
    for file in files {
        loaded = loaded.zip(loaded_bytes(&file)).map(|(sum, bytes)| sum + bytes);
        all += file.metadata().map_or(0, |found| found.len());
    }
    (loaded, all)
}

/// The sum of the loadable segments of an ELF file: 64 bits, little-endian, as on x86-64.
fn loaded_bytes(file: &Path) -> Option<u64> {
    let bytes = std::fs::read(file).ok()?;
    let field = |at: usize, len: usize| {
        let mut number = [0; 8];
        number[..len].copy_from_slice(bytes.get(at..at + len)?);
        Some(u64::from_le_bytes(number))
    };
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (table, entry, entries) = (field(0x20, 8)?, field(0x36, 2)?, field(0x38, 2)?);
    let mut sum = 0;
    for number in 0..entries {
        let at = usize::try_from(table + number * entry).ok()?;
        const LOAD: u64 = 1;
        if field(at, 4)? == LOAD {
            sum += field(at + 0x20, 8)?;
        }
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_loaded_of_a_program_is_less_than_its_file() {
        let own = std::env::current_exe().unwrap();
        let loaded = loaded_bytes(&own).unwrap();
        assert!(loaded > 0 && loaded < own.metadata().unwrap().len());
        assert_eq!(loaded_bytes(Path::new(file!())), None);
    }

    #[test]
    fn every_example_is_measured_in_some_way() {
        for example in &crate::examples::EXAMPLES {
            let work = work(example);
            assert_eq!(work.count.is_none(), work.waits == Waits::Once, "{}", example.name);
        }
    }
}
