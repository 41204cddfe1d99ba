//! Cases at the same time: each share of them is run by a harness of its own, in a fabric and a
//! network of its own. Most of its time a case waits.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::str::FromStr;
use std::sync::mpsc::{self, Sender};
use std::thread;

use crate::error::Error;
use crate::golden::suite::Counts;

/// One of several shares of the cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Its number, from 0 on.
    index: usize,
    /// How many there are.
    of: usize,
}

impl Share {
    /// The cases of this share: neighbours, which are much alike, go to different ones.
    pub fn of<T>(self, cases: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
        cases.skip(self.index).step_by(self.of)
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let share = text.split_once('/').and_then(|(number, of)| {
            let (number, of) = (number.parse::<usize>().ok()?, of.parse().ok()?);
            (1..=of).contains(&number).then(|| Self { index: number - 1, of })
        });
        share.ok_or_else(|| "expected NUMBER/OF, such as 1/3".to_owned())
    }
}

/// Output of a harness that runs a share.
enum Said {
    /// A case, or the failures of all, as lines.
    Text(String),
    /// The last line.
    Counts(Counts),
}

/// Runs this program `of` times with these arguments and a share each. Gives all counts together.
pub fn run_all(of: u32, arguments: &[OsString], out: &mut dyn Write) -> Result<Counts, Error> {
    let own = std::env::current_exe()
        .map_err(|error| Error::Usage(format!("cannot find this program: {error}")))?;
    let (sender, said) = mpsc::channel();
    let mut children = Vec::new();
    for number in 1..=of {
        let child = Command::new(&own)
            .args(arguments)
            .args(["--at-once", "1", "--json-counts", "--share", &format!("{number}/{of}")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|source| Error::Start { program: own.display().to_string(), source })?;
        children.push(Running(child));
    }
    for child in &mut children {
        if let Some(stdout) = child.0.stdout.take() {
            let sender = sender.clone();
            thread::spawn(move || listen(stdout, &sender));
        }
    }
    drop(sender);
    let mut counts = Counts::default();
    let mut complete = 0;
    for said in said {
        match said {
            Said::Text(text) => out
                .write_all(text.as_bytes())
                .map_err(Error::write(Path::new("standard output")))?,
            Said::Counts(share) => {
                counts += share;
                complete += 1;
            }
        }
    }
    if complete == of {
        Ok(counts)
    } else {
        Err(Error::Usage(format!("{} of {of} shares did not come to their end", of - complete)))
    }
}

/// Passes on what a harness says, a case at a time: further lines of it are indented.
fn listen(stdout: ChildStdout, sender: &Sender<Said>) {
    let mut case = String::new();
    for line in BufReader::new(stdout).lines() {
        // A line that is no text ends it; then there are no counts.
        let Ok(line) = line else { break };
        let counts = serde_json::from_str(&line).ok();
        if counts.is_some() || !line.starts_with(' ') {
            let _ = sender.send(Said::Text(std::mem::take(&mut case)));
        }
        match counts {
            Some(counts) => {
                let _ = sender.send(Said::Counts(counts));
            }
            None => case += &(line + "\n"),
        }
    }
    let _ = sender.send(Said::Text(case));
}

/// A harness, which does not outlive this value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended, unless something went wrong here.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_case_is_in_one_share() {
        let shares = ["1/3", "2/3", "3/3"].map(|text| text.parse::<Share>().unwrap());
        let mut cases: Vec<_> = shares.iter().flat_map(|share| share.of(0..10)).collect();
        assert_eq!(cases[..4], [0, 3, 6, 9]);
        cases.sort_unstable();
        assert_eq!(cases, (0..10).collect::<Vec<_>>());
        for wrong in ["", "1", "0/3", "4/3", "1/0", "a/b", "-1/3"] {
            assert!(wrong.parse::<Share>().is_err(), "{wrong}");
        }
    }
}
