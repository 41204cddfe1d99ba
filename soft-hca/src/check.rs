//! `soft-hca check`: what a program got away with.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use soft_hca_daemon::device::like;
use soft_hca_record::check::{Checker, Finding, report};

use super::record;
use super::run::Options;
use super::{Error, cannot, show};

/// The exit status of a program that ends well, and of which something was found.
pub const FOUND: u8 = 66;

/// How findings are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// A paragraph for each
    Text,
    /// An array of objects
    Json,
    /// For code hosts: Static Analysis Results Interchange Format 2.1.0
    Sarif,
}

/// What becomes of findings.
#[derive(Clone, Debug)]
pub struct Findings {
    /// How they are written.
    pub format: Format,
    /// Where to; standard error otherwise.
    pub output: Option<PathBuf>,
    /// `RULE` or `RULE:TEXT`: those that are left out.
    pub suppressed: Vec<String>,
}

/// Runs a program and says what it got away with. Gives the exit status: its own, or [`FOUND`].
pub fn run(options: &Options, limit: Option<u64>, findings: &Findings) -> Result<u8, Error> {
    let (status, checker, dropped) = record::checked(options, limit)?;
    if dropped > 0 {
        eprintln!(
            "soft-hca: {dropped} entries are missing, so that something may not be found: try a larger --limit"
        );
    }
    let is_found = findings.write(checker.end())?;
    Ok(if status == 0 && is_found { FOUND } else { status })
}

/// The same of a run that was recorded.
pub fn file(file: &Path, findings: &Findings) -> Result<u8, Error> {
    let (header, entries) = show::read(file)?;
    let mut checker = checker(header.like);
    entries.iter().for_each(|entry| checker.entry(entry));
    Ok(if findings.write(checker.end())? { FOUND } else { 0 })
}

/// Of a run whose device has the limits of this adapter, if of one.
pub fn checker(adapter: Option<String>) -> Checker {
    let profile = adapter.as_deref().and_then(like::profile);
    let lacks_atomics = profile.is_some_and(|profile| !profile.has_atomics());
    Checker::like(adapter).without_atomics(lacks_atomics)
}

impl Findings {
    /// Writes those that are not suppressed. Whether there are any.
    fn write(&self, mut found: Vec<Finding>) -> Result<bool, Error> {
        found.retain(|finding| {
            !self.suppressed.iter().any(|suppressed| finding.is_suppressed_by(suppressed))
        });
        let text = match self.format {
            Format::Text => report::text(&found),
            Format::Json => report::json(&found),
            Format::Sarif => report::sarif(&found),
        };
        match &self.output {
            Some(file) => {
                fs::write(file, text).map_err(cannot(format!("write to {}", file.display())))?;
            }
            // Where nobody reads it there is nobody to tell.
            None => drop(io::stderr().write_all(text.as_bytes())),
        }
        Ok(!found.is_empty())
    }
}
