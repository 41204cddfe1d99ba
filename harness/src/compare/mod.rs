//! The C originals and the Rust programs side by side: what differs, whether they work
//! together, and what each costs.
//!
//! - [`options`]: the command line
//! - [`originals`]: finds the C programs
//! - [`stage`]: which build plays which side, on which host, and at which port
//! - [`diff`], [`unified`]: the same command lines with both
//! - [`calls`]: what both ask of RDMA
//! - [`failing`]: how both end when a call fails
//! - [`interop`], [`evidence`]: all four pairings, and whether the data have arrived
//! - [`speed`], [`stats`]: time, processor time, memory, size
//! - [`units`], `at_once`: what is looked at by itself, and beside others
//! - [`results`], [`table`], [`report`]: what is said of it

mod at_once;
pub mod calls;
pub mod diff;
pub mod evidence;
pub mod failing;
pub mod get_c;
pub mod interop;
pub mod options;
pub mod originals;
mod ports;
pub mod report;
pub mod results;
pub mod speed;
pub mod stage;
pub mod stats;
pub mod table;
pub mod unified;
pub mod units;

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use crate::compare::at_once::Workers;
use crate::compare::calls::Known;
use crate::compare::diff::{CaseResult, Diff, Verdict};
use crate::compare::evidence::Data;
use crate::compare::failing::Failing;
use crate::compare::interop::Pairing;
use crate::compare::results::{ExampleResult, Results};
use crate::compare::speed::Effort;
use crate::compare::stage::{Maker, Stage};
use crate::compare::units::{Found, Unit};
use crate::error::Error;
use crate::examples::Example;
use crate::process::Program;
use crate::transcript::Side;

/// A part of the comparison to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// The same command lines with both.
    Diff,
    /// The calls of both, as soft-hca records them.
    Calls,
    /// How both end when one call after the other fails, on soft-hca.
    Failing,
    /// All four pairings.
    Interop,
    /// Time, processor time, memory, size.
    Speed,
}

impl Part {
    /// Whether only soft-hca can show it.
    fn needs_soft_hca(self) -> bool {
        matches!(self, Part::Calls | Part::Failing)
    }
}

/// A comparison.
#[derive(Debug)]
pub struct Compare {
    /// Where the programs run.
    pub stage: Stage,
    /// Name of that place.
    pub fabric: String,
    /// The examples to look at.
    pub examples: Vec<&'static Example>,
    /// The parts to look at.
    pub parts: Vec<Part>,
    /// The recorded command lines and the rules.
    pub diff: Diff,
    /// Calls in which ours differ from the C by design.
    pub known_calls: Known,
    /// Faults, and the endings in which ours differ from the C by design.
    pub failing: Failing,
    /// How thoroughly to measure, and the user's flags.
    pub effort: Effort,
    /// Where to write everything for scripts.
    pub json: Option<PathBuf>,
    /// Where to write the report, and the folder of the workspace.
    pub report: Option<(PathBuf, PathBuf)>,
}

/// Writes what is found, while it is found.
struct Progress {
    coloured: bool,
}

impl Progress {
    fn line(&self, text: &str) -> Result<(), Error> {
        let mut out = io::stdout().lock();
        writeln!(out, "{text}")
            .and_then(|()| out.flush())
            .map_err(Error::write(Path::new("standard output")))
    }

    fn found(&self, found: &Found) -> Result<(), Error> {
        match found {
            Found::Case(case) | Found::Calls(case) | Found::Failing(case) => self.case(case),
            Found::Pairings(pairings) => pairings.iter().try_for_each(|each| self.pairing(each)),
            Found::Speed(speed) => {
                let words = report::speed_in_words(speed);
                words.lines().try_for_each(|line| self.line(&format!("  {line}")))
            }
            Found::NotMeasured(why) => self.line(&format!("  CANNOT BE MEASURED: {why}")),
        }
    }

    fn pairing(&self, pairing: &Pairing) -> Result<(), Error> {
        let word = match (pairing.works, pairing.data) {
            (false, _) => "FAILS",
            (true, Some(Data::Counted)) => "works, messages counted",
            (true, Some(Data::NotLookedAt)) => "works, data not looked at",
            (true, Some(Data::LookedAt) | None) => "works",
        };
        let note = pairing.note.as_ref().map_or(String::new(), |note| format!(": {note}"));
        let (server, client) = (pairing.server, pairing.client);
        self.line(&format!("  {server:>4} server, {client:>4} client: {word}{note}"))
    }

