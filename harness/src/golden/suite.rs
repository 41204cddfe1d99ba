//! Runs cases one after the other, compares them and reports.

use std::io::{self, Write};
use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::examples::Example;
use crate::golden::case::{Case, Device, read_cases};
use crate::golden::expect::Expectation;
use crate::golden::impossible;
use crate::golden::record::{Recordings, keep};
use crate::golden::rules::{Rules, Watch};
use crate::golden::share::Share;
use crate::hosts::ClientHost;
use crate::private::{ADDRESS, CLIENT_ADDRESS};
use crate::process::{Ending, Program};
use crate::run::{Plan, Unobserved, run};
use crate::transcript::Side;

/// Cases to run, and how.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Where the programs are.
    pub bin_dir: PathBuf,
    /// Where the clients are, if elsewhere.
    pub client_bin_dir: Option<PathBuf>,
    /// The folder with `cases.json`.
    pub data: PathBuf,
    /// Only cases for these machines.
    pub devices: Vec<Device>,
    /// Only these examples, if any is named.
    pub examples: Vec<String>,
    /// Only these cases, if any is named.
    pub cases: Vec<String>,
    /// Only this share of them.
    pub share: Option<Share>,
    /// Skip a case whose program does not exist, instead of failing it.
    pub skip_missing: bool,
    /// Expect the C's behaviour even where a difference is listed.
    pub no_differences: bool,
    /// The device is soft-hca's: what is listed as different there is expected.
    pub on_soft_hca: bool,
    /// Where the clients run, if that is another host: then only cases with both sides are run,
    /// but for those that are listed as impossible there.
    pub client_host: Option<ClientHost>,
    /// How many times as long as the recorded program a case may take.
    pub patience: u32,
    /// Where to keep what each case printed.
    pub keep_output: Option<PathBuf>,
}

/// How many cases came out how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Like the C, or as expected where nothing is compared with it.
    pub as_the_c: usize,
    /// Like the listed difference says.
    pub by_design: usize,
    /// Like the listed difference of soft-hca says.
    pub by_soft_hca: usize,
    /// Neither.
    pub failed: usize,
    /// Not run: another machine is needed, or the program is missing.
    pub skipped: usize,
}

impl Counts {
    /// Writes the line that sums a run up in which nothing is compared with the C.
    pub fn write_passed(&self, out: &mut dyn Write) -> Result<(), Error> {
        writeln!(out, "{} passed, {} failed, {} skipped", self.as_the_c, self.failed, self.skipped)
            .map_err(Error::write(Path::new("standard output")))
    }

