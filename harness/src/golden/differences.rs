//! The cases in which a program differs from the C by design. Each has its reason
//! and an expectation of its own, so that it is checked like every other case.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::Error;
use crate::examples::Example;
use crate::golden::case::{Case, Item};
use crate::golden::expect::{Expectation, Expected};
use crate::golden::normalise::Normaliser;
use crate::golden::varying::masked;
use crate::process::Ending;
use crate::run::Outcome;
use crate::transcript::{Side, Stream, split_lines};

/// A case that differs from the C by design.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// The example, if not the one that the file is named after.
    pub example: Option<String>,
    /// Name of the case within the example.
    pub case: String,
    /// Why it differs.
    pub reason: String,
    /// The C did either by chance, so the case may well come out like a recording.
    #[serde(default)]
    pub may_be_as_the_c: bool,
    /// The changes that are expected instead. An item that is not named is as in the C.
    #[serde(alias = "files")]
    pub expect: BTreeMap<Item, Change>,
}

/// The expectation of one item instead of the recording.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Change {
    /// The text of the file: this ending, or exactly these lines.
    Text(String),
    /// One of these endings or texts; a text is compared as a stream that varies.
    Either(Vec<String>),
    /// Exactly these lines.
    Lines(Lines),
    /// The recording with some lines replaced.
    Replace(Replace),
}

/// `{"lines": [...]}`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lines {
    lines: Vec<String>,
}

/// `{"replace": [...]}`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replace {
    replace: Vec<Replacement>,
}

/// `{"line": "...", "with": [...]}`: every line that reads so gives way to these,
/// or to none.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replacement {
    line: String,
    with: Vec<String>,
}

/// All differences by `EXAMPLE/CASE`, with the file each comes from.
#[derive(Debug, Default)]
pub struct Differences(BTreeMap<String, (Difference, PathBuf)>);

impl Differences {
    /// Reads `differences/EXAMPLE.json` of a data folder, each a list. Every entry
    /// must belong to a case.
    pub fn read(data: &Path, cases: &[Case]) -> Result<Differences, Error> {
        let folder = data.join("differences");
        let mut found = Differences::default();
        if !folder.exists() {
            return Ok(found);
        }
        for entry in fs::read_dir(&folder).map_err(Error::read(&folder))? {
            let path = entry.map_err(Error::read(&folder))?.path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            found.read_file(&path, cases)?;
        }
        Ok(found)
    }

    /// Reads what is different on soft-hca, `soft-hca.json` of a data folder. There an
    /// entry stands on top of what is different everywhere.
    pub fn of_soft_hca(data: &Path, cases: &[Case]) -> Result<Differences, Error> {
        let mut found = Differences::default();
        let path = data.join("soft-hca.json");
        if path.exists() {
            found.read_file(&path, cases)?;
        }
        Ok(found)
    }

    fn read_file(&mut self, path: &Path, cases: &[Case]) -> Result<(), Error> {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = fs::read_to_string(path).map_err(Error::read(path))?;
        let list: Vec<Difference> = serde_json::from_str(&text).map_err(Error::json(path))?;
        for difference in list {
            let example = difference.example.as_ref().unwrap_or(&stem);
            let name = format!("{example}/{}", difference.case);
            let wrong = if !cases.iter().any(|case| case.name() == name) {
                Some("there is no such case")
            } else if difference.reason.trim().is_empty() {
                Some("the reason is missing")
            } else if difference.expect.is_empty() {
                Some("nothing is expected to differ")
            } else {
                None
            };
            if let Some(wrong) = wrong {
                return Err(Error::data(path, format!("{name}: {wrong}")));
            }
            if self.0.insert(name.clone(), (difference, path.to_owned())).is_some() {
                return Err(Error::data(path, format!("{name} is listed twice")));
            }
        }
        Ok(())
    }

    /// Those of an example.
    pub fn of(&self, example: &str) -> impl Iterator<Item = &Difference> {
        let prefix = format!("{example}/");
        let of_it = self.0.iter().filter(move |(name, _)| name.starts_with(&prefix));
        of_it.map(|(_, (difference, _))| difference)
    }

