//! `soft-hca run --seeds`: runs a program strictly until it fails.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{ErrorKind, IsTerminal, stderr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use soft_hca_core::config::Strict;

use super::at_once::{AtOnce, Ended};
use super::line::RunOptions;
use super::record::{self, OUT_OF_TIME, RecordOptions};
use super::subjects::Subjects;
use super::{Error, cannot, search};

/// How often, and with which seeds.
#[derive(Clone, Copy, Debug)]
pub struct Seeds {
    /// The first one, and the kinds of choices.
    pub first: Strict,
    /// Runs, at most.
    pub count: u64,
    /// How long each may take.
    pub time: Duration,
    /// For how long it is looked for the choices by which a run fails.
    pub search: Duration,
    /// How many runs go on at once.
    pub at_once: usize,
}

/// Runs a program with a seed after the other until it fails. Gives the exit status of the first run that has
/// failed.
pub fn run(seeds: Seeds, wanted: &RunOptions, command: &[OsString]) -> Result<u8, Error> {
    let Seeds { first, count, time, at_once, .. } = seeds;
    let runs = Runs { time, wanted, command };
    let failed = match at_once {
        1 => one_after_the_other(first, count, &runs)?,
        _ => several(first, count, at_once, &runs)?,
    };
    match failed {
        Some(ended) => {
            runs.look_for_choices(seeds, &ended)?;
            Ok(ended.status)
        }
        None => {
            let kinds = match first.choices.iter().count() {
                0 => "no choices".to_string(),
                count => format!("{count} kinds of choices, {}", first.choices),
            };
            eprintln!("soft-hca: it has passed with {count} seeds from {} on: {kinds}", first.seed);
            Ok(0)
        }
    }
}

/// Runs a program with one of the seeds, its record in a file. Gives its exit status.
pub fn one(
    seeds: Seeds,
    seed: u64,
    file: &Path,
    wanted: &RunOptions,
    command: &[OsString],
) -> Result<u8, Error> {
    let runs = Runs { time: seeds.time, wanted, command };
    // The file of a run that failed to record is of no use.
    runs.run(Strict { seed, ..seeds.first }, file, false).inspect_err(|_| _ = fs::remove_file(file))
}

/// The first run that fails, of those that are made one after the other.
fn one_after_the_other(first: Strict, count: u64, runs: &Runs<'_>) -> Result<Option<Ended>, Error> {
    let mut progress = Progress::new(count);
    for number in 0..count {
        let seed = first.seed.wrapping_add(number);
        let file = new_file(seed)?;
        progress.begins(number, seed);
        let status = runs.run(Strict { seed, ..first }, &file, false);
        progress.ends();
        // The file of a run that failed to record is of no use.
        let status = status.inspect_err(|_| _ = fs::remove_file(&file))?;
        if status != 0 {
            let ended = Ended { seed, file, status };
            runs.say(first, &ended);
            return Ok(Some(ended));
        }
        remove(&file)?;
    }
    Ok(None)
}

/// The first run that fails, in the order of their seeds, of those that are made at once.
fn several(
    first: Strict,
    count: u64,
    at_once: usize,
    runs: &Runs<'_>,
) -> Result<Option<Ended>, Error> {
    let mut progress = Progress::new(count);
    let mut numbers = 0..count;
    let (mut running, mut failed, mut passed) = (AtOnce::default(), None, 0);
    loop {
        while failed.is_none() && running.count() < at_once {
            let Some(number) = numbers.next() else { break };
            let seed = first.seed.wrapping_add(number);
            running.begin(seed, new_file(seed)?)?;
        }
        progress.begins(passed, first.seed.wrapping_add(passed));
        let ended = running.end_first()?;
        progress.ends();
        match ended {
            None => return Ok(failed),
            Some(ended) if ended.status == 0 => {
                passed += 1;
                remove(&ended.file)?;
            }
            // It has said why it recorded nothing.
            Some(ended) if !ended.file.exists() => failed = failed.or(Some(ended)),
            Some(ended) => {
                runs.say(first, &ended);
                failed = failed.or(Some(ended));
            }
        }
    }
}

