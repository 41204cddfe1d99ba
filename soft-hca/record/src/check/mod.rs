//! Mistakes of programs that a run has survived and another adapter, another machine or
//! another order of events does not.
//!
//! | module | what it is |
//! | --- | --- |
//! | `rule` | the names of the rules |
//! | `rules` | each rule: what it looks for, why it matters, and what to do |
//! | `found` | the view that a rule has, and its findings |
//! | [`report`] | findings as text, JSON and SARIF |

mod found;
pub mod report;
mod rule;
mod rules;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;

use crate::entry::Entry;
use crate::model::Run;
use crate::place::Place;
use crate::words::without_numbers;
use found::{Device, Found, Lookout, Scene};

pub use rule::Rule;

/// The most findings that are remembered of a process whose polls are not on record.
const REMEMBERED: usize = 1000;

/// Something that a program should not do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Which rule it is against.
    pub rule: Rule,
    /// The process, as in [`Entry::process`].
    pub process: u32,
    /// The program and its pid.
    pub program: String,
    /// The object that it is about, such as `qp 17`; of several the first.
    pub place: String,
    /// How many others there are.
    pub others: u64,
    /// The finding, with values; of several alike the first.
    pub what: String,
    /// When: of the first entry, as in [`Entry::t`].
    pub t: u64,
    /// The same of the last one.
    pub last: u64,
    /// How often.
    pub times: u64,
    /// Where in the program's source the call was made, if that is known.
    pub source: Option<Arc<Place>>,
}

impl Finding {
    /// Whether a suppression, `RULE` or `RULE:TEXT`, is about it: its program, object, text or
    /// place in the source has TEXT in it.
    pub fn is_suppressed_by(&self, suppression: &str) -> bool {
        let (rule, text) = suppression.split_once(':').unwrap_or((suppression, ""));
        let source = self.source.as_ref().map(|source| source.to_string()).unwrap_or_default();
        let has = |part: &String| part.contains(text);
        let parts = [&self.program, &self.place, &self.what, &source];
        rule == self.rule.name() && parts.into_iter().any(has)
    }
}

/// The key of a finding: its rule and process, its text without values, and the place in the
/// source.
type Kind = (Rule, u32, String, String);

/// Finds what is against the rules, entry after entry.
#[derive(Debug)]
pub struct Checker {
    device: Device,
    run: Run,
    rules: Vec<Box<dyn Lookout>>,
    findings: BTreeMap<Kind, (Finding, BTreeSet<String>)>,
    /// Findings that count when the polls of their process are seen.
    unseen: BTreeMap<u32, Vec<Found>>,
}

impl Default for Checker {
    fn default() -> Self {
        Self::like(None, false, 1)
    }
}

impl Checker {
    /// At the beginning of a record.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same of a run whose device has the limits of this adapter: what it refuses is found, too; and atomic
    /// operations that are posted, if it has none. Its ports have P_Key tables of so many entries.
    pub fn like(adapter: Option<String>, lacks_atomics: bool, pkeys: u16) -> Self {
        let rules = Rule::ALL.iter().map(|rule| rule.lookout()).collect();
        let device = Device { adapter, lacks_atomics, pkeys: pkeys.max(1) };
        let (run, findings, unseen) = (Run::default(), BTreeMap::new(), BTreeMap::new());
        Self { device, run, rules, findings, unseen }
    }

    /// Another entry.
    pub fn entry(&mut self, entry: &Entry) {
        let effect = self.run.entry(entry);
        let scene = Scene { entry, effect: &effect, run: &self.run, device: &self.device };
        let mut found = Vec::new();
        let is_partial = self.run.is_partial;
        let asked = self.rules.iter_mut().filter(|rule| !(is_partial && rule.needs_all()));
        asked.for_each(|rule| rule.entry(scene, &mut found));
        self.sort(found);
        self.seen(entry.process);
    }

    /// Findings that need the polls of their process count when these are seen.
    fn sort(&mut self, found: Vec<Found>) {
        let is_unseen = |one: &Found| one.needs_polls && !self.run.is_hooked(one.process);
        let (unseen, found): (Vec<_>, Vec<_>) = found.into_iter().partition(is_unseen);
        for one in unseen {
            let known = self.unseen.entry(one.process).or_default();
            if known.len() < REMEMBERED {
                known.push(one);
            }
        }
        self.add(found);
    }

    fn seen(&mut self, process: u32) {
        if self.run.is_hooked(process) {
            let found = self.unseen.remove(&process).unwrap_or_default();
            self.add(found);
        }
    }

    fn add(&mut self, found: Vec<Found>) {
        for Found { rule, process, place, what, t, source, .. } in found {
            let program = self.run.name(process);
            let kind = without_numbers(&what);
            let at = source.as_ref().map(|source| source.to_string()).unwrap_or_default();
            let new = Finding {
                rule,
                process,
                program,
                place: place.clone(),
                others: 0,
                what,
                t,
                last: t,
                times: 0,
                source,
            };
            let (finding, places) =
                self.findings.entry((rule, process, kind, at)).or_insert((new, BTreeSet::new()));
            finding.times += 1;
            finding.last = finding.last.max(t);
            places.insert(place);
            finding.others = places.len() as u64 - 1;
        }
    }

    /// Programs, with their process ids, without the findings that need their polls, as these are not on record.
    pub fn unseen(&self) -> Vec<String> {
        self.unseen.keys().map(|process| self.run.name(*process)).collect()
    }

    /// All that was found, in the order of time.
    pub fn end(mut self) -> Vec<Finding> {
        let mut found = Vec::new();
        let is_partial = self.run.is_partial;
        let asked = self.rules.iter_mut().filter(|rule| !(is_partial && rule.needs_all()));
        asked.for_each(|rule| rule.end(&self.run, &mut found));
        self.sort(found);
        let findings = self.findings.into_values();
        let mut findings: Vec<Finding> = findings.map(|(finding, _)| finding).collect();
        findings.sort_by_key(|finding| finding.t);
        findings
    }
}
