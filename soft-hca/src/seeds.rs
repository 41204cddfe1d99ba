//! `soft-hca run --seeds`: runs a program strictly until it fails.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use super::line::Wanted;
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
pub fn run(seeds: Seeds, wanted: &Wanted, command: &[OsString]) -> Result<u8, Error> {
    let Seeds { first, count, time } = seeds;
    for seed in (0..count).map(|number| first.wrapping_add(number)) {
        let file = PathBuf::from(format!("strict-{seed}.shr"));
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
        })?;
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
