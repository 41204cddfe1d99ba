//! The output and the endings that a case must have, and whether a run had them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use regex::Regex;

use crate::error::Error;
use crate::golden::case::{Case, Item};
use crate::golden::normalise::Normaliser;
use crate::golden::timing::{Timing, Tolerance};
use crate::golden::varying;
use crate::lines::diff;
use crate::process::Ending;
use crate::run::{Outcome, Progress};
use crate::transcript::{Line, Side, Stream, Transcript, split_lines};

/// Longest diff that is shown.
const MAX_DIFF: usize = 60;

/// The required text of one stream. All lines are normalised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Exactly this.
    Same(Vec<String>),
    /// These lines in any order; kept sorted.
    Sorted(Vec<String>),
    /// See [`varying`].
    Varies(Vec<Vec<String>>),
}

/// The output that a case must print and the endings that it must have.
#[derive(Clone, Debug, Default)]
pub struct Expectation {
    /// The endings that are right for each side.
    pub endings: BTreeMap<Side, BTreeSet<Ending>>,
    /// The required text of each stream.
    pub streams: BTreeMap<(Side, Stream), Expected>,
    /// Streams of which only this many lines are compared.
    pub first_lines: BTreeMap<(Side, Stream), usize>,
    tolerances: BTreeMap<(Side, Stream), Tolerance>,
    /// Endings that are right if a line on standard error matches.
    conditional_endings: BTreeMap<Side, Vec<(Ending, Regex)>>,
    example: String,
}

impl Expectation {
    /// From now on only the endings that are listed count for a side.
    pub(crate) fn forget_conditional_endings(&mut self, side: Side) {
        self.conditional_endings.remove(&side);
    }

    /// Reads the recordings of a case.
    pub fn read(
        data: &Path,
        case: &Case,
        normaliser: &Normaliser,
        timing: &Timing,
    ) -> Result<Expectation, Error> {
        let mut result = Expectation { example: case.example.clone(), ..Expectation::default() };
        for side in Side::BOTH.into_iter().filter(|&side| case.has(side)) {
            let endings = read_endings(data, case, side)?;
            result.endings.insert(side, endings);
            result.conditional_endings.insert(side, timing.endings(case, side));
            for stream in Stream::BOTH {
                let item = Item::Stream(side, stream);
                let mut recorded = read_streams(data, case, item, normaliser)?;
                let expected = if case.deterministic.contains(&item) {
                    Expected::Same(recorded.swap_remove(0))
                } else if case.deterministic_if_sorted.contains(&item) {
                    Expected::Sorted(sorted(recorded.swap_remove(0)))
                } else {
                    Expected::Varies(recorded)
                };
                result.streams.insert((side, stream), expected);
                result.tolerances.insert((side, stream), timing.tolerance(case, item));
                if let Some(&lines) = case.truncated_to_lines.get(&item) {
                    result.first_lines.insert((side, stream), lines);
                }
            }
        }
        Ok(result)
    }

    /// The expectation that somebody does as a run did for which there is no recording.
    pub fn of_run(
        case: &Case,
        outcome: &Outcome,
        normaliser: &Normaliser,
        timing: &Timing,
    ) -> Expectation {
        let mut result = Expectation { example: case.example.clone(), ..Expectation::default() };
        for side in Side::BOTH.into_iter().filter(|&side| case.has(side)) {
            result.endings.insert(side, outcome.ending(side).into_iter().collect());
            result.conditional_endings.insert(side, timing.endings(case, side));
            for stream in Stream::BOTH {
                let item = Item::Stream(side, stream);
                let found = result.printed(outcome, side, stream, normaliser);
                result.streams.insert((side, stream), Expected::Same(found));
                result.tolerances.insert((side, stream), timing.tolerance(case, item));
            }
        }
        result
    }

    /// The same for somebody who may do as either run did.
    pub fn or(mut self, other: Expectation) -> Expectation {
        for (side, endings) in other.endings {
            self.endings.entry(side).or_default().extend(endings);
        }
        for (at, expected) in other.streams {
            let Some(own) = self.streams.get_mut(&at) else { continue };
            if *own != expected {
                let mut runs = own.runs();
                runs.extend(expected.runs());
                *own = Expected::Varies(runs);
            }
        }
        self
    }

    /// Output of a side, normalised.
    pub fn printed(
        &self,
        outcome: &Outcome,
        side: Side,
        stream: Stream,
        normaliser: &Normaliser,
    ) -> Vec<String> {
        self.actual(&outcome.transcript, side, stream, normaliser)
    }