    /// The difference of a case, and what is expected of it instead of `recorded`.
    pub fn expectation(
        &self,
        case: &Case,
        recorded: &Expectation,
        normaliser: &Normaliser,
    ) -> Result<Option<(&Difference, Expectation)>, Error> {
        let Some((difference, path)) = self.0.get(&case.name()) else { return Ok(None) };
        let mut expectation = recorded.clone();
        for (&item, change) in &difference.expect {
            change
                .apply(item, &case.example, &mut expectation, normaliser)
                .map_err(|what| Error::data(path, format!("{}: {item}: {what}", case.name())))?;
        }
        Ok(Some((difference, expectation)))
    }
}

/// A run with flags for which nothing is listed, judged by what is listed for others.
#[derive(Debug)]
pub struct Unlisted<'a> {
    /// The C's run with these flags, as an expectation.
    pub live: &'a Expectation,
    /// Our run.
    pub ours: &'a Outcome,
    /// The rules for lines.
    pub normaliser: &'a Normaliser,
}

/// At most so many differences are tried together.
const TOGETHER: usize = 3;

impl Differences {
    /// Why ours may differ from the C so, with flags for which nothing is listed: by one of the
    /// differences of the example or of those that it has its code from, or by a few of them
    /// together. None if they do not explain it.
    pub fn explain(&self, example: &'static Example, run: &Unlisted<'_>) -> Option<String> {
        let listed: Vec<_> = example.lineage().flat_map(|example| self.of(example.name)).collect();
        let mut tried = vec![(run.live.clone(), Vec::<&str>::new())];
        for _ in 0..TOGETHER {
            let mut next: Vec<(Expectation, Vec<&str>)> = Vec::new();
            for (expected, reasons) in &tried {
                for difference in &listed {
                    let reason = difference.reason.as_str();
                    // The same reason is listed for several command lines, and any order will do.
                    if reasons.last().is_some_and(|&last| last >= reason) {
                        continue;
                    }
                    let mut more = expected.clone();
                    let applies = difference.apply_loosely(&mut more, run);
                    if !applies && difference.is_of_streams() {
                        continue;
                    }
                    difference.apply_endings(&mut more, run);
                    let reasons = [reasons.as_slice(), &[reason]].concat();
                    if more.complaints(run.ours, run.normaliser).is_empty() {
                        return Some(reasons.join("; "));
                    }
                    if applies {
                        next.push((more, reasons));
                    }
                }
            }
            tried = next;
        }
        None
    }
}

impl Difference {
    /// Is anything printed otherwise?
    fn is_of_streams(&self) -> bool {
        self.expect.keys().any(|item| matches!(item, Item::Stream(..)))
    }

    fn apply_endings(&self, to: &mut Expectation, run: &Unlisted<'_>) {
        for (&item, change) in &self.expect {
            if matches!(item, Item::Status(_)) {
                // A side that is not run has no ending.
                let _ = change.apply(item, "", to, run.normaliser);
            }
        }
    }

    /// Applies what is listed of the streams as far as it fits. True if something does.
    fn apply_loosely(&self, to: &mut Expectation, run: &Unlisted<'_>) -> bool {
        let mut applies = false;
        for (&item, change) in &self.expect {
            let (Item::Stream(side, stream), Change::Replace(changes)) = (item, change) else {
                continue;
            };
            if let Ok(expected) = stream_of(to, side, stream) {
                // each is applied, whether or not the one before it was
                let applied = changes.replace.iter().map(|change| change.apply(expected));
                applies |= applied.filter(Result::is_ok).count() > 0;
            }
        }
        for side in Side::BOTH {
            // The same may go for the other side, as both have these flags.
            applies |= Side::BOTH.into_iter().any(|listed| self.apply_lines(listed, side, to, run));
        }
        applies
    }

