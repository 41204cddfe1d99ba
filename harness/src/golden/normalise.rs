//! The rules that take out of a line what differs from run to run: pointers,
//! times, key numbers and so on.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use regex::Regex;
use serde::Deserialize;

use crate::error::Error;

/// The file as it is written.
#[derive(Debug, Deserialize)]
struct File {
    #[serde(rename = "about")]
    _about: String,
    /// Group name to the examples it applies to. The order matters and is that of
    /// the file.
    groups: Ordered,
    common: Vec<RawRule>,
    #[serde(flatten)]
    lists: BTreeMap<String, Vec<RawRule>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRule {
    #[serde(rename = "match")]
    pattern: String,
    replace: Option<String>,
    #[serde(default)]
    drop: bool,
    /// It depends on the machine, not on the run: two programs on one machine agree on it.
    #[serde(default)]
    live: bool,
    /// Why they do not, though, if they are the C's and ours.
    differs: Option<RawDiffers>,
    #[serde(rename = "what")]
    _what: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawDiffers {
    why: String,
    /// The number of ours may be greater by so much,
    by: u64,
    /// for each such line before it.
    for_each: String,
}

/// An object's entries in the order of the text, which a map would lose.
#[derive(Debug)]
struct Ordered(Vec<(String, Vec<String>)>);

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Ordered, D::Error> {
        struct Entries;
        impl<'de> serde::de::Visitor<'de> for Entries {
            type Value = Ordered;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of lists")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Ordered, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Ordered(entries))
            }
        }
        from.deserialize_map(Entries)
    }
}

#[derive(Debug)]
struct Rule {
    pattern: Regex,
    /// `None`: the line goes.
    replace: Option<String>,
    live: bool,
    differs: Option<Differs>,
}

#[derive(Debug)]
struct Differs {
    why: String,
    by: u64,
    for_each: Regex,
}

/// Something that depends on the machine, as it was printed there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    /// The text.
    pub text: String,
    /// By how much ours may be greater than the C's in its number, and why.
    pub differs: Option<(u64, String)>,
}

/// How ours agrees with something that the C has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agrees<'a> {
    /// The same.
    Same,
    /// A permitted text, which is something else for this reason.
    Differs(&'a str),
    /// Something else.
    No,
}

impl Live {
    /// Is this, of ours, what there has to be where the C has that?
    pub fn agrees_with(&self, c: &Live) -> Agrees<'_> {
        if self.text == c.text {
            return Agrees::Same;
        }
        let (Some((by, why)), Some(own), Some(other)) =
            (&self.differs, last_number(&self.text), last_number(&c.text))
        else {
            return Agrees::No;
        };
        let more = own.1.checked_sub(other.1);
        match own.0 == other.0 && more.is_some_and(|more| more <= *by) {
            true => Agrees::Differs(why),
            false => Agrees::No,
        }
    }
}

/// The text up to the number at its end, and the number.
fn last_number(text: &str) -> Option<(&str, u64)> {
    let before = text.trim_end_matches(|c: char| c.is_ascii_digit());
    Some((before, text[before.len()..].parse().ok()?))
}

/// All rules.
#[derive(Debug)]
pub struct Normaliser {
    common: Vec<Rule>,
    groups: Vec<(Vec<String>, Vec<Rule>)>,
    /// A text, and that which it is taken for.
    same: Vec<(String, String)>,
}

impl Normaliser {
    /// Reads `normalise.json` of a data folder.
    pub fn read(data: &Path) -> Result<Normaliser, Error> {
        let path = data.join("normalise.json");
        let text = fs::read_to_string(&path).map_err(Error::read(&path))?;
        Normaliser::parse(&text, &path)
    }