    /// The same for somebody who has to do as a run did, instead of a recording. The recordings'
    /// word on chance still holds, if that run is like them.
    pub fn like(&self, outcome: &Outcome, normaliser: &Normaliser) -> Expectation {
        let mut result = self.clone();
        for (&side, endings) in &mut result.endings {
            let by_chance = |ending| self.allows(side, ending, &outcome.transcript);
            let ending = outcome.ending(side);
            if endings.len() == 1 && !ending.is_some_and(by_chance) {
                endings.clear();
            }
            endings.extend(ending);
        }
        for (&(side, stream), expected) in &mut result.streams {
            let found = self.actual(&outcome.transcript, side, stream, normaliser);
            match expected {
                Expected::Same(lines) => *lines = found,
                Expected::Sorted(lines) => *lines = sorted(found),
                Expected::Varies(recorded) => {
                    // A run may vary in what varies among the recordings, too, but not in what this one
                    // alone has.
                    let tolerance = &self.tolerances[&(side, stream)];
                    if varying::check(&found, recorded, tolerance).is_err() {
                        recorded.clear();
                    }
                    recorded.push(found);
                }
            }
        }
        result
    }

    /// Complaints about a finished run; none if it went as expected.
    pub fn complaints(&self, outcome: &Outcome, normaliser: &Normaliser) -> Vec<String> {
        let mut complaints: Vec<String> = outcome.never_ready.iter().cloned().collect();
        for (&side, endings) in &self.endings {
            let ending = outcome.ending(side);
            let is_right = |ending: Ending| {
                endings.contains(&ending) || self.allows(side, ending, &outcome.transcript)
            };
            if !ending.is_some_and(is_right) {
                let found = ending.map_or("never started".to_owned(), |ending| ending.to_string());
                let expected: Vec<_> = endings.iter().map(Ending::to_string).collect();
                complaints
                    .push(format!("{side}.status: {found}, expected {}", expected.join(" or ")));
            }
        }
        for (&(side, stream), expected) in &self.streams {
            let actual = self.actual(&outcome.transcript, side, stream, normaliser);
            let tolerance = &self.tolerances[&(side, stream)];
            if let Err(what) = expected.check(&actual, tolerance) {
                complaints.push(format!("{side}.{stream}: {what}"));
            }
        }
        complaints
    }

    /// Is everything as expected but for sides that run on until they are killed?
    pub fn is_settled(&self, so_far: &Progress<'_>, normaliser: &Normaliser) -> bool {
        let settled = |side: Side, ending: Option<Ending>| {
            let ending = ending.unwrap_or(Ending::TimedOut);
            self.endings.get(&side).is_none_or(|endings| endings.contains(&ending))
        };
        settled(Side::Server, so_far.server)
            && settled(Side::Client, so_far.client)
            && Side::BOTH.iter().all(|&side| self.has_printed_all(side, so_far, normaliser))
    }

    /// Has this side printed what it must, so far exactly?
    pub fn has_printed_all(
        &self,
        side: Side,
        so_far: &Progress<'_>,
        normaliser: &Normaliser,
    ) -> bool {
        Stream::BOTH.iter().all(|&stream| {
            let Some(expected) = self.streams.get(&(side, stream)) else { return true };
            let actual = self.actual(so_far.transcript, side, stream, normaliser);
            expected.check(&actual, &self.tolerances[&(side, stream)]).is_ok()
        })
    }

    /// Is the ending right because of a line that the side printed?
    fn allows(&self, side: Side, ending: Ending, transcript: &Transcript) -> bool {
        let allowed = self.conditional_endings.get(&side).into_iter().flatten();
        allowed.filter(|(allowed, _)| *allowed == ending).any(|(_, with)| {
            transcript.stream(side, Stream::Stderr).iter().any(|line| with.is_match(line))
        })
    }

    fn actual(
        &self,
        transcript: &Transcript,
        side: Side,
        stream: Stream,
        normaliser: &Normaliser,
    ) -> Vec<String> {
        let first = self.first_lines.get(&(side, stream)).copied().unwrap_or(usize::MAX);
        let lines: Vec<_> = transcript.of(side, stream).take(first).map(Line::marked).collect();
        normaliser.apply(&self.example, &lines)
    }
}

impl Expected {
    fn runs(&self) -> Vec<Vec<String>> {
        match self {
            Expected::Same(lines) | Expected::Sorted(lines) => vec![lines.clone()],
            Expected::Varies(runs) => runs.clone(),
        }
    }

