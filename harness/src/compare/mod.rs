//! The C originals and the Rust programs side by side: what differs, whether they work
//! together, and what each costs.
//!
//! - [`options`]: the command line
//! - [`originals`]: finds the C programs
//! - [`stage`]: which build plays which side, on which host, and at which port
//! - [`diff`], [`unified`]: the same command lines with both
//! - [`interop`], [`evidence`]: all four pairings, and whether the data have arrived
//! - [`speed`], [`stats`]: time, processor time, memory, size
//! - [`results`], [`table`], [`report`]: what is said of it

pub mod diff;
pub mod evidence;
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

use std::ffi::OsString;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use crate::compare::diff::{CaseResult, Diff, Verdict};
use crate::compare::evidence::Data;
use crate::compare::results::{ExampleResult, Results};
use crate::compare::speed::Effort;
use crate::compare::stage::{Maker, Stage};
use crate::error::Error;
use crate::examples::Example;
use crate::process::Program;
use crate::transcript::Side;

/// What to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// The same command lines with both.
    Diff,
    /// All four pairings.
    Interop,
    /// Time, processor time, memory, size.
    Speed,
}

/// A comparison.
#[derive(Debug)]
pub struct Compare {
    /// Where the programs run.
    pub stage: Stage,
    /// What that is called.
    pub fabric: String,
    /// The examples to look at.
    pub examples: Vec<&'static Example>,
    /// What to look at.
    pub parts: Vec<Part>,
    /// The recorded command lines and the rules.
    pub diff: Diff,
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
    /// Looks at everything. True if nothing unexpected was seen.
    pub fn run(&self) -> Result<bool, Error> {
        let coloured = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let progress = Progress { coloured };
        progress.line(&format!("fabric: {}", self.fabric))?;
        let mut examples = Vec::new();
        for example in &self.examples {
            examples.push(self.example(example, &progress)?);
        }
        let results = Results::new(self.fabric.clone(), examples);
        progress.line("")?;
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

    fn example(
        &self,
        example: &'static Example,
        progress: &Progress,
    ) -> Result<ExampleResult, Error> {
        let mut result = ExampleResult { example: example.name, ..ExampleResult::default() };
        progress.line(&format!("\n{}: {}", example.name, example.lesson))?;
        if let Some(why) = self.stage.originals.missing(example) {
            progress.line(&format!("  skipped: {why}"))?;
            result.skipped = Some(why);
            return Ok(result);
        }
        self.require_ours(example)?;
        let flags = (!self.effort.flags.is_empty()).then_some(self.effort.flags.as_slice());
        if self.parts.contains(&Part::Diff) {
            if let Some(flags) = flags {
                let found = self.diff.own(&self.stage, example, flags)?;
                progress.case(&found)?;
                result.cases.push(found);
            } else {
                for case in self.diff.cases(example) {
                    let found = self.diff.case(&self.stage, example, case)?;
                    progress.case(&found)?;
                    result.cases.push(found);
                }
            }
        }
        if self.parts.contains(&Part::Interop) {
            result.pairings = interop::pairings(&self.stage, example, flags)?;
            for pairing in &result.pairings {
                let word = match (pairing.works, pairing.data) {
                    (false, _) => "FAILS",
                    (true, Some(Data::Counted)) => "works, messages counted",
                    (true, Some(Data::NotLookedAt)) => "works, data not looked at",
                    (true, Some(Data::LookedAt) | None) => "works",
                };
                let note = pairing.note.as_ref().map_or(String::new(), |note| format!(": {note}"));
                let (server, client) = (pairing.server, pairing.client);
                progress
                    .line(&format!("  {server:>4} server, {client:>4} client: {word}{note}"))?;
            }
        }
        if self.parts.contains(&Part::Speed) {
            match speed::measure(&self.stage, example, &self.effort) {
                Ok(speed) => {
                    for line in report::speed_in_words(&speed).lines() {
                        progress.line(&format!("  {line}"))?;
                    }
                    result.speed = Some(speed);
                }
                Err(speed::Failure::Run(why)) => {
                    progress.line(&format!("  CANNOT BE MEASURED: {why}"))?;
                    result.not_measured = Some(why);
                }
                Err(speed::Failure::Harness(error)) => return Err(error),
            }
        }
        Ok(result)
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
