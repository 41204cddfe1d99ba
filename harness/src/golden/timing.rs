//! Differences by timing beyond the normalising rules: the model of
//! `timing.json`, and comparing with its leave.

use std::fs;
use std::path::Path;

use regex::Regex;
use serde::Deserialize;

use crate::error::Error;
use crate::golden::case::{Case, Item};
use crate::golden::numbers::{AsMany, Counted, Groups, Histogram, HistogramPatterns, number};
use crate::process::Ending;
use crate::transcript::Side;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "about")]
    _about: String,
    rules: Vec<RawRule>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRule {
    #[serde(rename = "what")]
    _what: String,
    examples: Vec<String>,
    /// Only with a kernel's Soft-RoCE.
    #[serde(default)]
    kernel: bool,
    /// Absent: all of them.
    cases: Option<String>,
    streams: Vec<Item>,
    apart: Option<String>,
    floating: Option<String>,
    slack: Option<usize>,
    sum: Option<String>,
    ending: Option<String>,
    with: Option<String>,
    without: Option<String>,
    groups: Option<RawGroups>,
    counted: Option<RawCounted>,
    as_many: Option<[String; 2]>,
    histogram: Option<HistogramPatterns>,
    one_less: Option<String>,
    one_more: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawGroups {
    lines: String,
    like: Vec<String>,
    #[serde(default)]
    begins: usize,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCounted {
    lines: String,
    of: String,
    #[serde(default)]
    from: u64,
}

#[derive(Debug)]
struct Rule {
    examples: Vec<String>,
    kernel: bool,
    cases: Option<Regex>,
    streams: Vec<Item>,
    apart: Option<Regex>,
    floating: Option<Floating>,
    ending: Option<(Ending, Regex)>,
    groups: Option<Groups>,
    counted: Option<Counted>,
    as_many: Option<AsMany>,
    histogram: Option<Histogram>,
    one_less: Option<Regex>,
    one_more: Option<Regex>,
}

/// Lines that may stand anywhere.
#[derive(Clone, Debug)]
struct Floating {
    pattern: Regex,
    /// By how many their number may differ; `None`: by any.
    slack: Option<usize>,
    /// The numbers that its group 1 matches add up to as much as the recording's.
    sum: Option<Regex>,
    /// Only in a stream that has such a line.
    with: Option<Regex>,
}

/// All rules.
#[derive(Debug, Default)]
pub struct Timing {
    rules: Vec<Rule>,
}

/// The rules for one stream.
#[derive(Clone, Debug, Default)]
pub struct Tolerance {
    apart: Vec<Regex>,
    floating: Vec<Floating>,
    groups: Vec<Groups>,
    counted: Vec<Counted>,
    as_many: Vec<AsMany>,
    histograms: Vec<Histogram>,
    /// The number that group 1 matches may be one less than the recording's.
    one_less: Vec<Regex>,
    /// It may be one more.
    one_more: Vec<Regex>,
}

/// A stream as far as timing has no say in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reduced {
    /// Lines of the main thread.
    pub main: Vec<String>,
    /// Lines of the thread beside it.
    pub apart: Vec<String>,
    /// How often each rule for floating lines matched.
    floating: Vec<usize>,
    /// Sum of each rule's numbers.
    sums: Vec<u64>,
    /// The lines of which one of several groups is printed, for each such rule.
    groups: Vec<Vec<String>>,
}

impl Reduced {
    /// How many threads are told apart.
    pub const THREADS: usize = 2;

    /// The lines of one thread.
    pub fn thread(&self, number: usize) -> &[String] {
        if number == 0 { &self.main } else { &self.apart }
    }
}

impl Timing {
    /// Reads `timing.json` of a data folder; without the file there are no rules.
    pub fn read(data: &Path) -> Result<Timing, Error> {
        let path = data.join("timing.json");
        if !path.exists() {
            return Ok(Timing::default());
        }
        let text = fs::read_to_string(&path).map_err(Error::read(&path))?;
        let file: File = serde_json::from_str(&text).map_err(Error::json(&path))?;
        let rules = file.rules.into_iter().map(Rule::compile).collect::<Result<_, _>>();
        Ok(Timing { rules: rules.map_err(|what| Error::data(&path, what))? })
    }

    /// Leaves out what is a kernel's alone.
    pub fn are_for_soft_hca(&mut self) {
        self.rules.retain(|rule| !rule.kernel);
    }

    fn rules_for(&self, case: &Case) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(|rule| {
            rule.examples.contains(&case.example)
                && rule.cases.as_ref().is_none_or(|cases| cases.is_match(&case.case))
        })
    }

    /// The rules for one stream of a case.
    pub fn tolerance(&self, case: &Case, stream: Item) -> Tolerance {
        let mut tolerance = Tolerance::default();
        for rule in self.rules_for(case).filter(|rule| rule.streams.contains(&stream)) {
            tolerance.apart.extend(rule.apart.clone());
            tolerance.floating.extend(rule.floating.clone());
            tolerance.groups.extend(rule.groups.clone());
            tolerance.counted.extend(rule.counted.clone());
            tolerance.as_many.extend(rule.as_many.clone());
            tolerance.histograms.extend(rule.histogram.clone());
            tolerance.one_less.extend(rule.one_less.clone());
            tolerance.one_more.extend(rule.one_more.clone());
        }
        tolerance
    }

    /// Endings of a side that are right in the company of a line.
    pub fn endings(&self, case: &Case, side: Side) -> Vec<(Ending, Regex)> {
        let of_side = |rule: &&Rule| {
            rule.streams.iter().any(|item| matches!(item, Item::Stream(s, _) if *s == side))
        };
        self.rules_for(case).filter(of_side).filter_map(|rule| rule.ending.clone()).collect()
    }
}