    fn parse(text: &str, path: &Path) -> Result<Normaliser, Error> {
        let mut file: File = serde_json::from_str(text).map_err(Error::json(path))?;
        let compile = |rules: Vec<RawRule>| -> Result<Vec<Rule>, Error> {
            rules.into_iter().map(|rule| compile(rule, path)).collect()
        };
        let mut groups = Vec::new();
        for (group, examples) in file.groups.0 {
            let rules = file
                .lists
                .remove(&group)
                .ok_or_else(|| Error::data(path, format!("group {group} has no rules")))?;
            groups.push((examples, compile(rules)?));
        }
        if let Some(list) = file.lists.keys().next() {
            return Err(Error::data(path, format!("no group is called {list}")));
        }
        Ok(Normaliser { common: compile(file.common)?, groups, same: Vec::new() })
    }

    /// Takes a text for another one, before the rules.
    pub fn take_for(&mut self, text: &str, other: &str) {
        self.same.push((text.to_owned(), other.to_owned()));
    }

    /// The lines of an example's stream, made comparable.
    pub fn apply(&self, example: &str, lines: &[String]) -> Vec<String> {
        lines.iter().filter_map(|line| self.line(example, line, &[], &mut Vec::new())).collect()
    }

    /// The parts of those lines that depend on the machine, in their order.
    pub fn live(&self, example: &str, lines: &[String]) -> Vec<Live> {
        let mut found = Vec::new();
        for (at, line) in lines.iter().enumerate() {
            self.line(example, line, &lines[..at], &mut found);
        }
        found
    }

    fn line(
        &self,
        example: &str,
        line: &str,
        before: &[String],
        live: &mut Vec<Live>,
    ) -> Option<String> {
        let of_groups = self
            .groups
            .iter()
            .filter(|(examples, _)| examples.iter().any(|name| name == example))
            .flat_map(|(_, rules)| rules);
        let mut line = line.to_owned();
        for (text, other) in &self.same {
            line = line.replace(text, other);
        }
        for rule in self.common.iter().chain(of_groups) {
            if rule.live {
                let differs = rule.differs.as_ref().map(|differs| {
                    let is_one = |line: &&String| differs.for_each.is_match(line);
                    let times = before.iter().filter(is_one).count() as u64;
                    (times * differs.by, differs.why.clone())
                });
                live.extend(rule.pattern.find_iter(&line).map(|found| Live {
                    text: found.as_str().to_owned(),
                    differs: differs.clone(),
                }));
            }
            match &rule.replace {
                Some(text) => line = rule.pattern.replace_all(&line, text).into_owned(),
                None if rule.pattern.is_match(&line) => return None,
                None => {}
            }
        }
        Some(line)
    }
}

fn compile(rule: RawRule, path: &Path) -> Result<Rule, Error> {
    let regex = |text: &str| Regex::new(text).map_err(|error| Error::data(path, error.to_string()));
    let pattern = regex(&rule.pattern)?;
    let replace = match (rule.replace, rule.drop) {
        (Some(text), false) => Some(replacement(&text)),
        (None, true) => None,
        _ => {
            let what = format!("rule {:?} must either replace or drop", rule.pattern);
            return Err(Error::data(path, what));
        }
    };
    if rule.differs.is_some() && !rule.live {
        let what = format!("rule {:?} may differ only if it is live", rule.pattern);
        return Err(Error::data(path, what));
    }
    let differs = rule.differs.map(|RawDiffers { why, by, for_each }| {
        Ok::<_, Error>(Differs { why, by, for_each: regex(&for_each)? })
    });
    Ok(Rule { pattern, replace, live: rule.live, differs: differs.transpose()? })
}

