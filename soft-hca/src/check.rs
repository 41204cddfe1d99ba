//! `soft-hca check`: what a program got away with.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use soft_hca_record::check::report;

use super::record;
use super::run::Options;
use super::watcher::{Seen, Watcher};
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

/// The output of findings.
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
    let (status, watcher, dropped) = record::checked(options, limit)?;
    if dropped > 0 {
        eprintln!(
            "soft-hca: {dropped} entries are missing, so that something may not be found: try a larger --limit"
        );
    }
    let explained = [
        format!("soft-hca record -o run.shr -- {}", command(&options.command)),
        "soft-hca explain run.shr".into(),
    ];
    let is_found = findings.write(watcher.end(), status, &explained)?;
    Ok(if status == 0 && is_found { FOUND } else { status })
}

/// The same of a run that was recorded.
pub fn file(file: &Path, findings: &Findings) -> Result<u8, Error> {
    let (header, entries) = show::read(file)?;
    let mut watcher = Watcher::new(header.like, header.pkeys);
    entries.iter().for_each(|entry| watcher.entry(entry));
    let explained =
        [format!("soft-hca explain {}", word(file.as_os_str().to_string_lossy().into()))];
    Ok(if findings.write(watcher.end(), 0, &explained)? { FOUND } else { 0 })
}

/// A command for a shell, as far as its words need no quotes.
fn command(words: &[OsString]) -> String {
    let words = words.iter().map(|word| self::word(word.to_string_lossy().into()));
    words.collect::<Vec<_>>().join(" ")
}

/// A word for a shell.
fn word(word: String) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._=:,+@%".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word;
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

impl Seen {
    /// Notes beside the findings: the programs whose polls are not seen, and a run's failure, with the commands
    /// that `explain` it. The status is the program's, 0 where it is not known.
    fn notes(&self, status: u8, explained: &[String]) -> String {
        let unseen = self.unseen.iter().map(|program| {
            format!(
                "{program}: how it polls is not seen, so queue-full, unsignaled-run, cq-full and arm-order say \
                 nothing of it\n"
            )
        });
        let mut notes: String = unseen.collect();
        let ended = (status != 0).then(|| format!("the program ended with status {status}"));
        let wrong = match self.problems {
            0 => None,
            1 => Some("one thing went wrong in the run".to_owned()),
            many => Some(format!("{many} things went wrong in the run")),
        };
        let both = [ended, wrong].into_iter().flatten().collect::<Vec<_>>().join(", and ");
        if !both.is_empty() {
            notes += &format!("{both}; these tell what has failed, or where it hangs:\n");
            explained.iter().for_each(|command| notes += &format!("    {command}\n"));
        }
        notes
    }
}

impl Findings {
    /// Writes the findings that are not suppressed, and notes for people. Returns whether there are any findings.
    fn write(&self, seen: Seen, status: u8, explained: &[String]) -> Result<bool, Error> {
        let notes = seen.notes(status, explained);
        let mut found = seen.findings;
        found.retain(|finding| {
            !self.suppressed.iter().any(|suppressed| finding.is_suppressed_by(suppressed))
        });
        let text = match self.format {
            Format::Text => report::text(&found) + &notes,
            Format::Json => report::json(&found),
            Format::Sarif => report::sarif(&found),
        };
        match &self.output {
            Some(file) => {
                fs::write(file, text).map_err(cannot(format!("write to {}", file.display())))?;
                if self.format != Format::Text {
                    eprint!("{notes}");
                }
            }
            // Where nobody reads it there is nobody to tell.
            None => drop(io::stderr().write_all(text.as_bytes())),
        }
        Ok(!found.is_empty())
    }
}
