//! Data of a run for the page's script, as JSON.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::layout::Layout;
use super::references;
use super::source::Sources;
use super::svg;
use crate::correlation::{Correlation, queue_pairs};
use crate::description::Description;
use crate::entry::What;
use crate::words;

/// Of each entry that is shown its time, kind, name, participant, members, groups, nanoseconds, lines of source,
/// thread, queue pairs and what there is to read; the groups, threads and queue pairs, the entries that use a memory
/// region, the lines, and the texts to read.
pub(super) fn data(correlation: &Correlation<'_>, layout: &Layout, sources: &Sources) -> String {
    let mut entries = Map::new();
    let mut groups = Map::new();
    let mut texts = Map::new();
    let shown = |at: &usize| layout.positions[*at].is_some();
    let threads = Threads::of(correlation);
    let queue_pairs = queue_pairs::of_entries(correlation);
    for at in (0..correlation.entries.len()).filter(shown) {
        let entry = &correlation.entries[at];
        let of = &correlation.groups_of[at];
        for &group in of {
            // A group has to be seen at a glance.
            let shown: Vec<_> =
                correlation.groups[group].iter().filter(|at| shown(at)).take(64).collect();
            groups.insert(group.to_string(), json!(shown));
        }
        let to_read = entry.place().and_then(|place| sources.references.of(place));
        texts.extend(to_read.map(|at| (at.to_string(), json!(sources.references.texts(at)))));
        let value = json!([
            svg::time_and_unit(correlation, entry.t),
            Description::of(entry).kind,
            correlation.label(at).name,
            correlation.participants[correlation.participant[at]].title,
            members(correlation, at),
            of,
            entry.t,
            entry.place().and_then(|place| sources.of(place)),
            threads.number(correlation, at),
            queue_pairs[at],
            to_read,
        ]);
        entries.insert(at.to_string(), value);
    }
    let mut regions = Map::new();
    for region in &correlation.regions {
        let users: Vec<_> = region.users.iter().filter(|at| shown(at)).collect();
        for at in [Some(region.at), region.ended].into_iter().flatten().filter(shown) {
            regions.insert(at.to_string(), json!([region.users.len(), users]));
        }
    }
    let data = json!({
        "entries": entries,
        "groups": groups,
        "threads": threads.names,
        "queuePairs": own_queue_pairs(correlation),
        "regions": regions,
        "sources": sources.all(),
        "references": texts,
    });
    // The end of a script must not be in it.
    data.to_string()
        .replace('<', "\\u003c")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

/// All that there is to say of an entry, as names and values.
fn members(correlation: &Correlation<'_>, at: usize) -> Vec<[String; 2]> {
    let entry = &correlation.entries[at];
    let mut members = Vec::new();
    members.extend(correlation.numbers[at].map(|number| ("work request".into(), number.text())));
    members.extend(met(correlation, at).map(|met| ("met".into(), met)));
    members.extend(words::members(entry));
    if let Some(by) = entry.by {
        members.push(("done by".into(), by_name(correlation, by)));
    }
    if let Some(place) = entry.place() {
        members.extend(place.call.iter().map(|call| ("call".into(), call.clone())));
        let page = place.call.as_deref().and_then(references::manual_page);
        members.extend(page.map(|page| ("manual page".into(), page)));
        members.push(("called in".into(), place.to_string()));
    }
    if let Some(beneath) = correlation.beneath.get(&at) {
        members.push(("commands".into(), commands(correlation, beneath)));
    }
    members.extend(correlation.reason(at).map(|why| ("reason".into(), why)));
    members.into_iter().map(|(name, value)| [name, value]).collect()
}

/// The counterpart of a work request at the other side: of a send the receives that took it, of a receive its send.
fn met(correlation: &Correlation<'_>, at: usize) -> Option<String> {
    let transfer = correlation.transfer_of(at)?;
    let is_receive = |at: &usize| {
        transfer.arrivals.iter().any(|one| one.receive == Some(*at) || one.completion == Some(*at))
    };
    let others: Vec<usize> = match is_receive(&at) {
        true => transfer.posted.into_iter().collect(),
        false => transfer.arrivals.iter().filter_map(|one| one.receive).collect(),
    };
    let name = |at: &usize| {
        let title = &correlation.participants[correlation.participant[*at]].title;
        correlation.numbers[*at].map(|number| format!("{} ({title})", number.text()))
    };
    let names: Vec<String> = others.iter().filter_map(name).collect();
    (!names.is_empty()).then(|| names.join("; "))
}

/// The threads that can be chosen: each participant's name, with that of the thread where it has several.
struct Threads {
    names: Vec<String>,
    /// The number of each participant's first.
    first: Vec<usize>,
}

impl Threads {
    fn of(correlation: &Correlation<'_>) -> Self {
        let mut threads = Self { names: Vec::new(), first: Vec::new() };
        for (number, name) in names(correlation).into_iter().enumerate() {
            threads.first.push(threads.names.len());
            let count = correlation.threads.count(number);
            threads.names.extend((0..count).map(|thread| match count {
                1 => name.clone(),
                _ => format!("{name}, thread {}", correlation.threads.name(number, thread)),
            }));
        }
        threads
    }

    /// The number of an entry's thread; none of what no thread has done, but where its process has only one.
    fn number(&self, correlation: &Correlation<'_>, at: usize) -> Option<usize> {
        let participant = correlation.participant[at];
        let alone = || (correlation.threads.count(participant) == 1).then_some(0);
        let thread = correlation.threads.told_apart(at).or_else(alone)?;
        Some(self.first[participant] + thread)
    }
}

/// Each participant's name: the first word of its command line, or as much as it takes to tell it from the others.
fn names(correlation: &Correlation<'_>) -> Vec<String> {
    let all = &correlation.participants;
    let program = |number: usize| all[number].title.split(' ').next().unwrap_or("").to_owned();
    let title = |number: usize| all[number].title.clone();
    let whole = |number: usize| format!("{}, {}", all[number].title, all[number].subtitle);
    let is_alone = |name: &dyn Fn(usize) -> String, number: usize| {
        (0..all.len()).filter(|other| name(*other) == name(number)).count() == 1
    };
    let name = |number: usize| {
        if is_alone(&program, number) {
            program(number)
        } else if is_alone(&title, number) {
            title(number)
        } else {
            whole(number)
        }
    };
    (0..all.len()).map(name).collect()
}

/// Queue pairs, each with whose it is.
fn own_queue_pairs(correlation: &Correlation<'_>) -> Vec<Value> {
    let own = correlation.run.qps.iter();
    let own =
        own.filter_map(|(number, qp)| Some((*correlation.of_process.get(&qp.process)?, *number)));
    let all: BTreeSet<(usize, u32)> = own.collect();
    let names = names(correlation);
    all.into_iter().map(|(participant, qp)| json!([qp, names[participant]])).collect()
}

/// Commands, each once with how often it was given.
fn commands(correlation: &Correlation<'_>, beneath: &[usize]) -> String {
    let name = |at: &usize| match &correlation.entries[*at].what {
        What::Call(call) => Some(&call.name),
        _ => None,
    };
    let word = |(name, times): &(&String, u64)| match times {
        1 => name.to_string(),
        times => format!("{name}, {times} times"),
    };
    words::counted(beneath.iter().filter_map(name)).iter().map(word).collect::<Vec<_>>().join("; ")
}

fn by_name(correlation: &Correlation<'_>, process: u32) -> String {
    match correlation.of_process.get(&process) {
        Some(&by) => format!("{}, in its name", correlation.participants[by].title),
        None => format!("process {process}, in its name"),
    }
}