impl Rule {
    fn compile(raw: RawRule) -> Result<Rule, String> {
        let regex = |text: Option<String>| -> Result<Option<Regex>, String> {
            text.map(|text| Regex::new(&text).map_err(|error| error.to_string())).transpose()
        };
        let with = regex(raw.with)?;
        let without = regex(raw.without)?;
        let ending = match (raw.ending, with.clone()) {
            (Some(ending), Some(with)) => Some((ending.parse()?, with)),
            (Some(_), None) => return Err("an ending needs a line to come with".to_owned()),
            (None, _) => None,
        };
        let takes_with = raw.floating.is_some() || raw.groups.is_some() || raw.as_many.is_some();
        if with.is_some() && ending.is_none() && !takes_with {
            return Err("with goes together with ending, floating, groups or as_many".to_owned());
        }
        if without.is_some() && raw.groups.is_none() {
            return Err("without goes together with groups".to_owned());
        }
        let (slack, sum) = (raw.slack, regex(raw.sum)?);
        let floating = regex(raw.floating)?;
        if floating.is_none() && (slack.is_some() || sum.is_some()) {
            return Err("slack and sum go together with floating".to_owned());
        }
        let one = |text: String| Regex::new(&text).map_err(|error| error.to_string());
        let groups = raw.groups.map(|raw| {
            let like = raw.like.into_iter().map(one).collect::<Result<_, _>>()?;
            let (with, without) = (with.clone(), without);
            Ok::<_, String>(Groups {
                lines: one(raw.lines)?,
                like,
                begins: raw.begins,
                with,
                without,
            })
        });
        let counted = raw.counted.map(|raw| {
            Ok::<_, String>(Counted { lines: one(raw.lines)?, of: one(raw.of)?, from: raw.from })
        });
        let as_many = raw.as_many.map(|[lines, as_of]| {
            let with = with.clone();
            Ok::<_, String>(AsMany { lines: one(lines)?, as_of: one(as_of)?, with })
        });
        let rule = Rule {
            examples: raw.examples,
            kernel: raw.kernel,
            cases: regex(raw.cases)?,
            streams: raw.streams,
            apart: regex(raw.apart)?,
            floating: floating.map(|pattern| Floating { pattern, slack, sum, with: with.clone() }),
            ending,
            groups: groups.transpose()?,
            counted: counted.transpose()?,
            as_many: as_many.transpose()?,
            histogram: raw.histogram.map(|patterns| patterns.compile()).transpose()?,
            one_less: regex(raw.one_less)?,
            one_more: regex(raw.one_more)?,
        };
        if rule.does_nothing() {
            return Err("a rule does nothing".to_owned());
        }
        Ok(rule)
    }

    fn does_nothing(&self) -> bool {
        self.apart.is_none()
            && self.floating.is_none()
            && self.ending.is_none()
            && self.groups.is_none()
            && self.counted.is_none()
            && self.as_many.is_none()
            && self.histogram.is_none()
            && self.one_less.is_none()
            && self.one_more.is_none()
    }
}