    fn case(&self, result: &CaseResult) -> Result<(), Error> {
        let word = match &result.verdict {
            Verdict::Same => "same".to_owned(),
            Verdict::Known { reason } => format!("known difference: {reason}"),
            Verdict::OtherC => "ours is as the recorded C; this C is not".to_owned(),
            Verdict::Unexpected => "UNEXPECTED".to_owned(),
            Verdict::Skipped { why } => format!("skipped: {why}"),
        };
        self.line(&format!("  {:<32} {word}", result.case))?;
        for line in &result.differences {
            let line = if self.coloured { unified::coloured(line) } else { line.clone() };
            self.line(&format!("      {line}"))?;
        }
        Ok(())
    }
}

impl Compare {
    /// Looks at everything, with so many harnesses beside each other, each in a fabric of its own, or in this one's.
    /// `arguments` are this program's. True if nothing unexpected was seen.
    pub fn run(&self, at_once: Option<u32>, arguments: &[OsString]) -> Result<bool, Error> {
        let coloured = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let progress = Progress { coloured };
        let begun = Instant::now();
        progress.line(&format!("fabric: {}", self.fabric))?;
        let is_there = |example: &&&Example| self.stage.originals.missing(example).is_none();
        for example in self.examples.iter().filter(is_there) {
            self.require_ours(example)?;
        }
        let units = self.all_units();
        let mut told = Told::new(self, &progress, &units);
        match at_once {
            None => {
                for place in order(&units) {
                    told.take(place, self.look(units[place])?)?;
                }
            }
            Some(count) => {
                let mut workers = Workers::start(count, arguments)?;
                let (sender, found) = mpsc::channel();
                thread::scope(|scope| {
                    // Programs that are measured have the machine for themselves.
                    let (alone, beside): (Vec<_>, Vec<_>) =
                        order(&units).partition(|&place| units[place].what.is_alone());
                    scope.spawn(move || {
                        workers.look(&beside, usize::MAX, &sender);
                        workers.look(&alone, 1, &sender);
                    });
                    found.into_iter().try_for_each(|(place, found)| told.take(place, found?))
                })?;
            }
        }
        let results = Results::new(self.fabric.clone(), told.finish()?);
        progress.line(&format!("\n{:.1} minutes", begun.elapsed().as_secs_f64() / 60.0))?;
        progress.line(table::closing(&results).trim_end())?;
        if let Some(path) = &self.json {
            let text = serde_json::to_string_pretty(&results).map_err(Error::json(path))?;
            fs::write(path, text + "\n").map_err(Error::write(path))?;
        }
        if let Some((path, source)) = &self.report {
            let text = report::report(&results, &self.diff.rules().differences, source)?;
            fs::write(path, text).map_err(Error::write(path))?;
        }
        Ok(results.unexpected == 0)
    }

    /// Looks at those units that standard input names, for a harness that runs several.
    pub fn run_units(&self) -> Result<bool, Error> {
        let units = self.all_units();
        let no_unit = |place| Error::Usage(format!("there is no unit {place}"));
        at_once::work(|place| self.look(*units.get(place).ok_or_else(|| no_unit(place))?))?;
        Ok(true)
    }

    /// Those of all examples whose C is there.
    fn all_units(&self) -> Vec<Unit<'_>> {
        let examples = self.examples.iter();
        let there = examples.filter(|example| self.stage.originals.missing(example).is_none());
        there.flat_map(|example| self.units(example)).collect()
    }

    /// Our own programs have to be there.
    fn require_ours(&self, example: &Example) -> Result<(), Error> {
        let sides = example.program_sides();
        let ours = |&side: &Side| self.stage.program(example, Maker::Rust, side, Vec::new());
        match sides.iter().map(ours).find(|program: &Program| !program.path.exists()) {
            None => Ok(()),
            Some(program) => Err(Error::Usage(format!(
                "there is no program {}: build the workspace first, or name the folder with --bin-dir",
                program.path.display()
            ))),
        }
    }
}

