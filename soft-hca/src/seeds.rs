//! `soft-hca run --seeds`: runs a program strictly until it fails.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{ErrorKind, IsTerminal, stderr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::line::RunOptions;
use super::record::{self, OUT_OF_TIME, RecordOptions};
use super::{Error, cannot};

/// How often, and with which seeds.
#[derive(Clone, Copy, Debug)]
pub struct Seeds {
    /// The first one.
    pub first: u64,
    /// Runs, at most.
    pub count: u64,
    /// How long each may take.
    pub time: Duration,
}

/// Runs a program with a seed after the other until it fails. Gives the exit status of the last run.
pub fn run(seeds: Seeds, wanted: &RunOptions, command: &[OsString]) -> Result<u8, Error> {
    let Seeds { first, count, time } = seeds;
    let mut progress = Progress::new(count);
    for number in 0..count {
        let seed = first.wrapping_add(number);
        let file = new_file(seed)?;
        progress.begins(number, seed);
        let status = record::record(&RecordOptions {
            file: file.clone(),
            limit: None,
            fabric: None,
            devices: wanted.devices.clone(),
            link: wanted.link.clone(),
            faults: wanted.faults.clone(),
            strict: Some(seed),
            time: Some(time),
            compares_buffers: true,
            command: command.to_vec(),
        });
        progress.ends();
        // The file of a run that failed to record is of no use.
        let status = status.inspect_err(|_| _ = fs::remove_file(&file))?;
        if status != 0 {
            let what = match status {
                OUT_OF_TIME => format!("has not ended after {} s", time.as_secs()),
                _ => format!("ends with status {status}"),
            };
            let file = file.display();
            eprintln!("soft-hca: with --strict={seed} it {what}");
            eprintln!(
                "soft-hca: `soft-hca explain {file}` says what the device knows to have gone wrong"
            );
            eprintln!("soft-hca: `soft-hca check --record {file}` says what the program relied on");
            return Ok(status);
        }
        fs::remove_file(&file).map_err(cannot(format!("remove {}", file.display())))?;
    }
    eprintln!("soft-hca: it has passed with {count} seeds from {first} on");
    Ok(0)
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