    /// Takes what is listed for the side `listed` for `side`, if that is what it has printed;
    /// numbers may be others, as the flags are others.
    fn apply_lines(
        &self,
        listed: Side,
        side: Side,
        to: &mut Expectation,
        run: &Unlisted<'_>,
    ) -> bool {
        let mask = |lines: &[String]| -> Vec<_> { lines.iter().map(|line| masked(line)).collect() };
        let mut found = Vec::new();
        for (&item, change) in &self.expect {
            if let (Item::Stream(of, stream), Change::Lines(Lines { lines })) = (item, change) {
                if of == listed {
                    let ours = run.live.printed(run.ours, side, stream, run.normaliser);
                    if mask(&ours) != mask(lines) {
                        return false;
                    }
                    found.push((stream, ours));
                }
            }
        }
        if found.iter().all(|(_, lines)| lines.is_empty()) {
            return false;
        }
        // A program that refuses a command line ends with its own status, whatever the C goes on to do.
        if let Some(ending @ Ending::Code(1..)) = run.ours.ending(side) {
            to.endings.insert(side, [ending].into());
        }
        let set = |(stream, lines)| set_expected(to, side, stream, Expected::Same(lines)).is_ok();
        found.into_iter().all(set)
    }
}

impl Change {
    fn apply(
        &self,
        item: Item,
        example: &str,
        expectation: &mut Expectation,
        normaliser: &Normaliser,
    ) -> Result<(), String> {
        match (item, self) {
            (Item::Status(side), Change::Text(ending)) => {
                set_endings(expectation, side, std::slice::from_ref(ending))
            }
            (Item::Stream(side, stream), Change::Text(text)) => {
                let lines = normaliser.apply(example, &split_lines(text));
                set_expected(expectation, side, stream, Expected::Same(lines))
            }
            (Item::Status(side), Change::Either(endings)) => {
                set_endings(expectation, side, endings)
            }
            (Item::Stream(side, stream), Change::Either(texts)) => {
                let normal = |text: &String| normaliser.apply(example, &split_lines(text));
                let expected = Expected::Varies(texts.iter().map(normal).collect());
                set_expected(expectation, side, stream, expected)
            }
            (Item::Stream(side, stream), Change::Lines(lines)) => {
                let lines = normaliser.apply(example, &lines.lines);
                set_expected(expectation, side, stream, Expected::Same(lines))
            }
            (Item::Stream(side, stream), Change::Replace(changes)) => {
                let expected = stream_of(expectation, side, stream)?;
                changes.replace.iter().try_for_each(|change| change.apply(expected))
            }
            _ => Err("a status takes endings, a stream lines or replace".to_owned()),
        }
    }
}

fn set_endings(
    expectation: &mut Expectation,
    side: Side,
    endings: &[String],
) -> Result<(), String> {
    let place = expectation.endings.get_mut(&side).ok_or("this side is not run")?;
    *place = endings.iter().map(|text| text.parse::<Ending>()).collect::<Result<_, _>>()?;
    if place.is_empty() {
        return Err("no ending is given".to_owned());
    }
    // An ending that the C has by chance does not excuse a program that is said not to have it.
    expectation.forget_conditional_endings(side);
    Ok(())
}

fn set_expected(
    expectation: &mut Expectation,
    side: Side,
    stream: Stream,
    expected: Expected,
) -> Result<(), String> {
    *stream_of(expectation, side, stream)? = expected;
    expectation.first_lines.remove(&(side, stream));
    Ok(())
}

fn stream_of(
    expectation: &mut Expectation,
    side: Side,
    stream: Stream,
) -> Result<&mut Expected, String> {
    expectation.streams.get_mut(&(side, stream)).ok_or("this side is not run".to_owned())
}

