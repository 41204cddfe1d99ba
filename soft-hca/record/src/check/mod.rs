//! What a program got away with: mistakes that a run has survived and another adapter, another machine or
//! another order of events does not.
//!
//! | module | what it is |
//! | --- | --- |
//! | `rule` | the rules, why each matters, and what to do |
//! | `found` | what one of them finds |
//! | `objects` | what was created and is still there |
//! | `events` | events that are not acknowledged |
//! | `arming` | completion queues that are armed and not polled |
//! | `limit` | limits of shared receive queues |
//! | `path` | what both ends of a connection set alike |
//! | `hook` | whose polls are on record |
//! | `extended_polls` | completions that extended polls have given twice |
//! | `fork` | what a child of `fork` does |
//! | `queue_pair`, `memory` | a queue pair with its requests; the memory that they use |
//! | `connection` | what comes too early in a connection |
//! | `buffers` | who else writes to a process's memory |
//! | `queues` | the rules about them |
//! | `polled_memory` | who waits for RDMA writes by watching memory |
//! | [`report`] | findings as text, JSON and SARIF |

mod arming;
mod buffers;
mod connection;
mod events;
mod extended_polls;
mod fork;
mod found;
mod hook;
mod limit;
mod memory;
mod objects;
mod path;
mod polled_memory;
mod queue_pair;
mod queues;
pub mod report;
mod rule;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde::Serialize;
use soft_hca_verbs::Refusal;

use crate::entry::{Call, Entry, Outcome, SendPosted, What};
use crate::place::Place;
use crate::text::short_name;
use crate::value::{Named, Value};
use arming::Arming;
use connection::Connections;
use events::Events;
use extended_polls::ExtendedPolls;
use found::{Found, done, source};
use limit::Limits;
use objects::Objects;
use path::Paths;
use polled_memory::PolledMemory;
use queues::Queues;

pub use rule::Rule;

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
    /// What was found, with values; of what has happened more than once the first.
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

/// What is one finding: of a rule and a process, what was found without its values, and the place in the
/// source.
type Kind = (Rule, u32, String, String);

/// Finds what is against the rules, entry after entry.
#[derive(Debug, Default)]
pub struct Checker {
    programs: HashMap<u32, String>,
    objects: Objects,
    events: Events,
    arming: Arming,
    limits: Limits,
    paths: Paths,
    connections: Connections,
    queues: Queues,
    polled_memory: PolledMemory,
    extended_polls: ExtendedPolls,
    findings: BTreeMap<Kind, (Finding, BTreeSet<String>)>,
    is_partial: bool,
    /// The adapter whose limits the device has.
    like: Option<String>,
    /// It has no atomic operations.
    lacks_atomics: bool,
}

impl Checker {
    /// At the beginning of a record.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same of a run whose device has the limits of this adapter: what it refuses is found, too.
    pub fn like(adapter: Option<String>) -> Self {
        Self { like: adapter, ..Self::default() }
    }

    /// The same of an adapter that has no atomic operations, where that is so: those that are posted are found.
    pub fn without_atomics(self, lacks_atomics: bool) -> Self {
        Self { lacks_atomics, ..self }
    }

    /// The same of a run whose ports have P_Key tables of so many entries, and not of one.
    pub fn with_pkeys(mut self, pkeys: u16) -> Self {
        self.queues.pkeys = pkeys;
        self
    }

    /// Another entry.
    pub fn entry(&mut self, entry: &Entry) {
        match &entry.what {
            What::ProcessBegan { pid, role, command, .. } => {
                let program = format!("{}[{pid}]", short_name(*role, command));
                self.programs.insert(entry.process, program);
            }
            // What is missing may have been what is needed.
            What::Dropped { .. } => {
                self.is_partial = true;
                self.queues.forget();
                self.arming.forget();
            }
            _ => {}
        }
        let mut found = Vec::new();
        if !self.is_partial {
            self.objects.entry(entry, &mut found);
            self.connections.entry(entry, &mut found);
            self.polled_memory.entry(entry, &mut found);
            self.limits.entry(entry, &mut found);
            self.paths.entry(entry, &mut found);
            self.extended_polls.entry(entry, &mut found);
        }
        self.events.entry(entry, &mut found);
        self.arming.entry(entry, &mut found);
        found.extend(fork::found(entry));
        self.queues.entry(entry, &mut found);
        match (&self.like, &entry.what) {
            (Some(adapter), What::Call(call)) => found.extend(refused(adapter, entry, call)),
            (Some(adapter), What::SendPosted(posted)) if self.lacks_atomics => {
                found.extend(no_atomic(adapter, entry, posted));
            }
            _ => {}
        }
        self.add(found);
    }

    fn add(&mut self, found: Vec<Found>) {
        for Found { rule, process, place, what, t, source } in found {
            let program = self.programs.get(&process).cloned().unwrap_or_default();
            let is_value = |word: &&str| word.contains(|c: char| c.is_ascii_digit());
            let kind = what.split(' ').filter(|word| !is_value(word)).collect::<Vec<_>>().join(" ");
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
        let programs = self.queues.unseen().into_iter();
        programs.filter_map(|process| self.programs.get(&process).cloned()).collect()
    }

    /// All that was found, in the order of time.
    pub fn end(mut self) -> Vec<Finding> {
        let mut found = Vec::new();
        self.queues.end(&mut found);
        self.events.end(&mut found);
        self.arming.end(&mut found);
        if !self.is_partial {
            self.limits.end(&mut found);
            std::mem::take(&mut self.extended_polls).end(&mut found);
        }
        self.add(found);
        let findings = self.findings.into_values();
        let mut findings: Vec<Finding> = findings.map(|(finding, _)| finding).collect();
        findings.sort_by_key(|finding| finding.t);
        findings
    }
}

/// A call that was refused because the device has less than it asks for, or none of it.
fn refused(adapter: &str, entry: &Entry, call: &Call) -> Option<Found> {
    // Others of a call's limits are the specification's, or a port's.
    let Outcome::Refused { error, reason: Some(Refusal::DeviceLimit(limit)), values } =
        &call.result
    else {
        return None;
    };
    let number = |name: &str| {
        values.iter().find_map(|Named(of, value)| match value {
            Value::Number(number) if of == name => Some(*number),
            _ => None,
        })
    };
    let what = match (number("asked for"), number("limit")) {
        (Some(asked), Some(most)) => format!("{error}: {limit}: {asked} of {most}"),
        _ => format!("{error}: {limit}"),
    };
    Some(Found {
        rule: Rule::Refused,
        process: entry.process,
        place: call.name.clone(),
        what: format!("like {adapter}, {what}"),
        t: entry.t,
        source: source(entry),
    })
}

/// An atomic operation that is posted to a device that has none.
fn no_atomic(adapter: &str, entry: &Entry, posted: &SendPosted) -> Option<Found> {
    posted.opcode.is_atomic().then(|| Found {
        rule: Rule::Refused,
        process: entry.process,
        place: format!("qp {}", posted.qp),
        what: format!("like {adapter}, the device has no atomic operations: {}", posted.opcode),
        t: entry.t,
        source: source(entry),
    })
}
