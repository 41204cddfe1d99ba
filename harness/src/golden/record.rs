//! Recordings of a case, and what several runs of it have in common.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::Error;
use crate::golden::case::{Case, Item};
use crate::golden::normalise::Normaliser;
use crate::run::Outcome;
use crate::transcript::{Side, Stream};

/// Fields of `cases.json` about the recordings of a case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Fields {
    /// How many runs were compared.
    pub runs: u32,
    /// Items that came out alike, once normalised.
    pub deterministic: Vec<String>,
    /// Items that came out alike but for the order of their lines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deterministic_if_sorted: Vec<String>,
    /// The files of further recordings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<String>,
}

/// The runs of one case so far, in a folder.
pub struct Recordings<'a> {
    folder: PathBuf,
    case: &'a Case,
    normaliser: &'a Normaliser,
    runs: u32,
    /// Of each item what the runs had different, normalised.
    seen: Vec<(Item, Vec<Vec<String>>)>,
}

impl<'a> Recordings<'a> {
    /// No run yet.
    pub fn new(folder: PathBuf, case: &'a Case, normaliser: &'a Normaliser) -> Recordings<'a> {
        let seen = items(case).map(|item| (item, Vec::new())).collect();
        Recordings { folder, case, normaliser, runs: 0, seen }
    }

    /// Writes the first run, and of every other what is unlike all before it.
    pub fn add(&mut self, outcome: &Outcome) -> Result<(), Error> {
        self.runs += 1;
        if self.runs == 1 {
            keep(&self.folder, self.case, outcome)?;
        }
        for (item, seen) in &mut self.seen {
            let found = match *item {
                Item::Stream(side, stream) => {
                    let lines = outcome.transcript.stream(side, stream);
                    self.normaliser.apply(&self.case.example, &lines)
                }
                Item::Status(_) => vec![text(outcome, *item)],
            };
            if seen.contains(&found) {
                continue;
            }
            seen.push(found);
            if seen.len() > 1 {
                write(&self.folder, &variant(*item, seen.len()), &text(outcome, *item))?;
            }
        }
        Ok(())
    }

    /// Fields about what the runs had in common.
    pub fn fields(&self) -> Fields {
        let mut fields = Fields { runs: self.runs, ..Fields::default() };
        for (item, seen) in &self.seen {
            if seen.len() == 1 {
                fields.deterministic.push(item.to_string());
                continue;
            }
            let sorted = |lines: &Vec<String>| {
                let mut lines = lines.clone();
                lines.sort();
                lines
            };
            let is_stream = matches!(item, Item::Stream(..));
            if is_stream && seen.windows(2).all(|two| sorted(&two[0]) == sorted(&two[1])) {
                fields.deterministic_if_sorted.push(item.to_string());
            }
            fields.variants.extend((2..=seen.len()).map(|number| variant(*item, number)));
        }
        fields
    }
}

fn variant(item: Item, number: usize) -> String {
    format!("{item}.run{number}")
}

/// Everything that is recorded of a case.
fn items(case: &Case) -> impl Iterator<Item = Item> + '_ {
    Side::BOTH.into_iter().filter(|&side| case.has(side)).flat_map(|side| {
        let streams = Stream::BOTH.into_iter().map(move |stream| Item::Stream(side, stream));
        streams.chain([Item::Status(side)])
    })
}

/// Contents of the file of an item.
fn text(outcome: &Outcome, item: Item) -> String {
    match item {
        Item::Stream(side, stream) => {
            let mut text = String::new();
            for line in outcome.transcript.of(side, stream) {
                text.push_str(&line.text);
                text.push_str(if line.complete { "\n" } else { "" });
            }
            text
        }
        Item::Status(side) => {
            outcome.ending(side).map_or(String::new(), |ending| ending.to_string()) + "\n"
        }
    }
}

/// Writes the raw streams and endings of a run, in files named as in the
/// recordings, and all lines with their times.
pub fn keep(folder: &Path, case: &Case, outcome: &Outcome) -> Result<(), Error> {
    fs::create_dir_all(folder).map_err(Error::write(folder))?;
    for item in items(case) {
        write(folder, &item.to_string(), &text(outcome, item))?;
    }
    let timeline = outcome.transcript.lines().iter().map(|line| {
        let at = line.at.as_secs_f64();
        format!("{at:10.6} {} {} {}\n", line.side, line.stream, line.marked())
    });
    write(folder, "timeline", &timeline.collect::<String>())
}

fn write(folder: &Path, name: &str, text: &str) -> Result<(), Error> {
    let path = folder.join(name);
    fs::write(&path, text).map_err(Error::write(&path))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::process::Ending;
    use crate::transcript::{Line, Transcript};

    fn ran(code: i32, lines: &[&str]) -> Outcome {
        let mut transcript = Transcript::default();
        for text in lines {
            transcript.push(Line {
                side: Side::Client,
                stream: Stream::Stderr,
                at: Duration::ZERO,
                text: (*text).to_owned(),
                complete: true,
            });
        }
        Outcome {
            server: None,
            client: Some(Ending::Code(code)),
            transcript,
            began: SystemTime::UNIX_EPOCH,
            elapsed: Duration::ZERO,
            never_ready: None,
        }
    }

    #[test]
    fn what_varies_is_written_once_each_and_told() {
        let case = r#"{"example":"mc","case":"x","server":null,"client":[],"needs_device":false,
            "device":"any","runs":1,"deterministic":[],"why":"test"}"#;
        let case: Case = serde_json::from_str(case).unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden");
        let normaliser = Normaliser::read(&source).unwrap();
        let folder = std::env::temp_dir().join(format!("recordings-{}", std::process::id()));
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();

        let mut recordings = Recordings::new(folder.clone(), &case, &normaliser);
        recordings.add(&ran(0, &["at 0x5555555555", "b"])).unwrap();
        recordings.add(&ran(0, &["at 0x6666666666", "b"])).unwrap();
        let alike = ["client.stdout", "client.stderr", "client.status"].map(str::to_owned);
        assert_eq!(
            recordings.fields(),
            Fields { runs: 2, deterministic: alike.to_vec(), ..Fields::default() }
        );
        recordings.add(&ran(0, &["b", "at 0x6666666666"])).unwrap();
        assert_eq!(recordings.fields().deterministic_if_sorted, ["client.stderr"]);
        recordings.add(&ran(1, &["c"])).unwrap();
        let fields = recordings.fields();
        assert_eq!(fields.runs, 4);
        assert_eq!(fields.deterministic, ["client.stdout"]);
        assert!(fields.deterministic_if_sorted.is_empty());
        let variants = ["client.stderr.run2", "client.stderr.run3", "client.status.run2"];
        assert_eq!(fields.variants, variants);
        assert_eq!(read("client.stderr"), "at 0x5555555555\nb\n");
        assert_eq!(read("client.stderr.run2"), "b\nat 0x6666666666\n");
        assert_eq!(read("client.stderr.run3"), "c\n");
        assert_eq!(read("client.status.run2"), "1\n");
        fs::remove_dir_all(folder).unwrap();
    }
}