impl Replacement {
    fn apply(&self, expected: &mut Expected) -> Result<(), String> {
        let mut replaced = false;
        let mut replace = |lines: &mut Vec<String>| {
            let old = std::mem::take(lines);
            for line in old {
                if line == self.line {
                    replaced = true;
                    lines.extend_from_slice(&self.with);
                } else {
                    lines.push(line);
                }
            }
        };
        match expected {
            Expected::Same(lines) => replace(lines),
            Expected::Sorted(lines) => {
                replace(lines);
                lines.sort();
            }
            Expected::Varies(recorded) => recorded.iter_mut().for_each(replace),
        }
        if replaced {
            Ok(())
        } else {
            Err(format!("no recorded line (normalised) reads {:?}", self.line))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::golden::timing::Timing;
    use crate::transcript::{Line, Transcript};

    #[test]
    fn a_replaced_line_must_exist() {
        let change: Replace = serde_json::from_str(
            r#"{"replace": [{"line": "b", "with": ["x", "y"]}, {"line": "c", "with": []}]}"#,
        )
        .unwrap();
        let mut expected =
            Expected::Same(["a", "b", "c", "b"].iter().map(|&s| s.to_owned()).collect());
        for replacement in &change.replace {
            replacement.apply(&mut expected).unwrap();
        }
        let wanted = ["a", "x", "y", "x", "y"].iter().map(|&s| s.to_owned()).collect();
        assert_eq!(expected, Expected::Same(wanted));
        assert!(change.replace[0].apply(&mut expected).is_err());
    }

    /// Explains what `ours` has printed on standard error and how it ended, instead of what `c`
    /// has, by a list of one difference.
    fn explained(expect: &str, c: (&str, i32), ours: (&str, i32)) -> Option<String> {
        let outcome = |(text, code): (&str, i32)| {
            let mut transcript = Transcript::default();
            for line in text.lines() {
                transcript.push(Line {
                    side: Side::Client,
                    stream: Stream::Stderr,
                    at: Duration::ZERO,
                    text: line.to_owned(),
                    complete: true,
                });
            }
            let client = Some(Ending::Code(code));
            let elapsed = Duration::ZERO;
            Outcome {
                server: None,
                client,
                transcript,
                began: SystemTime::UNIX_EPOCH,
                elapsed,
                never_ready: None,
            }
        };
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden");
        let normaliser = Normaliser::read(&data).unwrap();
        let example = Example::named("mc").unwrap();
        let case = Case::unrecorded(example, "test", |side| side == Side::Client);
        let live = Expectation::of_run(&case, &outcome(c), &normaliser, &Timing::default());
        let text = format!(r#"{{"case": "x", "reason": "why", "expect": {expect}}}"#);
        let difference: Difference = serde_json::from_str(&text).unwrap();
        let list = [("mc/x".to_owned(), (difference, PathBuf::new()))];
        let run = Unlisted { live: &live, ours: &outcome(ours), normaliser: &normaliser };
        Differences(list.into()).explain(example, &run)
    }

    #[test]
    fn what_is_listed_explains_other_flags() {
        let why = Some("why".to_owned());
        let refused = r#"{"server.stderr": {"lines": ["bad count -5"]}}"#;
        assert_eq!(explained(refused, ("count 4", 0), ("bad count -7", 1)), why);
        assert_eq!(explained(refused, ("count 4", 0), ("bad size -7", 1)), None);
        assert_eq!(explained(refused, ("count 4", 0), ("", 1)), None);
        let nothing = r#"{"client.stderr": {"lines": []}}"#;
        assert_eq!(explained(nothing, ("count 4", 0), ("", 0)), None);
        let both = r#"{"client.stderr": {"lines": []}, "client.stdout": {"lines": ["x"]}}"#;
        assert_eq!(explained(both, ("count 4", 0), ("", 0)), None);
        let other = r#"{"client.stderr": {"replace": [{"line": "a", "with": ["b"]}]}, "client.status": "2"}"#;
        assert_eq!(explained(other, ("a\nc", 0), ("b\nc", 2)), why);
        assert_eq!(explained(other, ("a\nc", 0), ("b\nc", 3)), None);
        assert_eq!(explained(other, ("a\nc", 0), ("b\nd", 2)), None);
    }

    #[test]
    fn the_kinds_of_change_are_told_apart() {
        let change = |text| serde_json::from_str::<Change>(text);
        assert!(matches!(change(r#""1""#), Ok(Change::Text(_))));
        assert!(matches!(change(r#"["1", "timeout"]"#), Ok(Change::Either(_))));
        assert!(matches!(change(r#"{"lines": []}"#), Ok(Change::Lines(_))));
        assert!(matches!(change(r#"{"replace": []}"#), Ok(Change::Replace(_))));
        assert!(change(r#"{"liens": []}"#).is_err());
    }
}