    /// Writes the two lines that sum a run up.
    pub fn write(&self, on_soft_hca: bool, out: &mut dyn Write) -> Result<(), Error> {
        let on_soft_hca = match on_soft_hca {
            true => format!(", {} differ on soft-hca (listed)", self.by_soft_hca),
            false => String::new(),
        };
        writeln!(
            out,
            "{} as the C, {} differ by design (listed){}\n{} passed, {} failed, {} skipped",
            self.as_the_c,
            self.by_design,
            on_soft_hca,
            self.as_the_c + self.by_design + self.by_soft_hca,
            self.failed,
            self.skipped
        )
        .map_err(Error::write(Path::new("standard output")))
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.as_the_c += other.as_the_c;
        self.by_design += other.by_design;
        self.by_soft_hca += other.by_soft_hca;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// The cases and rules of a data folder.
#[derive(Debug)]
pub struct Suite {
    selection: Selection,
    cases: Vec<Case>,
    rules: Rules,
}

enum Verdict {
    AsTheC,
    ByDesign,
    BySoftHca,
    Failed(Vec<String>),
    Skipped(String),
}

impl Suite {
    /// Reads the data and chooses the cases.
    pub fn read(selection: Selection) -> Result<Suite, Error> {
        let mut cases = read_cases(&selection.data)?;
        let mut rules =
            Rules::read(&selection.data, &cases, !selection.no_differences, selection.on_soft_hca)?;
        if selection.client_host.is_some() {
            rules.are_for_two_hosts(&cases)?;
        }
        for wanted in &selection.examples {
            if !cases.iter().any(|case| case.example == *wanted) {
                return Err(Error::Usage(format!("no case belongs to an example {wanted:?}")));
            }
        }
        for wanted in &selection.cases {
            if !cases.iter().any(|case| case.is_called(wanted)) {
                return Err(Error::Usage(format!("no case is called {wanted:?}")));
            }
        }
        cases.retain(|case| {
            selection.devices.contains(&case.device)
                && (selection.client_host.is_none() || case.is_pair())
                && (selection.examples.is_empty() || selection.examples.contains(&case.example))
                && (selection.cases.is_empty()
                    || selection.cases.iter().any(|name| case.is_called(name)))
        });
        if let Some(share) = selection.share {
            cases = share.of(cases.into_iter()).collect();
        }
        Ok(Suite { selection, cases, rules })
    }

    /// Names the chosen cases with the machine each needs and what it shows.
    pub fn list(&self, out: &mut dyn Write) -> io::Result<()> {
        for case in &self.cases {
            writeln!(out, "{:<40} {:<6} {}", case.name(), case.device, case.why)?;
        }
        Ok(())
    }

    /// Runs the chosen cases, with a line for each and what failed again at the end.
    pub fn run(&self, out: &mut dyn Write) -> Result<Counts, Error> {
        let stdout = Path::new("standard output");
        let mut counts = Counts::default();
        let mut failures = String::new();
        for case in &self.cases {
            let start = Instant::now();
            let verdict = self.judge(case)?;
            let failed = matches!(verdict, Verdict::Failed(_));
            let (word, details) = match verdict {
                Verdict::AsTheC => {
                    counts.as_the_c += 1;
                    ("as the C", Vec::new())
                }
                Verdict::ByDesign => {
                    counts.by_design += 1;
                    ("differs by design", Vec::new())
                }
                Verdict::BySoftHca => {
                    counts.by_soft_hca += 1;
                    ("differs on soft-hca", Vec::new())
                }
                Verdict::Failed(complaints) => {
                    counts.failed += 1;
                    ("FAILED", complaints)
                }
                Verdict::Skipped(why) => {
                    counts.skipped += 1;
                    ("skipped", vec![why])
                }
            };
            let time = start.elapsed().as_secs_f64();
            let mut said = format!("{:<40} {word:<19} {time:5.1} s\n", case.name());
            for line in details.iter().flat_map(|text| text.lines()) {
                said += &format!("    {line}\n");
            }
            out.write_all(said.as_bytes()).map_err(Error::write(stdout))?;
            if failed {
                failures += &said;
            }
        }
        if !failures.is_empty() {
            write!(out, "failures:\n{failures}").map_err(Error::write(stdout))?;
        }
        Ok(counts)
    }

    /// Runs each of the chosen cases `runs` times and writes what they print to `into`, with
    /// the fields of `cases.json` that say what the runs had in common.
    pub fn record(&self, into: &Path, runs: u32, out: &mut dyn Write) -> Result<(), Error> {
        for case in &self.cases {
            let folder = into.join(&case.example).join(&case.case);
            let mut recordings = Recordings::new(folder, case, &self.rules.normaliser);
            for _ in 0..runs {
                let outcome = run(&self.plan(case)?, &mut Unobserved)?;
                recordings.add(&outcome)?;
                let say =
                    |side| outcome.ending(side).map_or("-".to_owned(), |e: Ending| e.to_string());
                let why = outcome.never_ready.as_deref().unwrap_or_default();
                writeln!(
                    out,
                    "{:<40} server {}, client {} {why}",
                    case.name(),
                    say(Side::Server),
                    say(Side::Client)
                )
                .map_err(Error::write(Path::new("standard output")))?;
            }
            if runs > 1 {
                let fields = serde_json::to_string(&recordings.fields())
                    .map_err(Error::json(Path::new("standard output")))?;
                writeln!(out, "    {fields}")
                    .map_err(Error::write(Path::new("standard output")))?;
            }
        }
        Ok(())
    }

    fn judge(&self, case: &Case) -> Result<Verdict, Error> {
        if let Some(why) = self.rules.leave_out(case) {
            return Ok(Verdict::Skipped(why.to_owned()));
        }
        let plan = self.plan(case)?;
        let missing = plan.programs().find(|program| !program.path.exists());
        if let Some(program) = missing {
            let what = format!("there is no program {}", program.path.display());
            return Ok(if self.selection.skip_missing {
                Verdict::Skipped(what)
            } else {
                Verdict::Failed(vec![what])
            });
        }
        let expected = self.rules.expected(case)?;
        let normaliser = &self.rules.normaliser;
        let mut watch = Watch { expected: expected.here(), normaliser };
        let outcome = match run(&plan, &mut watch) {
            Ok(outcome) => outcome,
            Err(error @ Error::Start { .. }) => {
                return Ok(Verdict::Failed(vec![error.to_string()]));
            }
            Err(error) => return Err(error),
        };
        if let Some(folder) = &self.selection.keep_output {
            keep(&folder.join(&case.example).join(&case.case), case, &outcome)?;
        }
        let mut complaints = expected.here().complaints(&outcome, normaliser);
        complaints.extend(impossible(&case.example, &outcome));
        if !complaints.is_empty() {
            return Ok(Verdict::Failed(complaints));
        }
        let is_like = |other: &Expectation| other.complaints(&outcome, normaliser).is_empty();
        let not_needed = |than: &str| {
            Verdict::Failed(vec![format!("is listed as a difference, but came out like {than}")])
        };
        if let Some((difference, _)) = &expected.on_soft_hca {
            if !is_like(expected.by_design()) {
                return Ok(Verdict::BySoftHca);
            } else if !difference.may_be_as_the_c {
                return Ok(not_needed("on a device"));
            }
        }
        Ok(match &expected.listed {
            Some(_) if !is_like(&expected.recorded) => Verdict::ByDesign,
            Some((difference, _)) if !difference.may_be_as_the_c => not_needed("the C"),
            _ => Verdict::AsTheC,
        })
    }

    fn plan(&self, case: &Case) -> Result<Plan, Error> {
        let example = Example::named(&case.example).ok_or_else(|| {
            Error::data(&self.selection.data, format!("{}: no such example", case.name()))
        })?;
        let bin_dir = &self.selection.bin_dir;
        let client_bin_dir = self.selection.client_bin_dir.as_ref().unwrap_or(bin_dir);
        Ok(case.plan(example, self.selection.patience, |seat, side, mut args| {
            let host = self.selection.client_host.as_ref().filter(|_| side == Side::Client);
            if host.is_some() && example.own_address {
                for arg in args.iter_mut().filter(|arg| *arg == ADDRESS) {
                    *arg = CLIENT_ADDRESS.into();
                }
            }
            let dir = if side == Side::Client { client_bin_dir } else { bin_dir };
            let path = match seat {
                Side::Server => &case.server_path,
                Side::Client => &case.client_path,
            };
            let program = match path {
                Some(path) => {
                    Program { path: path.clone(), arg0: None, args, ends_with_input: false }
                }
                None => example.program(dir, side, args),
            };
            match host {
                Some(host) => host.there(program),
                None => program,
            }
        }))
    }
}