    /// Compares a normalised stream; the error says what is wrong with it.
    pub fn check(&self, actual: &[String], tolerance: &Tolerance) -> Result<(), String> {
        let alike = |a: &[String], b: &[String]| a == b || tolerance.is_alike(a, b);
        tolerance.check(actual)?;
        match self {
            Expected::Same(lines) if alike(actual, lines) => Ok(()),
            Expected::Same(lines) => Err(differs("", lines, actual)),
            Expected::Sorted(lines) => {
                let actual = sorted(actual.to_vec());
                if alike(&actual, lines) {
                    Ok(())
                } else {
                    Err(differs(" (sorted)", lines, &actual))
                }
            }
            Expected::Varies(recorded) => {
                varying::check(actual, recorded, tolerance).map_err(|why| {
                    let none = Vec::new();
                    let first = recorded.first().unwrap_or(&none);
                    let diff = differs("", first, actual);
                    format!("{why}; against the first recording: {diff}")
                })
            }
        }
    }
}

fn differs(how: &str, expected: &[String], actual: &[String]) -> String {
    format!("differs{how}, - expected, + found:\n{}", diff(expected, actual, MAX_DIFF))
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

fn read_endings(data: &Path, case: &Case, side: Side) -> Result<BTreeSet<Ending>, Error> {
    let mut endings = BTreeSet::new();
    for file in case.files(Item::Status(side)) {
        let path = data.join(&case.example).join(&case.case).join(file);
        let text = fs::read_to_string(&path).map_err(Error::read(&path))?;
        endings.insert(text.parse().map_err(|what: String| Error::data(&path, what))?);
    }
    Ok(endings)
}

fn read_streams(
    data: &Path,
    case: &Case,
    item: Item,
    normaliser: &Normaliser,
) -> Result<Vec<Vec<String>>, Error> {
    let mut streams = Vec::new();
    for file in case.files(item) {
        let path = data.join(&case.example).join(&case.case).join(file);
        let bytes = fs::read(&path).map_err(Error::read(&path))?;
        let lines = split_lines(&String::from_utf8_lossy(&bytes));
        streams.push(normaliser.apply(&case.example, &lines));
    }
    Ok(streams)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    fn check(expected: &Expected, actual: &str) -> Result<(), String> {
        expected.check(&lines(actual), &Tolerance::default())
    }

    #[test]
    fn a_stream_that_must_be_the_same() {
        let expected = Expected::Same(lines("a\nb\nc"));
        assert!(check(&expected, "a\nb\nc").is_ok());
        let wrong = check(&expected, "a\nx\nc").unwrap_err();
        assert!(wrong.contains("- b\n+ x\n"), "{wrong}");
        assert!(check(&expected, "a\nb").is_err());
        assert!(check(&expected, "b\na\nc").is_err());
        assert!(check(&expected, "").is_err());
    }

    #[test]
    fn a_run_that_is_like_no_recording_stands_alone() {
        let at = (Side::Client, Stream::Stderr);
        let mut expectation = Expectation { example: "mc".to_owned(), ..Expectation::default() };
        let recorded = vec![lines("count 5\ngot 1 of 2"), lines("count 5\ngot 2 of 2")];
        expectation.streams.insert(at, Expected::Varies(recorded));
        expectation.tolerances.insert(at, Tolerance::default());
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden");
        let normaliser = Normaliser::read(&data).unwrap();
        let is_like = |c: &str, ours: &str| {
            let mut transcript = Transcript::default();
            for text in lines(c) {
                let (side, stream) = at;
                let line =
                    Line { side, stream, at: std::time::Duration::ZERO, text, complete: true };
                transcript.push(line);
            }
            let elapsed = std::time::Duration::ZERO;
            let c = Outcome {
                server: None,
                client: None,
                transcript,
                began: std::time::SystemTime::UNIX_EPOCH,
                elapsed,
                never_ready: None,
            };
            check(&expectation.like(&c, &normaliser).streams[&at], ours).is_ok()
        };
        assert!(is_like("count 5\ngot 3 of 2", "count 5\ngot 4 of 2"));
        assert!(!is_like("count 6\ngot 1 of 2", "count 5\ngot 1 of 2"));
        assert!(!is_like("count 6\ngot 1 of 2", "count 5\ngot 2 of 2"));
        assert!(is_like("count 6\ngot 1 of 2", "count 6\ngot 1 of 2"));
    }

    #[test]
    fn a_stream_whose_order_does_not_matter() {
        let expected = Expected::Sorted(lines("a\nb\nb"));
        assert!(check(&expected, "b\na\nb").is_ok());
        assert!(check(&expected, "b\na").is_err());
        assert!(check(&expected, "b\na\na").is_err());
    }
}
