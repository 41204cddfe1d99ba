//! `soft-hca run --seeds`: runs a program strictly until it fails.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{ErrorKind, IsTerminal, stderr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use soft_hca_core::config::Strict;

use super::line::RunOptions;
use super::record::{self, OUT_OF_TIME, RecordOptions};
use super::{Error, cannot, kinds};

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
}

/// Runs a program with a seed after the other until it fails. Gives the exit status of the last run.
pub fn run(seeds: Seeds, wanted: &RunOptions, command: &[OsString]) -> Result<u8, Error> {
    let Seeds { first, count, time, search } = seeds;
    let runs = Runs { time, wanted, command };
    let mut progress = Progress::new(count);
    for number in 0..count {
        let strict = Strict { seed: first.seed.wrapping_add(number), ..first };
        let seed = strict.seed;
        let file = new_file(seed)?;
        progress.begins(number, seed);
        let status = runs.run(strict, &file, false);
        progress.ends();
        // The file of a run that failed to record is of no use.
        let status = status.inspect_err(|_| _ = fs::remove_file(&file))?;
        if status != 0 {
            let what = match status {
                OUT_OF_TIME => format!("has not ended after {} s", time.as_secs()),
                _ => format!("ends with status {status}"),
            };
            let file = file.display();
            eprintln!("soft-hca: with {strict} it {what}");
            eprintln!(
                "soft-hca: `soft-hca explain {file}` says what the device knows to have gone wrong"
            );
            eprintln!("soft-hca: `soft-hca check --record {file}` says what the program relied on");
            if !search.is_zero() {
                let again = |strict| runs.run(strict, Path::new("/dev/null"), true);
                kinds::search(strict, status, Instant::now() + search, again)?.say(strict);
            }
            return Ok(status);
        }
        fs::remove_file(&file).map_err(cannot(format!("remove {}", file.display())))?;
    }
    let kinds = match first.choices.iter().count() {
        0 => "no choices".to_string(),
        count => format!("{count} kinds of choices, {}", first.choices),
    };
    eprintln!("soft-hca: it has passed with {count} seeds from {} on: {kinds}", first.seed);
    Ok(0)
}

/// Runs of a program.
struct Runs<'a> {
    time: Duration,
    wanted: &'a RunOptions,
    command: &'a [OsString],
}

impl Runs<'_> {
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
