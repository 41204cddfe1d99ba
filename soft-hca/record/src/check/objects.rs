//! What a process has created and not destroyed.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Found, Rule, done, source};
use crate::entry::{Call, Entry, What};
use crate::place::Place;
use crate::value::{Name, Named, Value};

/// Objects that are there, by process and name.
#[derive(Debug, Default)]
pub(super) struct Objects(HashMap<u32, HashMap<Name, Known>>);

/// What is known of objects of a name.
#[derive(Debug, Default)]
struct Known {
    /// How many there are, as handles are a device file's.
    count: u32,
    /// Where the last of them was created.
    source: Option<Arc<Place>>,
}

/// The object that is named first, of those that a program has to destroy.
fn first(values: &[Named]) -> Option<Name> {
    values.iter().find_map(|Named(_, value)| match value {
        Value::Name(
            name @ (Name::Pd(_)
            | Name::Mr(_)
            | Name::Mw(_)
            | Name::Cq(_)
            | Name::Qp(_)
            | Name::Srq(_)
            | Name::Ah(_)
            | Name::CmId(_)),
        ) => Some(*name),
        _ => None,
    })
}

fn begins(call: &Call, words: &[&str]) -> bool {
    words.iter().any(|word| call.name.starts_with(word))
}

impl Objects {
    pub(super) fn entry(&mut self, entry: &Entry, found: &mut Vec<Found>) {
        match &entry.what {
            What::Call(call) => self.call(entry, call),
            What::ConnectionEvent(event) if event.listen_id.is_some() => {
                self.add(entry, Name::CmId(event.id));
            }
            What::ProcessEnded { exit_by: Some(_), unacknowledged } => {
                let left = self.0.remove(&entry.process).unwrap_or_default();
                // Who has not acknowledged its events cannot destroy it.
                let can_go = |name: &Name| unacknowledged.iter().all(|other| other.of != *name);
                let is_left = |(name, known): &(Name, Known)| known.count > 0 && can_go(name);
                let mut left: Vec<(Name, Known)> = left.into_iter().filter(is_left).collect();
                left.sort_unstable_by_key(|(name, _)| *name);
                for of_kind in left.chunk_by(|a, b| a.0.kind() == b.0.kind()) {
                    let kind = of_kind[0].0.kind();
                    let numbers = of_kind.iter().map(|(name, _)| name.to_string());
                    let numbers = numbers.collect::<Vec<_>>().join(", ");
                    found.push(Found {
                        rule: Rule::Leaked,
                        process: entry.process,
                        place: kind.into(),
                        what: format!("the program ended with {kind} {numbers} not destroyed"),
                        t: entry.t,
                        source: of_kind[0].1.source.clone(),
                    });
                }
            }
            _ => {}
        }
    }

    fn call(&mut self, entry: &Entry, call: &Call) {
        let Some((asked, given)) = done(call) else { return };
        if begins(call, &["ibv_destroy_", "ibv_dealloc_", "ibv_dereg_", "rdma_destroy_id"]) {
            if let Some(name) = first(asked) {
                let known = self.0.entry(entry.process).or_default().entry(name).or_default();
                known.count = known.count.saturating_sub(1);
            }
        } else if begins(call, &["ibv_create_", "ibv_alloc_", "ibv_reg_", "rdma_create_id"]) {
            if let Some(name) = first(given) {
                self.add(entry, name);
            }
        }
    }

    fn add(&mut self, entry: &Entry, name: Name) {
        let known = self.0.entry(entry.process).or_default().entry(name).or_default();
        known.count += 1;
        known.source = source(entry);
    }
}
