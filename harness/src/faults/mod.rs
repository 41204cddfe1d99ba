//! Every verb that the examples call, made to fail: what the caller says, how both sides end, and
//! that nothing is left behind. On soft-hca, by its `--fault`.
//!
//! - [`data`]: what has to happen
//! - [`page`]: the same as a page of the documentation
//! - [`record`]: writes what happens as what has to happen

pub mod data;
pub mod page;
pub mod record;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::demo::Demo;
use crate::error::Error;
use crate::examples::Example;
use crate::faults::data::{Data, OfSide, Row};
use crate::golden::normalise::Normaliser;
use crate::golden::share::Share;
use crate::golden::suite::Counts;
use crate::process::{Ending, Program};
use crate::run::{Client, Observer, Outcome, Plan, Progress, Unobserved, run};
use crate::soft_hca;
use crate::transcript::{Side, Stream};

/// The error that a call fails with, wherever it is.
const ERRNO: &str = "ENOMEM";
/// How long a side that is to run on is looked at while it does.
const RUNS_ON_FOR: Duration = Duration::from_millis(700);
/// How long the daemon may take to clean up behind programs.
const CLEAN_UP: Duration = Duration::from_secs(20);

/// Cases to run, and how.
#[derive(Debug)]
pub struct Selection {
    /// How an example is run.
    pub demo: Demo,
    /// The folder with what has to happen.
    pub data: PathBuf,
    /// The folder with the rules that make lines comparable.
    pub rules: PathBuf,
    /// Only these examples, if any is named.
    pub examples: Vec<String>,
    /// One case of so many.
    pub sample: usize,
    /// Only this share of them.
    pub share: Option<Share>,
}

/// Runs of examples in which one call fails.
#[derive(Debug)]
pub struct Faults {
    selection: Selection,
    normaliser: Normaliser,
}

/// Something to be run and judged.
enum Case<'d> {
    /// All goes well: the calls of both sides are those that are listed.
    Complete(&'static Example, [Option<&'d OfSide>; 2]),
    /// One call fails.
    Fails(&'static Example, Side, &'d Row),
}

impl Case<'_> {
    fn name(&self) -> String {
        match self {
            Self::Complete(example, _) => format!("{}/calls", example.name),
            Self::Fails(example, side, row) => format!("{}/{side}/{}", example.name, row.verb),
        }
    }
}

impl Faults {
    /// For a selection.
    pub fn new(selection: Selection) -> Result<Self, Error> {
        let normaliser = Normaliser::read(&selection.rules)?;
        Ok(Self { selection, normaliser })
    }

    fn is_selected(&self, example: &Example) -> bool {
        let names = &self.selection.examples;
        names.is_empty() || names.iter().any(|name| name == example.name)
    }

    /// Runs the cases, with a line for each.
    pub fn run(&self, out: &mut dyn Write) -> Result<Counts, Error> {
        let data = Data::read(&self.selection.data)?;
        let mut cases = Vec::new();
        for (example, of_example) in data.examples.iter().filter(|(e, _)| self.is_selected(e)) {
            cases.push(Case::Complete(example, Side::BOTH.map(|side| of_example.of(side))));
            cases.extend(of_example.rows().map(|(side, row)| Case::Fails(example, side, row)));
        }
        let mut cases: Vec<_> = cases.into_iter().step_by(self.selection.sample.max(1)).collect();
        if let Some(share) = self.selection.share {
            cases = share.of(cases.into_iter()).collect();
        }
        let mut counts = Counts::default();
        let mut failures = String::new();
        for case in &cases {
            let start = Instant::now();
            let complaints = self.judge(case)?;
            let word = if complaints.is_empty() { "as expected" } else { "FAILED" };
            let time = start.elapsed().as_secs_f64();
            let mut said = format!("{:<48} {word:<12} {time:5.1} s\n", case.name());
            complaints.iter().for_each(|line| said += &format!("    {line}\n"));
            out.write_all(said.as_bytes()).map_err(Error::write(Path::new("standard output")))?;
            match complaints.is_empty() {
                true => counts.as_the_c += 1,
                false => {
                    counts.failed += 1;
                    failures += &said;
                }
            }
        }
        if !failures.is_empty() {
            let text = format!("failures:\n{failures}");
            out.write_all(text.as_bytes()).map_err(Error::write(Path::new("standard output")))?;
        }
        Ok(counts)
    }

    fn judge(&self, case: &Case<'_>) -> Result<Vec<String>, Error> {
        let mut complaints = match case {
            Case::Complete(example, listed) => {
                let outcome = self.listing(example)?;
                let mut complaints = Vec::new();
                for (side, of_side) in Side::BOTH.into_iter().zip(listed) {
                    let calls = calls(&outcome, side);
                    let listed: BTreeSet<&str> =
                        of_side.iter().flat_map(|of_side| of_side.calls()).collect();
                    let calls: BTreeSet<&str> = calls.iter().map(String::as_str).collect();
                    for call in calls.symmetric_difference(&listed) {
                        let how = if listed.contains(call) { "does not call" } else { "calls" };
                        complaints.push(format!("the {side} {how} {call}"));
                    }
                }
                complaints
            }
            Case::Fails(example, side, row) => {
                let outcome = self.with_fault(
                    example,
                    *side,
                    &row.verb,
                    None,
                    &mut Watch { side: *side, row },
                )?;
                self.complaints(example, *side, row, &outcome)
            }
        };
        complaints.extend(left_behind()?);
        Ok(complaints)
    }

