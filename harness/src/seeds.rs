//! Every example with one seed of soft-hca's `--strict` after the other: which of them rely on what is
//! not promised.

use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::time::Instant;

use crate::demo::{Demo, Verdict};
use crate::error::Error;
use crate::examples::{EXAMPLES, Example};
use crate::golden::share::Share;
use crate::golden::suite::Counts;
use crate::process::{Ending, Program};
use crate::run::{Client, Unobserved};
use crate::soft_hca;
use crate::transcript::Side;

/// Examples that rely on what is not promised, on what that is, and how many seeds surely find it.
const RELY: [(&str, &str, usize); 4] = [
    ("ping-rdma-3", "watches its memory", 100),
    ("read-write-0", "its faults", 100),
    ("mckey", "destroys its queue pair behind its sends", 1),
    // Of two messages one is seldom lost.
    ("mc", "waits for every datagram", usize::MAX),
];

/// Examples and seeds to run.
#[derive(Debug)]
pub struct Selection {
    /// How an example is run.
    pub demo: Demo,
    /// Only these examples, if any is named.
    pub examples: Vec<String>,
    /// The seeds.
    pub seeds: Range<u64>,
    /// Their sleeps go by the fabric's clock.
    pub skip_sleeps: bool,
    /// Only this share of the examples.
    pub share: Option<Share>,
}

/// Runs the examples, with a line for each.
pub fn run(selection: &Selection, out: &mut dyn Write) -> Result<Counts, Error> {
    let names = &selection.examples;
    let is_selected = |example: &&'static Example| {
        names.is_empty() || names.iter().any(|name| name == example.name)
    };
    let examples = EXAMPLES.iter().filter(is_selected);
    let examples: Vec<_> = match selection.share {
        Some(share) => share.of(examples).collect(),
        None => examples.collect(),
    };
    let mut counts = Counts::default();
    for example in examples {
        let (is_good, said) = selection.example(example)?;
        out.write_all(said.as_bytes()).map_err(Error::write(Path::new("standard output")))?;
        *if is_good { &mut counts.as_the_c } else { &mut counts.failed } += 1;
    }
    Ok(counts)
}

impl Selection {
    /// Runs one with all seeds. Whether that went as it has to, and what there is to say.
    fn example(&self, example: &'static Example) -> Result<(bool, String), Error> {
        let start = Instant::now();
        let (mut failed, mut why, mut seeds) = (Vec::new(), String::new(), 0);
        for seed in self.seeds.clone() {
            let mut plan = self.demo.plan(example, Some(&example.few()))?;
            plan.server = plan.server.map(|program| self.strictly(seed, &program));
            if let Some(Client::Program(client)) = &mut plan.client {
                *client = self.strictly(seed, client);
            }
            let (outcome, verdict) = self.demo.play(example, plan, &mut Unobserved)?;
            seeds += 1;
            if let Verdict::Failed(how) = verdict {
                why += &format!("    seed {seed}: {how}\n");
                failed.push(seed);
            }
            // An example that hangs once is not waited for again.
            if Side::BOTH.iter().any(|side| outcome.ending(*side) == Some(Ending::TimedOut)) {
                break;
            }
        }
        let (is_good, reason) = match RELY.iter().find(|(name, ..)| *name == example.name) {
            Some((_, reason, surely)) => (!failed.is_empty() || seeds < *surely, *reason),
            None => (failed.is_empty(), ""),
        };
        let word = if is_good { "as expected" } else { "FAILED" };
        let (name, count) = (example.name, failed.len());
        let time = start.elapsed().as_secs_f64();
        let line = format!("{name:<14} {count:>3} of {seeds} fail  {word:<12} {time:7.1} s");
        let line = format!("{line}  {reason}");
        Ok((is_good, format!("{}\n{why}", line.trim_end())))
    }

    /// The same program with a seed.
    fn strictly(&self, seed: u64, program: &Program) -> Program {
        let seed = format!("--strict={seed}");
        let skips = self.skip_sleeps.then_some("--skip-sleeps");
        let options: Vec<&str> = [&seed[..]].into_iter().chain(skips).collect();
        soft_hca::run(&options, program)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_relies_on_something_is_an_example() {
        assert!(RELY.iter().all(|(name, ..)| Example::named(name).is_some()));
    }
}
