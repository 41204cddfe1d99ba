//! What depends on timing beyond the normalising rules: the model of
//! `timing.json`, and comparing with its leave.

use std::fs;
use std::path::Path;

use regex::Regex;
use serde::Deserialize;

use crate::error::Error;
use crate::golden::case::{Case, Item};
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
    /// Absent: all of them.
    cases: Option<String>,
    streams: Vec<Item>,
    apart: Option<String>,
    floating: Option<String>,
    slack: Option<usize>,
    ending: Option<String>,
    with: Option<String>,
}

#[derive(Debug)]
struct Rule {
    examples: Vec<String>,
    cases: Option<Regex>,
    streams: Vec<Item>,
    apart: Option<Regex>,
    floating: Option<Floating>,
    ending: Option<(Ending, Regex)>,
}

/// Lines that may stand anywhere.
#[derive(Clone, Debug)]
struct Floating {
    pattern: Regex,
    /// By how many their number may differ; `None`: by any.
    slack: Option<usize>,
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
        let ending = match (raw.ending, with.clone()) {
            (Some(ending), Some(with)) => Some((ending.parse()?, with)),
            (Some(_), None) => return Err("an ending needs a line to come with".to_owned()),
            (None, _) => None,
        };
        if with.is_some() && ending.is_none() && raw.floating.is_none() {
            return Err("with goes together with ending or floating".to_owned());
        }
        let slack = raw.slack;
        let floating = regex(raw.floating)?.map(|pattern| Floating { pattern, slack, with });
        let apart = regex(raw.apart)?;
        if apart.is_none() && floating.is_none() && ending.is_none() {
            return Err("a rule does nothing".to_owned());
        }
        let cases = regex(raw.cases)?;
        Ok(Rule { examples: raw.examples, cases, streams: raw.streams, apart, floating, ending })
    }
}

impl Tolerance {
    /// No rule says anything about the stream.
    pub fn is_empty(&self) -> bool {
        self.apart.is_empty() && self.floating.is_empty()
    }

    /// What is left of a normalised stream.
    pub fn reduce(&self, lines: &[String]) -> Reduced {
        let mut reduced = Reduced { floating: vec![0; self.floating.len()], ..Reduced::default() };
        let has = |with: &Regex| lines.iter().any(|line| with.is_match(line));
        let holds: Vec<_> =
            self.floating.iter().map(|rule| rule.with.as_ref().is_none_or(has)).collect();
        for line in lines {
            let floats = |(rule, &holds): (&Floating, &bool)| holds && rule.pattern.is_match(line);
            if let Some(rule) = self.floating.iter().zip(&holds).position(floats) {
                reduced.floating[rule] += 1;
            } else if self.apart.iter().any(|pattern| pattern.is_match(line)) {
                reduced.apart.push(line.clone());
            } else {
                reduced.main.push(line.clone());
            }
        }
        reduced
    }

    /// Are there about as many floating lines as in the recording?
    pub fn floats_alike(&self, actual: &Reduced, recorded: &Reduced) -> bool {
        self.floating.iter().zip(actual.floating.iter().zip(&recorded.floating)).all(
            |(rule, (actual, recorded))| {
                rule.slack.is_none_or(|slack| actual.abs_diff(*recorded) <= slack)
            },
        )
    }

    /// Is the stream like the recording as far as timing has no say in it?
    pub fn is_alike(&self, actual: &[String], recorded: &[String]) -> bool {
        let (actual, recorded) = (self.reduce(actual), self.reduce(recorded));
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
                Floating { pattern: Regex::new("^tick").unwrap(), slack: Some(1), with: None },
                Floating { pattern: Regex::new("^poll").unwrap(), slack: None, with: None },
                Floating {
                    pattern: Regex::new("^(refused|end)").unwrap(),
                    slack: Some(2),
                    with: Some(Regex::new("^refused").unwrap()),
                },
            ],
        }
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