impl Tolerance {
    /// Is what the rules say of the stream itself so? They hold for every run, whatever its
    /// recording. The lines are in the order in which they were printed.
    pub fn check(&self, lines: &[String]) -> Result<(), String> {
        let is_apart = |line: &str| self.apart.iter().any(|pattern| pattern.is_match(line));
        for groups in self.groups.iter().filter(|groups| groups.holds(lines)) {
            groups.check(lines, is_apart)?;
        }
        self.counted.iter().try_for_each(|counted| counted.check(lines))?;
        self.as_many.iter().try_for_each(|as_many| as_many.check(lines))?;
        self.histograms.iter().try_for_each(|histogram| histogram.check(lines))
    }

    /// The rest of a normalised stream.
    pub fn reduce(&self, lines: &[String]) -> Reduced {
        self.reduce_beside(lines, &[])
    }

    /// The same for one of two streams that are compared: a line that has others float may be in either.
    fn reduce_beside(&self, lines: &[String], other: &[String]) -> Reduced {
        let mut reduced = Reduced {
            floating: vec![0; self.floating.len()],
            sums: vec![0; self.floating.len()],
            groups: vec![Vec::new(); self.groups.len()],
            ..Reduced::default()
        };
        let has = |with: &Regex| lines.iter().chain(other).any(|line| with.is_match(line));
        let floating: Vec<_> =
            self.floating.iter().map(|rule| rule.with.as_ref().is_none_or(has)).collect();
        let groups: Vec<_> = self.groups.iter().map(|groups| groups.holds(lines)).collect();
        for line in lines {
            let left = self
                .histograms
                .iter()
                .try_fold(line.clone(), |line, histogram| histogram.reduce(&line));
            let Some(line) = left else { continue };
            let floats = |(rule, &holds): (&Floating, &bool)| holds && rule.pattern.is_match(&line);
            let is_of = |(groups, &holds): (&Groups, &bool)| holds && groups.has(&line);
            if let Some(rule) = self.groups.iter().zip(&groups).position(is_of) {
                reduced.groups[rule].push(line);
            } else if let Some(rule) = self.floating.iter().zip(&floating).position(floats) {
                let sum = self.floating[rule].sum.as_ref().and_then(|sum| number(sum, &line));
                reduced.floating[rule] += 1;
                reduced.sums[rule] += sum.unwrap_or_default();
            } else if self.apart.iter().any(|pattern| pattern.is_match(&line)) {
                reduced.apart.push(line);
            } else {
                reduced.main.push(line);
            }
        }
        reduced
    }

    /// Are there about as many floating lines as in the recording, do their numbers add up to
    /// as much, and is of every kind of group one there if one was there?
    pub fn floats_alike(&self, actual: &Reduced, recorded: &Reduced) -> bool {
        let floats = self.floating.iter().enumerate().all(|(at, rule)| {
            let few = |slack| actual.floating[at].abs_diff(recorded.floating[at]) <= slack;
            rule.slack.is_none_or(few)
                && (rule.sum.is_none() || actual.sums[at] == recorded.sums[at])
        });
        let pairs = actual.groups.iter().zip(&recorded.groups);
        floats
            && self.groups.iter().zip(pairs).all(|(rule, (actual, recorded))| {
                let begins =
                    |lines: &Vec<String>| lines.iter().take(rule.begins).cloned().collect();
                let (ours, theirs): (Vec<_>, Vec<_>) = (begins(actual), begins(recorded));
                actual.is_empty() == recorded.is_empty() && ours == theirs
            })
    }

    /// The line, with its number one higher or lower if that may be and makes it a line of the
    /// recording.
    fn as_recorded(&self, line: &str, recorded: &[String]) -> String {
        let changed = |pattern: &Regex, change: fn(u64) -> Option<u64>| {
            let number = pattern.captures(line)?.get(1)?;
            let (before, after) = (&line[..number.start()], &line[number.end()..]);
            let line = format!("{before}{}{after}", change(number.as_str().parse().ok()?)?);
            recorded.contains(&line).then_some(line)
        };
        let more = self.one_less.iter().filter_map(|less| changed(less, |n| n.checked_add(1)));
        let less = self.one_more.iter().filter_map(|more| changed(more, |n| n.checked_sub(1)));
        more.chain(less).next().unwrap_or_else(|| line.to_owned())
    }