fn remove(file: &Path) -> Result<(), Error> {
    fs::remove_file(file).map_err(cannot(format!("remove {}", file.display())))
}

/// Runs of a program.
struct Runs<'a> {
    time: Duration,
    wanted: &'a RunOptions,
    command: &'a [OsString],
}

impl Runs<'_> {
    /// Says that a run has failed, and what there is to be had of it.
    fn say(&self, first: Strict, ended: &Ended) {
        let Ended { seed, file, status } = ended;
        let (strict, file) = (Strict { seed: *seed, ..first }, file.display());
        let what = match *status {
            OUT_OF_TIME => format!("has not ended after {} s", self.time.as_secs()),
            status => format!("ends with status {status}"),
        };
        eprintln!("soft-hca: with {strict} it {what}");
        eprintln!(
            "soft-hca: `soft-hca explain {file}` says what the device knows to have gone wrong"
        );
        eprintln!("soft-hca: `soft-hca check --record {file}` says what the program relied on");
    }

    /// Looks for the choices by which a run has failed, for as long as is wanted, and says which.
    fn look_for_choices(&self, seeds: Seeds, ended: &Ended) -> Result<(), Error> {
        if seeds.search.is_zero() || !ended.file.exists() {
            return Ok(());
        }
        let strict = Strict { seed: ended.seed, ..seeds.first };
        let subjects = Subjects::read(&ended.file)?;
        let again = |strict| self.run(strict, Path::new("/dev/null"), true);
        let until = Instant::now() + seeds.search;
        search::search(strict, &subjects, ended.status, until, again)?.say(&subjects);
        Ok(())
    }

    /// Runs it, with its record in a file. Gives its exit status.
    fn run(&self, strict: Strict, file: &Path, is_silent: bool) -> Result<u8, Error> {
        record::record(&RecordOptions {
            file: file.into(),
            limit: None,
            fabric: None,
            devices: self.wanted.devices.clone(),
            link: self.wanted.link.clone(),
            faults: self.wanted.faults.clone(),
            strict: Some(strict),
            time: Some(self.time),
            is_silent,
            compares_buffers: true,
            command: self.command.to_vec(),
        })
    }
}

/// A new file for the record of a run; files that are there already stay.
fn new_file(seed: u64) -> Result<PathBuf, Error> {
    let mut name = format!("strict-{seed}.shr");
    for number in 2.. {
        match File::create_new(&name) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                name = format!("strict-{seed}-{number}.shr");
            }
            Err(error) => return Err(cannot(format!("write to {name}"))(error)),
            Ok(_) => break,
        }
    }
    Ok(name.into())
}

/// Says how far it is: on a terminal always, in the same line, and else now and then.
struct Progress {
    count: u64,
    is_terminal: bool,
    next: Instant,
}

impl Progress {
    const PERIOD: Duration = Duration::from_secs(10);

    fn new(count: u64) -> Self {
        Self { count, is_terminal: stderr().is_terminal(), next: Instant::now() + Self::PERIOD }
    }

    /// A run begins behind so many that have passed.
    fn begins(&mut self, passed: u64, seed: u64) {
        let Self { count, is_terminal, next } = self;
        if *is_terminal {
            // The program's output begins where the line does.
            eprint!("soft-hca: --strict={seed}, {passed} of {count} runs have passed\x1b[K\r");
        } else if Instant::now() >= *next {
            *next = Instant::now() + Self::PERIOD;
            eprintln!("soft-hca: {passed} of {count} runs have passed");
        }
    }

    /// It has ended.
    fn ends(&self) {
        if self.is_terminal {
            eprint!("\x1b[K");
        }
    }
}