/// The places of the units, those that are looked at alone last.
fn order(units: &[Unit<'_>]) -> impl Iterator<Item = usize> {
    let alone = |alone| move |&place: &usize| units[place].what.is_alone() == alone;
    (0..units.len()).filter(alone(false)).chain((0..units.len()).filter(alone(true)))
}

/// Findings, told in the order of the examples, whichever comes first.
struct Told<'a> {
    progress: &'a Progress,
    units: &'a [Unit<'a>],
    /// Places of the units that are not told yet, the next one first.
    left: VecDeque<usize>,
    /// Findings that came before their turn.
    early: BTreeMap<usize, Found>,
    results: Vec<ExampleResult>,
    /// Headings of the others, which are told when it is their turn.
    headings: VecDeque<&'static Example>,
    /// Whether what is measured has its heading.
    measures: bool,
}

impl<'a> Told<'a> {
    fn new(compare: &'a Compare, progress: &'a Progress, units: &'a [Unit<'a>]) -> Told<'a> {
        let result = |example: &&'static Example| ExampleResult {
            example: example.name,
            skipped: compare.stage.originals.missing(example),
            ..ExampleResult::default()
        };
        Told {
            progress,
            units,
            left: order(units).collect(),
            early: BTreeMap::new(),
            results: compare.examples.iter().map(result).collect(),
            headings: compare.examples.iter().copied().collect(),
            measures: false,
        }
    }

    /// Takes what was found of a unit, and tells what is next.
    fn take(&mut self, place: usize, found: Found) -> Result<(), Error> {
        self.early.insert(place, found);
        while let Some((place, found)) =
            self.left.front().and_then(|place| self.early.remove_entry(place))
        {
            self.left.pop_front();
            self.tell(self.units[place], found)?;
        }
        Ok(())
    }

    fn tell(&mut self, unit: Unit<'_>, found: Found) -> Result<(), Error> {
        let is_own = |result: &&mut ExampleResult| result.example == unit.example.name;
        if !unit.what.is_alone() {
            if let Some(before) =
                self.headings.iter().position(|next| next.name == unit.example.name)
            {
                for _ in 0..=before {
                    self.heading()?;
                }
            }
        } else if !self.measures {
            self.measures = true;
            self.all_headings()?;
            self.progress.line("\nspeed and cost")?;
        }
        if unit.what.is_alone() {
            self.progress.line(&format!("  {}", unit.example.name))?;
        }
        self.progress.found(&found)?;
        if let Some(result) = self.results.iter_mut().find(is_own) {
            result.take(found);
        }
        Ok(())
    }

    /// Tells the next heading, and why there is nothing below it, if so.
    fn heading(&mut self) -> Result<(), Error> {
        let Some(example) = self.headings.pop_front() else { return Ok(()) };
        self.progress.line(&format!("\n{}: {}", example.name, example.lesson))?;
        let mut results = self.results.iter();
        let result = results.find(|result| result.example == example.name);
        match result.and_then(|result| result.skipped.as_ref()) {
            Some(why) => self.progress.line(&format!("  skipped: {why}")),
            None => Ok(()),
        }
    }

    fn all_headings(&mut self) -> Result<(), Error> {
        while !self.headings.is_empty() {
            self.heading()?;
        }
        Ok(())
    }

    /// All that was found, when everything is told.
    fn finish(mut self) -> Result<Vec<ExampleResult>, Error> {
        self.all_headings()?;
        Ok(self.results)
    }
}

/// Runs this program again with C programs made to print each line at once, as they do on a
/// terminal. Returns only if that fails, or is not needed any more.
pub fn line_buffered(arguments: impl IntoIterator<Item = OsString>) -> Option<Error> {
    use std::os::unix::process::CommandExt;
    if std::env::var_os("_STDBUF_O").is_some() {
        return None;
    }
    let own = match std::env::current_exe() {
        Ok(own) => own,
        Err(source) => return Some(Error::Start { program: "the harness".to_owned(), source }),
    };
    let mut command = std::process::Command::new("stdbuf");
    let source = command.arg("-oL").arg(own).args(arguments).exec();
    Some(Error::Start { program: "stdbuf".to_owned(), source })
}