/// From Python's way of naming a group in a replacement (`\1`) to that of `regex`
/// (`${1}`).
fn replacement(text: &str) -> String {
    let mut result = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(digit @ '0'..='9') => result.push_str(&format!("${{{digit}}}")),
                other => result.extend(other),
            },
            '$' => result.push_str("$$"),
            other => result.push(other),
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = r#"{
        "about": "test",
        "groups": {"z": ["mc", "srq"], "a": ["mc"]},
        "common": [{"match": "0x[0-9a-f]{8,}", "replace": "PTR", "what": "pointers"}],
        "z": [{"match": "(key|id)=[0-9]+", "replace": "\\1=N $", "what": "numbers"}],
        "a": [{"match": "^id=N", "drop": true, "what": "after the group before"}]
    }"#;

    fn rules() -> Normaliser {
        Normaliser::parse(RULES, Path::new("test")).unwrap()
    }

    fn lines(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|&line| line.to_owned()).collect()
    }

    #[test]
    fn rules_replace_with_groups() {
        let given = lines(&["at 0x7ffd12345678 key=17", "0x12"]);
        assert_eq!(rules().apply("srq", &given), ["at PTR key=N $", "0x12"]);
    }

    #[test]
    fn what_depends_on_the_machine_is_kept_apart() {
        let text = RULES.replace(r#""what": "numbers""#, r#""live": true, "what": "numbers""#);
        let rules = Normaliser::parse(&text, Path::new("test")).unwrap();
        let given = lines(&["at 0x7ffd12345678 key=17 id=2"]);
        let found: Vec<_> = rules.live("srq", &given).into_iter().map(|live| live.text).collect();
        assert_eq!(found, ["key=17", "id=2"]);
        assert_eq!(rules.live("apm", &given), []);
        let why = r#""differs": {"why": "w", "by": 2, "for_each": "x"}, "what": "numbers""#;
        let text = RULES.replace(r#""what": "numbers""#, why);
        assert!(Normaliser::parse(&text, Path::new("test")).is_err());
    }

    #[test]
    fn what_differs_differs_by_so_much_at_most() {
        let rule = r#""live": true, "differs": {"why": "w", "by": 2, "for_each": "^thread"},
            "what": "numbers""#;
        let text = RULES.replace(r#""what": "numbers""#, rule);
        let rules = Normaliser::parse(&text, Path::new("test")).unwrap();
        let check = |c: [&str; 2], ours: [&str; 2]| {
            let live =
                |[first, last]: [&str; 2]| rules.live("srq", &lines(&[first, "thread", last]));
            let (c, ours) = (live(c), live(ours));
            let agrees = |(ours, c): (&Live, &Live)| match ours.agrees_with(c) {
                Agrees::Same => "same",
                Agrees::Differs(_) => "differs",
                Agrees::No => "no",
            };
            ours.iter().zip(&c).map(agrees).collect::<Vec<_>>()
        };
        assert_eq!(check(["id=3", "id=6"], ["id=3", "id=8"]), ["same", "differs"]);
        assert_eq!(check(["id=3", "id=6"], ["id=5", "id=9"]), ["no", "no"]);
        assert_eq!(check(["id=3", "id=6"], ["id=2", "id=5"]), ["no", "no"]);
        assert_eq!(check(["id=3", "id=6"], ["id=3", "key=8"]), ["same", "no"]);
    }

    #[test]
    fn groups_apply_in_the_order_of_the_file_and_only_to_their_examples() {
        let given = lines(&["id=1", "key=2"]);
        assert_eq!(rules().apply("mc", &given), ["key=N $"]);
        assert_eq!(rules().apply("srq", &given), ["id=N $", "key=N $"]);
        assert_eq!(rules().apply("apm", &given), given);
    }

    #[test]
    fn a_rule_that_does_nothing_or_a_group_without_rules_is_an_error() {
        for (from, to) in [
            (r#""drop": true, "#, ""),
            (r#""replace": "PTR", "#, r#""replace": "PTR", "drop": true, "#),
            (r#""a": ["mc"]"#, r#""b": ["mc"]"#),
            ("[0-9]+", "[0-9"),
        ] {
            let text = RULES.replace(from, to);
            assert_ne!(text, RULES);
            assert!(Normaliser::parse(&text, Path::new("test")).is_err(), "{to}");
        }
    }
}