    fn complaints(
        &self,
        example: &Example,
        side: Side,
        row: &Row,
        outcome: &Outcome,
    ) -> Vec<String> {
        let mut complaints: Vec<String> = Vec::new();
        let peer = other(side);
        for (who, expected) in [(side, Some(&row.ends)), (peer, row.peer.as_ref())] {
            let ending = outcome.ending(who);
            let is_as_expected = match (expected, ending) {
                (Some(expected), Some(ending)) => expected.allow(ending),
                (expected, ending) => expected.is_none() && ending.is_none(),
            };
            if !is_as_expected {
                let not_started = || "not started".to_owned();
                let ending = ending.map_or_else(not_started, |ending| ending.to_string());
                let expected = expected.cloned().map_or_else(not_started, String::from);
                complaints.push(format!("{who}: {ending}, expected {expected}"));
            }
        }
        let said = self.said(example, side, outcome);
        let missing = |says: &&String| !row.overtaken && !said.contains(says);
        if let Some(says) = row.says.as_ref().filter(missing) {
            complaints.push(format!("the {side} does not say {says:?}"));
        }
        if !complaints.is_empty() {
            for line in outcome.transcript.lines() {
                complaints.push(format!("{} {}", line.side, line.text));
            }
        }
        complaints
    }

    /// Lines of a side, comparable, without the program's name.
    fn said(&self, example: &Example, side: Side, outcome: &Outcome) -> Vec<String> {
        let own = example.binary(side);
        // one of several clients, or its agent, has its number behind the name
        let is_number = |c: char| c.is_ascii_digit() || c == '[' || c == ']';
        let text = |line: &str| {
            let rest = line.strip_prefix(&own)?.trim_start_matches(is_number);
            Some(rest.strip_prefix(": ")?.to_owned())
        };
        let streams = [Stream::Stderr, Stream::Stdout];
        let lines = streams.iter().flat_map(|stream| outcome.transcript.stream(side, *stream));
        let lines: Vec<_> = lines.map(|line| text(&line).unwrap_or(line)).collect();
        self.normaliser.apply(example.name, &lines)
    }

    /// A run in which all goes well and both sides list their calls.
    fn listing(&self, example: &Example) -> Result<Outcome, Error> {
        run(&self.plan(example, &Side::BOTH, "list")?, &mut Unobserved)
    }

    /// A run in which the first call of a verb fails.
    fn with_fault(
        &self,
        example: &Example,
        side: Side,
        verb: &str,
        limit: Option<Duration>,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Error> {
        let mut plan = self.plan(example, &[side], &fails(verb))?;
        // A server that serves for ever runs on.
        plan.served = None;
        plan.limit = limit.unwrap_or(plan.limit);
        run(&plan, observer)
    }

    /// The example's run, of which these sides have faults.
    fn plan(&self, example: &Example, sides: &[Side], spec: &str) -> Result<Plan, Error> {
        let mut plan = self.selection.demo.plan(example, None)?;
        if let Some(server) = plan.server.as_mut().filter(|_| sides.contains(&Side::Server)) {
            *server = faulty(server, spec);
        }
        if let Some(Client::Program(client)) = &mut plan.client {
            if sides.contains(&Side::Client) {
                *client = faulty(client, spec);
            }
        }
        Ok(plan)
    }
}

impl OfSide {
    /// All calls.
    fn calls(&self) -> impl Iterator<Item = &str> {
        let fails = self.fails.iter().map(|row| &row.verb);
        self.cannot_fail.iter().chain(fails).map(String::as_str)
    }
}

/// The calls that a side has listed.
fn calls(outcome: &Outcome, side: Side) -> Vec<String> {
    let lines = outcome.transcript.of(side, Stream::Stderr);
    let calls = lines.filter_map(|line| line.text.split("soft-hca: calls ").nth(1));
    calls.map(str::to_owned).collect()
}

/// The other side.
fn other(side: Side) -> Side {
    if side == Side::Server { Side::Client } else { Side::Server }
}

/// The fault by which the first call of a verb fails.
pub(crate) fn fails(verb: &str) -> String {
    format!("{verb}:nth=1,errno={ERRNO}")
}

/// The same program with faults.
pub(crate) fn faulty(program: &Program, spec: &str) -> Program {
    soft_hca::run(&["--fault", spec], program)
}

/// Objects left behind by programs that have ended.
fn left_behind() -> Result<Vec<String>, Error> {
    let end = Instant::now() + CLEAN_UP;
    loop {
        let left = soft_hca::left_behind().map_err(|error| Error::Listen(error.to_string()))?;
        if left.is_empty() || Instant::now() >= end {
            return Ok(left.into_iter().map(|line| format!("left behind: {line}")).collect());
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Ends a run when what still runs is expected to run on.
pub(crate) struct Watch<'d> {
    /// The side whose call fails.
    pub(crate) side: Side,
    /// The expectation of both.
    pub(crate) row: &'d Row,
}

impl Observer for Watch<'_> {
    fn is_settled(&mut self, so_far: &Progress<'_>) -> bool {
        let of = |side| if side == Side::Server { so_far.server } else { so_far.client };
        let sides = [(self.side, Some(&self.row.ends)), (other(self.side), self.row.peer.as_ref())];
        sides
            .into_iter()
            .filter_map(|(side, expected)| Some((expected?, of(side))))
            .all(|(expected, ending)| expected.allow(ending.unwrap_or(Ending::TimedOut)))
    }

    fn settled_for(&self) -> Duration {
        RUNS_ON_FOR
    }
}