    /// Is the stream like the recording as far as timing has no say in it?
    pub fn is_alike(&self, actual: &[String], recorded: &[String]) -> bool {
        let actual: Vec<_> = actual.iter().map(|line| self.as_recorded(line, recorded)).collect();
        let (actual, recorded) =
            (self.reduce_beside(&actual, recorded), self.reduce_beside(recorded, &actual));
        actual.main == recorded.main
            && actual.apart == recorded.apart
            && self.floats_alike(&actual, &recorded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tolerance() -> Tolerance {
        Tolerance {
            apart: vec![Regex::new("^event").unwrap()],
            floating: vec![
                floating("^tick", Some(1)),
                floating("^poll", None),
                Floating {
                    with: Some(Regex::new("^refused").unwrap()),
                    ..floating("^(refused|end)", Some(2))
                },
                Floating {
                    sum: Some(Regex::new("^acked([0-9]+)").unwrap()),
                    ..floating("^acked", None)
                },
            ],
            groups: vec![Groups {
                lines: Regex::new("^(?:size|won|lost).*").unwrap(),
                like: vec![Regex::new("(size[0-9]\n)*(won|lost)").unwrap()],
                begins: 1,
                with: None,
                without: None,
            }],
            one_less: vec![Regex::new("^sent[0-9]of([0-9])$").unwrap()],
            one_more: vec![Regex::new("^found([0-9])$").unwrap()],
            ..Tolerance::default()
        }
    }

    fn floating(pattern: &str, slack: Option<usize>) -> Floating {
        Floating { pattern: Regex::new(pattern).unwrap(), slack, sum: None, with: None }
    }

    fn alike(actual: &str, recorded: &str) -> bool {
        let lines = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        tolerance().is_alike(&lines(actual), &lines(recorded))
    }

    #[test]
    fn threads_are_ordered_each_for_itself() {
        assert!(alike("a event1 b event2 c", "a b event1 event2 c"));
        assert!(!alike("a event2 b event1 c", "a b event1 event2 c"));
        assert!(!alike("b event1 a event2 c", "a b event1 event2 c"));
        assert!(!alike("a b event1 c", "a b event1 event2 c"));
    }

    #[test]
    fn floating_lines_are_counted() {
        assert!(alike("tick a b poll poll poll", "a tick b"));
        assert!(alike("a tick b tick", "a tick b"));
        assert!(!alike("a tick b tick tick", "a tick b"));
    }

    #[test]
    fn the_numbers_of_floating_lines_add_up_to_as_much() {
        assert!(alike("acked1 a acked1", "a acked2"));
        assert!(!alike("acked1 a", "a acked2"));
    }

    #[test]
    fn a_number_may_be_one_less_and_nothing_else() {
        assert!(alike("a sent1of2", "a sent1of3"));
        assert!(!alike("a sent1of1", "a sent1of3"));
        assert!(!alike("a sent1of4", "a sent1of3"));
        assert!(!alike("a sent2of2", "a sent1of3"));
    }

    #[test]
    fn a_number_may_be_one_more_and_nothing_else() {
        assert!(alike("a found4", "a found3"));
        assert!(!alike("a found2", "a found3"));
        assert!(!alike("a found5", "a found3"));
    }

    #[test]
    fn of_a_race_one_outcome_must_be_there_and_begin_as_recorded() {
        assert!(alike("size4 a size1 won", "a size4 size2 lost"));
        assert!(!alike("size3 a size1 won", "a size4 size2 lost"));
        assert!(!alike("a", "a won"));
        assert!(!alike("a won", "a"));
        let lines = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(tolerance().check(&lines("a size4 won")), Ok(()));
        assert!(tolerance().check(&lines("a won size4")).is_err());
    }

    #[test]
    fn a_rule_with_a_line_needs_the_line() {
        assert!(alike("a b refused end", "a b"));
        assert!(!alike("a b end", "a b"));
        assert!(!alike("a b refused end end", "a b"));
    }

    #[test]
    fn a_rule_must_do_something() {
        let rule = |text| Rule::compile(serde_json::from_str(text).unwrap());
        let none = r#"{"what": "", "examples": [], "streams": []}"#;
        assert!(rule(none).is_err());
        let half = r#"{"what": "", "examples": [], "streams": [], "ending": "1"}"#;
        assert!(rule(half).is_err());
        let other = r#"{"what": "", "examples": [], "streams": [], "apart": "x", "with": "x"}"#;
        assert!(rule(other).is_err());
        let good = r#"{"what": "", "examples": [], "streams": [], "ending": "1", "with": "x"}"#;
        assert!(rule(good).is_ok());
    }
}
